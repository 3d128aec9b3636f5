"""Calls, jumps through tables and the end of a thread, in PTX by hand (PTX ISA 9.7.12)."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator.errors import Fault, Trap
from phasebit.launching.launch import Module

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
KERNEL = """
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2; mov.u32 %r9, 0;
    BODY
    st.global.u32 [%rd1], %r9;
    ret;
}
"""


def run(body: str, functions: str = "", threads: int = 64) -> list[int]:
    out = np.zeros(threads, np.uint32)
    module = Module(HEAD + functions + KERNEL.replace("BODY", body))
    assert not module["k"].launch(1, threads, [out]).findings
    return out.tolist()


SPREAD = """
.func (.param .b32 sum, .param .align 4 .b8 both[6]) spread
    (.param .b8 a, .param .b16 b, .param .b32 c, .param .b64 d, .param .align 1 .b8 e[5])
{
    .reg .b16 %h<5>; .reg .b32 %r<9>; .reg .b64 %rd<3>;
    ld.param.u8 %r1, [a]; ld.param.u16 %r2, [b]; ld.param.u32 %r3, [c]; ld.param.u64 %rd1, [d];
    ld.param.u8 %r4, [e+4]; cvt.u32.u64 %r5, %rd1; shr.u64 %rd2, %rd1, 32; cvt.u32.u64 %r6, %rd2;
    add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; add.u32 %r1, %r1, %r4; add.u32 %r1, %r1, %r5;
    add.u32 %r1, %r1, %r6; st.param.u32 [sum], %r1;
    st.param.u32 [both], 1000; st.param.u8 [both+5], %r4;
    ret;
}
"""
TAKE = """
    { .param .b8 p0; .param .b16 p1; .param .b32 p2; .param .b64 p3; .param .align 1 .b8 p4[5];
      .param .b32 q0; .param .align 4 .b8 q1[6];
      st.param.u8 [p0], 1; st.param.u16 [p1], 300; st.param.u32 [p2], %r1;
      mov.b64 %rd3, {%r1, %r1}; st.param.u64 [p3], %rd3; st.param.u8 [p4+4], %r1;
      call.uni (q0, q1), spread, (p0, p1, p2, p3, p4);
      ld.param.u32 %r9, [q0]; ld.param.u32 %r8, [q1]; add.u32 %r9, %r9, %r8;
      ld.param.u8 %r8, [q1+5]; add.u32 %r9, %r9, %r8; }
