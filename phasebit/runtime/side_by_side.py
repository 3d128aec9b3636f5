"""What several devices do at the same time: streams, what comes after what, and whose turn it is.

With one device each launch runs as soon as it is sent, to its end. With several that would not do:
a kernel may wait for a flag that a kernel on another device sets. So what the program puts into
streams is kept here until the program waits for some of it, or asks; then launches of all streams
run side by side, a turn each (`phasebit.emulator.Together`), until that part is done. The others
stay where they are and go on with the next wait.

What comes after what is what the host has said: work of one stream in order; the legacy stream of a
device and its blocking streams in turn; `cudaStreamWaitEvent`; and whatever the host has waited for
before it issued the next piece. (`cuStreamWaitValue32` only holds a stream up.) Launches between
which it has said nothing run at the same time. Streams keep `MOST_OPEN` pieces: a program that
issues more waits for the older half first, and is taken to have waited for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from phasebit.emulator import (
    EmulatorError,
    Execution,
    Finding,
    Seat,
    Together,
    demangle,
    findings,
)
from phasebit.runtime.backend import Launch, Module, Outcome, Stop, failure
from phasebit.runtime.mapped_memory import DeviceMemory
from phasebit.runtime.protocol import Op, Status

if TYPE_CHECKING:
    from phasebit.runtime.server import Device

TURNS = 64
"""Turns that launches get when a program asks whether something is done."""
MOST_OPEN = 1024
"""What streams keep; then the program waits until half of it is done, as for a GPU's queue."""
ALL = 2**64 - 1


class ForSeveral(Protocol):
    """A backend that loads a module for each of several devices, with variables of its own."""

    def load(self, ptx: str, memory: DeviceMemory, device: int) -> Module: ...


class Startable(Protocol):
    """A module whose launches run in turns."""

    def prepare(self, launch: Launch, seat: Seat) -> Execution: ...

    def outcome(
        self, kernel: str, execution: Execution, failed: EmulatorError | None
    ) -> Outcome: ...


@dataclass
class _Piece:
    """Something in a stream: a launch, or what takes no time."""

    number: int
    stream: int
    after: frozenset[int]
    """What the host has said comes before, of what had not ended when it was issued."""
    below: int
    """All pieces with lower numbers come before it, too."""
    begin: Callable[[_Piece], Execution | None]
    waits: Iterator[int]
    """What of ``after`` may not have ended yet, behind ``blocker``."""
    blocker: int = -1
    """One that it waits for: no other need be looked at as long as this is open."""
    end: Callable[[Execution, EmulatorError | None], None] | None = None
    begun: bool = False
    ready: Callable[[], bool] = lambda: True
    """Whether what it waits for in memory is there."""
    awaits: tuple[int, int] | None = None
    """An address, and a number."""


