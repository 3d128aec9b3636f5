"""Tensor memory: allocation, loads and stores, each rule named after its section of the PTX ISA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phasebit import process, toolchain
from phasebit.emulator.errors import Deadlock, EmulatorError
from phasebit.emulator.machine.device_memory import POISON
from phasebit.emulator.ops.tcgen05_access import REGISTERS, cells
from tests.emulator.tensor_ptx import HEAD, frame, run

Array = NDArray[Any]
SHAPES = ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")
SCHEDULES = ("eager", "late", "random")


def registers(first: int, count: int) -> str:
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def load_store(count: int) -> str:
    """Each thread stores its ``count`` words as 32x32b, and waits."""
    lines = [f"mul.wide.u32 %rd3, %r1, {4 * count}; add.u64 %rd1, %rd1, %rd3;"]
    lines += [f"ld.global.u32 %r{20 + i}, [%rd1+{4 * i}];" for i in range(count)]
    for i in range(0, count, 32):
        lines.append(f"add.u32 %r6, %r5, {i};")
        lines.append(
            f"tcgen05.st.sync.aligned.32x32b.x32.b32 [%r6], {registers(20 + i, 32)};"
        )
    return "\n".join([*lines, "tcgen05.wait::st.sync.aligned;"])


def store_out(first: int, count: int) -> str:
    """Each thread writes its registers to ``out``."""
    lines = [f"mul.wide.u32 %rd4, %r1, {4 * count}; add.u64 %rd2, %rd2, %rd4;"]
    lines += [f"st.global.u32 [%rd2+{4 * i}], %r{first + i};" for i in range(count)]
    return "\n".join(lines)


@pytest.mark.parametrize("times", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("shape", SHAPES)
def test_9_7_16_8_3_every_shape_loads_the_cells_of_its_layout(shape: str, times: int) -> None:
    count = REGISTERS[shape] * times
    row, column = cells(shape, count, 64 if shape == "16x32bx2" else 0)
    if column.max() >= 128:
        pytest.skip("more columns than this test fills")
    more = ", 64" if shape == "16x32bx2" else ""
    body = load_store(128) + (
        f"\ntcgen05.ld.sync.aligned.{shape}.x{times}.b32 {registers(20, count)}, [%r5]{more};"
        "\ntcgen05.wait::ld.sync.aligned;\n"
    ) + store_out(20, count)  # fmt: skip
    data = np.random.default_rng(times).integers(0, 1 << 32, (128, 128), np.uint32)
    out = np.zeros((4, 32, count), np.uint32)
    found = run(frame(body, 128), data, out)
    assert not found.findings, found.findings[0]
    for warp in range(4):
        assert np.array_equal(out[warp], data[32 * warp + row, column])


def extreme(word: int, kind: str, op: str, absolute: bool) -> tuple[Any, int]:
    """How a word counts among the others, and as what: of floats by sign and size."""
    if kind == "u32":
        return word, word
    if kind == "s32":
        return word - (word >> 31 << 32), word
    word &= 0x7FFFFFFF if absolute else 0xFFFFFFFF
    size = word & 0x7FFFFFFF
    return (-1 - size if word >> 31 else size), word


REDUCED = ("min.u32", "max.s32", "min.s32", "max.u32", "max.f32", "min.f32", "min.abs.f32",
           "max.NaN.f32", "max.abs.NaN.f32")  # fmt: skip


def loaded_and_reduced(form: str, times: int = 8) -> str:
    into = registers(20, times)
    return load_store(32) + (
        f"\ntcgen05.ld.red.sync.aligned.32x32b.x{times}.{form} {into}, %r100, [%r5];"
        "\ntcgen05.wait::ld.sync.aligned;\n"
    ) + f"mov.b32 %r{20 + times}, %r100;" + store_out(20, times + 1)  # fmt: skip


@pytest.mark.parametrize("form", REDUCED)
def test_9_7_16_8_3_a_load_with_the_least_or_greatest_of_its_columns(form: str) -> None:
    """`tcgen05.ld.red … r, redval, [taddr]`: across the columns that a thread loads."""
    op, *words, kind = form.split(".")
    data = np.random.default_rng(REDUCED.index(form)).integers(0, 1 << 32, (128, 32), np.uint32)
    data[1, :8], data[2, :8] = 0x7FC00000, [0, 0x80000000] * 4
    data[3, 3], data[4, :8] = 0xFFC00001, [0x7F800000, 0xFF800000] * 4
    out = np.zeros((128, 9), np.uint32)
    found = run(frame(loaded_and_reduced(form)), data, out)
    assert not found.findings, found.findings[0]
    assert np.array_equal(out[:, :8], data[:, :8])
    for row, got in zip(data[:, :8].tolist(), out[:, 8].tolist(), strict=True):
        bad = [word & 0x7FFFFFFF > 0x7F800000 and kind == "f32" for word in row]
        good = [extreme(x, kind, op, "abs" in words)
                for x, is_bad in zip(row, bad, strict=True) if not is_bad]  # fmt: skip
        nan = not good or (any(bad) and "NaN" in words)
        assert got == (0x7FFFFFFF if nan else (min if op == "min" else max)(good)[1])


@pytest.mark.parametrize("form, why", [
    ("32x32b.x1.max.f32 {%r20}, %r100, [%r5]", "needs .x2 or more"),
    ("16x32bx2.x2.max.f32 {%r20, %r21}, %r100, [%r5], 16", "does not say"),
])  # fmt: skip
def test_9_7_16_8_3_a_reduction_that_is_refused(form: str, why: str) -> None:
    out = np.zeros(128, np.uint32)
    with pytest.raises(EmulatorError, match=why):
        run(frame(f"tcgen05.ld.red.sync.aligned.{form};"), out, out)


@pytest.mark.nvcc
@pytest.mark.parametrize("form", REDUCED)
def test_ptxas_takes_a_load_that_reduces(form: str, tmp_path: Path) -> None:
    path, text = tmp_path / "kernel.ptx", frame(loaded_and_reduced(form))
    if form.endswith("f32"):  # ptxas wants a float there
        text = text.replace("%r100", "%f1").replace(".reg .pred", ".reg .f32 %f<2>; .reg .pred")
    path.write_text(text.replace("sm_100a", "sm_103a"))
    command = toolchain.nvcc_command("cubin", "sm_103a")
    done = process.run([*command, path, "-o", tmp_path / "kernel.cubin"], timeout=60)
    assert done.ok and not done.stderr, done.stderr


@pytest.mark.parametrize("upper", [0, 16])
@pytest.mark.parametrize("shape", SHAPES)
def test_9_7_16_8_4_a_store_is_the_reverse_of_a_load(shape: str, upper: int) -> None:
    if shape == "32x32b":
        upper = 0
    count = REGISTERS[shape] * 4
    more = ", 16" if shape == "16x32bx2" else ""
    body = "\n".join(
        [f"mul.wide.u32 %rd3, %r1, {4 * count}; add.u64 %rd1, %rd1, %rd3;"]
        + [f"ld.global.u32 %r{20 + i}, [%rd1+{4 * i}];" for i in range(count)]
        + [f"add.u32 %r6, %r5, {upper << 16};",
           f"tcgen05.st.sync.aligned.{shape}.x4.b32 [%r6]{more}, {registers(20, count)};",
           "tcgen05.wait::st.sync.aligned;",
           f"tcgen05.ld.sync.aligned.{shape}.x4.b32 {registers(60, count)}, [%r6]{more};",
           "tcgen05.wait::ld.sync.aligned;"]
    ) + store_out(60, count)  # fmt: skip
    data = np.random.default_rng(5).integers(0, 1 << 32, (128, count), np.uint32)
    out = np.zeros_like(data)
    found = run(frame(body, 32), data, out)
    assert not found.findings, found.findings[0]
    assert np.array_equal(out, data)


@pytest.mark.parametrize("shape", SHAPES)
def test_9_7_16_2_3_a_layout_names_every_cell_once(shape: str) -> None:
    """Together the threads hold a rectangle: 16 or 32 rows, no cell twice."""
    for times in (1, 4, 16):
        count = REGISTERS[shape] * times
        row, column = cells(shape, count, count)
        pairs = set(zip(row.ravel().tolist(), column.ravel().tolist(), strict=True))
        height = 32 if shape == "32x32b" else 16
        assert len(pairs) == 32 * count == height * (column.max() + 1)
        assert row.max() == height - 1


def test_9_7_16_8_2_pack_and_unpack() -> None:
    """A register is two neighbouring columns, 16 bits of each."""
    body = "\n".join(
        ["mul.wide.u32 %rd3, %r1, 16; add.u64 %rd1, %rd1, %rd3;",
         *(f"ld.global.u32 %r{20 + i}, [%rd1+{4 * i}];" for i in range(4)),
         f"tcgen05.st.sync.aligned.32x32b.x4.unpack::16b.b32 [%r5], {registers(20, 4)};",
         "tcgen05.wait::st.sync.aligned;",
         f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {registers(30, 8)}, [%r5];",
         f"tcgen05.ld.sync.aligned.32x32b.x4.pack::16b.b32 {registers(38, 4)}, [%r5];",
         "tcgen05.wait::ld.sync.aligned;", store_out(30, 12)]
    )  # fmt: skip
    data = np.random.default_rng(6).integers(0, 1 << 32, (128, 4), np.uint32)
    out = np.zeros((128, 12), np.uint32)
    found = run(frame(body), data, out)
    assert not found.findings, found.findings[0]
    assert np.array_equal(out[:, :8], data.view(np.uint16)) and np.array_equal(out[:, 8:], data)


def test_9_7_16_8_2_the_second_half_begins_as_many_columns_further_when_packed() -> None:
    """Four registers of 16x32bx2 are eight columns when they are packed, and so is the offset."""
    body = load_store(32) + (
        f"tcgen05.ld.sync.aligned.16x32bx2.x4.pack::16b.b32 {registers(60, 4)}, [%r5], 8;"
        "tcgen05.wait::ld.sync.aligned;"
    ) + store_out(60, 4)  # fmt: skip
    data = np.random.default_rng(7).integers(0, 1 << 16, (4, 32, 32), np.uint32)
    out = np.zeros((4, 2, 16, 8), np.uint16)
    found = run(frame(body), data, out)
    assert not found.findings, found.findings[0]
    assert np.array_equal(out[:, 0], data[:, :16, :8])
    assert np.array_equal(out[:, 1], data[:, :16, 8:16])


def test_9_7_16_1_nobody_has_written_it() -> None:
    body = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r5];\n"
    body += "tcgen05.wait::ld.sync.aligned;" + store_out(20, 1)
    out = np.zeros(128, np.uint32)
    found = run(frame(body), out, out)
    assert [h.kind for h in found.findings] == ["uninitialised"]
    assert (out == POISON).all()


def test_9_7_16_8_1_the_address_of_the_first_quarter_is_found_and_means_ones_own() -> None:
    """DeepGEMM and TileLang give all four warps one address."""
    row = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r4]; tcgen05.wait::ld.sync.aligned;"
    data, out = np.arange(128 * 32, dtype=np.uint32), np.zeros(128, np.uint32)
    found = run(frame(load_store(32) + row + store_out(20, 1)), data, out)
    assert ["reaches only lanes 32 (w % 4)" in h.message for h in found.findings] == [True]
    assert np.array_equal(out, data[::32])


def test_9_7_16_2_3_lanes_beyond_the_last_are_found_and_mean_ones_own() -> None:
    """The second block of a pair that counts its rows, and with them its lanes, from 128 on."""
    row = "add.u32 %r6, %r5, 0x800000; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r6];"
    row += "tcgen05.wait::ld.sync.aligned;"
    data, out = np.arange(128 * 32, dtype=np.uint32), np.zeros(128, np.uint32)
    found = run(frame(load_store(32) + row + store_out(20, 1)), data, out)
    assert {h.rule for h in found.findings} == {"wrong-tensor-quarter"}
    assert "every block has lanes 0-127" in found.findings[0].message
    assert np.array_equal(out, data[::32])


def test_9_7_16_8_1_a_lane_for_each_thread_is_found_and_the_first_counts() -> None:
    """Which thread is which row is the instruction's to say, not the address's."""
    row = "shl.b32 %r6, %r1, 16; add.u32 %r6, %r6, %r4;"
    row += "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r6]; tcgen05.wait::ld.sync.aligned;"
    data, out = np.arange(128 * 32, dtype=np.uint32), np.zeros(128, np.uint32)
    found = run(frame(load_store(32) + row + store_out(20, 1)), data, out)
    assert {h.rule for h in found.findings} == {"wrong-tensor-quarter"}
    assert "gives each thread another lane" in found.findings[0].message
    assert np.array_equal(out, data[::32])


@pytest.mark.parametrize("lane", [32, 64, 160])
def test_9_7_16_8_1_the_wrong_quarter_is_an_error_that_says_so(lane: int) -> None:
    body = f"add.u32 %r6, %r4, {lane << 16};"
    body += "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r6]; tcgen05.wait::ld.sync.aligned;"
    with pytest.raises(EmulatorError, match=r"warp w reaches only lanes 32 \(w % 4\)"):
        run(frame(body), np.zeros(4), np.zeros(4))


WRONG = [
    ("add.u32 %r6, %r5, 31;", "x2", "uses column 32 of tensor memory, which is not allocated"),
    ("add.u32 %r6, %r5, 511;", "x2", "reaches beyond tensor memory"),
    ("add.u32 %r6, %r5, 0x100000;", "x2", "begins at a multiple of 32"),
    ("add.u32 %r6, %r5, %r1;", "x2", "different addresses"),
]


@pytest.mark.parametrize(("line", "times", "says"), WRONG, ids=[w[2][:24] for w in WRONG])
def test_9_7_16_8_1_wrong_addresses(line: str, times: str, says: str) -> None:
    body = f"{line} tcgen05.ld.sync.aligned.32x32b.{times}.b32 {{%r20, %r21}}, [%r6];"
    body += "tcgen05.wait::ld.sync.aligned;"
    with pytest.raises(EmulatorError, match=says):
        run(frame(body), np.zeros(4), np.zeros(4))


ALLOCATION = HEAD + """
.visible .entry kernel(.param .u64 out)
{
    .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<9>; .shared .align 4 .b32 slot[8];
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5;
    mov.u32 %r5, slot; shl.b32 %r6, %r2, 2; add.u32 %r5, %r5, %r6;
    BODY
    ret;
}
"""
TAKE = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r5], {};\n"
READ = "ld.shared.u32 %r4, [%r5];\n"
GIVE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 {}, {};\n"


def allocate(body: str, warps: int = 1, **more: Any) -> Any:
    out = np.zeros(32, np.uint32)
    found = run(ALLOCATION.replace("BODY", body), out, threads=32 * warps, **more)
    assert not found.findings, found.findings[0]
    return out


@pytest.mark.parametrize("count", [0, 16, 33, 48, 96, 1024])
def test_9_7_16_7_1_the_number_of_columns_is_a_power_of_two(count: int) -> None:
    with pytest.raises(EmulatorError, match="a power of two from 32 to 512"):
        allocate(TAKE.format(count))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_16_7_1_several_allocations_do_not_overlap(schedule: str) -> None:
    """Four warps take 128 columns each, all there are."""
    body = TAKE.format(128) + READ + "shl.b32 %r6, %r2, 2; cvt.u64.u32 %rd2, %r6;"
    body += "add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r4; bar.warp.sync -1;"
    body += GIVE.format("%r4", 128)
    found = allocate(body, warps=4, schedule=schedule)
    assert len(found) and set(found[:4].tolist()) <= {0, 128, 256, 384}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_16_7_1_an_allocation_waits_for_columns(schedule: str) -> None:
    """Three warps take all 512 columns, one after another, and give them back."""
    allocate(TAKE.format(512) + READ + GIVE.format("%r4", 512), warps=3, schedule=schedule)


def test_9_7_16_7_1_columns_that_never_come_are_a_deadlock_that_says_who_has_them() -> None:
    body = TAKE.format(256) + TAKE.format(256) + TAKE.format(32)
    with pytest.raises(Deadlock, match="32 free columns of tensor memory") as caught:
        allocate(body)
    assert "allocated are columns 0-255 by tcgen05.alloc" in str(caught.value)


FAULTS = [
    (TAKE.format(32) + READ + 2 * GIVE.format("%r4", 32), "for the second time"),
    (TAKE.format(32) + READ + GIVE.format("%r4", 64), "deallocates 64 columns"),
    (TAKE.format(32) + GIVE.format("96", 32), "which no tcgen05.alloc of this block returned"),
    ("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" + TAKE.format(32),
     "gave up the right to"),
    ("setp.lt.u32 %p1, %r1, 9; @%p1 ret;" + TAKE.format(32), "needs all 32 threads of the warp"),
    ("mov.u32 %r4, 0; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r7}, [%r4];",
     "allocated are none: take the address that tcgen05.alloc wrote"),
    (TAKE.format(32) + READ + GIVE.format("%r4", 32)
     + "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r7}, [%r4];", "after it was deallocated"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "says"), FAULTS, ids=[f[1][:24] for f in FAULTS])
def test_9_7_16_7_1_misuse_is_an_error(body: str, says: str) -> None:
    with pytest.raises(EmulatorError, match=says):
        allocate(body)


def test_9_7_16_7_1_every_block_has_its_own() -> None:
    body = TAKE.format(512) + READ + GIVE.format("%r4", 512)
    allocate(body, warps=2, blocks=5)


def test_9_7_16_6_4_5_a_use_of_a_register_waits_for_its_value() -> None:
    """It says nothing of the cells: whoever writes them again needs tcgen05.wait::ld."""
    start = load_store(32) + "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r5];"
    used = start + "add.u32 %r21, %r20, 1;"
    wait, again = "tcgen05.wait::ld.sync.aligned;", (
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r21}; tcgen05.wait::st.sync.aligned;"
    )
    data, out = np.ones((128, 32), np.uint32), np.zeros(128, np.uint32)
    assert not run(frame(used + wait + store_out(21, 1)), data, out).findings
    assert (out == 2).all()
    assert not run(frame(used + wait + again + store_out(21, 1)), data, out).findings
    found = run(frame(used + again + wait + store_out(21, 1)), data, out).findings
    assert {finding.rule for finding in found} == {"missing-tcgen05-wait"}


@pytest.mark.parametrize(("wait", "bad"), [("tcgen05.wait::ld.sync.aligned;", False), ("", True)])
def test_9_7_16_8_5_one_wait_after_the_last_of_several_loads(wait: str, bad: bool) -> None:
    """CUTLASS's epilogues use each load at once, and wait before they give the columns back."""
    loads = "add.u32 %r6, %r5, 1; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r5];"
    loads += "add.u32 %r21, %r20, 1; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r22}, [%r6];"
    data, out = np.ones((128, 32), np.uint32), np.zeros(128, np.uint32)
    found = run(frame(load_store(32) + loads + wait + store_out(21, 1)), data, out)
    assert bool(found.findings) == bad
    assert (out == 2).all()


