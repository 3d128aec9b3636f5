"""Two devices and their streams, message by message: PTX by hand, no program and no nvcc."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from phasebit.runtime import side_by_side
from phasebit.runtime.backend import Stop
from phasebit.runtime.emulated import EmulatorBackend
from phasebit.runtime.in_process import Runs
from phasebit.runtime.mapped_memory import DeviceMemory
from phasebit.runtime.protocol import DEVICE_STREAMS, Copy, Op, Space, Status
from phasebit.runtime.server import ALL_STREAMS, Device
from phasebit.runtime.side_by_side import Work

PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry put(.param .u64 p, .param .u32 v)
{
    .reg .b64 %d<2>; .reg .b32 %r<2>;
    ld.param.u64 %d1, [p]; ld.param.u32 %r1, [v];
    st.global.u32 [%d1], %r1;
    ret;
}
.visible .entry signal(.param .u64 p, .param .u32 v)
{
    .reg .b64 %d<2>; .reg .b32 %r<2>;
    ld.param.u64 %d1, [p]; ld.param.u32 %r1, [v];
    st.release.sys.global.u32 [%d1], %r1;
    ret;
}
.visible .entry await(.param .u64 p, .param .u32 v)
{
    .reg .b64 %d<2>; .reg .b32 %r<3>; .reg .pred %p;
    ld.param.u64 %d1, [p]; ld.param.u32 %r1, [v];
again:
    ld.acquire.sys.global.u32 %r2, [%d1];
    setp.ne.u32 %p, %r1, %r2;
    @%p bra again;
    st.global.u32 [%d1+4], %r1;
    ret;
}
"""
AWAIT = PTX[PTX.index(b".visible .entry await") :].decode()


def also(name: str, load: str, behind: str) -> bytes:
    """`await` with another load, and something behind its loop; then it reads what lies beside."""
    text = AWAIT.replace("entry await", f"entry {name}").replace("ld.acquire.sys.global", load)
    read = f"{behind} ld.global.u32 %r2, [%d1+8]; st.global.u32 [%d1+4], %r2;"
    return text.replace("st.global.u32 [%d1+4], %r1;", read).encode()


TELL = b"""
.visible .entry tell(.param .u64 p, .param .u32 v)
{
    .reg .b64 %d<2>; .reg .b32 %r<2>;
    ld.param.u64 %d1, [p]; ld.param.u32 %r1, [v];
    st.global.u32 [%d1+8], %r1;
    st.release.sys.global.u32 [%d1], %r1;
    ret;
}
"""
WAYS = {  # how the second device hears of it, and whether it may count on what was stored before
    "acquires": ("ld.acquire.sys.global", "", True),
    "acquires_near": ("ld.acquire.gpu.global", "", False),
    "relaxed": ("ld.relaxed.sys.global", "", False),
    "fences": ("ld.relaxed.sys.global", "fence.acq_rel.sys;", True),
    "fences_near": ("ld.relaxed.sys.global", "fence.acq_rel.gpu;", False),
    "looks": ("ld.volatile.global", "", False),
    "looks_and_fences": ("ld.volatile.global", "fence.sc.sys;", True),
}
PTX += TELL + b"".join(also(name, load, behind) for name, (load, behind, _) in WAYS.items())
FIRST, SECOND = 0, 2
"""The default streams of the two devices."""


