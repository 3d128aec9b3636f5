"""Lanes that look at each other, against the PTX ISA's pseudocode: 9.7.9.6, 9.7.13.9 to 9.7.13.14.

Two blocks of 80 threads: the third warp of each has but 16. Each thread gives a word, a number, and
a member mask: its warp's, or of each half of a warp its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phasebit.launching.launch import Module

KERNEL = """.version 9.0\n.target sm_100a\n.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
    .reg .pred %p<5>; .reg .b32 %r<16>; .reg .f32 %f<4>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r2, %r2, 80, %r1;
    mul.wide.u32 %rd3, %r2, 16; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
    ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd1]; mov.b32 %f1, %r4; mov.u32 %r8, 0; mov.u32 %r9, 0;
    and.b32 %r10, %r4, 1; setp.ne.u32 %p1, %r10, 0;
    BODY
    st.global.v4.b32 [%rd2], {%r8, %r9, %r8, %r9};
    ret;
}
"""
BLOCK, BLOCKS = 80, 2
LANES = range(BLOCK * BLOCKS)


def run(body: str, words: Any, numbers: Any, masks: Any) -> list[tuple[int, int]]:
    """What each thread leaves in ``%r8`` and ``%r9``."""
    given = np.zeros((len(LANES), 4), np.uint32)
    given[:, 0], given[:, 1], given[:, 2] = words, numbers, masks
    out = np.zeros_like(given)
    module = Module(KERNEL.replace("BODY", body))
    assert not module["k"].launch(BLOCKS, BLOCK, [given, out]).findings
    return [(int(a), int(b)) for a, b in out[:, :2]]


def lane(thread: int) -> int:
    return thread % BLOCK % 32


def warp(thread: int) -> list[int]:
    """The threads of its warp, by lane."""
    first = thread - lane(thread)
    return [*range(first, min(first + 32, thread - thread % BLOCK + BLOCK))]


WHOLE = np.array([(1 << len(warp(t))) - 1 for t in LANES], np.uint32)
HALF = np.array([0xFFFF0000 if lane(t) >= 16 else 0xFFFF for t in LANES], np.uint32)
ALONE = np.array([WHOLE[t] & np.uint32(0xFFFFFFFE) if lane(t) else 1 for t in LANES], np.uint32)
EVERY = np.full(len(LANES), 0xFFFFFFFF, np.uint32)
MASKS = {"whole": WHOLE, "half": HALF, "first alone": ALONE, "also who is not there": EVERY}
RNG = np.random.default_rng(12)
WORDS = RNG.integers(0, 1 << 32, len(LANES), np.uint32)


def members(thread: int, mask: np.ndarray) -> list[int]:
    return [t for t in warp(thread) if int(mask[thread]) >> lane(t) & 1]


CLAMPS = {"up": (0, 0x1800, 0x1000), "down": (0x1F, 0x181F, 0x101F, 0x0A),
          "bfly": (0x1F, 0x181F, 0x101F), "idx": (0x1F, 0x181F, 0x101F, 0x07)}  # fmt: skip


@pytest.mark.parametrize(("mode", "c"), [(m, c) for m, cs in CLAMPS.items() for c in cs])
def test_9_7_9_6_the_word_of_another_lane(mode: str, c: int) -> None:
    numbers = RNG.integers(0, 64, len(LANES))
    wanted = []
    for t in LANES:
        me, b = lane(t), int(numbers[t]) & 31
        width, clamp = c >> 8 & 31, c & 31
        most, least = me & width | clamp & ~width, me & width
        other = {"up": me - b, "down": me + b, "bfly": me ^ b, "idx": least | b & ~width}[mode]
        there = other >= most if mode == "up" else other <= most
        other = other if there else me
        if other >= len(warp(t)):  # a lane that is not there
            numbers[t], other, there = 0, {"idx": least}.get(mode, me), True
            there = me >= most if mode == "up" else other <= most
            other = other if there else me
        wanted.append((int(WORDS[warp(t)[other]]), int(there)))
    body = f"shfl.sync.{mode}.b32 %r8|%p2, %r4, %r5, {c:#x}, %r6; selp.u32 %r9, 1, 0, %p2;"
    assert run(body, WORDS, numbers, WHOLE) == wanted


VOTES: dict[str, Callable[[list[bool]], bool]] = {
    "all": all, "any": any, "uni": lambda votes: len(set(votes)) == 1,
}  # fmt: skip
PATTERNS = {
    "random": WORDS, "none": np.zeros_like(WORDS), "all": WORDS | np.uint32(1),
    "one": np.array([lane(t) == 5 for t in LANES], np.uint32),
    "but one": np.array([lane(t) != 21 for t in LANES], np.uint32),
}  # fmt: skip


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_9_7_13_9_votes(pattern: str, mask: str) -> None:
    words, masks = PATTERNS[pattern], MASKS[mask]
    votes = [[bool(words[o] & 1) for o in members(t, masks)] for t in LANES]
    for word, holds in VOTES.items():
        body = f"vote.sync.{word}.pred %p2, %p1, %r6; selp.u32 %r8, 1, 0, %p2;"
        got = [a for a, _ in run(body, words, 0, masks)]
        assert got == [int(holds(each)) for each in votes], word
    got = [a for a, _ in run("vote.sync.ballot.b32 %r8, %p1, %r6;", words, 0, masks)]
    assert got == [sum(1 << lane(o) for o in members(t, masks) if words[o] & 1) for t in LANES]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("kind", ["b32", "b64"])
def test_9_7_13_10_who_has_the_same(kind: str, mask: str) -> None:
    words = RNG.integers(0, 3, len(LANES))
    words[:16] = 2
    masks = MASKS[mask]
    source = "%r4" if kind == "b32" else "%rd4"
    wide = "" if kind == "b32" else "mov.b64 %rd4, {%r7, %r4};"
    got = run(f"{wide} match.any.sync.{kind} %r8, {source}, %r6;", words, 0, masks)
    assert [a for a, _ in got] == [
        sum(1 << lane(o) for o in members(t, masks) if words[o] == words[t]) for t in LANES
    ]
    got = run(f"{wide} match.all.sync.{kind} %r8|%p2, {source}, %r6; selp.u32 %r9, 1, 0, %p2;",
              words, 0, masks)  # fmt: skip
    same = [len({int(words[o]) for o in members(t, masks)}) == 1 for t in LANES]
    assert any(same) == (mask in ("half", "first alone"))
    assert got == [(int(masks[t]) * s, int(s)) for t, s in zip(LANES, same, strict=True)]
    got = run(f"match.all.sync.{kind} %r8|%p2, {source}, %r6; selp.u32 %r9, 1, 0, %p2;"
              .replace("match", f"{wide} match", 1), np.full(len(LANES), 7), 0, masks)  # fmt: skip
    assert got == [(int(m), 1) for m in masks]


def signed(x: int) -> int:
    return x - (1 << 32) if x >> 31 else x


REDUX: dict[str, Callable[[list[int]], int]] = {
    "add.u32": sum,
    "add.s32": lambda x: sum(map(signed, x)),
    "min.u32": min,
    "max.u32": max,
    "min.s32": lambda x: min(map(signed, x)),
    "max.s32": lambda x: max(map(signed, x)),
    "and.b32": lambda x: int(np.bitwise_and.reduce(np.uint32(x))),
    "or.b32": lambda x: int(np.bitwise_or.reduce(np.uint32(x))),
    "xor.b32": lambda x: int(np.bitwise_xor.reduce(np.uint32(x))),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("op", REDUX)
def test_9_7_13_12_one_number_of_all_members(op: str, mask: str) -> None:
    words = WORDS.copy()
    if op.startswith(("and", "or")):
        words |= np.uint32(0xFF)
        words &= np.uint32(0xFFFF00FF)
    got = [a for a, _ in run(f"redux.sync.{op} %r8, %r4, %r6;", words, 0, MASKS[mask])]
    assert got == [
        REDUX[op]([int(words[o]) for o in members(t, MASKS[mask])]) & 0xFFFFFFFF for t in LANES
    ]


@pytest.mark.parametrize("word", ["min", "max", "min.abs", "max.abs", "min.NaN", "max.abs.NaN"])
def test_9_7_13_12_the_least_or_greatest_float(word: str) -> None:
    """A NaN loses, unless .NaN lets it win; the first warp has some, the second nothing else."""
    numbers = RNG.normal(0, 9, len(LANES)).astype(np.float32)
    numbers[[3, 9]] = np.nan
    numbers[32:64] = np.nan
    got = [a for a, _ in run(f"redux.sync.{word}.f32 %f2, %f1, %r6; mov.b32 %r8, %f2;",
                             numbers.view(np.uint32), 0, WHOLE)]  # fmt: skip
    for t in LANES:
        some = [abs(float(numbers[o])) if "abs" in word else float(numbers[o]) for o in warp(t)]
        there = [x for x in some if not math.isnan(x)]
        if not there or ("NaN" in word and len(there) < len(some)):
            assert got[t] == 0x7FFFFFFF
        else:
            best = min(there) if word.startswith("min") else max(there)
            assert np.uint32(got[t]).view(np.float32) == np.float32(best)


@pytest.mark.parametrize("mask", [*MASKS, "some"])
def test_9_7_13_14_one_leader(mask: str) -> None:
    """The same for all members of a mask, and one of them; here the lowest lane."""
    masks = MASKS.get(mask, np.full(len(LANES), 0xFFE8, np.uint32))
    body = "elect.sync %r8|%p2, %r6; selp.u32 %r9, 1, 0, %p2;"
    if mask == "some":
        body = "shr.u32 %r11, %r6, 0; mov.u32 %r12, %laneid; shr.u32 %r11, %r11, %r12; "
        body += "and.b32 %r11, %r11, 1; setp.eq.u32 %p3, %r11, 0; @%p3 bra X; "
        body += "elect.sync %r8|%p2, %r6; selp.u32 %r9, 1, 0, %p2; X:"
    got = run(body, WORDS, 0, masks)
    for t in LANES:
        if int(masks[t]) >> lane(t) & 1:
            first = min(lane(o) for o in members(t, masks))
            assert got[t] == (first, int(lane(t) == first)), t
        else:
            assert got[t] == (0, 0)


def test_9_7_13_11_lanes_that_execute_together() -> None:
    got = run("setp.lt.u32 %p2, %r1, 40; @!%p2 bra X; activemask.b32 %r8; X:", WORDS, 0, WHOLE)
    for t in LANES:
        together = [o for o in warp(t) if o % BLOCK < 40]
        mask = sum(1 << lane(o) for o in together)
        assert got[t][0] == (mask if t % BLOCK < 40 else 0)
