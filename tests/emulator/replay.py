"""Runs a case on the emulator: the arrays of ``runner.cu``, the same launch."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np

from phasebit.emulator import Run
from phasebit.emulator.errors import Deadlock, Fault, StepLimit
from phasebit.launching.launch import Module, compile
from tests.emulator.cases import Case

STEPS = 2_000
"""Enough for every case here; a kernel that spins for ever stops soon."""


@functools.cache
def module(source: str, file: str, options: tuple[str, ...]) -> Module:
    return compile(f'#line 1 "{file}"\n{source}', "sm_90a", list(options))


def arrays(case: Case) -> list[np.ndarray[Any, Any]]:
    """0, 1, 2, … and zeros, as the runner fills them."""
    ramp = np.arange(case.bytes[0] // 4)
    first = (ramp % 97).astype(np.float32) if case.form == "float" else ramp.astype(np.int32)
    return [first, *(np.zeros(size // 4, first.dtype) for size in case.bytes[1:])]


def launch(case: Case, **options: Any) -> Run:
    """Run the case's kernel on the emulator, checked."""
    name = "matmul" if case.group.startswith("book") else case.kernel
    kernel = module(case.source, case.file, case.options)[name]
    given: list[Any] = [*arrays(case)]
    memory = kernel.memory
    scratch = memory.allocate(case.bytes[2], "scratch")
    memory.watch(scratch)  # the runner does not write its third array
    if case.form == "int":
        given[2] = scratch.address
    try:
        return kernel.launch(
            (case.grid,), (case.block,), given[: len(kernel.function.parameters)],
            check=True, max_steps=STEPS, **options,
        )  # fmt: skip
    finally:
        memory.free(scratch)


def findings(case: Case, schedule: str = "late", seed: int = 0) -> list[tuple[str, str]]:
    """What the emulator reports: (kind, place), for a failed kernel the failure last."""
    try:
        found = launch(case, schedule=schedule, seed=seed).findings
        end = []
    except (Fault, Deadlock, StepLimit) as error:
        found = list(error.findings)
        end = [(error.kind, str(error.sentence))]
    return [(finding.kind, finding.source) for finding in found] + end


def as_expected(case: Case, found: list[tuple[str, str]]) -> bool:
    """Whether a finding has a kind that the case is marked with, at a marked line."""
    places = [f"{case.file}:{line}" for line in case.lines]
    return any(
        kind in case.kinds
        and (not places or any(re.search(re.escape(p) + r"\b", where) for p in places))
        for kind, where in found
    )


def summary(case: Case) -> list[str]:
    """The kinds of findings, each once, in order."""
    return list(dict.fromkeys(kind for kind, _ in findings(case)))
