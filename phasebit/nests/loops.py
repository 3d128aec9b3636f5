"""A perfect loop nest around one statement ``T += F * G …``, and what one can do to its order.

Everything is affine: an index is a sum of loop variables with whole factors, and a constant. So
the part of an array that the inner loops touch is a box, known before anything runs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral

_REFERENCE = re.compile(r"(?P<array>[A-Za-z]\w*)\s*(?P<index>(?:\[[^\]]+\])+)")
_TERM = re.compile(
    r"(?P<sign>[+-])?(?:(?P<factor>\d+)\*)?(?:(?P<name>[A-Za-z]\w*)|(?P<number>\d+))"
)


@dataclass(frozen=True)
class Affine:
    """An index: Σ factor · variable + constant."""

    terms: tuple[tuple[str, int], ...]
    constant: int = 0

    def factor(self, variable: str) -> int:
        """By how much the index grows when the variable grows by one."""
        return dict(self.terms).get(variable, 0)

    def span(self, sizes: Mapping[str, int]) -> int:
        """How many values it takes when each variable takes ``sizes[variable]`` ones (else one)."""
        return 1 + sum(factor * (sizes.get(name, 1) - 1) for name, factor in self.terms)

    def __str__(self) -> str:
        parts = [name if factor == 1 else f"{factor} * {name}" for name, factor in self.terms]
        return " + ".join([*parts, *([str(self.constant)] if self.constant or not parts else [])])


@dataclass(frozen=True)
class Reference:
    """An element of an array: ``A[k][l][i]``."""

    array: str
    index: tuple[Affine, ...]

    @property
    def variables(self) -> frozenset[str]:
        """The loop variables on which it depends."""
        return frozenset(name for index in self.index for name, _ in index.terms)

    def __str__(self) -> str:
        return self.array + "".join(f"[{index}]" for index in self.index)


@dataclass(frozen=True)
class Level:
    """One loop: ``variable`` in steps. A step above one is the loop over blocks of that size."""

    variable: str
    step: int = 1

    def __str__(self) -> str:
        return self.variable if self.step == 1 else f"{self.variable}/{self.step}"


@dataclass(frozen=True)
class Pack:
    """What an array's reference touches inside the ``depth`` outer loops is copied beforehand."""

    array: str
    depth: int


@dataclass(frozen=True)
class Nest:
    """Loops around ``target += factor * …``, outermost first.

    A loop over elements that stands inside a loop over blocks of the same variable runs through
    the current block. Every variable has exactly one loop of step 1, inside all its others.
    """

    target: Reference
    factors: tuple[Reference, ...]
    extents: tuple[tuple[str, int], ...]  # variable -> how many values, from 0
    order: tuple[Level, ...]
    packs: tuple[Pack, ...] = ()

    def __post_init__(self) -> None:
        extents = dict(self.extents)
        for name, extent in extents.items():
            if not isinstance(extent, Integral):
                raise ValueError(f"the extent of {name} is {extent!r}: give a whole number")
            steps = [level.step for level in self.order if level.variable == name]
            falling = all(a > b for a, b in itertools.pairwise(steps))
            if not steps or steps[-1] != 1 or not falling or extent < 1:
                raise ValueError(
                    f"{name} needs one loop of step 1 inside its loops over blocks, "
                    f"and an extent of one or more: {' '.join(map(str, self.order))}"
                )
        unknown = {level.variable for level in self.order} - set(extents)
        for reference in self.references:
            unknown |= reference.variables - set(extents)
        if unknown:
            raise ValueError(f"no extent is given for {', '.join(sorted(unknown))}")
        for pack in self.packs:
            if pack.array not in {factor.array for factor in self.factors}:
                raise ValueError(f"{pack.array} is not read only: choose a factor to pack")
            if not 0 <= pack.depth <= len(self.order):
                raise ValueError(f"depth {pack.depth}: the nest has {len(self.order)} loops")

    # What it is

    @property
    def references(self) -> tuple[Reference, ...]:
        """The target, then the factors."""
        return (self.target, *self.factors)

    @property
    def iterations(self) -> int:
        """How often the statement runs."""
        product = 1
        for _, extent in self.extents:
            product *= extent
        return product

    def reference(self, array: str) -> Reference:
        """The reference to an array; raises ``ValueError`` when there is none."""
        for each in self.references:
            if each.array == array:
                return each
        raise ValueError(f"the nest has no array {array!r}")

    def shape(self, array: str) -> tuple[int, ...]:
        """The extents of an array: as large as its reference needs, row by row."""
        extents = dict(self.extents)
        return tuple(index.span(extents) + index.constant for index in self.reference(array).index)

    def sizes(self, depth: int) -> dict[str, int]:
        """How many values each variable takes while the ``depth`` outer loops stand still."""
        left = dict(self.extents)
        for level in self.order[:depth]:
            left[level.variable] = min(left[level.variable], level.step)
        return left

    def box(self, array: str, depth: int) -> tuple[int, ...]:
        """The extents of what the reference touches while the ``depth`` outer loops stand still."""
        sizes = self.sizes(depth)
        return tuple(index.span(sizes) for index in self.reference(array).index)

    def dimensions(self, array: str) -> tuple[int, ...]:
        """The dimensions of an array, the one that changes most often last: the order of use."""
        innermost = {level.variable: place for place, level in enumerate(self.order)}
        index = self.reference(array).index

        def fastest(dimension: int) -> int:
            return max((innermost[name] for name, _ in index[dimension].terms), default=-1)

        return tuple(sorted(range(len(index)), key=fastest))

    # What one can do to it

    def interchange(self, *variables: str) -> Nest:
        """The loops in another order, given by their variables.

        Raises ``ValueError`` unless each loop is named once; loops over blocks are interchanged
        before they are made.
        """
        by_name = {level.variable: level for level in self.order}
        if len(by_name) < len(self.order):
            raise ValueError("this nest has loops over blocks: interchange first, then tile")
        if sorted(variables) != sorted(by_name):
            raise ValueError(f"name each of {', '.join(by_name)} once, not {', '.join(variables)}")
        return replace(self, order=tuple(by_name[name] for name in variables))

    def tile(self, at: int = 0, **steps: int) -> Nest:
        """Loops over blocks of the variables named, in that order, inside the ``at`` outer ones.

        Raises ``ValueError`` for a block of less than two, and as every nest does.
        """
        if not all(isinstance(step, Integral) and step >= 2 for step in steps.values()):
            raise ValueError("a block has at least two elements")
        blocks = tuple(Level(name, step) for name, step in steps.items())
        return replace(self, order=(*self.order[:at], *blocks, *self.order[at:]))

    def pack(self, array: str, depth: int) -> Nest:
        """Copy what ``array``'s reference touches inside the ``depth`` outer loops, before them."""
        return replace(self, packs=(*self.packs, Pack(array, depth)))

    def __str__(self) -> str:
        loops = " ".join(map(str, self.order))
        packs = "".join(f", {pack.array} packed at depth {pack.depth}" for pack in self.packs)
        product = " * ".join(map(str, self.factors))
        return f"{loops}: {self.target} += {product}{packs}"


