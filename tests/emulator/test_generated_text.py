"""The Python that PTX becomes, line by line: each case is what its module's text promises.

Registers are read once and named anew with each result; bits are looked at through ``view``, cut or
extended by ``astype``. Accesses of one base share an index array, which is checked once for all:
from which offset on, how many bytes, by which alignment.
"""

from __future__ import annotations

import re

import pytest

from phasebit.launching.launch import Module

KERNEL = """.version 9.0\n.target sm_90a\n.address_size 64
.global .align 4 .b32 data[4];
.func (.param .b32 back) f (.param .b32 x) { ret; }
.func again () { .local .align 8 .b8 mine[8]; .reg .b32 %r<3>; .reg .b64 %rd<3>; AGAIN ret; }
.visible .entry k(.param .u64 out, .param .u32 n) {
.reg .pred %p<4>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .b128 %q<3>;
.reg .f32 %f<9>; .reg .f64 %fd<3>; .shared .align 16 .b8 box[64]; .local .align 8 .b8 own[16];
    BODY
    ret;
}
"""


def blocks(body: str, again: str = "", **options: bool) -> list[list[str]]:
    """The lines of each block's function, without comments, and without what begins all."""
    text = KERNEL.replace("BODY", body).replace("AGAIN", again)
    source = Module(text)["k"].program(**options).source
    found = []
    for function in re.split(r"^def block_\d+\(g\):.*\n", source, flags=re.MULTILINE)[1:]:
        lines = [line.partition("  # ")[0].strip() for line in function.splitlines()]
        found.append([line for line in lines if line and line != "R = g.registers"])
    return found


