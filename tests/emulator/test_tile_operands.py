"""Operands of the tensor cores where they lie: which bytes, which lanes, and what cannot be.

A batch of two blocks that nobody runs: 1024 bytes of memory before the first, 4096 for each.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.errors import Fault, OutOfBounds
from phasebit.emulator.findings import say
from phasebit.emulator.machine.events import Told
from phasebit.emulator.numbers import swizzle
from phasebit.emulator.ops.tcgen05_scaled import Scales
from phasebit.emulator.tensor_core import tensor_mma
from phasebit.emulator.tensor_core.instruction_descriptors import decode
from phasebit.emulator.tensor_core.instruction_descriptors import encode as idesc
from phasebit.emulator.tensor_core.matrix_descriptors import encode
from phasebit.emulator.tensor_core.regions import Region
from phasebit.emulator.tensor_core.scaled_descriptors import decode as decode_scaled
from phasebit.emulator.tensor_core.scaled_descriptors import encode as encode_scaled
from phasebit.emulator.tensor_core.tensor_memory import TensorMemory
from phasebit.emulator.tensor_core.tensor_metadata import Metadata
from phasebit.emulator.tensor_core.tensor_observer import SharedTile
from phasebit.emulator.tensor_core.tensor_operands import (
    Product,
    SharedOperand,
    TensorOperand,
    tensor_rows,
)
from phasebit.emulator.tensor_core.wgmma_tiles import Tile

WHERE = say("here")
BASE, STRIDE = 1024, 4096


class Listener:
    def __init__(self) -> None:
        self.tiles: list[SharedTile] = []
        self.told: list[tuple[Any, ...]] = []

    def reads_tile(self, g: Any, tile: SharedTile, where: object) -> None:
        self.tiles.append(tile)

    def multiplies(self, *told: Any) -> None:
        self.told.append(told[1:])


def made(slot: int = 1, threads: int = 128, reserved: int = 4096) -> Any:
    """A thread of a block, and all around it; ``g.listener`` hears what is told."""
    listener = Listener()
    buffer = np.random.default_rng(2).integers(0, 256, BASE + 2 * STRIDE).astype(np.uint8)
    machine = SimpleNamespace(
        memory=SimpleNamespace(u1=buffer, u2=buffer.view("u2"), u4=buffer.view("u4")),
        told=Told([listener]), reserved=reserved, shared_size=reserved, now=4, cluster_size=2,
        resident=1, schedule="eager", where=lambda g: "here",
    )  # fmt: skip
    batch = SimpleNamespace(
        machine=machine, shared_base=BASE, shared_stride=STRIDE, threads=threads, count=2,
        blocks=np.arange(2), describe=lambda lanes: f"threads {lanes[0]}-{lanes[-1]}",
    )  # fmt: skip
    memory = TensorMemory(batch)  # type: ignore[arg-type]
    memory.owned[:] = True
    batch.of = lambda kind: memory
    lanes = np.arange(threads) + slot * threads
    return SimpleNamespace(batch=batch, lanes=lanes, listener=listener, memory=memory,
                           buffer=buffer)  # fmt: skip


F16 = decode(idesc("f16", 64, 32, "bf16", "f16", "f32"), "f16")


def test_elements_in_the_shared_memory_of_the_block() -> None:
    """Without a swizzle: 16 bytes of each of eight rows lie together."""
    g = made()
    bits = encode(0x100, 128, 256, swizzle.NONE, "tcgen05")
    b = SharedOperand(g, 1, bits, 32, F16, "B", WHERE)
    assert (b.kind, b.width, b.base) == ("f16", 2, BASE + STRIDE)
    block = g.buffer[BASE + STRIDE :]
    for row, k in ((0, 0), (7, 15), (31, 3), (8, 8)):
        at = 0x100 + row % 8 * 16 + row // 8 * 256 + k // 8 * 128 + k % 8 * 2
        number = block[at : at + 2].view(np.float16)[0]
        assert np.array_equal(b.read()[row, k], np.float32(number), equal_nan=True)
    assert SharedOperand(g, 0, bits, 64, F16, "A", WHERE).kind == "bf16"
    start = BASE + STRIDE + 0x100
    assert b.words(4).tolist() == [*range(start >> 4, (start >> 4) + 64)]
    (tile, _) = g.listener.tiles
    assert (tile.role, tile.start, tile.elements, tile.folded) == ("B", start, "", False)


@pytest.mark.parametrize(("of", "which", "elements"), [
    (F16, "B", ""),
    (decode(idesc("f8f6f4", 64, 32, "e2m1", "e3m2", "f32"), "f8f6f4"), "A", "b4x16_p64"),
    (decode(idesc("f8f6f4", 64, 32, "e2m1", "e3m2", "f32"), "f8f6f4"), "B", "b6x16_p32"),
    (decode_scaled(encode_scaled("mxf4", 32, "e2m1", "e2m1"), "mxf4", 2), "B", "b4x16"),
])  # fmt: skip
def test_how_a_tensor_map_must_have_put_the_elements(of: Any, which: str, elements: str) -> None:
    g = made()
    SharedOperand(g, 0, encode(0, 128, 256, swizzle.NONE, "tcgen05"), 32, of, which, WHERE)
    assert g.listener.tiles[0].elements == elements


def test_two_elements_at_one_place_are_told() -> None:
    g = made()
    SharedOperand(g, 0, encode(0, 128, 0, swizzle.NONE, "tcgen05"), 32, F16, "B", WHERE)
    assert g.listener.tiles[0].folded


@pytest.mark.parametrize(("start", "fits"), [(0xC00, True), (0xC10, False)])
def test_a_tile_ends_within_the_shared_memory_that_the_block_has(start: int, fits: bool) -> None:
    """32 rows of 32 bytes are 1024: the last of 4096 bytes may be the tile's."""
    bits = encode(start, 128, 256, swizzle.NONE, "tcgen05")
    if fits:
        SharedOperand(made(), 0, bits, 32, F16, "B", WHERE)
        return
    with pytest.raises(OutOfBounds) as refused:
        SharedOperand(made(), 0, bits, 32, F16, "B", WHERE)
    assert str(refused.value) == (
        "tcgen05.mma of threads 128-255 reads B up to byte 4110 of shared memory, and the block "
        "has 4096: here"
    )


