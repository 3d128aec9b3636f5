"""The checks of *Tensor cores without Hopper* refuse planted wrong answers; its numbers agree."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from phasebit import draw, files, measure, notebook, process, toolchain
from phasebit.chapters.tensor_cores import exercises as check
from phasebit.chapters.tensor_cores import record as benchmark
from phasebit.chapters.tensor_cores import view
from phasebit.runtime import library
from tests.book.notebooks import ROOT, code, solutions, source
from tests.kernels.emulated import emulate

CHAPTER = next(ROOT.glob("book/*/??_tensor_cores.ipynb"))


def test_the_solutions_of_the_chapter() -> None:
    names: dict[str, object] = {"check": check}
    for text in solutions(CHAPTER):
        exec(text, names)
    assert "OK" in check.lane_of.verdict(names["lane_of"])


PAST_SHARED_MEMORY = """
#include <cuda_fp16.h>
__global__ void product(const __half* A, const __half* B, float* C) {
    for (int i = threadIdx.x; i < 16 * 64; i += 32) {
        float sum = 0;
        for (int k = 0; k < 64; ++k)
            sum += __half2float(A[i / 64 * 64 + k]) * __half2float(B[64 * k + i % 64]);
        C[i] = sum;
    }
}
"""

LOAD_A = "a + place(lane % 16, 2 * step + lane / 16)"
LOAD_B = "b + place(16 * step + lane % 16, 2 * j + lane / 16)"

WARPS = {
    "B is not transposed": ("ldmatrix_x4_trans", "ldmatrix_x4"),
    "A is transposed": ("ptx::ldmatrix_x4(", "ptx::ldmatrix_x4_trans("),
    "the swizzle is forgotten": (LOAD_A, "a + lane % 16 * 64 + (2 * step + lane / 16) * 8"),
    "neighbouring lanes take the halves of a row": (
        LOAD_A, "a + place(lane / 2, 2 * step + lane % 2)"),
    "the registers of A in rows": ("f[0], f[1], f[2], f[3]", "f[0], f[2], f[1], f[3]"),
    "the registers of B crosswise": (
        "g[0][0], g[0][1], g[1][0], g[1][1]", "g[0][0], g[1][0], g[0][1], g[1][1]"),
    "the same step of B each time": (LOAD_B, "b + place(lane % 16, 2 * j + lane / 16)"),
    "one of two pieces": ("ptx::mma_16x8x16(c[2 * j + 1], f, g[1], __half());", ""),
    "three steps": ("step < 4", "step < 3"),
    "the lower half above": ("lane / 4 + i / 2 * 8", "lane / 4 + (1 - i / 2) * 8"),
    "sums stored down a column": ("i / 2 * 8) * 64", "i % 2 * 8) * 64"),
    "rows and columns of C exchanged": (
        "(lane / 4 + i / 2 * 8) * 64 + 8 * j + lane % 4 * 2 + i % 2",
        "(lane % 4 * 2 + i % 2) * 64 + 8 * j + lane / 4 + i / 2 * 8"),
    "nobody waits for the tiles": ("__syncwarp();", ""),
    "no swizzle anywhere: right, with conflicts": ("(chunk ^ row % 8)", "chunk"),
    "A is loaded for each piece": (
        "ptx::ldmatrix_x4_trans(",
        f"ptx::ldmatrix_x4(f[0], f[1], f[2], f[3], {LOAD_A});\n ptx::ldmatrix_x4_trans("),
}  # fmt: skip
"""What people get wrong -> words of the solution, and others."""

REFUSALS = {
    "nobody waits for the tiles": "the product is right, but: thread",
    "no swizzle anywhere: right, with conflicts": "bank conflicts",
    "A is loaded for each piece": "wavefronts; 80 will do",
}
"""What the check says of those that compute the right product; of the others: wrong elements."""


@pytest.mark.nvcc
@pytest.mark.parametrize("wrong", WARPS)
def test_one_warps_product_refuses(wrong: str) -> None:
    names: dict[str, object] = {"check": check}
    for text in solutions(CHAPTER):
        exec(text, names)
    old, new = WARPS[wrong]
    text = str(names["answer"])
    assert old in text
    said = check.warp_product.verdict(text.replace(old, new))
    why = REFUSALS.get(wrong, "of 1024 elements are wrong, the first is (")
    assert "not right yet" in said and why in said, said


@pytest.mark.nvcc
def test_one_warps_product() -> None:
    names: dict[str, object] = {"check": check}
    for text in solutions(CHAPTER):
        exec(text, names)
    assert "OK" in check.warp_product.verdict(names["answer"])
    assert "computes nothing" in check.warp_product.verdict(check.PRODUCT)
    said = check.warp_product.verdict(PAST_SHARED_MEMORY)
    assert "nothing is loaded from shared memory" in said, said
    assert "as a string" in check.warp_product.verdict(3)
    assert "no kernel called 'product'" in check.warp_product.verdict("int x;")
    assert "line 1 of source.cu" in check.warp_product.verdict("nonsense")


PLACE = "place(lane % 8, 2 * step + lane / 8)"

COLUMNS = {
    "transposed": ("ldmatrix_x4(", "ldmatrix_x4_trans(", "elements are wrong"),
    "the registers crosswise": ("b[0][1], b[1][0]", "b[1][0], b[0][1]", "elements are wrong"),
    "the swizzle is forgotten": (
        PLACE, "lane % 8 * 64 + (2 * step + lane / 8) * 8", "elements are wrong"),
    "neighbouring lanes take the chunks of a row": (
        PLACE, "place(lane / 4, 2 * step + lane % 4)", "elements are wrong"),
    "a chunk a step": ("2 * step", "step", "elements are wrong"),
    "a load for each step": (
        "int lane = threadIdx.x;",
        f"""int lane = threadIdx.x;
        ptx::ldmatrix_x4(b[1][0], b[1][1], b[0][0], b[0][1], tile + {PLACE});""",
        "two calls execute 4 ldmatrix"),
    "with ordinary loads": (
        "ptx::ldmatrix_x4(b[0][0], b[0][1], b[1][0], b[1][1],", """
        for (int i = 0; i < 4; ++i)
            b[i / 2][i % 2] = *reinterpret_cast<const unsigned*>(
                tile + place(lane / 4, 2 * step + i) + lane % 4 * 2);
        (void)(""", "two calls execute 0 ldmatrix"),
    "it does not compile": ("const int lane", "const lane", "source.cu"),
}  # fmt: skip
"""What people get wrong -> words of the solution, others, and what the check says."""


@pytest.mark.nvcc
@pytest.mark.parametrize("wrong", COLUMNS)
def test_b_by_columns_refuses(wrong: str) -> None:
    text = next(each for each in solutions(CHAPTER) if "load_b" in each)
    old, new, why = COLUMNS[wrong]
    names: dict[str, str] = {}
    exec(text, names)
    assert old in names["CODE"]
    said = check.load_b.verdict(names["CODE"].replace(old, new))
    assert "not right yet" in said and why in said, said


@pytest.mark.nvcc
def test_b_by_columns() -> None:
    text = next(each for each in solutions(CHAPTER) if "load_b" in each)
    names: dict[str, str] = {}
    exec(text, names)
    assert "OK" in check.load_b.verdict(names["CODE"])
    assert "as a string" in check.load_b.verdict(3)


FILL = "        if (step < PARTS) fill(empty, step);\n"
ALL = "    for (int part = 0; part < PARTS; ++part) fill(empty, part);\n"

LOOPS = {
    "copies beside nothing": ((FILL, ""), ("    wait();", f"{ALL}    wait();"), "beside nothing"),
    "a slot that others still read": (
        (FILL, ""), ("    wait();\n    empty = full;\n", f"    empty = full;\n{ALL}    wait();\n"),
        "is wrong"),
    "the slot being multiplied": (("fill(empty", "fill(full"), ("", ""), "is wrong"),
    "nobody waits": (("    wait();\n", ""), ("", ""), "is wrong"),
    "it does not compile": (("fill(empty", "full(empty"), ("", ""), "source.cu"),
}  # fmt: skip
"""What people get wrong -> words of the solution and others, twice, and what the check says."""


def the_loop() -> str:
    names: dict[str, str] = {}
    exec(next(text for text in solutions(CHAPTER) if "advance(full)" in text), names)
    return names["CODE"]


@pytest.mark.nvcc
@pytest.mark.parametrize("wrong", LOOPS)
def test_the_loop_refuses(wrong: str) -> None:
    *changes, why = LOOPS[wrong]
    code = the_loop()
    for old, new in changes:
        assert old in code
        code = code.replace(old, new, 1) if old else code
    said = check.loop.verdict(code)
    assert "not right yet" in said and why in said, said


@pytest.mark.nvcc
def test_the_loop() -> None:
    assert "OK" in check.loop.verdict(the_loop())
    assert "as a string" in check.loop.verdict(3)
    skeleton = next(text for text in map(source, code(CHAPTER)) if "check.loop(" in text)
    names: dict[str, str] = {}
    exec(skeleton.partition("check.loop(")[0], names)
    assert check.loop.verdict(names["CODE"]).endswith("not answered yet")


def test_the_parts_of_a_number_are_its_sum() -> None:
    said = str(view.cut(0.7)).splitlines()[1:]
    lines = [line.partition("|")[2].replace(" ", "") for line in said]
    whole, high, low, read = (float(np.uint32(int(line, 2)).view(np.float32)) for line in lines)
    assert whole == high + low == float(np.float32(0.7)) and 0 < read < low


@pytest.mark.nvcc
def test_the_last_rung_needs_more_than_an_sm_86_has(capsys: pytest.CaptureFixture[str]) -> None:
    view.fits("sm_86", 3, 2)
    three, two = capsys.readouterr().out.splitlines()
    assert "144 KiB" in three and "more than the 101376" in three
    assert two == "sm_86, 2 slots, 96 KiB: right: True, findings: 0"


@pytest.mark.nvcc
def test_the_ring_on_a_turing(capsys: pytest.CaptureFixture[str]) -> None:
    view.turing()
    assert capsys.readouterr().out.endswith("right: True, findings: 0, bank conflicts: 0\n")


def test_the_first_wave_is_a_compact_patch() -> None:
    _, *said = str(view.waves(1, 8, 16)).splitlines()
    assert [re.findall(r"\d+", line) for line in said] == [
        ["1", "5", "32"], ["8", "8", "17"], ["16", "16", "9"],
    ]  # fmt: skip


@pytest.mark.nvcc
def test_ldmatrix_hands_out_what_mma_wants() -> None:
    """The picture of a load, from a run, is that of A's fragment, from the tables."""

    def cells(picture: object) -> list[list[str]]:
        lines = str(picture).splitlines()[1:17]
        return [re.findall(r"\d+:\d", line.partition("|")[2]) for line in lines]

    a, _, _ = view.operands()
    assert len(cells(a)[0]) == 16 and cells(view.ldmatrix()) == cells(a)
    assert cells(view.ldmatrix(transposed=True)) != cells(a)


@pytest.mark.nvcc
def test_the_blocks_tile_and_the_warps_tile_cost_different_things() -> None:
    rows = view.demands((64, 64, 64, 32, 32), (128, 128, 64, 32, 32), (128, 128, 64, 64, 64)).rows
    outside, wavefronts = [row[2] for row in rows], [row[3] for row in rows]
    assert outside == ["128", "64", "64"] and wavefronts == ["2.12", "2.12", "1.06"]


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["late", "eager", "random"])
def test_the_ring_without_fragments_ahead(schedule: str) -> None:
    run, right = check.emulate(
        "ring_alone<Tiling<64, 64, 64, 32, 32>, 4, 16, In, Out>", (128, 128, 256), 4, 128,
        shared=4 * 16384, arguments=[1], schedule=schedule,
    )  # fmt: skip
    assert right and not run.findings


