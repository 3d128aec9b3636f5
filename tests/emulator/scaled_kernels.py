"""A product with block scales in PTX for the tests, and its reference with layouts of its own.

The kernel brings A, B and their scales to shared memory as bytes, copies the scales to tensor
memory (``tcgen05.cp.32x128b.warpx4``), multiplies step after step along k, and writes D out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasebit.emulator import Run
from phasebit.emulator.numbers import swizzle
from phasebit.emulator.tensor_core.matrix_descriptors import encode as matrix
from phasebit.emulator.tensor_core.scaled_descriptors import encode
from tests.emulator.tensor_ptx import D_INTO, D_OUT, HEAD, run

Array = NDArray[Any]

KERNEL = HEAD + """
.visible .entry kernel(.param .u64 tiles, .param .u64 old, .param .u64 out, .param .u64 steps)
{
    .reg .pred %p<9>; .reg .b32 %r<60>; .reg .b64 %rd<20>;
    .shared .align 1024 .b8 tile[SHARED];
    .shared .align 4 .b32 slot; .shared .align 8 .b64 done;
    ld.param.u64 %rd1, [tiles]; ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, [old];
    ld.param.u64 %rd4, [steps];
    mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; shl.b32 %r3, %r2, 21;
    setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r1, 0;
    @!%p1 bra START;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 512;
START:
    @!%p2 bra FILL;
    mbarrier.init.shared::cta.b64 [done], 1;
""" + D_INTO + """\
    MORE
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @!%p2 bra WAIT;
    add.u32 %r30, %r4, 256; add.u32 %r31, %r4, 320;
    COPIES
    PRODUCTS
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];
""" + D_OUT + """\
    @!%p1 bra END;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 512;
