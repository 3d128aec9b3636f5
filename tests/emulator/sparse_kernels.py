"""A product with a sparse A in PTX for the tests; metadata laid out cell by cell.

The kernel brings A, B, metadata and scales to shared memory as bytes, copies the last two to tensor
memory, multiplies step after step along k, and writes D out.  One block, or a pair.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasebit.edits import replace_each
from phasebit.emulator import Run
from phasebit.emulator.numbers import swizzle
from phasebit.emulator.tensor_core import instruction_descriptors, scaled_descriptors
from phasebit.emulator.tensor_core.matrix_descriptors import encode as matrix
from tests.emulator.pair_kernels import PAIR
from tests.emulator.scaled_kernels import row_of_bytes, scale_bytes
from tests.emulator.tensor_kernels import GEMM
from tests.emulator.tensor_ptx import run

Array = NDArray[Any]

STEPS = GEMM[GEMM.index("STEP:") : GEMM.index("    tcgen05.commit")]
ONE = GEMM.replace(STEPS, "    COPIES\n    PRODUCTS\n")
PRODUCT = PAIR[PAIR.index("    SETTING") : PAIR.index("    mov.b16 %h1")]
TWO = PAIR.replace(PRODUCT, "    setp.ne.u32 %p4, %r8, 0; COPIES\n    PRODUCTS\n")
TWO = TWO.replace("[slot], 256", "[slot], 512").replace("%r4, 256;\nEND", "%r4, 512;\nEND")

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "e2m3": 6,
        "e3m2": 6, "e2m1": 4}  # fmt: skip
WIDE = ("f16", "tf32")
"""Kinds whose metadata have a selector."""
META, SCALES_A, SCALES_B, LEFT = 256, 264, 272, 288
"""Columns of tensor memory."""


@dataclass
class Sparse:
    """One product: stored A (m, K / 2) and B (n, K) as codes, the four bits of each chunk."""

    kind: str
    m: int
    n: int
    a: str
    b: str
    d: str = "f32"
    group: int = 1
    steps: int = 1
    lane: int = 0
    """Where D and the metadata begin, if M = 64."""
    banks: int = 0
    """Of .ws: in how many the lanes are cut."""
    in_tensor: bool = False
    """Whether A is copied to tensor memory."""
    per_row: int = 0
    """Scales of a row in one step."""
    word: str = ""
    flipped: int = 0
    """Bits of the instruction descriptor that are changed."""
    changes: dict[str, str] = field(default_factory=dict)

    @property
    def packed(self) -> bool:
        return self.kind in ("mxf4", "mxf4nvf4")

    @property
    def chunk(self) -> int:
        return 8 if self.packed else 2 if self.kind == "tf32" else 4

    @property
    def k(self) -> int:
        """Of one step."""
        return {"f16": 32, "tf32": 16, "mxf4": 128, "mxf4nvf4": 128}.get(self.kind, 64)

    def idesc(self, step: int) -> int:
        if self.per_row:
            first = self.per_row * step % 4
            return scaled_descriptors.encode(
                self.kind, self.n, self.a, self.b, m=self.m, a_id=first, b_id=first, sparse=True
            )
        return instruction_descriptors.encode(
            self.kind, self.m, self.n, self.a, self.b, self.d, sparse=True,
            selector=step % 2 if self.kind in WIDE else 0,
        )  # fmt: skip

    def tile(self, codes: Array, kind: str) -> bytes:
        """Rows without swizzle: columns of 16 bytes, one behind the other."""
        if BITS[kind] >= 16:
            rows = [row.astype(f"<u{BITS[kind] // 8}").tobytes() for row in codes]
        else:
            rows = [row_of_bytes([int(c) for c in row], BITS[kind], self.packed) for row in codes]
        return b"".join(row[i : i + 16] for i in range(0, len(rows[0]), 16) for row in rows)

    def cells(self, bits: Array, block: int = 0) -> Array:
        """Metadata (m, chunks) as cells (128 lanes, 4 columns) of a block, one chunk at a time."""
        found = np.full((128, 4), 0xFFFFFFFF, np.uint32)
        rows = self.m // self.group
        per_step = 8 if self.kind in WIDE else 16
        spread = rows == 64 and not self.banks
        for bank in range(self.banks or 1):
            for row in range(rows):
                for index, value in enumerate(bits[block * rows + row]):
                    step, chunk = divmod(index, per_step)
                    if per_step == 8:  # lane 8 has the right half of rows 0-7 and 8-15
                        lane = row // 16 * 16 + row % 8 + 8 * (chunk // 4)
                        column, shift = step, 16 * (row // 8 % 2) + 4 * (chunk % 4)
                    else:
                        lane, column, shift = row, 2 * step + chunk // 8, 4 * (chunk % 8)
                    if spread:
                        lane = lane // 16 * 32 + lane % 16 + self.lane
                    lane += bank * rows
                    old = int(found[lane, column])
                    found[lane, column] = old & ~(15 << shift) | int(value) << shift
        return found

    def parts(self, a: Array, b: Array, bits: Array, scales: tuple[Array, ...], block: int) -> (
        list[bytes]
    ):  # fmt: skip
        """What lies in shared memory: A and B of each step, metadata, scales."""
        rows, columns, each = self.m // self.group, self.n // self.group, self.k // 2
        mine, right = (x[block * y : (block + 1) * y] for x, y in ((a, rows), (b, columns)))
        out = [b"".join(self.tile(mine[:, i : i + each], self.a)
                        for i in range(0, mine.shape[1], each)),
               b"".join(self.tile(right[:, i : i + self.k], self.b)
                        for i in range(0, right.shape[1], self.k)),
               self.cells(bits, block).tobytes()]  # fmt: skip
        if scales:
            whole = [np.full((len(s), 4), 0x7F, np.uint8) for s in scales]
            for full, given in zip(whole, scales, strict=True):
                full[:, : given.shape[1]] = given
            out += [scale_bytes(whole[0][block * rows : (block + 1) * rows]),
                    scale_bytes(whole[1])]  # fmt: skip
        return out

    def text(self, starts: list[int], sizes: list[int], shared: int) -> str:
        """The kernel."""
        cta = f"cta_group::{self.group}"

        def copy(shape: str, at: int, column: int) -> str:
            d = matrix(at, len_of(shape), 128, swizzle.NONE, "tcgen05")
            return (f"    mov.u64 %rd7, {d:#x}; add.u32 %r34, %r4, {column};\n"
                    f"    tcgen05.cp.{cta}.{shape} [%r34], %rd7;\n")  # fmt: skip

        def len_of(shape: str) -> int:
            return 2048 if "256b" in shape else 16

        lines = copy("128x128b", starts[2], META)
        if self.per_row:
            lines += copy("32x128b.warpx4", starts[3], SCALES_A)
            for i in range(sizes[4] // 512):
                lines += copy("32x128b.warpx4", starts[4] + 512 * i, SCALES_B + 4 * i)
        if self.in_tensor:
            lines += copy("128x256b", starts[0], LEFT)
        products = f"    add.u32 %r36, %r4, {self.lane << 16}; add.u32 %r35, %r4, {LEFT};\n"
        rows, columns = self.m // self.group, self.n // self.group
        name = "tcgen05.mma.ws.sp" if self.banks else "tcgen05.mma.sp"
        for step in range(self.steps):
            left, right = (
                matrix(starts[i] + sizes[i] // self.steps * step, 16 * count, 128, swizzle.NONE,
                       "tcgen05")
                for i, count in ((0, rows), (1, columns))
            )  # fmt: skip
            column = META + step // 2 * 2 if self.kind in WIDE else META + 2 * step
            scale = " [%r37], [%r38]," if self.per_row else " MASKS"
            products += (
                f"    mov.u64 %rd5, {left:#x}; mov.u64 %rd6, {right:#x};\n"
                f"    mov.u32 %r6, {self.idesc(step) ^ self.flipped:#x};\n"
                f"    add.u32 %r34, %r4, {column + (self.lane << 16)};\n"
                f"    add.u32 %r37, %r4, {SCALES_A}; add.u32 %r38, %r4, {SCALES_B};\n"
                f"    {name}.{cta}.kind::{self.kind}{self.word} [%r36], "
                f"{'[%r35]' if self.in_tensor else '%rd5'}, %rd6, [%r34], %r6,{scale} %p4;\n"
                "    setp.eq.u32 %p4, %r1, %r1;\n"
            )
        whole = (ONE if self.group == 1 else TWO).replace("SHARED", str(shared))
        whole = whole.replace("COPIES", lines.strip()).replace("PRODUCTS", products.strip())
        whole = replace_each(whole, self.changes.items())
        for old, new in (("A_IN_TENSOR", ""), ("MASKS", ""), ("ISSUER", "1")):
            whole = whole.replace(old, new)
        return whole

    def run(
        self, a: Array, b: Array, bits: Array, scales: tuple[Array, ...] = (),
        old: Array | None = None, **more: Any,
    ) -> tuple[Array, Run]:  # fmt: skip
        """The cells of D (blocks, 128, 256)."""
        blocks = [self.parts(a, b, bits, scales, i) for i in range(self.group)]
        sizes = [len(part) for part in blocks[0]]
        starts = [sum(-(-size // 128) * 128 for size in sizes[:i]) for i in range(len(sizes))]
        shared = -(-(starts[-1] + sizes[-1]) // 2048) * 2048
        image = np.zeros((self.group, shared), np.uint8)
        for i, parts in enumerate(blocks):
            for start, part in zip(starts, parts, strict=True):
                image[i, start : start + len(part)] = np.frombuffer(part, np.uint8)
        cells = np.zeros((self.group, 128, 256), np.uint32) if old is None else old
        out = np.zeros((self.group, 128, 256), np.uint32)
        text = self.text(starts, sizes, shared)
        last = [0, 0, 0, 1, int(old is not None), 0, 0] if self.group == 1 else [
            0, 0, 0, int(old is not None)
        ]  # fmt: skip
        if self.group == 2:
            more |= {"blocks": 2, "cluster": 2}
        found = run(text, image, np.ascontiguousarray(cells), out, *last, **more)
        return out, found

    def placed(self, d: Array) -> Array:
        """The cells (blocks, 128, columns) that hold D (m, n), and 0 where none is."""
        m, n = d.shape
        rows = m // self.group
        width = n // (self.banks or 1)
        out = np.zeros((self.group, 128, width), d.dtype)
        for i in range(m):
            for j in range(n):
                lane = i % rows + rows * (j // width) if self.banks else i % rows
                if rows == 64 and not self.banks:
                    lane = lane // 16 * 32 + lane % 16 + self.lane
                out[i // rows, lane, j % width] = d[i, j]
        return out
