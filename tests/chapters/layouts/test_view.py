"""Layouts are drawn as they are, compared honestly, and counted as the counters count."""

from __future__ import annotations

import random
from statistics import median

import pytest
from tensor_layouts import Layout, Swizzle, compose, logical_divide, size

from phasebit import measure
from phasebit.chapters.layouts import layouts_controls, packed_tables
from phasebit.chapters.layouts import view as layouts
from phasebit.chapters.tiling_on_the_gpu import ladder
from phasebit.emulator import fragments, swizzle


def test_a_nested_layout_is_its_loops() -> None:
    draw = random.Random(10)
    for _ in range(30):
        a, b, c = (draw.randint(1, 5) for _ in range(3))
        strides = [draw.randint(0, 40) for _ in range(3)]
        table = layouts.table(Layout((a, (b, c)), (strides[0], (strides[1], strides[2]))))
        for i in range(a):
            for j in range(b * c):
                offset = i * strides[0] + j % b * strides[1] + j // b * strides[2]
                assert table[i][j] == offset


def test_grid_says_every_offset() -> None:
    said = layouts.grid(Layout((2, 3), (3, 1)), "small").alt
    assert said.splitlines()[1:] == ["  0 | 0 1 2", "  1 | 3 4 5"]


def test_memory_shows_gaps_and_refuses_collisions() -> None:
    said = layouts.memory(Layout((2, 2), (3, 1)), 3, "padded").alt
    assert said.splitlines()[1].split("|")[1].split() == ["0,0", "0,1", "."]
    with pytest.raises(ValueError, match="draw it with grid"):
        layouts.memory(Layout((2, 2), (0, 1)), 4, "two in one place")


def test_threads_colours_only_whom_it_is_told() -> None:
    tv = Layout((4, 2), (1, 4))
    svg = layouts.threads(tv, (4, 2), "all of thread 1", coloured=(1,)).svg
    before, _, after = svg.partition("var(--pb-blue")  # the group of what is blue
    cells, _, rest = after.partition("</g>")
    assert cells.count("<rect") == 2 and "pb-blue" not in before + rest
    with pytest.raises(ValueError, match="in column 2 of 2"):
        layouts.owners(Layout((4, 3), (1, 4)), (4, 2))


def test_one_mode_is_no_grid() -> None:
    with pytest.raises(ValueError, match="not two modes"):
        layouts.table(Layout(8, 1))


@pytest.mark.parametrize(
    ("stride", "each", "lanes", "waves"),
    [
        (4, 4, 32, 1),
        (128, 4, 32, 32),
        (8, 4, 32, 2),
        (132, 4, 32, 1),
        (128, 16, 8, 8),
        (0, 4, 32, 1),
    ],
)
def test_wavefronts(stride: int, each: int, lanes: int, waves: int) -> None:
    assert layouts.wavefronts([i * stride for i in range(lanes)], each) == waves


def test_a_warp_has_32_lanes() -> None:
    with pytest.raises(ValueError, match="32 lanes"):
        layouts.wavefronts(range(33), 4)
    with pytest.raises(ValueError, match="1, 2, 4, 8 or 16 bytes, not 3"):
        layouts.wavefronts([0], 3)
    with pytest.raises(ValueError, match="op is 'fetch': give 'load' or 'store'"):
        layouts.wavefronts([0], 4, "fetch")


def test_compare_finds_a_difference() -> None:
    table = layouts.table(Layout((4, 4), (4, 1)))
    assert layouts.compare(Layout((4, 4), (4, 1)), table) == "equal for all 16 coordinates"
    table[3][3] += 1
    assert "(3, 3)" in layouts.compare(Layout((4, 4), (4, 1)), table)
    assert "the code 4 of 4" in layouts.compare(Layout((4, 3), (4, 1)), table)


