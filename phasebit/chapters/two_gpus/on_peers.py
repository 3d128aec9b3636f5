"""The kernels of *Two GPUs*, run on the emulator with two devices."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from phasebit import files
from phasebit.edits import replace_once

if TYPE_CHECKING:
    from phasebit.emulator import Execution, Finding

FOLDER = "two_gpus"
GATHER, MULTIPLY, REDUCE = SMALL = "a_gather", "b_gather_multiply", "c_multiply_reduce"
RING_GATHER, RING_SCATTER, CARRIED, COPIED = RINGS = (
    "d_gather_ring", "e_ring_scatter", "g_carried_scatter", "h_copied_scatter",
)  # fmt: skip
KERNELS: Mapping[str, str] = {
    "all-gather": GATHER, "all-gather, product": MULTIPLY, "product, reduce-scatter": REDUCE,
}  # fmt: skip
TINY = "48", "40", "24", "--seed", "1"
"""M, N and K of a run that shows a slip in a full-width kernel: one tile for each half."""
TWO_TILES = "40", "264", "24", "--seed", "2"
"""The same with two tiles for each half."""
SECONDS = 120.0
"""How long a program may take here."""

_HARNESS = re.compile(r'^#include "\w+/\w*harness.cuh"\s*\Z', re.MULTILINE)


@dataclass(frozen=True)
class Done:
    """What a program of two devices printed, and what was found."""

    printed: str
    status: int
    findings: Sequence[Finding]
    executions: Sequence[Execution]
    """Its launches, in the order of their ends, where a trace was kept."""

    @property
    def verdict(self) -> str:
        """The first rule that is broken; what is printed where none is, without numbers."""
        if self.findings:
            return self.findings[0].rule
        return self.printed.partition(":")[0].strip() or f"status {self.status}"


def source(kernel: str) -> str:
    """A kernel's file with what it shares with others of the chapter in it, but for the harness."""
    text = files.kernel(f"{FOLDER}/{kernel}")
    for header in ("peers", "ring"):
        text = text.replace(f'#include "{FOLDER}/{header}.cuh"\n', _body(header))
    return text


def warps_send(text: str) -> str:
    """The gathering ring in which warps send, and no copy beside the kernel."""
    return replace_once(text, "SENDERS = 0", "SENDERS = 3", RING_GATHER)


def with_harness(text: str) -> str:
    """The harness, too, in place of its include."""
    for header in ("harness", "ring_harness"):
        body = _body(header).replace(f'#include "{FOLDER}/peers.cuh"\n', "")
        text = text.replace(f'#include "{FOLDER}/{header}.cuh"\n', body)
    return text


def _body(header: str) -> str:
    text = (files.kernels() / FOLDER / f"{header}.cuh").read_text("utf-8")
    return text.replace("#pragma once\n", "")


def _target(text: str) -> str:
    return "sm_90a" if "hopper_ring/" in text else "sm_90"


@cache
def build(text: str) -> Path:
    """The program, for the emulator."""
    from phasebit import toolchain
    from phasebit.runtime import library

    runtime = library.for_linking(toolchain.nvcc().major)
    return toolchain.build(text, name="two.cu", target=_target(text), runtime=runtime).program


@cache
def ptx(text: str) -> str:
    """What the emulator executes of a kernel's text, its harness left out."""
    from phasebit.launching import build as launching

    return launching.ptx(_HARNESS.sub("", text), _target(text))


def run(text: str, *arguments: str, host: str | None = None, schedule: str = "late",
        seed: int = 0, trace: bool = False) -> Done:  # fmt: skip
    """Run a program on two devices, in this process and its main thread.

    ``host``: a text that differs in GPU functions alone, whose host half is taken: most of the
    time to compile goes into that.
    """
    from phasebit.runtime.emulated import EmulatorBackend
    from phasebit.runtime.in_process import Runs
    from phasebit.runtime.run_program import run_program

    program, runs = build(host or text), Runs()
    backend = EmulatorBackend(
        schedule=schedule, seed=seed, trace=trace, ptx=ptx(text) if host else None
    )
    out = os.memfd_create("printed")
    try:
        with _quiet():
            status = run_program(
                [program, *arguments], backend, limit=SECONDS, reporter=runs, stdout=out,
                devices=2,
            )  # fmt: skip
        with open(out, encoding="utf-8", closefd=False) as file:
            file.seek(0)
            printed = file.read()
    finally:
        os.close(out)
    return Done(printed, status, runs.findings, backend.executions)


@contextmanager
def _quiet() -> Iterator[None]:
    """What the program says on standard error is not shown: findings come by another way."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def checked(schedules: Sequence[str] = ("eager", "late", "random")) -> str:
    """A line for each small kernel and schedule: what it prints, and how much is found."""
    lines = []
    for name, kernel in KERNELS.items():
        done = [run(source(kernel), schedule=schedule) for schedule in schedules]
        said = {each.printed.strip() for each in done}
        found = sum(len(each.findings) for each in done)
        lines.append(f"{name}: {', '.join(sorted(said))} under {len(done)} schedules, "
                     f"findings: {found}")  # fmt: skip
    return "\n".join(lines)
