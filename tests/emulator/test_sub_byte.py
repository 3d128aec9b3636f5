"""Numbers of 4 and 6 bits: their places in bytes, and tensor copies of them.

PTX ISA 5.5.1.1 (padding), 9.7.9.27.1.1 (restrictions), 9.7.16.10.4 (packing); the rules of the
driver's cuTensorMapEncodeTiled.  The oracle writes number by number.
"""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import phasebit as pb
from phasebit import process, toolchain
from phasebit.emulator.copy_engine import sub_byte_copy
from phasebit.emulator.copy_engine.tensormap import Descriptor
from phasebit.emulator.errors import Deadlock, EmulatorError, LaunchError
from phasebit.emulator.numbers import sub_byte
from tests.emulator import tensors
from tests.emulator.tensor_ptx import HEAD, run

Array = NDArray[Any]
WIDTH = {"b4x16": 4, "b4x16_p64": 4, "b6x16_p32": 6}


def packed(row: list[int], width: int) -> bytes:
    return sum(x << width * i for i, x in enumerate(row)).to_bytes(len(row) * width // 8, "little")


@pytest.mark.parametrize("width", [4, 6])
def test_9_7_16_10_4_the_places_are_each_other_s_reverse(width: int) -> None:
    codes = np.random.default_rng(width).integers(0, 1 << width, (5, 64)).astype(np.uint8)
    data = sub_byte.codes_to_packed(codes, width)
    assert [bytes(row) for row in data] == [packed(row, width) for row in codes.tolist()]
    assert np.array_equal(sub_byte.packed_to_codes(data, width), codes)
    slots = sub_byte.packed_to_slots(data, width, 0xEE)
    assert slots.shape == (5, 64)
    assert (slots.reshape(5, 4, 16)[..., 2 * width :] == 0xEE).all()
    assert np.array_equal(sub_byte.slots_to_codes(slots, width), codes)
    held = sub_byte.codes_to_containers(codes, width)
    assert np.array_equal(held, codes << (2 if width == 4 else 0))
    assert np.array_equal(sub_byte.containers_to_codes(held | 3 * (width == 4), width), codes)


@pytest.mark.parametrize("width", [4, 6])
@pytest.mark.parametrize("outer", [(), (2,), (2, 3)])
def test_slots_of_any_number_of_rows(width: int, outer: tuple[int, ...]) -> None:
    """Each 16 bytes by themselves: what is in the gap counts nowhere."""
    random = np.random.default_rng(width)
    slots = random.integers(0, 256, (*outer, 48), dtype=np.uint8)
    got = sub_byte.slots_to_codes(slots, width)
    assert got.shape == slots.shape
    for index in np.ndindex(outer):
        for i in range(0, 48, 16):
            whole = int.from_bytes(bytes(slots[*index, i : i + 2 * width]), "little")
            codes = [whole >> width * k & (1 << width) - 1 for k in range(16)]
            assert got[*index, i : i + 16].tolist() == codes
    looked_at = [16 * slot + byte for slot in range(3) for byte in range(2 * width)]
    assert sub_byte.in_slots(np.arange(48), width).ravel().tolist() == looked_at


def a_map(kind: str, **more: Any) -> tuple[pb.TensorMap, Array, Array]:
    """A tensor of 6 rows of 256 numbers in memory, and the numbers."""
    width = WIDTH[kind]
    codes = np.random.default_rng(3).integers(0, 1 << width, (6, 256)).astype(np.uint8)
    data = np.zeros((6, 256 * width // 8), np.uint8)
    for row, numbers in zip(data, codes.tolist(), strict=True):
        row[:] = np.frombuffer(packed(numbers, width), np.uint8)
    more = {"box": (128, 4), "dims": (256, 6), "strides": (data.shape[1],), **more}
    return pb.TensorMap(data, data_type=kind, **more), data, codes


class TestRules:
    """The checks of cuTensorMapEncodeTiled for packed types."""

    @pytest.mark.parametrize(("kind", "changes", "says"), [
        ("b4x16_p64", {"box": (64, 4)}, "has 128 elements in dimension 0"),
        ("b6x16_p32", {"box": (256, 4)}, "has 128 elements in dimension 0"),
        ("b6x16_p32", {"dims": (192, 6)}, "rows of 128 elements"),
        ("b4x16", {"dims": (255, 6)}, "come in pairs"),
        ("b4x16", {"box": (16, 4)}, "no multiple of 16"),
        ("b4x16_p64", {"strides": (144,)}, "multiple of 32"),
        ("b4x16_p64", {"swizzle": "64B"}, "takes the swizzles none, 128B, 128B_ATOM_32B"),
        ("b4x16_p64", {"swizzle": "128B_ATOM_64B"}, "takes the swizzles"),
        ("b6x16_p32", {"swizzle": "128B_ATOM_32B_FLIP_8B"}, "takes the swizzles"),
        ("b4x16", {"oob_fill": "nan"}, "only floating-point"),
        ("b6x16_p32", {"dims": (128, 6, 2), "box": (128, 4, 1), "strides": (96, 576),
                       "interleave": "16B"}, "cannot be interleaved"),
    ])  # fmt: skip
    def test_a_broken_rule_is_named(self, kind: str, changes: dict[str, Any], says: str) -> None:
        with pytest.raises(LaunchError, match=says):
            a_map(kind, **changes)

    @pytest.mark.parametrize(("kind", "nbytes"), [("b4x16", 256), ("b4x16_p64", 256),
                                                  ("b6x16_p32", 384)])  # fmt: skip
    def test_the_barrier_counts_the_numbers_not_the_gaps(self, kind: str, nbytes: int) -> None:
        assert a_map(kind)[0].nbytes == nbytes


KERNEL = (
    HEAD
    + """
.visible .entry kernel(.param .align 64 .b8 map[128], .param .u64 tile, .param .u32 first,
    .param .u32 row, .param .u32 expected)
{
    .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<9>;
    .shared .align 1024 .b8 room[512]; .shared .align 8 .b64 full;
    ld.param.u64 %rd1, [tile]; ld.param.u32 %r2, [first]; ld.param.u32 %r3, [row];
    ld.param.u32 %r4, [expected]; mov.b64 %rd2, map; cvta.param.u64 %rd3, %rd2;
    mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; shl.b32 %r5, %r1, 4;
    mov.u32 %r6, room; add.u32 %r7, %r6, %r5; cvt.u64.u32 %rd4, %r5; add.u64 %rd1, %rd1, %rd4;
    ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%rd1];
    st.shared.v4.u32 [%r7], {%r8, %r9, %r10, %r11};
    @!%p1 bra START;
    mbarrier.init.shared::cta.b64 [full], 1; fence.mbarrier_init.release.cluster;
START:
    fence.proxy.async;
    bar.sync 0;
    VERB
    ret;
}
"""
)
LOAD = """
    @!%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], %r4;
    cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
        [%r6], [%rd3, {%r2, %r3}], [full];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0; @!%p2 bra WAIT;
    ld.shared.v4.u32 {%r8, %r9, %r10, %r11}, [%r7];
    st.global.v4.u32 [%rd1], {%r8, %r9, %r10, %r11};
"""
STORE = """
    @!%p1 bra END;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd3, {%r2, %r3}], [%r6];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
END:
"""
ADD = STORE.replace("cp.async.bulk.tensor.2d.global.shared::cta.tile",
                    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile")  # fmt: skip


def move(
    kind: str, verb: str, at: tuple[int, int], tile: Array, swizzle: str = "none",
    schedule: str = "late",
) -> Array:  # fmt: skip
    """Move one box between the tensor and 512 bytes of shared memory; the tensor's bytes after."""
    made, data, _ = a_map(kind, swizzle=swizzle)
    run(KERNEL.replace("VERB", verb), made, tile, *at, made.nbytes, threads=32, schedule=schedule)
    return data


@pytest.mark.parametrize("swizzle", ["none", "128B", "128B_ATOM_32B"])
@pytest.mark.parametrize("row", [0, 1, -2, 4])
@pytest.mark.parametrize("kind", ["b4x16_p64", "b6x16_p32"])
def test_5_5_1_1_a_load_makes_slots(kind: str, row: int, swizzle: str) -> None:
    """16 numbers at the beginning of 16 bytes; rows outside of the tensor are zeros."""
    tile, width = np.zeros(512, np.uint8), WIDTH[kind]
    *_, codes = a_map(kind)
    move(kind, LOAD, (128, row), tile, swizzle)
    for i, slot in itertools.product(range(4), range(8)):
        place = tensors.swizzled(128 * i + 16 * slot, swizzle)
        inside = 0 <= row + i < 6
        numbers = codes[row + i, 128 + 16 * slot :][:16].tolist() if inside else [0] * 16
        assert tile[place : place + 2 * width].tobytes() == packed(numbers, width)


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("first", [0, 2, 200, -6])
def test_5_5_1_1_numbers_of_4_bits_stay_packed(first: int, schedule: str) -> None:
    tile = np.zeros(512, np.uint8)
    *_, codes = a_map("b4x16")
    move("b4x16", LOAD, (first, 1), tile, schedule=schedule)
    for i in range(4):
        numbers = [int(codes[1 + i, c]) if 0 <= c < 256 else 0 for c in range(first, first + 128)]
        assert tile[64 * i : 64 * i + 64].tobytes() == packed(numbers, 4)


@pytest.mark.parametrize("swizzle", ["none", "128B", "128B_ATOM_32B", "128B_ATOM_64B"])
def test_5_5_1_1_a_store_takes_six_bits_of_each_byte(swizzle: str) -> None:
    """b6p2x16: the upper two bits of a byte are dropped; nothing is written outside."""
    tile = np.random.default_rng(8).integers(0, 256, 512).astype(np.uint8)
    _, before, _ = a_map("b6x16_p32")
    data = move("b6x16_p32", STORE, (128, 4), tile.copy(), swizzle)
    assert np.array_equal(data[:4], before[:4]) and np.array_equal(data[:, :96], before[:, :96])
    for i in range(2):
        held = [int(tile[tensors.swizzled(128 * i + c, swizzle)]) & 63 for c in range(128)]
        assert data[4 + i, 96:].tobytes() == packed(held, 6)


def test_5_5_1_1_a_store_of_packed_numbers() -> None:
    tile = np.random.default_rng(8).integers(0, 256, 512).astype(np.uint8)
    _, before, _ = a_map("b4x16")
    data = move("b4x16", STORE, (64, 0), tile.copy())
    before[:4, 32:96] = tile[:256].reshape(4, 64)
    assert np.array_equal(data, before)


@pytest.mark.parametrize(("kind", "verb", "first", "swizzle", "says"), [
    ("b4x16_p64", LOAD, 64, "none", "with b4x16_p64 it is a multiple of 128"),
    ("b6x16_p32", STORE, 16, "none", "with b6x16_p32 it is a multiple of 128"),
    ("b4x16", LOAD, 1, "none", "with b4x16 it is a multiple of 2"),
    ("b4x16_p64", STORE, 0, "none", "cannot be copied from shared to global"),
    ("b6x16_p32", LOAD, 0, "128B_ATOM_64B", "for copies to global memory only"),
    ("b4x16", ADD, 0, "none", "cp.reduce does not take elements of b4x16"),
])  # fmt: skip
def test_9_7_9_27_1_1_a_broken_restriction_is_named(
    kind: str, verb: str, first: int, swizzle: str, says: str
) -> None:
    with pytest.raises(EmulatorError, match=says):
        move(kind, verb, (first, 0), np.zeros(512, np.uint8), swizzle)


def test_a_barrier_that_expects_the_gaps_waits_for_ever() -> None:
    made, _, _ = a_map("b4x16_p64")
    text = KERNEL.replace("VERB", LOAD)
    with pytest.raises(Deadlock, match="256"):
        run(text, made, np.zeros(512, np.uint8), 0, 0, 512, threads=32)


@pytest.mark.nvcc
@pytest.mark.parametrize("verb", [LOAD, STORE, ADD], ids=["load", "store", "add"])
def test_ptxas_takes_it(verb: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.ptx"
    path.write_text(KERNEL.replace("VERB", verb))
    command = toolchain.nvcc_command("cubin", "sm_100a")
    done = process.run([*command, path, "-o", tmp_path / "kernel.cubin"], timeout=60)
    assert done.ok and not done.stderr, done.stderr


# -- the parts of such a copy ---------------------------------------------------------------------

PACKED = Descriptor("b4x16", 4096, (256, 6), (128,), (64, 4), (1, 1))
FOUR = Descriptor("b4x16_p64", 4096, (256, 6), (128,), (128, 4), (1, 1))
SIX = Descriptor("b6x16_p32", 4096, (256, 6), (192,), (128, 4), (1, 1))


@pytest.mark.parametrize(("d", "dims", "box", "inner"), [
    (PACKED, (128, 6), (32, 4), 32), (FOUR, (128, 6), (64, 4), 128), (SIX, (192, 6), (96, 4), 128),
])  # fmt: skip
def test_a_copy_is_one_of_bytes(d: Descriptor, dims: Any, box: Any, inner: int) -> None:
    there, here = sub_byte_copy.in_global(d), sub_byte_copy.in_shared(d)
    assert (there.data_type, there.dims, there.box) == ("u8", dims, box)
    assert (here.data_type, here.dims, here.box) == ("u8", d.dims, (inner, 4))
    assert there.strides == here.strides == d.strides and there.bits == 8


@pytest.mark.parametrize(("d", "first", "direction", "said"), [
    (PACKED, 0, "load", ""), (PACKED, 2, "store", ""), (FOUR, 128, "load", ""),
    (SIX, 256, "store", ""), (SIX, -128, "load", ""),
    (PACKED, 1, "load", "the first coordinate is 1; with b4x16 it is a multiple of 2"),
    (FOUR, 64, "load", "the first coordinate is 64; with b4x16_p64 it is a multiple of 128"),
    (SIX, 2, "store", "the first coordinate is 2; with b6x16_p32 it is a multiple of 128"),
    (PACKED, 0, "reduce", "cp.reduce does not take elements of b4x16"),
    (SIX, 0, "reduce", "cp.reduce does not take elements of b6x16_p32"),
    (FOUR, 0, "store", "elements of b4x16_p64 cannot be copied from shared to global memory"),
    (dataclasses.replace(SIX, swizzle="128B_ATOM_64B"), 0, "load",
     "b6x16_p32 with swizzle 128B_ATOM_64B is for copies to global memory only"),
    (dataclasses.replace(SIX, swizzle="128B_ATOM_64B"), 0, "store", ""),
    (dataclasses.replace(SIX, swizzle="128B_ATOM_32B"), 0, "load", ""),
    (dataclasses.replace(PACKED, swizzle="128B_ATOM_64B"), 0, "load", ""),
])  # fmt: skip
def test_what_a_copy_of_such_numbers_may_not(
    d: Descriptor, first: int, direction: str, said: str
) -> None:
    assert sub_byte_copy.problem(d, first, direction) == said


class RowsOfBytes:
    """Two rows in global memory."""

    def __init__(self, data: bytes) -> None:
        self.rows, self.data = 2, np.frombuffer(data, np.uint8)

    def read(self) -> Array:
        return self.data

    def write(self, data: Array) -> None:
        self.data = data

    def words(self, shift: int) -> Array:
        return np.array([shift])


@pytest.mark.parametrize("width", [4, 6])
def test_slots_have_sixteen_bytes_with_a_gap(width: int) -> None:
    codes = [[(5 * i + n) % (1 << width) for i in range(16)] for n in (1, 2)]
    rows: Any = RowsOfBytes(b"".join(packed(row, width) for row in codes))
    slots = sub_byte_copy.Slots(rows, width)
    expected = b"".join(packed(row, width).ljust(16, b"\xff") for row in codes)
    assert slots.read().tobytes() == expected and slots.space == "global"
    assert slots.words(3).tolist() == [3]
    if width == 6:  # of four bits none are written
        rows.data = None
        slots.write(np.array(codes, np.uint8).reshape(-1) | np.uint8(0x80))
        assert rows.data.tobytes() == b"".join(packed(row, width) for row in codes)
