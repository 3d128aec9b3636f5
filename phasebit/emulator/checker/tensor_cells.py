"""Who may touch which cells of tensor memory: the rule that all operations on it share."""

from __future__ import annotations

import numpy as np

from phasebit.emulator.checker.races import Races
from phasebit.emulator.checker.reports import Findings
from phasebit.emulator.checker.shared_shadow import LIVE, SharedShadow
from phasebit.emulator.checker.tensor_shadow import I4, TensorShadow
from phasebit.emulator.findings import Sentence, Threads, say
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.ptx.types import Array
from phasebit.emulator.tensor_core.regions import Region


class TensorCells:
    """The shadows of tensor memory."""

    def __init__(self, races: Races, findings: Findings) -> None:
        self.machine = races.machine
        self.races = races
        self.findings = findings
        self.shadows: dict[Batch, TensorShadow] = {}

    def shadow(self, batch: Batch) -> TensorShadow:
        """That of a batch; made on first use."""
        if batch not in self.shadows:
            self.shadows[batch] = TensorShadow(batch.count)
            self.races.order.thread_by_thread.add(batch)
        return self.shadows[batch]

    def known(self, s: SharedShadow, lanes: Array, *own: int) -> Array:
        """Up to when each agent's doings are ordered before what these threads do now.

        ``own``: columns that need no order.
        """
        known: Array = s.clock[lanes].min(axis=0)
        floor = s.floor[int(lanes[0]) // s.batch.threads]
        known[: s.team] = np.maximum(known[: s.team], floor)
        after = self.shadow(s.batch).after
        if after is not None:  # fenced, and a relaxed barrier between: no more is needed
            known[: s.team] = np.maximum(known[: s.team], after[lanes].max(axis=0))
        known[list(own)] = LIVE
        return known

    def who(self, s: SharedShadow, lane: int, column: int) -> Sentence | Threads:
        """The agent of a column, in words."""
        other = lane // s.team * s.team + column % s.team
        name = s.batch.describe(np.array([other]))
        if column >= s.team:
            return say("a tensor operation of {}", name)
        warp = other // s.batch.threads * s.batch.threads + other % s.batch.threads // 32 * 32
        end = min(warp + 32, (other // s.batch.threads + 1) * s.batch.threads)
        return s.batch.describe(np.arange(warp, end))

    def touch(
        self, batch: Batch, lanes: Array, region: Region, access: int, verb: str, *,
        writes: bool, tensor_core: bool = False, fences: bool = True, in_order_of: int = -1,
    ) -> None:  # fmt: skip
        """Threads, or the tensor core for one of them, read or write cells.

        ``fences``: this needs a ``tcgen05.fence`` after those of other threads.
        ``in_order_of``: the first lane of a warp whose stores need not be waited for.
        """
        t = self.shadow(batch)
        s = self.races.shadows[batch]
        first = int(lanes[0])

        def what() -> Sentence:
            who, place = batch.describe(lanes), self.findings.place(access)
            return say("{} {} tensor memory, {}: {}", who, verb, region, place)

        if (
            not writes
            and not t.written.time[region.key].all()
            and not t.storing.meeting(region, in_order_of)
            and not self._half(s, t, region)
            and not self._ahead(t, region, tensor_core)
        ):
            self.findings.report(
                "uninitialised-tensor-memory", say("{}; nobody has written all of it", what()),
                access, ("tensor uninitialised", access),
            )  # fmt: skip
        for waiting, word, matters in (
            (t.storing, "st", True), (t.loading, "ld", writes),
        ):  # fmt: skip
            ignored = in_order_of if word == "st" else -1
            for lane, _, there in waiting.meeting(region, ignored) if matters else ():
                other_warp = self.who(s, first, int(s.threads(np.array([lane]))[0]))
                done = "written it" if word == "st" else "read it"
                self.findings.report(
                    "missing-tcgen05-wait",
                    say(
                        "{}; {} may not have {} yet, for it has not executed "
                        "tcgen05.wait::{}: {}",
                        what(), other_warp, done, word, self.findings.place(there),
                    ),
                    access, ("tensor", access, there),
                )  # fmt: skip
        touched = (t.written, t.read, t.consumed)[: 3 if writes else 1]
        # Clocks never go back, so what these threads knew some time ago they still know.
        group = lanes.tobytes(), tensor_core, fences
        knew = t.knew.get(group)
        if knew is not None and not any(last.some_late(region, knew) for last in touched):
            return
        known, fenced = self._known(s, t, lanes, tensor_core, fences)
        t.knew[group] = known if fenced is None else np.minimum(known, fenced)
        for last, did in zip(touched, ("writes", "reads", "reads"), strict=False):
            late = last.late(region, known)
            if late:
                self._unordered(s, first, what(), access, late, did)
            elif fenced is not None:
                late = last.late(region, fenced)
                if late:
                    self._unfenced(s, lanes, what(), access, late, did)

    def _known(
        self, s: SharedShadow, t: TensorShadow, lanes: Array, tensor_core: bool, fences: bool
    ) -> tuple[Array, Array | None]:
        """Up to when each agent's doings are ordered, and fenced, before these threads'."""
        first = int(lanes[0])
        warp = first - first % s.batch.threads % 32  # its first lane notes a warp's ld and st
        own: list[int] = s.threads(np.append(lanes, warp)).tolist()
        if tensor_core:
            own.append(s.team + int(s.threads(lanes)[0]))
        return self.known(s, lanes, *own), self._fenced(s, t, lanes) if fences else None

    def _fenced(self, s: SharedShadow, t: TensorShadow, lanes: Array) -> Array | None:
        """Up to when each agent's doings are fenced before these threads'; None: not asked."""
        halves = self.races.facts.tensor_fences
        if not halves:
            return None
        known = np.full(s.clock.shape[1], LIVE, I4)
        if "after" in halves:
            mine: Array = np.zeros(s.team, I4) if t.after is None else t.after[lanes].max(axis=0)
        else:
            mine = s.clock[lanes, s.fences :].max(axis=0)
        known[s.team : 2 * s.team] = mine
        if "before" in halves:
            known[: s.team] = mine
        else:  # what was learnt by then would do, but nothing notes it
            known[: s.team] = LIVE
        first = int(lanes[0])
        warp = first - first % s.batch.threads % 32
        end = min(warp + 32, (first // s.batch.threads + 1) * s.batch.threads)
        own = s.threads(np.arange(warp, end))
        known[own] = known[s.team + own] = LIVE
        return known

    def _unfenced(
        self, s: SharedShadow, lanes: Array, what: Sentence, access: int,
        other: tuple[int, int, int], did: str,
    ) -> None:  # fmt: skip
        column, there, time = other
        writer = int(lanes[0]) // s.team * s.team + column % s.team
        fenced = int(s.clock[writer, s.fences + column % s.team]) >= time
        who = self.who(s, int(lanes[0]), column)
        if column >= s.team or fenced:
            need = "tcgen05.fence::after_thread_sync behind the barrier that orders them"
        else:
            need = "tcgen05.fence::before_thread_sync before the barrier that orders them"
        self.findings.report(
            "missing-tcgen05-fence",
            say(
                "{}; {} {} it before, and between the two is no {}: {}",
                what, who, did, need, self.findings.place(there),
            ),
            access, ("tensor fence", access, there),
        )  # fmt: skip

    def _unordered(
        self, s: SharedShadow, lane: int, what: Sentence, access: int,
        other: tuple[int, int, int], did: str,
    ) -> None:  # fmt: skip
        column, there, _ = other
        tensor_core = column >= s.team
        why = (
            "and this thread has not waited for an mbarrier at which a tcgen05.commit after it "
            "arrives" if tensor_core else "and nothing orders the two"
        )  # fmt: skip
        self.findings.report(
            "missing-tcgen05-commit" if tensor_core else "race",
            say(
                "{}; {} {} it, {}: {}",
                what, self.who(s, lane, column), did, why, self.findings.place(there),
            ),
            access, ("tensor", access, there),
        )  # fmt: skip

    def _half(self, s: SharedShadow, t: TensorShadow, region: Region) -> bool:
        """Whether nothing is missing but the lanes that products of 64 rows leave alone.

        Their sums lie in 16 lanes of each quarter (9.7.16.10.5): a warp that loads its whole
        quarter gets nothing in the registers of its other threads, and needs nothing.
        """
        halves = region.halves
        if halves.start % 2 or halves.stop % 2:
            return False
        made: Array = (t.written.time[region.key] > 0) & (t.written.who[region.key] >= s.team)
        quarters = made.all(axis=1).reshape(-1, 2)
        return bool(quarters.any(axis=1).all())

    def _ahead(self, t: TensorShadow, region: Region, tensor_core: bool) -> bool:
        """Whether a compiler loads what nothing was written to, to throw it away.

        Triton begins a loop's first turn before it asks whether there is one: the multiplication
        has a predicate, the ``tcgen05.ld`` of its sums has none.
        """
        instruction = self.machine.executing()
        generated = instruction is not None and instruction.generated and not tensor_core
        return generated and not t.written.time[region.key].any()


__all__ = ["TensorCells"]
