"""``%load_ext phasebit``: CUDA cells that raise when something is wrong, and that end.

``%%cuda`` is that of nvcc4jupyter, with other insides. A compile error, a failing program or one
that does not end raises an exception that names the cause and the line of the cell; the target
fits the GPU; a second run compiles nothing.

Where there is no GPU that runs the target, a cell is compiled all the same. What its program
printed when it was recorded is then shown, led by a line that says so.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import os
import re
import shlex
import signal
import tempfile
from collections.abc import Sequence
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import cell_magic, magics_class
from nvcc4jupyter import NVCCPlugin  # type: ignore[import-untyped]

from phasebit import machine, measure, process, replay, toolchain

DEFAULT_SECONDS = 60.0
"""How long the program of a cell may run, unless ``--timeout`` says otherwise."""


RECORDING = "PHASEBIT_RECORD"
"""Environment variable: when it is set, cells that run on a GPU are recorded."""

CELL = "cell"
"""What compiler and program call the source of a cell; its first line, the magic, is line 1."""


class ProgramError(toolchain.CudaError):
    """The program of a cell failed or did not end.

    ``line`` is the line of the cell, where it is known; ``status`` the exit status.
    """

    def __init__(self, message: str, line: int | None, status: int) -> None:
        super().__init__(message)
        self.line = line
        self.status = status


def where() -> str:
    """One line that says where this notebook runs, and what that means for its outputs."""
    gpu = machine.gpu()
    try:
        compiler = f"nvcc {toolchain.nvcc().version}"
    except toolchain.ToolMissing:
        compiler = "no nvcc: CUDA cells cannot be compiled, see python -m phasebit doctor"
    if gpu:
        return f"⏱ {gpu.name} ({gpu.target}), driver {gpu.driver}; {compiler}"
    return (
        f"⏱ no GPU here; {compiler}. CUDA cells are compiled; "
        f"times and verdicts are the recorded ones of {measure.recorded_on()}"
    )


def run(
    build: toolchain.Build, name: str, args: Sequence[str] = (), timeout: float = DEFAULT_SECONDS
) -> tuple[replay.Run | None, str]:
    """Run a built program, or find the record ``name`` of its run, or neither.

    The one place that chooses. Returns the run, and words that say where it comes from.
    """
    gpu = machine.gpu()
    if build.resources and not (gpu and gpu.executes(build.target)):
        why = f"{gpu.name} does not run {build.target}" if gpu else "no GPU here"
        recorded = replay.find(name)
        if recorded is None:
            return None, f"not run: {why}, and this very program has no record"
        return recorded, f"not run: {why}; recorded on {recorded.gpu}, {recorded.date}"
    done = process.run([build.program, *args], timeout=timeout, ask=signal.SIGUSR1)
    fresh = replay.Run(
        gpu=gpu.name if gpu else "",
        driver=gpu.driver if gpu else "",
        cuda=build.nvcc,
        date=datetime.date.today().isoformat(),
        stdout=done.stdout,
        stderr=done.stderr,
        status=done.status,
        stopped=done.stopped,
        line=toolchain.stopped_at(build.program, done.stderr, CELL),
        timeout=timeout,
    )
    if os.environ.get(RECORDING) and build.resources:
        replay.save(name, fresh)
    return fresh, f"run on {gpu.name}" if gpu and build.resources else "run here: it has no kernel"


def failure(run: replay.Run) -> ProgramError | None:
    """The error that a run ended in, or ``None`` when it ended well."""
    if run.status == 0 and not run.stopped:
        return None
    said = run.stderr.partition("\nphasebit: stopped at\n")[0].strip()
    reported = re.search(rf"^{CELL}:(\d+): ", said, re.MULTILINE)
    line = int(reported[1]) if reported else run.line
    if run.stopped == "time":
        what = (
            f"the program did not end within {run.timeout:g} s and was stopped: an endless loop, "
            "or a wait for something that never comes (%%cuda --timeout SECONDS gives it longer)"
        )
    elif run.stopped == "output":
        what = f"the program printed more than {process.OUTPUT_LIMIT >> 20} MiB and was stopped"
    elif run.status < 0:
        what = f"the program was ended by {signal.Signals(-run.status).name}"
    else:
        what = f"the program ended with exit status {run.status}"
    place = f"line {line} of the cell: " if line else ""
    tail = "\n".join(said.splitlines()[-10:])
    return ProgramError(place + what + (f"\n{tail}" if tail else ""), line, run.status)


def verdict(source: str, timeout: float = DEFAULT_SECONDS) -> str:
    """Compile a program, run it or replay its record, and say in one line how it ended.

    The first line that it printed without ``⏱``, if it ended well, else the cause of failure;
    "compiled, not run" where it can neither run nor be replayed.
    Prints one ``⏱`` line, which says where the program ran. Raises
    :class:`toolchain.CompileError`.
    """
    build = toolchain.build(source, name=CELL)
    outcome, origin = run(build, replay.key(source), timeout=timeout)
    print(f"⏱ compiled by nvcc {build.nvcc} for {build.target}; {origin}")
    if outcome is None:
        return "compiled, not run"
    if outcome.status == 0 and not outcome.stopped:
        plain = [line for line in outcome.stdout.splitlines() if line[:1] not in ("", "⏱")]
        return plain[0] if plain else "it ended without a word"
    said = outcome.stderr.partition("\nphasebit: stopped at\n")[0].strip().splitlines()
    return said[-1] if said else str(failure(outcome))


def shorten(text: str, most: int = 400) -> str:
    """A program's output, without its middle when it has more than ``most`` lines."""
    lines = text.splitlines(keepends=True)
    left_out = len(lines) - most
    if left_out <= 0:
        return text
    half = most // 2
    return "".join([*lines[:half], f"… {left_out} lines left out …\n", *lines[-half:]])


