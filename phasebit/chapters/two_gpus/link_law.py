"""How long a product takes whose rows come from other GPUs: Part I's law, between GPUs.

The slots are the shares of A, one from each GPU; the link produces, the product consumes.
"""

from __future__ import annotations

from collections.abc import Mapping


def time(product: float, share: float, gpus: int) -> float:
    """Time of an all-gather and its product, overlapped; the unit is that of the arguments.

    ``product``: of all rows. ``share``: of one GPU's rows on the way into another, which takes one
    share after another. A GPU multiplies its own rows first, then each share when it is there:
    share i, from 1 on, comes at i · ``share``, and from then on it and all later ones must be
    multiplied.

    >>> time(100, 20, gpus=2), time(100, 80, gpus=2), time(100, 20, gpus=8)
    (100.0, 130.0, 152.5)
    """
    each = product / gpus
    return float(max([product, *(i * share + (gpus - i) * each for i in range(1, gpus))]))


def by_tiles(product: float, share: float, tiles: int, blocks: int) -> float:
    """The same for two GPUs whose products are made of whole tiles; unit as above.

    ``tiles``: of each half. They are dealt to the blocks in turn, a GPU's own rows first, and none
    of the other's begins before the share is there, as a whole.

    >>> by_tiles(90, 175, tiles=64, blocks=132), by_tiles(261, 175, tiles=192, blocks=132)
    (265.0, 349.0)
    """
    each = product / -(-2 * tiles // blocks)
    ends = [0.0] * blocks
    for n in range(2 * tiles):
        begin = max(ends[n % blocks], share if n >= tiles else 0.0)
        ends[n % blocks] = begin + each
    return max(ends)


def least(tflops: float, gbytes: float) -> float:
    """Columns of B, on each GPU, from which the product hides its all-gather in bf16.

    One row of A of K numbers takes 2·K bytes of the link and 2·K·N operations; neither the number
    of GPUs nor the rest of the shape is left over.

    >>> least(700, 400)
    1750.0
    """
    return tflops * 1e3 / gbytes


def link_rate(link: Mapping[str, float]) -> float:
    """GB/s of the longest copy by cudaMemcpyAsync, which a record calls by the copy engine."""
    copies = [rate for what, rate in link.items() if what.startswith("copy engine")]
    return max(copies)
