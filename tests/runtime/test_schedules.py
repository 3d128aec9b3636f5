"""Launches inside a Python process: each under every schedule, from the same memory."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from phasebit.emulator import LaunchError
from phasebit.emulator.findings import Finding, say
from phasebit.runtime import in_process
from phasebit.runtime.backend import Launch, Outcome
from phasebit.runtime.in_process import SCHEDULES, Launched, Runs, _Backend, _Module, _Snapshot
from phasebit.runtime.mapped_memory import DeviceMemory
from phasebit.runtime.protocol import Status
from phasebit.runtime.server import Reply

LAUNCH = Launch("k", (1, 2, 3), (4, 5, 6), b"")


class Inner:
    """A module that adds one to a word, and notes under which schedule."""

    kernels: dict[str, Any]

    def __init__(self, backend: _Backend, memory: DeviceMemory, at: int) -> None:
        self.kernels, self.symbols = {"k": 1}, {"s": 2}
        self.backend, self.memory, self.at = backend, memory, at
        self.ran: list[tuple[str, int]] = []
        self.fails_under = ""

    def launch(self, launch: Launch) -> Outcome:
        assert launch is LAUNCH
        how = self.backend.emulator.schedule, self.backend.emulator.seed
        self.ran.append(how)
        self.memory.view(self.at, 4).view("<u4")[0] += 1
        own = Finding("race", say("under {}", how[0]))
        common = Finding("deadlock", say("always"))
        error = 700 if how[0] == self.fails_under else 0
        return Outcome(clocks=len(self.ran), findings=[own, common], error=error)


@pytest.fixture
def scene() -> Iterator[tuple[_Module, Inner, _Backend, DeviceMemory]]:
    memory = DeviceMemory(1 << 20)
    at = memory.allocate(8)
    backend = _Backend()
    inner: Any = Inner(backend, memory, at)
    yield _Module(inner, memory, backend), inner, backend, memory
    memory.close()


def test_the_names_of_schedules() -> None:
    assert SCHEDULES == {
        "eager": (("eager", 0),), "late": (("late", 0),), "random": (("random", 0),),
        "all": (("eager", 0), ("random", 0), ("late", 0)),
    }  # fmt: skip


@pytest.mark.parametrize("schedules", [
    (("late", 0),), (("eager", 0), ("random", 3), ("late", 0)),
])  # fmt: skip
def test_each_schedule_begins_with_the_same_memory_and_the_last_one_stays(
    schedules: tuple[tuple[str, int], ...], scene: Any
) -> None:
    module, inner, backend, memory = scene
    backend.schedules = schedules
    outcome = module.launch(LAUNCH)
    assert inner.ran == [*schedules]
    assert memory.view(inner.at, 4).view("<u4")[0] == 1
    assert [each.message for each in outcome.findings] == [
        f"under {schedules[0][0]}", "always", *(f"under {name}" for name, _ in schedules[1:])
    ]  # fmt: skip
    assert backend.runs.launches == [Launched("k", (1, 2, 3), (4, 5, 6), len(schedules), 0)]
    assert (module.kernels, module.symbols) == ({"k": 1}, {"s": 2})


def test_after_an_error_no_other_schedule_is_tried(scene: Any) -> None:
    module, inner, backend, _ = scene
    backend.schedules, inner.fails_under = SCHEDULES["all"], "random"
    assert module.launch(LAUNCH).error == 700
    assert [name for name, _ in inner.ran] == ["eager", "random"]
    assert backend.runs.launches == [Launched("k", (1, 2, 3), (4, 5, 6), 2, 700)]


def test_what_stands_around_a_launch_is_entered_before_and_left_after(scene: Any) -> None:
    module, inner, backend, _ = scene
    seen: list[object] = []

    @contextmanager
    def around() -> Iterator[None]:
        seen.append(len(inner.ran))
        yield
        seen.append(len(inner.ran))

    backend.around.append(around)
    module.launch(LAUNCH)
    assert seen == [0, 1]


def test_a_snapshot_knows_what_nobody_has_written(scene: Any) -> None:
    *_, memory = scene

    class Listener:
        def __init__(self) -> None:
            self.unwritten = {7: np.array([True, False])}

    memory.listener = listener = Listener()
    snapshot = _Snapshot(memory)
    listener.unwritten[7][:] = True
    listener.unwritten[9] = np.array([True])
    kept = listener.unwritten
    snapshot.restore()
    assert kept is listener.unwritten and list(kept) == [7] and kept[7].tolist() == [True, False]
    kept[7][:] = True
    snapshot.restore()
    assert listener.unwritten[7].tolist() == [True, False]


def test_runs_in_words() -> None:
    runs = Runs()
    assert str(runs) == "0 launches, no finding" and runs.apart
    runs.found([Finding("race", say("x"), kernel="k")])
    assert str(runs) == "kernel k: race: x"


@pytest.mark.parametrize(("target", "number"), [
    ("sm_90a", 90), ("sm_80", 80), ("100", 100), ("sm_120f", 120), ("90", 90),
])  # fmt: skip
def test_the_number_of_a_target(target: str, number: int) -> None:
    assert in_process.capability(target) == number


@pytest.mark.parametrize("target", ["hopper", "sm_9", "sm_1000", "compute_90", "sm_90b", ""])
def test_what_is_no_target(target: str) -> None:
    says = f"^target {target!r}: name it as nvcc does, sm_90a or sm_100a$"
    with pytest.raises(LaunchError, match=says):
        in_process.capability(target)


def test_before_the_first_block_nothing_is_device_memory() -> None:
    assert in_process._process is not None or not in_process.holds(1 << 45)


class Device:
    """Answers with what it is told to."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.printed, self.fault = answer, b"", 0
        self.asked: list[tuple[int, list[int], bytes]] = []

    def handle(self, op: int, words: list[int], blob: bytes) -> Any:
        self.asked.append((op, words, blob))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def handled(
    device: Device, blob: bytes = b"", capacity: int = 64
) -> tuple[int, bytes, int, BaseException | None]:
    """What the C half gets back: status, payload, fault; and what is kept for later."""
    process = in_process._Process.__new__(in_process._Process)
    process.device, process.raised = device, None  # type: ignore[assignment]
    reply, fault = ctypes.create_string_buffer(64), (ctypes.c_int32 * 1)(-1)
    given = ctypes.create_string_buffer(blob, max(len(blob), 1))
    status = process._handle(
        5,
        [7, 8, 9],
        2,
        ctypes.addressof(given),
        len(blob),
        ctypes.addressof(reply),
        capacity,
        fault,
    )
    return status, reply.raw, fault[0], process.raised


def test_a_message_from_the_c_half_is_answered() -> None:
    device = Device(Reply(3, (1, 2**64 - 1)))
    device.fault = 700
    status, data, fault, raised = handled(device, b"blob")
    assert (status, fault, raised) == (3, 700, None)
    assert data[:16] == struct.pack("<2Q", 1, 2**64 - 1) and not any(data[16:])
    assert device.asked == [(5, [7, 8], b"blob")]
    assert handled(device)[0] == 3 and device.asked[-1] == (5, [7, 8], b"")
    status, data, *_ = handled(device, capacity=8)
    assert data[:8] == struct.pack("<Q", 1) and not any(data[8:])


def test_a_posted_message_has_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    device = Device(None)
    device.printed = b"a\xffb"
    status, data, fault, raised = handled(device)
    assert (status, fault, raised) == (0, 0, None) and not any(data)
    assert capsys.readouterr().out == "a\N{REPLACEMENT CHARACTER}b" and device.printed == b""


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_no_exception_passes_through_c(error: BaseException) -> None:
    device = Device(error)
    status, _, fault, raised = handled(device)
    assert status == fault == device.fault == Status.LAUNCH_FAILURE and raised is error
