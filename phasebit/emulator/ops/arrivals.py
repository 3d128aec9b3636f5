"""mbarrier (PTX ISA 9.7.13.15): arrivals, expected bytes, waits.

Each function finds the barrier objects that the group's addresses name and has
the state machine of *Barriers* do the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator.errors import MbarrierFault
from phasebit.emulator.machine.barrier_sites import IMAGE, BarrierSite, MbarrierObserver, sites
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.ptx.table import Traits, blocking, effect, value
from phasebit.emulator.ptx.types import Array, Value
from phasebit.mbarrier import pending_count as count_of_token

B64 = frozenset({"b64"})
SCOPED = [{"release": ("sem", "release"), "relaxed": ("sem", "relaxed"),
           "acquire": ("sem", "acquire")}]  # fmt: skip


@effect("mbarrier.init", "a u32", B64, section="9.7.13.15.9")
def init(g: Group, address: Value, count: Value, *, space: str = "generic") -> None:
    """mbarrier.init: phase 0, ``count`` arrivals expected."""
    for site, where in sites(g, address, space):
        expected = int(_one(count, where))
        if site.is_new(expected):
            for told in g.batch.machine.told[MbarrierObserver.initialises_again]:
                told(g, g.lanes if where is None else g.lanes[where], site)
            continue
        site.operate(g, "init", expected)
        position = site.position() >> 3
        g.memory.u8[position] = IMAGE
        at = g.batch.machine.source_line(g)
        site.maker = f"; made with a count of {site.barrier.expected} at {at}"
        for told in g.batch.machine.told[MbarrierObserver.initialises]:
            told(g, g.lanes if where is None else g.lanes[where], site)


@effect("mbarrier.inval", "a", B64, section="9.7.13.15.10")
def inval(g: Group, address: Value, *, space: str = "generic") -> None:
    """mbarrier.inval: the memory is free for other uses."""
    for site, where in sites(g, address, space):
        site.operate(g, "inval")
        for told in g.batch.machine.told[MbarrierObserver.invalidates]:
            told(g, g.lanes if where is None else g.lanes[where], site)


def _one(count: Value, where: Array | None) -> Any:
    """The operand of the first of these threads."""
    if isinstance(count, np.ndarray):
        return count[0] if where is None else count[where[0]]
    return count


def _operands(count: Value | None, lanes: Array, where: Array | None) -> list[tuple[int, Array]]:
    """The operands of these threads, each with those that have it."""
    if not isinstance(count, np.ndarray):
        return [(1 if count is None else int(count), lanes)]
    mine = count if where is None else count[where]
    return [(int(one), lanes[mine == one]) for one in np.unique(mine)]


def _arrive(
    g: Group, address: Value, space: str, count: Value | None, what: str, sem: str, scope: str
) -> Value:
    """Arrive with every thread of the group; the token of each."""
    machine = g.batch.machine
    found = sites(g, address, space)
    tokens: Value = np.uint64(0)
    if len(found) > 1:
        tokens = np.zeros(g.n, np.uint64)
    for site, where in found:
        lanes = g.lanes if where is None else g.lanes[where]
        for arrives_at in machine.told[LaunchObserver.arrives_at]:
            arrives_at(g, site.name)
        for arrives in machine.told[MbarrierObserver.arrives]:
            arrives(g, lanes, site, sem, scope)
        for one, some in _operands(count, lanes, where):
            token = _arrive_at(g, site, one, what, some)
        if len(found) == 1:
            tokens = np.uint64(token)
        else:
            tokens[where] = token
    machine.now += 1
    return tokens


def _arrive_at(g: Group, site: BarrierSite, count: int, what: str, lanes: Array) -> int:
    """An arrival of ``count`` by each of these threads, in as few steps as the phase allows."""
    site.arrived.append(lanes)
    threads, token = len(lanes), 0
    machine = g.batch.machine
    while threads:
        unobserved = not site.barrier.observed
        for told in machine.told[MbarrierObserver.unobserved] if unobserved else ():
            told(g, site)
        if what in ("arrive", "arrive_drop"):
            fit = max(1, min(threads, site.barrier.pending // count))
            if what == "arrive_drop":
                fit = max(1, min(fit, site.barrier.expected // count - 1))
            token = site.operate(g, what, fit * count)
            threads -= fit
        else:
            if "expect_tx" in what:
                site.announces(count)
            if what == "arrive_drop_expect_tx":
                site.operate(g, "expect_tx", count)
                token = site.operate(g, "arrive_drop", 1)
            else:
                token = site.operate(g, what, count)
            threads -= 1
    return token


@effect("mbarrier.arrive", "a u32 -> b64", B64, section="9.7.13.15.13", options=SCOPED, optional=1)
def arrive(
    g: Group, address: Value, count: Value | None = None, *, space: str = "generic",
    sem: str = "release", scope: str = "cta",
) -> Value:  # fmt: skip
    """mbarrier.arrive: one arrival (or ``count``) for each thread; a token of the phase."""
    return _arrive(g, address, space, count, "arrive", sem, scope)


@effect("mbarrier.arrive.noComplete", "a u32 -> b64", B64, section="9.7.13.15.13",
        options=SCOPED)  # fmt: skip
def arrive_no_complete(
    g: Group, address: Value, count: Value, *, space: str = "generic", sem: str = "release",
    scope: str = "cta",
) -> Value:  # fmt: skip
    """mbarrier.arrive.noComplete: an arrival that must not complete the phase."""
    return _arrive(g, address, space, count, "arrive_no_complete", sem, scope)


@effect("mbarrier.arrive_drop", "a u32 -> b64", B64, section="9.7.13.15.14", options=SCOPED,
        optional=1)  # fmt: skip
def arrive_drop(
    g: Group, address: Value, count: Value | None = None, *, space: str = "generic",
    sem: str = "release", scope: str = "cta",
) -> Value:  # fmt: skip
    """mbarrier.arrive_drop: arrive, and be expected no more."""
    return _arrive(g, address, space, count, "arrive_drop", sem, scope)


@effect("mbarrier.arrive_drop.expect_tx", "a u32 -> b64", B64, section="9.7.13.15.14",
        options=SCOPED)  # fmt: skip
def arrive_drop_expect_tx(
    g: Group, address: Value, nbytes: Value, *, space: str = "generic", sem: str = "release",
    scope: str = "cta",
) -> Value:  # fmt: skip
    """mbarrier.arrive_drop.expect_tx: expect bytes of copies, arrive, and be expected no more."""
    return _arrive(g, address, space, nbytes, "arrive_drop_expect_tx", sem, scope)


@effect("mbarrier.arrive.expect_tx", "a u32 -> b64", B64, section="9.7.13.15.13",
        options=SCOPED)  # fmt: skip
def arrive_expect_tx(
    g: Group, address: Value, nbytes: Value, *, space: str = "generic", sem: str = "release",
    scope: str = "cta",
) -> Value:  # fmt: skip
    """mbarrier.arrive.expect_tx: expect bytes of copies, then arrive."""
    return _arrive(g, address, space, nbytes, "arrive_expect_tx", sem, scope)


@effect("mbarrier.expect_tx", "a u32", B64, section="9.7.13.15.11", options=SCOPED)
def expect_tx(
    g: Group, address: Value, nbytes: Value, *, space: str = "generic", sem: str = "relaxed"
) -> None:
    """mbarrier.expect_tx: expect bytes of copies, for each thread."""
    for site, where in sites(g, address, space):
        for size in g.spread(nbytes)[slice(None) if where is None else where].tolist():
            for told in g.batch.machine.told[MbarrierObserver.announces_bytes]:
                told(g, site)
            site.announces(size)
            site.operate(g, "expect_tx", size)


@effect("mbarrier.complete_tx", "a u32", B64, section="9.7.13.15.12", options=SCOPED)
def complete_tx(
    g: Group, address: Value, nbytes: Value, *, space: str = "generic", sem: str = "relaxed"
) -> None:
    """mbarrier.complete_tx: bytes have landed (without a copy)."""
    for site, where in sites(g, address, space):
        for size in g.spread(nbytes)[slice(None) if where is None else where].tolist():
            site.operate(g, "complete_tx", size)


def _wait(
    g: Group, dest: Any, address: Value, key: Value, space: str, parity: bool, may_fail: bool,
    sem: str, scope: str,
) -> int:  # fmt: skip
    """Wait with every thread; groups part where barriers or phases differ.

    In random schedules with an odd seed, and where somebody chooses each step, ``test_wait`` first
    says no where a phase is not complete, as it may: who asks once and goes on regardless has not
    waited.
    """
    hasty = False
    if g.batch.machine.says_no_first:
        instruction = g.batch.machine.executing()
        hasty = instruction is not None and "test_wait" in instruction.modifiers
    resume = g.resume
    found = sites(g, address, space)
    if g.batch.machine.cluster_size > 1:
        slots = g.batch.slots(g.lanes)
        for site, where in found:
            if ((slots if where is None else slots[where]) != site.slot).any():
                raise MbarrierFault(
                    "{} waits at mbarrier {}: a block can wait at its own barriers only; {}",
                    g.batch.describe(g.lanes[:1]), site.name, g.batch.machine.where(g),
                )
    if g.batch.machine.stepped and not _may_wait(g, dest, found, key, parity, hasty):
        return -1
    for told in g.batch.machine.told[MbarrierObserver.tests]:
        for site, where in found:
            told(g, g.lanes if where is None else g.lanes[where], site, sem, scope)
    if len(found) == 1 and not isinstance(key, np.ndarray):
        return found[0][0].wait(g, int(key), parity, dest, resume, may_fail, hasty)
    machine = g.batch.machine
    each = g.spread(key)
    for site, where in found:
        everyone = np.arange(g.n) if where is None else where
        for one in np.unique(each[everyone]):
            mine = everyone[each[everyone] == one]
            some = g.part(mine, resume)
            following = site.wait(some, int(one), parity, dest, resume, may_fail, hasty)
            if following >= 0:
                machine.make_ready(some)
    return -1


def _may_wait(
    g: Group, dest: Any, found: list[tuple[BarrierSite, Array | None]], key: Value, parity: bool,
    hasty: bool,
) -> bool:  # fmt: skip
    """In a launch whose steps somebody chooses: whether this one is chosen now."""
    resume, keys, first = g.resume, np.unique(key).tolist(), found[0][0]

    def answers() -> bool:
        return any(
            site.would_pass(one, parity) or (hasty and site.may_refuse(g))
            for site, _ in found for one in keys
        )  # fmt: skip

    return g.batch.machine.may_wait(
        g, answers, [site for site, _ in found],
        first.waiting(g, keys[0], parity, lambda group: first.refuse(group, dest, resume)),
    )  # fmt: skip


@blocking("mbarrier.test_wait mbarrier.try_wait", "a b64 u32 -> pred", B64,
          section="9.7.13.15.16", options=SCOPED, optional=1,
          traits=Traits(unnoticed=True))  # fmt: skip
def wait(
    g: Group, dest: Any, address: Value, token: Value, hint: Value = None, *,
    space: str = "generic", sem: str = "acquire", scope: str = "cta",
) -> int:  # fmt: skip
    """mbarrier.try_wait, test_wait: whether the phase of a token is complete.

    Both park the thread: an answer that comes later is as good.  They answer "not
    yet" only when nothing else can run.
    """
    return _wait(g, dest, address, token, space, False, True, sem, scope)


@blocking("mbarrier.test_wait.parity mbarrier.try_wait.parity", "a u32 u32 -> pred", B64,
          section="9.7.13.15.16", options=SCOPED, optional=1,
          traits=Traits(unnoticed=True))  # fmt: skip
def wait_parity(
    g: Group, dest: Any, address: Value, parity: Value, hint: Value = None, *,
    space: str = "generic", sem: str = "acquire", scope: str = "cta",
) -> int:  # fmt: skip
    """mbarrier.try_wait.parity, test_wait.parity: whether the phase of that parity is complete.

    Triton also gives -1 for 1: ptxas shifts the number left by 31, so that its last bit counts.
    Where a person wrote the instruction, other numbers than 0 and 1 are an error.
    """
    instruction = g.batch.machine.executing()
    if instruction is not None and instruction.generated:
        parity = parity & np.uint32(1)
    return _wait(g, dest, address, parity, space, True, True, sem, scope)


@value("mbarrier.pending_count", "b64 -> u32", B64, section="9.7.13.15.17")
def pending_count(token: Value) -> Value:
    """mbarrier.pending_count: the pending count that a token remembers."""
    if isinstance(token, np.ndarray):
        return np.array([count_of_token(int(t)) for t in token], np.uint32)
    return np.uint32(count_of_token(int(token)))
