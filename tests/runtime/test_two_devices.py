"""Two devices in one program: kernels run side by side, and what they tell each other is judged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phasebit.emulator.checker.other_launches import OtherLaunches
from phasebit.runtime import side_by_side
from phasebit.runtime.emulated import EmulatorBackend
from phasebit.runtime.in_process import Runs
from phasebit.runtime.run_program import run_program
from phasebit.runtime.side_by_side import Work

pytestmark = pytest.mark.nvcc


@pytest.fixture
def peers(
    compiled: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[str, list[str], str]]:
    """peers(*words): what the program prints, the rules that it breaks, and what is said."""

    def run(*words: object, **options: Any) -> tuple[str, list[str], str]:
        capfd.readouterr()
        runs = Runs()
        backend = options.pop("backend", None) or EmulatorBackend(**options)
        run_program(
            [compiled("peers"), *map(str, words)], backend, limit=60, reporter=runs, devices=2
        )
        rules = sorted({finding.rule for finding in runs.findings})
        return capfd.readouterr().out, rules, "\n".join(map(str, runs.findings))

    return run


def test_the_calls(peers):
    printed, rules, _ = peers("api")
    assert printed.splitlines() == [
        "2 devices, 1",
        "cudaErrorInvalidDevice", "cudaErrorInvalidDevice", "cudaErrorPeerAccessNotEnabled",
        "cudaErrorPeerAccessAlreadyEnabled",
        "cudaErrorInvalidResourceHandle", "cudaErrorInvalidResourceHandle",
        "8 8 02020202 9, device 1",
        "of device 1",
    ]  # fmt: skip
    assert rules == []


RIGHT = [(0, 0), (3, 3), (6, 0), (0, 3), (3, 0)]


@pytest.mark.parametrize(("store", "load"), RIGHT)
def test_release_and_acquire_of_system_scope_order_devices(peers, store, load):
    for schedule in ("late", "eager", "random"):
        assert peers(store, load, "-", schedule=schedule)[:2] == ("right\n", [])


@pytest.mark.parametrize(
    ("store", "load", "rules"),
    [
        (1, 0, ["device-scope"]),  # release.gpu
        (0, 1, ["device-scope"]),  # acquire.gpu
        (4, 0, ["device-scope"]),  # __threadfence() and a volatile store
        (0, 4, ["device-scope"]),  # a relaxed load and __threadfence()
        (7, 0, ["device-scope"]),  # atomicAdd, which has .gpu scope
        (2, 0, ["race"]),  # nothing before the flag
        (0, 2, ["race"]),  # nothing after the flag
        (5, 0, ["race"]),  # a plain store
    ],
)
def test_what_orders_too_little_is_found(peers, store, load, rules):
    printed, found, said = peers(store, load, "-")
    assert printed == "right\n"  # no run shows it
    assert found == rules
    assert "of device 1 reads cudaMalloc #1" in said and "peers.cu:" in said


def test_a_flag_before_the_other_threads_have_stored(peers):
    _, found, said = peers(0, 0, "b")
    assert found == ["race"]
    assert "of device 0 (kernel produce) wrote it, and nothing orders the two" in said


def test_the_host_orders_devices_too(peers):
    assert peers(5, 2, "oe")[:2] == ("right\n", [])  # the consumer comes after the event
    assert peers(5, 2, "o")[1] == ["race"]


def test_a_host_that_asks_lets_kernels_go_on(peers):
    assert peers(0, 0, "q")[:2] == ("right\n", [])


def test_memory_of_a_peer_must_be_opened(peers):
    printed, found, said = peers(0, 0, "p")
    assert "cudaErrorIllegalAddress" in printed and found == ["no-peer-access"]
    assert (
        "thread 0 of block 0 on device 0 touches cudaMalloc #1, memory of device 1, to which "
        "device 0 has no access"
    ) in said
    assert "call cudaDeviceEnablePeerAccess(1, 0) while device 0 is current" in said


def test_a_flag_that_nobody_sets_is_a_livelock_at_once(peers):
    printed, found, said = peers(0, 0, "n")
    assert "cudaErrorLaunchTimeout" in printed and found == ["livelock"]
    assert "device 1, kernel consume: livelock" in said


@pytest.mark.parametrize("schedule", ["late", "eager"])
def test_a_count_that_the_other_device_looks_at_is_no_livelock(peers, schedule):
    """Though it shows late, and no loop of the kernel that counts looks there."""
    assert peers("counts", schedule=schedule)[:2] == ("stopped\n", [])


def test_launches_share_a_clock(peers):
    backend = EmulatorBackend(trace=True)
    peers(0, 0, "-", backend=backend)
    produced, consumed = backend.executions
    waits = [event for event in consumed.trace.events if event.label == "device 0"]
    assert len(waits) == 1 and waits[0].start < waits[0].end < consumed.cycles
    assert [each.machine.seat.device for each in backend.executions] == [0, 1]
    assert produced.cycles < consumed.cycles


# -- streams that wait in memory ----------------------------------------------


@pytest.fixture
def values(
    compiled: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[list[str], list[str], str]]:
    """values(how, devices=…): lines printed, rules that are broken, what is said."""

    def run(how: str, devices: int = 1, **options: Any) -> tuple[list[str], list[str], str]:
        capfd.readouterr()
        runs = Runs()
        run_program([compiled("values"), how], EmulatorBackend(**options), limit=60,
                    reporter=runs, devices=devices)  # fmt: skip
        return (capfd.readouterr().out.splitlines(), [each.rule for each in runs.findings],
                "\n".join(map(str, runs.findings)))  # fmt: skip

    return run


REFUSED = "1 1 1"
"""An address that is no multiple of 4, one that nothing owns, and flags that there are not."""


@pytest.mark.parametrize("schedule", ["late", "eager", "random"])
def test_a_copy_waits_for_a_number_that_a_running_kernel_counts(values, schedule):
    printed, rules, _ = values("two", devices=2, schedule=schedule)
    assert printed == [REFUSED, "right", "right"] and rules == ["invalid-copy"]


def test_one_device_has_written_what_was_issued_before(values):
    printed, rules, _ = values("one")
    assert printed == [REFUSED, "right", "right", "0 0 0 0 702 702 702 702 "]
    assert rules == ["invalid-copy", *["deadlock"] * 4]


@pytest.mark.parametrize("devices", [1, 2])
def test_a_number_that_never_comes_is_said(values, devices):
    printed, rules, said = values("never", devices=devices)
    assert "right" not in printed and rules == ["invalid-copy", "deadlock"]
    assert "a stream waits by cuStreamWaitValue32 for 9 at 0x" in said and "where 1 is" in said


@pytest.mark.parametrize("devices", [1, 2])
def test_a_copy_before_the_kernel_that_writes_is_said(values, devices):
    printed, rules, said = values("late", devices=devices)
    assert "right" not in printed and rules == ["invalid-copy", "deadlock"]
    assert "issue what writes first" in said


# -- more than streams keep -----------------------------------------------------


@pytest.fixture
def queue(
    compiled: Callable[..., Path], capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., tuple[list[str], list[str], int]]:  # fmt: skip
    """queue(*words): lines printed, rules that are broken, and how much was open at most."""
    most = [0]
    issue = Work._issue

    def issued(work: Work, *words: Any) -> Any:
        piece = issue(work, *words)
        most[0] = max(most[0], len(work.open), *map(len, work.last.values()))
        return piece

    def run(*words: object) -> tuple[list[str], list[str], int]:
        monkeypatch.setattr(Work, "_issue", issued)
        most[0] = 0
        runs = Runs()
        run_program([compiled("queue"), *map(str, words)], EmulatorBackend(), limit=60,
                    reporter=runs, devices=2)  # fmt: skip
        return capfd.readouterr().out.splitlines(), [each.rule for each in runs.findings], most[0]

    return run


def test_a_program_that_waits_for_nothing_fills_no_memory(queue, monkeypatch):
    printed, rules, most = queue(20)
    assert printed == ["20 cudaSuccess"] * 2 and not rules and most > 60
    monkeypatch.setattr(side_by_side, "MOST_OPEN", 16)
    printed, rules, most = queue(20)
    assert printed == ["20 cudaSuccess"] * 2 and not rules and most <= 32


def test_what_fails_while_streams_are_full_ends_all(queue, monkeypatch):
    monkeypatch.setattr(side_by_side, "MOST_OPEN", 16)
    printed, rules, most = queue(20, "fail")
    assert printed == ["-1 cudaErrorIllegalAddress"] * 2
    assert rules == ["out-of-bounds"] and most <= 32


def test_many_launches_that_meet_nowhere_are_not_compared(queue, monkeypatch):
    """Each with each it would be 1,500 launches in minutes; and each keeps what it touched."""
    compared, kept = [], []
    against, ended = OtherLaunches._against, OtherLaunches.ended

    def counted(self, other, *facts):
        compared.append(other)
        against(self, other, *facts)

    def cut(self):
        ended(self)
        kept.append(self.races.shadow.size)

    monkeypatch.setattr(OtherLaunches, "_against", counted)
    monkeypatch.setattr(OtherLaunches, "ended", cut)
    printed, rules, _ = queue(40)
    assert printed == ["40 cudaSuccess"] * 2 and not rules
    assert not compared and len(kept) == 80 and max(kept) <= 4
