"""What programs from elsewhere use, and the book's kernels do not: each once, small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phasebit.emulator import Run
from phasebit.emulator.errors import Deadlock, Fault, PtxError
from phasebit.launching.launch import Module

REGISTERS = (
    ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<19>; .reg .b64 %rd<9>; .reg .f32 %f<9>;"
)


def launch(
    body: str, out: Any, threads: int = 32, parameters: str = "", more: Any = (), shared: int = 0,
    schedule: str = "late", check: bool = True,
) -> Run:  # fmt: skip
    """Run a kernel whose ``%rd1`` is the output array and ``%r1`` the thread's number."""
    kernel = module(body, parameters=parameters)["k"]
    return kernel.launch(
        1, threads, [out, *more], shared=shared, schedule=schedule, check=check
    )


def module(body: str, head: str = "", parameters: str = "") -> Module:
    return Module(f"""{head}
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out{parameters})
{{
    {REGISTERS}
    .shared .align 128 .b8 box[4096];
    ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd1, %rd1; mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2;
    {body}
    ret;
}}
""")


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("add.rn.f32.{} %f3, %h1, %f2;", lambda a, b, c: a + c),
        ("sub.rn.f32.{} %f3, %h1, %f2;", lambda a, b, c: a - c),
        ("fma.rn.f32.{} %f3, %h1, %h2, %f2;", lambda a, b, c: a * b + c),
        ("add.rz.sat.f32.{} %f3, %h1, %f2;", lambda a, b, c: min(max(a + c, 0), 1)),
    ],
)
def test_a_short_operand_in_an_f32_sum(kind: str, text: str, wanted: Any) -> None:
    """Triton writes these for sm_100 (PTX ISA 9.7.5)."""
    bits = {"f16": (0x3E00, 0xC100), "bf16": (0x3FC0, 0xC020)}[kind]  # 1.5 and -2.5
    out = np.zeros(32, np.float32)
    launch(
        f"mov.b16 %h1, {bits[0]}; mov.b16 %h2, {bits[1]}; mov.f32 %f2, 0f40E80000;"
        f"{text.format(kind)} st.global.f32 [%rd2], %f3;",
        out,
    )
    assert (out == wanted(1.5, -2.5, 7.25)).all()


@pytest.mark.parametrize(
    "text",
    [
        "mul.rn.f32.bf16 %f3, %h1, %f2;",
        "add.s32.u32 %r2, %r1, %r1;",
        "ld.global.b32.f32 %f3, [%rd2];",
        "shl.b32.b32.b32 %r2, %r1, %r1;",
    ],
)
def test_a_type_too_many_is_an_error_and_never_ignored(text: str) -> None:
    with pytest.raises(PtxError, match=r"PTX line \d+: the emulator does not know"):
        launch(text, np.zeros(32, np.float32))


def test_scalars_and_vectors_of_one_base_have_alignments_of_their_own() -> None:
    """A word at 4 and a pair at 8 of one base: both are aligned (CUB's scans do this)."""
    out = np.zeros(64, np.uint32)
    run = launch(
        "st.shared.u32 [box+4], 7; st.shared.v2.u32 [box+8], {8, 9}; mov.u32 %r9, box;"
        "ld.shared.u32 %r2, [%r9+4]; ld.shared.v2.u32 {%r3, %r4}, [%r9+8];"
        "add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4; st.global.u32 [%rd2], %r2;",
        out,
        threads=1,
    )
    assert out[0] == 24 and not run.findings


@pytest.mark.parametrize("place", [4, 12])
def test_a_misaligned_vector_beside_an_aligned_one_is_found(place: int) -> None:
    with pytest.raises(Fault, match="misaligned: not a multiple of 8"):
        launch(
            f"mov.u32 %r9, box; st.shared.v2.u32 [%r9], {{8, 9}};"
            f"st.shared.v2.u32 [%r9+{place}], {{8, 9}};",
            np.zeros(1, np.uint32),
            threads=1,
        )


