"""Copies by themselves: stretches of bytes, what a reduction makes of two, who is told and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.copy_engine import bulk_copies
from phasebit.emulator.copy_engine.bulk_copies import BulkCopy, Reduced, Stretch, combine
from phasebit.emulator.copy_engine.tensor_copy import Box, converted, places, rows_at, tile
from phasebit.emulator.copy_engine.tensormap import Descriptor, TensorMap
from phasebit.emulator.machine.agents import CopiesArrive, ThreadCopy
from phasebit.emulator.machine.device_memory import Memory
from phasebit.emulator.ptx.placement import GLOBAL_BASE


def memory(size: int = 4096) -> Memory:
    made = Memory()
    made.u1[:size] = np.arange(size) % 251
    return made


# -- a stretch of bytes ---------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "size", "shift", "words"), [
    (16, 8, 2, [4, 5]), (16, 16, 3, [2, 3]), (18, 4, 2, [4, 5]), (16, 5, 2, [4, 5]),
    (19, 1, 2, [4]), (16, 0, 2, []), (32, 4, 0, [32, 33, 34, 35]),
])  # fmt: skip
def test_a_stretch_touches_the_words_of_its_bytes(
    start: int, size: int, shift: int, words: list[int]
) -> None:
    assert Stretch(memory(), start, size, "shared").words(shift).tolist() == words


def test_a_stretch_is_read_once_and_written_where_it_lies() -> None:
    there = memory()
    side = Stretch(there, 16, 4, "global")
    before = side.read()
    side.write(np.array([9, 8, 7, 6], np.uint8))
    assert before.tolist() == [16, 17, 18, 19] and there.u1[15:21].tolist() == [15, 9, 8, 7, 6, 20]
    reduced = Reduced(side, "add", "u32")
    assert reduced.space == "global" and reduced.read().tolist() == [9, 8, 7, 6]
    assert reduced.words(2).tolist() == [4]
    reduced.write(np.array([1, 0, 0, 1], np.uint8))
    assert there.u1[15:21].tolist() == [15, 10, 8, 7, 7, 20]


# -- what a reduction makes of two ----------------------------------------------------------------


def combined(op: str, kind: str, old: list[Any], new: list[Any], form: str) -> list[Any]:
    a, b = np.array(old, form), np.array(new, form)
    op, kind = "".join(op), "".join(kind)  # not the very strings that they are compared with
    found = combine(op, kind, a.view(np.uint8), b.view(np.uint8))
    assert found.dtype == np.uint8 and len(found) == a.nbytes
    return found.view(form).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(("op", "kind", "form", "expected"), [
    ("add", "u32", "u4", [8, 4]), ("add", "s32", "i4", [8, 4]), ("add", "u64", "u8", [8, 4]),
    ("min", "u32", "u4", [3, 5]), ("max", "u32", "u4", [5, 2**32 - 1]),
    ("min", "s32", "i4", [3, -1]), ("max", "s32", "i4", [5, 5]), ("min", "s64", "i8", [3, -1]),
    ("max", "u64", "u8", [5, 2**64 - 1]), ("and", "b32", "u4", [1, 5]),
    ("or", "b32", "u4", [7, 2**32 - 1]), ("xor", "b32", "u4", [6, 2**32 - 6]),
    ("xor", "b64", "u8", [6, 2**64 - 6]),
])  # fmt: skip
def test_whole_numbers_and_bits(op: str, kind: str, form: str, expected: list[int]) -> None:
    minus = -1 if form[0] == "i" else (1 << 8 * int(form[1])) - 1
    assert combined(op, kind, [3, 5], [5, minus], form) == expected


def test_counters_go_round_at_the_operand() -> None:
    """PTX ISA 9.7.13.5: ``inc`` gives 0 from the operand on, ``dec`` the operand from 0."""
    old, bound = [0, 4, 5, 6], [5, 5, 5, 5]
    assert combined("inc", "u32", old, bound, "u4") == [1, 5, 0, 0]
    assert combined("dec", "u32", old, bound, "u4") == [5, 3, 4, 5]


TINY = 2.0**-140


def test_f32_keeps_what_is_tiny_unless_its_elements_are_flushed() -> None:
    assert combined("add", "f32", [TINY, 1.5], [TINY, 2.0], "f4") == [2 * TINY, 3.5]
    assert combined("add", "tf32", [TINY, 1.5], [TINY, 2.0], "f4") == [2 * TINY, 3.5]
    assert combined("add", "f32.ftz", [TINY, 1.5], [TINY, 2.0], "f4") == [0.0, 3.5]
    assert combined("add", "f32.ftz", [2.0**-126], [-(2.0**-126) - TINY], "f4") == [0.0]
    assert combined("add", "tf32.ftz", [TINY], [1.0], "f4") == [1.0]


def test_nans_of_f32_are_one_and_those_of_f64_are_passed_on() -> None:
    nans = np.array([0x7FA00001, 0xFFC00002], np.uint32)
    found = combine("add", "f32", nans.view(np.uint8), np.ones(2, np.float32).view(np.uint8))
    assert found.view(np.uint32).tolist() == [0x7FFFFFFF] * 2
    old = np.array([0x7FF0000000000001, 0x3FF0000000000000, 0x7FF8000000000005], np.uint64)
    new = np.array([0x3FF0000000000000, 0xFFF0000000000002, 0x7FF0000000000006], np.uint64)
    found = combine("add", "f64", old.view(np.uint8), new.view(np.uint8)).view(np.uint64)
    assert found.tolist() == [old[0], new[1], new[2]], "of two that of the addend"
    assert combined("add", "f64", [1.5], [TINY], "f8") == [1.5]


@pytest.mark.parametrize(("kind", "one", "two", "three"), [
    ("f16", 0x3C00, 0x4000, 0x4200), ("bf16", 0x3F80, 0x4000, 0x4040),
])  # fmt: skip
def test_halves_are_added_and_compared(kind: str, one: int, two: int, three: int) -> None:
    assert combined("add", kind, [one, 0], [two, one], "u2") == [three, one]
    assert combined("min", kind, [one, two], [two, one], "u2") == [one, one]
    assert combined("max", kind, [one, two], [two, one], "u2") == [two, two]
    nan = 0x7FFF
    assert combined("max", kind, [nan, one], [one, nan], "u2") == [one, one]


# -- a copy under way -----------------------------------------------------------------------------


def batch(**more: Any) -> Any:
    machine = SimpleNamespace(agents=[], schedule="late", changes=0, now=7, memory=memory(), **more)
    return SimpleNamespace(machine=machine)


def test_a_copy_reads_once_and_tells_when_it_has_written() -> None:
    made, told = batch(), []
    there = made.machine.memory
    source, target = Stretch(there, 16, 4, "global"), Stretch(there, 64, 4, "shared")
    copy = BulkCopy(made, np.array([3]), source, target, 4, 9, None,
                    lambda: told.append(there.u1[64:68].tolist()))  # fmt: skip
    assert not copy.signals and not copy.reduces and not copy.freed and copy.reads is None
    assert (copy.size, copy.access, copy.started, copy.data) == (4, 9, 7, None)
    copy.start()
    copy.fetch()
    there.u1[16:20] = 0
    copy.fetch()
    assert not told and there.u1[64:68].tolist() == [64, 65, 66, 67]
    copy.finish()
    assert told == [[16, 17, 18, 19]] and not made.machine.agents
    site: Any = object()
    reducing = BulkCopy(made, np.array([3]), source, Reduced(target, "add", "u32"), 4, 9, site,
                        lambda: None)  # fmt: skip
    assert reducing.signals and reducing.reduces and reducing.site is site


def test_bulk_groups_begin_with_none_closed() -> None:
    made: Any = SimpleNamespace(lanes=5)
    made.of = lambda kind: kind(made)
    groups = bulk_copies.bulk_groups(made)
    assert groups.closed.tolist() == [0] * 5 and groups.copies == []


def test_a_thread_copies_its_bytes_and_fills_the_rest_with_zeros() -> None:
    made = batch()
    there = made.machine.memory
    copy = ThreadCopy(made, np.array([0, 1, 2]), np.array([64, 80, 96]), np.array([16, 24, 32]), 4,
                      np.array([4, 2, 0]), np.array([1, 1, 1]), 5)  # fmt: skip
    assert not copy.signals and copy.started == 7 and copy.access == 5
    copy.finish()
    assert there.u1[64:69].tolist() == [16, 17, 18, 19, 68]
    assert there.u1[80:85].tolist() == [24, 25, 0, 0, 84]
    assert there.u1[96:101].tolist() == [0, 0, 0, 0, 100]
    whole = ThreadCopy(made, np.array([0]), np.array([64]), np.array([32]), 2, 2, np.array([1]), 5)
    whole.finish()
    assert there.u1[64:67].tolist() == [32, 33, 18]


def test_an_arrival_comes_after_the_copies_before_it() -> None:
    made, order = batch(), []
    copies: Any = [SimpleNamespace(finish=lambda n=n: order.append(n)) for n in range(2)]
    arrival = CopiesArrive(made, copies, lambda: order.append("arrives"))
    assert arrival.signals
    arrival.start()
    assert order == []
    arrival.finish()
    arrival.finish()
    assert order == [0, 1, "arrives"]


# -- boxes in shared memory -----------------------------------------------------------------------


def box(swizzle: str = "none", row: int = 32, rows: int = 3, start: int = 1024) -> Box:
    d = Descriptor("u8", 0, (256, 64), (256,), (row, rows), (1, 1), swizzle="".join(swizzle))
    return Box(memory(8192), start, d)


@pytest.mark.parametrize(("swizzle", "row", "rows"), [
    ("none", 32, 3), ("32B", 32, 4), ("32B", 32, 3), ("64B", 64, 6), ("64B", 32, 5),
    ("128B", 128, 9), ("128B", 64, 9), ("128B", 16, 2), ("128B_ATOM_32B", 128, 8),
    ("128B_ATOM_32B_FLIP_8B", 128, 8), ("128B_ATOM_64B", 128, 3),
])  # fmt: skip
@pytest.mark.parametrize("start", [1024, 1152, 2048 + 384])
def test_a_box_touches_the_words_where_its_bytes_go(
    swizzle: str, row: int, rows: int, start: int
) -> None:
    made = box(swizzle, row, rows, start)
    made.memory.u1[:] = 0
    data = (np.arange(row * rows) % 255 + 1).astype(np.uint8)
    made.write(data)
    touched = np.flatnonzero(made.memory.u1)
    assert len(touched) == row * rows and touched[0] >= start
    assert np.array_equal(made.read(), data)
    for shift in (2, 3):
        assert made.words(shift).tolist() == np.unique(touched >> shift).tolist()
    kept = np.zeros(row * rows, bool)
    kept[: row // 2] = kept[row * rows - 3 :] = True
    made.memory.u1[:] = 0
    made.write(np.where(kept, data, 0).astype(np.uint8))
    some = np.unique(np.flatnonzero(made.memory.u1) >> 2)
    assert made.words(2, kept).tolist() == some.tolist()


@pytest.mark.parametrize("rows", [5, 8])
@pytest.mark.parametrize("swizzle", ["32B", "64B"])
def test_slices_of_channels_are_swizzled_across_rows(swizzle: str, rows: int) -> None:
    """5.5.6: rows of one pixel's 16 bytes lie densely, and are narrower than the span."""
    d = Descriptor(
        "u8", 0, (8, 8, 4, 2), (128, 1024, 4096), (1, rows, 1, 1), (1, 1, 1, 1), "16B", swizzle
    )
    made = Box(memory(8192), 1024, d.plain())
    assert (made.row, made.pitch, made.size) == (16, 16, 16 * rows)
    made.memory.u1[:] = 0
    made.write(np.ones(16 * rows, np.uint8))
    touched = np.flatnonzero(made.memory.u1)
    assert made.words(2).tolist() == np.unique(touched >> 2).tolist()