def test_the_controls_change_one_thing_at_a_time() -> None:
    assert {benchmark.LADDER[name] for name in ("swizzle", "a ring of 4 slots")} < {
        *benchmark.CONTROLS.values()
    }
    assert len(set(benchmark.CONTROLS.values())) == len(benchmark.CONTROLS)


def test_no_answer_yet() -> None:
    assert check.warp_product.verdict(...).endswith("not answered yet")
    assert check.lane_of.verdict(lambda *a: ...).endswith("not answered yet")
    skeleton = next(text for text in map(source, code(CHAPTER)) if "check.load_b(" in text)
    names: dict[str, str] = {}
    exec(skeleton.partition("check.load_b(")[0], names)
    assert check.load_b.verdict(names["CODE"]).endswith("not answered yet")


@pytest.mark.parametrize(
    ("exercise", "wrong"),
    [
        ("lane_of", lambda row, col: (row % 8 * 4 + col // 2, col % 2)),  # the lower half
        ("lane_of", lambda row, col: (row % 8 * 4 + col % 4, row // 8 * 2 + col // 4)),
        ("lane_of", lambda row, col: (row // 2 * 4 + col // 2, row % 2 * 2 + col % 2)),
    ],
)
def test_a_wrong_answer_is_refused(exercise: str, wrong: object) -> None:
    assert "not right yet" in getattr(check, exercise).verdict(wrong)


@pytest.mark.nvcc
def test_the_order_of_blocks_is_that_of_the_kernel() -> None:
    grids = [(1, 1, 1), (3, 2, 2), (8, 12, 4), (7, 5, 16), (5, 9, 3)]
    calls = "".join(
        f"for (int n = 0; n < {rows * cols}; ++n) "
        f'{{ Block b = rasterise(n, {rows}, {cols}, {height}); printf("%d %d\\n", b.row, b.col); }}'
        for rows, cols, height in grids
    )
    text = f'#include "tensor_cores/gemm.cuh"\nint main() {{ {calls} }}\n'
    program = toolchain.build(text).program
    said = [
        tuple(map(int, line.split()))
        for line in process.run([program], timeout=30).stdout.splitlines()
    ]
    mine = [check.rasterise(n, r, c, h) for r, c, h in grids for n in range(r * c)]
    assert said == mine
    for rows, cols, height in grids:
        blocks = {check.rasterise(n, rows, cols, height) for n in range(rows * cols)}
        assert len(blocks) == rows * cols


@pytest.mark.nvcc
@pytest.mark.parametrize(("rung", "swizzle"), [("shared tiles", "false"), ("swizzle", "true")])
def test_conflicts_are_those_that_nsight_compute_counted(rung: str, swizzle: str) -> None:
    run, right = check.emulate(
        f"one_slot<Tiling<64, 64, 64, 32, 32>, {swizzle}, 16, In, Out>",
        (128, 128, 128),
        (2, 2),
        128,
    )
    assert right and not run.findings
    counted = measure.read("tensor_cores")["conflicts"][rung]
    times = (counted.pop("size") // 128) ** 3
    assert {name: value / times for name, value in counted.items()} == {
        name: run.counters[name] for name in counted
    }


def test_the_record_reaches_what_the_chapter_promises() -> None:
    record = measure.read("tensor_cores")
    for result in record["best"]:
        times = {name: sorted(each)[len(each) // 2] for name, each in result["times_us"].items()}
        assert times["super-rows"] <= times["Triton, mma.sync"] / 0.95
    hits = [
        row["lts__t_sectors_srcunit_tex_lookup_hit.sum"] / row["lts__t_sectors_srcunit_tex.sum"]
        for row in record["heights"]["rows"]
    ]
    assert hits[3] > hits[0] + 0.05  # super-rows of 8 against rows


ENDS = {
    "tensor_cores/naive.cuh": "void launch(const Gemm<In, Out>& g) { launch_naive(g); }",
    "tensor_cores/gemm.cuh": """\
using Tiles = std::conditional_t<CP_ASYNC, Tiling<128, 256, 64, 64, 64>,
                                 Tiling<128, 128, 32, 64, 64>>;  // sm_75 has less room
void launch(const Gemm<In, Out>& g) { launch_gemm<Tiles, CP_ASYNC ? 3 : 2>(g); }""",
}
"""File -> what its cell has behind it."""


def cell_of(kernel: str) -> str:
    text = (files.kernels() / kernel).read_text(encoding="utf-8").replace("#pragma once\n", "")
    types = "using In = Element;  // bf16; f16 on sm_75\nusing Out = float;"
    return f'%%cuda\n{text}\n{types}\n{ENDS[kernel]}\n#include "gemm.cuh"'


@pytest.mark.parametrize("kernel", ENDS)
def test_a_cell_is_its_file(kernel: str) -> None:
    assert cell_of(kernel) in [source(cell) for cell in code(CHAPTER)]


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", ENDS)
def test_a_cell_says_the_same_on_a_t4(kernel: str) -> None:
    """Its target is the chapter's tier; what runs it here is the emulator."""
    (cell,) = [cell for cell in code(CHAPTER) if source(cell) == cell_of(kernel)]
    saved = "".join(cell["outputs"][0]["text"]).splitlines()
    program = cell_of(kernel).partition("\n")[2]
    built = toolchain.build(
        program, target="sm_75", runtime=library.for_linking(toolchain.nvcc().major)
    )
    done = emulate(program, target="sm_75")
    assert done.ok and not built.warnings, done.stderr + built.warnings
    said = [*notebook.report(built).splitlines(), *done.stdout.splitlines()]
    assert [line for line in said if line[0] != "⏱"] == [line for line in saved if line[0] != "⏱"]


def test_bars() -> None:
    picture = draw.bars({"one": 1.0, "ten": 10.0}, x_label="things", title="Bars")
    assert str(picture) == "Bars. things.\none: 1\nten: 10"
    with pytest.raises(ValueError, match="below zero"):
        draw.bars({"less": -1.0}, x_label="things", title="Bars")


@pytest.mark.skipif(shutil.which("hipcc") is None, reason="no hipcc here: apt-get install hipcc")
def test_the_same_kernel_compiles_for_cdna(tmp_path: Path) -> None:
    text = tmp_path / "one_slot.cpp"
    text.write_text(
        '#include <hip/hip_runtime.h>\n#include "tensor_cores/one_slot.cuh"\n'
        "template void launch_one_slot<Tiling<64, 64, 64, 32, 32>, true, 16>"
        "(const Gemm<__half, float>&);\n"
    )
    command = ["hipcc", "--offload-arch=gfx90a", "-O3", "-std=c++17", "-S", "--cuda-device-only"]
    done = subprocess.run(
        [*command, f"-I{files.kernels()}", str(text), "-o", str(tmp_path / "one_slot.s")],
        env={"HIP_PLATFORM": "amd", "PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assembly = (tmp_path / "one_slot.s").read_text(encoding="utf-8")
    assert "v_mfma_f32_16x16x16f16" in assembly
    assert re.search(r"\.vgpr_spill_count: 0\b", assembly)
    assert re.search(r"\.wavefront_size: 64\b", assembly)