def test_a_parameter_by_a_computed_address() -> None:
    """``s.x[threadIdx.x]`` for a struct passed by value."""
    out = np.zeros(4, np.uint32)
    table = np.arange(5, 9, dtype=np.uint32).tobytes()
    body = "mov.b64 %rd3, table; mul.wide.u32 %rd4, %r1, 4; add.s64 %rd3, %rd3, %rd4;"
    body += "ld.param.u32 %r2, [%rd3{}]; st.global.u32 [%rd2], %r2;"
    table_parameter = ", .param .align 8 .b8 table[16]"
    launch(body.format(""), out, 4, table_parameter, [table])
    assert out.tolist() == [5, 6, 7, 8]
    with pytest.raises(Fault, match="invalid parameter access by thread 3"):
        launch(body.format("+4"), out, 4, table_parameter, [table])
    with pytest.raises(Fault, match="invalid parameter access by thread 0"):
        launch(body.format("+2"), out, 4, table_parameter, [table])


def test_a_breakpoint_ends_the_kernel_where_no_debugger_listens() -> None:
    """An H200 says cudaErrorLaunchFailure."""
    with pytest.raises(Fault, match=r"brkpt, a breakpoint, executed by thread 0 .* like a trap"):
        launch("brkpt;", np.zeros(32, np.uint32))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("red.global.add.v2.f32 [%rd1], {%f1, %f2, %f3};", "red needs 2 registers"),
        ("ld.global.v2.b128 {%q0, %q1}, [%rd1];", "128 bits takes one register"),
        ("mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::f8f6f4.f32.e2m3.e2m3.f32"
         "{%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6,%r7,%r8}, {%f1,%f2,%f3,%f4}, %r9, 0;",
         "does not know 'mma.sp"),
        ("stmatrix.sync.aligned.m16n8.x1.shared.b8 [%r1], {%r2};", "does not know 'stmatri"),
        ("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16"
         "{%f1,%f2,%f3,%f4}, %rd1, %rd2, %r1, 0;",
         "compiled with -arch=sm_80, libraries do without it"),
    ],
)  # fmt: skip
def test_what_is_refused_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        launch(".reg .b128 %q<2>; " + text, np.zeros(32, np.uint32))


@pytest.mark.parametrize("check", [False, True])
def test_128_bits_are_moved_without_a_change(check: bool) -> None:
    """9.7.9.8, 9.7.9.11: ld and st of .b128, through shared memory; NaNs keep their payload."""
    data = np.arange(128, dtype=np.uint32) | np.uint32(0x7FA00000)
    body = (
        ".reg .b128 %q<2>; .shared .align 16 .b8 s[512];"
        "mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 16; add.u64 %rd1, %rd1, %rd2;"
        "mov.u32 %r2, s; cvt.u32.u64 %r3, %rd2; add.u32 %r2, %r2, %r3;"
        "ld.global.b128 %q0, [%rd1]; st.shared.b128 [%r2], %q0; ld.shared.b128 %q1, [%r2];"
        "mov.b128 {%rd3, %rd4}, %q1; mov.b128 %q0, {%rd4, %rd3}; st.global.b128 [%rd1], %q0;"
    )
    wanted = data.reshape(32, 2, 2)[:, ::-1].ravel().copy()
    run = launch(body, data, check=check)
    assert np.array_equal(data, wanted) and not run.findings


def test_a_vector_atomic_must_be_aligned() -> None:
    out = np.zeros(64, np.float32)
    launch("mov.f32 %f1, 0f3F800000; red.global.add.v2.f32 [%rd1+8], {%f1, %f1};", out)
    assert out[2:4].tolist() == [32, 32] and out.sum() == 64
    with pytest.raises(Fault, match="not a multiple of 8"):
        launch("red.global.add.v2.f32 [%rd1+4], {%f1, %f1};", out)


@pytest.mark.parametrize(
    ("kind", "values", "sectors"),
    [
        ("v2.f32", "%f1, %f1", 8),
        ("v4.f32", "%f1, %f1, %f1, %f1", 16),
        ("noftz.v8.f16", "%h1, %h1, %h1, %h1, %h1, %h1, %h1, %h1", 16),
    ],
)
def test_a_vector_atomic_is_one_request(kind: str, values: str, sectors: int) -> None:
    """It is one machine instruction of the warp (REDG.E.ADD.F32x4), so one request to the L1."""
    size = 16 if "v2" not in kind else 8
    launched = launch(
        "mov.f32 %f1, 0f3F800000; cvt.rn.f16.f32 %h1, %f1;"
        f"mul.wide.u32 %rd3, %r1, {size}; add.s64 %rd3, %rd1, %rd3;"
        f"red.global.add.{kind} [%rd3], {{{values}}};",
        np.zeros(128, np.float32),
    )
    counters = launched.counters
    assert counters["smsp__sass_inst_executed_op_global_red.sum"] == 1
    assert counters["l1tex__t_requests_pipe_lsu_mem_global_op_red.sum"] == 1
    assert counters["l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum"] == sectors