"""


def test_arguments_and_results_of_every_width() -> None:
    assert run(TAKE, SPREAD) == [1301 + 5 * tid for tid in range(64)]


@pytest.mark.parametrize("given", ["(q0, q1), spread, (p0, p1, p2, p3)", "spread, (p0, p1)",
                                   "(q0), spread, (p0, p1, p2, p3, p4)"])  # fmt: skip
def test_a_call_has_the_arguments_and_results_of_its_function(given: str) -> None:
    with pytest.raises(Fault, match=r"spread takes 5 arguments and gives 2 results, and a call of "
                                    r"it has \d and \d: PTX line \d+"):  # fmt: skip
        run(TAKE.replace("(q0, q1), spread, (p0, p1, p2, p3, p4)", given), SPREAD)


def adds(name: str, number: int) -> str:
    return (f".func (.param .b32 back) {name} (.param .b32 x) {{ .reg .b32 %r<3>;\n"
            f"ld.param.u32 %r1, [x]; add.u32 %r1, %r1, {number}; st.param.u32 [back], %r1; ret; "
            "}\n")  # fmt: skip


ONE, TWO, THREE = adds("one", 100), adds("two", 200), adds("three", 300)
CALL = "{{ .param .b32 x; .param .b32 y; st.param.u32 [x], {1}; call (y), {0}, (x){2}; "
CALL += "ld.param.u32 {1}, [y]; }}"
PROTOTYPE = "P: .callprototype (.param .b32 _) _ (.param .b32 _);"


def test_a_function_calls_another() -> None:
    both = (ONE + ".func (.param .b32 back) both (.param .b32 x) { .reg .b32 %r<3>;\n"
            f"ld.param.u32 %r1, [x]; {CALL.format('one', '%r1', '')} "
            f"{CALL.format('one', '%r1', '')} st.param.u32 [back], %r1; ret; }}\n")  # fmt: skip
    body = f"mov.u32 %r9, %r1; {CALL.format('both', '%r9', '')} {CALL.format('one', '%r9', '')}"
    assert run(body, both) == [tid + 300 for tid in range(64)]


def test_only_some_threads_call() -> None:
    body = "mov.u32 %r9, %r1; setp.gt.u32 %p1, %r1, 40; @%p1 bra DONE; {call} DONE:"
    body = body.format(call=CALL.format("one", "%r9", ""))
    assert run(body, ONE) == [tid + 100 * (tid <= 40) for tid in range(64)]


@pytest.mark.parametrize("uniform", [False, True])
def test_each_thread_calls_what_its_pointer_says(uniform: bool) -> None:
    body = f"""{PROTOTYPE}
    mov.u32 %r9, %r1; rem.u32 %r2, %r1, {1 if uniform else 3}; setp.eq.u32 %p1, %r2, 1;
    setp.eq.u32 %p2, %r2, 2;
    mov.u64 %rd3, three; mov.u64 %rd4, one; mov.u64 %rd5, two;
    @%p1 mov.u64 %rd3, %rd4; @%p2 mov.u64 %rd3, %rd5;
    {CALL.format("%rd3", "%r9", ", P")}"""
    got = run(body, ONE + TWO + THREE)
    which = [0] * 64 if uniform else [tid % 3 for tid in range(64)]
    assert got == [tid + {0: 300, 1: 100, 2: 200}[w] for tid, w in enumerate(which)]


@pytest.mark.parametrize("move", ["mov.u64 %rd3, 64", "add.u64 %rd3, %rd3, 48",
                                  "sub.u64 %rd3, %rd3, 32"])  # fmt: skip
def test_a_pointer_to_no_function(move: str) -> None:
    body = f"{PROTOTYPE} mov.u64 %rd3, one; {move}; {CALL.format('%rd3', '%r9', ', P')}"
    with pytest.raises(Fault, match=r"^a call through 0x[0-9a-f]+, which is the address of no fun"):
        run(body, ONE)


TABLE = """T: .branchtargets A, B, C;
    INDEX brx.idx %r2, T;
    A: add.u32 %r9, %r1, 1000; bra DONE;
    B: add.u32 %r9, %r1, 2000; bra DONE;
    C: add.u32 %r9, %r1, 3000; DONE:"""


@pytest.mark.parametrize(("index", "which"), [
    ("rem.u32 %r2, %r1, 3;", lambda tid: tid % 3), ("mov.u32 %r2, 1;", lambda tid: 1),
    ("mov.u32 %r2, 2;", lambda tid: 2), ("shr.u32 %r2, %r1, 5;", lambda tid: tid // 32),
])  # fmt: skip
def test_a_jump_through_a_table(index: str, which: object) -> None:
    got = run(TABLE.replace("INDEX", index))
    assert got == [tid + 1000 * (1 + which(tid)) for tid in range(64)]  # type: ignore[operator]


def test_a_jump_past_the_end_of_its_table() -> None:
    with pytest.raises(Fault, match=r"^brx\.idx with index 3, but its table has 3 labels"):
        run(TABLE.replace("INDEX", "shr.u32 %r2, %r1, 4;"))
    with pytest.raises(Fault, match=r"^brx\.idx with index 63, but its table has 3 labels"):
        run(TABLE.replace("INDEX", "mov.u32 %r2, %r1;"))


def test_a_return_of_some_threads_ends_these() -> None:
    body = "mov.u32 %r9, 5; setp.lt.u32 %p1, %r1, 3; @%p1 {}; setp.eq.u32 %p2, %r1, 7; @!%p2 bra X;"
    body += "mov.u32 %r9, 6; X:"
    for end in ("ret", "exit"):
        assert run(body.format(end)) == [
            0 if tid < 3 else 6 if tid == 7 else 5 for tid in range(64)
        ]  # fmt: skip


def test_a_trap_names_the_first_thread_that_executes_it() -> None:
    with pytest.raises(Trap, match=r"^trap executed by thread 35 of block 0 at PTX line 10"):
        run("setp.lt.u32 %p1, %r1, 35; @%p1 bra X; trap; X:")


def test_a_guarded_result_keeps_the_old_value() -> None:
    body = "setp.lt.u32 %p1, %r1, 9; mov.u32 %r9, 1; @%p1 add.u32 %r9, %r1, 50; "
    body += "@!%p1 add.u32 %r9, %r9, 7; setp.eq.u32 %p2, 0, 0; @%p2 add.u32 %r9, %r9, 100;"
    assert run(body) == [150 + tid if tid < 9 else 108 for tid in range(64)]


NEST = """
.func (.param .b32 back) down (.param .b32 n)
{
    .reg .b32 %r<5>; .reg .pred %p; .local .align 4 .b8 mine[8];
    ld.param.u32 %r1, [n]; mov.u32 %r2, 0; st.local.u32 [mine], %r1;
    setp.eq.u32 %p, %r1, 0; @%p bra OUT;
    sub.u32 %r3, %r1, 1;
    { .param .b32 x; .param .b32 y; st.param.u32 [x], %r3; call (y), down, (x);
      ld.param.u32 %r2, [y]; }
    ld.local.u32 %r1, [mine]; add.u32 %r2, %r2, %r1;
    OUT: st.param.u32 [back], %r2; ret;
}
"""


def test_each_thread_calls_itself_as_often_as_it_wants() -> None:
    """1 + 2 + … + n; each call has memory of its own."""
    body = f"and.b32 %r9, %r1, 7; {CALL.format('down', '%r9', '')}"
    assert run(body, NEST) == [(tid % 8) * (tid % 8 + 1) // 2 for tid in range(64)]


def test_a_breakpoint_names_the_first_thread_that_executes_it() -> None:
    said = (r"^brkpt, a breakpoint, executed by thread 35 of block 0 at brkpt at PTX line 10: no "
            "debugger listens, so it ends the kernel like a trap$")  # fmt: skip
    with pytest.raises(Fault, match=said):
        run("setp.lt.u32 %p1, %r1, 35; @%p1 bra X; brkpt; X:")
