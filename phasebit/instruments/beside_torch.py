"""Our kernels and torch's by turns, on torch's matrices: checked, then timed."""

from __future__ import annotations

import ctypes
import importlib
import random
import statistics
from collections.abc import Callable, Iterable
from typing import Any

from phasebit import measure, toolchain

Launch = Callable[[], Any]
Matrices = tuple[Any, Any, Any]
"""A (M, K), B (K, N) and C (M, N), row-major, on the GPU."""


def facts_for(chapter: str, target: str) -> dict[str, Any]:
    """This machine's facts for the record of a chapter whose kernels are for Blackwell.

    Raises :class:`toolchain.CudaError` when there is no GPU, or one that does not run ``target``.
    """
    facts, here = measure.facts(), measure.gpu()
    if not here.takes(target):
        raise toolchain.CudaError(
            f"{chapter} is measured on a GPU that runs {target}, a B200, "
            f"and this one is {here.name}"
        )
    return facts


def torch_here(chapter: str) -> Any:
    """The package torch; raises :class:`toolchain.CudaError` where it is not installed."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise toolchain.CudaError(f"{chapter} is measured beside torch: {error}") from error


def pointers(tensors: Iterable[Any]) -> list[ctypes.c_void_p]:
    """The addresses of tensors, for a function of a library."""
    return [ctypes.c_void_p(each.data_ptr()) for each in tensors]


def cut_sums(k: int) -> float:
    """γ for f32 sums of ``k`` products whose adders cut bits off: (K + K/8 + 4)·2⁻²³.

    The error is at most γ·Σ|a·b|; gemm.cuh says why.
    """
    return (k + k / 8 + 4) * 2.0**-23


def check(
    torch: Any, name: str, launch: Launch, matrices: Matrices, bound: float, stored: float = 0.0
) -> None:
    """Compare 128 rows by 128 columns with double precision: ``bound``·Σ|a·b| + ``stored``·|c|.

    ``stored`` is the unit roundoff of C, where C is coarser than the sums. C is poisoned before.
    Raises :class:`toolchain.CudaError` if an element is wrong.
    """
    a, b, c = matrices
    c.fill_(float("nan"))
    launch()
    torch.cuda.synchronize()
    draw = random.Random(14)
    rows = torch.tensor([a.shape[0] - 1, *(draw.randrange(a.shape[0]) for _ in range(127))])
    cols = torch.tensor([b.shape[1] - 1, *(draw.randrange(b.shape[1]) for _ in range(127))])
    left, right = a[rows.cuda()].double(), b[:, cols.cuda()].double()
    exact = left @ right
    error = (c[rows.cuda()][:, cols.cuda()].double() - exact).abs()
    allowed = bound * (left.abs() @ right.abs()) + stored * exact.abs()
    if not bool((error <= allowed).all()) or bool(c.isnan().any()):
        raise toolchain.CudaError(f"{name} is wrong at {tuple(a.shape)} by {tuple(b.shape)}")


def timed(torch: Any, launch: Launch, count: int) -> list[float]:
    """Microseconds of each of ``count`` launches, one after the other."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2 * count)]
    for before, after in zip(events[::2], events[1::2], strict=True):
        before.record()
        launch()
        after.record()
    torch.cuda.synchronize()
    return [
        round(before.elapsed_time(after) * 1e3, 2)
        for before, after in zip(events[::2], events[1::2], strict=True)
    ]


def times(
    torch: Any, launches: dict[str, Launch], rounds: int, each: int
) -> dict[str, list[float]]:
    """Microseconds of each launch, the contenders by turns; the first of each turn not counted.

    The turns come in the order given and without rests. Where contenders reach the GPU's power
    limit, each therefore inherits the clock that the one before it left, and the record cannot
    say how low it was: a difference of some per cent between two of them may be their order. See
    :mod:`phasebit.instruments.rested` for turns that do not.
    """
    found: dict[str, list[float]] = {name: [] for name in launches}
    for _ in range(rounds):
        for name, launch in launches.items():
            launch()
            found[name] += timed(torch, launch, each)
    return found


def copy_rate(torch: Any) -> float:
    """Bytes a second that a copy of 1 GiB reads and writes."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    found = times(torch, {"copy": lambda: target.copy_(source)}, rounds=5, each=4)["copy"]
    return float(2 * source.numel() / (statistics.median(found) * 1e-6))