RELAY = """
    mov.u32 %r9, box; and.b32 %r2, %r1, 31; shr.u32 %r3, %r1, 5;
    setp.ne.u32 %p1, %r1, 0; @%p1 bra NOINIT; st.shared.u32 [%r9], 0;
NOINIT: bar.sync 0;
    setp.ne.u32 %p2, %r3, 0; @%p2 bra READER;
    st.shared.u32 [%r9+16], 42;
    bar.warp.sync -1;
    setp.ne.u32 %p3, %r2, 0; @%p3 ret;
    atom.release.cta.shared.or.b32 %r4, [%r9], 1; ret;
READER:
    mov.u32 %r5, 0; setp.ne.u32 %p3, %r2, 0; @%p3 bra TOLD;
SPIN: ld.acquire.cta.shared.u32 %r5, [%r9]; setp.eq.u32 %p4, %r5, 0; @%p4 bra SPIN;
TOLD: {tell}
    ld.shared.u32 %r6, [%r9+16]; st.global.u32 [%rd2], %r6;
"""


def test_a_shuffle_passes_on_what_a_lane_has_acquired() -> None:
    """Cooperative groups of several warps wait in one lane and shuffle the news."""
    out = np.zeros(64, np.uint32)
    told = RELAY.format(tell="shfl.sync.idx.b32 %r7|%p5, %r5, 0, 31, -1;")
    assert not launch(told, out, 64).findings
    assert (out[32:] == 42).all()
    untold = launch(RELAY.format(tell=""), out, 64).findings
    assert any(finding.kind == "race" for finding in untold)


def test_a_shuffle_orders_nothing_inside_its_warp() -> None:
    out = np.zeros(32, np.uint32)
    run = launch(
        "mul.lo.u32 %r3, %r1, 4; mov.u32 %r9, box; add.u32 %r9, %r9, %r3;"
        "st.shared.u32 [%r9], %r1; shfl.sync.idx.b32 %r7|%p5, %r1, 0, 31, -1;"
        "xor.b32 %r3, %r3, 4; mov.u32 %r9, box; add.u32 %r9, %r9, %r3;"
        "ld.shared.u32 %r2, [%r9]; st.global.u32 [%rd2], %r2;",
        out,
    )
    assert [finding.kind for finding in run.findings] == ["race"]


def test_the_systems_shared_memory_is_initialised() -> None:
    """Cooperative groups keep their barriers there and never write them first."""
    out = np.zeros(32, np.uint32)
    text = "mov.u32 %r9, {}; atom.shared.or.b32 %r2, [%r9], 1; st.global.u32 [%rd2], %r2;"
    assert not launch(text.format("%reserved_smem_offset_1"), out, 1).findings
    (finding,) = launch(text.format("box"), out, 1).findings
    assert finding.kind == "uninitialised"


def test_a_function_may_read_a_register_that_nobody_wrote() -> None:
    """nvcc -G passes empty structs so."""
    ptx = """
.version 9.0
.target sm_90a
.address_size 64
.func (.param .b32 back) f(.param .b32 x)
{ .reg .b32 %r<3>; ld.param.b32 %r1, [x]; add.u32 %r1, %r1, %r2; st.param.b32 [back], %r1; ret; }
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<3>; .reg .b64 %rd<3>;
    { .param .b32 x; .param .b32 back; st.param.b32 [x], 7;
      call (back), f, (x); ld.param.b32 %r1, [back]; }
    ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd1, %rd1; st.global.u32 [%rd1], %r1; ret;
}
"""
    out = np.zeros(1, np.uint32)
    Module(ptx)["k"].launch(1, 1, [out])
    assert out[0] == 7