ENDS = "return leave(g)"
CASES = {
    "parameters": ("ld.param.v2.u32 {%r1, %r2}, [out]; ld.param.u32 %r3, [n]; "
                   "ld.param.u32 %r4, [out+4]; ld.param.u64 %rd1, [out];", """
        P_u4 = g.parameters.u4
        P_u8 = g.parameters.u8
        r1 = P_u4[0]
        r2 = P_u4[1]
        r3 = P_u4[2]
        r4 = P_u4[1]
        rd1 = P_u8[0]
        g.at = 0"""),
    "another name": ("mov.u32 %r2, %r1; add.u32 %r3, %r2, %r1; mov.u32 %r4, 5; "
                     "add.u32 %r5, %r4, %r3;", """
        v1 = R[1]
        r3 = add(v1, v1)
        r5 = add(k5_u4, r3)
        g.at = 0"""),
    "packed": ("mov.b64 %rd1, {%r1, %r2}; mov.b64 {%r3, %r4}, %rd1; mov.b64 {_, %r5}, %rd1; "
               "mov.b32 %r6, {%h1, %h2}; mov.b32 {%h3, %h4}, %r6;", """
        v1 = R[1]
        v2 = R[2]
        v7 = R[7]
        v8 = R[8]
        t_1 = v1.astype(u8) | (v2.astype(u8) << k32_u8)
        t_2 = t_1.astype(u4)
        t_3 = (t_1 >> k32_u8).astype(u4)
        t_4 = (t_1 >> k32_u8).astype(u4)
        t_5 = v7.astype(u4) | (v8.astype(u4) << k16_u4)
        t_6 = t_5.astype(u2)
        t_7 = (t_5 >> k16_u4).astype(u2)
        g.at = 0"""),
    "four in one": ("mov.b64 %rd1, {%h1, %h2, %h3, %h4}; mov.b64 {%h5, _, %h6, %h7}, %rd1;", """
        v1 = R[1]
        v2 = R[2]
        v3 = R[3]
        v4 = R[4]
        t_1 = v1.astype(u8) | (v2.astype(u8) << k16_u8) | (v3.astype(u8) << k32_u8) | (v4.astype(u8)
          << k48_u8)
        t_2 = t_1.astype(u2)
        t_3 = (t_1 >> k32_u8).astype(u2)
        t_4 = (t_1 >> k48_u8).astype(u2)
        g.at = 0"""),
    "128 bits": ("mov.b128 %q1, {%rd1, %rd2}; mov.b128 {%rd3, %rd4}, %q1;", """
        v1 = R[1]
        v2 = R[2]
        t_1 = wide(v1, v2)
        t_2 = half_of(t_1, 0)
        t_3 = half_of(t_1, 1)
        g.at = 0"""),
    "guarded": ("@%p1 add.u32 %r1, %r2, 3; @!%p1 mov.u32 %r1, %r2;", """
        v2 = R[2]
        v1 = R[1]
        v0 = R[0]
        r1 = add(v2, k3_u4)
        t_1 = select(v0, r1, v1)
        t_2 = select(v0, t_1, v2)
        g.at = 0"""),
    "seen otherwise": ("cvt.u64.u32 %rd1, %r1; cvt.u16.u32 %h1, %r1; add.u16 %h2, %h1, %r2; "
                       "add.s32 %r1, %r1, %r2; mul.wide.s32 %rd2, %r1, %r2; add.f32 %f1, %r1, %r2; "
                       "add.u32 %r7, %h1, 1; add.f64 %fd1, %r2, %rd1;", """
        v1 = R[1]
        v4 = R[4]
        rd1 = cvt_integer_u64_u32(v1)
        h1 = cvt_integer_u16_u32(v1)
        v4_u2 = v4.astype(u2)
        h2 = add(h1, v4_u2)
        v1_i4 = v1.view(i4)
        v4_i4 = v4.view(i4)
        r1 = add(v1_i4, v4_i4)
        rd2 = mul_wide_s32(r1, v4_i4)
        r1_f4 = r1.view(f4)
        v4_f4 = v4.view(f4)
        f1 = add_3_(r1_f4, v4_f4)
        h1_u4 = h1.astype(u4)
        r7 = add(h1_u4, k1_u4)
        v4_f8 = v4.astype(u8).view(f8)
        rd1_f8 = rd1.view(f8)
        fd1 = add_3_(v4_f8, rd1_f8)
        g.at = 0"""),
    "narrow and wide": ("add.s32 %r1, %rd1, %r2; add.s64 %rd2, %r2, %rd1; selp.b32 %r3, %r2, %r1, "
                        "%r1; add.u32 %r4, %p1, 1; mov.b32 %r5, %p2; and.pred %p3, %p1, %r5;", """
        v1 = R[1]
        v2 = R[2]
        v6 = R[6]
        v8 = R[8]
        v1_i4 = v1.astype(u4).view(i4)
        v2_i4 = v2.view(i4)
        r1 = add(v1_i4, v2_i4)
        v2_i8 = v2.astype(u8).view(i8)
        v1_i8 = v1.view(i8)
        rd2 = add(v2_i8, v1_i8)
        r1_u4 = r1.view(u4)
        r1_b1 = (r1 != 0)
        r3 = selp(v2, r1_u4, r1_b1)
        v6_u4 = v6.astype(u4)
        r4 = add(v6_u4, k1_u4)
        v8_u4 = v8.astype(u4)
        v8_u4_b1 = (v8_u4 != 0)
        p3 = and_(v6, v8_u4_b1)
        g.at = 0"""),
    "two results": ("setp.lt.and.s32 %p1|%p2, %r1, 5, !%p3; selp.b32 %r3, %r1, %r2, %p1;", """
        v2 = R[2]
        v3 = R[3]
        v5 = R[5]
        v2_i4 = v2.view(i4)
        p1, p2 = setp_lt_and_s32_both(v2_i4, k5_i4, ~v3)
        r3 = selp(v2, v5, p1)
        g.at = 0"""),
    "extended": ("ld.global.s8 %r5, [%rd1]; ld.global.u8 %r6, [%rd1+1]; ld.global.b16 %h1, [%rd1];",
                 """
        v1 = R[1]
        M_i1 = g.memory.i1
        M_u1 = g.memory.u1
        M_u2 = g.memory.u2
        i_1 = g.global_index(v1, k0_u8, 2, 0, 1, 0)
        r5 = M_i1[i_1]
        t_2 = r5.astype(i4)
        r6 = M_u1[1:][i_1]
        t_3 = r6.astype(u4)
        i_4 = g.global_index(v1, k0_u8, 2, 1, 2, 1)
        h1 = M_u2[i_4]
        g.at = 2"""),
    "special registers": ("mov.u32 %r1, %tid.x; mov.u16 %h1, %tid.y; add.u32 %r2, %ntid.x, 1;", """
        s_1 = g.special('tid.x')
        s_2 = g.special('tid.y')
        s_2_u2 = s_2.astype(u2)
        s_3 = g.special('ntid.x')
        r2 = add(s_3, k1_u4)
        g.at = 0"""),
    "addresses": ("atom.global.add.u32 %r1, [%rd1+8], %r2; red.shared.add.u32 [box], 1; "
                  "cp.async.ca.shared.global [box+4], [%rd1-4], 16; prefetch.global.L2 [64];", """
        v1 = R[1]
        v2 = R[2]
        g.at = 0
        r1 = add_global_u32(g, (v1 + k8_u8), v2)
        g.at = 1
        add_shared_u32(g, k0_u4, k1_u4)
        g.at = 2
        cp_async_global(g, k4_u4, (v1 + k18446744073709551612_u8), k16_u4)
        g.at = 3
        prefetch_2_global(g, k64_u8)
        g.at = 4"""),
    "one index for all": ("ld.global.u32 %r1, [%rd1+8]; ld.global.u32 %r2, [%rd1-4]; "
                          "st.global.u32 [%rd1], %r1; ld.shared.u32 %r3, [box+8]; "
                          "ld.shared.u32 %r4, [box+4];", """
        v1 = R[1]
        M_u4 = g.memory.u4
        i_1 = g.global_index(v1, k18446744073709551612_u8, 16, 2, 4, 0)
        r1 = M_u4[3:][i_1]
        r2 = M_u4[i_1]
        store(M_u4[1:], i_1, r1)
        i_2 = g.shared_index(k0_u4, k4_u4, 8, 2, 4, 1)
        r3 = M_u4[1:][i_2]
        r4 = M_u4[i_2]
        g.at = 2"""),
    "where the widest begins": ("ld.global.u32 %r5, [%rd1+4]; ld.global.v4.u32 {%r1, %r2, %r3, %r4}"
                                ", [%rd1+16]; ld.global.v2.u32 {%r6, _}, [%rd1+40];", """
        v1 = R[1]
        M_u4 = g.memory.u4
        i_1 = g.global_index(v1, k0_u8, 48, 2, 16, 0)
        r5 = M_u4[1:][i_1]
        r1 = M_u4[4:][i_1]
        r2 = M_u4[5:][i_1]
        r3 = M_u4[6:][i_1]
        r4 = M_u4[7:][i_1]
        r6 = M_u4[10:][i_1]
        g.at = 1"""),
    "aligned otherwise": ("ld.global.u32 %r1, [%rd1+2]; ld.global.v2.u32 {%r2, %r3}, [%rd1]; "
                          "ld.global.v2.u32 {%r4, %r5}, [%rd1+12];", """
        v1 = R[1]
        M_u4 = g.memory.u4
        i_1 = g.global_index(v1, k2_u8, 4, 2, 4, 0)
        r1 = M_u4[i_1]
        i_2 = g.global_index(v1, k0_u8, 8, 2, 8, 1)
        r2 = M_u4[i_2]
        r3 = M_u4[1:][i_2]
        i_3 = g.global_index(v1, k12_u8, 8, 2, 8, 2)
        r4 = M_u4[i_3]
        r5 = M_u4[1:][i_3]
        g.at = 3"""),
    "a base that changes": ("ld.global.u32 %r1, [%rd1]; add.u64 %rd1, %rd1, 4; "
                            "ld.global.u32 %r2, [%rd1]; ld.u32 %r3, [%rd1]; "
                            "ld.local.u32 %r4, [64];",
                            """
        v1 = R[1]
        M_u4 = g.memory.u4
        i_1 = g.global_index(v1, k0_u8, 4, 2, 4, 0)
        r1 = M_u4[i_1]
        rd1 = add(v1, k4_u8)
        i_2 = g.global_index(rd1, k0_u8, 4, 2, 4, 1)
        r2 = M_u4[i_2]
        i_3 = g.generic_index(rd1, k0_u8, 4, 2, 4, 2)
        r3 = M_u4[i_3]
        i_4 = g.local_index(k64_u8, k0_u8, 4, 2, 4, 3)
        r4 = M_u4[i_4]
        g.at = 4"""),
}  # fmt: skip


