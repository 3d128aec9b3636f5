# mypy: ignore-errors
"""Triton's tutorial of fused attention, compiled for Hopper: right, and nothing is found.

Its source is not here: name a checkout of github.com/triton-lang/triton in TRITON_REPOSITORY, and
``pip install triton``. Neither needs a GPU.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from unittest.mock import MagicMock, patch

import numpy as np
import pytest

pytest.importorskip("triton", reason="triton is not installed: NOT asked")

import triton
from triton.tools.tensor_descriptor import TensorDescriptor

import phasebit.triton
from phasebit.doors import device_arrays
from tests.foreign.triton_tools import Typed

WHERE = os.environ.get("TRITON_REPOSITORY")
FILE = "python/tutorials/06-fused-attention.py"
pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(not WHERE, reason="TRITON_REPOSITORY names no checkout: NOT asked"),
]

LAYERS, KEYS = 2, 384
CASES = {
    "64, full": (64, False, False, 4, 4),
    "64, causal": (64, True, False, 4, 3),
    "128, two groups": (128, False, False, 8, 2),
    "64, roles": (64, False, True, 4, 2),
    "128, roles": (128, False, True, 8, 2),
}
"""Name -> columns, causal, warps specialised, warps, stages."""


@pytest.fixture(scope="module")
def tutorial():
    """The tutorial's module. Stand-ins for torch, which says what GPU there is, and for pytest."""
    spec = importlib.util.spec_from_file_location("fused_attention", Path(WHERE) / FILE)
    made = importlib.util.module_from_spec(spec)
    torch = MagicMock()
    torch.cuda.get_device_capability.return_value = (9, 0)
    torch.autograd.Function = type("Function", (), {"apply": None})
    with (
        phasebit.triton.emulated("sm_90a"),
        patch.dict(sys.modules, torch=torch, pytest=MagicMock()),
    ):
        spec.loader.exec_module(made)
    return made


def attention(q, k, v, causal):
    """In double."""
    scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[2])
    if causal:
        scores = np.where(np.tri(*scores.shape[1:], dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(axis=2, keepdims=True))
    return p @ v / p.sum(axis=2, keepdims=True)


@pytest.mark.parametrize("name", CASES)
def test_right_and_nothing_found(tutorial, name):
    d, causal, roles, warps, stages = CASES[name]
    draw = np.random.default_rng(6)
    hosts = [draw.normal(size=(LAYERS, KEYS, d)).astype(np.float16) for _ in "qkv"]
    rows, columns = 128, 64
    out = []

    def launch():
        arrays = [device_arrays.array(x) for x in (*hosts, np.full_like(hosts[0], np.nan))]
        sums = device_arrays.empty(LAYERS * KEYS)
        given = [Typed(x, "fp16") for x in arrays]
        if not roles:  # as the tutorial does: descriptors of the host's, else of the device's
            flat = [LAYERS * KEYS, d]
            given = [
                TensorDescriptor(x, flat, [d, 1], [size, d])
                for x, size in zip(given, (rows, columns, columns, rows), strict=True)
            ]
        triton.set_allocator(lambda size, align, stream: device_arrays.empty(size, np.uint8))
        tutorial._attn_fwd.fn[(KEYS // rows, LAYERS, 1)](
            1 / np.sqrt(d), Typed(sums, "fp32"), 1, LAYERS, *given, N_CTX=KEYS, HEAD_DIM=d,
            BLOCK_M=rows, BLOCK_N=columns, FP8_OUTPUT=False, STAGE=3 if causal else 1,
            warp_specialize=roles, IS_HOPPER=True, num_warps=warps, num_stages=stages,
        )  # fmt: skip
        out[:] = [np.array(arrays[3], np.float64)]

    with phasebit.triton.emulated("sm_90a", schedules="all") as runs:
        launch()
    assert runs.findings == [], str(runs)
    right = attention(*(x.astype(np.float64) for x in hosts), causal)
    np.testing.assert_allclose(out[0], right, rtol=4e-3, atol=4e-3)