BULK = """
    mov.u32 %r9, box; add.u32 %r8, %r9, 1024; setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY; mbarrier.init.shared.b64 [%r8], 1;
READY: bar.sync 0; @%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared.b64 %rd4, [%r8], {expected};
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r9], [%rd1], {size}, [%r8];
WAIT: {wait}
    mul.lo.u32 %r3, %r1, 4; add.u32 %r3, %r9, %r3; ld.shared.u32 %r4, [%r3];
    add.u32 %r4, %r4, 1; st.global.u32 [%rd2+256], %r4;
"""
WAIT = "mbarrier.try_wait.parity.shared.b64 %p2, [%r8], 0; @!%p2 bra WAIT;"


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_a_bulk_copy_tells_its_barrier(schedule: str) -> None:
    """``memcpy_async`` with a barrier, and CUB's transforms, use it from sm_90 on."""
    out = np.arange(128, dtype=np.uint32)
    run = launch(BULK.format(expected=256, size=256, wait=WAIT), out, 64, schedule=schedule)
    assert out[64:].tolist() == list(range(1, 65)) and not run.findings


def test_a_bulk_copy_that_nobody_waits_for_is_found() -> None:
    out = np.arange(128, dtype=np.uint32)
    run = launch(BULK.format(expected=256, size=256, wait=""), out, 64)
    assert any("has not waited for mbarrier" in str(finding) for finding in run.findings)


@pytest.mark.parametrize(
    ("expected", "size", "error", "message"),
    [
        (256, 24, Fault, "the size, 24 bytes, is no multiple of 16"),
        (512, 256, Deadlock, "512 bytes announced and 256 come"),
        (256, 1024, Fault, "invalid global access"),
    ],
)
def test_a_wrong_bulk_copy(
    expected: int, size: int, error: type[Exception], message: str
) -> None:
    out = np.arange(128, dtype=np.uint32)
    with pytest.raises(error, match=message):
        launch(BULK.format(expected=expected, size=size, wait=WAIT), out, 64)


SAME = """
    shr.u32 %r3, %r1, 5; mov.u32 %r4, box; mov.u32 %r5, 0;
MORE: add.u32 %r5, %r5, 1; setp.le.u32 %p1, %r5, %r3; @%p1 bra MORE;
    st.shared.u32 [%r4], {value};
    bar.sync 0; ld.shared.u32 %r6, [%r4]; st.global.u32 [%rd2], %r6;
"""


@pytest.mark.parametrize("seed", range(6))
def test_all_warps_store_the_same_number(seed: int) -> None:
    """Triton's roles do; it is no race, as it is none within a warp."""
    out = np.zeros(256, np.uint32)
    for value, bad in (("7", False), ("%r3", True)):
        kernel = module(SAME.format(value=value))["k"]
        run = kernel.launch(1, 256, [out], schedule="random", seed=seed)
        assert [h.kind for h in run.findings] == ["race"] * bad
        assert bad or (out == 7).all()


@pytest.mark.parametrize(("op", "pick"), [("min", np.fmin), ("max", np.fmax)])
@pytest.mark.parametrize("absolute", ["", ".abs"])
@pytest.mark.parametrize("nan", ["", ".NaN"])
def test_min_and_max_of_three(op: str, pick: Any, absolute: str, nan: str) -> None:
    """PTX ISA 9.7.3.14: three operands from sm_100 on; Triton's reductions use them."""
    body = f"""
    ld.global.f32 %f1, [%rd2]; ld.global.f32 %f2, [%rd2+128]; ld.global.f32 %f3, [%rd2+256];
    {op}{nan}{absolute}.f32 %f4, %f1, %f2, %f3; st.global.f32 [%rd2], %f4;
    """
    values = np.random.default_rng().standard_normal((3, 32)).astype(np.float32)
    values[np.arange(3), np.arange(3)] = np.nan
    out = values.copy()
    launch(body, out)
    a, b, c = np.abs(values) if absolute else values
    wanted = pick(pick(a, b), c)
    if nan:
        wanted[:3] = np.nan
    assert np.array_equal(out[0], wanted, equal_nan=True)


def test_a_parity_of_minus_one() -> None:
    """Triton gives it for 1; from a person it is an error."""
    body = """
    mov.u32 %r3, box; setp.ne.u32 %p1, %r1, 0; mov.u32 %r4, -1;
    @!%p1 mbarrier.init.shared.b64 [%r3], 1; bar.sync 0;
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], %r4; @!%p2 bra WAIT;
    """
    out = np.zeros(32, np.uint32)
    run = module(body, "// Generated by LLVM NVPTX Back-End")["k"].launch(1, 32, [out])
    assert not run.findings
    with pytest.raises(Fault, match="a parity is 0 or 1"):
        launch(body, out)


