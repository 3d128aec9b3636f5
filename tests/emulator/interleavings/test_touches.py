"""What each step touches, in what way, and after which others it comes in any order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.findings import Finding, Place, Sentence, say
from phasebit.emulator.interleavings import touches
from phasebit.emulator.interleavings.searching import Stepped
from phasebit.emulator.interleavings.touches import Touches, unordered
from phasebit.emulator.machine.accesses import Accesses
from phasebit.emulator.machine.barrier_sites import BarrierSite
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.named_barriers import NamedBarrier
from phasebit.emulator.machine.stepped import Blocked, Move
from phasebit.mbarrier import Mbarrier
from tests.emulator.machines import groups


def between(rule: str, *lines: int) -> Finding:
    words = [word for line in lines for word in ("x ", Place(line))]
    return Finding(rule, Sentence(tuple(words)))


# -- what a finding makes a step ------------------------------------------------------------------


def test_two_accesses_that_nothing_orders_touch_their_finding() -> None:
    found = unordered([between("race", 9, 4), between("race", 9, 7)], frozenset({4}))
    assert found == {
        4: {("found", 4, 9): "line 4"}, 7: {("found", 7, 9): "line 7"},
        9: {("found", 4, 9): "line 9", ("found", 7, 9): "line 9"},
    }  # fmt: skip


def test_one_instruction_against_itself_changes_what_it_touches() -> None:
    assert unordered([between("race", 4, 4)], frozenset()) == {4: {("found", 4): "w"}}


def test_between_steps_all_is_said_already() -> None:
    assert unordered([between("race", 4, 9)], frozenset({4, 9})) == {}


def test_what_others_do_makes_no_difference_to_some_rules() -> None:
    """Nor what ended a run, but for memory that another has freed."""
    skipped = [between(rule, 1, 2) for rule in ("out-of-bounds", "deadlock", *sorted(touches.OWN))]
    found = unordered([*skipped, between("use-after-free", 5, 6), between("race", 7, 8)],
                      frozenset())  # fmt: skip
    assert sorted(found) == [5, 6, 7, 8]


# -- one step after another -----------------------------------------------------------------------

BODY = """
    atom.relaxed.gpu.global.add.u32 %r3, [%rd1], 1; red.relaxed.gpu.global.add.u32 [%rd1], 1;
    red.relaxed.gpu.global.max.u32 [%rd1], 1; red.relaxed.gpu.global.add.f32 [%rd1], 0f3F800000;
    atom.acquire.gpu.global.add.u32 %r4, [%rd1], 1; atom.acq_rel.gpu.global.add.u32 %r5, [%rd1], 1;
    ret;