EARLY = [("", "", True), ("// Generated by NVIDIA NVVM Compiler\n", "", False),
         ("// Generated by NVIDIA NVVM Compiler\n", "\n// {} inline asm\n", True),
         ("// Generated by LLVM NVPTX Back-End\n", "\n// {} inline asm\n", False)]  # fmt: skip


@pytest.mark.parametrize(("head", "around", "bad"), EARLY,
                         ids=["text", "CuTe DSL", "inline", "Triton"])  # fmt: skip
def test_9_7_16_8_5_a_compiler_leaves_the_wait_of_its_own_loads_to_ptxas(
    head: str, around: str, bad: bool
) -> None:
    """CuTe DSL leaves it away, Triton's optimizer uses registers before it; a person must wait."""
    load = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r5];"
    body = load_store(32) + around.format("begin") + load + around.format("end") + store_out(20, 1)
    data = np.arange(128 * 32, dtype=np.uint32)
    out = np.zeros(128, np.uint32)
    found = run(head + frame(body), data, out)
    assert bool(found.findings) == bad
    assert np.array_equal(out, data[::32])


MORE = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r22}, [%r6];"
WAIT_LD = "tcgen05.wait::ld.sync.aligned;"


@pytest.mark.parametrize(("behind", "bad"), [
    (WAIT_LD, False), (MORE + WAIT_LD, True),
    ("bra.uni ON; ON: " + MORE + WAIT_LD, True), ("@%p1 bra ON; " + MORE + "ON: " + WAIT_LD, False),
    ("@%p1 bra ON; ON: " + MORE + WAIT_LD, True), (WAIT_LD + MORE + WAIT_LD, False),
])  # fmt: skip
def test_9_7_16_8_5_a_compiler_that_loads_on_before_it_waits_has_not_waited_yet(
    behind: str, bad: bool
) -> None:
    """A use alone it takes for the wait: what follows may overwrite the cells."""
    body = load_store(32) + (
        "add.u32 %r6, %r5, 8; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r5];"
        " add.u32 %r21, %r20, 1; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r21};"
    ) + behind + "tcgen05.wait::st.sync.aligned;" + store_out(21, 1)  # fmt: skip
    data, out = np.ones((128, 32), np.uint32), np.zeros(128, np.uint32)
    found = run("// Generated by NVIDIA NVVM Compiler\n" + frame(body), data, out)
    assert [each.rule for each in found.findings][:1] == ["missing-tcgen05-wait"] * bad
    assert (out == 2).all()


