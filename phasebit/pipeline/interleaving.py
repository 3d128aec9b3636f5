"""One interleaving: the steps of all threads in the order they were taken, told and drawn."""

from __future__ import annotations

import random
import textwrap
from dataclasses import dataclass

from phasebit.pipeline.moves import COPY_ENGINE, Broken, Event, Failure, Machine, State
from phasebit.pipeline.steps import Step, System
from phasebit.timeline import Mark, Span, Timeline


@dataclass(frozen=True)
class Interleaving:
    """A run of ``system``: ``events`` in order; ``failure`` when it failed.

    When a step broke a rule, it is the last of the events.
    """

    system: System
    events: tuple[Event, ...]
    failure: Failure | None = None

    @property
    def headline(self) -> str:
        """How it ended, and after how many steps."""
        steps = "1 step" if len(self.events) == 1 else f"{len(self.events)} steps"
        if self.failure is None:
            return f"a clean run of {steps}"
        return f"{self.failure.kind.value}, after {steps}"

    def __str__(self) -> str:
        if self.failure is None:
            return self.headline
        lines = [f"{self.headline}: {self.failure.what}"]
        lines += [f"  {blocked.thread} {blocked.why}" for blocked in self.failure.waiting]
        return "\n".join(textwrap.fill(line, 80, subsequent_indent="    ") for line in lines)

    @property
    def states(self) -> list[State]:
        """The state before each event, and the last one."""
        machine = Machine(self.system)
        states = [machine.start]
        for event in self.events:
            who = next(n for e, n in machine.possible(states[-1]) if e == event)
            try:
                states.append(machine.take(states[-1], event.step, who))
            except Broken:
                break  # the step that failed has no state after it
        return states

    @property
    def timeline(self) -> Timeline:
        """A column for each thread, slot and barrier; a line for each step."""
        return _Drawing(self).timeline()

    def history(self, barrier: str) -> list[tuple[int, int, int]]:
        """(phase, pending, tx) of a barrier: at the start, then after each change."""
        index = list(self.system.barriers).index(barrier)
        values: list[tuple[int, int, int]] = []
        for state in self.states:
            _, phase, pending, _, tx, _ = state.barriers[index]
            if not values or values[-1] != (phase, pending, tx):
                values.append((phase, pending, tx))
        return values


def walk(system: System, seed: int = 0) -> Interleaving:
    """One interleaving, drawn at random: at each step every move is equally likely."""
    machine = Machine(system)
    choose = random.Random(seed)
    state, events = machine.start, []
    while moves := list(machine.possible(state)):
        event, who = moves[int(choose.random() * len(moves))]
        events.append(event)
        try:
            state = machine.take(state, event.step, who)
        except Broken as problem:
            return Interleaving(system, tuple(events), problem.failure)
    return Interleaving(system, tuple(events), machine.verdict(state))


_LEGEND = {
    "produce": "fills",
    "consume": "reads",
    "wait": "cannot go on",
    "hand-off": "waits and passes, or arrives",
    "copy": "asynchronous copy",
    "full": "holds an item that somebody has yet to read",
    "bad": "fails",
    "parity 0": "parity 0 (phase: arrivals pending, bytes outstanding)",
    "parity 1": "parity 1",
}