TF32 = decode(idesc("tf32", 64, 32, "tf32", "tf32", "f32", mn_major_a=True), "tf32")
MN = decode(idesc("f16", 64, 32, "f16", "f16", "f32", mn_major_b=True), "f16")


@pytest.mark.parametrize(("of", "which", "pattern", "wrong"), [
    (TF32, "A", swizzle.B128_ATOM_32B, False), (TF32, "A", swizzle.B128, True),
    (TF32, "B", swizzle.B128, False), (MN, "B", swizzle.B128_ATOM_32B, True),
    (MN, "B", swizzle.B64, False), (MN, "A", swizzle.B128, False),
])  # fmt: skip
def test_which_swizzle_an_mn_major_operand_has(
    of: Any, which: str, pattern: swizzle.Swizzle, wrong: bool
) -> None:
    bits = encode(0, 64, 64, pattern, "tcgen05")
    if not wrong:
        assert SharedOperand(made(), 0, bits, 32, of, which, WHERE).read().shape[0] == 32
        return
    with pytest.raises(Fault) as refused:
        SharedOperand(made(), 0, bits, 32, of, which, WHERE)
    assert str(refused.value) == (
        f"tcgen05.mma of threads 128-255: {which} of {of.a if which == 'A' else of.b} is MN-major "
        f"in the {pattern.name} swizzle; tf32 takes 128B with atoms of 32B for that, swizzle 1, "
        "and no other type takes it; here"
    )


def test_a_descriptor_that_is_none() -> None:
    with pytest.raises(Fault, match=r"^tcgen05\.mma of threads 128-255: A's matrix descriptor 0x0"):
        SharedOperand(made(), 0, 0, 32, F16, "A", WHERE)


@pytest.mark.parametrize(("address", "m", "lane", "halves"), [
    (0x40, 128, 0, slice(0, 8)), (0x40, 64, 0, slice(0, 8, 2)), (0x100040, 64, 16, slice(1, 8, 2)),
])  # fmt: skip
def test_the_lanes_that_rows_lie_in(address: int, m: int, lane: int, halves: slice) -> None:
    g = made()
    lanes, region = tensor_rows(g, g.memory, address, m, 16, 1, "D", WHERE)
    assert np.array_equal(lanes, tensor_mma.rows(m, lane == 16)) and lanes[0] == lane
    assert region == Region(1, halves, slice(64, 80))


@pytest.mark.parametrize(("address", "m", "says"), [
    (0x100040, 128, "D begins at lane 16; with M = 128 it begins at lane 0; here"),
    (0x200040, 64, "D begins at lane 32; with M = 64 it begins at lane 0 or 16; here"),
])  # fmt: skip
def test_the_lanes_that_rows_cannot_begin_at(address: int, m: int, says: str) -> None:
    g = made()
    with pytest.raises(Fault) as refused:
        tensor_rows(g, g.memory, address, m, 16, 1, "D", WHERE)
    assert str(refused.value) == f"tcgen05.mma of threads 128-255: {says}"


