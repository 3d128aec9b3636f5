"""Mistakes around wgmma: each is found, at its line, under every schedule; without it, nothing is.

The program is one text with numbered places; a mistake leaves a line out or adds one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.numbers.swizzle import B32, NONE
from phasebit.emulator.tensor_core.matrix_descriptors import encode
from phasebit.launching.launch import Module
from tests.emulator.wgmma_cases import HEAD

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1), ("random", 2)]

WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3},"
SHARED = f"{WGMMA} %rd4, %rd5, 1, 1, 1, 0, 0;"
REGISTERS = f"{WGMMA} {{%r4, %r5, %r6, %r7}}, %rd5, 1, 1, 1, 0;"


@dataclass(frozen=True)
class Mistake:
    """``edits``: place -> the line there.  ``at``: the place that is named in the finding."""

    name: str
    edits: dict[str, str]
    kind: str
    words: str
    at: str
    other: str = ""
    """The place of the other instruction that the message names."""
    repair: dict[str, str] = field(default_factory=dict)
    """What the twin without the mistake has instead; nothing: the plain program."""
    a: int = encode(0, 128, 256, NONE, "wgmma")


BRANCH = "setp.ne.u32 %p1, %r1, 5; @%p1 bra ON; st.global.u32 [%rd2], %r1; ON: "
"""One thread does something that the others do not; then they go on together."""

CROSSED = "mov.f32 %d4, %d0; mov.f32 %d0, %d1; mov.f32 %d1, %d4; "


def first(multiplication: str) -> str:
    """The first one of a sum: its scale-d is a predicate, and false."""
    return "setp.ne.u32 %p2, %r1, %r1; " + multiplication.replace("%rd5, 1,", "%rd5, %p2,")


def twice(name: str, between: str, multiplication: str) -> Mistake:
    """A sum of two: nobody has written its registers, and the first one has to say so.

    When the second one is issued the first need not be over: what its registers hold then says
    nothing.
    """
    return Mistake(
        f"sums that nobody has begun, {name}",
        {"load": "", "mma": multiplication + between + multiplication}, "uninitialised",
        "adds to registers that nobody has written", "mma",
        repair={"load": "", "mma": first(multiplication) + between + multiplication},
    )  # fmt: skip


LINES = {
    "store": "st.shared.v4.u32 [%r2], {%r4, %r5, %r6, %r7};",
    "proxy": "fence.proxy.async.shared::cta;",
    "barrier": "bar.sync 0;",
    "load": "ld.global.v4.f32 {%d0, %d1, %d2, %d3}, [%rd1];",
    "fence": "wgmma.fence.sync.aligned;",
    "compute": "",
    "mma": SHARED,
    "commit": "wgmma.commit_group.sync.aligned;",
    "early": "",
    "wait": "wgmma.wait_group.sync.aligned 0;",
    "again": "bar.sync 0;",
    "overwrite": "st.shared.v4.u32 [%r2], {%r4, %r5, %r6, %r7};",
    "result": "st.global.v4.f32 [%rd1], {%d0, %d1, %d2, %d3};",
}
"""One tile, one multiplication, and the tile written again."""

PROLOGUE = HEAD + """
.visible .entry k(.param .u64 out, .param .u64 image)
{
    .reg .b32 %r<16>; .reg .b64 %rd<9>; .reg .f32 %d<8>; .reg .pred %p<4>;
    .shared .align 1024 .b8 tile[8192];
    ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [image];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 16;
    add.s64 %rd2, %rd2, %rd3; add.s64 %rd1, %rd1, %rd3;
    mov.u32 %r2, tile; shl.b32 %r3, %r1, 4; add.u32 %r2, %r2, %r3;
    mov.u64 %rd4, DA; mov.u64 %rd5, DB;
    ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd2];