def report(build: toolchain.Build) -> str:
    """What ptxas says about the kernels of a build.

    What depends on the target stands on ``⏱`` lines, what must not on a plain one.
    """
    lines = []
    for use in build.resources:
        lines.append(f"⏱ ptxas: {use.kernel} uses {use.registers} registers a thread")
    for use in build.resources:
        spilled = f"{use.spill_stores} bytes spilled" if use.spills else "no register spills"
        lines.append(f"{use.kernel}: {use.shared:,} bytes of static shared memory, {spilled}")
    return "\n".join(lines)


@magics_class
class CudaMagics(NVCCPlugin):  # type: ignore[misc]
    """``%%cuda`` of nvcc4jupyter, on the book's toolchain."""

    def __init__(self, shell: Any) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="phasebit-")
        self.wd = self._scratch.name
        with contextlib.redirect_stdout(io.StringIO()):  # it prints its folder
            super().__init__(shell)
        self.parser_cuda.add_argument("--timeout", type=float, default=DEFAULT_SECONDS)
        self.parser_cuda.add_argument("--args", default="")
        self.parser_cuda.add_argument("--arch", default=None)

    @cell_magic
    def cuda(self, line: str, cell: str) -> None:
        """Compile the program in the cell and run it.

        ``--timeout SECONDS``, ``--args "ARGUMENTS"`` of the program, ``--arch sm_90a`` to choose
        the target, ``-c "OPTIONS"`` for nvcc.
        """
        given = self._parse(line)
        if given.timeit or given.profile:
            raise UsageError(
                "%%cuda times and profiles no whole process, since most of that time is start-up: "
                "time with events (harness.cuh does), profile with ncu"
            )
        options, args = shlex.split(given.compiler_args()), shlex.split(given.args)
        build = toolchain.build(cell, name=CELL, first_line=2, target=given.arch, options=options)
        outcome, origin = run(build, replay.key(cell, options, args), args, given.timeout)
        print(f"⏱ compiled by nvcc {build.nvcc} for {build.target}; {origin}")
        printed = shorten(outcome.stdout) if outcome else ""
        for text in (report(build), build.warnings, printed):
            if text:
                print(text, end="" if text.endswith("\n") else "\n")
        error = failure(outcome) if outcome else None
        if error:
            raise error

    def _parse(self, line: str) -> argparse.Namespace:
        # A wrong option must stop the cell; nvcc4jupyter would print the help and go on.
        with contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                given: argparse.Namespace = self.parser_cuda.parse_args(shlex.split(line))
                return given
            except SystemExit:
                raise UsageError(said.getvalue().strip().rpartition("error: ")[2]) from None


def load(shell: Any) -> None:
    """Register the magics and say in one line where the notebook runs."""
    shell.register_magics(CudaMagics(shell))
    print(where())
