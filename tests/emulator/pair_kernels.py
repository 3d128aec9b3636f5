"""A product on a pair of blocks, in PTX; each line can be replaced."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasebit.edits import replace_each
from phasebit.emulator import Run
from phasebit.emulator.numbers import swizzle
from phasebit.emulator.tensor_core.instruction_descriptors import DEPTH, encode
from phasebit.emulator.tensor_core.matrix_descriptors import decode, places
from phasebit.emulator.tensor_core.matrix_descriptors import encode as matrix_descriptor
from tests.emulator.tensor_ptx import D_INTO, D_OUT, HEAD, run

Array = NDArray[Any]

PAIR = HEAD + """
.visible .entry kernel(.param .u64 tiles, .param .u64 old, .param .u64 out,
    .param .u64 adesc, .param .u64 bdesc, .param .u32 idesc, .param .u32 adds)
{
    .reg .pred %p<9>; .reg .b32 %r<99>; .reg .b64 %rd<20>; .reg .b16 %h<2>;
    .shared .align 1024 .b8 tile[SHARED];
    .shared .align 4 .b32 slot; .shared .align 8 .b64 done;
    ld.param.u64 %rd1, [tiles]; ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, [old];
    ld.param.u64 %rd4, [adesc]; ld.param.u64 %rd5, [bdesc]; ld.param.u32 %r6, [idesc];
    ld.param.u32 %r8, [adds];
    mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; shl.b32 %r3, %r2, 21;
    mov.u32 %r60, %cluster_ctarank; mov.u32 %r61, %ctaid.x;
    mul.wide.u32 %rd8, %r61, SHARED; add.u64 %rd1, %rd1, %rd8;
    mul.wide.u32 %rd8, %r61, 131072; add.u64 %rd2, %rd2, %rd8; add.u64 %rd3, %rd3, %rd8;
    setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r1, 0;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    @!%p1 bra START;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 256;
START:
    @!%p2 bra FILL;
    mbarrier.init.shared::cta.b64 [done], 1;
    fence.mbarrier_init.release.cluster;
""" + D_INTO + """\
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    tcgen05.fence::after_thread_sync;
    setp.eq.u32 %p4, %r60, ISSUER;
    and.pred %p4, %p4, %p2;
    @!%p4 bra WAIT;
    setp.ne.u32 %p5, %r8, 0;
    SETTING
    tcgen05.mma.cta_group::2.kind::KIND [%r4], A_OPERAND, %rd5, %r6, MASKS %p5;
    mov.b16 %h1, 3;
    COMMIT.multicast::cluster.b64 [done], %h1;
""" + D_OUT + """\
    @!%p1 bra END;
    tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r4, 256;
END:
    ret;
}
"""
COMMIT = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
PAIR = PAIR.replace("COMMIT", COMMIT)
"""D, 2 × 128 lanes × 256 columns: loaded, multiplied into by one thread, written out."""


class PairGemm:
    """A product on a pair: A and B in shared memory as bytes, half of the rows in each block."""

    def __init__(
        self, kind: str, m: int, n: int, a: str, b: str, d: str, *, width: int = 1,
        pattern: swizzle.Swizzle = swizzle.NONE, issuer: int = 0,
        changes: dict[str, str] | None = None, **bits: Any,
    ) -> None:  # fmt: skip
        self.k, self.m, self.n, self.width = DEPTH[kind], m, n, width
        self.idesc = encode(kind, m, n, a, b, d, **bits)
        self.descriptors, self.places = [], []
        start = 0
        for rows in (m // 2, n // 2):
            size = rows * max(self.k * width, pattern.span if pattern.bits else 0)
            leading, stride = (0, 8 * pattern.span) if pattern.bits else (rows * 16, 128)
            one = matrix_descriptor(start, leading, stride, pattern, "tcgen05")
            self.descriptors.append(one)
            self.places.append(places(decode(one, "tcgen05"), rows, self.k, width, False))
            start += -(-size // 1024) * 1024
        self.shared = -(-start // 2048) * 2048
        text = PAIR.replace("KIND", kind).replace("SHARED", str(self.shared))
        text = text.replace("ISSUER", str(issuer))
        text = replace_each(text, (changes or {}).items())
        for old, new in (("A_OPERAND", "%rd4"), ("MASKS", ""), ("SETTING", "")):
            text = text.replace(old, new)
        self.text = text

    def run(
        self, a: Array, b: Array, old: Array | None = None, *, pairs: int = 1, **more: Any
    ) -> tuple[Array, Run]:
        """The cells of D (2 pairs, 128, 256) after the product of codes (m, k) and (n, k)."""
        image = np.zeros((2, self.shared), np.uint8)
        for codes, at in zip((a, b), self.places, strict=True):
            for block, half in enumerate(np.split(codes, 2)):
                image[block].view(f"u{self.width}")[at // self.width] = half
        cells = np.full((2, 128, 256), 0xFFFFFFFF, np.uint32) if old is None else old
        out = np.zeros((2 * pairs, 128, 256), np.uint32)
        found = run(
            self.text, np.tile(image, (pairs, 1)), np.tile(cells, (pairs, 1, 1)), out,
            *self.descriptors, self.idesc, int(old is not None), blocks=2 * pairs, cluster=2,
            **more,
        )  # fmt: skip
        return out, found

    def placed(self, d: Array) -> Array:
        """The cells (2, 128, n or n / 2) that hold D (m, n): PTX ISA 9.7.16.10.5, A and B."""
        if self.m == 256:
            return d.reshape(2, 128, self.n)
        cells = np.zeros((2, 128, self.n // 2), d.dtype)
        for i in range(self.m):
            for j in range(self.n):
                half = j // (self.n // 2)
                cells[i // 64, i % 64 + 64 * half, j % (self.n // 2)] = d[i, j]
        return cells
