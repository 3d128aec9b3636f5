"""The transposes of threads and memory, and their harness: it sees every planted mistake."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from phasebit import files, hardware, process, toolchain
from phasebit.edits import replace_once
from tests.kernels import targets
from tests.kernels.emulated import emulate
from tests.kernels.targets import run

needs_gpu = pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU here")
SOURCE = files.kernel("threads_and_memory/transpose")
BOUNDS = "if (x < cols && y < rows) out[x * rows + y]"

# what the file says, what the mistake says, a pattern of the verdict
MISTAKES: dict[str, tuple[str, str, str]] = {
    "rows and columns exchanged": ("out[x * rows + y]", "out[x * cols + y]", "naive"),
    "it copies": ("out[x * rows + y]", "out[y * cols + x]", "wrong result: naive"),
    "no bound below": (BOUNDS, "if (x < cols) out[x * rows + y]", "naive"),
    "no bound at the right": (BOUNDS, "if (y < rows) out[x * rows + y]", "naive"),
    "a row is left out": (BOUNDS, BOUNDS.replace("y < rows", "y < rows && y != 31"), "not written"),
    "nobody waits for the tile": ("__syncthreads();  // the tile is full", "", "tiled|race"),
    "the tile is not turned": ("tile[threadIdx.x][j];", "tile[j][threadIdx.x];", "tiled"),
}  # fmt: skip


def planted(name: str) -> str:
    right, wrong, _ = MISTAKES[name]
    return SOURCE.replace(right, wrong)


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_fits_the_file(name: str) -> None:
    assert planted(name) != SOURCE


@pytest.mark.nvcc
def test_right_on_the_emulator() -> None:
    done = emulate(SOURCE)
    assert done.ok and not done.stderr, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4 and all("OK, every bit" in line for line in lines)


@pytest.mark.nvcc
@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_is_seen_on_the_emulator(name: str) -> None:
    done = emulate(planted(name), right=SOURCE)
    pattern = MISTAKES[name][2].split("|")
    assert not done.ok or "race" in done.stderr
    assert any(word in done.stdout + done.stderr for word in pattern), done.stderr


@pytest.mark.gpu
@needs_gpu
def test_right_and_timed() -> None:
    done: process.Finished = run(SOURCE)
    assert done.ok, done.stdout + done.stderr
    assert done.stdout.count("OK, every bit") == 4 and done.stdout.count("⏱") == 5


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("name", "chips"),
    [
        ("threads_and_memory/transpose", targets.ALL),
        ("threads_and_memory/bandwidth", ["sm_75"]),
        ("threads_and_memory/latencies", ["sm_75"]),
        ("threads_and_memory/one_way", ["sm_75"]),
        ("threads_and_memory/divergence", ["sm_75"]),
        ("threads_and_memory/halves", ["sm_75", "sm_90a"]),
    ],
)
def test_compiles_without_spills_or_warnings(name: str, chips: Sequence[str]) -> None:
    build = targets.assemble(files.kernel(name), *chips)
    assert build.warnings == "" and not any(use.spills for use in build.resources)


@pytest.mark.nvcc
def test_the_program_of_occupancy_compiles() -> None:
    build = toolchain.build(files.kernel("threads_and_memory/occupancy"), target="sm_75")
    assert build.warnings == "" and not any(use.spills for use in build.resources)


def bandwidth() -> str:
    """``bandwidth`` on arrays copied in a moment by the emulator, each once."""
    text = files.kernel("threads_and_memory/bandwidth")
    for large, small in {
        "COUNT = 1u << 26": "COUNT = 1u << 13",
        ">> (26 - log)": ">> (13 - log)",
        "WARM_UP = 5, ROUNDS = 20": "WARM_UP = 0, ROUNDS = 1",
    }.items():
        text = replace_once(text, large, small)
    return text


COPIES = {
    "the turned number loses its upper bits": ("| i >> (13 - log);", ";", "stride 2"),
    "a quarter is not copied": ("k < 4; ++k) out", "k < 3; ++k) out", "stride 1"),
    "the last turn is left out": ("i < COUNT; i +=", "i < COUNT - THREADS; i +=", "resident"),
    "two of four stores agree": ("out[i + step] = b", "out[i + step] = a", "wide"),
    "the rest is forgotten": ("for (; i < COUNT / 4; i += step) out[i] = in[i];", "", "wide"),
}  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize("name", COPIES)
def test_a_copy_that_is_none_is_seen_before_it_is_timed(name: str, tmp_path: Path) -> None:
    right, wrong, where = COPIES[name]
    mistaken = replace_once(bandwidth(), right, wrong)
    done = emulate(mistaken, "--json", f"{tmp_path}/times.json", right=bandwidth())
    assert not done.ok and "the copy is wrong" in done.stderr, done.stdout + done.stderr
    assert where in done.stderr


@pytest.mark.nvcc
def test_the_copies_are_right_on_the_emulator(tmp_path: Path) -> None:
    done = emulate(bandwidth(), "--json", f"{tmp_path}/times.json")
    assert done.ok and not done.stderr, done.stderr


WALKS = {
    "a step too few": ("step < STEPS; ++step) at = ring", "step < STEPS - 1; ++step) at = ring",
                       "shared memory: the walk ended"),
    "no warm-up": ("step < warm; ++step) at = __ldca", "step < warm - 1; ++step) at = __ldca",
                   "KiB: the walk ended"),
}  # fmt: skip


@pytest.mark.nvcc
def test_the_walks_end_where_they_should_on_the_emulator() -> None:
    done = emulate(files.kernel("threads_and_memory/latencies"))
    assert done.ok and not done.stderr, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and all("ends where it should" in line for line in lines)


@pytest.mark.nvcc
@pytest.mark.parametrize("name", WALKS)
def test_a_walk_that_ends_elsewhere_is_seen(name: str) -> None:
    right, wrong, said = WALKS[name]
    text = files.kernel("threads_and_memory/latencies")
    done = emulate(replace_once(text, right, wrong), right=text)
    assert not done.ok and said in done.stderr, done.stdout + done.stderr


ONE_WAY = {
    "the turned number loses its upper bits": (" | i >> (bits - log);", ";"),
    "an element is not stored": ("    out[place(i, log, bits)] = log + 1;",
                                 "    if (i) out[place(i, log, bits)] = log + 1;"),
}  # fmt: skip


@pytest.mark.nvcc
def test_one_way_touches_every_element() -> None:
    text = files.kernel("threads_and_memory/one_way")
    for arguments in ((), ("32",)):
        done = emulate(text, *arguments)
        assert done.ok and done.stdout == "one way: OK, every element once\n", done.stderr


@pytest.mark.nvcc
@pytest.mark.parametrize("name", ONE_WAY)
def test_one_way_sees_what_it_left_out(name: str) -> None:
    right, wrong = ONE_WAY[name]
    text = files.kernel("threads_and_memory/one_way")
    done = emulate(replace_once(text, right, wrong), right=text)
    assert not done.ok and "WRONG" in done.stdout
