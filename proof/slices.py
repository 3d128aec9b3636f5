"""Interleaved tensors, whose channels lie in slices of 16 or 32 bytes, in every direction.

Also what :mod:`~proof.boxes` does not do to a window of pixels: fetch it into
the L2 cache, and combine with it.

PTX ISA 5.5.6 (interleave layout), 9.7.9.27.1 (cp.async.bulk.tensor).
"""

from __future__ import annotations

from collections.abc import Iterator

from phasebit.emulator.copy_engine.tensormap import Descriptor
from proof import boxes
from proof.boxes import (
    PLACES,
    PLAIN,
    REDUCTIONS,
    SWIZZLES,
    fill_of,
    size_of,
    strides_of,
)
from proof.dice import Dice
from proof.program import Program


def box(
    dice: Dice, kind: str, rank: int, inside: bool = False
) -> tuple[Descriptor, tuple[int, ...]]:
    """A box, where also the width may be strided; ``inside``: at no negative coordinate."""
    size, slice_ = size_of(kind), dice.choice((16, 32))
    while True:
        unit = 16 // size
        extents = [unit * dice.between(1, max(1, 16 // unit))]
        extents += [dice.between(1, 4) for _ in range(rank - 1)]
        extents[-2] = dice.between(1, 3 * slice_ // size)
        dims = [dice.between(1, 2 * b) for b in extents]
        strides = strides_of(dice, dims, slice_, 32, 2)
        if strides is not None:
            break
    at = [dice.between(0 if inside else -b, n + 1) for b, n in zip(extents, dims, strict=True)]
    at[-2] = dice.between(0 if inside else -1, 3)
    if dice.chance(50):
        at = [dice.below(n) for n in dims]
    steps = tuple(dice.choice((1, 1, 2, 3)) for _ in range(rank))
    made = Descriptor(
        kind, 0, tuple(dims), strides, tuple(extents), steps, f"{slice_}B",
        dice.choice(list(SWIZZLES)), "none", fill_of(dice, kind),
    )  # fmt: skip
    made.check()
    return made, tuple(at)


def window(
    dice: Dice, kind: str, rank: int, inside: bool = False
) -> tuple[Descriptor, tuple[int, ...], tuple[int, ...]]:
    """Images by slices, coordinates of a pixel in the window, and a place in the filter."""
    size, slice_, space = size_of(kind), dice.choice((16, 32)), rank - 2
    while True:
        channels = 16 // size * dice.between(1, 3 * slice_ // 16)
        pixels = [dice.between(2, 7) for _ in range(space)]
        dims = [*pixels, dice.between(1, 3), dice.between(1, 3)]
        lower = tuple(dice.between(0 if inside else -2, 1) for _ in range(space))
        upper = tuple(dice.between(-2, 0 if inside else 1) for _ in range(space))
        steps = (*(dice.choice((1, 1, 2)) for _ in range(space)), 1, 1)
        strides = strides_of(dice, dims, slice_, 32, 2)
        extents = [n + high - low for n, high, low in zip(pixels, upper, lower, strict=True)]
        if strides is not None and min(extents) > 0:
            break
    at = [low + step * dice.below(-(-n // step))
          for n, low, step in zip(extents, lower, steps, strict=False)]  # fmt: skip
    at += [dice.between(0 if inside else -1, dims[-2]), dice.below(dims[-1])]
    made = Descriptor(
        kind, 0, tuple(dims), strides, (channels, dice.between(1, 24)), steps, f"{slice_}B",
        dice.choice(list(SWIZZLES)), "none", fill_of(dice, kind), "im2col", lower, upper,
    )  # fmt: skip
    made.check()
    return made, tuple(at), tuple(dice.below(4) for _ in range(space))


def programs() -> Iterator[Program]:
    """All programs of this module."""
    for turn in range(6):
        for kind in PLAIN:
            name = f"slices_load_{kind.replace('.', '_')}_{turn}"
            dice = Dice(name)
            d, at = box(dice, kind, turn % 3 + 3)
            space = f"shared::{dice.choice(('cta', 'cluster'))}"
            yield boxes.load(name, d, at, dice.choice(PLACES), space, fetched=dice.chance(30))
    for turn in range(12):
        for kind in ("u8", "f16", "tf32", "u64"):
            name = f"slices_window_{kind}_{turn}"
            dice = Dice(name)
            d, at, offsets = window(dice, kind, turn % 3 + 3)
            yield boxes.load(name, d, at, dice.choice(PLACES), "shared::cta", offsets,
                             fetched=dice.chance(30), slack=2 * d.nbytes + 128)  # fmt: skip
    for turn in range(6):
        for kind in ("u8", "u16", "f32", "f64"):
            name = f"slices_store_{kind}_{turn}"
            dice = Dice(name)
            d, at = box(dice, kind, turn % 3 + 3, True)
            yield boxes.store(name, d, at, dice.choice(PLACES))
    for turn in range(6):
        for kind in ("u8", "f16", "f32"):
            name = f"slices_window_store_{kind}_{turn}"
            dice = Dice(name)
            d, at, _ = window(dice, kind, turn % 3 + 3, True)
            yield boxes.store(name, d, at, dice.choice(PLACES))
    for op, kind in REDUCTIONS:
        for rank in (3, 4):
            name = f"slices_{op}_{kind.replace('.', '_')}_{rank}"
            dice = Dice(name)
            d, at = box(dice, kind, rank, True)
            yield boxes.store(name, d, at, dice.choice(PLACES), op)
    for op, kind in REDUCTIONS:
        for rank in (3, 4):
            name = f"window_{op}_{kind.replace('.', '_')}_{rank}"
            dice = Dice(name)
            if rank == 3:
                d, at, _ = window(dice, kind, 3, True)
            else:
                d, at, _ = boxes.window(dice, kind, 4, dice.choice(list(SWIZZLES)), True)
            yield boxes.store(name, d, at, dice.choice(PLACES), op)
    for turn in range(6):
        for kind in ("u8", "f16", "f32"):
            name = f"window_fetched_{kind}_{turn}"
            dice = Dice(name)
            d, at, offsets = boxes.window(
                dice, kind, turn % 3 + 3, dice.choice(list(SWIZZLES))
            )
            yield boxes.load(name, d, at, 0, "shared::cta", offsets, fetched=True)


__all__ = ["programs"]
