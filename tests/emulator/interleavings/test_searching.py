"""A search of a launch's orders: how far it goes, what it keeps of its runs, and what it says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator import LaunchError, Module, every_order
from phasebit.emulator.api.execution import Mode
from phasebit.emulator.findings import Finding, Place, Sentence, say
from phasebit.emulator.interleavings import limits, searching
from phasebit.emulator.interleavings.searching import Failing, Interleavings, Stepped, searched
from phasebit.emulator.interleavings.searching import search as search_prepared
from phasebit.emulator.interleavings.touches import Taken
from phasebit.emulator.ptx.placement import GLOBAL_BASE
from tests.emulator.machines import kernel

ADDS = "red.relaxed.gpu.global.add.u32 [%rd1], 1; ret;"
FIRST = "and.b32 %r8, %r1, 31; setp.ne.u32 %p8, %r8, 0; @%p8 ret; shr.u32 %r7, %r1, 5;"
"""The first thread of each warp goes on, with its warp's number in %r7."""
TICKETS = f"""{FIRST} atom.relaxed.gpu.global.add.u32 %r3, [%rd1], 1;
    mul.wide.u32 %rd2, %r3, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3+4], %r7; ret;"""
RACE = f"{FIRST}\nst.global.u32 [%rd1], %r7;\nret;"
LAST = f"""{FIRST} atom.relaxed.gpu.global.exch.b32 %r3, [%rd1], 1; setp.eq.u32 %p1, %r3, 0;
    @%p1 ret; setp.ne.u32 %p2, %r7, 0; @%p2 ret; trap;"""
"""It traps where warp 0 comes last."""
LOOP = "mov.u32 %r3, 0; L: add.u32 %r3, %r3, 1; setp.ne.u32 %p1, %r3, 90000; @%p1 bra L; ret;"


def search(body: str, warps: int = 2, words: int = 8, **how: Any) -> Interleavings:
    return every_order(kernel(body), 1, 32 * warps, [np.zeros(words, np.uint32)], **how)


def test_by_itself_a_search_runs_each_order_that_differs_once() -> None:
    made = kernel(ADDS)
    found, execution = searched(made, made.extents(1, 96), [np.zeros(1, np.uint32)])
    assert found.complete and found.runs == 1 and execution.machine.taken == 3
    assert search(ADDS, 3).runs == 1
    every = search(ADDS, 3, reduced=False)
    assert (every.runs, every.redundant, every.results) == (6, 0, 1)


