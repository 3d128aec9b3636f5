"""The check before a product is timed beside torch, on arrays that answer like torch's tensors."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phasebit.instruments import beside_torch
from phasebit.toolchain import CudaError

K = 96


class Tensor(np.ndarray):
    """An array with the methods of a tensor that the check asks for."""

    def cuda(self) -> Tensor:
        return self

    def double(self) -> Any:
        return self.astype(np.float64)

    def abs(self) -> Any:
        return np.abs(self)

    def isnan(self) -> Any:
        return np.isnan(self)

    def fill_(self, value: float) -> None:
        self.fill(value)


TORCH = types.SimpleNamespace(
    tensor=lambda numbers: np.array(numbers).view(Tensor),
    cuda=types.SimpleNamespace(synchronize=lambda: None),
)


def check(wrong: Callable[[Any], None], stored: float = 0.0) -> None:
    """Check a product whose result ``wrong`` spoils."""
    draw = np.random.default_rng()
    a, b = (draw.standard_normal(shape).astype(np.float32) for shape in ((200, K), (K, 300)))
    c = np.zeros((200, 300), np.float32).view(Tensor)

    def launch() -> None:
        c[:] = a @ b
        wrong(c)

    matrices = a.view(Tensor), b.view(Tensor), c
    beside_torch.check(TORCH, "rung", launch, matrices, beside_torch.cut_sums(K), stored)


def nothing(c: Any) -> None:
    """A right result."""


def last(c: Any) -> None:
    c[-1, -1] += 1


def unwritten(c: Any) -> None:
    c[17, 29] = np.nan


def coarse(c: Any) -> None:
    c *= 1 + 2.0**-9


def test_a_right_result_passes() -> None:
    check(nothing)


@pytest.mark.parametrize("wrong", [last, unwritten, coarse])
def test_a_wrong_one_does_not(wrong: Callable[[Any], None]) -> None:
    with pytest.raises(CudaError, match=r"rung is wrong at \(200, 96\) by \(96, 300\)"):
        check(wrong)


def test_c_may_be_coarser_than_the_sums() -> None:
    check(coarse, stored=2.0**-8)
    with pytest.raises(CudaError):
        check(last, stored=2.0**-8)


def test_torch_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(CudaError, match="copy_engine is measured beside torch"):
        beside_torch.torch_here("copy_engine")
