"""Two nests of *To pack or not to pack* that are no boxes: trmm and gramschmidt of PolyBench.

Written anew from their definitions, in three versions (``kernels/to_pack_or_not/triangles.cpp``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasebit import caches, measure, native

VERSIONS = ("as written", "a column packed", "along rows")
NESTS = ("trmm", "gramschmidt")


def arrays(name: str, n: int, seed: int = 0) -> list[NDArray[np.float32]]:
    """Fresh arrays of a nest: A and B, or A, Q and R, each (n, n), and a buffer (n).

    Raises ``ValueError`` for a nest that is none of :data:`NESTS`.
    """
    if name not in NESTS:
        raise ValueError(f"no nest {name!r}: choose from {', '.join(NESTS)}")
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((n, n), np.float32)
    if name == "trmm":
        b = rng.standard_normal((n, n), np.float32)
        return [a / np.float32(n), b, np.zeros(n, np.float32)]
    zeros = [np.zeros((n, n), np.float32) for _ in "qr"]
    return [a + 4 * np.eye(n, dtype=np.float32), *zeros, np.zeros(n, np.float32)]


def run(name: str, version: str, given: list[NDArray[np.float32]]) -> None:
    """Run a version of a nest on its :func:`arrays`."""
    function = getattr(native.load("to_pack_or_not/triangles"), f"run_{name}")
    function(VERSIONS.index(version), len(given[0]), *given)


def watch(
    name: str, version: str, n: int, levels: Sequence[caches.Level] = caches.TYPICAL
) -> caches.Counts:
    """What caches and TLBs see of one run; each array begins at a page."""
    given: list[Any] = [*arrays(name, n)]
    function = getattr(native.load("to_pack_or_not/triangles"), f"watched_{name}")
    apart = (-(-n * n * 4 // 4096) + 1) * 4096
    counts = np.zeros(1 + len(levels), np.int64)
    rows = caches.table(levels)
    function(VERSIONS.index(version), n, *given, apart, len(levels), rows, counts)
    return caches.read_counts(levels, counts)


def wrong(name: str, version: str, n: int) -> float:
    """The largest difference from the definition in f64, over the largest element."""
    given = arrays(name, n)
    a = given[0].astype(np.float64)
    if name == "trmm":
        exact = (np.tril(a, -1).T + np.eye(n)) @ given[1].astype(np.float64)
        run(name, version, given)
        return float(np.abs(given[1] - exact).max() / np.abs(exact).max())
    run(name, version, given)
    q, r = (each.astype(np.float64) for each in given[1:3])
    both = np.abs(q @ np.triu(r) - a).max() / np.abs(a).max(), np.abs(q.T @ q - np.eye(n)).max()
    return float(max(both))


def missed(n: int) -> measure.Table:
    """Misses of L1 and of the TLB for 1000 accesses, of each nest and version with ``n`` rows.

    Raises ``ValueError`` where a version computes something else.
    """
    rows = []
    for name in NESTS:
        for version in VERSIONS:
            if wrong(name, version, 100) > 1e-4:
                raise ValueError(f"{name}, {version}: the result is wrong")
            counts = watch(name, version, n)
            rates = (f"{1000 * counts.rate(level):.1f}" for level in ("L1", "TLB"))
            rows.append((name, version, *rates))
    return measure.Table(("nest", "version", "L1", "TLB"), tuple(rows),
                         "misses for 1000 accesses")  # fmt: skip
