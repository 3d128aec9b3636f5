"""The device half by itself: messages in, replies out. No program, no socket, no nvcc."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from phasebit.emulator.findings import Call, Finding, Place, say
from phasebit.runtime import fatbin, server
from phasebit.runtime.backend import KernelFacts, Launch, ModuleError, Outcome
from phasebit.runtime.in_process import Runs
from phasebit.runtime.mapped_memory import BASE, SPAN, DeviceMemory
from phasebit.runtime.protocol import DEVICE_STREAMS, Copy, Op, Space, Status
from phasebit.runtime.report import ForPeople
from phasebit.runtime.server import ALL_STREAMS, Device, _extent

from .fake import FakeBackend, FakeModule
from .test_program_files import entry, fat

PTX = b"""
.version 8.0
.target sm_80
.global .align 4 .u32 one = 5;
.const .align 4 .u32 four[4];
.visible .entry _Z9incrementPi(.param .u64 p) { ret; }
.visible .entry _Z3addPii(.param .u64 p, .param .u32 n) .maxntid 64 { ret; }
.visible .entry _Z3sayi(.param .u32 n) { ret; }
.visible .entry _Z5strayv() { ret; }
.visible .entry _Z11cooperativePi(.param .u64 p) { ret; }
.visible .entry _Z7clusterPi(.param .u64 p) .reqnctapercluster 2, 3, 1 { ret; }
"""  # fmt: skip
MODULE, TOTAL = 7, 1 << 20
BOTH = 1 << Space.DEVICE | 1 << Space.HOST


class Half:
    """A device, as the program's half of the runtime talks to it."""

    def __init__(self, memory: DeviceMemory, **options: object) -> None:
        self.log = io.StringIO()
        self.backend = FakeBackend()
        self.memory = memory
        self.device = Device(self.backend, memory, reporter=ForPeople(self.log), **options)

    def ask(self, op: Op, *words: int, blob: bytes = b"") -> tuple[int, tuple[int, ...]]:
        reply = self.device.handle(op, self.sent(words), blob)
        assert reply is not None
        data = reply.payload()
        return reply.status, struct.unpack(f"<{len(data) // 8}Q", data) if not reply.data else ()

    def post(self, op: Op, *words: int, blob: bytes = b"") -> None:
        assert self.device.handle(op, self.sent(words), blob) is None

    @staticmethod
    def sent(words: Sequence[int]) -> tuple[int, ...]:
        """As they come out of a socket."""
        return struct.unpack(f"<{len(words)}Q", struct.pack(f"<{len(words)}Q", *words))

    def kernel(self, name: str) -> int:
        status, words = self.ask(Op.KERNEL, MODULE, blob=name.encode())
        assert status == Status.SUCCESS
        return words[0]

    def allocate(self, size: int, space: Space = Space.DEVICE) -> int:
        status, (address,) = self.ask(Op.ALLOCATE, size, space)
        assert status == Status.SUCCESS
        return address

    def launch(
        self, number: int, parameters: bytes, stream: int = 0, cluster: tuple[int, ...] = (1, 1, 1),
        cooperative: int = 0, early: int = 0, block: int = 4,
    ) -> None:  # fmt: skip
        shape = (1, 1, 1, block, 1, 1, 0, *cluster)
        words = (number, stream, *shape, cooperative, 0, 0, early)
        self.post(Op.LAUNCH, *words, blob=parameters)

    def told(self) -> str:
        text = self.log.getvalue().replace("phasebit: ", "")
        self.log.seek(0)
        self.log.truncate()
        return text


Made = Callable[..., Half]


@pytest.fixture
def made() -> Iterator[Made]:
    memories: list[DeviceMemory] = []

    def make(**options: object) -> Half:
        memories.append(DeviceMemory(TOTAL, SPAN))
        half = Half(memories[-1], **options)
        half.post(Op.MODULE, MODULE, blob=PTX)
        return half

    yield make
    for memory in memories:
        memory.close()


def pointer(address: int) -> bytes:
    return struct.pack("<Q", address)


def test_the_greeting_says_where_memory_is_and_how_many_devices(made: Made) -> None:
    assert made().ask(Op.HELLO) == (0, (BASE, SPAN, 1))
    assert made(devices=3).ask(Op.HELLO) == (0, (BASE, SPAN, 3))


@pytest.mark.parametrize("op", [0, Op.CALLS, 63, 75, -1])
def test_an_operation_that_no_runtime_sends(op: int, made: Made) -> None:
    with pytest.raises(ValueError, match=f"unknown operation {op} from the program's runtime"):
        made().device.handle(op, (), b"")