class Two:
    """Two devices, as a program talks to them."""

    def __init__(self, memory: DeviceMemory) -> None:
        self.memory = memory
        self.runs = Runs()
        self.device = Device(EmulatorBackend(keep=False), memory, reporter=self.runs, devices=2)
        self.post(Op.MODULE, 1, blob=PTX)
        for stream, device in ((0, 0), (1, 0), (2, 1), (3, 1)):
            self.post(Op.STREAM, stream, 1, device)
        self.post(Op.PEER, 0, 1, 1)
        self.post(Op.PEER, 1, 0, 1)
        self.numbers = {}
        for name in ("put", "signal", "await", "tell", *WAYS):
            self.numbers[name] = self.ask(Op.KERNEL, 1, blob=name.encode())[1][0]
        at = self.ask(Op.ALLOCATE, 64, Space.DEVICE, 0)[1][0]
        self.ask(Op.FILL, at, 0, 64, 64, 1, FIRST, 1)
        self.ask(Op.SYNCHRONIZE, ALL_STREAMS, 0)
        self.at = at

    def ask(self, op: Op, *words: int, blob: bytes = b"") -> tuple[int, tuple[int, ...]]:
        reply = self.device.handle(op, words, blob)
        assert reply is not None
        data = reply.payload()
        return reply.status, struct.unpack(f"<{len(data) // 8}Q", data)

    def post(self, op: Op, *words: int, blob: bytes = b"") -> None:
        assert self.device.handle(op, words, blob) is None

    def launch(self, name: str, stream: int, word: int, value: int) -> None:
        parameters = struct.pack("<QI", self.at + 4 * word, value)
        shape = (1, 1, 1, 1, 1, 1, 0, 1, 1, 1)
        self.post(Op.LAUNCH, self.numbers[name], stream, *shape, 0, 0, 1 << 20, 0, blob=parameters)

    def query(self, stream: int, event: int = 0) -> int:
        status, (done,) = self.ask(Op.QUERY, stream, event)
        assert status == 0
        return done

    def synchronize(self, stream: int = ALL_STREAMS, event: int = 0) -> int:
        return self.ask(Op.SYNCHRONIZE, stream, event)[0]

    @property
    def words(self) -> list[int]:
        return self.memory.view(self.at, 32).view("<u4").tolist()

    @property
    def rules(self) -> list[str]:
        return sorted({finding.rule for finding in self.runs.findings})


@pytest.fixture
def two() -> Iterator[Two]:
    memory = DeviceMemory(1 << 24)
    made = Two(memory)
    yield made
    memory.close()


def test_nothing_runs_before_the_host_asks(two: Two) -> None:
    two.launch("put", FIRST, 0, 7)
    assert two.words[0] == 0 and two.memory.finished == 0
    assert two.synchronize() == 0
    assert two.words[0] == 7 and two.memory.finished == 1


def test_a_kernel_waits_for_one_of_the_other_device(two: Two) -> None:
    two.launch("await", FIRST, 0, 5)
    two.launch("signal", SECOND, 0, 5)
    assert two.synchronize(FIRST) == 0
    assert two.words[:2] == [5, 5] and two.rules == []
    assert two.memory.finished == 2


def test_what_a_program_has_not_waited_for_is_finished_when_it_is_gone(two: Two) -> None:
    two.launch("put", FIRST, 0, 7)
    two.launch("put", SECOND, 4, 8)
    two.device.finish()
    assert (two.words[0], two.words[4], two.memory.finished) == (7, 8, 2)


def test_only_the_stream_that_is_named_is_finished(two: Two) -> None:
    two.launch("await", FIRST, 0, 5)
    two.launch("put", SECOND, 4, 9)
    assert two.synchronize(SECOND) == 0
    assert two.words[4] == 9 and two.memory.finished == 1
    assert two.query(FIRST) == 0 and two.query(SECOND) == 1
    two.launch("signal", SECOND, 0, 5)
    assert two.synchronize(DEVICE_STREAMS - 1) == 0 and two.synchronize(DEVICE_STREAMS) == 0
    assert two.words[1] == 5 and two.memory.finished == 3


def test_asking_gives_launches_some_turns(two: Two) -> None:
    two.launch("put", FIRST, 0, 7)
    two.post(Op.RECORD, 1, FIRST)
    two.launch("await", FIRST, 4, 1)
    assert two.query(FIRST, 1) == 1 and two.words[0] == 7
    assert two.query(FIRST) == 0
    assert two.query(FIRST, 99) == 1  # nobody recorded it


def test_an_event_orders_streams_of_two_devices(two: Two) -> None:
    two.launch("put", FIRST, 0, 1)
    two.post(Op.RECORD, 1, FIRST)
    two.post(Op.WAIT, SECOND, 1)
    two.launch("put", SECOND, 0, 2)
    two.post(Op.RECORD, 2, SECOND)
    assert two.synchronize(0, 2) == 0
    assert two.words[0] == 2 and two.rules == []
    assert two.ask(Op.ELAPSED, 1, 2)[1][0] >= 2000