def wanted(text: str) -> list[str]:
    return [line.strip() for line in re.sub(r"\n\s+<<", " <<", text).splitlines() if line.strip()]


@pytest.mark.parametrize("what", CASES)
def test_one_block(what: str) -> None:
    body, text = CASES[what]
    assert blocks(body)[0] == [*wanted(text), ENDS]


def test_in_a_cluster_the_address_of_a_shared_variable_begins_with_the_rank() -> None:
    body = "mov.u32 %r7, box; ld.shared.u32 %r1, [box+4]; st.shared.u32 [%r2], %r1; "
    body += "ld.global.u32 %r1, [data]; atom.shared.add.u32 %r2, [box], 1; st.local.u32 [own], %r7;"
    (found, *_) = blocks(body, clustered=True)
    assert [re.sub(r"k(\d{9,})_u8", "DATA", line) for line in found] == wanted("""
        W_u4 = g.own_window().astype(u4)
        M_u4 = g.memory.u4
        v2 = R[2]
        t_1 = (k0_u4 + W_u4)
        g.at = 0
        i_2 = g.shared_index((k0_u4 + W_u4), k4_u4, 4, 2, 4, 0)
        r1 = M_u4[i_2]
        g.at = 1
        i_3 = g.shared_index(v2, k0_u4, 4, 2, 4, 1)
        store(M_u4, i_3, r1)
        g.at = 2
        i_4 = g.global_index(DATA, k0_u8, 4, 2, 4, 2)
        r1_5 = M_u4[i_4]
        g.at = 3
        r2 = add_shared_u32(g, (k0_u4 + W_u4), k1_u4)
        g.at = 4
        i_6 = g.local_index(k0_u8, k0_u8, 4, 2, 4, 4)
        store(M_u4, i_6, t_1)
        g.at = 5
        return leave(g)""")  # fmt: skip


