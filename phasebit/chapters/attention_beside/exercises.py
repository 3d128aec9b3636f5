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


SIZES = ((64, 18, 4, 148), (32, 32, 8, 148), (16, 13, 4, 24), (9, 7, 3, 10), (1, 5, 2, 4))
"""Blocks of a head, heads, heads that may be together, multiprocessors."""

LATER = 1.03
"""How much later than by groups the last block may be done."""


def _pairs(given: Any, where: str) -> list[tuple[int, int]]:
    pairs = [each if isinstance(each, list | tuple) else () for each in given] if isinstance(
        given, list | tuple) else [()]  # fmt: skip
    if not all(len(pair) == 2 and all(map(whole, pair)) for pair in pairs):
        raise Wrong(f"for {where} it gives {shown(given)}, expected is a list of pairs")
    return [(int(head), int(block)) for head, block in pairs]


@judged
def order(answer: Callable[[int, int, int], list[tuple[int, int]]]) -> str:
    """``answer(blocks, heads, together)``: (head, block) in an order that ends early.

    And from a head's first block to its last there are at most ``together * blocks`` places.
    """
    for blocks, heads, together, multiprocessors in SIZES:
        where = f"{blocks} blocks of each of {heads} heads, {together} together"
        made = _pairs(ask(answer, blocks, heads, together, words=where), where)
        if Counter(made) != Counter(product(range(heads), range(blocks))):
            raise Wrong(f"{where}: each pair of a head and a block must be there once")
        apart, room = block_lengths.farthest(made), together * blocks
        if apart > room:
            raise Wrong(f"{where}: from the first block of a head to its last there are {apart} "
                        f"places, and there may be {room}")  # fmt: skip
        best, ends = (
            block_lengths.latest([block_lengths.of_block(b) for _, b in each], multiprocessors)
            for each in (block_lengths.by_groups(blocks, heads, together), made)
        )
        if ends > LATER * best:
            raise Wrong(f"{where}: the last block is done at {ends:.2f} of the mean on "
                        f"{multiprocessors} multiprocessors; {best:.2f} can be had")  # fmt: skip
    return f"{len(SIZES)} launches"
