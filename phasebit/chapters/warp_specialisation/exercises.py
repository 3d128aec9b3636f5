"""Checks of *Warp specialisation and its bugs*."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from phasebit import toolchain
from phasebit.chapters.warp_specialisation import clinic
from phasebit.exercises.judge import Wrong, ask, judged, same, shown, whole
from phasebit.launching.launch import compile as compile_cuda

DIAGNOSE, ONE_ARRIVAL, TWO_GROUPS = "17_unaided", "18_unaided", "19_unaided"
"""The three patients that readers diagnose by themselves."""

SHOWN = (12, 13, 16)
"""The patients that the chapter examines; a reader diagnoses the others."""

ENOUGH = 6
"""How many of them a reader must have diagnosed."""

RING = """\
// A ring of tiles: some warps load, others multiply.
#include "warp_specialisation/ring.cuh"

constexpr int M = 32, N = 32, K = 256;  // C = A · B, row-major f32
constexpr int BK = 32;                  // depth of a tile
constexpr int TILES = K / BK;
constexpr int SLOTS = 2;                // tiles that fit in the ring
constexpr int THREADS = 256;

__global__ void __launch_bounds__(THREADS)
matmul(const float* A,  // (M, K)
       const float* B,  // (K, N)
       float* C)        // (M, N)
{
    // yours
}

void launch(const float* A, const float* B, float* C) {
    matmul<<<1, THREADS>>>(A, B, C);
}

#include "harness.cuh"
"""
"""What the reader's own ring begins with."""

RINGS = (1, 2, 3)
"""Values of SLOTS that it must be right for."""

DEPTHS = (32, 96, 256)
"""Values of K that a repaired kernel must be right for: 1, 3 and 8 tiles."""

LEAST, MOST, STEP = 24, 256, 8
"""What setmaxnreg takes (PTX ISA 9.7.19.5)."""


@judged
def budget(answer: Callable[[int, int, int, int], int]) -> str:
    """``answer(launched, producers, consumers, kept)``: the most that setmaxnreg may give.

    ``launched`` registers a thread at launch, warp groups of either role, and what a thread of a
    producing group keeps. Compared with trying every legal number.
    """
    draw = random.Random(13)
    cases = [(168, 1, 2, 24)]
    for _ in range(60):
        producers, consumers = draw.randint(1, 2), draw.randint(1, 4)
        launched = draw.randrange(80, 249, STEP)
        kept = draw.randrange(LEAST, launched + 1, STEP)
        cases.append((launched, producers, consumers, kept))
    for case in cases:
        launched, producers, consumers, kept = case
        pool = launched * (producers + consumers)
        right = max(
            each for each in range(LEAST, MOST + 1, STEP)
            if kept * producers + each * consumers <= pool
        )  # fmt: skip
        got = ask(answer, *case)
        if not same(got, right):
            raise Wrong(
                f"launched with {launched}, {producers} producing and {consumers} consuming "
                f"groups, {kept} kept: the consumers can have {right}, you say {shown(got)}"
            )
    return f"{len(cases)} kernels"


@judged
def diagnosis(answer: tuple[str, int]) -> str:
    """``(kind, line)`` of a finding that the emulator makes in the first unaided patient.

    The line may be that of either access of the finding.
    """
    return _finding(DIAGNOSE, answer)


@judged
def ward(answers: Mapping[int, tuple[str, int]]) -> str:
    """Patient -> ``(kind, line)`` of a finding, for at least ``ENOUGH`` of those not shown."""
    if not isinstance(answers, Mapping):
        raise Wrong('give a dictionary, as {2: ("fault", 12)}')
    waiting = {int(name[:2]): name for name in clinic.names()[: clinic.PATIENTS]}
    for number, answer in answers.items():
        if not whole(number) or number in SHOWN or number not in waiting:
            raise Wrong(f"{shown(number)} is no patient of those who wait")
        try:
            _finding(waiting[number], answer)
        except Wrong as problem:
            raise Wrong(f"patient {number}: {problem}") from problem
    if len(answers) < ENOUGH:
        raise Wrong(f"{len(answers)} are right so far; {ENOUGH} are enough")
    return f"{len(answers)} patients"


def _finding(name: str, answer: tuple[str, int]) -> str:
    """Judge a diagnosis of one patient."""
    if not isinstance(answer, Sequence) or isinstance(answer, str) or len(answer) != 2:
        raise Wrong('give a kind and a line, as ("race", 12)')
    kind, line = answer
    if kind not in clinic.KINDS:
        raise Wrong(f"the kinds are {', '.join(clinic.KINDS)}; {shown(kind)} is none")
    found = clinic.examine(clinic.source(name)).findings
    if kind not in {each.kind for each in found}:
        raise Wrong(f"the emulator finds no {kind} in it")
    if not any(each.kind == kind and line in each.lines for each in found):
        raise Wrong(f"it finds that kind, but not in line {shown(line)}")
    return f"{kind} at line {line}"


