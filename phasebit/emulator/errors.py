"""The errors of the emulator: each one sentence that names the thing, the place and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from phasebit.emulator import digest, rulebook
from phasebit.emulator.findings import Finding, Sentence, Wait, say


class EmulatorError(Exception):
    """Base of every error that the emulator raises on purpose.

    ``message``: the sentence, or a template for :func:`phasebit.emulator.findings.say` and its
    values. ``findings``: what the checker had found before a kernel failed (once ``hazards``,
    which still works).
    """

    rule: str = "invalid-operation"
    """That of the finding which the error is."""

    def __init__(self, message: str | Sentence = "", *values: object) -> None:
        if isinstance(message, str):
            message = say(message, *values) if values else Sentence((message,))
        super().__init__(message)
        self.sentence = message
        self.findings: Sequence[Finding] = ()

    @property
    def hazards(self) -> Sequence[Finding]:
        """The old name of ``findings``."""
        return self.findings

    @property
    def kind(self) -> str:
        """The family of that rule."""
        return rulebook.rule(self.rule).kind

    @property
    def finding(self) -> Finding:
        """What ended the kernel, as a finding."""
        return Finding(self.rule, self.sentence)

    def __str__(self) -> str:
        text = str(self.sentence)
        if self.findings:
            more = f" (and {len(self.findings) - 1} more)" if len(self.findings) > 1 else ""
            text += f"\nbefore that the checker had found{more}: {self.findings[0]}"
        return text


class PtxError(EmulatorError):
    """PTX text that the emulator cannot read or does not know; names the line."""

    rule = "invalid-ptx"

    def __init__(self, message: str, line: int | None = None, source: str | None = None) -> None:
        self.line = line
        self.source = source
        where = f"PTX line {line}: " if line is not None else ""
        after = f" (from {source})" if source else ""
        super().__init__(say("{}{}{}", where, message, after))


class Found(EmulatorError):
    """A kernel came to its end, and the checker found something: raised where that is asked for.

    ``findings``: all of it.  ``run``: what the launch did, its counters among it.
    """

    def __init__(self, findings: Sequence[Finding], run: Any = None) -> None:
        super().__init__("\n".join(digest.told(findings)))
        self.findings = findings
        self.rule = findings[0].rule
        self.run = run

    @property
    def finding(self) -> Finding:
        """The first of them."""
        return self.findings[0]

    def __str__(self) -> str:
        return str(self.sentence)


class LaunchError(EmulatorError):
    """A launch that cannot begin: arguments, block size, shared memory."""

    rule = "refused-launch"


class Fault(EmulatorError):
    """An access or a trap that ends the kernel, as a sticky error does on a GPU."""

    cause: ClassVar[str] = ""
    """``trap``, ``assertion`` or ``misaligned``; a GPU has an error of its own for each."""


class OutOfBounds(Fault):
    """An access that lies in no array, or runs past the end of one."""

    rule = "out-of-bounds"


class NoPeerAccess(Fault):
    """An access to another device's memory, which has not been allowed."""

    rule = "no-peer-access"


class UseAfterFree(Fault):
    """An access to memory that was given back."""

    rule = "use-after-free"


class StackOverflow(Fault):
    """A recursion that needs more stack than a thread has."""

    rule = "stack-overflow"


class InvalidFree(Fault):
    """``free`` of what no ``malloc`` gave, or twice."""

    rule = "invalid-free"


class IllegalMetadata(Fault):
    """Metadata of a sparse matrix that say of a chunk what they may not."""

    rule = "illegal-metadata"


class MbarrierFault(Fault):
    """An arrival or a wait that the state of its mbarrier does not allow."""

    rule = "mbarrier-fault"


class TooManyArrivals(MbarrierFault):
    """More arrivals at an mbarrier than its phase expects."""

    rule = "too-many-arrivals"


class UninitialisedMbarrier(MbarrierFault):
    """An mbarrier that nobody has initialised."""

    rule = "uninitialised-mbarrier"


class Trap(Fault):
    """The kernel executed ``trap``."""

    rule = "trap"
    cause = "trap"


class FailedAssertion(Fault):
    """An ``assert`` of the kernel does not hold."""

    rule = "assertion"
    cause = "assertion"


class Misaligned(Fault):
    """An address is no multiple of the width of its access."""

    rule = "misaligned-access"
    cause = "misaligned"


class Deadlock(EmulatorError):
    """Every thread waits and nothing is left that could wake one.

    ``waits``: for each group of threads that wait: who, for what, where, and what is known of the
    thing they wait for.
    """

    rule = "deadlock"

    def __init__(self, message: str | Sentence, waits: Sequence[Wait] = ()) -> None:
        super().__init__(message)
        self.waits = tuple(waits)

    @property
    def finding(self) -> Finding:
        """What ended the kernel, as a finding, with the waits."""
        return Finding(self.rule, self.sentence, waits=self.waits)


class Defect(EmulatorError):
    """The emulator itself failed: at instructions that ptxas refuses too, or by a mistake in it."""

    rule = "defect"


class StepLimit(EmulatorError):
    """The kernel ran longer than the launch allowed."""

    rule = "step-limit"


class Livelock(StepLimit):
    """It would never end: each thread spins or waits, and nobody can change what it looks at."""

    rule = "livelock"
