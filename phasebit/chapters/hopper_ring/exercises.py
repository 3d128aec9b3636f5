"""Checks of *The ring at full width*, and its kernels on the emulator."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phasebit import Mbarrier, TensorMap, files
from phasebit.edits import replace_once
from phasebit.emulator import EmulatorError, Finding, Run, Schedule
from phasebit.emulator.capabilities import limits
from phasebit.exercises.judge import Wrong, ask, judged, same, shown, whole
from phasebit.exercises.written import clean, compiling, running, written
from phasebit.launching import launch

BM, BN, BK = 128, 256, 64
"""Of the products of this chapter: a tile of C, and its depth."""

STAGE = (BM + BN) * BK * 2
"""Bytes of a slot: the tiles of A and B."""


def bf16(values: Any) -> Any:
    """Whole numbers as the bits of bf16, which is the upper half of f32: exact if small."""
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def emulate(
    source: str, shape: tuple[int, int, int], *, slots: int = 4, schedule: Schedule = "late",
    seed: int = 15, **options: Any,
) -> tuple[Run, bool]:  # fmt: skip
    """Run a product of this chapter, one stage or a ring of ``slots``, on whole numbers.

    ``shape`` is M, N and K. Returns the run, and whether C is exact (as bf16 can be).
    """
    m, n, k = shape
    draw = np.random.default_rng(seed)
    a, b = (draw.integers(-1, 2, size).astype(np.float32) for size in ((m, k), (n, k)))
    c = np.full((m, n), 0xFFFF, np.uint16)  # NaN
    maps = [
        TensorMap(bf16(each), (BK, rows), data_type="bf16", swizzle="128B")
        for each, rows in ((a, BM), (b, BN))
    ]
    roles = "b_ring" if "struct Ring" in source else "a_one_stage"
    run = launch.compile(source, "sm_90a")["matmul"].launch(
        (-(-n // BN), -(-m // BM)), 384 if roles == "b_ring" else 256, [*maps, c, m, n, k],
        shared=slots * STAGE + 1024, schedule=schedule, **options,
    )  # fmt: skip
    exact = a @ b.T  # sums of few ones: every one of them is a number of bf16
    return run, bool(np.array_equal((c.astype(np.uint32) << 16).view(np.float32), exact))


@judged
def arrivals(answer: Callable[[int, int], tuple[int, int]]) -> str:
    """``answer(groups, blocks)``: the counts that full and empty are initialised with."""
    for groups in (1, 2, 3):
        for blocks in (1, 2, 4):
            got = ask(answer, groups, blocks)
            if not isinstance(got, (tuple, list)) or len(got) != 2:
                raise Wrong(f"it gives {shown(got)}: give two counts, of full and of empty")
            for name, count in zip(("full", "empty"), got, strict=True):
                if not whole(count) or count < 1:
                    raise Wrong(f"{name} has the count {shown(count)}: give a whole number from 1")
                _hand_over(name, count, groups, blocks)
    return "1 to 3 warp groups in 1, 2 and 4 blocks, played through on Part I's barrier"


def _hand_over(name: str, count: int, groups: int, blocks: int) -> None:
    """One phase of a barrier; raises :class:`Wrong` when it ends too early or never."""
    barrier = Mbarrier(count, name=name)
    where = f"{groups} warp groups in each of {blocks} blocks"
    if name == "full":
        barrier.arrive_expect_tx(STAGE)
        for part in range(2 * blocks):  # each block's copies, of A and of B
            if barrier.phase:
                raise Wrong(f"with {where}, full completes with copy {part}: more are under way")
            barrier.complete_tx(STAGE // (2 * blocks))
    else:
        for warp in range(4 * groups * blocks):
            if barrier.phase:
                raise Wrong(f"with {where}, empty completes after {warp} warps: others still read")
            barrier.arrive()
    if not barrier.phase:
        raise Wrong(f"with {where}, {name} still waits when all have arrived")


@judged
def registers(answer: Callable[[int, int], int]) -> str:
    """``answer(groups, kept)``: registers a thread that each consumer can be raised to.

    One producer group keeps ``kept`` registers a thread, of what ``groups + 1`` were launched
    with: the most that 65,536 registers give all threads alike, in steps of 8.
    """
    for groups in (2, 3, 4):
        for kept in (24, 32, 40, 56):
            threads = 128 * (groups + 1)
            launched = limits(90).registers // threads // 8 * 8
            right = min((launched * threads - 128 * kept) // (128 * groups) // 8 * 8, 256)
            got = ask(answer, groups, kept)
            if not same(got, right):
                raise Wrong(
                    f"{threads} threads begin with {launched} registers each; when 128 of them "
                    f"keep {kept}, each of the others can have {right}, not {shown(got)}"
                )
    return "2 to 4 consumer groups"


_WAIT = "        ptx::wgmma_wait_group<0>();\n"
_GIVE_BACK = (
    "        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.empty[s]);"
    "  // the warp has read it\n    }\n"
)


def in_flight(line: str) -> str:
    """``b_ring`` with one multiplication always under way, and ``line`` behind its wait."""
    one_under_way = (
        f"        ptx::wgmma_wait_group<1>();\n        {line}\n    }}\n"
        "    ptx::wgmma_wait_group<0>();\n"
    )
    source = files.kernel("hopper_ring/b_ring")
    return replace_once(source, _WAIT + _GIVE_BACK, one_under_way, "hopper_ring/b_ring.cu")


@judged
def give_back(answer: str) -> str:
    """The line that gives a slot back when one multiplication stays under way."""
    from phasebit import toolchain

    if not isinstance(answer, str):
        raise Wrong(f"it is {shown(answer)}: give a line of CUDA C++ as a string")
    if re.search(r"wgmma.wait_group", answer):
        raise Wrong("it waits for a multiplication: only the wait before it may, or none overlap")
    source = in_flight(answer)
    for schedule in ("late", "random"):
        try:
            run, right = emulate(
                source, (BM, BN, 11 * BK), schedule=schedule, seed=random.randrange(2**32),
                max_steps=200_000,
            )  # fmt: skip
        except toolchain.CompileError as error:
            raise Wrong(f"it does not compile: {str(error).splitlines()[0]}") from error
        except EmulatorError as error:
            raise Wrong(str(error).splitlines()[0]) from error
        if run.findings:
            raise Wrong(f"the emulator finds: {run.findings[0].kind}, {_told(run)}")
        if not right:
            raise Wrong(f"the product is wrong with copies that complete {schedule}")
    return "the product is right, and the emulator finds nothing"


def _told(run: Run) -> str:
    words = str(run.findings[0])
    return words if len(words) < 200 else words[:90] + " … " + words[-90:]


_HEADS = (
    "__device__ void prepare(Ring& ring, int s)",
    "__device__ void produce(Ring& ring, const CUtensorMap& map, bool of_a, int first, int tiles)",
)
_COUNTS = """            ptx::mbarrier_init(&ring.full[s], 1);
            ptx::mbarrier_init(&ring.empty[s], CONSUMERS / 32);