MAP = """
    mov.u32 %r3, box; shl.b32 %r4, %r1, 2; add.u32 %r4, %r3, %r4;
    st.shared.u32 [%r4], {fill}; bar.warp.sync -1; setp.ne.u32 %p1, %r1, 0; @%p1 bra DONE;
    {changes}
DONE: bar.warp.sync -1;
    add.u64 %rd3, %rd1, 1024;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd3],
        [%r3], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;
    add.u32 %r8, %r3, 2048; @%p1 bra WAIT;
    mbarrier.init.shared.b64 [%r8], 1; fence.proxy.async;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r8], 64;
    cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r3+1024],
        [%rd3, {{16, 1}}], [%r8];
WAIT: bar.warp.sync -1;
AGAIN: mbarrier.try_wait.parity.shared.b64 %p2, [%r8], 0; @!%p2 bra AGAIN;
    add.u32 %r4, %r3, %r1; ld.shared.u8 %r5, [%r4+1024]; st.global.u32 [%rd2+2048], %r5;
"""
FIELDS = (
    ("global_address", "b64", "%rd1"), ("rank", "b32", "1"), ("box_dim", "b32", "0, 16"),
    ("box_dim", "b32", "1, 4"), ("global_dim", "b32", "0, 32"), ("global_dim", "b32", "1, 8"),
    ("global_stride", "b64", "0, 32"), ("element_stride", "b32", "0, 1"),
    ("element_stride", "b32", "1, 1"), ("elemtype", "b32", "0"), ("interleave_layout", "b32", "0"),
    ("swizzle_mode", "b32", "0"), ("fill_mode", "b32", "0"),
)  # fmt: skip


@pytest.mark.parametrize("fill", ["0", "5"])
def test_a_tensor_map_made_from_zeros(fill: str) -> None:
    """Triton's device-side descriptors begin so; from other bytes none can be made."""
    body = MAP.format(fill=fill, changes="\n".join(
        f"tensormap.replace.tile.{name}.shared::cta.b1024.{kind} [%r3], {value};"
        for name, kind, value in FIELDS))  # fmt: skip
    out = np.zeros(1024, np.uint32)
    table = out.view(np.uint8)[:256].reshape(8, 32)
    table[:] = np.random.default_rng().integers(0, 256, (8, 32))
    if fill == "5":
        with pytest.raises(Fault, match="or 128 zeros, first"):
            launch(body, out)
        return
    run = launch(body, out)
    assert not run.findings, run.findings
    assert np.array_equal(out[512:544], table[1:3, 16:32].ravel())


def test_a_store_of_the_copy_engine_is_waited_for_while_others_are_under_way() -> None:
    """Two threads' groups of copies to global memory; the later one is waited for first."""
    body = """
    mov.u32 %r3, box; shl.b32 %r4, %r1, 2; add.u32 %r4, %r3, %r4; st.shared.u32 [%r4], %r1;
    fence.proxy.async; bar.sync 0; mul.wide.u32 %rd3, %r1, 16; add.u64 %rd3, %rd1, %rd3;
    setp.gt.u32 %p1, %r1, 1; @%p1 bra DONE;
    cp.async.bulk.global.shared::cta.bulk_group [%rd3], [%r3], 16;
    cp.async.bulk.commit_group; setp.eq.u32 %p2, %r1, 0; @%p2 bra LATER;
    cp.async.bulk.wait_group 0;
LATER: cp.async.bulk.wait_group 0;
DONE:
    """
    out = np.zeros(32, np.uint32)
    run = launch(body, out)
    assert not run.findings and out[:8].tolist() == 2 * [0, 1, 2, 3]


@pytest.mark.parametrize(("threads", "bad"), [(32, False), (64, True)])
def test_9_7_9_25_4_1_a_warp_stores_with_the_copy_engine(threads: int, bad: bool) -> None:
    """CuTe DSL and CUTLASS elect no thread; it is one copy then.  Two warps make two."""
    body = """
    mov.u32 %r3, box; shl.b32 %r4, %r1, 2; add.u32 %r4, %r3, %r4; st.shared.u32 [%r4], %r1;
    fence.proxy.async; bar.sync 0;
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 128;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    """
    out = np.zeros(32, np.uint32)
    run = launch(body, out, threads)
    assert bool(run.findings) == bad and out.tolist() == list(range(32))
