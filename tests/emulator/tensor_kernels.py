"""A product on one block by ``tcgen05.mma``, in PTX; each line can be replaced."""

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

GEMM = HEAD + """
.visible .entry kernel(.param .u64 tiles, .param .u64 old, .param .u64 out,
    .param .u64 adesc, .param .u64 bdesc, .param .u32 idesc, .param .u32 steps, .param .u32 adds,
    .param .u64 astep, .param .u64 bstep)
{
    .reg .pred %p<9>; .reg .b32 %r<300>; .reg .b64 %rd<20>;
    .shared .align 1024 .b8 tile[SHARED];
    .shared .align 4 .b32 slot; .shared .align 8 .b64 done;
    ld.param.u64 %rd1, [tiles]; ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, [old];
    ld.param.u64 %rd4, [adesc]; ld.param.u64 %rd5, [bdesc]; ld.param.u32 %r6, [idesc];
    ld.param.u32 %r7, [steps]; ld.param.u32 %r8, [adds];
    ld.param.u64 %rd6, [astep]; ld.param.u64 %rd7, [bstep];
    mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; shl.b32 %r3, %r2, 21;
    setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r1, 0;
    @!%p1 bra START;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 512;
START:
    @!%p2 bra FILL;
    mbarrier.init.shared::cta.b64 [done], 1;
""" + D_INTO + """\
    A_IN_TENSOR
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @!%p2 bra WAIT;
    setp.ne.u32 %p4, %r8, 0;
STEP:
    tcgen05.mma.cta_group::1.kind::KIND [%r4], A_OPERAND, %rd5, %r6, MASKS %p4 SCALE;
    setp.eq.u32 %p4, %r1, %r1;
    add.u64 %rd4, %rd4, %rd6; add.u64 %rd5, %rd5, %rd7;
    sub.u32 %r7, %r7, 1; setp.ne.u32 %p3, %r7, 0; @%p3 bra STEP;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];
""" + D_OUT + """\
    @!%p1 bra END;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 512;
END:
    ret;
}
"""
"""D, 128 lanes × 256 columns, through tensor memory: loaded, multiplied into, written out."""


class Gemm:
    """A product on one block: A and B in shared memory as bytes, D as cells."""

    def __init__(
        self, kind: str, m: int, n: int, a: str, b: str, d: str, *, steps: int = 1,
        pattern: swizzle.Swizzle = swizzle.NONE, mn_a: bool = False, mn_b: bool = False,
        width: int = 1, changes: dict[str, str] | None = None, **bits: Any,
    ) -> None:  # fmt: skip
        self.k = DEPTH[kind]
        self.m, self.n, self.steps, self.width = m, n, steps, width
        self.idesc = encode(kind, m, n, a, b, d, mn_major_a=mn_a, mn_major_b=mn_b, **bits)
        self.descriptors = []
        self.places = []
        start = 0
        for rows, mn in ((m, mn_a), (n, mn_b)):
            size = rows * self.k * width * steps
            leading, stride = self._offsets(rows, mn, pattern)
            bits_ = matrix_descriptor(start, leading, stride, pattern, "tcgen05")
            self.descriptors.append(bits_)
            depth = self.k * steps
            self.places.append(places(decode(bits_, "tcgen05"), rows, depth, width, mn))
            start += -(-size // 1024) * 1024
        self.shared = max(-(-start // 2048) * 2048, 2048)
        self.step = [self._step(mn, pattern, rows) for rows, mn in ((m, mn_a), (n, mn_b))]
        text = GEMM.replace("KIND", kind).replace("SHARED", str(self.shared))
        text = replace_each(text, (changes or {}).items())
        for old, new in (("A_IN_TENSOR", ""), ("A_OPERAND", "%rd4"), ("MASKS", ""), ("SCALE", "")):
            text = text.replace(old, new)
        self.text = text

    def _offsets(self, rows: int, mn: bool, pattern: swizzle.Swizzle) -> tuple[int, int]:
        span, depth = pattern.span, self.k * self.steps
        if not mn:
            return rows * 16, 8 * span
        across, down = depth * span, 8 * span
        return (across, down) if pattern.bits else (down, across)

    def _step(self, mn: bool, pattern: swizzle.Swizzle, rows: int) -> int:
        """What a step along k adds to a descriptor."""
        if mn:
            return self.k * pattern.span >> 4
        if pattern.bits:
            return self.k * self.width >> 4
        return self.k * self.width // 16 * rows * 16 >> 4

    def run(self, a: Array, b: Array, old: Array | None = None, **more: Any) -> tuple[Array, Run]:
        """The cells of D (128, 256) after the product of codes ``a`` (m, k) and ``b`` (n, k)."""
        image = np.zeros(self.shared, np.uint8)
        for codes, at in zip((a, b), self.places, strict=True):
            image.view(f"u{self.width}")[at // self.width] = codes
        cells = np.full((128, 256), 0xFFFFFFFF, np.uint32) if old is None else old
        out = np.zeros((128, 256), np.uint32)
        found = run(
            self.text, image, np.ascontiguousarray(cells), out, *self.descriptors, self.idesc,
            self.steps, 0 if old is None else 1, *self.step, **more,
        )  # fmt: skip
        return out, found
