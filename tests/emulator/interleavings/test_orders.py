"""Every order of small kernels: what only one shows is found, and nothing where all are right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phasebit.emulator import Interleavings, LaunchError, Module, every_order
from phasebit.emulator.interleavings import searching
from phasebit.launching import order_timeline
from phasebit.launching.launch import compile
from tests.emulator import saved

CUDA = Path(__file__).with_name("orders.cu")


@pytest.fixture(scope="module")
def orders() -> Module:
    """As it was compiled once, so that no nvcc is needed."""
    return Module(saved.module("orders").ptx)


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int32)


CASES: dict[str, tuple[int, list[Any]]] = {
    "ring": (64, [3, ints(0)]),
    "lapped": (64, [ints(0)]),
    "mailbox": (64, [2, ints(*range(4))]),
    "lost_wake_up": (64, [ints(0)]),
    "woken": (64, [ints(0)]),
    "last_one_out": (96, [ints(0), ints(0, 0)]),
    "adds": (96, [ints(0)]),
    "tickets": (96, [ints(0), ints(0, 0, 0)]),
    "flag": (64, [ints(0), ints(0, 0)]),
    "waits_for_ever": (64, [ints(0), ints(0)]),
    "copies": (96, [np.arange(8, dtype=np.int32), ints(0)]),
    "asks_once": (64, [ints(0, 0)]),
    "traps": (64, [ints(0)]),
    "invalidated": (64, [np.arange(4, dtype=np.int32), ints(0)]),
    "more_pending": (96, [ints(1, 2, 3, 4), ints(0)]),
    "plain_flag": (64, [ints(0), ints(0, 0)]),
    "hopes_0": (64, [ints(0)]),
    "hopes_1": (64, [ints(0)]),
}


@pytest.mark.nvcc
@pytest.mark.parametrize("name", ["ring", "copies", "lost_wake_up"])
def test_what_this_nvcc_makes_of_it_is_the_same(orders: Module, name: str) -> None:
    one, other = (search(module, name) for module in (orders, Module(compile(CUDA, "sm_90a").ptx)))
    assert (one.headline, rules(one), one.results) == (other.headline, rules(other), other.results)


def search(orders: Module, name: str, **how: Any) -> Interleavings:
    threads, args = CASES[name]
    fresh = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    return every_order(orders[name], 1, threads, fresh, **how)


def rules(seen: Interleavings) -> set[str]:
    return {finding.rule for finding in seen.findings}


@pytest.mark.parametrize("name", CASES)
def test_fewer_orders_show_the_same(orders: Module, name: str) -> None:
    """The reduced search and the one of all orders: the same findings, the same results."""
    reduced = search(orders, name)
    every = search(orders, name, reduced=False, most_runs=3000)
    assert reduced.complete and every.complete
    assert rules(reduced) == rules(every)
    assert reduced.results == every.results
    assert reduced.runs <= every.runs and not every.redundant


@pytest.mark.parametrize(
    ("name", "orders_run", "results"),
    [("ring", 1, 1), ("adds", 1, 1), ("tickets", 6, 6), ("flag", 2, 1), ("copies", 4, 1),
     ("woken", 3, 1)],
)  # fmt: skip
def test_right_kernels_are_clean(
    orders: Module, name: str, orders_run: int, results: int
) -> None:
    seen = search(orders, name)
    assert seen.complete and not seen.findings and seen.failing is None, str(seen)
    assert (seen.runs, seen.results) == (orders_run, results)
    assert str(seen).endswith("; nothing found")


def test_a_lost_wake_up_is_found_in_the_one_order_that_shows_it(orders: Module) -> None:
    seen = search(orders, "lost_wake_up")
    assert rules(seen) == {"deadlock"} and seen.complete
    assert seen.failing is not None
    last = [step.who.split(" of ")[0] for step in seen.failing.steps][-4:]
    looks = [str(step.what).split("`")[1].split()[0] for step in seen.failing.steps][-4:]
    assert sorted(last) == ["thread 0", "thread 0", "thread 32", "thread 32"]
    assert looks.count("atom.shared.exch.b32") == 2, str(seen)
    for schedule in ("late", "eager"):
        assert not orders["lost_wake_up"].launch(1, 64, [ints(0)], schedule=schedule).findings


def test_who_is_slow_to_wake_finds_another_phase(orders: Module) -> None:
    """Parked threads pass when their phase completes; here one may look when it is past."""
    assert not orders["lapped"].launch(1, 64, [ints(0)]).findings
    seen = search(orders, "lapped")
    assert "deadlock" in rules(seen) and seen.complete


def test_who_waits_may_come_between_any_two_phases(orders: Module) -> None:
    """A wait that passed in the end might have passed earlier, for another phase."""
    seen = every_order(orders["mailbox"], 1, 96, [3, ints(*range(9))])
    assert {"race", "deadlock"} <= rules(seen) and seen.complete and seen.runs > 4
    assert seen.ends["deadlock"] and seen.ends[""]
    assert re.search(r"\n\d+ come to their end, \d+ end with deadlock\nfound, after", str(seen))


def test_a_race_that_depends_on_who_comes_first(orders: Module) -> None:
    seen = search(orders, "last_one_out")
    assert "race" in rules(seen) and seen.runs == 7, "one for each order of tickets, and the race"
    assert not orders["last_one_out"].launch(1, 96, [ints(0), ints(0, 0)]).findings


@pytest.mark.parametrize("name", ["hopes_0", "hopes_1"])
def test_a_sum_that_nobody_reads_orders_those_who_add(orders: Module, name: str) -> None:
    """Whoever adds later, and has a fence, knows what the others did: the order matters."""
    assert not orders[name].launch(1, 64, [ints(0)]).findings
    seen = search(orders, name)
    assert rules(seen) == {"race", "uninitialised-read"} and seen.complete


def test_a_loop_without_a_step_lets_others_go_on(orders: Module) -> None:
    """The compiler has taken the look at the flag out of the loop: it ends, or it never does."""
    seen = search(orders, "plain_flag")
    assert seen.complete and seen.ends == {"": 1, "livelock": 1}
    assert {"race", "livelock"} <= rules(seen)


def test_what_ends_a_kernel_leaves_no_order_out(orders: Module) -> None:
    """A warp traps while another arrives at a barrier that it does not own."""
    seen = search(orders, "traps")
    assert seen.complete and set(seen.ends) == {"trap", "uninitialised-mbarrier"}
    seen = search(orders, "invalidated")
    assert seen.complete and {"", "uninitialised-mbarrier"} == set(seen.ends)


def test_who_asks_once_and_goes_on_has_not_waited(orders: Module) -> None:
    assert not orders["asks_once"].launch(1, 64, [ints(0, 0)]).findings
    seen = search(orders, "asks_once")
    assert seen.complete and "race" in rules(seen)


def test_a_copy_that_adds_to_the_pending_count_is_a_step(orders: Module) -> None:
    """The other warp's arrival completes the phase before that, or does not."""
    seen = search(orders, "more_pending")
    assert seen.complete and "missing-copy-wait" in rules(seen)
    assert seen.results == 2, "the copy, and what was there before it"