def test_where_a_narrow_tile_goes() -> None:
    """Rows of 32 bytes, a span of 128 apart: chunk 0 of row r lies at chunk r of its span."""
    where, unit = places("128B", 0, 96, 32, 128)
    assert unit == 16 and where.tolist() == [0, 1, 8 + 1, 8 + 0, 16 + 2, 16 + 3]
    where, unit = places("128B", 128, 32, 32, 128)
    assert where.tolist() == [1, 0], "relative to its begin, in row 1 of the pattern"
    assert places("128B_ATOM_32B_FLIP_8B", 0, 32, 32, 128)[1] == 8


# -- rows in global memory ------------------------------------------------------------------------


def tensor(there: Memory, kind: str = "u8", **more: Any) -> Descriptor:
    """Four rows of 20 elements, 64 bytes apart, at byte 512 of the buffer."""
    given: dict[str, Any] = {
        "data_type": kind, "address": GLOBAL_BASE + 512, "dims": (20, 4), "strides": (64,),
        "box": (16, 2), "element_strides": (1, 1),
    }  # fmt: skip
    made = given | more  # no word is the very string that it is compared with
    return Descriptor(**{n: "".join(v) if isinstance(v, str) else v for n, v in made.items()})


@pytest.mark.parametrize(("at", "columns", "rows"), [
    ((0, 0), range(16), (0, 1)), ((8, 1), range(8, 20), (1, 2)), ((-3, 3), range(13), (3,)),
    ((4, -1), range(4, 20), (0,)), ((20, 0), range(0), (0, 1)), ((0, 4), range(16), ()),
    ((-16, 0), range(0), (0, 1)), ((0, -2), range(16), ()),
])  # fmt: skip
def test_a_load_takes_what_is_inside_and_fills_the_rest(
    at: tuple[int, int], columns: range, rows: tuple[int, ...]
) -> None:
    there = memory()
    made = tile(there, tensor(there), at, False)
    expected, kept = np.zeros((2, 16), np.uint8), np.zeros((2, 16), bool)
    words = set()
    for y in rows:
        for x in columns:
            place = 512 + 64 * y + x
            expected[y - at[1], x - at[0]] = place % 251
            kept[y - at[1], x - at[0]] = True
            words.add(place >> 2)
    assert np.array_equal(made.read(), expected.ravel())
    whole = made.kept()
    assert kept.all() if whole is None else np.array_equal(whole, kept.ravel())
    assert (whole is None) == bool(kept.all())
    assert sorted(made.words(2).tolist()) == sorted(words)


