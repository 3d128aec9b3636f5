"""wgmma with a sparse A: metadata after the figures of the PTX ISA, products against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phasebit.emulator.errors import EmulatorError, Fault, IllegalMetadata, PtxError
from phasebit.emulator.numbers import swizzle
from phasebit.emulator.numbers.sparse import places
from phasebit.emulator.tensor_core.matrix_descriptors import MatrixDescriptor, folded
from phasebit.emulator.tensor_core.matrix_descriptors import places as matrix_places
from phasebit.launching.launch import Module
from proof import gpu, sparse
from proof.compare import emulate
from proof.numbers import BYTES
from proof.program import module
from proof.warpgroups import FLOATS, INTEGERS, Product, program
from tests.emulator.test_wgmma import accumulators, from_registers, tile

Array = np.ndarray[Any, np.dtype[Any]]


def four_bits(words: Array, row: int, chunk: int, kind: str, selector: int) -> int:
    """The metadata of a chunk, from a word of each of 128 threads: the figures that 9.7.15.6.1
    names, for the 16 rows of each warp."""
    first = 32 * (row // 16) + 4 * (row % 8)
    if BYTES[kind] > 1:
        thread, shift = first + 2 * selector + chunk // 4, 4 * (chunk % 4) + 16 * (row % 16 // 8)
    else:
        thread, shift = first + 2 * (chunk // 8) + row % 16 // 8, 4 * (chunk % 8)
    return int(words[thread]) >> shift & 15


def spread(stored: Array, words: Array, kind: str, selector: int) -> Array:
    """A, 64 × k, one chunk at a time."""
    whole = np.zeros((64, 2 * stored.shape[1]))
    chunk = 2 if kind == "tf32" else 4
    for row in range(64):
        for c in range(whole.shape[1] // chunk):
            bits = four_bits(words, row, c, kind, selector)
            mine = stored[row, c * chunk // 2 : (c + 1) * chunk // 2]
            if chunk == 2:
                whole[row, 2 * c + (bits == 0b1110)] = mine[0]
            else:
                whole[row, [4 * c + (bits & 3), 4 * c + (bits >> 2)]] = mine
    return whole


def descriptors(text: str) -> list[int]:
    """Of A, where it lies in shared memory, and of B."""
    return [int(line.split()[-1].rstrip(";")) for line in text.splitlines() if "%start, " in line
            and line.strip().startswith("add.s64")]  # fmt: skip


def check(name: str, product: Product, manners: tuple[str, ...] = ("whole",)) -> None:
    made = program(name, product, manners)
    drawn, got = made.draw(), emulate(made)
    _, of_a, of_b = product.types
    slots = 32768 // 8 // 128
    at = slots + 4 * product.registers
    image = drawn[:slots].reshape(-1).copy()
    where = descriptors(made.text)
    of_bytes = image.view(np.uint8)
    stored_k = 32 // BYTES[of_a]
    if product.registers:
        fragments = drawn[slots:at].astype(np.uint32).T.copy()
        stored = from_registers(fragments, stored_k, of_a)
    else:
        stored = tile(of_bytes, where[0], 64, stored_k, of_a, not product.along[0])
    b = tile(of_bytes, where[1], product.n, product.k, of_b, not product.along[1]).T
    held = drawn[at : at + product.accumulators].astype(np.uint32).T.copy()
    whole = spread(stored, drawn[-1], of_a, product.selector)
    wanted = product.signs[0] * whole @ (product.signs[1] * b)
    if product.keep:
        wanted = wanted + accumulators(held, product)  # type: ignore[arg-type]
    result = accumulators(got.astype(np.uint32).T.copy(), product)  # type: ignore[arg-type]
    assert np.array_equal(result, wanted), (product, result, wanted)


@pytest.mark.parametrize("types", [*FLOATS, *INTEGERS], ids="_".join)
def test_9_7_15_6_1_every_type_with_a_from_either_place(types: tuple[str, str, str]) -> None:
    wide = BYTES[types[1]] > 1
    for registers in (False, True):
        for selector in (0, 1) if wide else (0,):
            check(f"sparse_{'_'.join(types)}_{registers}_{selector}",
                  Product(types, 8, registers, selector=selector))  # fmt: skip


@pytest.mark.parametrize("along", [(0, 1), (1, 0), (1, 1)])
def test_9_7_15_6_3_transposed_operands_and_signs(along: tuple[int, int]) -> None:
    types = ("f32", "bf16", "bf16")
    made = Product(types, 24, False, along, (-1, 1), False, selector=1)
    check(f"sparse_along_{along[0]}{along[1]}", made)


def test_a_row_of_b_longer_than_the_swizzle_goes_on_a_leading_distance_further() -> None:
    """As an H200 reads it.  Planted: the 32 bytes after the first are those of the next row."""
    d = MatrixDescriptor(1024, 2048, 256, 0, swizzle.B32)
    found = matrix_places(d, 16, 64, 1, False)
    assert np.array_equal(found[:, 32:], found[:, :32] + 2048)
    assert len(np.unique(found)) == found.size and not folded(d, 16, 64, 1, False)
    assert folded(MatrixDescriptor(1024, 32, 256, 0, swizzle.B32), 16, 64, 1, False)


CUTLASS = {
    "s8": ((2, 2, 8, 4), (8, 2048, 1, 16), (32,), (64,)),
    "f16": ((2, 2, 8, 4), (1024, 0, 1, 16), (16, 2), (64, 8)),
    "tf32": ((2, 2, 8, 4), (512, 0, 1, 16), (8, 2), (64, 8)),
}
"""ELayout_64x64, 64x32 and 64x16 of mma_traits_sm90_gmma_sparse.hpp: shapes and strides of the
threads, and of what each holds; they lead to row + 64 k."""


@pytest.mark.parametrize("kind", CUTLASS)
def test_metadata_are_where_cutlass_has_them(kind: str) -> None:
    shape, strides, held, steps = CUTLASS[kind]
    chunk = 2 if kind == "tf32" else 4
    for thread in range(128):
        if kind != "s8" and thread & 2:  # selector 0: threads 0 and 1 of four
            continue
        rest, at = thread, 0
        for size, stride in zip(shape, strides, strict=True):
            at, rest = at + rest % size * stride, rest // size
        for nibble in range(8):
            rest, place = nibble * chunk, at
            for size, stride in zip(held, steps, strict=True):
                place, rest = place + rest % size * stride, rest // size
            row, k = place % 64, place // 64
            words = np.zeros(128, np.uint32)
            words[thread] = 0b1110 << 4 * nibble
            count = {"s8": 16, "f16": 8, "tf32": 8}[kind]
            found = places(words.reshape(-1, 32), 0, count, kind != "s8").reshape(64, count)
            assert found[row, k // chunk] == 0b1110 and (found != 0).sum() == 1


def test_a_zero_that_is_left_out_is_not_multiplied() -> None:
    """An infinity in B that meets left-out zeros alone does not show: as mma.sp does it."""
    from phasebit.emulator.ops.wgmma import multiply

    a = np.ones((64, 16))
    b = np.ones((32, 8))
    b[3] = np.inf  # the last place of the first chunk
    along = np.tile(np.arange(32).reshape(8, 4)[:, :2].ravel(), (64, 1))
    kinds = ("f16", "f16")
    assert (multiply(a, b, None, kinds, "f32", False, along) == 16).all()
    assert np.isinf(multiply(a, b, None, kinds, "f32", False, along + 2)).all()


def test_the_programs_of_the_proof_come_to_their_end() -> None:
    """What an H200 will be asked."""
    programs = list(sparse.programs())
    assert len(programs) > 150
    for made in programs[:: len(programs) // 6]:
        emulate(made)


@pytest.mark.nvcc
def test_ptxas_takes_them() -> None:
    gpu.assemble(module(list(sparse.programs())[::8]))


HEAD = ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{{\n" \
       ".reg .b32 %r<9>; .reg .b32 %d<4>; .reg .b64 %rd<3>; .reg .pred %p;\n" \
       ".shared .align 1024 .b8 tile[8192];\n{body}\nret;\n}}\n"  # fmt: skip
BODY = """
    mov.u32 %r1, tile; shr.u32 %r1, %r1, 4; cvt.u64.u32 %rd1, %r1; setp.ne.u32 %p, 0, 0;
    mov.b64 %rd2, 0x0000000800400000; add.s64 %rd1, %rd1, %rd2; METADATA
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%d0, %d1, %d2, %d3}, %rd1, %rd1, %r2,
        SELECTOR, %p, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
