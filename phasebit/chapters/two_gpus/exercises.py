"""Checks of *Two GPUs*."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

from phasebit.chapters.two_gpus import on_peers
from phasebit.edits import replace_once
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, judged
from phasebit.exercises.written import compiling, written

SCHEDULES = "late", "eager", "random"


@judged
def columns(answer: Callable[[float, float, int], int]) -> str:
    """``answer(tflops, gbytes, size)``: columns of B from which an all-gather can be hidden.

    A number of a row has ``size`` bytes.
    """
    draw = random.Random(251)

    def cases() -> Iterator[Case]:
        asked = [(700, 400, 2), (700, 50, 2), (1400, 400, 1), (1400, 700, 1), (500, 400, 4)]
        asked += [(draw.randint(100, 2000), draw.randint(20, 900), draw.choice((1, 2, 4)))
                  for _ in range(30)]  # fmt: skip
        for tflops, gbytes, size in asked:
            yield (tflops, gbytes, size), -(-size * tflops * 1000 // (2 * gbytes))

    def words(tflops: float, gbytes: float, size: int) -> str:
        return f"{tflops} TFLOP/s, {gbytes} GB/s and {size} bytes a number"

    return agree(answer, cases(), words, "links")


FLAGS = ("__device__ inline void raise(unsigned* flag, unsigned turn) {",
         "__device__ inline void wait_for(const unsigned* flag, unsigned turn) {")  # fmt: skip
_OWN_FLAGS = re.compile(
    r"__device__ inline void raise\(.*?^\}.*?__device__ inline void wait_for\(.*?^\}\n",
    re.DOTALL | re.MULTILINE,
)


def with_flags(answer: str, kernel: str) -> str:
    """A kernel of the chapter whose flags are a reader's."""
    text, found = _OWN_FLAGS.subn(lambda _: answer.strip() + "\n", on_peers.source(kernel))
    if found != 1:
        raise ValueError(f"{kernel} has no functions raise and wait_for")
    return text


@judged
def flags(answer: str) -> str:
    """``raise`` and ``wait_for``, in CUDA; two kernels run with them on two devices."""
    written(answer, FLAGS, "two functions")
    if re.search(r"\basm\b", answer):
        raise Wrong("leave out asm: volatile accesses and __threadfence_system() do")
    for kernel in (on_peers.REDUCE, on_peers.MULTIPLY):
        for schedule in SCHEDULES:
            _right(with_flags(answer, kernel), on_peers.source(kernel), kernel, schedule)
    return "2 kernels under 3 schedules, no finding"


REDUCES = ("__global__ void multiply_reduce(Link link, const float* X, const float* W, float* Y, "
           "int device, unsigned turn) {")  # fmt: skip
_OWN_REDUCE = re.compile(
    r"__global__ void multiply_reduce\(.*?^\}\n", re.DOTALL | re.MULTILINE
)


def with_one_block(answer: str) -> str:
    """Product and reduce-scatter by a reader's kernel, a block for each tile that is sent."""
    text = on_peers.source(on_peers.REDUCE)
    text = replace_once(text, "<<<2 * TILES, THREADS>>>", "<<<TILES, THREADS>>>")
    return _OWN_REDUCE.sub(lambda _: answer.strip() + "\n", text, count=1)


@judged
def one_block(answer: str) -> str:
    """The kernel ``multiply_reduce``, in which one block sends a tile and adds another."""
    written(answer, [REDUCES], "kernel")
    host = with_one_block(REDUCES + "\n}\n")
    for schedule in SCHEDULES:
        _right(with_one_block(answer), host, "product, reduce-scatter", schedule)
    return "8 launches under 3 schedules, no finding"


SIGNATURE = ("__global__ void gather(Link link, const float* own, float* all, int device, "
             "unsigned turn) {")  # fmt: skip
_OWN_KERNEL = re.compile(r"__global__ void gather\(.*?^\}\n", re.DOTALL | re.MULTILINE)


def with_one_slot(answer: str) -> str:
    """The all-gather whose kernel is a reader's, with one slot, and flags that say it is empty."""
    text = on_peers.with_harness(on_peers.source(on_peers.GATHER))
    text = replace_once(text, "constexpr int SLOTS = 2;", "constexpr int SLOTS = 1;")
    text = replace_once(
        text, "    const unsigned* full;  // one for each tile, here\n",
        "    const unsigned* full;  // one for each tile, here\n"
        "    unsigned* there_empty; // with the peer: raised when its tile has been read here\n"
        "    const unsigned* empty; // here: the peer raises it when it has read what we sent\n",
    )  # fmt: skip
    text = replace_once(text, "on_device<unsigned>(TILES, 0)", "on_device<unsigned>(2 * TILES, 0)")
    text = replace_once(
        text, "slots[d], full[d]}", "slots[d], full[d], full[1 - d] + TILES, full[d] + TILES}"
    )
    return _OWN_KERNEL.sub(lambda _: answer.strip() + "\n", text, count=1)


@judged
def one_slot(answer: str) -> str:
    """The kernel ``gather``, with one slot and a flag that says it is empty."""
    written(answer, [SIGNATURE], "kernel")
    host = with_one_slot(SIGNATURE + "\n}\n")
    for schedule in SCHEDULES:
        _right(with_one_slot(answer), host, "all-gather with one slot", schedule)
    return "8 launches under 3 schedules, no finding"


def _right(text: str, host: str, where: str, schedule: str) -> None:
    """Raises ``Wrong`` unless the program is right and nothing is found."""
    with compiling():
        on_peers.ptx(text)
    done = on_peers.run(text, host=host, schedule=schedule)
    if done.findings:
        finding = done.findings[0]
        raise Wrong(
            f"{where}, schedule {schedule}: the emulator finds {finding.rule}: "
            f"{finding.message[:160]} …"
        )
    if done.verdict != "right":
        raise Wrong(f"{where}, schedule {schedule}: the result is {done.verdict}")


__all__ = [
    "columns", "flags", "one_block", "one_slot", "with_flags", "with_one_block", "with_one_slot",
]  # fmt: skip
