"""Heads of queries that share one head of keys and values: one by one, and as rows of one tile."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.edits import replace_once

if TYPE_CHECKING:
    from phasebit.measure import Table

SEEN = "query + 1 + keys - queries)"


def source(heads: int) -> str:
    """`d_polynomial.cu` for tiles whose rows are positions times heads.

    Row ``i`` is head ``i % heads`` of position ``i / heads``, and sees what its position sees.
    """
    text = kernels.source(kernels.POLYNOMIAL)
    return replace_once(text, SEEN, f"query / {heads} + 1 + keys - queries / {heads})")


class Launch(NamedTuple):
    """What a launch has made and moved."""

    blocks: int
    products: int
    """``tcgen05.mma``."""
    copied: int
    """Bytes that bulk copies move, boxes counted whole."""
    right: bool
    findings: int


def launches(
    positions: int, keys: int, heads: int, causal: bool, text: str | None = None
) -> tuple[Launch, Launch]:
    """The same attention by `d_polynomial.cu` with a block for each head, and by :func:`source`.

    ``heads`` of 64 columns have one head of keys and values between them. ``text``: a kernel in
    place of :func:`source`.
    """
    shape = kernels.Shape(positions, keys, 64, heads, causal)
    drawn = kernels.draw(shape)
    k, v = drawn.k[:, :1], drawn.v[:, :1]
    data = drawn._replace(k=np.repeat(k, heads, 1), v=np.repeat(v, heads, 1))

    def launch(text: str, given: kernels.Data) -> Launch:
        run, out = kernels.attend(text, given, causal)
        queries, many = given.q.shape[:2]
        return Launch(
            -(-queries // (2 * kernels.ROWS)) * many, run.counters["tcgen05.mma"],
            run.counters["cp_async_bulk.bytes"],
            kernels.off(shape, data, out.reshape(data.q.shape)) <= 1, len(run.findings),
        )  # fmt: skip

    rows = kernels.Data(drawn.q.reshape(positions * heads, 1, 64), k, v)
    ours = kernels.source(kernels.POLYNOMIAL)
    return launch(ours, data), launch(text or source(heads), rows)


def masked_by_row(positions: int, keys: int, heads: int) -> Launch:
    """Heads as rows under a causal mask that takes a row's number for a position."""
    return launches(positions, keys, heads, True, kernels.source(kernels.POLYNOMIAL))[1]


def table(cases: tuple[tuple[int, bool], ...], keys: int, heads: int) -> Table:
    """:func:`launches` for pairs of a number of positions and whether it is causal."""
    from phasebit.measure import Table

    rows = []
    for positions, causal in cases:
        for how, run in zip(("one by one", "as rows"), launches(positions, keys, heads, causal),
                            strict=True):  # fmt: skip
            rows.append((str(positions), "causal" if causal else "full", how, str(run.blocks),
                         str(run.products), f"{run.copied // 1024:,}",
                         "yes" if run.right else "no", str(run.findings)))  # fmt: skip
    return Table(
        ("positions", "mask", "heads", "blocks", "products", "KiB copied", "within the bound",
         "findings"),
        tuple(rows), f"{heads} heads of 64 columns with one head of {keys} keys between them",
    )  # fmt: skip
