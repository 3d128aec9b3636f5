"""This process as a device: what stands behind the C half, which a test plays here."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from phasebit.emulator import LaunchError
from phasebit.runtime import in_process
from phasebit.runtime.in_process import Runs, emulated
from phasebit.runtime.mapped_memory import BASE, DeviceMemory, OutOfMemory
from phasebit.runtime.protocol import Op, Space, Status

TOTAL = 1 << 24


class Function:
    """A function of a library: what it was called with is kept."""

    def __init__(self, name: str, calls: list[tuple[object, ...]]) -> None:
        self.name, self.calls, self.result = name, calls, 0

    def __call__(self, *given: object) -> int:
        self.calls.append((self.name, *given))
        return self.result


class C:
    """The two libraries, as far as this process calls them."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, int]] = []
        self.calls: list[tuple[object, ...]] = []
        self.functions: dict[str, Function] = {}
        self.at_exit: list[Callable[[], object]] = []

    def open(self, name: str, mode: int) -> C:
        self.opened.append((name, mode))
        return self

    def __getattr__(self, name: str) -> Function:
        return self.functions.setdefault(name, Function(name, self.calls))


@pytest.fixture
def c(monkeypatch: pytest.MonkeyPatch) -> Iterator[C]:
    made = C()
    memories: list[DeviceMemory] = []

    def memory(total: int) -> DeviceMemory:
        memories.append(DeviceMemory(total))
        return memories[0]

    monkeypatch.setattr(in_process, "_process", None)
    monkeypatch.setattr(in_process.library, "build", lambda: Path("/stand/in"))
    monkeypatch.setattr(in_process.ctypes, "CDLL", made.open)
    monkeypatch.setattr(in_process.atexit, "register", made.at_exit.append)
    monkeypatch.setattr(in_process, "_opened", lambda name: False)
    monkeypatch.setattr(in_process, "half_of_memory", lambda: TOTAL)
    monkeypatch.setattr(in_process, "device_memory", memory)
    yield made
    for each in memories:
        each.close()


def test_a_process_becomes_a_device_once(c: C) -> None:
    here = in_process.process()
    assert in_process.process() is here and not here.active
    assert c.opened == [
        ("/stand/in/libcudart.so.13", ctypes.RTLD_GLOBAL),
        ("/stand/in/libcuda.so.1", ctypes.RTLD_GLOBAL),
    ]
    assert [call[0] for call in c.calls] == [
        "phasebit_serve", "cuInit", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",
    ]  # fmt: skip
    serve, init, retain, _ = c.calls
    assert serve[1].value and serve[2] == here.memory.fd and here.memory.total == TOTAL
    assert init[1:] == retain[2:] == (0,)
    assert c.phasebit_serve.argtypes == [ctypes.c_void_p, ctypes.c_int]
    (leave,) = c.at_exit
    leave()
    assert c.calls[-1] == ("phasebit_serve", None, -1)


@pytest.mark.parametrize("name", ["libcuda.so.1", "libcudart.so.13"])
def test_a_process_with_another_library_of_cuda_becomes_none(
    name: str, c: C, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_process, "_opened", name.__eq__)
    with pytest.raises(LaunchError, match=f"this process has opened another {name}, NVIDIA's"):
        in_process.process()
    assert c.opened == []


def test_what_this_process_has_opened() -> None:
    assert in_process._opened("libc.so.6")
    assert not in_process._opened("ibc.so.6") and not in_process._opened("libnone.so.1")


def test_addresses_that_are_taken_are_a_sentence(c: C) -> None:
    c.phasebit_serve.result = 1
    with pytest.raises(LaunchError, match=r"its addresses are taken; run in a process of its own"):
        in_process.process()