def test_a_frame_that_moves_is_relative_to_the_group_s_base() -> None:
    again = "st.local.u32 [mine+4], %r1; mov.u64 %rd1, mine; call again, ();"
    found = blocks("call again, ();", again)
    assert found[2] == wanted("""
        B_u8 = u8.type(g.base)
        v0 = R[0]
        M_u4 = g.memory.u4
        i_1 = g.local_index((k16_u8 + B_u8), k4_u8, 4, 2, 4, 2)
        store(M_u4, i_1, v0)
        t_2 = (k16_u8 + B_u8)
        g.at = 3
        return call(g, 'again', [], [], 3)""")


def test_what_is_fast_where_bits_need_not_be_exact() -> None:
    body = "add.f32 %f1, %f2, %f3; mul.rz.f32 %f1, %f1, %f2; add.ftz.f32 %f1, %f2, %f3; "
    body += "add.rn.f32 %f4, %f2, %f3; add.f64 %fd1, %fd1, %fd2;"
    for exact in (True, False):
        program = Module(KERNEL.replace("BODY", body).replace("AGAIN", ""))["k"].program(
            False, exact)  # fmt: skip
        calls = re.findall(r"= (\w+)\(", program.source.partition("def block_1")[0])
        fast = [program.names[name].__name__ == "_fast_add" if hasattr(
            program.names[name], "__name__") else False for name in calls]  # fmt: skip
        assert fast == [not exact, False, False, not exact, False]


