# mypy: ignore-errors
"""CUTLASS's attention in CuTe DSL for Hopper: right; a block leaves while its stores still read.

Its source is not here: name a checkout of github.com/NVIDIA/cutlass in CUTLASS_REPOSITORY, and
``pip install nvidia-cutlass-dsl``. Neither needs a GPU.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cutlass", reason="nvidia-cutlass-dsl is not installed: NOT asked")

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import from_dlpack

import phasebit.cute
from phasebit.chapters.attention import attend
from phasebit.edits import replace_once
from phasebit.emulator import formats

WHERE = os.environ.get("CUTLASS_REPOSITORY")
EXAMPLES = "examples/python/CuTeDSL"
FILE = "cute/hopper/kernel/attention/fmha.py"
pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(not WHERE, reason="CUTLASS_REPOSITORY names no checkout: NOT asked"),
]

CASES = {
    "64, full": (64, 128, 256, False, False),
    "64, causal, ragged": (64, 200, 330, True, False),
    "128, ragged": (128, 130, 200, False, False),
    "64, persistent": (64, 384, 256, False, True),
}
"""Name -> columns, queries, keys, causal, persistent."""

AFTER = "                work_tile = tile_sched.get_current_work()\n"
WAIT = "            tma_store_pipeline.producer_tail()\n"


def loaded(folder, text):
    """The module of the example, from a text of it."""
    path = folder / "fmha_for_hopper.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(Path(WHERE) / EXAMPLES))
    try:
        spec.loader.exec_module(made)
    finally:
        sys.path.pop(0)
    return made


@pytest.fixture(scope="module")
def text():
    return (Path(WHERE) / EXAMPLES / FILE).read_text(encoding="utf-8")


def findings(example, name):
    d, queries, keys, causal, persistent = CASES[name]
    h = attend.heads(d, queries, keys, layers=2)
    masks = example.fmha_utils.MaskEnum
    mask = masks.RESIDUAL_MASK if keys % 128 else masks.WINDOW_MASK
    kernel = example.HopperFusedMultiHeadAttentionForward(
        cutlass.Float32, cutlass.Float32, (64, 128, d), persistent,
        masks.WINDOW_MASK_INFERENCE if causal else mask,
    )  # fmt: skip
    scale = 1 / math.sqrt(d)

    def tensor(array, kind=cutlass.BFloat16):
        """Of (tokens, heads, columns) as (tokens, columns, 1, heads, 1)."""
        whole = array[None, :, :, None].transpose(1, 4, 3, 2, 0)
        made = from_dlpack(whole, assumed_align=16)
        made.element_type = kind
        return made.mark_layout_dynamic(leading_dim=1)

    bits = [np.ascontiguousarray(np.asarray(formats.encode("bf16", x)).swapaxes(0, 1)) for x in h]
    out, sums = np.full_like(bits[0], 0x7FFF), np.zeros((queries, 2, 1), np.float32)
    with phasebit.cute.emulated("sm_90a", schedules="all") as runs:
        right = cutlass.Int32(0) if causal else None
        given = (
            *map(tensor, (*bits, out)), tensor(sums, cutlass.Float32),
            float(scale * attend.LOG2_E), scale, 1.0, None, right, cuda.CUstream(0),
        )  # fmt: skip
        cute.compile(kernel, *given)(*given)
    made = np.asarray(formats.decode("bf16", out), np.float64).swapaxes(0, 1)
    right, allowed = attend.exact(h, causal)
    assert (np.abs(made - right) <= allowed).all()
    return [str(each) for each in runs.findings]


@pytest.mark.parametrize("name", CASES)
def test_right_under_every_schedule(text, tmp_path, name):
    """Each block leaves while its last bulk stores may still read its shared memory; nothing else
    is found."""
    found = findings(loaded(tmp_path, text), name)
    assert found
    assert all("leaves the kernel while a bulk copy" in each for each in found), found


def test_with_a_wait_for_the_stores_nothing_is_found(text, tmp_path):
    end = f"{AFTER}        return\n"
    waited = replace_once(text, end, end.replace(AFTER, AFTER + WAIT))
    assert not findings(loaded(tmp_path, waited), "64, full")