@dataclass
class Work:
    """The streams of several devices."""

    device: Device
    together: Together = field(default_factory=Together)

    def __post_init__(self) -> None:
        self.next = 0
        self.open: dict[int, _Piece] = {}
        """What has not ended."""
        self.last: dict[int, frozenset[int]] = {}
        """Stream -> all that its next piece comes after, that the host has not waited for."""
        self.events: dict[int, frozenset[int]] = {}
        self.waited: set[int] = set()
        """Pieces that the host knows to have ended, but for those below ``below``."""
        self.below = 0
        self.executions: dict[int, tuple[_Piece, Execution]] = {}

    # -- what the program issues ----------------------------------------------

    def then(self, stream: int, do: Callable[[], None]) -> None:
        """Something that takes no time, in the order of a stream."""

        def begin(piece: _Piece) -> None:
            do()

        self._issue(stream, begin)
        self._start()

    def until(self, stream: int, ready: Callable[[], bool], address: int, number: int) -> None:
        """What comes in this stream waits for a number in memory."""
        piece = self._issue(stream, lambda piece: None)
        piece.ready, piece.awaits = ready, (address, number)
        self._start()

    def launch(
        self, stream: int, module: Startable, launch: Launch, ended: Callable[[Outcome], None]
    ) -> None:
        """A kernel."""

        def begin(piece: _Piece) -> Execution | None:
            device = self.device.clock.device_of(stream)
            seat = self.together.seat(
                piece.number, device, piece.below, piece.after,
                lambda peer: self.device.reaches(device, peer),
            )  # fmt: skip
            try:
                return module.prepare(launch, seat)
            except Exception as error:
                ended(failure(launch.kernel, error))
                return None

        def end(execution: Execution, failed: EmulatorError | None) -> None:
            ended(module.outcome(_name(execution), execution, failed))

        self._issue(stream, begin, end)

    def record(self, event: int, stream: int) -> None:
        """An event takes what its stream has so far."""
        self.then(stream, lambda: self.device.clock.record(event, stream))
        self.events[event] = self._before(stream)

    def wait(self, stream: int, event: int) -> None:
        """What comes in this stream comes after the event."""
        known = self.events.get(event, frozenset())
        self.last[stream] = self.last.get(stream, frozenset()) | known
        self.then(stream, lambda: self.device.clock.wait(stream, event))

    def _before(self, stream: int) -> frozenset[int]:
        """What the next piece of a stream comes after."""
        none: frozenset[int] = frozenset()
        return none.union(*(self.last.get(s, none) for s in self.device.clock.tied(stream)))

    def _issue(
        self, stream: int, begin: Callable[[_Piece], Execution | None],
        end: Callable[[Execution, EmulatorError | None], None] | None = None,
    ) -> _Piece:  # fmt: skip
        if len(self.open) >= MOST_OPEN:
            last = sorted(self.open)[MOST_OPEN // 2 - 1]
            self._finish(frozenset(range(self.below, last + 1)))
        after = self._before(stream) | self.waited
        waits = iter(sorted(after & self.open.keys(), reverse=True))
        piece = _Piece(self.next, stream, after, self.below, begin, waits, end=end)
        self.open[piece.number] = piece
        self.last[stream] = self._before(stream) | {piece.number}
        self.next += 1
        return piece

    # -- what the program waits for -------------------------------------------

    def before(self, op: Op, words: Sequence[int]) -> None:
        """Do what must be done before a message is answered."""
        if op == Op.SYNCHRONIZE:
            stream, event = words
            if event:
                self._finish(self.events.get(event, frozenset()))
            elif stream == ALL:
                self._finish(frozenset(range(self.below, self.next)))
            else:
                for one in self.device.streams(stream):
                    self._finish(self._before(one))
        elif op == Op.COPY:
            self._finish(self._before(words[6]), waited=bool(words[7]))
        elif op == Op.ELAPSED:
            for event in words:
                self._finish(self.events.get(event, frozenset()))
        elif op in (Op.FREE, Op.UNLOAD):
            self._finish(frozenset(range(self.below, self.next)))
        elif op == Op.HELLO:
            self.together.give_up()
            self.open.clear()

    def done(self, stream: int, event: int) -> bool:
        """Let launches have some turns; whether all up to an event, or in a stream, is done."""
        wanted = self.events.get(event, frozenset()) if event else self._before(stream)
        for _ in range(TURNS):
            if self._ended(wanted) or not self._turn():
                break
        if self._ended(wanted):
            self._know(wanted)
        return self._ended(wanted)

    def _ended(self, wanted: frozenset[int]) -> bool:
        return self.open.keys().isdisjoint(wanted)

    def _finish(self, wanted: frozenset[int], waited: bool = True) -> None:
        """Let launches run until these pieces are done; ``waited``: the host knows it then."""
        try:
            while not self._ended(wanted):
                if not self._turn():
                    self._tell_who_waits()
                    break
        except Stop as stop:
            running = self.together.running
            if running:
                sentence = findings.say("was running: {}", running[0].standing())
                stop.standing = Finding("time-limit", sentence, kernel=_name(running[0]))
            raise
        if waited:
            self._know(wanted)

    def _know(self, wanted: frozenset[int]) -> None:
        """The host knows that these pieces have ended, and all that come before them."""
        self.waited |= wanted
        while self.below in self.waited:
            self.waited.discard(self.below)
            self.below += 1
        oldest = min((piece.below for piece in self.open.values()), default=self.below)
        self.together.forget(oldest)
        for known in (self.last, self.events):
            for key, numbers in known.items():
                known[key] = frozenset(n for n in numbers if n >= self.below)

    # -- turns ----------------------------------------------------------------

    def _start(self) -> None:
        """Begin all that comes after nothing that is open."""
        again = True
        while again:
            again = False
            for piece in list(self.open.values()):
                if piece.begun or self._waits(piece):
                    continue
                if not piece.ready():
                    continue
                piece.begun = again = True
                execution = piece.begin(piece)
                if execution is None:
                    del self.open[piece.number]
                else:
                    self.executions[piece.number] = piece, execution
                    self.together.begin(execution)

    def _waits(self, piece: _Piece) -> bool:
        """Whether something is open that comes before a piece."""
        while piece.blocker not in self.open:
            piece.blocker = next(piece.waits, -1)
            if piece.blocker < 0:
                return False
        return True

    def _turn(self) -> bool:
        """One turn of one launch; False when there is none."""
        self._start()
        if not self.together.running:
            return False
        ended = self.together.advance()
        if ended is None:
            return True
        execution, error = ended
        number = execution.machine.seat.number
        piece, _ = self.executions.pop(number)
        del self.open[number]
        assert piece.end is not None
        piece.end(execution, error)
        if error is not None:
            self._give_up()
        return True

    def _tell_who_waits(self) -> None:
        """The host waits, and no kernel runs: a stream that waits in memory waits for ever.

        It is that of the first piece: all others wait for what comes before them.
        """
        for piece in self.open.values():
            if piece.awaits:
                self.device.waits_for_ever(*piece.awaits)
                self.device.fault = Status.LAUNCH_TIMEOUT
                self._give_up()
                return

    def _give_up(self) -> None:
        """A kernel has failed, and with it the program's devices: nothing else goes on."""
        for _, execution in self.executions.values():
            if execution.findings:
                name = _name(execution)
                self.device.reporter.found(
                    [replace(each, kernel=name) for each in execution.findings]
                )
        self.together.give_up()
        self.device.memory.finished += len(self.executions)
        self.executions.clear()
        self.open.clear()


def _name(execution: Execution) -> str:
    """The kernel's, as its author wrote it."""
    return demangle(execution.program.kernel.name)