"""
_CALL = "        if (threadIdx.x == CONSUMERS) produce(ring, A, B, row, col, tiles);\n"


def with_two_producers(answer: str) -> str:
    """The ring whose tiles of A and of B have a producer each: the reader's two functions."""
    source = files.kernel("hopper_ring/b_ring")
    begin, end = source.index("// The producer, one thread"), source.index("// A consumer, one")
    source = source[:begin] + answer.strip() + "\n\n" + source[end:]
    source = replace_once(source, _COUNTS, "            prepare(ring, s);\n", "b_ring.cu")
    calls = (
        "        if (threadIdx.x == CONSUMERS) produce(ring, A, true, row, tiles);\n"
        "        if (threadIdx.x == CONSUMERS + 32) produce(ring, B, false, col, tiles);\n"
    )
    return replace_once(source, _CALL, calls, "b_ring.cu")


@judged
def two_producers(answer: str) -> str:
    """The counts, and the producers of A and of B, from blank: run with every check."""
    source = with_two_producers(written(answer, _HEADS, "two functions"))
    runs: list[tuple[Schedule, tuple[int, int, int]]] = [
        ("late", (72, 136, 5 * BK)), ("random", (BM, 8, 6 * BK - 8)),
    ]  # fmt: skip
    for schedule, shape in runs:
        where = f"{' × '.join(map(str, shape))}, {schedule} copies"
        with running(where), compiling():
            run, right = emulate(
                source, shape, schedule=schedule, seed=random.randrange(2**32), max_steps=200_000
            )
        clean(run, where)
        if not right:
            raise Wrong(f"{where}: the product is wrong")
    return "the product is right, and the emulator finds nothing"


