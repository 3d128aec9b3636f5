"""Slips that people make in kernels for every shape: a change each, and what the emulator says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from phasebit import files
from phasebit.chapters.every_shape import on_emulator, plans
from phasebit.chapters.every_shape.plans import Plan
from phasebit.edits import replace_once
from phasebit.emulator import EmulatorError, Schedule

SILENT = "right"
"""What is said of a slip that the emulator does not find."""

_SMALL = Plan(plans.SMALL, 2, 32, 3), (130, 40, 264)
_EARLY = Plan(plans.EARLY, 1, 32, 3), (70, 40, 264)
_FEW = Plan(plans.FEW, 1, 16, 3), (20, 72, 264)
_PAIRS = Plan(plans.PAIRS, 1, 16, 2, pair=2), (256, 32, 136)
_STREAM = Plan(plans.STREAM, 1, 16, 2, waves=2), (64, 48, 264)
_PING_PONG = Plan(plans.PING_PONG, 1, 16, 3), (130, 48, 264)
_HALVES = Plan(plans.PING_PONG, 2, 16, 2), (128, 48, 136)
_SPLIT = Plan(plans.SPLIT_K, 1, 32, 2, split=2), (70, 40, 264)
_ACROSS = Plan(plans.PAIRS, 1, 128, 2, across="AB"), (72, 136, 136)


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


HEADERS = ("stream_k", "pairs", "boxes", "tiles", "product")
"""Those of the chapter that a slip may be in; one comes before those that it includes."""


def whole(text: str, headers: Sequence[str] = HEADERS) -> str:
    """A kernel's text with headers of the chapter in place of their includes."""
    for header in headers:
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
    "a box is filled again before it has been read": Slip(
        _PAIRS, "        if (lane == 0) ptx::cp_async_bulk_wait_group_read<0>();  // the boxes "
        "have been read\n", "", "may still read it"),
    "results are rounded while the last product runs": Slip(
        _PAIRS, "        finish_multiply(sums);\n", "", "async|wgmma"),
    "results of a tile are rounded over those that have not left": Slip(
        (Plan(plans.PAIRS, 1, 96, 2, pair=2, boxes=1), (256, 192, 64)),
        "        all();  // of the tile before\n", "", "WRONG"),
    "a slot is given back in one block of the pair": Slip(
        _PAIRS, "if (threadIdx.x % 32 < PAIR) {", "if (threadIdx.x % 32 < 1) {", "deadlock"),
    "the block ends while boxes leave": Slip(
        _PAIRS, "    ptx::cp_async_bulk_wait_group_read<0>();  // shared", "    // shared",
        "leaves the kernel while"),
    "a block leaves while the other still arrives in it": Slip(
        _PAIRS, "    for (int i = 0; i < SLOTS; ++i, advance<SLOTS>(s, phase))\n"
        "        ptx::mbarrier_wait(&ring.empty[s], !phase);\n", "", "left|leave|ended|gone"),
    "a block brings its share before the pair has met": Slip(
        _PAIRS, "if (PAIR > 1 || !walk.next(piece)) return 0;", "if (!walk.next(piece)) return 0;",
        "race|before|barrier"),
    "the flag is set before all have written": Slip(
        _STREAM, "    ptx::bar_sync(1 + group, 128);  // all have written\n", "", "race"),
    "the flag is an ordinary store": Slip(
        _STREAM, "ptx::store_release(ready + place, 1);", "ready[place] = 1;", "race"),
    "only one thread waits for the flag": Slip(
        _STREAM, "    ptx::bar_sync(1 + group, 128);  // it is all there\n", "", "race"),
    "the flag stays up": Slip(
        _STREAM, "        ready[place] = 0;  // for the next launch\n", "", "flag"),
    "only the first helper's sums are taken": Slip(
        (_STREAM[0], (64, 32, 456)), "            if (walk.bound(pair + 1) >= behind) break;\n",
        "            break;\n", "WRONG|flag", 7),
    "a piece that does not begin at 0 adds to what was there": Slip(
        _STREAM, "k > piece.first);", "k > 0);", "WRONG|uninit|undefined|NaN"),
    "a helper stores its part as the result": Slip(
        _STREAM, "if (piece.first > 0) {",
        "if (piece.first > 0 && piece.last < walk.tiles.steps) {", "livelock"),
    "both groups multiply at a time": Slip(
        _PING_PONG, "    ptx::mbarrier_wait(&ring.turn[group], (made / 2 + group + 1) % 2);\n", "",
        "arrive.expect_tx of 1 with 0 of 1 pending"),
    "the turn goes over at the first slot": Slip(
        _PING_PONG, "if (k == steps - 1) {", "if (k == 0) {",
        "arrive.expect_tx of 1 with 0 of 1 pending"),
    "a group counts its own slots only": Slip(
        _PING_PONG, "at += piece.last - piece.first, ++made) {", "++made) {",
        "async|race|WRONG|deadlock"),
    "a slot is given back before its second product of 64 rows": Slip(
        _HALVES, "ptx::wgmma_wait_group<HALVES>();", "ptx::wgmma_wait_group<HALVES + 1>();",
        "async|wgmma"),
    "half of the sums are announced": Slip(
        _SPLIT, "sizeof ring.sums);", "sizeof ring.sums / 2);", "async|race|WRONG|deadlock|phase"),
    "sums are sent before the other block is there": Slip(
        _SPLIT, "        ptx::cluster_wait();  // they are there: long since\n", "",
        "race"),
    "sums land where the other still multiplies": Slip(
        _SPLIT, "    };\n    float4 sums[SPLIT - 1][PART / 8][CONSUMERS];",
        "        float4 sums[SPLIT - 1][PART / 8][CONSUMERS];\n    };\n   ", "async|race|WRONG"),
    "every block sends to the same place": Slip(
        (Plan(plans.SPLIT_K, 1, 64, 2, split=4), (64, 64, 264)),
        "ring.sums[rank - (rank > to)];", "ring.sums[0];", "async|race|WRONG"),
    "the step along K of the other major": Slip(
        _ACROSS, "y + (B ? 128 : 2) * k", "y + 2 * k", "WRONG|descriptor"),
}  # fmt: skip


def judge(
    text: str, shape: tuple[int, int, int], schedule: Schedule = "late", workers: int = 2
) -> str:
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