@pytest.mark.parametrize(("at", "columns", "rows"), [
    ((0, 0), range(16), (0, 1)), ((16, 1), range(16, 32), (1, 2)), ((0, 3), range(16), (3,)),
    ((32, 0), range(0), ()), ((0, 4), range(16), ()),
])  # fmt: skip
def test_a_store_writes_whole_pieces_of_16_bytes(
    at: tuple[int, int], columns: range, rows: tuple[int, ...]
) -> None:
    there = memory()
    before = there.u1[:1024].copy()
    data = np.arange(200, 232).astype(np.uint8)
    tile(there, tensor(there), at, True).write(data)
    for y in rows:
        for x in columns:
            before[512 + 64 * y + x] = data[16 * (y - at[1]) + x - at[0]]
    assert np.array_equal(there.u1[:1024], before)


def test_elements_outside_may_be_filled_with_a_nan() -> None:
    there = memory()
    for kind, size in (("f16", 2), ("f32", 4)):
        made = tile(there, tensor(there, kind, oob_fill="nan", box=(8, 1)), (16, 0), False)
        found = made.read().view(np.uint16)
        assert (found[4 * size // 2 :] == 0x7FF7).all()
        inside = there.u1[512 + 16 * size :][: 4 * size]
        assert found[: 4 * size // 2].tobytes() == inside.tobytes()


def test_rows_are_taken_in_the_order_in_which_they_are_named() -> None:
    there = memory()
    whole = rows_at(there, tensor(there, box=(16, 4)), 2, [3, 0, -1, 4], False)
    expected = np.zeros((4, 16), np.uint8)
    for n, row in enumerate((3, 0)):
        expected[n] = [(512 + 64 * row + 2 + x) % 251 for x in range(16)]
    assert np.array_equal(whole.read(), expected.ravel())
    inside = rows_at(there, tensor(there, box=(16, 2)), 0, [3, 0], False)
    assert inside.inside is None and inside.kept() is None


@pytest.mark.parametrize("at", [(1, 2, 0), (4, 0, 1), (-2, 1, 0), (0, 3, 0), (0, 1, -1)])
def test_interleaved_channels_are_taken_slice_by_slice(at: tuple[int, int, int]) -> None:
    """5.5.6: pixels of 16 bytes; the last dimension but one counts slices, of which a box has one.

    Six pixels, three slices, two images.
    """
    there = memory()
    d = tensor(there, dims=(6, 3, 2), strides=(96, 288), box=(4, 2, 2), element_strides=(1, 1, 1),
               interleave="16B", mode="tile")  # fmt: skip
    expected = np.zeros((2, 4, 16), np.uint8)
    for n in range(2):
        for w in range(4):
            x, s, image = at[0] + w, at[1], at[2] + n
            if 0 <= x < 6 and 0 <= s < 3 and 0 <= image < 2:
                place = 512 + 16 * x + 96 * s + 288 * image
                expected[n, w] = np.arange(place, place + 16) % 251
    assert np.array_equal(tile(there, d.plain(), at, False).read(), expected.ravel())


def test_what_a_load_of_tf32_rounds() -> None:
    """To 10 bits, ties to even; its NaNs are one."""
    bits = np.array([0x3F801000, 0x3F803000, 0x3F800FFF, 0x3F801001, 0xFF800000, 0x7F800001,
                     0xFFC00000, 0xBF803000], np.uint32)  # fmt: skip
    found = converted("tf32", bits.view(np.uint8)).view(np.uint32).tolist()
    assert found == [0x3F800000, 0x3F804000, 0x3F800000, 0x3F802000, 0xFF800000, 0x7FFFE000,
                     0x7FFFE000, 0xBF804000]  # fmt: skip
    assert converted("f32", bits) is bits and converted("f32.ftz", bits) is bits


# -- maps in words --------------------------------------------------------------------------------


def test_a_tensor_map_says_what_it_is_of() -> None:
    made = TensorMap(np.zeros((8, 64), np.float16), (32, 4), swizzle="64B")
    assert repr(made) == "<TensorMap of f16 (64, 8), box (32, 4), swizzle 64B>"
    assert made.nbytes == 256
