"""A nest as a program: compiled, checked, timed by the processor, watched by the caches."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from phasebit import caches, native, rounding
from phasebit.nests.loops import Level, Nest
from phasebit.nests.source import buffer_shape, write

Arrays = Mapping[str, NDArray[np.float32]]

FREELY: tuple[str, ...] = ()
NO_EXCHANGE = ("-fno-loop-interchange",)
NO_JAM, NO_VECTORS = ("-fno-loop-unroll-and-jam",), ("-fno-tree-vectorize",)
AS_WRITTEN = (*NO_EXCHANGE, *NO_JAM, *NO_VECTORS)
"""What gcc is forbidden: to exchange loops, to unroll an outer one, to compute vectors."""

_PAGE = 4096
_EMPTY_PAGES = 1  # between two arrays in the watched memory


class Program:
    """A compiled nest: ``library`` has its functions, ``source`` is what was compiled."""

    def __init__(self, nest: Nest, library: native.Library, source: str) -> None:
        self.nest = nest
        self.source = source
        self.library = library
        self._buffers = [
            np.empty(int(np.prod(buffer_shape(nest, pack))), np.float32) for pack in nest.packs
        ]

    def arrays(self, seed: int = 0) -> dict[str, NDArray[np.float32]]:
        """Fresh normal numbers for every array of the nest, and zeros for its target."""
        return _fresh(self.nest, seed)

    def run(self, arrays: Arrays) -> None:
        """Add to the target what the nest computes."""
        self.library.run(*self._given(arrays))

    def times(self, arrays: Arrays, repeats: int, warm: int = 1) -> list[float]:
        """Seconds of each of ``repeats`` runs."""
        return self.library.run.times(self._given(arrays), repeats, warm)

    def watch(self, levels: Sequence[caches.Level] = caches.TYPICAL) -> caches.Counts:
        """What caches and TLBs see of one run: the arrays lie one behind the other, by pages."""
        given = self._given(self.arrays())
        at, places = 0, []
        for array in given:
            places.append(at)
            at += (-(-array.nbytes // _PAGE) + _EMPTY_PAGES) * _PAGE
        counts = np.zeros(1 + len(levels), np.int64)
        rows = caches.table(levels)
        self.library.watched(*given, np.array(places, np.int64), len(levels), rows, counts)
        return caches.read_counts(levels, counts)

    def check(self, seed: int = 0) -> str:
        """``"OK"``, or what is wrong with the target after one run on fresh numbers.

        Within the error bound of :mod:`phasebit.rounding`; the buffers are poisoned before.
        """
        arrays = self.arrays(seed)
        for buffer in self._buffers:
            buffer[:] = np.nan
        self.run(arrays)
        exact, size = _expected(replace(self.nest, order=_plain(self.nest), packs=()), seed)
        terms = self.nest.iterations // max(1, exact.size) + len(self.nest.factors)
        got = arrays[self.nest.target.array]
        bad = rounding.wrong(got, exact, rounding.product_bound(terms) * size)
        if not bad.any():
            return "OK"
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        return f"WRONG: {bad.sum()} of {bad.size} elements, the first at {first}"

    def _given(self, arrays: Arrays) -> list[NDArray[Any]]:
        for reference in self.nest.references:
            shape = self.nest.shape(reference.array)
            given = arrays[reference.array]
            if given.shape != shape or not given.flags.c_contiguous:
                raise ValueError(f"{reference.array} must have shape {shape}, row by row")
        return [arrays[each.array] for each in self.nest.references] + self._buffers


def build(nest: Nest, options: Sequence[str] = (), compiler: str = "") -> Program:
    """Compile a nest. Raises as :func:`phasebit.native.compile` does."""
    source = write(nest)
    library = native.compile(source, name="nest.cpp", options=options, compiler=compiler)
    return Program(nest, library, source)


def _fresh(nest: Nest, seed: int) -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    found = {
        factor.array: rng.standard_normal(nest.shape(factor.array), np.float32)
        for factor in nest.factors
    }
    target = nest.target.array
    return {target: np.zeros(nest.shape(target), np.float32), **found}


def _plain(nest: Nest) -> tuple[Level, ...]:
    return tuple(Level(name) for name, _ in sorted(nest.extents))


@functools.lru_cache(maxsize=2)
def _expected(nest: Nest, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What every variant of a nest is compared with: computed once for all of them."""
    return reference(nest, _fresh(nest, seed))


def reference(nest: Nest, arrays: Arrays) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What a nest adds to a target of zeros, in f64, and the sum of the terms' sizes.

    Raises ``ValueError`` for a target whose index is more than one variable in a dimension.
    """
    letters = {name: chr(ord("a") + i) for i, (name, _) in enumerate(nest.extents)}
    extents = dict(nest.extents)
    views, inputs = [], []
    for factor in nest.factors:
        given = arrays[factor.array].astype(np.float64)
        steps: dict[str, int] = {}
        start = tuple(slice(index.constant, None) for index in factor.index)
        for index, stride in zip(factor.index, given.strides, strict=True):
            for name, grow in index.terms:
                steps[name] = steps.get(name, 0) + grow * stride
        shape = [extents[name] for name in steps]
        views.append(as_strided(given[start], shape, list(steps.values())))
        inputs.append("".join(letters[name] for name in steps))
    output = []
    for index in nest.target.index:
        if len(index.terms) != 1 or index.terms[0][1] != 1 or index.constant:
            raise ValueError(f"the target {nest.target} needs one loop variable in each dimension")
        output.append(letters[index.terms[0][0]])
    form = f"{','.join(inputs)}->{''.join(output)}"
    exact: NDArray[np.float64] = np.einsum(form, *views, optimize=True)
    size: NDArray[np.float64] = np.einsum(form, *map(np.abs, views), optimize=True)
    return exact, size