@pytest.mark.parametrize(("row_bytes", "bits"), [(32, 1), (64, 2), (128, 3)])
def test_the_three_modes_are_one_formula(row_bytes: int, bits: int) -> None:
    mode = swizzle.SPANS[row_bytes]
    assert all(Swizzle(bits, 4, 3)(byte) == mode(byte) for byte in range(1 << 14))
    tile = compose(Swizzle(bits, 4, 3), Layout((64, row_bytes // 16), (row_bytes, 16)))
    for first in range(57):  # any eight rows, not only those from a multiple of eight on
        for chunk in range(row_bytes // 16):
            column = [tile(row, chunk) for row in range(first, first + 8)]
            assert layouts.wavefronts(column, 16) == 1


def test_fragments_are_the_emulators() -> None:
    from tensor_layouts.atoms_nv import SM80_16x8x16_F32BF16BF16F32_TN as MMA

    for atom, held, rows in (
        (MMA.a_layout, fragments.operand_a(16, 16, 2), 16),
        (MMA.c_layout, fragments.accumulator(16, 8), 16),
    ):
        for lane in range(32):
            for i in range(held.elements):
                place = int(held.row[lane, i]) + rows * int(held.column[lane, i])
                assert atom(lane, i) == place
    held = fragments.operand_b(8, 16, 2)  # CuTe's B is (N, K)
    for lane in range(32):
        for i in range(held.elements):
            assert MMA.b_layout(lane, i) == int(held.column[lane, i]) + 8 * int(held.row[lane, i])


def test_division_is_composition_with_the_complement() -> None:
    from tensor_layouts import complement

    a, tile = Layout((4, 6), (6, 1)), Layout(4, 2)
    divided = logical_divide(a, tile)
    rest = complement(tile, size(a))
    for i in range(4):
        for j in range(size(rest)):
            assert divided(i, j) == a(tile(i) + rest(j))


@pytest.mark.nvcc
def test_computed_asks_the_code() -> None:
    table = layouts.computed("row * 100 + col", (3, 300), "")
    assert table == [[row * 100 + col for col in range(300)] for row in range(3)]
    assert layouts.computed("MINE", (1, 2), "#define MINE 7") == [[7, 7]]


def test_a_swizzle_is_free_of_conflicts_where_its_mode_is_that_of_the_row() -> None:
    for row_bytes, bits in ((32, 1), (64, 2), (128, 3)):
        tile = Layout((64, row_bytes // 16), (row_bytes, 16))
        found = [layouts.column_of_chunks(compose(Swizzle(i, 4, 3), tile)) for i in (1, 2, 3)]
        assert found == [max(1, row_bytes >> i + 4) for i in (1, 2, 3)] and found[bits - 1] == 1


def test_a_rule_of_the_line_is_right_and_one_of_the_row_is_not() -> None:
    def of_line(row: int, chunk: int, chunks: int) -> int:
        return chunk ^ row * chunks // 8 % chunks

    for row_bytes, of_rows in ((128, 1), (64, 2), (32, 2)):
        assert layouts.columns_and_lines(of_line, row_bytes) == (1, 1)
        assert layouts.columns_and_lines(lambda r, c, p: c ^ r % p, row_bytes) == (of_rows, 1)


TILE, WARP = '#include "tensor_cores/tile.cuh"', '#include "tensor_cores/warp.cuh"'
CLAIMS = {
    "A of f32 products, padded": (
        Layout((8, 128), (132, 1)), "place(row, col)", "conflict_free"),
    "A of f32 products, swizzled": (
        compose(Swizzle(1, 4, 5), Layout((8, 128), (128, 1))), "place(row, col)", "swizzled"),
    "rows of 64 bytes": (
        compose(Swizzle(2, 4, 3), Layout((128, 4), (64, 16))), "place<32, true>(row, col)", TILE),
    "rows of 128 bytes": (
        compose(Swizzle(3, 4, 3), Layout((128, 8), (128, 16))), "place<64, true>(row, col)", TILE),
    "rows of 512 bytes": (
        compose(Swizzle(3, 4, 5), Layout((64, 32), (512, 16))), "place<256, true>(row, col)", TILE),
    "ldmatrix, by lane": (
        compose(Swizzle(3, 4, 3), Layout((4, (16, 2)), (16 * 128, (128, 16)))),
        "lane_a<64, true>(16 * row)", WARP),
}  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize("name", CLAIMS)
def test_tiles_are_the_layouts_that_they_are_said_to_be(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    layout, expression, code = CLAIMS[name]
    code = code if code.startswith("#") else ladder.text(code)
    layouts.beside_code(layout, expression, code)
    assert f"equal for all {size(layout):,} coordinates" in capsys.readouterr().out
    layouts.beside_code(layout, f"{expression} + (row == 3)", code)
    assert "differs at (3, 0)" in capsys.readouterr().out


def test_the_table_has_ways_with_their_own_times(capsys: pytest.CaptureFixture[str]) -> None:
    controls, record = (measure.read(name) for name in ("layouts_controls", "layouts"))
    table = packed_tables.brought(controls, record)
    named = packed_tables._NAMED
    assert set(named) < set(layouts_controls.WAYS)
    for name, row in zip(named, table.rows, strict=True):
        assert row[0] == named[name]
        assert row[-1] == f"{median(controls['times'][name]['times_us']):.0f}"
    first, second = (float(row[1]) for row in table.rows[:2])
    assert first > 1.1 * second
    assert "tiles save 209 µs; the second loop saves 195 of them" in capsys.readouterr().out