class _Drawing:
    """Turns an interleaving into spans, one step a unit."""

    def __init__(self, run: Interleaving) -> None:
        self.run = run
        self.machine = Machine(run.system)
        self.states = run.states
        self.spans: list[Span] = []

    def timeline(self) -> Timeline:
        names = list(self.machine.names)
        if any(event.thread == COPY_ENGINE for event in self.run.events):
            names.append(COPY_ENGINE)
        slots = [f"slot {s}" for s in range(self.run.system.slots)]
        barriers = [b for b in self.run.system.barriers if self.is_used(b)]
        self.threads()
        self.slots(slots)
        self.barriers(barriers)
        failure = self.run.failure
        marks = []
        if failure is not None:
            at, who = len(self.run.events), failure.who
            if failure.waiting:
                who = failure.waiting[0].thread
            elif not who:  # the last step broke a rule
                at, who = at - 1, self.run.events[-1].thread
            marks.append(Mark(who, at, failure.what, "bad"))
        return Timeline(
            [*names, *slots, *barriers],
            self.spans,
            marks,
            unit="step",
            title=self.run.headline,
            legend=_LEGEND,
            down=True,
            quiet=[*slots, *barriers],
        )

    def is_used(self, barrier: str) -> bool:
        return any(
            barrier in (step.on, step.signals) for steps in self.machine.programs for step in steps
        )

    def threads(self) -> None:
        """What each thread does at each step; between its steps, whether it could go on."""
        busy: dict[str, str] = {}  # thread -> the kind of span that it is in the middle of
        blocked: set[str] = set()
        failure = self.run.failure
        broke_a_rule = failure is not None and not failure.waiting and not failure.who
        failed_at = len(self.run.events) - 1 if broke_a_rule else -1
        for at, event in enumerate(self.run.events):
            kind, label = _KINDS[event.step.do]
            text = label.format(on=event.step.on, value=event.step.value, item=event.step.item)
            if event.step.do in ("copy", "land") and self.run.system.parts > 1:
                text += f", part {event.step.part}"
            if at == failed_at:
                kind = "bad"
            self.spans.append(Span(event.thread, at, at + 1, kind, text))
            if event.step.do in ("fill", "read"):
                busy[event.thread] = kind
            elif event.step.do in ("filled", "done"):
                busy.pop(event.thread, None)
            blocked.discard(event.thread)
            for thread, name in enumerate(self.machine.names):
                if name == event.thread:
                    continue
                if name in busy:
                    self.spans.append(Span(name, at, at + 1, busy[name]))
                elif self.is_blocked(self.states[at], thread):
                    step = self.next_step(self.states[at], thread)
                    first = "" if name in blocked else str(step)
                    why = self.machine.why_waits(self.states[at], step)
                    self.spans.append(Span(name, at, at + 1, "wait", first, why))
                    blocked.add(name)
        end = len(self.run.events)
        if failure is not None:
            for each in failure.waiting:
                why = self.machine.why_waits(self.states[-1], each.step)
                self.spans.append(Span(each.thread, end, end + 1, "bad", str(each.step), why))
            if failure.who:
                self.spans.append(Span(failure.who, end, end + 1, "bad", "ends"))

    def is_blocked(self, state: State, thread: int) -> bool:
        at = state.at[thread]
        program = self.machine.programs[thread]
        return at < len(program) and not self.machine.passes(state, program[at])

    def next_step(self, state: State, thread: int) -> Step:
        return self.machine.programs[thread][state.at[thread]]

    def slots(self, names: list[str]) -> None:
        """What each slot holds after each step, where that is worth a cell."""
        parts = self.run.system.parts
        for slot, name in enumerate(names):
            shown = ""
            for at, state in enumerate(self.states[1:]):
                mine = state.parts[slot * parts : (slot + 1) * parts]
                if all(p.filled and not p.unread for p in mine):
                    shown = ""
                    continue
                text = " | ".join(
                    "-" if p.item < 0 else f"item {p.item}" + ("" if p.filled else "…")
                    for p in mine
                )
                kind = "full" if all(p.filled for p in mine) else "produce"
                self.spans.append(Span(name, at, at + 1, kind, text if text != shown else ""))
                shown = text

    def barriers(self, names: list[str]) -> None:
        """Phase and pending count of each barrier, at the start and whenever they change."""
        for name in names:
            index = self.machine.barrier_index[name]
            shown = ""
            for at, state in enumerate(self.states[1:]):
                _, phase, pending, _, tx, _ = state.barriers[index]
                text = f"{phase}: {pending}" + (f", {tx} B" if tx else "")
                kind = f"parity {phase & 1}"
                self.spans.append(Span(name, at, at + 1, kind, text if text != shown else ""))
                shown = text


_KINDS: dict[str, tuple[str, str]] = {
    "wait": ("hand-off", "wait {on} parity {value}"),
    "arrive": ("hand-off", "arrive {on}"),
    "arrive_drop": ("hand-off", "arrive_drop {on}"),
    "expect_tx": ("hand-off", "expect_tx {on} {value} B"),
    "arrive_expect_tx": ("hand-off", "arrive_expect_tx {on} {value} B"),
    "fill": ("produce", "fill slot {on}, item {item}"),
    "filled": ("produce", "done"),
    "read": ("consume", "read slot {on}"),
    "done": ("consume", "done"),
    "copy": ("copy", "start copy, item {item}"),
    "land": ("copy", "item {item} lands in slot {on}"),
    "store": ("hand-off", "{on} = {value}"),
    "add": ("hand-off", "{on} {value:+d}"),
    **{
        relation: ("hand-off", "{on} " + relation + " {value}")
        for relation in ("==", "!=", "<", "<=", ">", ">=")
    },
}
"""How the timeline shows a step: the kind of span, and its label."""
