"""A small NVFP4 product in CUDA, compiled for sm_100a, end to end: copies, ring, scales, sum.

The numbers are laid out by scaled_kernels' own code; the sums are exact.
"""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import phasebit as pb
from phasebit.edits import replace_each
from phasebit.emulator.errors import EmulatorError
from phasebit.launching.launch import Module
from tests.emulator.scaled_kernels import Scaled, reference, row_of_bytes, scale_bytes

Array = NDArray[Any]
SOURCE = Path(__file__).parent / "cuda" / "block_scaled.cu"
INCLUDE = Path(__file__).parents[2] / "kernels" / "include"
SHARED = 2 * 36864 + 1024
pytestmark = pytest.mark.nvcc


@functools.cache
def module(changes: tuple[tuple[str, str], ...] = ()) -> Module:
    text = SOURCE.read_text(encoding="utf-8")
    text = replace_each(text, changes)
    return pb.compile(text, "sm_100a", [f"-I{INCLUDE}"])


def product(
    m: int, n: int, k: int, changes: dict[str, str] | None = None, **more: Any
) -> tuple[bool, list[str], float]:
    """Whether C is right, the findings, and the seconds of a processor that the launch took."""
    rng = np.random.default_rng(m + n + k)
    codes = [rng.integers(0, 16, (rows, k)).astype(np.uint8) for rows in (m, n)]
    scales = [rng.choice([0x30, 0x38, 0x3C, 0x40], (rows, k // 16)).astype(np.uint8)
              for rows in (m, n)]  # fmt: skip
    maps, atoms = [], []
    for numbers, of in zip(codes, scales, strict=True):
        rows = b"".join(row_of_bytes([int(c) for c in row], 4, True) for row in numbers)
        data = np.frombuffer(rows, np.uint8).reshape(len(numbers), k // 2).copy()
        maps.append(pb.TensorMap(data, (256, 128), data_type="b4x16", dims=(k, len(numbers)),
                                 strides=(k // 2,), swizzle="128B"))  # fmt: skip
        atoms.append(np.frombuffer(b"".join(
            scale_bytes(of[i : i + 128, j : j + 4])
            for i in range(0, len(of), 128) for j in range(0, k // 16, 4)
        ), np.uint8))  # fmt: skip
    c = np.full((m, n), np.nan, np.float32)
    kernel = module(tuple((changes or {}).items()))["block_scaled"]
    start = time.process_time()
    try:
        found = kernel.launch((n // 128, m // 128), 128, [*maps, *atoms, c, n, k // 256],
                              shared=SHARED, **more)  # fmt: skip
    except EmulatorError as error:
        return False, [str(error), *(h.message for h in error.findings)], 0
    seconds = time.process_time() - start
    case = Scaled("mxf4nvf4", n, "e2m1", "e2m1", 4, "ue4m3", steps=k // 64)
    right = reference(case, *codes, *scales)
    return np.array_equal(c, right), [h.message for h in found.findings], seconds


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize(("m", "n", "k"), [(128, 128, 256), (128, 256, 1280)])
def test_it_is_right_and_clean(m: int, n: int, k: int, schedule: str) -> None:
    right, findings, _ = product(m, n, k, schedule=schedule)
    assert not findings, findings[0]
    assert right


def test_it_is_fast() -> None:
    """128 × 128 × 256 with all checks, and without."""
    for check in (True, False):
        assert min(product(128, 128, 256, check=check)[2] for _ in range(3)) < 1


MISTAKES = [
    ("scales are not copied", {"copy_scales(scales + 16 + 4 * s, slot.b_scales[s]);": ""},
     "nobody has written all of it"),
    ("the slice is not waited for", {"ptx::mbarrier_wait(&full[i % SLOTS], i / SLOTS % 2);": ""},
     "a bulk copy writes it"),
    ("the loader waits for its own copy",
     {"mbarrier_wait(&empty[i % SLOTS]": "mbarrier_wait(&full[i % SLOTS]"},
     "a bulk copy writes it"),
    ("the loader does not wait",
     {"ptx::mbarrier_wait(&empty[i % SLOTS], i / SLOTS % 2 ^ 1);": ""}, "with 0 of 1 pending"),
    ("the sum is not waited for", {"ptx::mbarrier_wait(&done, 0);": ""},
     "a tensor operation of thread 32"),
    ("the bytes of the scales are forgotten", {"/ 2 + 2 * STEPS * ATOM": "/ 2"},
     "deadlock"),
    ("a scale factor id that the size has not", {"M / 128 << 27": "M / 128 << 27 | 1 << 29"},
     "scale factor id of A, bits 29-30, is 1"),
    ("the sums of a quarter's neighbour", {"sum + (warp * 32 << 16)": "sum + (warp * 0 << 16)"},
     "warp w reaches only lanes"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "says"), [m[1:] for m in MISTAKES],
                         ids=[m[0] for m in MISTAKES])  # fmt: skip
def test_a_planted_mistake_is_found(changes: dict[str, str], says: str) -> None:
    _, findings, _ = product(128, 128, 1024, changes)
    assert any(says in h for h in findings), findings


def test_scales_said_to_be_of_the_other_type_make_a_wrong_product() -> None:
    """ue8m0 bits are no error for the hardware, only other numbers."""
    right, findings, _ = product(128, 128, 256, {"M / 128 << 27": "M / 128 << 27 | 1 << 23"})
    assert not right and not findings