def test_columns_of_rows_that_are_not_there() -> None:
    g = made()
    for columns, end in ((16, 512), (17, 513)):
        if end == 512:
            tensor_rows(g, g.memory, 496, 128, columns, 0, "A", WHERE)
            continue
        with pytest.raises(OutOfBounds, match=r"^A of tcgen05.mma of threads 128-255 reaches bey"):
            tensor_rows(g, g.memory, 496, 128, columns, 0, "A", WHERE)


def test_rows_of_a_that_are_shifted() -> None:
    g = made()
    g.memory.cells[0, :, :8] = np.arange(128)[:, None] << 8
    region = Region(0, slice(0, 8), slice(0, 8))
    of = decode(idesc("tf32", 128, 32, "tf32", "tf32", "f32"), "tf32")
    plain = TensorOperand(g.memory, np.arange(128), region).read(of)
    moved = TensorOperand(g.memory, np.arange(128), region, True).read(of)
    assert np.array_equal(moved[:-1], plain[1:]) and np.array_equal(moved[-1], plain[-1])


A_DESC, B_DESC = (encode(at, 128, 256, swizzle.NONE, "tcgen05") for at in (0, 0x800))


def test_a_product_tells_what_it_reads_and_writes() -> None:
    g = made(slot=1)
    product = Product(g, (1,), F16, 64, False, A_DESC, B_DESC, WHERE)
    product.tell(g, True)
    ((target, source, shared, adds, scales, form, metadata),) = g.listener.told
    assert target == Region(1, slice(0, 8, 2), slice(64, 96)) and source is None and adds
    assert shared == [product.first[0], product.second[0]] and form == 64 << 16 | 32
    assert (scales, metadata) == ((), None) and g.batch.machine.now == 5
    assert [tile.role for tile in g.listener.tiles] == ["B", "A"] and product.along() is None


def test_a_product_with_a_in_tensor_memory() -> None:
    g = made(slot=0)
    product = Product(g, (0,), F16, 0x100040, True, 0x100080, B_DESC, WHERE)
    product.tell(g, False)
    ((_, source, shared, adds, *_),) = g.listener.told
    assert source == Region(0, slice(1, 8, 2), slice(128, 136)) and not adds
    assert shared == [product.second[0]]
    with pytest.raises(Fault) as refused:
        Product(g, (0,), F16, 0x100040, True, 0x80, B_DESC, WHERE)
    assert str(refused.value) == (
        "tcgen05.mma of threads 0-127: A and D begin at different lanes, 0 and 16; here"
    )
    major = decode(idesc("f16", 64, 32, "f16", "f16", "f32", mn_major_a=True), "f16")
    with pytest.raises(Fault, match="A in tensor memory is K-major; here"):
        Product(g, (0,), major, 0, True, 0x80, B_DESC, WHERE)