"""


def launch(metadata: str, selector: str = "0") -> None:
    body = BODY.replace("METADATA", metadata).replace("SELECTOR", selector)
    Module(HEAD.format(body=body))["k"].launch(1, 128, [], check=False)


@pytest.mark.parametrize("metadata, message", [
    ("mov.u32 %r2, 0x44454444;", "row 8 has 0101 for chunk 0, which is invalid: two elements"),
    ("", "0000 for chunk 0, which is invalid: two elements for one place; has anybody written"),
    ("mov.u32 %r3, %tid.x; and.b32 %r3, %r3, 2; setp.eq.u32 %p, %r3, 0; mov.u32 %r2, 0;"
     "@!%p mov.u32 %r2, 0x44444444; setp.ne.u32 %p, 0, 0;", "row 0 has 0000"),
], ids=["two elements at one place", "nobody wrote them", "the other threads"])  # fmt: skip
def test_9_7_15_6_1_metadata_that_are_illegal(metadata: str, message: str) -> None:
    with pytest.raises(IllegalMetadata, match=message) as caught:
        launch(metadata)
    assert caught.value.finding.rule == "illegal-metadata"


def test_9_7_15_6_1_only_the_threads_of_the_selector_are_asked() -> None:
    """T2 and T3 have metadata, T0 and T1 nothing."""
    metadata = ("mov.u32 %r3, %tid.x; and.b32 %r3, %r3, 2; setp.eq.u32 %p, %r3, 0;"
                "mov.u32 %r2, 0; @!%p mov.u32 %r2, 0x44444444; setp.ne.u32 %p, 0, 0;")  # fmt: skip
    launch(metadata, "1")


def test_9_7_15_6_1_a_selector_of_no_threads() -> None:
    with pytest.raises(Fault, match="selector is 2; here it is below 2"):
        launch("mov.u32 %r2, 0x44444444;", "2")


@pytest.mark.parametrize("old, new, message", [
    ("m64n8k32", "m64n8k16", "f16 has a k of 32, not 16"),
    ("SELECTOR", "%r5", "a constant"),
    (", 0, 0;\n    wgmma.commit", ";\n    wgmma.commit", "takes 4 numbers"),
])  # fmt: skip
def test_9_7_15_6_3_what_is_no_such_instruction(old: str, new: str, message: str) -> None:
    body = BODY.replace(old, new).replace("METADATA", "").replace("SELECTOR", "0")
    with pytest.raises((PtxError, EmulatorError), match=message):
        Module(HEAD.format(body=body))["k"].launch(1, 128, [])