@pytest.mark.parametrize(("target", "number"), [
    ("sm_90a", 90), ("sm_80", 80), ("100f", 100), ("75", 75), ("hopper", 0), ("sm_9", 0),
    ("sm_1000", 0), ("sm_90b", 0), ("", 0),
])  # fmt: skip
def test_targets(target: str, number: int) -> None:
    if number:
        assert in_process.capability(target) == number
        return
    with pytest.raises(LaunchError) as raised:
        in_process.capability(target)
    assert str(raised.value) == f"target {target!r}: name it as nvcc does, sm_90a or sm_100a"


# -- blocks --------------------------------------------------------------------------------


@pytest.mark.parametrize(("schedules", "orders"), [
    ("eager", (("eager", 0),)), ("late", (("late", 0),)), ("random", (("random", 0),)),
    ("all", (("eager", 0), ("random", 0), ("late", 0))),
    ([("random", 3), ("late", 0)], (("random", 3), ("late", 0))),
])  # fmt: skip
def test_a_block_says_how_launches_are_executed(schedules: Any, orders: object, c: C) -> None:
    with emulated("sm_80", schedules=schedules, check=False, max_steps=7) as runs:
        here = in_process.process()
        assert here.active and here.backend.schedules == orders
        assert here.backend.emulator.check is False and here.backend.emulator.steps == 7
        assert here.device.reporter is here.backend.runs is runs
        assert here.device.asked_capability == here.device.capability == 80
    assert not here.active
    with emulated() as others:
        assert others is not runs and here.backend.schedules == (("late", 0),)
        assert here.backend.emulator.check is True
        assert here.backend.emulator.steps == in_process.MAX_STEPS
        assert here.device.capability == 90


def test_blocks_that_cannot_be(c: C) -> None:
    with pytest.raises(LaunchError) as raised, emulated(schedules="some"):
        pass
    assert str(raised.value) == "schedules='some': choose one of eager, late, random, all"
    with pytest.raises(LaunchError, match="name it as nvcc does"), emulated("x"):
        pass
    with emulated():
        with pytest.raises(LaunchError, match="one emulated block stands in another"), emulated():
            pass
        assert in_process.process().active
    with pytest.raises(ZeroDivisionError), emulated():
        raise ZeroDivisionError
    assert not in_process.process().active


def test_an_error_is_over_when_its_block_is_and_what_was_refused_is_told(c: C) -> None:
    with emulated() as runs:
        here = in_process.process()
        here.device.handle(Op.REFUSED, (1, 1, 1, 1, 2000, 1, 1, 0), b"cudaErrorX k")
        here.device.fault = 700
        assert runs.findings == []
    assert [each.rule for each in runs.findings] == ["refused-launch"]
    with emulated():
        assert here.device.fault == 0
    assert [call[0] for call in c.calls].count("phasebit_serve") == 3


@pytest.mark.parametrize(("error", "leaves"), [
    (KeyboardInterrupt(), True), (SystemExit(3), True), (ValueError("oh"), False), (None, False),
])  # fmt: skip
def test_an_interrupt_within_c_is_raised_at_the_end_of_the_block(
    error: BaseException | None, leaves: bool, c: C
) -> None:
    try:
        with emulated():
            in_process.process().raised = error
    except BaseException as raised:
        assert leaves and raised is error
    else:
        assert not leaves
    with emulated():
        assert in_process.process().raised is None


# -- messages ------------------------------------------------------------------------------


def message(op: int, *words: int, blob: bytes | None = None, room: int = 64) -> Any:
    """The status, the fault, and the bytes of the answer to a message of the C half."""
    numbers, fault = (ctypes.c_uint64 * 8)(*words), (ctypes.c_int32 * 2)(-1, -1)
    given = ctypes.create_string_buffer(blob + b"beyond") if blob is not None else None
    at = None if given is None else ctypes.addressof(given)
    answer = ctypes.create_string_buffer(b"\xee" * 64, 64)
    status = in_process.process()._handle(
        op, numbers, len(words), at, len(blob or b""),
        ctypes.addressof(answer) if room else None, room, fault,
    )  # fmt: skip
    assert fault[1] == -1
    return status, fault[0], answer.raw


