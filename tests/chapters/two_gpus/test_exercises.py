"""The checks of *Two GPUs* accept what is right, refuse what people write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from phasebit.chapters.two_gpus import exercises as check
from phasebit.edits import replace_each
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

CHAPTER = next(ROOT.glob("book/*/two_gpus.ipynb"))


def test_no_answer_yet() -> None:
    assert check.columns.verdict(lambda *a: ...).endswith("not answered yet")
    for each in (check.flags, check.one_block, check.one_slot):
        assert each.verdict("// yours").endswith("not answered yet")


def test_the_number_of_columns_in_the_chapter_is_right() -> None:
    assert "columns: OK" in check.columns.verdict(solved(CHAPTER)["columns"])


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("name", "solution"), [("flags", "FLAGS"), ("one_block", "REDUCE"), ("one_slot", "KERNEL")]
)
def test_the_kernels_in_the_chapter_are_right(name: str, solution: str) -> None:
    assert f"{name}: OK" in getattr(check, name).verdict(solved(CHAPTER)[solution])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda tflops, gbytes, size: int(size * tflops * 500 / gbytes),
        lambda tflops, gbytes, size: -(-tflops * 1000 // gbytes),
        lambda tflops, gbytes, size: -(-size * tflops // (2 * gbytes)),
        lambda tflops, gbytes, size: -(-size * tflops * 1000 // gbytes),
        lambda tflops, gbytes, size: -(-tflops * 2000 // (size * gbytes)),
        lambda tflops, gbytes, size: -(-size * gbytes * 500 // tflops),
    ],
)
def test_columns_refuses(wrong: Callable[..., int]) -> None:
    assert "not right yet" in check.columns.verdict(wrong)


RELEASE, ACQUIRE = (
    f"        __threadfence_system();  // {why}\n"
    for why in ("what the block has stored comes before the flag",
                "the flag comes before what the block reads")
)  # fmt: skip
FLAGS = {
    "no barrier before": ([("    __syncthreads();\n    if", "    if")], "race"),
    "no barrier after": ([("    }\n    __syncthreads();\n", "    }\n")], "device-scope"),
    "the GPU's scope": ([(RELEASE, "        __threadfence();\n")], "device-scope"),
    "the GPU's scope where it waits": ([(ACQUIRE, "        __threadfence();\n")], "device-scope"),
    "no release": ([(RELEASE, "")], "race"),
    "no acquire": ([(ACQUIRE, "")], "race"),
    "waits for a later turn": ([("flag < turn", "flag <= turn")], "livelock"),
    "waits for no turn": ([("flag < turn", "flag < 1")], "race"),
    "the page's own": ([(ACQUIRE, '        asm volatile("fence.acq_rel.sys;");\n')], "asm"),
    "not two functions": ([("void raise(unsigned* flag", "void rise(unsigned* flag")], "keep"),
}


@pytest.mark.nvcc
@pytest.mark.parametrize("name", FLAGS)
def test_flags_refuses(name: str) -> None:
    edits, why = FLAGS[name]
    said = check.flags.verdict(replace_each(solved(CHAPTER)["FLAGS"], edits))
    assert "not right yet" in said and why in said, said


WAIT = "    wait_for(&link.empty[tile], turn - 1);  // the peer has read the turn before\n"
EMPTY = "    raise(&link.there_empty[tile], turn);\n"
FULL = "    wait_for(&link.full[tile], turn);\n"
SLOT = {
    "nobody waits for empty": ([(WAIT, "")], "race"),
    "empty before it is read": ([(EMPTY, ""), (FULL, FULL + EMPTY)], "race"),
    "waits for this turn's": ([("turn - 1", "turn")], "livelock"),
    "nobody says empty": ([(EMPTY, "")], "livelock"),
    "says empty on its own GPU": (
        [("raise(&link.there_empty[tile]", "raise((unsigned*)&link.empty[tile]")], "race"),
    "the halves exchanged": (
        [("all[device * OWN", "all[(1 - device) * OWN"),
         ("all[(1 - device) * OWN + first + i] = link", "all[device * OWN + first + i] = link")],
        "wrong"),
    "does not compile": ([("link.here[first + i];", "link.here[first + i]")], "expected"),
}  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize("name", SLOT)
def test_one_slot_refuses(name: str) -> None:
    edits, why = SLOT[name]
    said = check.one_slot.verdict(replace_each(solved(CHAPTER)["KERNEL"], edits))
    assert "not right yet" in said and why in said, said


BLOCK = {
    "waits before it sends": (
        [("    wait_for(&link.full[tile], turn);\n", ""),
         ("    multiply<K, N>(X + ((1 -", "    wait_for(&link.full[tile], turn);\n"
          "    multiply<K, N>(X + ((1 -")],
        "livelock"),
    "does not wait": ([("    wait_for(&link.full[tile], turn);\n", "")], "race"),
    "tells before it has stored": (
        [("    raise(&link.there_full[tile], turn);\n", ""),
         ("    for (int i = 0; i < 4; ++i)\n        link.there[",
          "    raise(&link.there_full[tile], turn);\n"
          "    for (int i = 0; i < 4; ++i)\n        link.there[")],
        "race"),
    "sends its own rows": (
        [("(1 - device) * ROWS", "device * ROWS")], "wrong"),
    "forgets its own part": ([("part[i] + link.here", "link.here")], "wrong"),
    "one slot": ([("turn % SLOTS * SENT", "0")], "race"),
}  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize("name", BLOCK)
def test_one_block_refuses(name: str) -> None:
    edits, why = BLOCK[name]
    said = check.one_block.verdict(replace_each(solved(CHAPTER)["REDUCE"], edits))
    assert "not right yet" in said and why in said, said