_FINISH = "__device__ void finish(Ring& ring, float* sums, int rank)"
_COLS = 64


def with_finish(answer: str, blocks: int) -> str:
    """``pair.cu`` for a cluster of ``blocks`` that ends as the reader says.

    Each block is given a row of results of its own, so that one sees who has finished what.
    """
    source = replace_once(files.kernel("hopper_ring/pair"), "PAIR = 2,", f"PAIR = {blocks},")
    begin = source.index("    ptx::cluster_arrive();  // the sums are")
    end = source.index("\n}\n\nint ")
    source = source[:begin] + "    finish(ring, sums + rank * COLS, rank);" + source[end:]
    kernel = 'extern "C" __global__'
    return replace_once(source, kernel, f"{answer.strip()}\n\n{kernel}")


@judged
def shares(answer: str) -> str:
    """The end of the small pair, from blank, for clusters of two and of four blocks."""
    answer = written(answer, [_FINISH], "function")
    for blocks in (2, 4):
        for schedule in ("eager", "late", "random"):
            where = f"{blocks} blocks, {schedule} copies"
            x = np.random.default_rng().integers(-9, 10, (56, _COLS)).astype(np.float32)
            sums = np.full((blocks, _COLS), np.nan, np.float32)
            with running(where), compiling():
                run = launch.compile(with_finish(answer, blocks), "sm_90a")["pair"].launch(
                    blocks, 96, [TensorMap(x, (_COLS, 8 // blocks)), sums, 7], schedule=schedule,
                    max_steps=20_000,
                )  # fmt: skip
            clean(run, where)
            mine = np.arange(_COLS) // (_COLS // blocks) == np.arange(blocks)[:, None]
            if not np.array_equal(sums[mine], x.sum(0)):
                raise Wrong(f"{where}: a share of the sums is wrong, or nobody has written it")
            if not np.isnan(sums[~mine]).all():
                raise Wrong(f"{where}: a block writes sums that are another's share")
    return "clusters of 2 and of 4, no finding"


FINDINGS = {
    "wgmma-source-overwritten": "a slot is filled while a multiplication may still read it",
    "missing-wgmma-wait": "registers are read before wgmma.wait_group",
    "missing-wgmma-fence": "registers are used without wgmma.fence",
    "unannounced-bytes": "more bytes came than were expected",
    "announced-bytes-missing": "fewer bytes came than were expected",
    "missing-proxy-fence": "stores that the engine does not see: no fence.proxy.async",
    "too-many-arrivals": "the producer arrives twice in one phase",
    "mbarrier-phase-unseen":
        "somebody arrives in a phase before anyone has seen the last one complete",
    "missing-mbarrier-wait": "read or written before the copy is known to have ended",
    "deadlock": "deadlock: all wait",
}  # fmt: skip
"""What explains an end, before what it entails: rule -> in few words."""


def verdict(source: str, shape: tuple[int, int, int], **options: Any) -> str:
    """How a product ends on the emulator, in few words: right, wrong, or its first finding."""
    try:
        run, right = emulate(source, shape, **options)
    except EmulatorError as error:
        return _short([*error.findings, error.finding])
    if run.findings:
        return _short(run.findings)
    return "right, no finding" if right else "a wrong product"


def _short(found: Sequence[Finding]) -> str:
    broken = {finding.rule for finding in found}
    for wait in (wait for finding in found for wait in finding.waits if wait.missing):
        broken.add("announced-bytes-missing" if wait.missing > 0 else "unannounced-bytes")
    for rule, words in FINDINGS.items():
        if rule in broken:
            return words
    return str(found[0]).splitlines()[0]