"""


def launch(
    body: str = BODY, count: int = 2, lines: dict[int, Any] | None = None, **how: Any
) -> tuple[Touches, Any, list[Group]]:
    made, found = groups(
        count, body=body, kind=Stepped, stepwise=frozenset(), check=False, **how
    )  # fmt: skip
    watching = Touches(made, lines or {})
    made.told.subscribe(watching)
    return watching, made, found


def begin(seen: Touches, g: Group, **more: Any) -> Any:
    """A step of this group."""
    move = g.batch.machine._move(g)
    for name, value in more.items():
        setattr(move, name, value)
    seen.begin(move)
    g.batch.machine.acting = move
    return seen.step


def test_steps_have_who_takes_them_and_the_touches_of_their_line() -> None:
    seen, _made, (a, b) = launch(lines={5: {"x": "line 5"}})
    one = begin(seen, a, line=5)
    seen.finish()
    two = begin(seen, b, line=6)
    assert seen.steps == [one, two] and (one.actor, two.actor) == ((0, 0), (0, 32))
    assert one.touches == {"x": "line 5"} and two.touches == {} and one.may == {}
    assert two.threads == tuple((0, n) for n in range(32, 64))
    assert one.after == two.after == 0 and not one.fatal
    assert [move.actor for move in seen.moves] == [(0, 0), (0, 32)]


def test_work_comes_after_who_began_it_and_after_work_before_it_in_its_queue() -> None:
    seen, _made, (a, b) = launch()
    queue, other = object(), object()
    steps = [begin(seen, a)]
    for begun, line_up in ((0, queue), (0, other), (1, queue), (3, queue), (2, None)):
        work: Any = SimpleNamespace(queue=line_up) if line_up else SimpleNamespace()
        steps.append(begin(seen, b, begun=begun, work=work, threads=()))
    assert [step.after for step in steps] == [0, 1, 1, 2 | 2, 8 | 8, 4]


def test_the_first_way_of_a_touch_gives_way_to_a_change() -> None:
    seen, _made, (a, _) = launch()
    seen._touch("x", "w")
    assert not seen.touches, "no step is under way"
    begin(seen, a)
    for thing, ways, left in (
        ("a", "r", "r"), ("b", "rr", "r"), ("c", "rw", "w"), ("d", "wr", "w"), ("e", "ww", "w"),
        ("f", ("r", "adds"), "adds"), ("g", ("adds", "r"), "adds"), ("h", ("adds", "w"), "w"),
        ("i", ("adds", "adds"), "adds"), ("j", ("adds", "phase 1"), "w"), ("k", ("w", "adds"), "w"),
    ):  # fmt: skip
        for way in ways:
            seen._touch(thing, way)
        assert seen.step is not None and seen.step.touches[thing] == left, thing


def test_what_was_looked_at_and_what_was_changed_is_told() -> None:
    seen, made, (a, _) = launch()
    noticed: list[Any] = []
    made.noticed = lambda looked, wrote: noticed.append((looked, wrote))
    begin(seen, a)
    for thing, way in (("a", "r"), ("b", "w"), ("c", "adds"), ("d", "r")):
        seen._touch(thing, way)
    seen.finish()
    assert noticed == [(["a", "d"], ["b", "c"])]


def test_steps_are_told_in_words_with_who_waits_after_them() -> None:
    seen, made, (a, b) = launch()
    site: Any = SimpleNamespace(name="full")
    other: Any = SimpleNamespace(name="empty")
    begin(seen, a)
    seen.did += ["arrive full", "arrive full", "x = 1"]
    seen.finish()
    made.held = {b: Blocked(made._move(b), lambda: False, [site, other])}
    begin(seen, b)
    seen.did += ["wait empty"]
    made.held = {a: Blocked(made._move(a), lambda: False, [site]),
                 b: Blocked(made._move(b), lambda: True, [site])}  # fmt: skip
    one, two = seen.taken()
    assert (one.who, one.row, one.did) == ("warp 0 of block 0", "warp 0", "arrive full; x = 1")
    assert one.waiting == (("warp 1", "wait full, empty"),) and one.what is seen.moves[0].what
    assert (two.who, two.did, two.waiting) == (
        "warp 1 of block 0", "wait empty", (("warp 0", "wait full"),),
    )  # fmt: skip
    seen.finish()
    assert [each.did for each in seen.taken()] == ["arrive full; x = 1", "wait empty"]


# -- mbarriers ------------------------------------------------------------------------------------


def site(g: Group, offset: int = 0, slot: int = 0) -> BarrierSite:
    return BarrierSite(g.batch, slot, offset)


def name(offset: int = 0, block: int = 0, slot: int = 0) -> tuple[int, int, int]:
    return (block, slot, offset)


def every(*names: Any) -> dict[Any, str]:
    return {(part, one): "w" for one in names for part in ("count", "bytes", "phase")}


def test_initialising_and_invalidating_change_all_of_a_barrier() -> None:
    seen, _made, (a, _) = launch()
    full = site(a)
    full.barrier.init(3)
    assert begin(seen, a).touches == {}
    seen.did.append("init")
    seen.initialises(a, a.lanes, full)
    assert seen.step is not None and seen.step.touches == every(name())
    assert seen.did == ["init bar"] and seen.counts[id(full)].pending == 3
    step = begin(seen, a)
    seen.initialises_again(a, a.lanes, full)
    assert step.touches == every(name()) and seen.did == ["init bar again"]
    step = begin(seen, a)
    seen.invalidates(a, a.lanes, site(a, 8, 1))
    assert step.touches == every(name(8, 0, 1)) and seen.did == ["inval more"]


def arrivals(count: int) -> tuple[Touches, list[Group], BarrierSite]:
    seen, _made, found = launch()
    full = site(found[0])
    full.barrier.init(count)
    known = seen._count(full)
    known.pending = count
    return seen, found, full


def test_arrivals_of_one_phase_may_come_in_any_order() -> None:
    seen, (a, b), full = arrivals(2)
    one = begin(seen, a)
    full.barrier.arrive()
    seen.operated(a, full)
    assert one.touches == {("count", name()): "phase 0"} and seen.did == ["arrive bar"]
    assert one.may == {("bytes", name()): "w", ("phase", name()): "w"}
    two = begin(seen, b)
    full.barrier.arrive()
    seen.operated(b, full)
    assert two.touches == {("count", name()): "phase 0", ("bytes", name()): "w",
                           ("phase", name()): "w"}  # fmt: skip
    known = seen._count(full)
    assert (known.opened, known.arrivals, known.phase, known.pending) == (0b11, 0, 1, 2)
    three = begin(seen, a)
    full.barrier.arrive()
    seen.operated(a, full)
    assert three.touches == {("count", name()): "phase 1"} and known.arrivals == 0b100


def test_bytes_may_come_in_any_order_and_the_last_arrival_asks_for_them() -> None:
    seen, (a, b), full = arrivals(1)
    one = begin(seen, a)
    full.barrier.expect_tx(16)
    seen.operated(a, full)
    assert one.touches == {("count", name()): "phase 0", ("bytes", name()): "phase 0"}
    assert one.may == {("phase", name()): "w"} and seen.did == ["bytes of bar"]
    two = begin(seen, b)
    full.barrier.arrive()
    seen.operated(b, full)
    assert two.touches == {("count", name()): "phase 0", ("bytes", name()): "w"}
    three = begin(seen, a)
    full.barrier.complete_tx(16)
    seen.operated(a, full)
    assert seen.did == ["bytes of bar"] and three.touches == {
        ("count", name()): "phase 0", ("bytes", name()): "phase 0", ("phase", name()): "w",
    }  # fmt: skip
    assert seen._count(full).opened == 0b111


def test_what_adds_to_the_pending_count_comes_before_or_after_each_arrival() -> None:
    seen, (a, _), full = arrivals(1)
    step = begin(seen, a)
    full.barrier.add_pending()
    seen.operated(a, full)
    assert step.touches == {("count", name()): "w", ("bytes", name()): "phase 0"}


def test_who_waits_looks_at_the_phase_and_meets_those_who_ended_it() -> None:
    seen, (a, b), full = arrivals(1)
    begin(seen, a)
    full.barrier.arrive()
    seen.operated(a, full)
    step = begin(seen, b)
    seen.tests(b, b.lanes, full, "acquire", "cta")
    assert step.touches == {("phase", name()): "r"} and seen.sites == [full]
    step = begin(seen, b)
    seen.waits(b, full, True)
    assert step.touches == {("phase", name()): "r"} and seen.sites == [] and step.sees == 0
    seen.passes(b, full)
    assert step.sees == 0b1 and seen.did == ["wait bar"]
    own = begin(seen, a)
    full.barrier.arrive()
    seen.operated(a, full)
    seen.passes(a, full)
    assert own.sees == 0, "not itself"


def test_a_step_that_ends_the_kernel_may_have_changed_all_of_its_barriers() -> None:
    seen, (a, _), full = arrivals(1)
    other = site(a, 8)
    step = begin(seen, a)
    seen.arrives(a, a.lanes, full, "release", "cta")
    seen.refuses(other)
    seen.fail()
    assert step.touches == every(name(), name(8)) and step.fatal
    assert seen.did == ["bar", "more"] and seen.words == ["bar; more"]


def test_who_waits_in_vain_looks_at_the_phases_of_its_barriers() -> None:
    seen, made, (a, b) = launch()
    waits = [Blocked(made._move(b), lambda: False, [site(a), site(a, 8)])]
    (step,) = seen.blocked(waits)
    assert step.actor == (0, 32) and step.threads == made._move(b).threads
    assert step.touches == {("phase", name()): "r", ("phase", name(8)): "r"}


# -- barriers of blocks and clusters --------------------------------------------------------------


def test_a_barrier_of_a_block_wakes_those_who_wait_after_all_who_came() -> None:
    seen, _made, (a, b) = launch()
    barrier = NamedBarrier(a.batch, 0, 3)
    one = begin(seen, a)
    seen.joins_barrier(a, barrier)
    assert one.touches == {("barrier", (0, 0, 3)): "generation 0"}
    assert seen.did == ["arrive barrier 3"]
    begin(seen, b)
    seen.joins_barrier(b, barrier)
    seen.opens_barrier(barrier, a.lanes, [a], [None], True)
    assert begin(seen, b).after == 0, "it did not wait"
    assert begin(seen, a).after == 0b11 and begin(seen, a).after == 0
    step = begin(seen, b)
    seen.joins_barrier(b, barrier)
    assert step.touches == {("barrier", (0, 0, 3)): "generation 1"}
    seen.opens_barrier(barrier, b.lanes, [b], [None], True)
    assert begin(seen, b).after == 1 << 5


def test_who_is_woken_twice_comes_after_both() -> None:
    seen, _made, (a, _) = launch()
    seen._wakes(a.batch, np.array([3]), 0b10)
    seen._wakes(a.batch, np.array([3, 4]), 0b100)
    assert seen.woken == {(0, 3): 0b110, (0, 4): 0b100}
    assert begin(seen, a).after == 0b110 and not seen.woken


def test_a_barrier_of_a_cluster_wakes_those_who_wait_after_all_who_came() -> None:
    seen, _made, (a, b) = launch()
    barrier: Any = SimpleNamespace(batch=SimpleNamespace(blocks=np.array([4])))
    one = begin(seen, a)
    seen.joins_cluster(a, barrier, 1, a.lanes, "release")
    assert one.touches == {("cluster", 4, 1): "generation 0"} and seen.did == ["arrive cluster"]
    begin(seen, b)
    seen.joins_cluster(b, barrier, 1, b.lanes, "release")
    seen.opens_cluster(barrier, 1)
    two = begin(seen, b)
    seen.joins_cluster(b, barrier, 1, b.lanes, "release")
    assert two.touches == {("cluster", 4, 1): "generation 1"}
    seen.passes_cluster(a, barrier, 1)
    assert begin(seen, a).after == 0b11
    seen.opens_cluster(barrier, 1)
    seen.passes_cluster(b, barrier, 1)
    assert begin(seen, b).after == 0b1100
    other = begin(seen, a)
    seen.joins_cluster(a, barrier, 0, a.lanes, "release")
    assert other.touches == {("cluster", 4, 0): "generation 0"}, "of another cluster"


# -- memory ---------------------------------------------------------------------------------------


def of(sem: str, words: tuple[int, ...] = (0,), width: int = 4) -> Accesses:
    return Accesses(words, width, ((0, width),), 0, "".join(sem), "gpu", "global")


@pytest.mark.parametrize(("index", "width", "offsets", "words"), [
    ([5, 5, 3], 4, [0], [3, 5]), ([5], 4, [0, 1], [5, 6]), ([2], 8, [0], [4, 5]),
    ([2], 16, [1], [12, 15]), ([9], 2, [0], [4]), ([7], 1, [0, 1], [1, 2]),
])  # fmt: skip
def test_words_of_four_bytes_are_touched(
    index: list[int], width: int, offsets: list[int], words: list[int]
) -> None:
    seen, _, _ = launch()
    assert seen._words(np.array(index), width, offsets).tolist() == words


def test_looks_and_changes_that_others_may_see_are_touches() -> None:
    seen, made, (a, _b) = launch()
    out = made.memory.allocate(16, "counters")
    made.memory.u4[out.start // 4 :][:4] = [7, 8, 9, 10]
    word = out.start // 4
    step = begin(seen, a)
    seen.loads(a, np.int64(word), of("weak"))
    assert not seen.stores(a, np.int64(word), of("weak")) and step.touches == {}
    seen.loads(a, np.int64(word), of("relaxed", (0, 1)))
    assert step.touches == {("memory", word): "r", ("memory", word + 1): "r"}
    assert seen.stores(a, np.int64(word + 2), of("volatile")) is False
    seen.finish()
    assert step.touches["memory", word + 2] == "w"
    assert seen.words == ["counters is 7; counters[1] is 8; counters[2] = 9"]


def test_shared_words_are_named_by_block_and_variable() -> None:
    seen, made, (a, _b) = launch(count=1, grid=2)
    step = begin(seen, a)
    batch = a.batch
    for slot, place in ((0, 0), (1, 12)):
        at = batch.shared_base + slot * batch.shared_stride + place
        made.memory.u4[at // 4] = 3 + slot
        seen.loads(a, np.int64(at // 4), of("relaxed"))
    far = batch.shared_base + 2 * batch.shared_stride
    seen.loads(a, np.int64(far // 4), of("relaxed"))
    seen.finish()
    stride = batch.shared_stride // 4
    assert [*step.touches] == [("shared", 0, 0), ("shared", 0, stride + 3), ("memory", far // 4)]
    assert seen.words[0].startswith("bar is 3; more[1] is 4; memory is ")


def update(seen: Touches, g: Group, text: str, word: int, count: int = 1) -> Any:
    """A step with an atomic: what it touches before it has changed anything."""
    made = g.batch.machine
    every = [each for block in made.program.blocks for each in block.instructions]
    made.program.instructions[:] = every
    step = begin(seen, g)
    made.running = g
    g.at = next(i for i, each in enumerate(every) if each.text.startswith(text))
    g.pc = next(i for i, block in enumerate(made.program.blocks)
                if every[g.at] in block.instructions)  # fmt: skip
    seen.updates(g, np.int64(word), 4, "relaxed", "gpu", count)
    return step


@pytest.mark.parametrize("changes", [True, False])
def test_an_atomic_may_change_a_word_and_has_or_has_not(changes: bool) -> None:
    seen, made, (a, _) = launch()
    word = made.memory.allocate(16, "x").start // 4
    step = update(seen, a, "red.relaxed.gpu.global.max", word, 2)
    made.memory.u4[word + 1] += changes
    seen.finish()
    assert step.touches == {("memory", word): "r", ("memory", word + 1): "w" if changes else "r"}
    assert step.may == {("memory", word): "w", ("memory", word + 1): "w"} and not seen.before


@pytest.mark.parametrize(("text", "adds"), [
    ("red.relaxed.gpu.global.add.u32", True), ("red.relaxed.gpu.global.max", False),
    ("red.relaxed.gpu.global.add.f32", False), ("atom.relaxed.gpu.global.add.u32", True),
    ("atom.acquire", False), ("atom.acq_rel", False),
])  # fmt: skip
def test_whole_numbers_that_nobody_looks_at_are_added_in_any_order(text: str, adds: bool) -> None:
    seen, made, (a, _) = launch()
    word = made.memory.allocate(16, "x").start // 4
    step = update(seen, a, text, word)
    assert step.touches == ({("memory", word): "adds"} if adds else {})
    assert len(seen.before) == 1 - adds


def test_a_sum_that_is_looked_at_afterwards_is_no_mere_adding() -> None:
    body = BODY.replace("ret;", "st.global.u32 [%rd1+4], %r3; ret;")
    seen, made, (a, _) = launch(body)
    step = update(seen, a, "atom.relaxed", made.memory.allocate(16, "x").start // 4)
    assert not step.touches and len(seen.before) == 1


@pytest.mark.parametrize(("fence", "acquires"), [
    ("", False), ("fence.acq_rel.gpu;", True), ("fence.sc.cta;", True), ("membar.gl;", True),
    ("fence.proxy.async;", False), ("fence.mbarrier_init.release.cluster;", False),
])  # fmt: skip
def test_with_a_fence_in_the_kernel_who_adds_later_knows_more(fence: str, acquires: bool) -> None:
    seen, made, (a, _) = launch(BODY.replace("ret;", f"{fence} ret;"))
    assert seen.acquiring is acquires
    step = update(seen, a, "red.relaxed.gpu.global.add.u32",
                  made.memory.allocate(16, "x").start // 4)  # fmt: skip
    assert bool(step.touches) is not acquires


def test_columns_of_tensor_memory_are_asked_for_and_given_back_in_an_order() -> None:
    seen, _, (a, _) = launch()
    for step, touch in (
        (begin(seen, a), lambda: seen.asks_for_columns(a, 1)),
        (None, lambda: seen.deallocates(a, a.lanes, None)),  # type: ignore[arg-type]
    ):
        step = step or begin(seen, a)
        touch()
        assert step.touches == {("tensor memory",): "w"}


def test_a_barrier_that_was_never_seen_counts_from_nothing() -> None:
    seen, _, (a, _) = launch()
    known = seen._count(Mbarrier())
    assert (known.phase, known.pending, known.arrivals, known.opened) == (0, 0, 0, 0)
    assert seen._bit() == 0
    begin(seen, a)
    begin(seen, a)
    assert seen._bit() == 2


def test_a_move_without_threads_is_that_of_its_work() -> None:
    seen, _, _ = launch()
    seen.begin(Move((0, 0, 1), "copy 1", "copy engine", say("x"), ()))
    assert seen.step is not None and seen.step.threads == () and seen.step.actor == (0, 0, 1)
