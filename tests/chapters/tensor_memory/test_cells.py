"""The small kernels of *Tensor memory*: right on the emulator, each mistake found with its line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phasebit import files, process, toolchain
from phasebit.chapters.tensor_memory import cells
from phasebit.edits import replace_once
from phasebit.emulator import Deadlock, EmulatorError
from phasebit.launching.launch import compile
from tests.book.notebooks import ROOT, code, source

CHAPTER = next(ROOT.glob("book/*/??_tensor_memory.ipynb"))
KERNELS = ["shapes", "copied", "columns", "a_in_tensor_memory"]
SCHEDULES = pytest.mark.parametrize("schedule", ["eager", "late", "random"])


def test_the_cell_that_shows_a_kernel_holds_the_file() -> None:
    texts = [source(cell) for cell in code(CHAPTER)]
    (cell,) = [text for text in texts if text.startswith("SHAPES = r'''")]
    assert cell.split("'''")[1] == files.kernel("tensor_memory/shapes")


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_file_holds_one_idea(kernel: str) -> None:
    lines = files.kernel(f"tensor_memory/{kernel}").splitlines()
    assert lines[0].startswith("// ")
    assert len(lines) <= 100 and max(map(len, lines)) <= 100


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", KERNELS)
def test_ptxas_takes_it_without_a_warning(kernel: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(files.kernel(f"tensor_memory/{kernel}"))
    strict = ["-Xptxas", "-warn-spills,-Werror", "-Werror", "all-warnings"]
    command = toolchain.nvcc_command("cubin", "sm_100a", options=strict)
    done = process.run([*command, path, "-o", tmp_path / "kernel.cubin"], timeout=120)
    assert done.ok and not done.stderr, done.stderr


@pytest.mark.nvcc
@pytest.mark.parametrize("shape", cells.SHAPES)
@SCHEDULES
def test_a_warp_gets_the_cells_of_its_shape(shape: str, schedule: str) -> None:
    from phasebit.emulator import tcgen05_access

    got, run = cells.fetch(cells.shapes(shape), schedule=schedule)
    assert not run.findings and (got[128:] == -1).all()
    lanes, columns = tcgen05_access.cells(shape, 4, 8)
    for warp in range(4):
        mine = got[32 * warp : 32 * warp + 32]
        assert np.array_equal(mine[..., 0], lanes + 32 * warp)
        assert np.array_equal(mine[..., 1], columns)


@pytest.mark.nvcc
def test_each_warp_reaches_its_quarter_alone() -> None:
    found = cells.reach()
    yes = [line.split("|")[1].split() for line in found.picture.alt.splitlines()[1:]]
    assert yes == [["yes" if w % 4 == q else "no" for q in range(4)] for w in range(6)]
    assert "add (w % 4) << 21 to the address" in found.refusal
    warps = [set(line.split("|")[1].split()) for line in found.memory.alt.splitlines()[1:]]
    assert warps == [{"0,", "4"}, {"1,", "5"}, {"2"}, {"3"}]


@pytest.mark.nvcc
def test_the_picture_shows_the_thread_of_each_cell() -> None:
    lines = cells.holders("16x64b").alt.splitlines()
    assert lines[1].split()[-8:] == ["0", "2", "0", "2", "0", "2", "0", "2"] and len(lines) == 17
    assert lines[9].split()[-8:] == ["1", "3", "1", "3", "1", "3", "1", "3"]


def test_a_shape_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no shape '8x8'.*16x256b"):
        cells.shapes("8x8")


@pytest.mark.nvcc
@pytest.mark.parametrize("issuer", [0, 37, 127])
@SCHEDULES
def test_any_thread_may_copy_to_all_lanes(issuer: int, schedule: str) -> None:
    lanes, run = cells.copied("128x128b", issuer, schedule=schedule)
    assert lanes[:, 0].tolist() == [*range(128)] and not run.findings
    assert (lanes[:, :4] == lanes[:, :1]).all() and (lanes[:, 4:] == -1).all()


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("shape", "first"),
    [("64x128b.warpx2::02_13", [0, 32, 0, 32]), ("64x128b.warpx2::01_23", [0, 0, 32, 32]),
     ("32x128b.warpx4", [0, 0, 0, 0])],
)  # fmt: skip
def test_a_copy_repeats_rows_in_other_quarters(shape: str, first: list[int]) -> None:
    lanes, run = cells.copied(shape)
    rows = [row + i for row in first for i in range(32)]
    assert lanes[:, 0].tolist() == rows and not run.findings


@pytest.mark.nvcc
def test_rows_of_32_bytes_fill_eight_columns() -> None:
    both = [0] * 4 + [1000] * 4
    lanes, run = cells.copied("128x256b")
    assert lanes.tolist() == [[row + piece for piece in both] for row in range(128)]
    four, again = cells.copied("4x256b")
    for lane in range(128):
        row = [lane // 32 + piece for piece in both] if lane % 32 == 0 else [-1] * 8
        assert four[lane].tolist() == row
    assert not run.findings and not again.findings


@pytest.mark.nvcc
def test_columns_are_the_multiprocessors() -> None:
    got, _ = cells.allocate(128, 128)
    assert sorted(got.ravel().tolist()) == [0, 128, 256, 384]
    with pytest.raises(Deadlock, match="each holds columns that the other waits for"):
        cells.allocate(256, 256)
    with pytest.raises(Deadlock, match="32 free columns"):
        cells.allocate(512, 32, blocks=1, resident=1)
    _, run = cells.allocate(256, 256, resident=1)
    assert "let a block allocate all that it needs at once" in run.findings[0].message
    _, run = cells.allocate(64, 128)
    assert "let the largest come first" in run.findings[0].message


@pytest.mark.nvcc
@SCHEDULES
def test_weights_in_tensor_memory_are_multiplied(schedule: str) -> None:
    for seed in (1, 2):
        run, exact = cells.weigh(
            files.kernel("tensor_memory/a_in_tensor_memory"), schedule=schedule, seed=seed
        )
        assert exact and not run.findings
    assert run.counters["tcgen05.mma"] == 4 and run.counters["tcgen05.st.registers"] == 4096


@pytest.mark.nvcc
def test_each_line_left_out_is_found() -> None:
    table = cells.without_each()
    assert [row[1] for row in table.rows] == ["async", "async", "race", "race", "tensor"]
    assert {row[3:] for row in table.rows} == {("right", "right")}


@pytest.mark.nvcc
def test_who_holds_which_columns_is_drawn() -> None:
    dead = cells.held(256, 256).alt.splitlines()[1:]
    assert dead[:2] == ["block 0 gets 0 to 255", "block 1 gets 256 to 511"]
    assert dead[3:] == ["block 1 asks for 256 and waits", "deadlock"]
    fine = cells.held(128, 128).alt.splitlines()[1:]
    assert len(fine) == 8 and fine[-1] == "block 1 gives back 384 to 511"


CP = r'asm volatile|"l"\(rows'
"""In the two lines of ``tcgen05.cp``: compilers differ in which one they say."""

MISTAKES = {
    "the address is taken for 0": (
        "shapes", "base = address", "base = 0", "not allocated", "tcgen05_st_32x32b_x32"),
    "the lane in the lower half": (
        "shapes", "quarter) * 32 << 16);", "quarter) * 32);", "not allocated",
        r'"=r"|"tcgen05\.ld'),
    "every warp stores into the first quarter": (
        "shapes", "base + (warp * 32 << 16), cells", "base, cells",
        r"add \(w % 4\) << 21", "tcgen05_st_32x32b_x32"),
    "a store past the allocation": (
        "shapes", "base + (warp * 32 << 16), cells", "base + 8 + (warp * 32 << 16), cells",
        "not allocated", "tcgen05_st_32x32b_x32"),
    "half a warp fetches": (
        "shapes", "if (who == 6 ? warp < 4 : warp == who) {",
        "if (t % 32 < 16 && (who == 6 ? warp < 4 : warp == who)) {",
        "deadlock|all threads of the warp|16 of", '"=r"|__syncthreads'),
    "every warp gives back": (
        "shapes", "    if (warp == 0) {\n", "    {\n", "for the second time", "tcgen05_dealloc"),
    "more is given back than was taken": (
        "shapes", "tcgen05_dealloc<COLUMNS>", "tcgen05_dealloc<2 * COLUMNS>",
        "but 32 were allocated there", "tcgen05_dealloc"),
    "allocated after the permit is gone": (
        "shapes", "    if (warp == 0) ptx::tcgen05_alloc",
        "    if (warp == 0) ptx::tcgen05_relinquish_alloc_permit();\n"
        "    if (warp == 0) ptx::tcgen05_alloc", "gave up the right to", "tcgen05_alloc"),
    "the copy is not committed": (
        "copied", "        ptx::tcgen05_commit(&done);\n", "", "deadlock", "mbarrier_wait"),
    "nobody waits for the copy": (
        "copied", "    ptx::mbarrier_wait(&done, 0);\n", "",
        "has not waited for an mbarrier|waited", "tcgen05_ld_32x32b_x32"),
    "the rows are stored without a proxy fence": (
        "copied", "    ptx::fence_proxy_async_shared();  // the copy sees the rows\n", "",
        "no fence.proxy.async", CP),
    "the copy begins in the second quarter": (
        "copied", '"r"(base), "l"', '"r"(base + (32 << 16)), "l"', "begins at lane 32",
        CP),
    "a copy over stores that were not waited for": (
        "copied", "    ptx::tcgen05_wait_st();\n", "", "waited|wait::st", CP),
    "P is stored and not waited for": (
        "a_in_tensor_memory", "    ptx::tcgen05_wait_st();\n", "", "wait::st", "tcgen05_st_32"),
    "P is not everybody's yet": (
        "a_in_tensor_memory", "    __syncthreads();  // all of P is there\n", "",
        "A in tensor memory", "ptx::tcgen05_mma"),
    "P lies where the sum does": (
        "a_in_tensor_memory", "P = DEPTH;", "P = 32;  ", "over its own A",
        "tcgen05_mma_f16"),
    "a step of 16 columns": (
        "a_in_tensor_memory", "STEP / 2 * step", "STEP * step", "nobody has written",
        "tcgen05_mma_f16"),
    "A is called MN-major": (
        "a_in_tensor_memory", "ptx::tcgen05_bf16_f32(ROWS, DEPTH)",
        "ptx::tcgen05_bf16_f32(ROWS, DEPTH) | 1 << 15", "is K-major", "tcgen05_mma_f16"),
    "V is not swizzled": (
        "a_in_tensor_memory", "(key / 8 ^ d % 8) * 8 + key % 8", "key", "WRONG", ""),
    "the sum begins with what was there": (
        "a_in_tensor_memory", "step > 0", "true", "nobody has written", "tcgen05_mma_f16"),
}  # fmt: skip
"""The kernel, what is replaced by what, what must be said, what stands in the line named."""


def verdict(kernel: str, text: str) -> str:
    """All that the emulator says about a variant, under the schedule that shows it."""
    said = []
    for schedule in ("late", "random"):
        try:
            if kernel == "a_in_tensor_memory":
                run, right = cells.weigh(text, schedule=schedule)
            elif kernel == "shapes":
                got, run = cells.fetch(text, schedule=schedule)
                right = bool((got[:128] >= 0).all())
            else:
                lanes = np.full((128, 8), -2, np.int32)
                run = compile(text, "sm_100a")["copied"].launch(1, 128, [lanes], schedule=schedule)
                right = lanes[:, 0].tolist() == [*range(128)]
            said += [*map(str, run.findings), "" if right else "WRONG"]
        except EmulatorError as error:
            said += [str(error), *map(str, error.findings)]
    return "\n".join(said)


@pytest.mark.nvcc
@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_is_found(name: str) -> None:
    kernel, old, new, words, place = MISTAKES[name]
    text = replace_once(files.kernel(f"tensor_memory/{kernel}"), old, new)
    said = verdict(kernel, text)
    assert re.search(words, said), said
    there = {i for i, line in enumerate(text.splitlines(), 1) if place and re.search(place, line)}
    named = {int(number) for number in re.findall(r"(?:\.cu:|\bline )(\d+)", said)}
    assert not place or there & named, f"lines {sorted(there)} are not named:\n{said}"


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", ["shapes", "copied", "a_in_tensor_memory"])
def test_nothing_is_said_of_what_is_right(kernel: str) -> None:
    assert not verdict(kernel, files.kernel(f"tensor_memory/{kernel}")).strip()


@pytest.mark.nvcc
def test_a_in_tensor_memory_has_a_row_in_each_lane_and_two_numbers_in_a_column() -> None:
    lines = cells.weights_in_lanes().alt.splitlines()[1:]
    for lane, line in zip((0, 1, 31, 32, 127), lines, strict=True):
        found = re.findall(r"(\d+): (\d+), (\d+)", line)
        assert found == [(str(lane), str(2 * c), str(2 * c + 1)) for c in range(8)]


@pytest.mark.nvcc
@SCHEDULES
@pytest.mark.parametrize(("width", "shift"), [(4, 2), (6, 0)])
def test_a_copy_gives_each_short_number_a_byte(width: int, shift: int, schedule: Any) -> None:
    before, after = cells.unpacked(width, schedule=schedule)
    assert list(after) == [number << shift for number in range(16)]
    packed = int.from_bytes(before, "little")
    assert [packed >> width * i & (1 << width) - 1 for i in range(16)] == list(range(16))
    assert packed >> 16 * width == (1 << 128 - 16 * width) - 1  # the padding


@pytest.mark.nvcc
def test_the_bytes_before_and_after_stand_beneath_each_other() -> None:
    rows = dict(cells.unpackings().rows)
    assert rows["4 bits, shared memory"].startswith("10 32 54")
    assert rows["4 bits, tensor memory"].startswith("00 04 08")
    assert rows["6 bits, tensor memory"].endswith("0d 0e 0f")