def test_where_somebody_watches_accesses_of_a_segment_are_told_at_once() -> None:
    body = "ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd1+4]; st.global.u32 [%rd1], %r1; "
    body += "ld.volatile.global.u32 %r3, [%rd1]; bar.sync 0; ld.shared.u32 %r1, [box]; "
    body += "ld.local.u32 %r2, [own]; st.shared.u32 [box], %r3; st.shared.u32 [box+4], %r3;"
    first, second, *_ = blocks(body, check=True)
    assert [re.sub(r"A(_\d+_)?\)", "A)", line) for line in first] == wanted("""
        v1 = R[1]
        M_u4 = g.memory.u4
        i_1 = g.global_index(v1, k0_u8, 8, 2, 4, 0)
        g.watch_load(i_1, A)
        r1 = M_u4[i_1]
        r2 = M_u4[1:][i_1]
        meet_2 = g.watch_store(i_1, A)
        store(M_u4, i_1, r1)
        if meet_2: g.verify_store(M_u4, i_1, r1, 3)
        g.watch_load(i_1, A)
        g.poll()
        r3 = M_u4[i_1]
        R[3] = r3
        g.resume = 1
        g.at = 5
        return bar_sync(g, None, k0_u4)""")
    assert [re.sub(r"A(_\d+_)?\)", "A)", line) for line in second] == wanted("""
        M_u4 = g.memory.u4
        v3 = R[3]
        i_1 = g.shared_index(k0_u4, k0_u4, 8, 2, 4, 6)
        g.watch_load(i_1, A)
        r1 = M_u4[i_1]
        i_2 = g.local_index(k0_u8, k0_u8, 4, 2, 4, 8)
        r2 = M_u4[i_2]
        meet_3 = g.watch_store(i_1, A)
        store(M_u4, i_1, v3)
        if meet_3: g.verify_store(M_u4, i_1, v3, 10)
        store(M_u4[1:], i_1, v3)
        if meet_3: g.verify_store(M_u4[1:], i_1, v3, 11)
        g.at = 12
        return leave(g)""")


def test_how_blocks_end() -> None:
    body = "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), f, (a); "
    body += "ld.param.b32 %r2, [b]; } @%p1 bra L; mov.u32 %r1, 1; L: st.local.u32 [own], %r1; "
    body += "T: .branchtargets L, M; brx.idx %r2, T; M: @!%p2 st.local.u32 [own], 0; trap;"
    found = blocks(body)
    assert [lines[-1] for lines in found] == [
        "return call(g, 'f', [(16, 4)], [(24, 4)], 1)", "return branch(g, v2, 3, 2)",
        "return 3", "return branch_index(g, v1, (3, 4))", "return branch(g, v3, 6, 5)",
        "return 6", "return trap(g, place)", ENDS, "return ret(g)",
    ]  # fmt: skip
    back = [[line for line in lines if line.startswith("R[")] for lines in found]
    assert back == [[], ["R[1] = r2"], ["R[0] = k1_u4"], [], [], [], [], [], []]


def test_threads_come_together_and_wait() -> None:
    body = "shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1; vote.sync.ballot.b32 %r3, %p1, %r2; "
    body += "mbarrier.try_wait.parity.shared.b64 %p1, [box], %r1;"
    one, two, three, four = blocks(body)
    assert one == wanted("""
        v2 = R[2]
        g.at = 0
        if not together(g, k4294967295_u4): return -1
        r1, p1 = shfl_idx_b32(g, v2, k0_u4, k31_u4, k4294967295_u4)
        R[0] = r1
        R[1] = p1
        return 1""")
    assert two == wanted("""
        v1 = R[1]
        v2 = R[2]
        g.at = 1
        if not together(g, v2): return -1
        r3 = vote_ballot(g, v1, v2)
        return 2""")
    assert three == wanted("""
        v0 = R[0]
        g.resume = 3
        g.at = 2
        return wait_parity_shared_b64(g, dest, k0_u4, v0)""")
    assert four == ["g.at = 3", ENDS]