def parse(statement: str, **extents: int) -> Nest:
    """A nest from its statement; the loops stand in the order of the extents.

    >>> str(parse("C[i][j] += A[i][k] * B[k][j]", i=4, j=5, k=6))
    'i j k: C[i][j] += A[i][k] * B[k][j]'

    Raises ``ValueError`` for a statement of another form.
    """
    left, plus, right = statement.partition("+=")
    pieces = [part.strip() for part in re.split(r"\*(?![^\[]*\])", right)]
    if not plus or not all(pieces):
        raise ValueError(f"{statement!r} is no statement: write T[i] += F[i] * G[i]")
    target, *factors = map(_reference, [left.strip(), *pieces])
    names = [reference.array for reference in (target, *factors)]
    if len(set(names)) < len(names):
        raise ValueError(f"{statement!r} names an array twice: give each reference its own")
    order = tuple(Level(name) for name in extents)
    return Nest(target, tuple(factors), tuple(extents.items()), order)


def _reference(text: str) -> Reference:
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no element of an array: write A[i][k]")
    return Reference(match["array"], tuple(map(_affine, re.findall(r"\[([^\]]+)\]", text))))


def _affine(text: str) -> Affine:
    plain = text.replace(" ", "")
    terms: dict[str, int] = {}
    constant = 0
    for match in _terms(plain, text):
        sign = -1 if match["sign"] == "-" else 1
        if match["name"]:
            grow = sign * int(match["factor"] or 1)
            terms[match["name"]] = terms.get(match["name"], 0) + grow
        else:
            constant += sign * int(match["number"]) * int(match["factor"] or 1)
    if min([constant, *terms.values()]) < 0:
        raise ValueError(f"[{text}] runs backwards: only sums are known")
    return Affine(tuple(terms.items()), constant)


def _terms(plain: str, text: str) -> Iterator[re.Match[str]]:
    at = 0
    while at < len(plain):
        match = _TERM.match(plain, at)
        if match is None or (at > 0 and not match["sign"]):
            raise ValueError(f"[{text}] is no sum of loop variables: write 2*y + r + 1")
        yield match
        at = match.end()


def strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Elements from one index to the next in each dimension, row by row.

    >>> strides((2, 3, 4))
    (12, 4, 1)
    """
    result = [1]
    for extent in reversed(shape[1:]):
        result.append(result[-1] * extent)
    return tuple(reversed(result))
