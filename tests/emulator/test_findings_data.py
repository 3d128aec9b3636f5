"""A finding is data: its places and threads are not read out of its text."""

from __future__ import annotations

import json

import numpy as np
import pytest

from phasebit.emulator import Deadlock, Fault, Module, Run
from phasebit.emulator.findings import Call, Finding, Place, Threads, say

PTX = """
.version 8.7
.target sm_90a
.address_size 64
.file 1 "ring.cu"
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<3>;
    .reg .b32 %r<5>;
    .reg .b64 %rd<4>;
    .shared .align 4 .b32 word;
    .loc 1 7 3
    mov.u32 %r1, %tid.x;
    .loc 1 8 5
    st.shared.u32 [word], %r1;
    .loc 1 41 9
    ld.shared.u32 %r2, [word];
    BODY
    ret;
}
"""


CALLED = ".loc 1 0 9, function_name $L, inlined_at 1 41 3"
"""Merged in a function that is called in line 41."""


def launch(body: str = "") -> Run:
    return Module(PTX.replace("BODY", body))["k"].launch(1, 64, [np.zeros(64, np.int32)])


def again(finding: Finding) -> Finding:
    """What is left of it on the other side of a channel."""
    return Finding.from_json(json.loads(json.dumps(finding.to_json())))


def test_places_and_threads_of_a_race() -> None:
    finding = next(each for each in launch().findings if each.kind == "race" and each.line == 17)
    read, written = finding.places
    assert (read.file, read.line, read.column) == ("ring.cu", 41, 9)
    assert written.instruction == "st.shared.u32 [word], %r1" and written.ptx_line == 15
    assert finding.at == read and finding.lines == (41, 8) and finding.source == "ring.cu:41"
    one, other = finding.threads
    assert one.blocks[0].block == 0 and one.blocks[0].warps != other.blocks[0].warps
    (where,) = finding.addresses
    assert (where.space, where.number, where.allocation, where.offset) == ("shared", 0, "word", 0)
    assert "reads word[0 bytes in]: `ld.shared.u32 %r2, [word]` at PTX line 17 (ring.cu:41); " in (
        finding.message
    )


def test_line_0_is_no_line() -> None:
    """Compilers write it where they merge what comes of several lines."""
    for loc, said in ((".loc 1 0 9", "PTX line 17"), (CALLED, "PTX line 17 (ring.cu:41)")):
        text = PTX.replace(".loc 1 41 9", loc).replace("BODY", "")
        found = Module(text)["k"].launch(1, 64, [np.zeros(64, np.int32)]).findings
        (read,) = {finding.places[0] for finding in found if len(finding.places) == 2}
        assert str(read) == said, loc


def test_a_finding_is_the_same_on_the_other_side() -> None:
    found = launch().findings
    assert found and [again(each) for each in found] == found
    data = found[0].to_json()
    assert data["message"] == found[0].message and data["places"][0]["line"] == found[0].lines[0]


def test_a_fault_and_a_deadlock_are_findings_too() -> None:
    with pytest.raises(Fault) as fault:
        launch("ld.shared.u32 %r2, [word+64];")
    finding = again(fault.value.finding)
    assert finding.kind == "fault" and finding.lines == (41,) and finding.addresses[0].number == 64
    assert "address 64 (word+64) lies outside of the block's 4 bytes" in str(fault.value)
    with pytest.raises(Deadlock) as deadlock:
        launch("setp.lt.u32 %p1, %r1, 32;\n    @%p1 bar.sync 1, 64;")
    finding = again(deadlock.value.finding)
    (wait,) = finding.waits
    assert wait.what == "barrier 1" and wait.threads.blocks[0].warps == (0,)
    assert wait.place is not None and wait.place.line == 41


def test_a_place_within_inlined_functions() -> None:
    place = Place(3, "ret", "k.cu", (Call(41), Call(12, 5, "wait")))
    assert str(place) == "PTX line 3 (k.cu:41, in wait at line 12)"
    assert (place.line, place.column, place.function) == (12, 5, "wait")
    assert Place.from_json(json.loads(json.dumps(place.to_json()))) == place


@pytest.mark.parametrize(
    ("numbers", "total", "words"),
    [
        (range(64), 64, "all threads of block 2"),
        (range(32, 96), 128, "warps 1-2 of block 2"),
        ([5], 64, "thread 5 of block 2"),
        ([0, 1, 2, 40], 64, "threads 0-2, 40 of block 2"),
    ],
)
def test_threads_in_words(numbers: range, total: int, words: str) -> None:
    assert str(Threads.of(2, numbers, total)) == words


def test_braces_in_what_is_said_are_no_places() -> None:
    assert str(say("{} at {:#x}", "{%r1, {}}", 16)) == "{%r1, {}} at 0x10"
    assert str(Fault("{not a template}")) == "{not a template}"


def test_old_names_keep_working() -> None:
    import phasebit as pb

    run = launch()
    assert pb.Hazard is pb.Finding is Finding and run.hazards is run.findings
