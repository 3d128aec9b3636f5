"""A kernel that may begin before the one before it has ended (PTX ISA 9.7.13.13): PTX by hand."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from phasebit.runtime.backend import Launch
from phasebit.runtime.emulated import EmulatorBackend
from phasebit.runtime.mapped_memory import DeviceMemory

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
KERNEL = """
.visible .entry {name}(.param .u64 x, .param .u64 y, .param .u64 z)
{{
    .reg .b64 %d<9>; .reg .b32 %r<9>; .reg .pred %p<3>;
    ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.u64 %d3, [z];
    mov.u32 %r1, %tid.x; mul.wide.u32 %d4, %r1, 4; setp.lt.u32 %p1, %r1, 32; setp.eq.u32 %p2, %r1,
    0;
    add.u64 %d1, %d1, %d4; add.u64 %d2, %d2, %d4; add.u64 %d3, %d3, %d4;
    {body}
    ret;
}}
"""
FIRST = "griddepcontrol.launch_dependents; ld.global.u32 %r2, [%d2]; st.global.u32 [%d1], %r2;"
COPY = "ld.global.u32 %r2, [%d1]; st.global.u32 [%d3], %r2;"
WAIT = "griddepcontrol.wait;"
BETWEEN = "{} st.global.u32 [%d3], %r1;"


class Stream:
    """Launches one after the other, each after the one before it or as soon as that allows."""

    def __init__(self, memory: DeviceMemory) -> None:
        self.memory = memory
        self.at = [memory.allocate(256, name=name) for name in "xyz"]
        for address in self.at:
            memory.written(address, 256)
        self.backend = EmulatorBackend(keep=False)

    def load(self, **kernels: str) -> None:
        texts = [KERNEL.format(name=name, body=body) for name, body in kernels.items()]
        self.module = self.backend.load(HEAD + "".join(texts), self.memory)

    def launch(self, kernel: str, dependent: bool = False) -> list[str]:
        given = struct.pack("<3Q", *self.at)
        launch = Launch(kernel, (1, 1, 1), (64, 1, 1), given, dependent=dependent)
        outcome = self.module.launch(launch)
        assert not outcome.error
        return [f"{finding.rule}: {finding.message}" for finding in outcome.findings]


@pytest.fixture
def stream() -> Iterator[Stream]:
    memory = DeviceMemory(1 << 24)
    yield Stream(memory)
    memory.close()


@pytest.mark.parametrize(("second", "said"), [
    (COPY, "all threads of block 0 read x"),
    ("st.global.u32 [%d2], %r1; " + WAIT + COPY, "y"),
    (f"@%p1 bra A; bra B; A: {WAIT} B: {COPY}", "warp 1 of block 0 "),
    (f"red.global.add.u32 [%d1], 1; {WAIT}", "x"),
])  # fmt: skip
def test_what_the_kernel_before_touches_is_found_before_the_wait(
    second: str, said: str, stream: Stream
) -> None:
    stream.load(first=FIRST, second=second)
    assert stream.launch("first") == []
    found = stream.launch("second", dependent=True)
    assert len(found) == 1 and found[0].startswith("missing-grid-wait: ")
    assert said.split()[-1] in found[0]
    assert "kernel first, which may still be under way" in found[0]


@pytest.mark.parametrize("second", [
    WAIT + COPY, f"@%p2 bra A; bra B; A: {WAIT} B: bar.sync 0; {COPY}",
    f"ld.global.u32 %r3, [%d2]; {WAIT} {COPY}", "st.global.u32 [%d3], %r1;",
])  # fmt: skip
def test_after_the_wait_nothing_is_found_nor_where_both_only_read(
    second: str, stream: Stream
) -> None:
    stream.load(first=FIRST, second=second)
    assert stream.launch("first") == [] and stream.launch("second", dependent=True) == []


def test_a_kernel_that_begins_after_the_end_need_not_wait(stream: Stream) -> None:
    stream.load(first=FIRST, second=COPY)
    assert stream.launch("first") == [] and stream.launch("second") == []


@pytest.mark.parametrize(("between", "clean"), [("", False), (WAIT, True)])
def test_one_wait_reaches_no_further_than_the_kernel_between(
    between: str, clean: bool, stream: Stream
) -> None:
    stream.load(first=FIRST, between=BETWEEN.format(between), second=WAIT + COPY)
    assert stream.launch("first") == []
    stream.launch("between", dependent=True)
    found = stream.launch("second", dependent=True)
    assert (found == []) == clean, found


def test_both_accesses_are_named(stream: Stream) -> None:
    """The thread that comes too early, its kernel's and the other kernel's instruction."""
    late = "setp.eq.u32 %p1, %r1, 37; @%p1 ld.global.u32 %r2, [%d1];"
    none = "no thread has executed griddepcontrol.wait"
    some = "this thread comes after no griddepcontrol.wait"
    stream.load(first=FIRST, second=late, third="@%p2 bra A; bra B; A: " + WAIT + " B: " + late,
                fourth=late.replace("ld.global.u32 %r2, [%d1]", "st.global.u32 [%d2], %r1"))
    for name, verb, what, did, why in (
        ("second", "reads", "x", "writes", none), ("third", "reads", "x", "writes", some),
        ("fourth", "writes", "y", "reads", none),
    ):  # fmt: skip
        assert stream.launch("first") == []
        (said,) = stream.launch(name, dependent=True)
        mine = {"reads": "@%p1 ld.global.u32 %r2, [%d1]", "writes": "@%p1 st.global.u32 [%d2], %r1"}
        theirs = {"writes": "st.global.u32 [%d1], %r2", "reads": "ld.global.u32 %r2, [%d2]"}
        assert said.startswith(
            f"missing-grid-wait: thread 37 of block 0 {verb} {what}[148 bytes in]: `{mine[verb]}` "
        )
        assert f"; kernel first, which may still be under way, {did} it: `{theirs[did]}`" in said
        assert said.endswith(f"; {why}")


def test_who_hears_of_another_threads_wait_has_waited(stream: Stream) -> None:
    """By a barrier of some; not who goes on without one, nor before it."""
    met = "@%p2 bra A; bra B; A: " + WAIT + " B: @%p1 bar.sync 1, 32;"
    early = "setp.eq.u32 %p1, %r1, {}; @%p1 ld.global.u32 %r2, [%d1];"
    last = "setp.eq.u32 %p2, %r1, 63;" + met.replace("@%p1", "@!%p1")
    stream.load(first=FIRST, second=met + early.format(31), third=met + early.format(32),
                fourth=last + early.format(40))
    for name, thread in (("second", None), ("third", 32), ("fourth", None)):
        assert stream.launch("first") == []
        found = stream.launch(name, dependent=True)
        assert len(found) == (thread is not None)
        assert all(f"thread {thread} of block 0 reads" in said for said in found)
