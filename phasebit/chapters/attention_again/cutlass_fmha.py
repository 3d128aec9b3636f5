"""CUTLASS's attention in CuTe DSL for Blackwell, forward, on the emulator: as it stands there.

Its module is loaded by :mod:`phasebit.instruments.cutlass_examples`.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.chapters.attention_again.tensor_attention import Array, Data
from phasebit.instruments import cutlass_examples

FILE = f"{cutlass_examples.KERNELS}/attention/fmha/fmha.py"
"""Its path in the examples."""


def softmax_registers(repository: Path) -> int:
    """How many registers a thread of the softmax asks for by ``setmaxnreg``, as the source says."""
    text = (repository / cutlass_examples.EXAMPLES / FILE).read_text(encoding="utf-8")
    found = re.search(r"num_regs_softmax = (\d+)", text)
    if found is None:
        raise ValueError(f"{FILE} has no num_regs_softmax: look for what took its place")
    return int(found[1])


def attend(example: Any, data: Data, causal: bool = False, *, share: bool = True) -> Array:
    """O = softmax(Q·Kᵀ / √depth)·V, (queries, heads, depth), within ``phasebit.cute.emulated``.

    ``share``: a share of the exponentials by a polynomial, and a correction only above its
    threshold of 8, as in our last kernel; else neither.
    """
    import cuda.bindings.driver as cuda
    import cutlass
    import cutlass.cute as cute
    from cutlass.cute.runtime import from_dlpack

    from phasebit.emulator import formats

    def tensor(array: Array) -> Any:
        made = from_dlpack(array, assumed_align=16)
        made.element_type = cutlass.BFloat16
        return made

    (queries, heads, depth), keys = data.q.shape, len(data.k)
    bits = [np.ascontiguousarray(np.asarray(formats.encode("bf16", x))).reshape(
        1, len(x), heads, 1, depth) for x in data]  # fmt: skip
    out = np.full_like(bits[0], 0x7FFF)
    masks = example.fmha_utils.MaskEnum
    mask = masks.RESIDUAL_MASK if keys % kernels.ROWS else masks.WINDOW_MASK
    if causal:
        mask = masks.WINDOW_MASK_INFERENCE
    kernel = example.BlackwellFusedMultiHeadAttentionForward(
        cutlass.Float32, cutlass.Float32, (kernels.ROWS, kernels.ROWS), depth, False, mask, share,
        share,
    )
    scale = 1 / math.sqrt(depth)
    right = cutlass.Int32(0) if causal else None
    size = (1, queries, queries, keys, heads, heads, depth, depth)
    arguments = (*map(tensor, (*bits, out)), size, None, None, None, None,
                 scale * kernels.LOG2_E, scale, 1.0, None, None, right, None, None,
                 cuda.CUstream(0), False)  # fmt: skip
    cute.compile(kernel, *arguments, options="--opt-level=2")(*arguments)
    return np.asarray(formats.decode("bf16", out), np.float64).reshape(data.q.shape)
