"""Runs in which one thing of *Attention* is otherwise: blocks at once, turns, and the numbers.

What the ladder leaves open: why two groups gain nothing for heads of 64, whether the second rung
needs its named barriers, and why products alone are slower than the whole kernel. Each contender
comes with the clock of the multiprocessors.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.attention import attend, launched, rungs
from phasebit.chapters.attention.rungs import CUDNN, HEADS, TOKENS
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch, clocks

NAME = "attention_controls"
LENGTH = 4096
CASES = ((64, False), (64, True), (128, False))
PERSISTENT, NO_EXPONENTIALS, PRODUCTS = "persistent", "no exponentials", "products alone"
RANDOM, ZEROS = "normal random", "all zero"
_ROUNDS, _REST, _WARM, _EACH = 8, 0.01, 2, 4

_AT_ONCE = """
extern "C" int at_once(int D) {
    int count;
    if (D == 64)
        CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, attention<64, false>, THREADS,
                                                            shared_bytes<64>()));
    else
        CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, attention<128, false>, THREADS,
                                                            shared_bytes<128>()));
    return count;
}
"""


def with_shared(kib: int) -> str:
    """The first rung with at least so many KiB of shared memory for a block, most of it unused."""
    bytes_ = (
        f"template <int D> constexpr int shared_bytes() {{\n"
        f"    return std::max(int(sizeof(Shared<D>)), {kib} * 1024);\n}}\n"
    )
    edits = (
        ("MaxDynamicSharedMemorySize,\n                               sizeof(Shared<D>)",
         "MaxDynamicSharedMemorySize,\n                               shared_bytes<D>()"),
        ("THREADS, sizeof(Shared<D>), a.stream", "THREADS, shared_bytes<D>(), a.stream"),
        ("template <int D, bool CAUSAL> void launch(",
         bytes_ + "template <int D, bool CAUSAL> void launch("),
        ('#include "attention/attention_harness.cuh"',
         '#include "attention/attention_harness.cuh"' + _AT_ONCE),
    )  # fmt: skip
    return replace_each(attend.flat(attend.ONE_GROUP), edits, attend.ONE_GROUP)


def without_turns() -> str:
    """The second rung without its named barriers."""
    edits = (
        ("void wait_for_turn(int group) { ptx::bar_sync(1 + group, 2 * 128); }",
         "void wait_for_turn(int) {}"),
        ("void give_turn(int group) { ptx::bar_arrive(1 + (group + 1) % GROUPS, 2 * 128); }",
         "void give_turn(int) {}"),
    )  # fmt: skip
    return replace_each(attend.flat(attend.PING_PONG), edits, attend.PING_PONG)


TEXTS: dict[str, Callable[[], str]] = {
    "one group": lambda: with_shared(0),
    "one group, 100 KiB a block": lambda: with_shared(100),
    "one group, 200 KiB a block": lambda: with_shared(200),
    "ping-pong": lambda: rungs.text("ping-pong"),
    "ping-pong, no named barriers": without_turns,
    PERSISTENT: lambda: rungs.text(PERSISTENT),
    NO_EXPONENTIALS: lambda: rungs.text(NO_EXPONENTIALS),
    PRODUCTS: lambda: rungs.text(PRODUCTS),
}
"""Contender -> its text."""
ON_ZEROS = (PERSISTENT, NO_EXPONENTIALS, PRODUCTS)


def build(name: str) -> toolchain.Build:
    """A contender as a library."""
    return toolchain.build(TEXTS[name](), name=NAME, target="sm_90a", library=True)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    loaded = clocks.libraries(build, TEXTS)
    times = [
        _side_by_side(torch, loaded, d, causal, data)
        for d, causal in CASES for data in (RANDOM, ZEROS)
    ]  # fmt: skip
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **clocks.protocol(_ROUNDS, _REST, warm=_WARM, each=_EACH),
            "inputs": f"normal random bf16 numbers, {HEADS} heads, {TOKENS} tokens in all, "
            f"{LENGTH} in a sequence; and the same with all numbers zero",
            "shared": "a block of the first rung with more shared memory than it uses, so that "
            "fewer of them lie on a multiprocessor at once; at_once: how many, as the runtime says",
            "rivals": f"torch {torch.__version__}, scaled_dot_product_attention with the backend "
            "of cuDNN, same process, by turns",
        },
        "at_once": {
            name: {str(d): _at_once(loaded[name], name, d) for d in (64, 128)}
            for name in TEXTS if name.startswith("one group")
        },
        "times": times,
    }  # fmt: skip


def _at_once(library: ctypes.CDLL, name: str, d: int) -> int:
    """Blocks of a multiprocessor at once, asked after a launch, which raises the limit on shared
    memory; until then the runtime answers 0."""
    blocks = int(library.at_once(d))
    if blocks < 1:
        raise toolchain.CudaError(f"the runtime says that no block of {name}, heads of {d}, fits")
    return blocks


def _side_by_side(
    torch: Any, loaded: dict[str, ctypes.CDLL], d: int, causal: bool, data: str
) -> dict[str, Any]:
    shape = (TOKENS // LENGTH, HEADS, LENGTH, d)
    draw = torch.randn if data == RANDOM else torch.zeros
    q, k, v = (draw(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    o = torch.empty_like(q)
    tensors = q, k, v, o
    names = list(TEXTS) if data == RANDOM else list(ON_ZEROS)
    launches = {name: launched.ours(torch, loaded[name], tensors, causal) for name in names}
    cudnn = launched.torchs(torch, tensors, causal)[CUDNN]
    right = cudnn()
    for name in names:
        if name in (NO_EXPONENTIALS, PRODUCTS):
            continue
        o.fill_(float("nan"))
        launches[name]()
        if not bool(((o - right).abs() <= 0.02 + 0.02 * right.abs()).all()):
            raise toolchain.CudaError(f"{name} differs from cuDNN's attention for heads of {d}")
    launches[CUDNN] = cudnn
    found = clocks.times(torch, launches, _ROUNDS, _REST, warm=_WARM, each=_EACH)
    return {"d": d, "causal": causal, "sequence": LENGTH, "inputs": data, "contenders": found}