def test_messages_are_answered_as_far_as_there_is_room(c: C) -> None:
    status, fault, answer = message(Op.HELLO)
    assert (status, fault) == (0, 0) and answer[24:] == b"\xee" * 40
    assert struct.unpack("<QQ", answer[:16])[0] == BASE
    assert message(Op.HELLO, room=8)[2] == answer[:8] + b"\xee" * 56
    assert message(Op.HELLO, room=0) == (0, 0, b"\xee" * 64)
    assert message(Op.ATTRIBUTE, 148) == (Status.INVALID_VALUE, 0, b"\xee" * 64)
    assert message(Op.ALLOCATE, 5, Space.HOST)[0] == 0
    (item,) = in_process.process().memory.allocations
    assert (item.size, item.space) == (5, Space.HOST)


def test_a_message_s_bytes_are_as_many_as_it_says(
    c: C, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    device, seen = in_process.process().device, []

    def handle(op: int, words: list[int], blob: bytes) -> None:
        seen.append((op, words, blob))
        device.printed = b"a \xff\n"
        device.fault = 719

    monkeypatch.setattr(device, "handle", handle)
    assert message(Op.LAUNCH, 3, 4, blob=b"x\0y") == (0, 719, b"\xee" * 64)
    assert message(Op.LAUNCH, blob=b"")[0] == message(Op.LAUNCH)[0] == 0
    assert seen == [(66, [3, 4], b"x\0y"), (66, [], b""), (66, [], b"")]
    assert capsys.readouterr().out == "a \ufffd\n" * 3 and device.printed == b""


def test_no_exception_passes_through_c(c: C) -> None:
    here = in_process.process()
    assert message(0)[:2] == (Status.LAUNCH_FAILURE, Status.LAUNCH_FAILURE)
    assert isinstance(here.raised, ValueError) and here.device.fault == Status.LAUNCH_FAILURE


# -- memory --------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "bytes_of_it"), [(0, 1), (1, 1), (5000, 5000)])
def test_memory_lasts_as_long_as_somebody_refers_to_it(size: int, bytes_of_it: int, c: C) -> None:
    assert not in_process.holds(BASE + 4096)
    made = in_process.allocate(size, "array x")
    memory = in_process.process().memory
    (item,) = memory.allocations
    assert (item.size, item.space, item.name) == (bytes_of_it, Space.MANAGED, "array x")
    assert len(made) == bytes_of_it and ctypes.addressof(made) == item.address
    assert in_process.holds(item.address) and not in_process.holds(item.address + bytes_of_it)
    with pytest.raises(OutOfMemory):
        in_process.allocate(TOTAL, "y")
    del made
    assert memory.allocations == [] and not in_process.holds(item.address)


def test_memory_that_a_reset_has_freed_is_not_freed_again(c: C) -> None:
    made = in_process.allocate(8, "x")
    memory = in_process.process().memory
    memory.reset()
    del made
    assert memory.allocations == [] and not memory.freed


def test_memory_is_not_freed_by_the_end_of_the_process(
    c: C, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[Any] = []
    finalize = in_process.weakref.finalize
    monkeypatch.setattr(
        in_process.weakref, "finalize", lambda *given: ends.append(finalize(*given)) or ends[-1]
    )
    made = in_process.allocate(8, "x")
    assert [each.atexit for each in ends] == [False] and len(made) == 8


def test_no_address_is_held_where_nothing_was_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process, "_process", None)
    assert not in_process.holds(BASE + 4096) and in_process._process is None


def test_what_a_block_comes_to_in_words() -> None:
    runs = Runs()
    runs.counted("k", 1, {})
    runs.note("x")
    runs.ended(None, None)  # type: ignore[arg-type]
    assert str(runs) == "0 launches, no finding" and runs.apart