def test_without_one_they_race(two: Two) -> None:
    two.launch("put", FIRST, 0, 1)
    two.launch("put", SECOND, 0, 2)
    assert two.synchronize() == 0
    assert two.rules == ["race"] and two.runs.findings[0].kernel == "put"


@pytest.mark.parametrize("between", [
    (Op.SYNCHRONIZE, ALL_STREAMS, 0), (Op.SYNCHRONIZE, FIRST, 0),
    (Op.SYNCHRONIZE, DEVICE_STREAMS, 0),
])  # fmt: skip
def test_the_host_orders_what_it_has_waited_for(between: tuple[int, ...], two: Two) -> None:
    two.launch("put", FIRST, 0, 1)
    two.device.handle(between[0], between[1:], b"")
    two.launch("put", SECOND, 0, 2)
    assert two.synchronize() == 0
    assert two.rules == [] and two.words[0] == 2


@pytest.mark.parametrize(("waits", "rules"), [(1, []), (0, ["race"])])
def test_a_copy_orders_only_if_the_host_waits_for_it(
    waits: int, rules: list[str], two: Two
) -> None:
    two.launch("put", FIRST, 0, 1)
    copy = (0x1000, 4, two.at, 4, 4, Copy.DEVICE_TO_HOST, FIRST, waits)
    assert two.ask(Op.COPY, *copy)[0] == 0
    assert two.words[0] == 1  # what the copy reads has been written
    two.launch("put", SECOND, 0, 2)
    assert two.synchronize() == 0
    assert two.rules == rules


def test_a_fill_takes_its_turn_in_its_stream(two: Two) -> None:
    two.launch("await", FIRST, 0, 5)
    two.ask(Op.FILL, two.at + 16, 3, 4, 4, 1, FIRST, 0)
    assert two.query(FIRST) == 0 and two.words[4] == 0
    two.launch("signal", SECOND, 0, 5)
    assert two.synchronize() == 0
    assert two.words[4] == 0x03030303


@pytest.fixture
def fresh(two: Two) -> Two:
    """Two devices whose streams have had nothing yet: the next piece is the first."""
    two.device.work = Work(two.device)
    return two


def test_the_first_piece_is_waited_for_like_others(fresh: Two) -> None:
    work = fresh.device.work
    fresh.launch("await", FIRST, 0, 5)
    fresh.launch("put", FIRST, 0, 7)
    fresh.launch("put", SECOND, 4, 9)
    assert fresh.query(FIRST) == 0 and fresh.query(SECOND) == 1 and fresh.words[4] == 9
    assert fresh.words[0] == 0 and work.below == 0 and [*work.open] == [0, 1]
    fresh.launch("signal", SECOND, 0, 5)
    assert fresh.synchronize() == 0 and fresh.words[:2] == [7, 5]
    assert work.below == work.next == 4


def test_the_first_piece_alone_is_finished(fresh: Two) -> None:
    fresh.launch("put", FIRST, 0, 7)
    assert fresh.synchronize() == 0 and fresh.words[0] == 7


def test_a_copy_finishes_its_own_stream_alone(two: Two) -> None:
    two.launch("await", FIRST, 0, 5)
    two.launch("put", SECOND, 4, 9)
    copy = (0x1000, 4, two.at + 16, 4, 4, Copy.DEVICE_TO_HOST, SECOND, 1)
    assert two.ask(Op.COPY, *copy)[0] == 0
    assert two.words[4] == 9 and two.memory.finished == 1


def test_what_lies_between_two_events_is_finished_when_it_is_asked_for(two: Two) -> None:
    two.post(Op.RECORD, 1, FIRST)
    two.launch("put", FIRST, 0, 7)
    two.post(Op.RECORD, 2, FIRST)
    assert two.ask(Op.ELAPSED, 1, 2)[0] == 0
    assert two.words[0] == 7 and two.memory.finished == 1


def test_a_module_is_unloaded_when_all_is_done(two: Two) -> None:
    two.launch("put", FIRST, 0, 7)
    two.post(Op.UNLOAD, 99)
    assert two.words[0] == 7


def test_the_host_knows_what_it_was_told_is_done(two: Two) -> None:
    two.launch("await", SECOND + 1, 4, 1)
    two.launch("put", FIRST, 0, 1)
    while not two.query(FIRST):
        pass
    two.launch("put", SECOND, 0, 2)
    two.launch("signal", FIRST, 4, 1)
    assert two.synchronize() == 0 and two.words[0] == 2 and two.rules == []


