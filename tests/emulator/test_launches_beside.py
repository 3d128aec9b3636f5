"""Launches that run at the same time, on two devices or in two streams: what orders them.

A thread of the first launch, in its second block, makes an access and tells of it; a thread of the
second launch, in its third block, hears of it and makes the other one. The blocks beside them do
nothing. Source: PTX ISA 8.5, 8.7, 8.8.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from phasebit.emulator.api.execution import Execution
from phasebit.emulator.api.together import Together
from phasebit.emulator.errors import NoPeerAccess
from phasebit.emulator.findings import Finding
from phasebit.runtime.backend import Launch
from phasebit.runtime.emulated import EmulatorBackend
from phasebit.runtime.mapped_memory import DeviceMemory

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
KERNEL = """
.visible .entry {name}(.param .u64 p)
{{
    .reg .b64 %d<9>; .reg .b32 %r<20>; .reg .pred %p<9>; .shared .align 4 .b32 word;
    ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.b32 %r3, 7;
    mad.lo.u32 %r4, %r2, 64, %r1;
    setp.ne.u32 %p1, %r2, {block}; @%p1 ret;
    setp.eq.u32 %p2, %r1, {thread};
    {body}
    ret;
}}
"""
STORE, LOAD = "@%p2 st.global.u32 [%d1+40], %r3;", "@%p2 ld.global.u32 %r5, [%d1+40];"
ADD = "@%p2 atom.global.add.u32 %r5, [%d1+40], 1;"
SPIN = "AGAIN: {} setp.ne.u32 %p3, %r7, 1; @%p3 bra AGAIN; {}"


def tells(how: str, before: str = "") -> str:
    return f"{before} @%p2 st.{how}.global.u32 [%d1+80], 1;"


def hears(how: str, behind: str = "") -> str:
    """Only the one thread looks, and goes on by itself."""
    spin = SPIN.format(f"ld.{how}.global.u32 %r7, [%d1+80];", behind)
    return f"@!%p2 ret; {spin}"


@dataclass
class Two:
    """Launches of two kernels on one memory; ``devices``: of each launch."""

    memory: DeviceMemory
    at: int = field(init=False)
    ends: list[int] = field(default_factory=list)
    """When each launch has ended, by the clock that they share."""
    fresh: bool = False
    """Whether nobody has written the array."""

    def __post_init__(self) -> None:
        self.at = self.memory.allocate(4096, name="x")

    def run(
        self, *bodies: str, devices: tuple[int, ...] = (0, 1), schedule: str = "late",
        after: dict[int, int] | None = None, also: dict[int, frozenset[int]] | None = None,
        reaches: Callable[[int], bool] = lambda device: True, every: bool = False,
    ) -> list[list[Finding]]:  # fmt: skip
        """What is found in each launch; ``after`` and ``also``: what the host orders; ``every``:
        the first block of the first launch has work, too."""
        places = ((1, 41), (2, 37), (0, 3), (1, 5))
        names = ("first", "second", "third", "fourth")[: len(bodies)]
        text = HEAD + "".join(
            KERNEL.format(name=name, body=body, block=block, thread=thread)
            for name, body, (block, thread) in zip(names, bodies, places, strict=False)
        )
        if every:
            text = text.replace("setp.ne.u32 %p1, %r2, 1;", "setp.gt.u32 %p1, %r2, 1;", 1)
        module = EmulatorBackend(keep=False, schedule=schedule).load(text, self.memory)
        self.memory.view(self.at, 4096)[:] = 0
        if not self.fresh:
            self.memory.written(self.at, 4096)
        together, made = Together(), list[Execution]()
        for number, (name, device) in enumerate(zip(names, devices, strict=True)):
            seat = together.seat(number, device, (after or {}).get(number, 0),
                                 (also or {}).get(number, frozenset()), reaches)  # fmt: skip
            launch = Launch(name, (3, 1, 1), (64, 1, 1), struct.pack("<Q", self.at))
            begin = functools.partial(module.prepare, launch, seat)
            if any(seat.knows(each) for each in range(number)):
                while together.running:  # it begins when the others have ended
                    together.advance()
            made.append(begin())
            together.begin(made[-1])
        while together.running:
            ended = together.advance()
            if ended is not None and ended[1] is not None:
                raise ended[1]
        self.ends = [each.cycles for each in made]
        return [each.findings for each in made]

    def second(self, *bodies: str, **more: object) -> list[tuple[str, str]]:
        """Rule and text, without the places, of what is found in the last launch."""
        *before, found = self.run(*bodies, **more)  # type: ignore[arg-type]
        assert not any(before), before
        return [(each.rule, re.sub(r" at PTX line \d+", "", each.message)) for each in found]


@pytest.fixture
def two() -> Iterator[Two]:
    memory = DeviceMemory(1 << 24)
    yield Two(memory)
    memory.close()


def code(text: str) -> str:
    return f"`{text.strip()[:-1]}`"


def race(
    two: str, verb: str, one: str, did: str, devices: tuple[int, int] = (0, 1), rule: str = "race",
    why: str = "nothing orders the two",
) -> list[tuple[str, str]]:  # fmt: skip
    return [(rule, (
        f"thread 37 of block 2 of device {devices[1]} {verb} x[40 bytes in]: {code(two)}; thread "
        f"41 of block 1 of device {devices[0]} (kernel first) {did} it, and {why}: {code(one)}"
    ))]  # fmt: skip


NARROW = "what tells of it has .gpu scope or less, which orders within a device"
WAYS = [  # how the first tells and the second hears: whether it is enough between two devices,
    # and within one
    (tells("release.sys"), hears("acquire.sys"), True, True),
    (tells("release.gpu"), hears("acquire.gpu"), False, True),
    (tells("release.sys"), hears("acquire.gpu"), False, True),
    (tells("release.gpu"), hears("acquire.sys"), False, True),
    (tells("release.cta"), hears("acquire.cta"), False, False),
    (tells("release.cta"), hears("acquire.sys"), False, False),
    (tells("release.sys"), hears("acquire.cta"), False, False),
    (tells("relaxed.sys", "fence.acq_rel.sys;"), hears("relaxed.sys", "fence.acq_rel.sys;"), True,
     True),
    (tells("relaxed.sys", "fence.acq_rel.gpu;"), hears("relaxed.sys", "fence.acq_rel.sys;"), False,
     True),
    (tells("relaxed.sys", "fence.acq_rel.sys;"), hears("relaxed.sys", "fence.acq_rel.gpu;"), False,
     True),
    (tells("volatile", "membar.sys;"), hears("volatile", "membar.sys;"), True, True),
    (tells("volatile", "membar.gl;"), hears("volatile", "membar.gl;"), False, True),
    (tells("relaxed.sys", "fence.acq_rel.cta;"), hears("acquire.sys"), False, False),
]  # fmt: skip


@pytest.mark.parametrize("accesses", [(STORE, LOAD), (LOAD, STORE), (ADD, LOAD), (STORE, STORE)])
@pytest.mark.parametrize(("tell", "hear", "far", "near"), WAYS)
def test_8_5_what_orders_two_launches(
    tell: str, hear: str, far: bool, near: bool, accesses: tuple[str, str], two: Two
) -> None:
    one, other = accesses
    for devices, enough in (((0, 1), far), ((1, 0), far), ((0, 0), near), ((1, 1), near)):
        found = two.second(one + tell, hear + other, devices=devices)
        mine = [each for each in found if "between devices both need .sys" not in each[1]]
        if enough:
            assert mine == []
            continue
        told = devices[0] != devices[1]
        verb, did = ("writes" if other == STORE else "reads"), ("read" if one == LOAD else "wrote")
        rule = "device-scope" if told else "race-beside-atomics" if one == ADD else "race"
        assert mine == race(
            other, verb, one, did, devices, rule, NARROW if told else "nothing orders the two"
        )


@pytest.mark.parametrize(("tell", "hear"), [
    (tells("relaxed.sys"), hears("acquire.sys")), (tells("release.sys"), hears("relaxed.sys")),
    (tells("relaxed.sys") + "fence.acq_rel.sys;", hears("acquire.sys")),
    (tells("release.sys"), "fence.acq_rel.sys;" + hears("relaxed.sys")),
    ("", "@!%p2 ret;"),
])  # fmt: skip
@pytest.mark.parametrize("devices", [(0, 1), (1, 0), (0, 0)])
def test_8_8_what_tells_of_nothing(
    tell: str, hear: str, devices: tuple[int, int], two: Two
) -> None:
    found = two.second(STORE + tell, hear + LOAD, devices=devices)
    assert found == race(LOAD, "reads", STORE, "wrote", devices)


def test_the_host_orders_them(two: Two) -> None:
    assert two.second(STORE, STORE, after={1: 1}) == []
    assert two.second(STORE, STORE, also={1: frozenset({0})}) == []
    found = two.second(STORE, STORE)
    assert found == race(STORE, "writes", STORE, "wrote")


STRONG_STORE = "@%p2 st.relaxed.sys.global.u32 [%d1+40], 1;"
STRONG_LOAD = "@%p2 ld.relaxed.sys.global.u32 %r5, [%d1+40];"


@pytest.mark.parametrize(("one", "other", "rule"), [
    (ADD, ADD, ""), (LOAD, LOAD, ""), (STRONG_STORE, STRONG_LOAD, ""), (ADD, STORE, "race"),
    (STRONG_LOAD, STRONG_STORE, ""), (STRONG_LOAD, STORE, "race"), (STORE, STRONG_LOAD, "race"),
    (STORE, ADD, "race"), (STORE, STRONG_STORE, "race"), (ADD, LOAD, "race-beside-atomics"),
    (STRONG_STORE, LOAD, "race-beside-atomics"), (LOAD, STRONG_STORE, "race-beside-atomics"),
    (LOAD, ADD, "race-beside-atomics"), (STRONG_STORE, STORE, "race"),
])  # fmt: skip
def test_strong_accesses_race_with_weak_ones_only(
    one: str, other: str, rule: str, two: Two
) -> None:
    """A plain load beside a strong store is of another grade."""
    found = two.second(one, other, devices=(0, 0))
    verb = "reads" if other in (LOAD, STRONG_LOAD) else "writes"
    did = "read" if one in (LOAD, STRONG_LOAD) else "wrote"
    assert found == (race(other, verb, one, did, (0, 0), rule) if rule else [])


@pytest.mark.parametrize(("one", "other", "verb", "did"), [
    ("release.gpu", "acquire.sys", "reads", "writes"),
    ("relaxed.cta", "relaxed.sys", "reads", "writes"),
    ("relaxed.sys", "relaxed.gpu", "reads", "writes"),
    ("", "", "writes", "writes"), ("relaxed.sys", "relaxed.sys", "", ""),
    ("volatile", "volatile", "", ""),
])  # fmt: skip
def test_8_5_strong_accesses_of_two_devices_have_system_scope(
    one: str, other: str, verb: str, did: str, two: Two
) -> None:
    add = "@%p2 atom.{}.global.add.u32 %r5, [%d1+80], 1;"
    tell = tells(one) if one else add.format("release.gpu")
    hear = hears(other) if other else add.format("acquire.sys")
    scopes = [how.partition(".")[2] for how in (one or "release.gpu", other or "acquire.sys")]
    found = two.second(tell, hear)
    read = hear.split("AGAIN: ")[-1].split(";")[0]
    assert found == ([("device-scope", (
        f"thread 37 of block 2 of device 1 {verb} x[80 bytes in] with .{scopes[1]} scope: `{read}`;"
        f" thread 41 of block 1 of device 0 {did} it: {code(tell)} with .{scopes[0]} scope; "
        "between devices both need .sys"
    ))] if verb else [])  # fmt: skip
    assert two.second(tell, hear, devices=(0, 0)) == []


def test_a_message_that_passes_through_a_third_launch(two: Two) -> None:
    """What the second has heard it tells on, and with it what it heard of; if scopes reach."""
    second = hears("acquire.sys") + "@%p2 st.{}.global.u32 [%d1+120], 1;"
    third = hears("{}").replace("+80", "+120") + LOAD
    one, far = STORE + tells("release.sys"), (0, 1, 0)
    on, heard = second.format("release.sys"), third.format("acquire.sys")
    assert two.second(one, on, heard, devices=far) == []
    near = second.format("release.gpu"), third.format("acquire.gpu")
    assert two.second(one, *near, devices=(1, 0, 0)) == []
    for words in ((near[0], heard), (on, near[1])):
        found = two.second(one, *words, devices=far)
        assert found[0][0] == "device-scope"
        if words == (on, near[1]):  # what the first one did is of this device: its scope is enough
            assert len(found) == 1
            continue
        assert found[1][0] == "race"
        assert found[1][1].startswith("thread 3 of block 0 of device 0 reads x[40 bytes in]: ")
        assert "; thread 41 of block 1 of device 0 (kernel first) wrote it" in found[1][1]


def test_a_message_comes_back_to_another_block_of_the_launch_that_sent_it(two: Two) -> None:
    """What its own blocks did a launch hears of by way of the other launch, too."""
    send = f"{STORE} {tells('{}')} bra END; "
    back = hears("{}").replace("+80", "+120").replace("@!%p2 ret; ", "") + LOAD
    # both the second and the first block of the first launch have work
    both = ("setp.eq.u32 %p4, %r2, 0; @!%p2 bra END; @%p4 bra BACK; " + send.format("release.sys")
            + "BACK: " + back + " END: ")
    relay = hears("acquire.sys") + "@%p2 st.{}.global.u32 [%d1+120], 1;"
    for scope, found in (("release.sys", False), ("relaxed.sys", True)):
        said = two.run(both.format("acquire.sys"), relay.format(scope), every=True)
        assert not said[1] and [each.rule for each in said[0]] == ["race"] * found
        assert not found or "; thread 41 of block 1 wrote it, and nothing orders the two" in (
            said[0][0].message
        )


def test_who_comes_after_a_launch_knows_what_that_one_knew(two: Two) -> None:
    """The third comes after the second, which has heard of the first; the fourth hears of both."""
    one, hear = STORE + tells("release.sys"), hears("acquire.sys")
    assert two.second(one, hear, LOAD, devices=(0, 1, 1), also={2: frozenset({1})}) == []
    late = two.second(one, "", LOAD, devices=(0, 1, 1), also={2: frozenset({1})})
    assert [rule for rule, _ in late] == ["race"] and "(kernel first) wrote it" in late[0][1]
    narrow = two.second(STORE + tells("release.gpu"), hears("relaxed.sys", "fence.acq_rel.sys;"),
                        LOAD, devices=(0, 0, 1), also={2: frozenset({1})})  # fmt: skip
    assert narrow == []


@pytest.mark.parametrize(("offset", "found"), [(40, False), (44, True), (36, True)])
def test_another_launch_may_have_written_what_this_one_reads(
    offset: int, found: bool, two: Two
) -> None:
    """What neither has written is told of the one that reads it."""
    two.fresh = True
    load = LOAD.replace("+40", f"+{offset}")
    said = two.second(STORE + tells("release.sys"), hears("acquire.sys") + load)
    wanted = (
        f"thread 37 of block 2 reads x[{offset} bytes in], which nobody has written; {code(load)}"
    )
    assert said == ([("uninitialised-read", wanted)] if found else [])


NARROWER = "@%p2 st.global.u8 [%d1+42], %r3;"


@pytest.mark.parametrize(("one", "other", "name", "met"), [
    (NARROWER, LOAD, "reads x[40 bytes in]", True), (STORE, "@%p2 ld.global.u8 %r5, [%d1+43];",
     "reads x[43 bytes in]", True),
    (NARROWER.replace("+42", "+44"), LOAD, "", False), (NARROWER.replace("+42", "+39"), LOAD, "",
     False),
    (LOAD, NARROWER, "writes x[42 bytes in]", True),
    (STORE, "@%p2 ld.global.u8 %r5, [%d1+44];", "", False),
])  # fmt: skip
def test_words_of_two_kernels_may_be_of_other_sizes(
    one: str, other: str, name: str, met: bool, two: Two
) -> None:
    found = two.second(one, other)
    assert [rule for rule, _ in found] == (["race"] if met else [])
    assert not met or f" {name}: " in found[0][1]


@pytest.mark.parametrize("devices", [(1, 1), (0, 0), (2, 2)])
@pytest.mark.parametrize("access", [STORE, LOAD, ADD])
def test_memory_of_another_device_is_reached_only_where_that_is_allowed(
    devices: tuple[int, int], access: str, two: Two
) -> None:
    """The array is of device 0: its own kernels reach it, others only when they may."""
    idle = "@%p2 ret;"
    assert two.second(idle, access, devices=devices, reaches=lambda device: device == 0) == []
    if devices[0] == 0:
        assert two.second(idle, access, devices=devices, reaches=lambda device: False) == []
        return
    with pytest.raises(NoPeerAccess) as raised:
        two.second(idle, access, devices=devices, reaches=lambda device: device != 0)
    own = devices[0]
    assert re.sub(r" at PTX line \d+", "", str(raised.value)) == (
        f"thread 37 of block 2 on device {own} touches x, memory of device 0, to which device {own}"
        f" has no access: {code(access)}; call cudaDeviceEnablePeerAccess(0, 0) while device {own} "
        "is current"
    )


def test_each_word_of_a_wide_access_is_asked_with_its_thread(two: Two) -> None:
    """All threads load a word; a byte of one of them was stored by the other launch."""
    all_ = "mul.wide.u32 %d5, %r1, 4; add.u64 %d6, %d1, %d5; ld.global.v2.u32 {%r5, %r6}, [%d6];"
    all_ = all_.replace("%r1, 4", "%r1, 8")
    byte = "@%p2 st.global.u8 [%d1+302], %r3;"  # thread 37 has the bytes from 296 on
    (found,) = two.second(byte, all_)
    assert found[0] == "race" and found[1].startswith(
        "thread 37 of block 2 of device 1 reads x[300 bytes in]: "
    )


@pytest.mark.parametrize(("devices", "how"), [
    ((0, 1), "acquire.sys"), ((1, 0), "relaxed.sys"), ((0, 1), "volatile"),
])  # fmt: skip
def test_who_hears_of_another_device_is_no_earlier_than_that(
    devices: tuple[int, int], how: str, two: Two
) -> None:
    """The first launch counts for a while before it tells."""
    count = "mov.u32 %r9, 0; COUNT: add.u32 %r9, %r9, 1; setp.lt.u32 %p5, %r9, 400; @%p5 bra COUNT;"
    two.run(count + tells("release.sys"), hears(how), devices=devices)
    told, heard = two.ends
    assert heard >= told > 400