@judged
def ring(answer: str) -> str:
    """A ring from blank: right and without findings, for every depth, number of slots, schedule.

    Roles are looked for in a run: no warp that fetches A or B may store C, and a slot more must
    take a tile of each more. The roles may meet at ``__syncthreads()`` once, at the beginning.
    """
    if not isinstance(answer, str):
        raise Wrong("give the whole text of the kernel, as a string")
    if answer.strip() == RING.strip():
        raise Wrong("the kernel is still empty")
    code = re.sub(r"//[^\n]*|/\*.*?\*/", "", answer, flags=re.S)
    if len(re.findall(r"__syncthreads|\bsync\(\s*0|bar(?:rier)?\.sync", code)) > 1:
        raise Wrong("all threads may meet once, when the barriers exist; then full and empty serve")
    runs = 0
    sizes = []
    for slots in RINGS:
        text = answer.replace("SLOTS = 2;", f"SLOTS = {slots};")
        for depth in DEPTHS:
            runs += _runs(text, {"M": 32, "N": 32, "K": 256, "BK": 32, "SLOTS": slots}, depth)
        sizes.append(clinic.shared_bytes(text))
    if sizes != sorted(sizes) or sizes[-1] - sizes[0] < (len(RINGS) - 1) * 2 * 4 * 32 * 32:
        raise Wrong("a slot more does not bring room for a tile of A and one of B")
    _parted(answer)
    return f"{runs} runs, no finding"


def _parted(text: str) -> None:
    """Raise :class:`Wrong` for warps that both fetch and store the result."""
    known, (grid, block, *shared) = clinic.launch_of(text)
    kernel = compile_cuda(text.replace('#include "harness.cuh"', ""))["matmul"]
    sizes = ((known["M"], known["K"]), (known["K"], known["N"]), (known["M"], known["N"]))
    arrays = [np.zeros(size, np.float32) for size in sizes]
    run = kernel.launch(
        grid, block, arrays, shared=sum(shared), device="emulator", accesses=True
    )  # fmt: skip
    outside = [use for use in run.accesses if use.space == "global"]
    fetch = {use.warp for use in outside if use.op == "load"}
    store = {use.warp for use in outside if use.op == "store"}
    if fetch & store:
        both = ", ".join(map(str, sorted(fetch & store)))
        raise Wrong(f"warps {both} fetch tiles and store sums: these are two roles")


@judged
def one_arrival(answer: str) -> str:
    """The second unaided patient, repaired: its text runs under every schedule and depth."""
    return _healthy(ONE_ARRIVAL, answer)


@judged
def two_groups(answer: str) -> str:
    """The third unaided patient, repaired: as the second, and without more shared memory."""
    verdict = _healthy(TWO_GROUPS, answer)
    before, after = (clinic.shared_bytes(text) for text in (clinic.source(TWO_GROUPS), answer))
    if after > before:
        raise Wrong(f"it needs {after:,} bytes of shared memory; do with the {before:,} there are")
    return verdict


def _healthy(name: str, answer: str) -> str:
    """Judge a repaired text; fresh numbers in each run."""
    if not isinstance(answer, str):
        raise Wrong("give the whole text of the kernel, as a string")
    patient = clinic.constants(clinic.source(name))
    kept = {key: patient[key] for key in "MNK"}
    runs = sum(_runs(answer, kept, depth) for depth in DEPTHS)
    return f"{runs} runs, no finding"


def _runs(answer: str, kept: Mapping[str, int], depth: int) -> int:
    """How many runs a text passes with this K, one under each schedule.

    ``kept`` are constants that it must have; raises :class:`Wrong` at the first run that fails.
    """
    text = answer.replace(f"K = {kept['K']};", f"K = {depth};")
    try:
        given = clinic.constants(text)
        for key, value in {**kept, "K": depth}.items():
            if given.get(key) != value:
                raise Wrong(f"keep the line with the constant {key} as it is")
        for schedule, seed in clinic.SCHEDULES:
            seen = clinic.examine(text, schedule, seed, random.randrange(1 << 30))
            if not seen.healthy:
                raise Wrong(f"with K = {depth}, schedule {schedule}:\n{seen}")
    except (ValueError, toolchain.CudaError) as error:
        raise Wrong(str(error)) from error
    return len(clinic.SCHEDULES)