def test_text_is_for_the_device_that_there_is_and_not_for_one_that_is_older(made: Made) -> None:
    half = made()
    assert half.ask(Op.ATTRIBUTE, 75) == (0, (9,))  # text of sm_80 says nothing of the device
    half.post(Op.MODULE, 8, blob=PTX.replace(b"sm_80", b"sm_100"))
    assert half.ask(Op.ATTRIBUTE, 75) == (0, (10,)) and half.ask(Op.ATTRIBUTE, 76) == (0, (0,))
    half.post(Op.MODULE, 9, blob=PTX)
    assert half.ask(Op.ATTRIBUTE, 75) == (0, (10,))
    others = fat(entry(0, 110, b"x"), entry(2, 120, b"x"), entry(fatbin.PTX, 100, b"x"))
    half.post(Op.MODULE, 10, blob=others)  # only text is for whichever device there is
    assert half.ask(Op.ATTRIBUTE, 75) == (0, (10,))
    asked = made(capability=86)
    asked.post(Op.MODULE, 8, blob=PTX.replace(b"sm_80", b"sm_75"))
    assert [asked.ask(Op.ATTRIBUTE, number)[1] for number in (75, 76)] == [(8,), (6,)]


def test_attributes_are_signed_and_a_number_that_is_none_is_refused(made: Made) -> None:
    half = made()
    assert half.ask(Op.ATTRIBUTE, 131) == (0, (2**64 - 1,))
    assert half.ask(Op.ATTRIBUTE, 148) == (Status.INVALID_VALUE, ())
    assert [len(half.device.handle(Op.PROPERTIES, (version,), b"").data) for version in (12, 13)] \
        == [1032, 1008]  # fmt: skip


def test_symbols_have_an_address_and_a_size(made: Made) -> None:
    half = made()
    status, (address, size) = half.ask(Op.SYMBOL, MODULE, 0, blob=b"one")
    assert (status, size, half.memory.view(address, 1)[0]) == (0, 4, 5)
    assert half.ask(Op.SYMBOL, MODULE, 0, blob=b"four")[1][1] == 16
    assert half.ask(Op.SYMBOL, MODULE, 0, blob=b"five") == (Status.INVALID_SYMBOL, ())


def test_a_module_names_its_kernels_and_gives_its_variables_back(made: Made) -> None:
    half = made()
    reply = half.device.handle(Op.OPEN, (MODULE,), b"")
    assert reply is not None
    count, names = struct.unpack("<Q", reply.data[:8]), reply.data[8:].split(b"\0")
    assert count == (6,) and names[:2] == [b"_Z9incrementPi", b"_Z3addPii"] and names[-1] == b""
    assert half.memory.used == 2 * 4096
    half.post(Op.UNLOAD, MODULE)
    assert half.memory.used == 0
    half.post(Op.UNLOAD, MODULE)  # nothing happens


def test_a_kernel_is_described(made: Made) -> None:
    half = made()
    status, words = half.ask(Op.KERNEL, MODULE, blob=b"_Z3addPii")
    assert status == 0
    assert words[:9] == (0, 0, 0, 0, 32, 64, 0, 0, 0)
    assert words[9:] == (90, 227 * 1024, 12, 2, 0, 8, 8, 4)
    _, words = half.ask(Op.KERNEL, MODULE, blob=b"_Z7clusterPi")
    assert words[0] == 1 and words[6:9] == (2, 3, 1)
    absent = half.ask(Op.KERNEL, MODULE, blob=b"none")
    assert absent == (Status.INVALID_DEVICE_FUNCTION, ()) and half.told() == ""


