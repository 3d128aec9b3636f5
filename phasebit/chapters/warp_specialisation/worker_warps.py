"""A worker is a warp: a ring in which each warp fills or drains tiles alone, and one without roles.

The kernels are those of *Double buffering with barriers*, ``e_warp_workers`` and ``g_own_ring``.
"""

from __future__ import annotations

import re

import numpy as np

from phasebit import draw, files, measure
from phasebit.draw import Picture
from phasebit.edits import replace_once
from phasebit.emulator import Schedule
from phasebit.launching.launch import compile

_DEPTH = 512
_SHARED_BYTES = 200_000  # more than sixteen slots take
_RING = "e_warp_workers"
_SHAPES = {_RING: ("PRODUCERS", "CONSUMERS", "SLOTS"), "g_own_ring": ("WARPS", "SLOTS")}
_NAMES = {_RING: "roles:", "g_own_ring": "no roles:"}

_SHOWN = {"CONSUMERS": 8, "SLOTS": 16}  # of the ring, in the chart


def with_slots(slots: int) -> str:
    """The ring of warps with another number of slots, which it would refuse to compile."""
    text = files.kernel(f"double_buffering/{_RING}")
    text, refused = re.subn(r"static_assert\(SLOTS % .*?;\n", "\n", text, flags=re.DOTALL)
    if not refused:
        raise ValueError(f"{_RING}.cu must hold an assertion about SLOTS to be left out")
    return replace_once(text, "int SLOTS = 16;", f"int SLOTS = {slots};", f"{_RING}.cu")


def run(slots: int, schedule: Schedule = "late") -> tuple[list[str], bool]:
    """The kinds of findings with so many slots, on the emulator, and whether C is right."""
    a, b = np.ones((32, _DEPTH), np.float32), np.ones((_DEPTH, 32), np.float32)
    c = np.full((32, 32), np.nan, np.float32)
    text = replace_once(with_slots(slots), "K = 4096", f"K = {_DEPTH}")
    done = compile(text)["matmul"].launch(
        grid=1, block=384, args=[a, b, c], shared=_SHARED_BYTES, device="emulator",
        schedule=schedule,
    )  # fmt: skip
    return sorted({finding.kind for finding in done.findings}), np.array_equal(c, a @ b)


def told(*slots: int) -> str:
    """What :func:`run` says of each number of slots, a line each."""
    lines = []
    for number in slots:
        kinds, right = run(number)
        lines.append(f"{number:2} slots: findings: {', '.join(kinds) or 'none'}; right: {right}")
    return "\n".join(lines)


def chart() -> Picture:
    """Warm times: rings of 8 consumers and 16 slots, and warps with rings of their own."""
    record = measure.read("clock_stamps")
    bars: dict[str, float] = {}
    hues: dict[str, str] = {}
    for point in record["sweep"]:
        kernel, constants = point["kernel"], point["constants"]
        if kernel in _SHAPES and (kernel != _RING or _SHOWN.items() <= constants.items()):
            *workers, slots = (constants[name] for name in _SHAPES[kernel])
            name = f"{_NAMES[kernel]} {' + '.join(map(str, workers))} warps, {slots} slots"
            bars[name] = point["warm_us"]
            if kernel != _RING:
                hues[name] = "green"
    return draw.bars(
        bars, hues=hues, x_label="µs, warm", show=lambda value: f"{value:.1f}",
        title=f"Warps as workers, {measure.source(record)}",
    )  # fmt: skip