def test_a_stream_that_waits_for_an_event_of_its_own_keeps_its_order(two: Two) -> None:
    two.launch("put", FIRST, 0, 1)
    two.post(Op.RECORD, 1, FIRST)
    two.post(Op.WAIT, FIRST, 1)
    two.launch("put", FIRST, 0, 2)
    assert two.synchronize() == 0 and two.words[0] == 2 and two.rules == []


def test_a_stream_that_was_waited_for_keeps_its_order(two: Two) -> None:
    two.launch("await", FIRST, 0, 5)
    two.launch("put", SECOND, 4, 9)
    assert two.synchronize(SECOND) == 0
    two.launch("put", SECOND, 4, 10)
    two.launch("signal", SECOND, 0, 5)
    assert two.synchronize() == 0 and two.words[4] == 10 and two.rules == []


def test_launches_that_nobody_can_follow_are_forgotten(
    fresh: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[int] = []
    monkeypatch.setattr(fresh.device.work.together, "forget", forgotten.append)
    fresh.launch("await", FIRST, 0, 5)  # 0
    fresh.launch("put", SECOND, 4, 9)  # 1
    fresh.synchronize(SECOND)
    fresh.launch("signal", SECOND, 0, 5)  # 2
    fresh.synchronize(SECOND)
    fresh.launch("put", SECOND, 4, 9)  # 3
    fresh.synchronize()
    assert forgotten[0] == 0 and forgotten[-1] == 4 and forgotten == sorted(forgotten)


def test_memory_is_freed_when_all_is_done(two: Two) -> None:
    other = two.ask(Op.ALLOCATE, 4, Space.DEVICE, 0)[1][0]
    two.launch("put", FIRST, 0, 7)
    assert two.ask(Op.FREE, other, 1 << Space.DEVICE)[0] == 0
    assert two.words[0] == 7


def test_a_stream_waits_for_a_number_that_another_writes(two: Two) -> None:
    two.ask(Op.VALUE, FIRST, two.at, 5, 0)
    two.launch("put", FIRST, 4, 9)
    assert two.query(FIRST) == 0 and two.words[4] == 0
    two.ask(Op.VALUE, SECOND, two.at, 5, 4)
    assert two.synchronize() == 0
    assert two.words[0] == 5 and two.words[4] == 9


def test_a_number_that_nobody_writes_is_a_deadlock(two: Two) -> None:
    two.ask(Op.VALUE, FIRST, two.at, 5, 0)
    two.launch("put", SECOND, 4, 9)
    assert two.synchronize() == Status.LAUNCH_TIMEOUT
    assert two.rules == ["deadlock"] and two.words[4] == 9
    assert f"for 5 at 0x{two.at:x}, where 0 is" in str(two.runs.findings[0])
    assert two.synchronize() == Status.LAUNCH_TIMEOUT


def test_a_kernel_that_fails_ends_all(two: Two) -> None:
    two.at += 1 << 20
    two.launch("put", FIRST, 0, 1)
    two.at -= 1 << 20
    two.launch("await", SECOND, 0, 5)
    assert two.synchronize() == Status.ILLEGAL_ADDRESS
    assert two.memory.finished == 2 and not two.device.work.open


def test_a_spin_that_nobody_ends_is_a_livelock(two: Two) -> None:
    two.launch("await", FIRST, 0, 5)
    two.launch("put", SECOND, 4, 1)
    assert two.synchronize() != 0
    assert "livelock" in {*two.rules}
    assert two.memory.finished == 2


def test_a_new_greeting_forgets_what_ran(two: Two) -> None:
    two.launch("await", FIRST, 0, 5)
    two.query(FIRST)
    assert two.device.work.together.running
    work = two.device.work
    assert two.ask(Op.HELLO)[0] == 0
    assert not work.open and not work.together.running and two.memory.finished == 0


def test_streams_that_are_full_wait_for_their_older_half(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "MOST_OPEN", 8)
    for value in range(8):
        two.launch("put", FIRST, 0, value + 1)
    assert two.memory.finished == 0 and len(two.device.work.open) == 8
    two.launch("put", FIRST, 0, 9)
    assert two.memory.finished == 4 and len(two.device.work.open) == 5
    assert two.words[0] == 4
    two.launch("put", SECOND, 4, 9)
    assert two.memory.finished == 4
    assert two.synchronize() == 0 and two.words[0] == 9 and two.rules == []


def test_a_launch_that_cannot_begin_is_said_and_the_others_go_on(two: Two) -> None:
    words = (two.numbers["put"], FIRST, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 0, 1 << 20, 0)
    two.post(Op.LAUNCH, *words, blob=struct.pack("<QI", two.at, 1))
    two.launch("put", SECOND, 4, 9)
    assert two.synchronize() == Status.LAUNCH_FAILURE
    assert two.rules == ["defect"] and two.runs.findings[0].kernel == "put"


def test_what_the_host_knows_is_kept_no_longer(two: Two) -> None:
    work = two.device.work
    for _ in range(3):
        two.launch("put", FIRST, 0, 1)
        two.post(Op.RECORD, 1, FIRST)
    assert work.next - work.below == 6 and work.events[1]
    two.synchronize()
    assert work.below == work.next and not work.waited and not work.open
    assert not any(work.last.values()) and not any(work.events.values())


def test_memory_of_the_other_device_is_reached_only_if_that_is_allowed(two: Two) -> None:
    two.post(Op.PEER, 1, 0, 0)
    two.launch("put", FIRST, 0, 1)
    assert two.synchronize() == 0
    two.launch("put", SECOND, 0, 2)
    assert two.synchronize() == Status.ILLEGAL_ADDRESS
    assert two.rules == ["no-peer-access"] and two.words[0] == 1


def test_when_time_is_up_the_kernel_whose_turn_it_is_says_where_it_stands(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.launch("await", SECOND, 0, 5)
    two.query(SECOND)

    def stop() -> None:
        raise Stop

    monkeypatch.setattr(two.device.work.together, "advance", stop)
    with pytest.raises(Stop) as raised:
        two.synchronize()
    standing = raised.value.standing
    assert standing is not None and (standing.rule, standing.kernel) == ("time-limit", "await")
    two.launch("looks", FIRST, 4, 5)
    two.device.work._start()
    with pytest.raises(Stop) as raised:
        two.synchronize()
    assert raised.value.standing == standing  # of that which began first
    assert standing.message.startswith("was running: all threads of block 0 ")


def test_what_was_found_in_kernels_that_end_with_another_is_told(two: Two) -> None:
    two.launch("put", FIRST, 0, 1)
    two.launch("await", SECOND, 0, 9)  # races with it, and spins
    two.query(SECOND)
    two.at += 1 << 20
    two.launch("put", FIRST, 0, 1)
    two.at -= 1 << 20
    assert two.synchronize() == Status.ILLEGAL_ADDRESS
    assert {finding.kernel for finding in two.runs.findings} == {"put", "await"}


def test_how_many_turns_and_pieces() -> None:
    assert (side_by_side.TURNS, side_by_side.MOST_OPEN) == (64, 1024)
    assert side_by_side.ALL == ALL_STREAMS == 2**64 - 1


@pytest.mark.parametrize("way", WAYS)
def test_8_8_what_the_other_device_stored_is_heard_of_with_an_acquire_that_reaches(
    way: str, two: Two
) -> None:
    two.launch(way, SECOND, 0, 5)
    two.launch("tell", FIRST, 0, 5)
    assert two.synchronize() == 0
    assert two.words[1] == 5 and (two.rules == []) == WAYS[way][2], two.rules


@pytest.mark.parametrize(("tells", "rules"), [("tell", []), ("signal", ["uninitialised-read"])])
def test_words_that_the_other_device_has_written_are_written(
    tells: str, rules: list[str], two: Two
) -> None:
    two.at = two.ask(Op.ALLOCATE, 64, Space.DEVICE, 0)[1][0]
    two.ask(Op.FILL, two.at, 0, 4, 4, 1, FIRST, 1)  # the flag alone
    two.synchronize()
    two.launch("acquires", SECOND, 0, 5)
    two.query(SECOND)
    two.launch(tells, FIRST, 0, 5)
    assert two.synchronize() == 0 and two.rules == rules
