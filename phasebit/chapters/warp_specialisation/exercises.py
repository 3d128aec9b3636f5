"""Checks of *Warp specialisation and its bugs*."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from phasebit import toolchain
from phasebit.chapters.warp_specialisation import clinic
from phasebit.exercises.judge import Wrong, ask, judged, same, shown

DIAGNOSE, ONE_ARRIVAL, TWO_GROUPS = "17_unaided", "18_unaided", "19_unaided"
"""The three patients that readers diagnose by themselves."""

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
    if not isinstance(answer, Sequence) or isinstance(answer, str) or len(answer) != 2:
        raise Wrong('give a kind and a line, as ("race", 12)')
    kind, line = answer
    if kind not in clinic.KINDS:
        raise Wrong(f"the kinds are {', '.join(clinic.KINDS)}; {shown(kind)} is none")
    found = clinic.examine(clinic.source(DIAGNOSE)).findings
    if kind not in {each.kind for each in found}:
        raise Wrong(f"the emulator finds no {kind} in it")
    if not any(each.kind == kind and line in each.lines for each in found):
        raise Wrong(f"it finds that kind, but not in line {shown(line)}")
    return f"{kind} at line {line}"


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
    runs = 0
    for depth in DEPTHS:
        text = answer.replace(f"K = {patient['K']};", f"K = {depth};")
        try:
            given = clinic.constants(text)
            if [given.get(key) for key in "MNK"] != [patient["M"], patient["N"], depth]:
                raise Wrong("keep the line with the constants M, N and K as it is")
            for schedule, seed in clinic.SCHEDULES:
                data = random.randrange(1 << 30)
                seen = clinic.examine(text, schedule, seed, data)
                if not seen.healthy:
                    raise Wrong(f"with K = {depth}, schedule {schedule}:\n{seen}")
                runs += 1
        except (ValueError, toolchain.CudaError) as error:
            raise Wrong(str(error)) from error
    return f"{runs} runs, no finding"
