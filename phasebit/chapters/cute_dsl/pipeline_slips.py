"""Slips that people make with CuTe DSL's pipelines: a change of a kernel each."""

from __future__ import annotations

import re
from typing import NamedTuple

from phasebit.chapters.cute_dsl import cute_ptx, ptx_runs
from phasebit.edits import replace_once
from phasebit.emulator import Schedule

SHAPE = 257, 232, 72
"""Three tiles of two slices, ragged on every side: slots and sums are used again."""


class Slip(NamedTuple):
    """What somebody wrote in place of what is right."""

    entry: str
    right: str
    wrong: str
    says: str
    """What the emulator must say, a regular expression; ``WRONG`` for a result, empty: nothing."""

    @property
    def source(self) -> str:
        """The file with the slip."""
        return replace_once(cute_ptx.source(cute_ptx.file_of(self.entry)), self.right, self.wrong)


_G = "matmul"
_BYTES = (
    "cute.size_in_bytes(BF16, cute.select(in_a, [0, 1, 2])) + cute.size_in_bytes(\n"
    "        BF16, cute.select(in_b, [0, 1, 2])\n    )"
)
_COMMITTED = "            ring.producer_commit(at)\n            at.advance()\n"

SLIPS = {
    "a slot is not released": Slip(
        _G, "            slot.release()\n", "", "deadlock"),
    "acquire without advance": Slip(
        _G, "slot = slices.acquire_and_advance()", "slot = slices.acquire()",
        "with 0 of 1 pending"),
    "every thread of the epilogue releases, four are counted": Slip(
        _G, "                with cute.arch.elect_one():\n                    sum_.release()",
        "                sum_.release()", "nobody has seen phase 1 complete"),
    "four threads release, 128 are counted": Slip(
        _G, "Agent.Thread, 4)", "Agent.Thread, 128)", "deadlock"),
    "four threads release, one is counted": Slip(
        _G, "consumer_group=FOUR", "consumer_group=ONE",
        "nobody has seen phase 1 complete"),
    "tx_count is A's bytes alone": Slip(
        _G, _BYTES, "cute.size_in_bytes(BF16, cute.select(in_a, [0, 1, 2]))", "deadlock"),
    "tx_count is the bytes of all slots": Slip(
        _G, _BYTES, "cute.size_in_bytes(BF16, in_a) + cute.size_in_bytes(BF16, in_b)",
        "deadlock"),
    "storage for half of the barriers": Slip(
        _G, "cutlass.Int64, 2 * STAGES]", "cutlass.Int64, STAGES]", "on a live barrier"),
    "a sum is released one piece too early": Slip(
        _G, "piece == TILE[1] // PIECE[1] - 1", "piece == TILE[1] // PIECE[1] - 2",
        "race: .*nothing orders the two"),
    "ACCUMULATE is not set to False": Slip(
        _G, "        mma.set(tcgen05.Field.ACCUMULATE, False)\n", "", "uninitialised: "),
    "no fence before the copy engine reads a piece": Slip(
        _G, "            cute.arch.fence_view_async_shared()\n", "", "proxy: a bulk copy"),
    "no acquire before a piece is written": Slip(
        _G, "                leaving.producer_acquire()\n", "                pass\n",
        "async: .*may still read it"),
    "no meeting before a piece leaves": Slip(
        _G, "            cute.arch.fence_view_async_shared()\n"
        "            written.arrive_and_wait()\n",
        "            cute.arch.fence_view_async_shared()\n", "race: .*nothing orders the two"),
    "no tail of the stores": Slip(
        _G, "    if warp == 0:\n        leaving.producer_tail()\n", "", "leaves the kernel while"),
    "no tail of the slices": Slip(_G, "    slices.tail()\n", "", ""),
    "no wait for the loads of tensor memory": Slip(
        _G, "            cute.arch.fence_view_async_tmem_load()\n", "", ""),
    "the consumer's state begins as a producer's": Slip(
        "by_hand", "make_pipeline_state(PipelineUserType.Consumer",
        "make_pipeline_state(PipelineUserType.Producer", "deadlock"),
    "the producer's state does not advance": Slip(
        "by_hand", _COMMITTED, "            ring.producer_commit(at)\n", "deadlock"),
    "commit after advance": Slip(
        "by_hand", _COMMITTED,
        "            at.advance()\n            ring.producer_commit(at)\n", "deadlock"),
    "a warp commits, one thread is counted": Slip(
        "by_hand", "producer_group=WARP, consumer_group=WARP",
        "producer_group=ONE, consumer_group=WARP", "deadlock"),
    "lane 0 releases before the others have read": Slip(
        "copied", "            cute.arch.sync_warp()  # lane 0 releases for all\n", "",
        "race: .*nothing orders the two"),
    "a commit without the fence": Slip(
        "multiplied",
        "            cute.arch.fence_view_async_shared()  # the tensor core sees it\n",
        "", "proxy: a tcgen05.mma"),
    "no tail of the writers": Slip("multiplied", "        writer.tail()\n", "", ""),
}  # fmt: skip
"""What the slip is -> the slip."""


def verdict(slip: Slip, schedule: Schedule = "late") -> str:
    """All that the emulator says of it; ``WRONG`` at the end where the result is."""
    from phasebit.emulator import EmulatorError

    ptx = cute_ptx.ptx(slip.source, slip.entry).ptx
    try:
        if slip.entry == "matmul":
            run, exact = ptx_runs.multiply(ptx, *SHAPE, schedule=schedule)
        else:
            run, exact = ptx_runs.ring(slip.entry, ptx, schedule=schedule)
    except EmulatorError as error:
        return "\n".join([str(error), *map(str, error.findings)])
    return "\n".join([*map(str, run.findings), *["WRONG"] * (not exact)])


def brief(slip: Slip) -> tuple[str, str, str]:
    """What the emulator says in a few words, at which line of Python, and what became of C."""
    said = verdict(slip)
    first = said.partition("\n")[0]
    kinds = {
        "race": "race: nothing orders the two", "async": "async: not waited for",
        "proxy": "proxy: no fence between", "deadlock": "deadlock",
        "barrier": "barrier: arrivals of a later phase",
        "uninitialised": "uninitialised: nobody has written it",
    }  # fmt: skip
    kind = first.partition(":")[0]
    words = kinds.get(kind) or ("an arrival too many" if "pending" in first else "")
    words = words or ("a live barrier is initialised" if "live barrier" in first else "nothing")
    lines = re.findall(r"\((?:gemm|rings)\.py:(\d+)\)", said)
    text = slip.source.splitlines()
    line = text[int(lines[0]) - 1].strip() if lines else ""
    stopped = kind == "deadlock" or "barrier" in words or "arrival" in words
    result = "none" if stopped else "wrong" if said.endswith("WRONG") else "right"
    return words, line, result
