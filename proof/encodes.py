"""Which arguments the driver's ``cuTensorMapEncode…`` refuses, and ``pb.TensorMap`` with it.

A valid tensor map is drawn, and in most cases one or two of its numbers are replaced by others
at, or beyond, the ends of what is allowed.  The driver's answer is one bit: it took them or not.

Source: CUDA Driver API, Tensor Map Object Management.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from phasebit.emulator.copy_engine.tensormap import (
    FILLS,
    INTERLEAVES,
    L2_PROMOTIONS,
    PACKED,
    TYPES,
    Descriptor,
    problem,
)
from phasebit.emulator.numbers.swizzle import MODES
from proof import boxes, records
from proof.dice import Dice

CASES = 6000
ADDRESS = 0x7F00_0000_0000
"""Where the tensor would be: nobody looks there."""

DIMS = (0, 1, 2, 3, 16, 63, 64, 127, 128, 256, 1000, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 1)
STRIDES = (0, 1, 8, 16, 24, 32, 48, 64, 128, 1 << 20, (1 << 39), (1 << 40) - 32, (1 << 40) - 16,
           1 << 40, 1 << 50)  # fmt: skip
EXTENTS = (0, 1, 2, 3, 4, 7, 8, 12, 16, 24, 32, 48, 64, 65, 96, 100, 128, 192, 255, 256, 257, 1000)
STEPS = (0, 1, 2, 3, 5, 7, 8, 9, 100)
CORNERS = (-(1 << 15) - 1, -(1 << 15), -129, -128, -127, -17, -16, -9, -1, 0, 1, 7, 15, 16, 17, 127,
           128, (1 << 15) - 1, 1 << 15)  # fmt: skip
PIXELS = (0, 1, 2, 256, 257, 1023, 1024, 1025, 4096)


def _other(numbers: tuple[int, ...], choices: tuple[int, ...], dice: Dice) -> tuple[int, ...]:
    """A tuple with one of its numbers replaced."""
    if not numbers:
        return numbers
    i = dice.below(len(numbers))
    return (*numbers[:i], dice.choice(choices), *numbers[i + 1 :])


def _changed(d: Descriptor, dice: Dice) -> Descriptor:
    """One thing different."""
    what = dice.choice(("address", "dims", "strides", "box", "element_strides", "interleave",
                        "swizzle", "l2_promotion", "oob_fill", "data_type", "corner", "rank",
                        "box", "strides"))  # fmt: skip
    new = dataclasses.replace
    if what == "address":
        return new(d, address=ADDRESS + dice.choice((0, 1, 8, 16, 32, 48, 64)))
    if what == "corner" and d.mode == "im2col":
        if dice.chance(50):
            return new(d, lower=_other(d.lower, CORNERS, dice))
        return new(d, upper=_other(d.upper, CORNERS, dice))
    if what == "box" and d.mode == "im2col" and dice.chance(50):
        return new(d, box=(d.box[0], dice.choice(PIXELS)))
    numbers = {"dims": DIMS, "strides": STRIDES, "box": EXTENTS, "element_strides": STEPS}
    if what in numbers:
        return new(d, **{what: _other(getattr(d, what), numbers[what], dice)})
    words = {"interleave": INTERLEAVES, "swizzle": tuple(MODES), "l2_promotion": L2_PROMOTIONS,
             "oob_fill": FILLS, "data_type": TYPES}  # fmt: skip
    if what in words:
        return new(d, **{what: dice.choice(words[what])})
    if what == "rank" and d.mode == "tile":
        if d.rank > 1 and dice.chance(50):
            return new(d, dims=d.dims[:-1], strides=d.strides[:-1], box=d.box[:-1],
                       element_strides=d.element_strides[:-1])  # fmt: skip
        return new(d, dims=(*d.dims, 2), strides=(*d.strides, 1 << 20), box=(*d.box, 1),
                   element_strides=(*d.element_strides, 1))  # fmt: skip
    return d


def cases(count: int = CASES) -> Iterator[Descriptor]:
    """The arguments, some valid."""
    for number in range(count):
        dice = Dice(f"encode_{number}")
        kind = dice.choice(boxes.PLAIN)
        swizzle = dice.choice(list(boxes.SWIZZLES))
        if number % 3 == 2:
            d, _, _ = boxes.window(dice, kind, dice.between(3, 5), swizzle)
        else:
            d, _ = boxes.draw(dice, kind, dice.between(1, 5), swizzle)
        d = dataclasses.replace(d, address=ADDRESS)
        if number % 5 == 4:  # the others of the enumerations
            d = dataclasses.replace(
                d, interleave=dice.choice(INTERLEAVES), data_type=dice.choice(TYPES),
                swizzle=dice.choice(tuple(MODES)),
            )  # fmt: skip
        if number % 12 == 7 and d.mode == "tile":  # boxes of many bytes
            box = tuple(dice.choice((1, 2, 8, 32, 64, 128, 200, 256)) for _ in d.box[1:])
            yield dataclasses.replace(d, box=(d.box[0], *box))
            continue
        for _ in range(dice.below(3)):
            d = _changed(d, dice)
        yield d


def refused(d: Descriptor) -> bool:
    """Whether ``pb.TensorMap`` refuses these arguments, or a Hopper GPU does.

    Packed types and atoms other than 16 bytes came with sm_100: a driver for Hopper refuses them.
    """
    return bool(problem(d)) or d.data_type in PACKED or "ATOM" in d.swizzle


def digest() -> int:
    """A digest of all arguments: of what the recorded answers are answers to."""
    return records.digest(repr([d.call() for d in cases()]))


__all__ = ["CASES", "cases", "digest", "refused"]
