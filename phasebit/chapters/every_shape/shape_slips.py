"""Slips that people make in kernels for every shape: a change each, and what the emulator says."""

from __future__ import annotations

from typing import NamedTuple

from phasebit import files
from phasebit.chapters.every_shape import on_emulator, plans
from phasebit.chapters.every_shape.plans import Plan
from phasebit.edits import replace_once
from phasebit.emulator import EmulatorError

SILENT = "right"
"""What is said of a slip that the emulator does not find."""

_SMALL = Plan(plans.SMALL, 2, 32, 3), (130, 40, 264)
_EARLY = Plan(plans.EARLY, 1, 32, 3), (70, 40, 264)
_FEW = Plan(plans.FEW, 1, 16, 3), (20, 72, 264)
_PAIRS = Plan(plans.PAIRS, 1, 16, 2, pair=2), (256, 32, 136)
_STREAM = Plan(plans.STREAM, 1, 16, 2), (64, 48, 264)


class Slip(NamedTuple):
    """What somebody wrote in place of what is right."""

    where: tuple[Plan, tuple[int, int, int]]
    """A small plan and a shape."""
    right: str
    wrong: str
    says: str
    """What the emulator says, as a regular expression; ``WRONG`` for a wrong result."""
    workers: int = 2

    @property
    def source(self) -> str:
        """The plan's text with the slip; headers of the chapter stand in it where it needs them."""
        text = self.where[0].text
        if self.right not in text:
            text = whole(text)
        return replace_once(text, self.right, self.wrong)


def whole(text: str) -> str:
    """A kernel's text with the chapter's own headers in place of their includes."""
    for header in ("boxes", "tiles", "product"):
        include = f'#include "every_shape/{header}.cuh"\n'
        body = (files.kernels() / f"every_shape/{header}.cuh").read_text("utf-8")
        body = body.replace("#pragma once\n", "")
        head, found, rest = text.partition(include)
        if found:
            text = head + body + rest.replace(include, "")
    return text


SLIPS = {
    "C is laid where another warp group still multiplies from": Slip(
        _SMALL, "    ptx::bar_sync(1, CONSUMERS);  // nobody multiplies from the slots any more\n",
        "", "async|race"),
    "sums are stored while the last product runs": Slip(
        _SMALL, "    finish_multiply(sums);  // the last slot is wanted by nobody\n", "",
        "async|wgmma"),
    "a slot is given back while it is multiplied": Slip(
        _SMALL, "&ring.empty[before]);", "&ring.empty[s]);", "async|race|deadlock"),
    "the last step along K is left out": Slip(
        _SMALL, "steps = over(K, BK);", "steps = K / BK;", "WRONG"),
    "half of the bytes are announced": Slip(
        _EARLY, "(BM + BN) * BK * sizeof(bf16));", "BM * BK * sizeof(bf16));", "async|race"),
    "rows and columns keep their places when the operands are exchanged": Slip(
        _FEW, "C + size_t(col + c) * M + row + r", "C + size_t(row + r) * N + col + c",
        "WRONG|out|aligned"),
    "hints the wrong way round": Slip(
        _FEW, "first = ptx::evict_first(), last = ptx::evict_last();",
        "first = ptx::evict_last(), last = ptx::evict_first();", SILENT),
    "each tile begins with box 0": Slip(
        _PAIRS, "bf16* to = box[turn++ % 2];", "bf16* to = box[part % 2];", "may still read it"),
    "a slot is given back in one block of the pair": Slip(
        _PAIRS, "if (threadIdx.x % 32 < PAIR) {", "if (threadIdx.x % 32 < 1) {", "deadlock"),
    "the block ends while boxes leave": Slip(
        _PAIRS, "    ptx::cp_async_bulk_wait_group_read<0>();  // shared", "    // shared",
        "leaves the kernel while"),
    "a block leaves while the other writes into it": Slip(
        _PAIRS, "    ptx::cluster_arrive();  // a block stays while the other may write into it\n"
        "    ptx::cluster_wait();\n", "", "left|leave|ended|gone"),
    "the flag is set before all have written": Slip(
        _STREAM, "    ptx::bar_sync(1 + group, 128);  // all have written\n", "", "race"),
    "the flag is an ordinary store": Slip(
        _STREAM, "ptx::store_release(ready + place, 1);", "ready[place] = 1;", "race"),
    "only one thread waits for the flag": Slip(
        _STREAM, "    ptx::bar_sync(1 + group, 128);  // it is all there\n", "", "race"),
    "the flag stays up": Slip(
        _STREAM, "        ready[place] = 0;  // for the next launch\n", "", "flag"),
    "only the first helper's sums are taken": Slip(
        (_STREAM[0], (64, 32, 456)), "                if (walk.bound(pair + 1) >= behind) break;\n",
        "                break;\n", "WRONG|flag", 7),
    "a piece that does not begin at 0 adds to what was there": Slip(
        _STREAM, "k > piece.first);", "k > 0);", "WRONG|uninit|undefined|NaN"),
    "a helper stores its part as the result": Slip(
        _STREAM, "if (piece.first > 0) give(sums, partial, ready, group);\n        else {",
        "if (piece.first > 0 && piece.last < tiles.steps) give(sums, partial, ready, group);\n"
        "        else {", "livelock"),
}  # fmt: skip


def judge(text: str, shape: tuple[int, int, int], schedule: str = "late", workers: int = 2) -> str:
    """What the emulator says first of a kernel; ``WRONG``, ``a flag stays up``, or nothing."""
    try:
        done = on_emulator.multiply(text, *shape, schedule=schedule, workers=workers)
    except EmulatorError as error:
        return str(error)
    if done.run.findings:
        return f"{done.run.findings[0].kind}: {done.run.findings[0].message}"
    if not done.exact:
        return "WRONG"
    return "" if done.clean else "a flag stays up"


def verdict(slip: Slip) -> str:
    """What the emulator says of a slip, :data:`SILENT` where that is nothing."""
    return judge(slip.source, slip.where[1], workers=slip.workers) or SILENT
