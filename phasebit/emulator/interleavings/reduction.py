"""Which orders of steps need be run: dynamic partial-order reduction with sleep sets.

Two steps are *dependent* when they touch the same thing and one of them changes it; the order of
the others is nobody's business, so that of all orders that differ in nothing else one is enough.
A run is repeated from its beginning, as the choices say; after it, each pair of dependent steps
that might have come the other way round asks for one more run in which they do.  A *fatal* step
ends its run, and whoever could step beside it has not: each of them is tried in its place.

``touches`` of a step: thing -> how. ``"r"`` looks, ``"w"`` changes; any other word is a class of
changes whose order among themselves does not matter, such as arrivals in one phase of a barrier.

Sources: Flanagan and Godefroid, *Dynamic partial-order reduction for model checking software*,
POPL 2005; Godefroid, *Partial-Order Methods for the Verification of Concurrent Systems*, 1996
(sleep sets); Abdulla, Aronis, Jonsson and Sagonas, *Optimal dynamic partial order reduction*, POPL
2014 (who must begin another order: source sets).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

Actor = Hashable
Touches = Mapping[Hashable, str]


@dataclass(eq=False)
class Step:
    """One step of a run."""

    actor: Actor
    touches: Touches = field(default_factory=dict)
    may: Touches = field(default_factory=dict)
    """What it might touch elsewhere in the order, beyond ``touches``."""
    threads: Sequence[Hashable] = ()
    """Who steps, where actors part and meet; none: the actor."""
    after: int = 0
    """Steps that come before it in any order, one bit each: who began or woke it."""
    sees: int = 0
    """Steps whose effect it has met here, likewise, beyond those that it conflicts with."""
    fatal: bool = False
    """Whether it has ended the run."""


class Stop(Exception):
    """No more of this run."""


class Chooser(Protocol):
    """What a run asks who steps next."""

    def __call__(self, possible: Sequence[Actor], before: Step | None) -> Actor:
        """One of those that are possible; ``before`` is the step that was taken last.

        Raises :class:`Stop`.
        """


@dataclass(eq=False)
class _Node:
    """A place in the tree of runs: who can step there, who has, who need not."""

    possible: tuple[Actor, ...]
    sleep: dict[Actor, Step]
    chosen: Actor
    wanted: set[Actor] = field(default_factory=set)
    step: Step | None = None

    def next(self) -> Actor | None:
        """The next of those who are wanted and have not been chosen."""
        return next((a for a in self.possible if a in self.wanted and a not in self.sleep), None)


def dependent(a: Step, b: Touches) -> bool:
    """Whether a step that slept may notice another."""
    return any(
        thing in b and conflict(how, b[thing])
        for touches in (a.touches, a.may) for thing, how in touches.items()
    )  # fmt: skip


def conflict(a: str, b: str) -> bool:
    """Whether the order of two touches of one thing matters."""
    return a != b or a == "w"


class Tree:
    """The runs so far. ``reduced=False`` runs every order, for comparison."""

    def __init__(self, reduced: bool = True) -> None:
        self.reduced = reduced
        self.nodes: list[_Node] = []
        self.depth = 0
        self.redundant = 0
        """Runs that were given up: what they would show was seen."""

    def begin(self) -> None:
        """A run begins."""
        self.depth = 0

    def choose(self, possible: Sequence[Actor], before: Step | None) -> Actor:
        """See :class:`Chooser`."""
        depth, self.depth = self.depth, self.depth + 1
        if depth:
            self.nodes[depth - 1].step = before
        if depth < len(self.nodes):
            chosen = self.nodes[depth].chosen
            assert chosen in possible, "a run that is repeated goes another way"
            return chosen
        sleep: dict[Actor, Step] = {}
        if depth and self.reduced:
            assert before is not None
            parent = self.nodes[depth - 1]
            sleep = {
                actor: step for actor, step in parent.sleep.items()
                if actor in possible and not dependent(step, before.touches)
                and not dependent(before, step.touches)
            }  # fmt: skip
        awake = [actor for actor in possible if actor not in sleep]
        if not awake:
            self.redundant += 1
            raise Stop
        # The same as before, where it can: the fewest changes are the easiest to read.
        last = before.actor if before is not None else None
        chosen = last if last in awake else awake[0]
        wanted = {chosen} if self.reduced else set(possible)
        self.nodes.append(_Node(tuple(possible), sleep, chosen, wanted))
        return chosen

    def end(self, last: Step | None, blocked: Iterable[Step] = ()) -> None:
        """A run is over: which others does it ask for? ``blocked``: who waited in vain."""
        if self.nodes and last is not None and self.depth <= len(self.nodes):
            self.nodes[self.depth - 1].step = last
        steps = [node.step for node in self.nodes if node.step is not None]
        if self.reduced:
            self._ask(steps, blocked)
        if steps and steps[-1].fatal:
            ended = self.nodes[len(steps) - 1]
            ended.wanted.update(ended.possible)

    def more(self) -> bool:
        """Whether orders are left."""
        return any(
            any(a not in node.sleep and a != node.chosen for a in node.wanted)
            for node in self.nodes
        )  # fmt: skip

    def advance(self) -> bool:
        """Go to the next run; False when there is none."""
        while self.nodes:
            node = self.nodes[-1]
            if node.step is not None:
                node.sleep[node.chosen] = node.step
            else:
                node.wanted.discard(node.chosen)
            following = node.next()
            if following is not None:
                node.chosen, node.step = following, None
                return True
            self.nodes.pop()
        return False

    def _ask(self, steps: Sequence[Step], blocked: Iterable[Step]) -> None:
        """For each step, what it might have come before."""
        closure: list[int] = []
        """For each step those that come before it in every equal order, and itself: a bit each."""
        last: dict[Hashable, int] = {}
        """Thread -> its last step."""
        history: dict[Hashable, list[tuple[int, str]]] = {}
        for j, step in enumerate([*steps, *blocked]):
            own = 0
            for bit in _bits(step.after):
                own |= closure[bit]
            threads = step.threads or (step.actor,)
            for thread in threads:
                if thread in last:
                    own |= closure[last[thread]]
            rivals = sorted({
                i for thing, how in step.touches.items()
                for i, other in history.get(thing, ()) if conflict(how, other)
            })  # fmt: skip
            covered, joined = own, own
            for i in reversed(rivals):
                # A step that had to wait at i may have been possible before: look further back.
                before = steps[:j]
                if not covered >> i & 1 and self._reverse(i, step.actor, joined, before, closure):
                    covered |= closure[i]
                joined |= closure[i]
            if j >= len(steps):
                continue
            for bit in _bits(step.sees):
                joined |= closure[bit]
            closure.append(joined | 1 << j)
            for thread in threads:
                last[thread] = j
            for thing, how in step.touches.items():
                history.setdefault(thing, []).append((j, how))

    def _reverse(
        self, i: int, actor: Actor, before: int, steps: Sequence[Step], closure: Sequence[int]
    ) -> bool:
        """Ask at step ``i`` for a run in which the next step of ``actor``, after ``steps``, and
        what does not come after ``i``, come first; False where ``actor`` had to wait.

        ``before`` comes before that step."""
        node = self.nodes[i]
        rest = [k for k in range(i + 1, len(steps)) if not closure[k] >> i & 1]
        inside = sum(1 << k for k in rest)
        begin = [steps[k].actor for k in rest if closure[k] & inside == 1 << k]
        if not before & inside:
            begin.append(actor)
        begin = [each for each in begin if each in node.possible]
        if begin and not any(each in node.wanted or each in node.sleep for each in begin):
            node.wanted.add(begin[-1])
        return actor in node.possible or bool(before & inside)


def _bits(number: int) -> Iterable[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


Run = Callable[[Chooser], tuple[Step | None, Sequence[Step]]]
"""Runs a system from its beginning; the last step, and the steps of those who wait in vain."""


def orders(run: Run, reduced: bool = True) -> Iterable[Tree]:
    """Run every order that is needed; a turn of the loop for each."""
    tree = Tree(reduced)
    while True:
        tree.begin()
        last, blocked = run(tree.choose)
        tree.end(last, blocked)
        yield tree
        if not tree.advance():
            return


__all__ = ["Actor", "Chooser", "Run", "Step", "Stop", "Touches", "Tree", "conflict", "dependent",
           "orders"]  # fmt: skip