@pytest.mark.parametrize("tensor", [False, True])
@pytest.mark.parametrize("m", [128, 256])
def test_each_block_of_a_pair_gives_half_of_the_rows(m: int, tensor: bool) -> None:
    """D = A·B: what the blocks have in their own memories, one after the other."""
    g = made(slot=0, reserved=8192)
    g.buffer[:] = 0
    g.batch.machine.memory = SimpleNamespace(u2=np.zeros(1 << 14, np.uint16))
    g.batch.shared_stride = 1 << 14
    memory = g.batch.machine.memory.u2
    rng = np.random.default_rng(5)
    memory[:] = rng.integers(-4, 5, len(memory)).astype(np.float16).view(np.uint16)
    numbers = rng.integers(-4, 5, (2, 128, 16)).astype(np.float16)
    if m == 128:
        numbers[:, 64:] = numbers[:, :64]  # A lies in both halves of the lanes
    g.memory.cells[:, :, 256:264] = numbers.view(np.uint32)
    of = decode(idesc("f16", m, 32, "f16", "f16", "f32"), "f16", 2)
    product = Product(g, (0, 1), of, 64, tensor, 256 if tensor else A_DESC, B_DESC, WHERE)
    assert product.halved == (m == 128)

    def multiply(a: Any, b: Any, old: Any) -> Any:
        total = a @ b.T + (0 if old is None else old.view(np.float32))
        return total.astype(np.float32).view(np.uint32)

    a = (numbers[:, : m // 2].reshape(m, 16).astype(np.float32) if tensor
         else np.concatenate([x.read() for x in product.first]))  # type: ignore[union-attr,call-arg]  # fmt: skip
    b = np.concatenate([x.read() for x in product.second])
    assert a.shape == (m, 16) and b.shape == (32, 16)
    product.work(multiply, False)
    product.work(multiply, True)
    assert np.array_equal(product.d.read().view(np.float32), 2 * a @ b.T)


SPARSE = decode(idesc("f16", 64, 32, "f16", "f16", "f32", sparse=True, selector=1), "f16",
                sparse=True)  # fmt: skip
SPARSE_8 = decode(idesc("f8f6f4", 128, 32, "e4m3", "e4m3", "f32", sparse=True), "f8f6f4",
                  sparse=True)  # fmt: skip


def test_the_columns_of_metadata() -> None:
    g = made()
    found = Metadata(g.memory, (0, 1), 0x100020, tensor_mma.rows(64, True), SPARSE, say("mma"),
                     WHERE)  # fmt: skip
    assert found.columns == slice(33, 34) and found.wide and found.chunk == 4
    assert found.regions == [Region(slot, slice(1, 8, 2), slice(33, 34)) for slot in (0, 1)]
    found = Metadata(g.memory, (1,), 0x20, np.arange(128), SPARSE_8, say("mma"), WHERE)
    assert found.columns == slice(32, 34) and not found.wide
    assert found.regions == [Region(1, slice(0, 8), slice(32, 34))]


@pytest.mark.parametrize(("address", "says"), [
    (0x20, "mma: the metadata begin at lane 0; they begin where D does, at lane 16; here"),
    (0x100021, "mma: the metadata begin at column 33; they begin at an even one, and the sparsity "
     "selector, bits 0-1 of the instruction descriptor, says which of two it is: here"),
])  # fmt: skip
def test_where_metadata_cannot_begin(address: int, says: str) -> None:
    with pytest.raises(Fault) as refused:
        Metadata(made().memory, (0,), address, tensor_mma.rows(64, True), SPARSE, say("mma"), WHERE)
    assert str(refused.value) == says


# -- wgmma -----------------------------------------------------------------------------------


def group(slot: int = 1, threads: int = 256, **more: Any) -> Any:
    return made(slot, threads, **more)


def test_a_tile_of_the_second_warp_group_of_a_block() -> None:
    g = group()
    bits = encode(0x480, 128, 256, swizzle.NONE, "wgmma")
    one = Tile(g, 1, np.uint64(bits), 8, "f16", True, "B")
    assert one.start == BASE + STRIDE + 0x400 >> 4, "the last multiple of 1024 before it"
    assert (one.swizzle, one.base_offset, one.crooked, one.wrong) == ("none", 0, "", "")
    assert one.pieces.tolist() == [[8 + row, 16 + row] for row in range(8)]
    read = one.read(g.buffer.view("c16"))
    block = g.buffer[BASE + STRIDE :]
    wanted = [block[0x480 + row * 16 + k // 8 * 128 + k % 8 * 2 :][:2].view(np.float16)[0]
              for row in range(8) for k in range(16)]  # fmt: skip
    assert np.array_equal(read.ravel(), np.float64(wanted), equal_nan=True)


def test_each_warp_group_gives_its_own_descriptor() -> None:
    g = group()
    bits = [encode(at, 128, 256, swizzle.NONE, "wgmma") for at in (0, 0x400)]
    both = np.repeat(np.uint64(bits), 128)
    starts = [Tile(g, i, both, 8, "f16", True, "A").start for i in range(2)]
    assert starts == [BASE + STRIDE >> 4, BASE + STRIDE + 0x400 >> 4]
    both[255] += 1
    Tile(g, 0, both, 8, "f16", True, "A")
    with pytest.raises(Fault) as refused:
        Tile(g, 1, both, 8, "f16", True, "A")
    assert str(refused.value) == (
        "the threads of a warp group must give one descriptor of A, but threads 384-511 give "
        "several: here"
    )


@pytest.mark.parametrize(("kind", "k_major", "wrong"), [
    ("f16", False, False), ("bf16", False, False), ("tf32", False, True), ("e4m3", False, True),
    ("s8", False, True), ("tf32", True, False),
])  # fmt: skip
def test_only_elements_of_16_bits_lie_along_m_or_n(kind: str, k_major: bool, wrong: bool) -> None:
    bits = np.uint64(encode(0, 128, 256, swizzle.NONE, "wgmma"))
    if not wrong:
        assert Tile(group(), 0, bits, 8, kind, k_major, "A").wrong == ""
        return
    with pytest.raises(Fault) as refused:
        Tile(group(), 0, bits, 8, kind, k_major, "A")
    assert str(refused.value) == (
        f"a tile of {kind} lies along K, only elements of 16 bits may lie along M or N: set the "
        "transpose of A to 0; here"
    )


@pytest.mark.parametrize(("start", "end"), [(0xF00, 0), (0xF10, 4112)])
def test_a_tile_of_wgmma_ends_within_shared_memory(start: int, end: int) -> None:
    bits = np.uint64(encode(start, 128, 256, swizzle.NONE, "wgmma"))
    if not end:
        Tile(group(), 0, bits, 8, "tf32", True, "B")
        return
    with pytest.raises(Fault) as refused:
        Tile(group(), 0, bits, 8, "tf32", True, "B")
    assert str(refused.value) == (
        f"B of wgmma, 8 × 8 of tf32, reaches to byte {end} of the block's 4096 in shared memory "
        f"(start {start:#x}, leading 128, stride 256, swizzle none): here"
    )


def test_what_is_odd_about_a_tile() -> None:
    twice = np.uint64(encode(0, 128, 0, swizzle.NONE, "wgmma"))
    assert Tile(group(), 0, twice, 16, "f16", True, "B").wrong == (
        "two parts of its 16 rows lie at one place: leading 128 or stride 0 is too small"
    )
    crooked = np.uint64(encode(0x80, 16, 1024, swizzle.B128, "wgmma", 2))
    tile = Tile(group(), 0, crooked, 8, "f16", True, "B")
    assert tile.base_offset == 2 and tile.wrong == "" and tile.swizzle == "128B"
    assert tile.crooked.startswith("the matrix begins in row 1 of the 128B swizzle's pattern")
    with pytest.raises(
        Fault, match=r"^A of wgmma: matrix descriptor 0x0000400000000000: bits 46-47"
    ):
        Tile(group(), 0, np.uint64(1 << 46), 8, "f16", True, "A")


@pytest.mark.parametrize(("kind", "number"), [("s8", -2), ("u8", 254), ("e4m3", -448.0)])
def test_numbers_of_a_tile(kind: str, number: float) -> None:
    g = group(0)
    g.buffer[:] = 254
    read = Tile(g, 0, np.uint64(0), 8, kind, True, "B", 64).read(g.buffer.view("c16"))
    assert read.shape == (8, 64) and (read == number).all()


# -- scales ----------------------------------------------------------------------------------

MX8 = decode_scaled(encode_scaled("mxf8f6f4", 64, "e4m3", "e4m3", b_id=2), "mxf8f6f4", 1)


def test_scales_of_each_row_and_block() -> None:
    """A power of two a row: row r in lane r % 32 of column r / 32, in all quarters the same."""
    g = made()
    codes = np.arange(64, dtype=np.uint32) + 100
    cells = (codes << 16).reshape(2, 32).T  # the third byte of each word
    g.memory.cells[:, :, 40:42] = np.tile(cells, (4, 1))
    found = Scales(g, (0, 1), 40, 64, 2, "B", MX8, WHERE)
    assert found.regions == [Region(slot, slice(0, 8), slice(40, 42)) for slot in (0, 1)]
    for block in (0, 1):
        assert found.read(block)[:, 0].tolist() == [2.0 ** (int(c) - 127) for c in codes]
    g.memory.cells[1, 64:, 40] += 1 << 16
    halves = Scales(g, (0, 1), 40 | 1 << 30, 64, 2, "B", MX8, WHERE, halves=True)
    assert halves.regions[0].columns == slice(40, 41), "the upper bits of the address are the id"
    below, above = halves.read(1)[:32, 0], halves.read(1)[32:, 0]
    assert np.array_equal(above, 2 * below)


def test_scales_begin_at_lane_0_and_are_there() -> None:
    g = made()
    with pytest.raises(Fault) as refused:
        Scales(g, (1,), 0x200028, 64, 0, "A", MX8, WHERE)
    assert str(refused.value) == (
        "tcgen05.mma of threads 128-255: the scales of A begin at lane 32; they begin at lane 0, "
        "and the other quarters of the lanes repeat them; here"
    )
    Scales(g, (1,), 510, 64, 0, "A", MX8, WHERE)
    with pytest.raises(
        OutOfBounds, match=r"^the scales of A of tcgen05\.mma of threads 128-255 re"
    ):
        Scales(g, (1,), 511, 64, 0, "A", MX8, WHERE)
