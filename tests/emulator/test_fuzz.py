"""Damaged PTX: a result or an error that names the line; never a traceback, never a hang.

Mutations of valid kernels, seeded, so that a failure can be run again:

    pytest tests/emulator/test_fuzz.py                        # a few seconds
    PHASEBIT_FUZZ_SECONDS=600 PHASEBIT_FUZZ_SEED=7 pytest -s tests/emulator/test_fuzz.py
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.errors import EmulatorError, PtxError
from phasebit.launching.launch import Module

SECONDS = float(os.environ.get("PHASEBIT_FUZZ_SECONDS", "4"))
SEED = int(os.environ.get("PHASEBIT_FUZZ_SEED", "1"))
PATIENCE = 20  # seconds for one mutant, of which a step limit leaves it a fraction

HEAD = """.version 9.0
.target sm_90a
.address_size 64
"""
DECLARE = """
    .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<30>; .reg .b64 %rd<9>;
    .reg .f32 %f<30>; .reg .f64 %d<9>;
    ld.param.u64 %rd1, [k_out]; ld.param.u32 %r1, [k_n]; cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r2, %tid.x; mul.wide.u32 %rd3, %r2, 4; add.s64 %rd3, %rd2, %rd3;
"""

KERNELS = {
    "arithmetic": """
    ld.global.f32 %f1, [%rd3]; cvt.rn.f32.u32 %f2, %r2; fma.rn.f32 %f3, %f1, %f2, 0f3F800000;
    cvt.f64.f32 %d1, %f3; div.rn.f64 %d2, %d1, 0d4008000000000000; cvt.rn.f32.f64 %f4, %d2;
    cvt.rn.f16.f32 %h1, %f4; add.rn.f16 %h2, %h1, %h1; cvt.f32.f16 %f5, %h2;
    mov.b32 %r3, %f5; bfe.u32 %r4, %r3, 4, 9; prmt.b32 %r5, %r3, %r4, 0x7531; popc.b32 %r6, %r5;
    lop3.b32 %r7, %r4, %r5, %r6, 0x96; shf.l.wrap.b32 %r8, %r7, %r6, 5; mad.lo.s32 %r9, %r8, 3, %r1;
    add.cc.u32 %r10, %r9, %r8; addc.u32 %r11, %r9, 0; dp4a.u32.s32 %r12, %r10, %r11, %r9;
    setp.lt.s32 %p1, %r12, %r1; selp.b32 %r13, %r12, -7, %p1; @!%p1 st.global.u32 [%rd3], %r13;
""",
    "memory": """
    setp.ge.u32 %p1, %r2, %r1; @%p1 bra DONE;
    shl.b32 %r3, %r2, 2; mov.u32 %r4, box; add.s32 %r4, %r4, %r3; st.shared.u32 [%r4], %r2;
    bar.sync 0; xor.b32 %r5, %r3, 4; mov.u32 %r6, box; add.s32 %r6, %r6, %r5;
    ld.shared.u32 %r7, [%r6]; atom.shared.add.u32 %r8, [box+256], %r7; membar.cta;
    ld.const.u32 %r9, [table+4]; add.u32 %r7, %r7, %r9; cvta.shared.u64 %rd4, box;
    ld.v2.u32 {%r10, %r11}, [%rd4+8]; st.local.u32 [stack+4], %r10; ld.local.u32 %r12, [stack+4];
    red.global.add.u32 [counter], 1; st.global.u32 [%rd3], %r7;
DONE:
""",
    "flow": """
    mov.u32 %r3, 0; and.b32 %r4, %r2, 3;
LOOP: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r4; @%p1 bra LOOP;
    TABLE: .branchtargets A, B, C, A;
    brx.idx %r4, TABLE;
A:  add.u32 %r3, %r3, 100; bra.uni END;
B:  { .reg .b32 t; .param .b32 in; .param .b32 back; st.param.b32 [in], %r3;
      call (back), twice, (in); ld.param.b32 t, [back]; mov.u32 %r3, t; } bra END;
C:  { .reg .pred q; AGAIN: setp.ne.u32 q, %r3, %r3; @q bra AGAIN; }
END: st.global.u32 [%rd3], %r3;
""",
    "warps": """
    shfl.sync.bfly.b32 %r3|%p1, %r2, 1, 31, -1; vote.sync.ballot.b32 %r4, %p1, -1;
    match.any.sync.b32 %r5, %r2, -1; redux.sync.add.u32 %r6, %r2, -1; activemask.b32 %r7;
    elect.sync %r8|%p2, -1; bar.warp.sync -1; mov.u32 %r9, %lanemask_lt; mov.u64 %rd5, %clock64;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4},
        {%r3, %r4, %r5, %r6}, {%r7, %r9}, {%f5, %f6, %f7, %f8};
    mov.u32 %r10, box; ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r11, %r12}, [%r10];
    add.u32 %r3, %r3, %r6; st.global.f32 [%rd3], %f1; st.global.u32 [%rd3], %r3;
""",
    "asynchrony": """
    mov.u32 %r3, bar; setp.ne.u32 %p1, %r2, 0; @%p1 bra READY;
    mbarrier.init.shared.b64 [%r3], 32;
READY: bar.sync 0; shl.b32 %r4, %r2, 2; mov.u32 %r5, box; add.u32 %r5, %r5, %r4;
    cp.async.ca.shared.global [%r5], [%rd3], 4; cp.async.commit_group; cp.async.wait_group 0;
    mbarrier.arrive.shared.b64 %rd4, [%r3];