LOAD_AHEAD = (
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r5];\n"
    "tcgen05.wait::ld.sync.aligned; mul.wide.u32 %rd4, %r1, 4; add.u64 %rd2, %rd2, %rd4;\n"
    "st.global.u32 [%rd2], %r2;"
)


def test_a_load_of_what_nobody_has_written_is_found_where_a_person_wrote_it() -> None:
    """Compilers load ahead of a loop that has no turn, and throw the numbers away."""
    out = np.zeros(128, np.uint32)
    found = run(frame(LOAD_AHEAD), out, out)
    assert ["nobody has written" in h.message for h in found.findings] == [True]
    generated = "// Generated by LLVM NVPTX Back-End\n" + frame(LOAD_AHEAD)
    assert not run(generated, out, out).findings


def test_a_compiler_too_must_have_written_all_of_what_it_wrote_in_part() -> None:
    half = ("setp.ge.u32 %p6, %r2, 2; mov.u32 %r20, 5;\n"
            "@%p6 bra SKIP; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r20};\n"
            "tcgen05.wait::st.sync.aligned; SKIP:\nadd.u32 %r6, %r5, 1;\n")  # fmt: skip
    two = LOAD_AHEAD.replace("x1.b32 {%r20}", "x2.b32 {%r20, %r21}")
    text = "// Generated by LLVM NVPTX Back-End\n" + frame(half + two)
    out = np.zeros(128, np.uint32)
    assert any("nobody has written" in h.message for h in run(text, out, out).findings)