def test_a_search_of_prepared_launches_is_reduced_by_itself() -> None:
    made = kernel(ADDS)
    extents, address = made.extents(1, 64), made.memory.allocate(4, "out").address
    parameters, mode = address.to_bytes(8, "little"), Mode(trace=False)
    found, execution, error = search_prepared(
        lambda lines: made.prepare(extents, parameters, mode, kind=Stepped, stepwise=lines),
        lambda: made.prepare(extents, parameters, mode), made.memory,
    )  # fmt: skip
    assert (found.runs, found.complete, error) == (1, True, None)
    assert execution.machine.taken == 2 and made.memory.u4[(address - GLOBAL_BASE) // 4] == 64
    with pytest.raises(TypeError):
        search_prepared(None, None, None, 5)  # type: ignore[arg-type, misc]


def test_how_far_a_search_goes_if_nobody_says_otherwise() -> None:
    assert (limits.MOST_RUNS, limits.SECONDS) == (1000, 60.0)
    assert (limits.TURNS, limits.LONGEST) == (20_000, 2000)


def test_each_order_of_tickets_leaves_another_memory() -> None:
    seen = search(TICKETS)
    assert (seen.complete, seen.runs, seen.results, seen.first) == (True, 2, 2, 0)
    assert seen.ends == {"": 2} and seen.limit == "" and not seen.findings


@pytest.mark.parametrize(("most", "runs", "said"), [
    (1, 1, "the bound is 1 run"), (2, 2, "the bound is 2 runs"), (5, 5, "the bound is 5 runs"),
    (6, 6, ""), (7, 6, ""),
])  # fmt: skip
def test_a_bound_stops_a_search_that_has_orders_left(most: int, runs: int, said: str) -> None:
    out = np.zeros(8, np.uint32)
    seen = every_order(kernel(TICKETS), 1, 96, [out], most_runs=most)
    assert (seen.runs, seen.limit, seen.complete) == (runs, said, not said)
    assert out.tolist() == [3, 0, 1, 2, 0, 0, 0, 0], "as the first order left it"


def test_seconds_are_a_bound_where_orders_are_left() -> None:
    seen = search(TICKETS, seconds=-1.5)
    assert (seen.runs, seen.limit) == (1, "the bound is -1.5 s") and seen.seconds < 30
    assert search(ADDS, seconds=-1.5).complete
    assert search(TICKETS, seconds=1000).complete


def test_what_nothing_orders_is_searched_anew_in_both_orders() -> None:
    seen = search(RACE)
    assert seen.complete and {finding.rule for finding in seen.findings} == {"race"}
    assert (seen.runs, seen.results, seen.first, seen.ends) == (2, 2, 1, {"": 2})
    assert len(seen.findings) == 1 and seen.failing is not None
    stopped = search(RACE, most_runs=1)
    assert not stopped.complete and stopped.limit == "the bound is 1 run"


def test_what_ends_some_of_the_runs_is_counted_apart() -> None:
    seen = search(LAST)
    assert seen.complete and seen.ends == {"": 1, "trap": 1} and seen.results == 1
    assert seen.first in (0, 1) and [finding.rule for finding in seen.findings] == ["trap"]
    assert seen.failing is not None and seen.failing.finding.rule == "trap"
    rows = [step.row for step in seen.failing.steps]
    assert rows[0] == "warp 1" and rows[-1] == "warp 0"
    assert seen.failing.choices == tuple((0, 32 if row == "warp 1" else 0) for row in rows)
    assert "1 comes to its end, 1 ends with trap" in str(seen)


def test_a_run_of_too_many_steps_or_turns_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "LONGEST", 2)
    assert search(ADDS, 2).complete
    seen = search(ADDS, 3)
    assert (seen.complete, seen.runs, seen.limit) == (False, 0, "a run of more than 2 steps")
    monkeypatch.setattr(searching, "TURNS", 50)
    seen = search(LOOP, 1)
    assert (seen.complete, seen.limit) == (False, "a run of more than 50 turns of loops")
    assert [finding.rule for finding in seen.findings] == ["step-limit"] and seen.failing is None
    monkeypatch.setattr(searching, "TURNS", 1000)
    again = search(LOOP.replace("90000", "900"), 1)
    assert again.complete and again.runs == 1


def test_after_a_search_that_ran_nothing_through_the_late_run_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searching, "LONGEST", 1)
    out = np.zeros(8, np.uint32)
    seen = every_order(kernel(TICKETS), 1, 96, [out])
    assert seen.runs == 0 and out[0] == 3 and seen.first == 0
    raced = every_order(kernel(RACE), 1, 64, [out])
    assert len(raced.findings) == raced.first > 0


def test_arrays_that_must_not_be_written_are_refused() -> None:
    out = np.zeros(1, np.uint32)
    out.flags.writeable = False
    with pytest.raises(LaunchError, match="read-only"):
        every_order(kernel(ADDS), 1, 32, [out])


def test_extents_are_those_of_a_launch() -> None:
    body = "red.relaxed.gpu.global.add.u32 [%rd1], 1; ret;"
    out = np.zeros(1, np.uint32)
    every_order(kernel(body), (2, 1), (3, 2), [out])
    assert out[0] == 12
    every_order(kernel(body), args=[out])
    assert out[0] == 13, "one thread, one block"
    with pytest.raises(LaunchError, match="no multiple of the cluster"):
        every_order(kernel(body), 3, 1, [out], cluster=2)
    with pytest.raises(LaunchError, match="shared=-1"):
        every_order(kernel(body), 1, 1, [out], shared=-1)
    with pytest.raises(LaunchError, match="cooperative launch run at once"):
        every_order(kernel(body), 999_999, 1, [out], cooperative=True)


HEAP = """
.version 9.0
.target sm_90a
.address_size 64
.extern .func (.param .b64 result) malloc (.param .b64 size);
.extern .func free (.param .b64 pointer);
.visible .entry ask(.param .u64 out)
{
    .reg .b64 %rd<5>; ld.param.u64 %rd1, [out];
    { .param .b64 p; .param .b64 q; st.param.b64 [p], 8; call.uni (q), malloc, (p);
      ld.param.b64 %rd2, [q]; }
    st.global.u64 [%rd1], %rd2; ret;
}
.visible .entry give(.param .u64 out)
{
    .reg .b64 %rd<5>; .reg .b32 %r<3>; .reg .pred %p<2>; ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x; atom.relaxed.gpu.global.exch.b32 %r2, [%rd1+8], 1;
    setp.ne.u32 %p1, %r2, 0; @%p1 ret;
    ld.global.u64 %rd2, [%rd1]; st.global.u32 [%rd2], %r1;
    { .param .b64 p; st.param.b64 [p], %rd2; call.uni free, (p); }
    ret;
}
"""


