"""Heads of queries that share heads of keys: which blocks copy them, and what a row sees.

Drawn from runs of `d_polynomial.cu` on the emulator, changed where a head of queries is no longer
a head of keys.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from phasebit.chapters.attention_again import shared_keys
from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.edits import replace_once

if TYPE_CHECKING:
    from phasebit.draw import Picture

DEPTH = 64
HUES = "blue", "orange", "green", "pink"
COPY = "load(s.kv[at.slot], from, key, head, full);"


class Heads(NamedTuple):
    """Of queries and of keys: ``queries`` heads, ``group`` of them to a head of keys."""

    queries: int
    group: int

    @property
    def keys(self) -> int:
        return self.queries // self.group


class Copied(NamedTuple):
    """Rows of a head that a block copies to shared memory, those behind the end left out."""

    block: int
    tensor: str
    """``Q``, ``K`` or ``V``."""
    head: int
    rows: int


HEADS = Heads(8, 4)
POSITIONS, KEYS = 64, 200
"""Of the picture: 64 positions of four heads are the 256 rows of a block."""


def one_by_one(heads: Heads) -> str:
    """`d_polynomial.cu` with a block for each head of queries, which finds its head of keys."""
    text = kernels.source(kernels.POLYNOMIAL)
    return replace_once(text, COPY, COPY.replace("head,", f"head / {heads.group},"))


def copies(
    heads: Heads, positions: int, keys: int, *, as_rows: bool, text: str | None = None
) -> list[Copied]:
    """What each block of a launch copies; a launch whose result is wrong raises ``RuntimeError``.

    ``as_rows``: the heads of a group are rows of the tiles; else each has blocks of its own.
    ``text``: a kernel in place of ours.
    """
    from phasebit.emulator import BulkCopyObserver, observing

    shape = kernels.Shape(positions, keys, DEPTH, heads.queries)
    drawn = kernels.draw(shape)
    k, v = (x[:, : heads.keys] for x in (drawn.k, drawn.v))
    right = drawn._replace(k=k.repeat(heads.group, 1), v=v.repeat(heads.group, 1))
    q = drawn.q
    if as_rows:  # rows: positions, and in each the heads of a group; columns: a head of keys
        q = np.swapaxes(q.reshape(positions, heads.keys, heads.group, DEPTH), 1, 2)
        q = q.reshape(positions * heads.group, heads.keys, DEPTH)
    text = text or (shared_keys.source(heads.group) if as_rows else one_by_one(heads))
    begun: dict[tuple[int, int, int], set[int]] = defaultdict(set)

    class Watcher(BulkCopyObserver):
        def starts_copies(self, g: Any, copies: Any) -> None:
            for one, copy in copies:
                if copy.target.space == "shared":
                    warp = int(g.batch.warp_of[one.lanes][0])
                    block = int(g.batch.blocks[warp // g.batch.warps])
                    tensor, begins = copy.source.d, map(int, copy.source.begins)
                    begun[block, tensor.address, tensor.strides[0]].update(begins)

    with observing(Watcher()):
        made = kernels.attend(text, kernels.Data(q, k, v))
    out = made.out
    if as_rows:
        out = np.swapaxes(out.reshape(positions, heads.group, heads.keys, DEPTH), 1, 2)
    if made.run.findings or kernels.off(shape, right, out.reshape(right.q.shape)) > 1:
        raise RuntimeError("the kernel with shared heads is not right: run its tests")
    tops: dict[int, int] = {}  # where each tensor begins: row 0 of head 0 is copied, too
    for (_, address, _), begins in begun.items():
        tops[address] = min(*begins, tops.get(address, min(begins)))
    names = dict(zip(sorted(tops), "QKV", strict=True))
    rows: dict[tuple[int, int, int], set[int]] = defaultdict(set)
    for (block, address, pitch), begins in begun.items():
        for begin in begins:
            row, column = divmod(begin - tops[address], pitch)
            rows[block, address, column // (2 * DEPTH)].add(row)
    found = []
    for (block, address, head), those in sorted(rows.items()):
        if names[address] == "Q" and as_rows:
            for of_group in range(heads.group):
                mine = sum(row % heads.group == of_group for row in those)
                found.append(Copied(block, "Q", head * heads.group + of_group, mine))
        else:
            found.append(Copied(block, names[address], head, len(those)))
    return found


def picture() -> Picture:
    """Blocks downwards, heads across: how many rows of each head a block copies."""
    from phasebit.draw import Cell, chart

    columns = [*(f"Q{head}" for head in range(HEADS.queries)),
               *(f"KV{head}" for head in range(HEADS.keys))]  # fmt: skip
    cells: list[list[Cell | None]] = []
    rows = []
    for as_rows, words in ((False, "apart"), (True, "as rows")):
        found = copies(HEADS, POSITIONS, KEYS, as_rows=as_rows)
        for block in sorted({each.block for each in found}):
            line: list[Cell | None] = [None] * len(columns)
            for _, tensor, head, many in (each for each in found if each.block == block):
                at = head if tensor == "Q" else HEADS.queries + head  # K and V of a head are alike
                line[at] = Cell(str(many), HUES[head // HEADS.group if tensor == "Q" else head])
            rows.append(f"{words} {block}")
            cells.append(line)
    groups = [f"heads {n * HEADS.group} to {(n + 1) * HEADS.group - 1} of Q, K and V {n}"
              for n in range(HEADS.keys)]  # fmt: skip
    return chart(
        cells, rows=rows, columns=columns, row_label="block", column_label="heads",
        legend=dict(zip(HUES, groups, strict=False)),
        title=f"Rows of each head that a block copies: {POSITIONS} positions, {KEYS} keys",
    )  # fmt: skip


SURE = 64
"""Keys that each row must see for :func:`seen` to count them all."""


def seen(positions: int, keys: int, heads: int, text: str | None = None) -> list[int]:
    """How many keys each row of a causal launch sees, by a run: heads as rows, one head of keys.

    All scores are 0, and the first 64 keys have the value 1, the others 0: a row that sees n keys
    gets 64 / n. ``text``: a kernel in place of :func:`shared_keys.source`.
    """
    if keys < SURE + positions * heads:
        raise ValueError(f"a row may see fewer than {SURE} of {keys} keys: give more")
    k, v = (np.zeros((keys, 1, DEPTH)) for _ in "kv")
    v[:SURE] = 1
    q = np.zeros((positions * heads, 1, DEPTH))
    out = kernels.attend(text or shared_keys.source(heads), kernels.Data(q, k, v), True).out
    return [round(SURE / float(each)) for each in out[:, 0, 0]]


def rows(positions: int, keys: int, heads: int, *, by_row: bool = False) -> Picture:
    """Rows of a tile across: head, position, and how many keys a row sees.

    ``by_row``: also what it sees where the mask takes a row's number for a position.
    """
    from phasebit.draw import Cell, chart

    every = range(positions * heads)
    lines = {"head": [row % heads for row in every], "position": [row // heads for row in every],
             "keys seen": seen(positions, keys, heads)}  # fmt: skip
    if by_row:
        text = kernels.source(kernels.POLYNOMIAL)
        lines["row as position"] = seen(positions, keys, heads, text)
    return chart(
        [[Cell(str(n), HUES[row // heads % len(HUES)]) for row, n in enumerate(line)]
         for line in lines.values()],
        rows=[*lines], columns=[*every], row_label="what", column_label="row of the tile",
        title=f"Rows of a tile: {heads} heads of {positions} positions, {keys} keys, causal",
        legend={HUES[n % len(HUES)]: f"position {n}" for n in range(positions)},
    )  # fmt: skip