class Broken(FakeModule):
    """Kernels that cannot be read."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.symbols = {}

    @property
    def kernels(self) -> dict[str, KernelFacts]:
        raise self.error


@pytest.mark.parametrize(("error", "says"), [
    (ModuleError("line 3: no such thing"), "line 3: no such thing\n"),
    (IndexError("oh"), "kernel k: IndexError: oh (.*); this is a defect of phasebit, .* report it"),
])  # fmt: skip
def test_a_kernel_that_cannot_be_read(error: Exception, says: str, made: Made) -> None:
    half = made()
    half.backend.load = lambda ptx, memory: Broken(error)  # type: ignore[method-assign]
    assert half.ask(Op.KERNEL, MODULE, blob=b"k") == (Status.INVALID_PTX, ())
    text = half.told()
    assert re.search(says, text), text


@pytest.mark.parametrize(("blob", "status", "says"), [
    (b"", Status.NO_KERNEL_IMAGE, "fat binary is cut off"),
    (b".target sm_80", Status.INVALID_PTX, "not PTX"),
    (PTX + b".global .align 4 .b8 big[1048576];\n", Status.MEMORY_ALLOCATION,
     "no memory for the module's variables: 1048576 bytes asked, 1040384 left"),
])  # fmt: skip
def test_a_module_that_cannot_be_loaded_is_said_once(
    blob: bytes, status: Status, says: str, made: Made
) -> None:
    half = made()
    half.post(Op.MODULE, 9, blob=blob)
    for _ in range(2):
        assert half.ask(Op.KERNEL, 9, blob=b"k") == (status, ())
        assert half.ask(Op.OPEN, 9) == (status, ())
        assert half.ask(Op.SYMBOL, 9, 0, blob=b"x") == (status, ())
    assert half.log.getvalue().count(says) == 1


def test_a_module_is_loaded_once(made: Made) -> None:
    half, loaded = made(), []
    load = half.backend.load
    half.backend.load = lambda *given: loaded.append(1) or load(*given)  # type: ignore[method-assign]
    half.kernel("_Z3sayi")
    half.launch(half.kernel("_Z9incrementPi"), pointer(half.allocate(64)))
    assert half.ask(Op.SYMBOL, MODULE, 0, blob=b"one")[0] == 0 and loaded == [1]


def test_a_defect_in_reading_a_module_is_said_to_be_one(made: Made) -> None:
    half = made()
    half.backend.load = lambda ptx, memory: 1 // 0  # type: ignore[method-assign]
    assert half.ask(Op.OPEN, MODULE) == (Status.INVALID_PTX, ())
    assert "the program's PTX: ZeroDivisionError: " in half.told()


def test_allocations_are_named_after_their_calls_and_counted(made: Made) -> None:
    half = made()
    at = [half.allocate(100, space) for space in (Space.DEVICE, Space.HOST, Space.MANAGED)]
    assert [half.memory.find(each).name for each in at] == [
        "cudaMalloc #1", "cudaMallocHost #2", "cudaMallocManaged #3",
    ]  # fmt: skip
    assert half.ask(Op.ALLOCATE, TOTAL, 0) == (Status.MEMORY_ALLOCATION, ())
    _, (last,) = half.ask(Op.ALLOCATE, 1, Space.DEVICE, 2)
    item = half.memory.find(last)
    assert (item.name, item.device) == ("cudaMalloc #5", 2)
    assert half.ask(Op.RANGE, last) == (0, (last, 1, Space.DEVICE, 2))
    assert half.ask(Op.RANGE, at[1] + 99) == (0, (at[1], 100, Space.HOST, 0))
    assert half.ask(Op.RANGE, at[1] + 100) == (Status.INVALID_VALUE, ())
    assert half.ask(Op.MEMORY_INFO) == (0, (TOTAL - 4 * 4096, TOTAL))


def test_memory_is_freed_at_its_beginning_by_the_call_that_fits(made: Made) -> None:
    half = made()
    at = half.allocate(100, Space.HOST)
    for address, allowed in ((at + 1, BOTH), (at - 1, BOTH), (at, 1 << Space.DEVICE), (at, 0)):
        assert half.ask(Op.FREE, address, allowed) == (Status.INVALID_VALUE, ())
    assert half.ask(Op.FREE, at, BOTH) == (0, (100, Space.HOST))
    assert half.ask(Op.FREE, at, BOTH) == (Status.INVALID_VALUE, ())
    (gone,) = half.memory.freed
    assert str(gone.by()) == "by the host"


HOST = 0x1000
H2D, D2H, D2D, H2H = (
    Copy.HOST_TO_DEVICE, Copy.DEVICE_TO_HOST, Copy.DEVICE_TO_DEVICE, Copy.HOST_TO_HOST,
)  # fmt: skip


@pytest.mark.parametrize(("to", "source", "kind", "status", "clocks"), [
    ("a", HOST, H2D, 0, 1004), (HOST, "a", D2H, 0, 1004), ("a", "b", D2D, 0, 1000),
    ("a", "b", Copy.DEFAULT, 0, 1000), (HOST, "a", Copy.DEFAULT, 0, 1004),
    (HOST, HOST, Copy.DEFAULT, 0, 1000), (HOST, HOST, H2H, 0, 1000),
    ("a", "b", H2D, 0, 1004), ("a", "b", D2H, 0, 1004),
    (HOST, HOST, H2D, 1, 0), ("a", HOST, D2D, 1, 0), (HOST, "a", D2D, 1, 0),
    (HOST, HOST, D2H, 1, 0), ("a", HOST, D2H, 1, 0),
    ("a", HOST, 5, Status.INVALID_MEMCPY_DIRECTION, 0),
])  # fmt: skip
def test_a_copy_goes_where_its_direction_says(
    to: int | str, source: int | str, kind: int, status: int, clocks: int, made: Made
) -> None:
    half = made()
    at: dict[int | str, int] = {"a": half.allocate(64), "b": half.allocate(64)}
    words = (at.get(to, to), 64, at.get(source, source), 64, 64, kind, 0, 1)
    assert half.ask(Op.COPY, *words) == (status, ())
    assert half.device.clock.now == clocks and half.told() == ""


def test_a_copy_is_waited_for_if_the_program_waits(made: Made) -> None:
    half = made()
    at = half.allocate(64)
    assert half.ask(Op.COPY, at, 64, HOST, 64, 64, H2D, 0, 0) == (0, ())
    assert half.device.clock.now == 0 and half.device.clock.ready(0) == 1004


def test_a_copy_that_leaves_its_allocation_is_explained(made: Made) -> None:
    half = made()
    at, freed = half.allocate(64), half.allocate(32)
    half.ask(Op.FREE, freed, BOTH)
    for address, extent, says in (
        (at, 65, f"a copy of 65 bytes at 0x{at:x} runs 1 bytes past the end of an allocation of 64 "
         "bytes"),
        (at + 60, 16, f"a copy of 16 bytes at 0x{at + 60:x} runs 12 bytes past the end of an "
         "allocation of 64 bytes"),
        (at + 64, 1, f"a copy uses 0x{at + 64:x}, which is in no allocation"),
        (freed + 8, 4, f"a copy uses 0x{freed + 8:x}, which is 8 bytes into cudaMalloc #2 (32 "
         "bytes), which was freed by the host"),
    ):  # fmt: skip
        assert half.ask(Op.COPY, address, extent, HOST, extent, extent, H2D, 0, 1)[0] == 1
        assert half.told() == f"{says}\n"
        half = same_memory(half)
    for ours in (BASE, BASE + SPAN - 1):
        assert half.ask(Op.COPY, HOST, 1, ours, 1, 1, H2H, 0, 1)[0] == Status.INVALID_VALUE
        assert half.told() == f"a copy uses 0x{ours:x}, which is in no allocation\n"
        half = same_memory(half)
    assert half.ask(Op.COPY, HOST, 4, BASE + SPAN, 4, 4, H2H, 0, 1) == (0, ())  # the host's own


def same_memory(half: Half) -> Half:
    """The same device with a reporter that has told nothing yet."""
    half.device.reporter = ForPeople(half.log)
    return half


@pytest.mark.parametrize(("pitch", "width", "rows", "set_to"), [
    (4, 4, 2, range(8)), (6, 4, 2, [0, 1, 2, 3, 6, 7, 8, 9]), (16, 1, 1, [0]), (9, 8, 0, []),
    (9, 0, 8, []),
])  # fmt: skip
def test_a_fill_sets_its_rows_and_nothing_between(
    pitch: int, width: int, rows: int, set_to: range | list[int], made: Made
) -> None:
    half = made()
    at = half.allocate(10)
    assert half.ask(Op.FILL, at, 0x1FE, pitch, width, rows, 0, 1) == (0, ())
    seen = half.memory.view(at, 64)
    assert [i for i in range(64) if seen[i]] == [*set_to]
    assert set(seen[[*set_to]].tolist()) <= {0xFE}
    assert half.device.clock.now == (1000 if set_to else 0)


def test_a_fill_of_many_rows_is_one_write(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    half = made()
    at = half.allocate(1 << 19)
    looks: list[int] = []
    view = half.memory.view
    monkeypatch.setattr(half.memory, "view", lambda *where: looks.append(1) or view(*where))
    assert half.ask(Op.FILL, at, 7, 2, 1, 1 << 18, 0, 1) == (0, ())
    assert len(looks) == 1
    assert view(at, 1 << 19).reshape(-1, 2).sum(axis=0).tolist() == [7 << 18, 0]


def test_names_that_are_no_text_are_names_that_nothing_has(made: Made) -> None:
    half = made()
    for op, status in ((Op.KERNEL, Status.INVALID_DEVICE_FUNCTION),
                       (Op.SYMBOL, Status.INVALID_SYMBOL)):  # fmt: skip
        words = (MODULE,) if op is Op.KERNEL else (MODULE, 0)
        assert half.ask(op, *words, blob=b"\xff\xfe") == (status, ())
    half.post(Op.REFUSED, 1, 1, 1, 1, 1, 1, 1, 0, blob=b"cudaErrorInvalidValue \xff")
    half.device.program_left()
    assert "was refused with cudaErrorInvalidValue" in half.told()


def test_a_fill_that_leaves_its_allocation_sets_nothing(made: Made) -> None:
    half = made()
    at = half.allocate(10)
    assert half.ask(Op.FILL, at, 1, 7, 4, 2, 0, 1) == (Status.INVALID_VALUE, ())
    assert not half.memory.view(at, 64).any() and "runs 1 bytes past" in half.told()
    assert half.ask(Op.FILL, at, 1, 6, 4, 2, 0, 0) == (0, ())
    assert half.device.clock.now == 0 and half.memory.early == [(at, 10)]
    half.post(Op.HOST_WROTE, at, 3)
    assert half.memory.early[1:] == [(at, 3)]


def test_launches_are_executed_counted_and_timed(made: Made) -> None:
    half = made()
    at, add = half.allocate(64), half.kernel("_Z3addPii")
    half.launch(add, pointer(at) + struct.pack("<i", 5))
    assert half.memory.view(at, 20).view("<i4").tolist() == [5, 5, 5, 5, 0]
    assert half.memory.finished == 1 and half.device.clock.ready(0) == 3000
    half.launch(half.kernel("_Z3sayi"), struct.pack("<i", 4), block=1)
    assert half.device.printed == b"hello from the device 4\n" and half.memory.finished == 2


def test_a_failed_launch_is_the_error_of_all_that_comes(made: Made) -> None:
    half = made()
    at = half.allocate(64)
    half.launch(half.kernel("_Z5strayv"), b"")
    assert "thread 3 of block 0 reads 4 bytes" in half.told()
    for op, words in ((Op.SYNCHRONIZE, (ALL_STREAMS, 0)), (Op.FREE, (at, BOTH)),
                      (Op.MEMORY_INFO, ())):  # fmt: skip
        assert half.ask(op, *words) == (Status.ILLEGAL_ADDRESS, ())
    assert half.ask(Op.RANGE, at)[0] == half.ask(Op.ATTRIBUTE, 10)[0] == 0
    half.launch(0, b"")
    half.post(Op.HOST_WROTE, at, 4)
    assert half.memory.finished == 2 and half.memory.early == []
    assert half.ask(Op.HELLO)[0] == half.ask(Op.MEMORY_INFO)[0] == 0
    assert half.memory.used == half.memory.finished == 0


def test_what_goes_wrong_in_a_kernel_by_our_own_fault_is_said_to_be(made: Made) -> None:
    half = made()
    half.launch(half.kernel("_Z9incrementPi"), b"")  # no parameter where one is read
    assert half.device.fault == Status.LAUNCH_FAILURE and half.memory.finished == 1
    assert "kernel _Z9incrementPi: " in (text := half.told()) and "this is a defect of" in text


def test_a_launch_of_a_module_that_is_broken_fails(made: Made) -> None:
    half = made()
    half.kernel("_Z9incrementPi")
    half.device._modules[MODULE].modules.clear()
    half.device._modules[MODULE].error = Status.INVALID_PTX
    half.launch(0, b"")
    assert half.device.fault == Status.INVALID_PTX and half.memory.finished == 1


def test_a_cooperative_launch_finds_its_workspace_clean_each_time(made: Made) -> None:
    half = made()
    at, kernel = half.allocate(64), half.kernel("_Z11cooperativePi")
    for _ in range(2):
        half.launch(kernel, pointer(at), cooperative=1)
    assert half.memory.view(at, 4).view("<i4")[0] == 2 and half.told() == ""
    (work,) = [item for item in half.memory.allocations if "grid.sync()" in item.name]
    assert (work.size, work.space) == (4096, Space.SYMBOL)


def test_a_clusters_extents_reach_the_kernel(made: Made) -> None:
    half = made()
    at = half.allocate(64)
    half.launch(half.kernel("_Z7clusterPi"), pointer(at), cluster=(2, 3, 1))
    assert half.memory.view(at, 12).view("<i4").tolist() == [2, 3, 1]


def seen_launches(half: Half, monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    seen: list[Launch] = []

    def launch(self: FakeModule, launch: Launch) -> Outcome:
        seen.append(launch)
        return Outcome()

    monkeypatch.setattr(FakeModule, "launch", launch)
    return seen


def test_what_a_launch_says(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    half = made()
    seen, number = seen_launches(half, monkeypatch), half.kernel("_Z9incrementPi")
    half.post(Op.LAUNCH, number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 11, 12, 0, blob=b"p")
    (one,) = seen
    assert one == Launch("_Z9incrementPi", (1, 2, 3), (4, 5, 6), b"p", 7, (8, 9, 10), False, 0, 11,
                         12, False)  # fmt: skip


@pytest.mark.parametrize(("between", "early"), [
    ((), True), ((Op.SYNCHRONIZE, 0, 0), False), ((Op.ELAPSED, 1, 1), False),
    ((Op.FREE, 1, 1), False),
    ((Op.COPY, HOST, 4, HOST, 4, 4, 0, 0, 0), False), ((Op.FILL, 1, 1, 1, 1, 1, 0, 0), False),
    ((Op.MEMORY_INFO,), True), ((Op.RECORD, 1, 0), True), ((Op.WAIT, 0, 1), False),
    ((Op.HOST_WROTE, BASE, 4), False), ((Op.UNLOAD, 99), False), ((Op.QUERY, 0, 0), True),
])  # fmt: skip
def test_a_kernel_begins_early_only_right_behind_another_of_its_stream(
    between: tuple[int, ...], early: bool, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = made()
    seen, number = seen_launches(half, monkeypatch), half.kernel("_Z9incrementPi")
    half.launch(number, b"", early=1)
    if between:
        half.device.handle(between[0], between[1:], b"")
    half.launch(number, b"", early=1)
    half.launch(number, b"", early=0)
    half.launch(number, b"", early=1, stream=1)
    assert [one.dependent for one in seen] == [False, early, False, False]


def test_streams_are_told_apart_by_their_numbers(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = made()
    seen, number = seen_launches(half, monkeypatch), half.kernel("_Z9incrementPi")
    for stream in (5000, 5000, 5001):
        half.launch(number, b"", early=1, stream=stream)
    assert [one.dependent for one in seen] == [False, True, False]


def test_events_and_streams(made: Made) -> None:
    half = made()
    half.post(Op.STREAM, 16, 0, 0)
    half.post(Op.RECORD, 1, 0)
    at = half.allocate(1600)
    half.ask(Op.COPY, at, 1600, HOST, 1600, 1600, H2D, 0, 0)
    half.post(Op.RECORD, 2, 0)
    half.post(Op.WAIT, 16, 2)
    half.post(Op.RECORD, 3, 16)
    assert half.ask(Op.ELAPSED, 1, 2) == half.ask(Op.ELAPSED, 1, 3) == (0, (1100,))
    assert half.ask(Op.ELAPSED, 2, 1) == (0, (2**64 - 1100,))
    assert half.ask(Op.ELAPSED, 1, 9) == (Status.INVALID_RESOURCE_HANDLE, ())
    assert half.ask(Op.QUERY, 16, 0) == (0, (1,))
    half.ask(Op.SYNCHRONIZE, 16, 0)
    assert half.device.clock.now == 1100


@pytest.mark.parametrize("stream", [ALL_STREAMS, DEVICE_STREAMS], ids=["all", "device"])
def test_a_device_is_waited_for_with_all_its_streams(stream: int, made: Made) -> None:
    half = made()
    half.post(Op.STREAM, 16, 0, 0)
    half.device.clock.launch(16, 500)
    assert half.ask(Op.SYNCHRONIZE, stream, 0) == (0, ())
    assert half.device.clock.now == 2500


def test_one_stream_is_waited_for_without_the_others(made: Made) -> None:
    half = made()
    for stream, clocks in ((16, 500), (17, 1500)):
        half.post(Op.STREAM, stream, 0, 0)
        half.device.clock.copy(stream, 16 * clocks, stream == 16, stream == 17)
    assert half.ask(Op.SYNCHRONIZE, 16, 0) == (0, ())
    assert half.device.clock.now == 1500
    half.ask(Op.SYNCHRONIZE, 17, 0)
    assert half.device.clock.now == 2500


def test_which_streams_a_synchronisation_names(made: Made) -> None:
    device = made(devices=2).device
    device.clock.open(16, True, 1)
    assert device.streams(ALL_STREAMS) == []
    assert device.streams(DEVICE_STREAMS) == [0]
    assert device.streams(DEVICE_STREAMS - 1) == [16]
    assert device.streams(16) == [16]


@pytest.mark.parametrize(("there", "number", "how", "reached"), [
    (5, 5, 0, True), (4, 5, 0, False), (2**31 + 4, 5, 0, True), (2**31 + 5, 5, 0, False),
    (0, 2**32 - 1, 0, True), (5, 5, 1, True), (6, 5, 1, False), (4, 5, 1, False),
    (6, 2, 2, True), (4, 2, 2, False), (0, 2**32 - 1, 3, False), (1, 2**32 - 2, 3, False),
    (1, 2**32 - 3, 3, True),
])  # fmt: skip
def test_a_stream_waits_for_a_number(
    there: int, number: int, how: int, reached: bool, made: Made
) -> None:
    half = made()
    at = half.allocate(4)
    assert half.ask(Op.VALUE, 0, at, there, 4) == (0, ())
    status = half.ask(Op.VALUE, 0, at, number, how)[0]
    assert status == (Status.SUCCESS if reached else Status.LAUNCH_TIMEOUT)
    says = f"a stream waits by cuStreamWaitValue32 for {number} at 0x{at:x}, where {there} is, and"
    assert half.told().startswith(says) != reached
    assert half.ask(Op.VALUE, 0, at + 1, 0, 4)[0] == Status.INVALID_VALUE
    assert f"a copy of 4 bytes at 0x{at + 1:x} runs 1 bytes past the end" in half.told()
    assert half.memory.early == [(at, 4)]


def test_which_device_reaches_which(made: Made) -> None:
    half = made(devices=2)
    half.post(Op.PEER, 0, 1, 1)
    assert half.device.reaches(0, 1) and not half.device.reaches(1, 0)
    half.post(Op.PEER, 0, 1, 0)
    half.post(Op.PEER, 0, 1, 0)
    assert not half.device.reaches(0, 1)


def test_how_many_blocks_fit(made: Made) -> None:
    half = made()
    number = half.kernel("_Z9incrementPi")
    fits, left = half.ask(Op.OCCUPANCY, number, 1024, 0, 2)[1]
    assert (fits, left) == (2, 228 * 1024 // 2 - 1024)
    assert half.ask(Op.OCCUPANCY, number, 1024, 120 * 1024, 0)[1][0] == 1


def refuse(half: Half, *shape: int, thread: int = 1, kernel: str = "_Z1kPi") -> None:
    half.post(Op.REFUSED, thread, *shape, blob=f"cudaErrorInvalidValue {kernel}".encode())


@pytest.mark.parametrize(("shape", "written"), [
    ((1, 1, 1, 2000, 1, 1, 0), "<<<1, 2000>>>"), ((1, 2, 1, 4, 1, 3, 0), "<<<(1, 2), (4, 1, 3)>>>"),
    ((1, 1, 1, 1, 1, 1, 9), "<<<1, 1, 9>>>"), ((0, 1, 1, 1, 0, 1, 0), "<<<0, (1, 0)>>>"),
])  # fmt: skip
def test_a_refused_launch_is_told_if_nobody_asks(
    shape: tuple[int, ...], written: str, made: Made
) -> None:
    half = made()
    refuse(half, *shape)
    assert half.told() == ""
    half.device.program_left()
    assert half.told() == (
        f"kernel k: the launch {written} was refused with cudaErrorInvalidValue, and the "
        "program never asked: look at cudaGetLastError() after a launch\n"
    )
    half.device.program_left()
    assert half.told() == ""


def test_only_the_thread_that_asks_knows_of_a_refused_launch(made: Made) -> None:
    half = made()
    for thread in (1, 2):
        refuse(half, 1, 1, 1, 2000, 1, 1, 0, thread=thread)
    half.post(Op.ASKED, 2)
    half.post(Op.ASKED, 3)
    half.device.program_left()
    assert half.told().count("was refused") == 1


def test_when_the_program_is_gone_only_what_was_refused_is_heard(made: Made) -> None:
    half = made()
    half.device.left = True
    refuse(half, 1, 1, 1, 2000, 1, 1, 0)
    assert half.ask(Op.ALLOCATE, 4, 0) == (0, ()) and half.memory.used == 0
    half.launch(0, b"")
    half.device.program_left()
    assert half.told().count("was refused") == 1 and half.memory.finished == 0


def test_a_device_is_busy_while_it_does_what_may_be_left(made: Made) -> None:
    half, busy = made(), []
    assert not Device(FakeBackend(), half.memory).busy
    half.post(Op.MODULE, MODULE, blob=PTX)
    for op in (Op.MEMORY_INFO, Op.ASKED):
        half.device._handlers[op] = lambda call: busy.append(half.device.busy)
        half.device.handle(op, (1,), b"")
    assert busy == [True, False] and not half.device.busy


@pytest.mark.parametrize(("numbers", "written"), [
    ((64, 1, 1), "64"), ((64, 2, 1), "(64, 2)"), ((1, 1, 2), "(1, 1, 2)"), ((1, 1, 1), "1"),
])  # fmt: skip
def test_an_extent_is_written_as_between_brackets(numbers: tuple[int, ...], written: str) -> None:
    assert _extent(numbers) == written


TILED = (0, 2, BASE + 4096, 64, 8, 0, 0, 0, 64, 0, 0, 0, 32, 4, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0)


def test_a_tensor_map_is_128_bytes_or_says_which_call_was_wrong(made: Made) -> None:
    half = made()
    reply = half.device.handle(Op.TENSOR_MAP, TILED, b"")
    assert reply is not None and reply.status == 0 and len(reply.data) == 128
    wrong = (99, *TILED[1:])
    assert half.ask(Op.TENSOR_MAP, *wrong) == (Status.INVALID_VALUE, ())
    assert half.ask(Op.TENSOR_MAP, *wrong, *[0] * 6) == (Status.INVALID_VALUE, ())
    assert half.told() == (
        "cuTensorMapEncodeTiled: this is no tensor map: there is no data type number 99\n"
        "cuTensorMapEncodeIm2col: this is no tensor map: there is no data type number 99\n"
    )


def test_launches_are_numbered_from_one_and_named_as_their_authors_did(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = made()
    number = half.kernel("_Z9incrementPi")
    finding = Finding("race", say("r"), kernel="k")
    monkeypatch.setattr(
        FakeModule, "launch", lambda self, launch: Outcome(findings=[finding], counters={"a": 1})
    )
    heard: list[tuple[object, ...]] = []

    class Ear(Runs):
        def found(self, findings: Sequence[Finding]) -> None:
            heard.extend(("found", each.launch) for each in findings)

        def counted(self, kernel: str, launch: int, counters: Mapping[str, float]) -> None:
            heard.append((kernel, launch, dict(counters)))

    half.device.reporter = Ear()
    for _ in range(2):
        half.launch(number, b"")
    assert heard == [
        ("found", 1), ("increment", 1, {"a": 1}), ("found", 2), ("increment", 2, {"a": 1}),
    ]  # fmt: skip


def test_the_first_error_stays(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    half = made()
    half.device._ended("k", 0, 1, Outcome(error=700))
    half.device._ended("k", 0, 2, Outcome(error=719, printed=b"a"))
    half.device._ended("k", 0, 3, Outcome(printed=b"b"))
    assert half.device.fault == 700 and half.device.printed == b"ab"
    assert half.memory.finished == 3


def test_what_a_fill_costs(made: Made) -> None:
    half = made()
    at = half.allocate(8192)
    half.ask(Op.FILL, at, 1, 4096, 2048, 2, 0, 0)
    half.ask(Op.FILL, at, 1, 1024, 1024, 8, 0, 0)
    half.ask(Op.SYNCHRONIZE, 0, 0)
    assert half.device.clock.now == 1000 + 4 + 1000 + 8


CALLS = [("main", "/a/main.cu", 9), ("__device_stub__Z1kPi", "x.c", 3), ("k(int*)", "/a/k.cu", 4),
         ("inner(int)", "/a/b/k.cu", 7), ("outer", "/a/k.cu", 0)]  # fmt: skip


@pytest.mark.parametrize(("calls", "place"), [
    (CALLS, ("k.cu", 7, "inner", "/a/b/k.cu")), (CALLS[:1], ("main.cu", 9, "main", "/a/main.cu")),
    (CALLS[4:], None), ([], None), (CALLS[:3], None),
    ([CALLS[1], *CALLS], ("k.cu", 7, "inner", "/a/b/k.cu")),
    ([CALLS[4], CALLS[0]], ("main.cu", 9, "main", "/a/main.cu")),
])  # fmt: skip
def test_the_line_that_calls_is_the_one_before_the_stubs(
    calls: list[tuple[str, str, int]], place: tuple[str, int, str, str] | None, made: Made,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    asked: list[object] = []

    def calls_at(program: Path, addresses: Iterable[int]) -> list[tuple[str, str, int]]:
        asked.extend([program, *addresses])
        return calls

    monkeypatch.setattr(server.backtrace, "calls_at", calls_at)
    half = made(program=Path("p"))
    found = half.device._called_at([1, 2])
    assert asked == [Path("p"), 2, 1]  # the innermost first
    assert place is None if found is None else found == Place(
        0, "", place[0], (Call(place[1], 0, place[2]),), place[3])  # fmt: skip
    at = half.allocate(4)
    half.ask(Op.FREE, at, BOTH, 1, 2)
    (gone,) = half.memory.freed
    said = f" at {place[0]}:{place[1]}" if place else ""
    assert str(gone.by()).startswith(f"by the host{said}")
    half.post(Op.REFUSED, 1, 1, 1, 1, 1, 1, 1, 0, 1, 2, blob=b"cudaErrorX _Z1kPi")
    half.device.program_left()
    assert f"the launch <<<1, 1>>>{said}" in half.told()


# -- several devices -----------------------------------------------------------------------


def test_a_managed_variable_would_be_one_for_all_devices(made: Made) -> None:
    half = made(devices=2)
    managed = b".global .attribute(.managed) .align 4 .u32 %s;\n"
    text = PTX + managed % b"m" + managed % b"n"  # the first is told
    half.backend.load = lambda ptx, memory, device=0: FakeModule(  # type: ignore[method-assign]
        ptx, memory
    )
    half.post(Op.MODULE, 9, blob=text)
    assert half.ask(Op.SYMBOL, 9, 0, blob=b"m")[0] == 0 and half.told() == ""
    assert half.ask(Op.SYMBOL, 9, 1, blob=b"m") == (Status.NOT_SUPPORTED, ())
    assert half.told() == (
        "the __managed__ variable m would be one for all devices, which this stand-in does not do:"
        " allocate it with cudaMallocManaged\n"
    )
    half.post(Op.MODULE, 10, blob=PTX)
    assert half.ask(Op.SYMBOL, 10, 1, blob=b"one")[0] == 0 and half.told() == ""


@pytest.mark.parametrize(("stream", "now"), [
    (0, 2500), (2, 3500), (16, 2700), (DEVICE_STREAMS, 2500), (DEVICE_STREAMS - 1, 3700),
    (ALL_STREAMS, 3700),
], ids=range(6))  # fmt: skip
def test_only_what_is_named_is_waited_for(stream: int, now: int, made: Made) -> None:
    half = made(devices=2)
    clock = half.device.clock
    half.post(Op.STREAM, 16, 0, 1)
    clock.launch(16, 700)
    clock.launch(0, 500)
    clock.open(2, True, 1)
    clock._streams[2].ready, clock._streams[16].ready = 3500, 3700 if stream > 99 else 2700
    half.ask(Op.SYNCHRONIZE, stream, 0)
    assert clock.now == now