def test_memory_that_a_kernel_frees_is_there_in_every_order() -> None:
    """Whoever comes first writes what an earlier kernel asked for, and frees it."""
    module = Module(HEAP)
    address = module.memory.allocate(16, "out").address
    module["ask"].launch(1, 1, [address])
    found = every_order(module["give"], 2, 1, [address])
    assert found.complete and found.runs == 2 and not found.findings, str(found)
    assert module.memory.heap == {} and module.memory.heap_used == 0


# -- words ----------------------------------------------------------------------------------------


def race(line: int = 7) -> Finding:
    return Finding("race", Sentence(("race at ", Place(line))))


def seen(**more: Any) -> Interleavings:
    given: dict[str, Any] = {
        "complete": True, "runs": 1, "redundant": 0, "seconds": 2.6, "limit": "", "findings": (),
        "failing": None, "results": 1, "first": 0, "ends": {"": 1},
    }  # fmt: skip
    return Interleavings(**(given | more))


def taken(who: str) -> Taken:
    return Taken(who, say("does"), "warp 0", "", ())


def test_the_headline_says_how_much_was_run() -> None:
    assert seen().headline == "complete: 1 order run, all that make a difference"
    assert seen(runs=0).headline.startswith("complete: 0 orders run")
    assert seen(runs=1234, apart=True).headline == (
        "complete: 1,234 orders run, all that make a difference within this kernel (what may "
        "overlap with it is not run beside it)"
    )
    stopped = seen(complete=False, runs=2, limit="why", apart=True)
    assert stopped.headline == "incomplete: 2 orders run in 3 s, then stopped: why"


def test_how_the_runs_ended_is_counted_in_words() -> None:
    assert seen(ends={"trap": 1, "": 1}).ways == "1 comes to its end, 1 ends with trap"
    ways = seen(ends={"trap": 1200, "deadlock": 2, "": 3000}).ways
    assert ways == "3,000 come to their end, 2 end with deadlock, 1,200 end with trap"


def test_what_was_found_is_said_with_its_steps() -> None:
    assert str(seen()).endswith("difference; nothing found")
    assert str(seen(findings=(race(),))).endswith(
        f"; under the late schedule alone: {race()}"
    )
    failing = Failing(race(), (taken("warp 0"), taken("copy 1 of warp 1")), ())
    lines = str(seen(failing=failing, findings=(race(),), ends={"": 2})).splitlines()
    assert lines[1:] == [
        f"found, after 2 steps: {race()}", "  warp 0            does", "  copy 1 of warp 1  does",
    ]  # fmt: skip
    lines = str(seen(failing=failing, ends={"trap": 1})).splitlines()
    assert lines[1] == "1 ends with trap" and lines[2].startswith("found, after 2 steps")
    nobody = str(seen(failing=Failing(race(), (), ()))).splitlines()
    assert nobody[1:] == [f"found, after 0 steps: {race()}"]


def test_a_mistake_is_the_same_in_every_run_by_its_rule_and_places() -> None:
    keys = [searching._key(each) for each in (
        race(), race(), race(8), Finding("deadlock", Sentence(("x ", Place(7)))),
        Finding("race", say("x"), at=Place(7)), Finding("race", say("x")),
    )]  # fmt: skip
    assert keys[0] == keys[1] == keys[4] and len(set(keys)) == 4
    assert keys[0] == ("race", (7,)) and keys[5] == ("race", ())


def kept(steps: int) -> Any:
    moves = [SimpleNamespace(actor=(0, n)) for n in range(steps)]
    return SimpleNamespace(moves=moves, taken=lambda: tuple(taken(f"{n}") for n in range(steps)))


def test_of_the_runs_that_fail_the_shortest_is_kept() -> None:
    memory: Any = SimpleNamespace(snapshot=lambda: lambda: None)
    one = searching._Search(lambda lines: None, memory)  # type: ignore[arg-type, return-value]
    for number, steps in enumerate((3, 3, 2, 4)):
        one._found(race(number), kept(steps))
        assert one.failing is not None
        assert one.failing.finding == race((0, 0, 2, 2)[number])
    assert [*one.findings.values()] == [race(number) for number in range(4)]
    again = race(0)
    one._found(again, kept(1))
    assert one.findings["race", (0,)] is not again and one.failing.finding is again
    assert one.failing.choices == ((0, 0),) and one.runs == 0