def test_a_search_that_runs_nothing_through_says_what_late_finds(
    orders: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "LONGEST", 2)
    seen = search(orders, "last_one_out")
    assert (seen.complete, seen.runs, seen.findings) == (False, 0, ())
    seen = every_order(orders["mailbox"], 1, 96, [3, ints(*range(9))])
    assert (seen.complete, seen.runs, rules(seen)) == (False, 0, {"race"})
    assert "; under the late schedule alone: race: " in str(seen)
    counter, out = ints(0), ints(0, 0, 0)
    every_order(orders["tickets"], 1, 96, [counter, out])
    assert counter.tolist() == [3], "the program goes on after it"


def test_a_flag_that_nobody_sets(orders: Module) -> None:
    assert rules(search(orders, "waits_for_ever")) == {"livelock"}


def test_the_choices_of_the_failing_run_lead_there_again(orders: Module) -> None:
    one, other = (search(orders, "lost_wake_up").failing for _ in range(2))
    assert one is not None and other is not None
    assert one.choices == other.choices and len(one.choices) == len(one.steps)


def test_limits_hold(orders: Module) -> None:
    seen = search(orders, "tickets", most_runs=2)
    assert not seen.complete and seen.runs == 2
    assert str(seen).startswith("incomplete: 2 orders run in 0 s, then stopped: the bound is 2")
    seen = search(orders, "tickets", seconds=0.0)
    assert not seen.complete and seen.runs == 1 and "the bound is 0 s" in seen.headline
    whole = search(orders, "tickets", most_runs=6)
    assert whole.complete and whole.runs == 6


def test_arrays_are_left_as_the_first_order_leaves_them(orders: Module) -> None:
    counter, out = ints(0), ints(0, 0, 0)
    every_order(orders["tickets"], 1, 96, [counter, out])
    assert counter.tolist() == [3] and out.tolist() == [0, 1, 2]


def test_a_launch_that_cannot_be_is_refused(orders: Module) -> None:
    with pytest.raises(LaunchError, match="argument"):
        every_order(orders["adds"], 1, 32, [])


@pytest.mark.nvcc
def test_a_failure_before_any_step_is_drawn() -> None:
    source = "__global__ void k(int* x) { *x = threadIdx.x; }"
    found = every_order(Module(compile(source, "sm_90a").ptx)["k"], 1, 2, [ints(0)])
    assert found.failing is not None and found.failing.steps == ()
    drawn = str(order_timeline.timeline(found.failing))
    assert "race, after 0 steps" in drawn and "the kernel: thread 0 of block 0" in drawn


def test_a_launch_under_every_schedule_runs_no_more_orders_than_make_a_difference() -> None:
    counter, out = ints(0), ints(0, 0, 0)
    run = saved.module("orders")["tickets"].launch(1, 96, [counter, out], schedule="every")
    assert run.orders is not None and run.orders.complete and run.orders.runs == 6
    assert counter.tolist() == [3] and out.tolist() == [0, 1, 2]