END:
    ret;
}
"""
"""D in columns 0-255, the scales of A from column 256 on, those of B from 320 on."""

PRODUCT = """
    ld.global.u64 %rd5, [%rd4+{0}]; ld.global.u64 %rd6, [%rd4+{1}]; ld.global.u32 %r6, [%rd4+{2}];
    add.u32 %r32, %r30, {3}; add.u32 %r33, %r31, {4}; setp.{5}.u32 %p4, %r1, %r1;
    tcgen05.mma.cta_group::1.kind::{6} [%r4], A_OPERAND, %rd6, %r6, [%r32], [%r33], %p4;"""
COPY = "    ld.global.u64 %rd7, [%rd4+{0}]; add.u32 %r34, %r{1}, {2};\n" \
       "    tcgen05.cp.cta_group::1.32x128b.warpx4 [%r34], %rd7;\n"  # fmt: skip

WIDTH = {"e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4}
DEPTH = {"mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
SIZE = {1: ("mxf8f6f4", "block_scale.scale_vec::1X"), 2: ("", "block_scale.scale_vec::2X"),
        4: ("", "block_scale.scale_vec::4X")}  # fmt: skip


def little(number: int, width: int) -> bytes:
    return number.to_bytes(width, "little")


def row_of_bytes(codes: list[int], width: int, packed: bool) -> bytes:
    """A row of codes as shared memory holds it, written down number by number."""
    if width == 8:
        return bytes(codes)
    out = b""
    for i in range(0, len(codes), 16):
        number = sum(code << width * j for j, code in enumerate(codes[i : i + 16]))
        out += little(number, 2 * width)
        if not packed:
            out += b"\xa5" * (16 - 2 * width)  # nobody may look at it
    return out


def tile_of_bytes(codes: Array, width: int, packed: bool) -> bytes:
    """Rows without swizzle: core matrices of 8 rows × 16 bytes, the next column behind them."""
    rows = [row_of_bytes([int(c) for c in row], width, packed) for row in codes]
    return b"".join(row[i : i + 16] for i in range(0, len(rows[0]), 16) for row in rows)


def scale_bytes(scales: Array) -> bytes:
    """Scales [rows, 4] in atoms of 512 bytes; byte r % 32 * 16 + r // 32 * 4 + j of 128 rows.

    CUTLASS, Sm1xxBlockScaledBasicChunk: ((32, 4), (vector, 4)) : ((16, 4), (0, 1)).
    """
    out = b""
    for first in range(0, len(scales), 128):
        atom = bytearray(512)
        for r, row in enumerate(scales[first : first + 128]):
            for j, value in enumerate(row):
                atom[r % 32 * 16 + r // 32 * 4 + j] = int(value)
        out += bytes(atom)
    return out


@dataclass
class Scaled:
    """One product: codes of A (128, K) and B (n, K), scales (rows, K / block) as bytes."""

    kind: str
    n: int
    a: str
    b: str
    per_row: int
    scale: str = "ue8m0"
    steps: int = 1
    word: str = ""
    """The modifier for the size, where it is not the usual one."""
    changes: dict[str, str] | None = None
    negate_a: bool = False
    negate_b: bool = False

    @property
    def k(self) -> int:
        return DEPTH[self.kind] * self.steps

    @property
    def packed(self) -> bool:
        return self.kind != "mxf8f6f4"

    def kernel(self) -> tuple[str, Array, int, list[int]]:
        """PTX, descriptors of each step, bytes of shared memory, where A, B and scales begin."""
        depth = DEPTH[self.kind]
        wide = depth // 2 if self.packed else depth  # bytes of a row in one step
        total = -(-self.per_row * self.steps // 4)  # groups of four scales
        atoms = [total, total * -(-self.n // 128)]
        sizes = [rows * wide * self.steps for rows in (128, self.n)] + [512 * n for n in atoms]
        starts = [sum(sizes[:i]) for i in range(4)]
        shared = -(-sum(sizes) // 2048) * 2048
        words: list[int] = []
        products, copies = "", ""
        for step in range(self.steps):
            first = self.per_row * step
            pair = [
                matrix(starts[i] + step * wide * rows, rows * 16, 128, swizzle.NONE, "tcgen05")
                for i, rows in enumerate((128, self.n))
            ]
            bits = encode(
                self.kind, self.n, self.a, self.b, self.scale, a_id=first % 4, b_id=first % 4,
                negate_a=self.negate_a, negate_b=self.negate_b,
            )  # fmt: skip
            columns = [first // 4 * 4, first // 4 * 4 * -(-self.n // 128)]
            suffix = self.word or SIZE[self.per_row][1]
            products += PRODUCT.format(
                8 * len(words), 8 * len(words) + 8, 8 * len(words) + 16, *columns,
                "eq" if step else "ADDS", f"{self.kind}.{suffix}",
            )  # fmt: skip
            words += [*pair, bits]
        for which in (0, 1):
            for atom in range(atoms[which]):
                at = starts[2 + which] + 512 * atom
                copies += COPY.format(8 * len(words), 30 + which, 4 * atom)
                words.append(matrix(at, 16, 128, swizzle.NONE, "tcgen05"))
        text = KERNEL.replace("SHARED", str(shared)).replace("COPIES", copies)
        text = text.replace("PRODUCTS", products)
        for old, new in (self.changes or {}).items():
            assert text.count(old) >= 1, old
            text = text.replace(old, new)
        text = text.replace("MORE", "").replace("A_OPERAND", "%rd5")
        return text, np.array(words, np.uint64), shared, starts

    def run(
        self, a: Array, b: Array, sa: Array, sb: Array, old: Array | None = None, **more: Any
    ) -> tuple[Array, Run]:
        """D (128, n) as f32."""
        text, words, shared, starts = self.kernel()
        text = text.replace("setp.ADDS", "setp.ne" if old is None else "setp.eq")
        depth = DEPTH[self.kind]
        image = np.full(shared, 0x5A, np.uint8)
        for start, codes, kind in zip(starts, (a, b), (self.a, self.b), strict=False):
            data = b"".join(
                tile_of_bytes(codes[:, i : i + depth], WIDTH[kind], self.packed)
                for i in range(0, self.k, depth)
            )
            image[start : start + len(data)] = np.frombuffer(data, np.uint8)
        for start, scales in zip(starts[2:], (sa, sb), strict=True):
            whole = np.full((len(scales), -(-scales.shape[1] // 4) * 4), 0xA5, np.uint8)
            whole[:, : scales.shape[1]] = scales
            data = b"".join(
                scale_bytes(whole[:, i : i + 4]) for i in range(0, whole.shape[1], 4)
            )
            image[start : start + len(data)] = np.frombuffer(data, np.uint8)
        cells = np.zeros((128, 256), np.float32) if old is None else old
        out = np.zeros((128, 256), np.float32)
        found = run(text, image, np.ascontiguousarray(cells), out, words, **more)
        return out[:, : self.n], found


def value(code: int, exponent_bits: int, mantissa_bits: int) -> float:
    """What a small number means, by the words of the OCP MX specification."""
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) & 1 else 1.0
    field = code >> mantissa_bits & (1 << exponent_bits) - 1
    part = (code & (1 << mantissa_bits) - 1) / (1 << mantissa_bits)
    bias = (1 << exponent_bits - 1) - 1
    if field == 0:
        return sign * part * 2.0 ** (1 - bias)
    return float(sign * (1 + part) * 2.0 ** (field - bias))


FIELDS = {"e4m3": (4, 3), "e5m2": (5, 2), "e2m3": (2, 3), "e3m2": (3, 2), "e2m1": (2, 1)}


def numbers(codes: Array, kind: str) -> Array:
    """Codes as float64, one by one."""
    table = np.array([value(c, *FIELDS[kind]) for c in range(1 << WIDTH[kind])])
    return table[codes]


def reference(case: Scaled, a: Array, b: Array, sa: Array, sb: Array) -> Array:
    """What D should be, float64: each element times its block's scale, then the product."""
    block = case.k // sa.shape[1]
    wide = []
    for codes, scales, kind in ((a, sa, case.a), (b, sb, case.b)):
        factors = 2.0 ** (scales.astype(float) - 127)
        if case.scale == "ue4m3":
            factors = np.array([value(c, 4, 3) for c in range(128)])[scales]
        wide.append(numbers(codes, kind) * np.repeat(factors, block, axis=1))
    left, right = wide
    product = left @ right.T
    return -product if case.negate_a != case.negate_b else product
