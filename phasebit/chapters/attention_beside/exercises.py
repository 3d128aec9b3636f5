"""Checks of *Attention beside others*; that of half a P stands beside the kernel it changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from phasebit.chapters.attention_beside import block_lengths
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, ask, judged, shown, whole

ROWS, BLOCK, K = 128, 256, 16
"""Rows of a tile, of the two tiles of a block; what an instruction sums over."""


def issued(positions: int, heads: int, keys: int, depth: int) -> tuple[int, int]:
    """Products of a launch with a block for each head, and of one with the heads as rows."""
    steps = -(-keys // ROWS)
    of_a_block = 2 * steps * (depth // K + ROWS // K)
    one_by_one = heads * -(-positions // BLOCK)
    return one_by_one * of_a_block, -(-positions * heads // BLOCK) * of_a_block


@judged
def products(answer: Callable[[int, int, int, int], tuple[int, int]]) -> str:
    """``answer(positions, heads, keys, depth)``: how many products either launch issues."""

    def cases() -> Iterator[Case]:
        for case in product((1, 33, 256, 300), (1, 8), (128, 200), (64, 128)):
            yield case, issued(*case)

    def words(positions: int, heads: int, keys: int, depth: int) -> str:
        return f"{positions} positions, {heads} heads, {keys} keys and {depth} columns"

    return agree(answer, cases(), words, "launches")


SIZES = ((4, 3, 2), (16, 16, 148), (64, 16, 148), (9, 7, 10), (1, 5, 4))
"""Blocks of a head, heads, multiprocessors."""


def _pairs(given: Any, where: str) -> list[tuple[int, int]]:
    pairs = [each if isinstance(each, list | tuple) else () for each in given] if isinstance(
        given, list | tuple) else [()]  # fmt: skip
    if not all(len(pair) == 2 and all(map(whole, pair)) for pair in pairs):
        raise Wrong(f"for {where} it gives {shown(given)}, expected is a list of pairs")
    return [(int(head), int(block)) for head, block in pairs]


@judged
def order(answer: Callable[[int, int], list[tuple[int, int]]]) -> str:
    """``answer(blocks, heads)``: (head, block) in an order that ends no later than ours."""
    for blocks, heads, multiprocessors in SIZES:
        where = f"{blocks} blocks of each of {heads} heads"
        made = _pairs(ask(answer, blocks, heads, words=where), where)
        if Counter(made) != Counter(product(range(heads), range(blocks))):
            raise Wrong(f"{where}: each pair of a head and a block must be there once")
        ours = block_lengths.lengths(block_lengths.ORDERS[2], blocks * BLOCK, heads)
        best = block_lengths.latest(ours, multiprocessors)
        steps = [2 * (block + 1) for _, block in made]
        ends = block_lengths.latest(steps, multiprocessors)
        if ends > best + 1e-9:
            raise Wrong(f"{where}: the last block is done at {ends:.2f} of the mean on "
                        f"{multiprocessors} multiprocessors; {best:.2f} can be had")  # fmt: skip
    return f"{len(SIZES)} launches"