WAIT: mbarrier.try_wait.shared.b64 %p2, [%r3], %rd4; @!%p2 bra WAIT;
    xor.b32 %r4, %r4, 8; mov.u32 %r5, box; add.u32 %r5, %r5, %r4; ld.shared.u32 %r6, [%r5];
    st.global.u32 [%rd3], %r6;
""",
}


def program(name: str) -> str:
    return f"""{HEAD}.global .u32 counter = 3;
.const .align 4 .u32 table[2] = {{5, 6}};
.func (.param .b32 result) twice(.param .b32 x)
{{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [x]; add.u32 %r1, %r1, %r1; st.param.b32 [result], %r1; ret;
}}
.visible .entry k(.param .u64 k_out, .param .u32 k_n) .maxntid 64
{{
    .shared .align 16 .b8 box[1024]; .shared .align 8 .b64 bar; .local .align 8 .b8 stack[16];
{DECLARE}{KERNELS[name]}
    ret;
}}
"""


TOKEN = re.compile(r"0[fFdD][0-9a-fA-F]+|[\w$%]+|\.[\w:]+|\s+|.", re.DOTALL)
NUMBERS = ["0", "1", "-1", "3", "32", "33", "1024", "65536", "2147483648", "0xffffffff",
           "0xffffffffffffffff", "99999999999999999999", "0f7F800000", "0dFFF8000000000000",
           "1e999", "08", "1.5"]  # fmt: skip
TYPES = [".b8", ".u8", ".b16", ".f16", ".bf16", ".b32", ".u32", ".s32", ".f32", ".tf32", ".b64",
         ".u64", ".s64", ".f64", ".b128", ".pred", ".f16x2", ".e4m3x2", ".v2", ".v4"]  # fmt: skip
WORDS = [".sync", ".aligned", ".wide", ".lo", ".hi", ".rn", ".rz", ".sat", ".ftz", ".shared",
         ".global", ".local", ".param", ".const", ".acquire", ".cta", ".x4", ".trans", ".reg",
         ".entry", ".func", "ret", "bra", "call", "bar", "ld", "st", "mov", "cvt", "mma", "@", "!",
         "{", "}", "[", "]", "(", ")", ";", ",", "|", "<", ">", "%tid.x", "%p1", "%r1", "%rd1",
         "%f1", "%d1", "%h1", "box", "bar", "k", "twice", "DONE", "_", '"', "/*", "\0",
         "é"]  # fmt: skip


def mutant(dice: random.Random, text: str) -> str:
    """The text with one to four changes; now and then bytes that never were PTX."""
    if dice.random() < 0.02:
        return dice.choice([HEAD, ""]) + dice.randbytes(dice.randrange(300)).decode("latin-1")
    words = TOKEN.findall(text)
    for _ in range(dice.choice((1, 1, 1, 2, 2, 4))):
        at = dice.randrange(len(words))
        while words[at].isspace():
            at = dice.randrange(len(words))
        word = words[at]
        same = [w for w in words if w[0] == word[0] and w != word] or [word]
        what = dice.randrange(10)
        if what == 0:
            words[at] = ""
        elif what == 1:
            words[at] = word + " " + word
        elif what == 2:
            other = dice.randrange(len(words))
            words[at], words[other] = words[other], word
        elif what == 3 and dice.random() < 0.3:
            words = words[:at]
        elif what in (4, 5):
            words[at] = dice.choice(same)  # another register, modifier or opcode of this program
        elif word[0].isdigit():
            words[at] = dice.choice(NUMBERS)
        elif word[0] == ".":
            words[at] = dice.choice(TYPES if dice.random() < 0.7 else WORDS)
        elif word[0] == "%":
            words[at] = dice.choice([w for w in WORDS if w[0] == "%"] + NUMBERS[:4])
        else:
            words[at] = dice.choice(WORDS)
        words = [w for w in words if w] or [" ", "x"]
    return "".join(words)


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """End a test that hangs."""

    def ring(*_: Any) -> None:
        raise AssertionError(f"still running after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run(text: str, schedule: str = "late") -> str:
    """What became of it: ``ran``, or the kind of the error, which must be a sentence."""
    try:
        with patience(PATIENCE), np.errstate(all="ignore"):
            module = Module(text)
            for name in module.kernels:
                out = np.zeros(64, np.uint32)
                module[name].launch(1, 32, [out, 32], max_steps=3000, schedule=schedule)
        return "ran"
    except EmulatorError as error:
        assert str(error).strip(), text
        if isinstance(error, PtxError):
            assert error.line is not None, f"{error}\n{text}"
        return type(error).__name__


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_the_kernels_themselves_run(name: str, schedule: str) -> None:
    assert run(program(name), schedule) == "ran"


def test_mutants_give_a_result_or_a_sentence() -> None:
    seeds = range(SEED * 1_000_000, (SEED + 1) * 1_000_000)
    until = time.monotonic() + SECONDS
    seen: dict[str, int] = {}
    for seed in seeds:
        if time.monotonic() > until:
            break
        dice = random.Random(seed)
        text = mutant(dice, program(dice.choice(list(KERNELS))))
        try:
            kind = run(text, dice.choice(("eager", "late", "random")))
        except Exception as error:
            error.add_note(f"mutant {seed}:\n{text}")
            raise
        seen[kind] = seen.get(kind, 0) + 1
    print(seen)
    assert {"ran", "PtxError"} <= set(seen), "the mutants were all of one kind"


@pytest.mark.parametrize("name", KERNELS)
def test_every_truncation_is_a_sentence(name: str) -> None:
    text = program(name)
    for end in range(0, len(text) - 4, 97):
        assert run(text[:end]) in ("PtxError", "LaunchError", "ran")