"""

MISTAKES = [
    Mistake("no proxy fence", {"proxy": ""}, "proxy", "no fence.proxy.async", "mma", "store"),
    Mistake("proxy fence too early", {"store": LINES["proxy"], "proxy": LINES["store"]},
            "proxy", "no fence.proxy.async", "mma", "proxy"),
    Mistake("no barrier", {"barrier": ""}, "race", "nothing orders the two", "mma", "store"),
    Mistake("no wgmma.fence", {"fence": ""}, "async", "has no wgmma.fence before it", "mma"),
    Mistake("accumulators computed after the fence",
            {"compute": "add.f32 %d1, %d0, %d0;"}, "async", "after the last wgmma.fence",
            "mma", "compute", {"load": LINES["load"] + " add.f32 %d1, %d0, %d0;"}),
    Mistake("accumulators loaded after the fence", {"load": "", "compute": LINES["load"]},
            "async", "after the last wgmma.fence", "mma", "compute"),
    Mistake("A computed after the fence",
            {"mma": REGISTERS, "compute": "and.b32 %r4, %r4, 7;"},
            "async", "after the last wgmma.fence", "mma", "compute",
            {"mma": REGISTERS, "load": LINES["load"] + " and.b32 %r4, %r4, 7;"}),
    Mistake("accumulator stored before the wait", {"early": LINES["result"]},
            "async", "look at an accumulator", "early", "mma"),
    Mistake("accumulator added to before the wait", {"early": "add.f32 %d0, %d0, %d0;"},
            "async", "look at an accumulator", "early", "mma"),
    Mistake("accumulator overwritten before the wait", {"early": "cvt.rn.f32.u32 %d2, %r1;"},
            "async", "change an accumulator", "early", "mma"),
    Mistake("accumulator copied, and the copy used", {
        "early": "mov.f32 %d4, %d0; mov.f32 %d5, %d4; add.f32 %d6, %d5, %d5;",
        }, "async", "look at an accumulator", "early", "mma",
        {"early": "mov.f32 %d4, %d0;", "again": "bar.sync 0; add.f32 %d6, %d4, %d4;"}),
    Mistake("used by one thread, in a branch", {
        "early": "setp.eq.u32 %p1, %r1, 5; @%p1 st.global.f32 [%rd1], %d3;",
        }, "async", "thread 5 of block 0 look at an accumulator", "early", "mma",
        {"early": "setp.eq.u32 %p1, %r1, 5; @%p1 st.global.u32 [%rd1], %r1;"}),
    Mistake("A overwritten before the wait",
            {"mma": REGISTERS, "early": "ld.global.u32 %r4, [%rd2];"},
            "async", "change part of A", "early", "mma", {"mma": REGISTERS}),
    Mistake("A overwritten, and its value elsewhere, too",
            {"mma": "mov.b32 %r8, %r4; " + REGISTERS.replace("%r4", "%r8"),
             "early": "ld.global.u32 %r8, [%rd2];"}, "async", "change part of A", "early", "mma",
            {"mma": "mov.b32 %r8, %r4; " + REGISTERS.replace("%r4", "%r8"),
             "early": "ld.global.u32 %r4, [%rd2];"}),
    Mistake("wait for too few", {"wait": "wgmma.wait_group.sync.aligned 1;"},
            "async", "look at an accumulator", "result", "mma"),
    Mistake("no commit", {"commit": ""}, "async", "look at an accumulator", "result", "mma"),
    Mistake("no wait", {"wait": ""}, "async", "look at an accumulator", "result", "mma"),
    Mistake("tile overwritten before the wait",
            {"early": LINES["again"] + LINES["overwrite"], "again": "", "overwrite": ""},
            "async", "may still read it", "early", "mma"),
    Mistake("tile overwritten, barrier before the wait",
            {"wait": LINES["again"], "again": LINES["wait"]},
            "async", "may still read it", "overwrite", "mma"),
    Mistake("wait for the tile by too few", {
        "commit": f"{LINES['commit']} {SHARED} {LINES['commit']}",
        "wait": "wgmma.wait_group.sync.aligned 1;", "result": "",
        }, "async", "may still read it", "overwrite", "commit",
        {"commit": f"{LINES['commit']} {SHARED} {LINES['commit']}"}),
    Mistake("accumulators that nobody has written", {"load": ""}, "uninitialised",
            "adds to registers that nobody has written", "mma"),
    twice("A in shared memory", "", SHARED),
    twice("A in registers", "", REGISTERS),
    twice("and a branch", BRANCH, SHARED),
    twice("A in registers and a branch", BRANCH, REGISTERS),
    twice("and their registers change places", CROSSED, SHARED),
    Mistake("swizzled tile that begins in the middle of the pattern", {}, "descriptor",
            "begins in row 1 of the 32B", "mma", "",
            a=encode(256 + 128, 16, 256, B32, "wgmma")),
    Mistake("rows that lie on each other", {}, "descriptor", "lie at one place", "mma", "",
            a=encode(0, 128, 128, NONE, "wgmma")),
]  # fmt: skip


def text(edits: dict[str, str], a: int) -> tuple[str, dict[str, int]]:
    """The program, and the line of each place."""
    lines = PROLOGUE.splitlines()
    places = {}
    for name, line in (LINES | edits).items():
        lines.append("    " + line)
        places[name] = len(lines)
    source = "\n".join([*lines, "ret; }"])
    b = encode(1024, 128, 256, NONE, "wgmma")
    return source.replace("DA", str(a)).replace("DB", str(b)), places


def run(source: str, schedule: str, seed: int) -> list[Any]:
    out = np.zeros(4 * 256, np.float32)
    image = np.random.default_rng(0).integers(-4, 5, 2048).astype(np.float16)
    return Module(source)["k"].launch(
        1, 256, [out, image.view(np.uint8)], schedule=schedule, seed=seed
    ).findings  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{s[0]}{s[1]}")
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name.replace(" ", "-"))
def test_found(mistake: Mistake, schedule: tuple[str, int]) -> None:
    source, places = text(mistake.edits, mistake.a)
    found = run(source, *schedule)
    mine = [h for h in found if h.kind == mistake.kind and mistake.words in h.message]
    assert mine, found
    assert mine[0].line == places[mistake.at]
    if mistake.other:
        assert f"at PTX line {places[mistake.other]}" in mine[0].message


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{s[0]}{s[1]}")
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name.replace(" ", "-"))
def test_repaired(mistake: Mistake, schedule: tuple[str, int]) -> None:
    source, _ = text(mistake.repair, encode(0, 128, 256, NONE, "wgmma"))
    assert run(source, *schedule) == []


def test_9_7_15_5_1_2_2_a_copied_tile_may_begin_in_the_middle_of_the_pattern() -> None:
    """Copies swizzle by the address, as wgmma does; CUTLASS aligns its tiles to 128 bytes only."""
    copy = """
    .shared .align 8 .b64 full; mov.u32 %r8, full; mov.u32 %r9, tile; add.u32 %r9, %r9, 384;
    setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64 [full], 1;
    bar.sync 0; ld.param.u64 %rd6, [image];
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [full], 2048;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
        [%r9], [%rd6], 2048, [%r8];
    LOOP: mbarrier.try_wait.parity.shared.b64 %p2, [full], 0; @!%p2 bra LOOP;"""
    before = {"store": "add.u32 %r2, %r2, 4096; " + LINES["store"], "barrier": copy}
    source, _ = text(before, encode(384, 16, 256, B32, "wgmma"))
    found = [h for h in run(source, "late", 0) if "of A is wrong" in h.message]
    assert found == []
