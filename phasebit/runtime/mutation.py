"""What silence is worth: a program's synchronisation is deleted, one instruction at a time.

`python -m phasebit mutate ./program` runs the program once as it is, then once for each barrier,
fence, arrival and wait of its kernels without that one. A deletion is noticed when the checker
finds what it had not found before, or the program ends otherwise or prints something else. One
that nobody notices was redundant in this run, or what it is good for does not happen in it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from phasebit.emulator import Finding
from phasebit.runtime.backend import Backend, KernelFacts, Launch, Module, Outcome, Symbol
from phasebit.runtime.deletions import Deletion, deletions
from phasebit.runtime.emulated import EmulatorBackend
from phasebit.runtime.mapped_memory import DeviceMemory
from phasebit.runtime.report import End
from phasebit.runtime.run_program import ProgramError, run_program

SEED = 1
"""Of the random schedule: one in which ``elect.sync`` does not name the first lane."""

Edit = Callable[[str], str]
Launched = set[tuple[str, str]]
"""The text of a module, and a kernel of it."""


@dataclass
class Ran:
    """One run: what was found, how it ended, what it printed."""

    findings: list[Finding] = field(default_factory=list)
    end: End | None = None
    printed: bytes = b""

    apart = True  # as a reporter

    def found(self, findings: Sequence[Finding]) -> None:
        """See `phasebit.runtime.report.Reporter`."""
        self.findings += findings

    def counted(self, kernel: str, launch: int, counters: Mapping[str, float]) -> None:
        """See `phasebit.runtime.report.Reporter`: nobody asks for counters here."""

    def note(self, text: str) -> None:
        """See `phasebit.runtime.report.Reporter`: nothing is held back here."""

    def ended(self, end: End, standing: Finding | None) -> None:
        """See `phasebit.runtime.report.Reporter`."""
        self.findings += [standing] if standing else []
        self.end = end

    @property
    def known(self) -> set[tuple[str, str, int]]:
        """What was found, without its words."""
        return {(each.rule, each.kernel, each.line) for each in self.findings}


@dataclass(frozen=True)
class Verdict:
    """What became of a program without one instruction.

    ``rules``: what was found that had not been found before; ``otherwise``: how the program ended
    or printed otherwise, else empty; ``schedule``: under which that was.
    """

    deletion: Deletion
    rules: tuple[str, ...] = ()
    otherwise: str = ""
    schedule: str = ""

    @property
    def silent(self) -> bool:
        """Whether nobody noticed."""
        return not self.rules and not self.otherwise

    def __str__(self) -> str:
        how = ", ".join(self.rules) or self.otherwise
        return f"{how} ({self.schedule})" if how else "silent"


def survey(
    command: Sequence[str], schedules: Sequence[str], limit: float | None = None
) -> Iterator[Verdict]:
    """A verdict for each synchronisation instruction of the kernels that a program launches.

    ``schedules`` are tried in their order until one of them shows that something is missing.
    Raises ProgramError where the program does not run to its end as it is.
    """
    launched: Launched = set()
    whole = {one: _run(command, one, limit, launched=launched) for one in schedules}
    for schedule, ran in whole.items():
        if ran.end is None or ran.end.status:
            raise ProgramError(
                f"{command[0]} does not end well as it is ({schedule}): mend that first, "
                f"`python -m phasebit run --schedule {schedule}` says what it is"
            )
    for text in dict.fromkeys(text for text, _ in sorted(launched)):
        mine = {kernel for of, kernel in launched if of == text}
        for deletion in deletions(text):
            if not deletion.kernel or deletion.kernel in mine:
                yield _judge(command, text, deletion, whole, limit)


def _judge(
    command: Sequence[str], text: str, deletion: Deletion, whole: Mapping[str, Ran],
    limit: float | None,
) -> Verdict:  # fmt: skip
    without = deletion.applied(text)
    for schedule, before in whole.items():
        ran = _run(command, schedule, limit, lambda ptx: without if ptx == text else ptx)
        new = sorted({rule for rule, _, _ in ran.known - before.known})
        if new:
            return Verdict(deletion, tuple(new), schedule=schedule)
        if ran.end != before.end:
            return Verdict(deletion, otherwise="the program ends otherwise", schedule=schedule)
        if ran.printed != before.printed:
            return Verdict(deletion, otherwise="other output", schedule=schedule)
    return Verdict(deletion)


def _run(
    command: Sequence[str], schedule: str, limit: float | None, edit: Edit = str,
    launched: Launched | None = None,
) -> Ran:  # fmt: skip
    ran = Ran()
    backend = _Edited(
        EmulatorBackend(schedule=schedule, seed=SEED, keep=False), edit, launched
    )  # fmt: skip
    with tempfile.TemporaryFile() as printed:
        run_program(command, backend, limit=limit, reporter=ran, stdout=printed.fileno())
        printed.seek(0, os.SEEK_SET)
        ran.printed = printed.read()
    return ran


class _Edited(Backend):
    """A backend whose modules are edited first; it notes which kernels are launched."""

    def __init__(self, backend: Backend, edit: Edit, launched: Launched | None) -> None:
        self.backend = backend
        self.edit = edit
        self.launched = launched

    def load(self, ptx: str, memory: DeviceMemory) -> Module:
        """See `phasebit.runtime.backend.Backend.load`."""
        made = self.backend.load(self.edit(ptx), memory)
        return made if self.launched is None else _Watched(made, ptx, self.launched)


class _Watched(Module):
    def __init__(self, module: Module, text: str, launched: Launched) -> None:
        self.module = module
        self.text = text
        self.launched = launched

    @property
    def kernels(self) -> Mapping[str, KernelFacts]:
        """See `phasebit.runtime.backend.Module`."""
        return self.module.kernels

    @property
    def symbols(self) -> Mapping[str, Symbol]:
        """See `phasebit.runtime.backend.Module`."""
        return self.module.symbols

    def launch(self, launch: Launch) -> Outcome:
        """See `phasebit.runtime.backend.Module`."""
        self.launched.add((self.text, launch.kernel))
        return self.module.launch(launch)


def table(verdicts: Sequence[Verdict]) -> str:
    """The verdicts as lines, the silent ones once more at the end."""
    lines, kernel = [], None
    for each in verdicts:
        if each.deletion.kernel != kernel:
            kernel = each.deletion.kernel
            lines.append(f"kernel {kernel}" if kernel else "functions")
        lines.append(f"  PTX line {each.deletion.line:>6}  {each.deletion.instruction:<60}  {each}")
    silent = sum(each.silent for each in verdicts)
    lines.append(f"{len(verdicts) - silent} of {len(verdicts)} deletions are noticed")
    if silent:
        lines.append(f"{silent} are silent: redundant in this run, or not looked for")
    return "\n".join(lines)


__all__ = ["Verdict", "survey", "table"]
