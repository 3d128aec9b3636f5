"""Programs that launch a kernel of the book several times without a wait between.

They take the host half of a kernel's harness, and a main of their own: three problems, in two
streams and with other shapes, are under way together; each result is compared afterwards, and one
problem has an infinity and a NaN in it.
"""

from __future__ import annotations

from phasebit import files, process, toolchain
from tests.kernels.emulated import emulate

SHAPES = "{{130, 264, 144}, {1, 8, 16}, {129, 272, 80}}"
"""M, N, K of the three problems: ragged, tiny, thin. Enough for the emulator."""
LARGE = "{{1000, 1032, 528}, {129, 2056, 1040}, {2050, 520, 272}}"
"""The same for a GPU."""

_MAIN = """
#define main main_of_the_harness
{include}
#undef main
#include <memory>

int main() {{
    struct {{ int M, N, K; }} shapes[] = {shapes};
    cudaStream_t streams[2];
    for (auto& stream : streams)
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    std::mt19937 random(15);
    std::vector<std::unique_ptr<UnderWay>> all;
    for (auto [M, N, K] : shapes)
        all.emplace_back(new UnderWay(M, N, K, random, all.size() == 2));
    CHECK(cudaDeviceSynchronize());
    for (size_t i = 0; i < all.size(); ++i) all[i]->begin(streams[i % 2]);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaGetLastError());
    for (auto& each : all)
        if (!each->right()) return puts("wrong"), 2;
    puts("right");
}}
"""


def program(text: str, include: str, problem: str, shapes: str = SHAPES) -> str:
    """A kernel's text with such a main.

    ``include``: the harness's line. ``problem``: ``struct UnderWay``, made from M, N, K, a source
    of random numbers and whether an infinity and a NaN are among the operands; ``begin(stream)``
    launches, ``right()`` compares.
    """
    assert text.count(include) == 1
    main = _MAIN.format(include=include, shapes=shapes)
    head, tail = main.split("#include <memory>\n")
    return text.replace(include, f"{head}#include <memory>\n{problem}{tail}")


def header(name: str) -> str:
    """A header of the kernels, to be put in place of its include."""
    text = (files.kernels() / f"{name}.cuh").read_text("utf-8")
    return text.replace("#pragma once\n", "")


def said(text: str) -> str:
    """What it prints on the emulator."""
    return emulate(text).stdout


def on_the_emulator(text: str, schedule: str) -> None:
    """Run it; nothing is found, everything is right."""
    done = emulate(text, schedule=schedule, timeout=300, limit=280)
    assert (done.stdout, done.stderr) == ("right\n", ""), done.stdout + done.stderr[:3000]


def on_the_gpu(text: str) -> None:
    """The same on this machine's GPU, three times."""
    built = toolchain.build(text, target="sm_90a").program
    for _ in range(3):
        done = process.run([built], timeout=300)
        assert (done.stdout, done.stderr) == ("right\n", ""), done.stdout + done.stderr[:3000]


