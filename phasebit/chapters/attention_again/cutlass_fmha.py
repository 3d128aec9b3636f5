"""CUTLASS's attention in CuTe DSL for Blackwell, forward, on the emulator: as it stands there.

Nothing of it is in this project. Fetch the repository, and install ``nvidia-cutlass-dsl``; neither
needs a GPU. Its module also imports PyTorch, for a comparison of its own that is not made here.
"""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np

from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.chapters.attention_again.tensor_attention import Array, Data

EXAMPLES = "examples/python/CuTeDSL"
FILE = "cute/blackwell/kernel/attention/fmha/fmha.py"


def module(repository: Path) -> Any:
    """The module of the kernel, of a checkout of github.com/NVIDIA/cutlass.

    Raises ``FileNotFoundError`` where it is none.
    """
    examples = repository / EXAMPLES
    if not (examples / FILE).exists():
        raise FileNotFoundError(f"{examples / FILE} is missing: give a checkout of NVIDIA/cutlass")
    spec = importlib.util.spec_from_file_location("cutlass_fmha_example", examples / FILE)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    stubs = {name: MagicMock() for name in ("torch", "cutlass.torch")
             if importlib.util.find_spec("torch") is None}  # fmt: skip
    sys.modules.update(stubs)
    sys.path.insert(0, str(examples))
    try:
        spec.loader.exec_module(made)
    finally:
        sys.path.remove(str(examples))
        for name in stubs:
            del sys.modules[name]
    return made


def softmax_registers(repository: Path) -> int:
    """How many registers a thread of the softmax asks for by ``setmaxnreg``, as the source says."""
    text = (repository / EXAMPLES / FILE).read_text(encoding="utf-8")
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
