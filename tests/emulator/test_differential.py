"""The emulator against answers that an H200 gave: every instruction, replayed without a GPU.

``PHASEBIT_PROOF=all`` replays every recorded program; without it, enough of them
that each instruction takes part, and some random chains.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re

import numpy as np
import pytest

from proof import batches, chains, compare, departures, machine
from proof.__main__ import KEPT, judge_batch
from proof.dice import Dice, mix
from proof.program import Program
from proof.records import Answers, pack, save, unpack

EVERYTHING = os.environ.get("PHASEBIT_PROOF") == "all"


@functools.cache
def answers(collection: str) -> Answers:
    return Answers(KEPT / f"{collection}_0.npz")


QUICK = ("sums", "copies", "boxes", "slices", "departures")
"""Collections that are replayed whole each time."""


def sample(programs: tuple[Program, ...], collection: str) -> list[Program]:
    """Programs such that each of their instructions is in one of them."""
    if EVERYTHING or collection in QUICK:
        return list(programs)
    seen: set[str] = set()
    chosen = []
    for program in programs:
        # of wgmma's many widths a few: they differ in how often one thing is done
        opcodes = {re.sub(r"m64n(?!8k|64k)\d+", "m64n", opcode) for opcode in program.opcodes}
        if not opcodes <= seen and program.lanes <= 2048:
            seen |= opcodes
            chosen.append(program)
    return chosen


@functools.cache
def programs(collection: str) -> tuple[Program, ...]:
    return tuple(batches.FIXED[collection].programs())


@pytest.mark.parametrize("collection", batches.FIXED)
def test_every_program_has_an_answer(collection: str) -> None:
    assert {p.name for p in programs(collection)} <= set(answers(collection))


@pytest.mark.parametrize("collection", batches.FIXED)
def test_the_h200_gave_the_same_bits(collection: str) -> None:
    wrong: dict[str, str] = {}
    for program in sample(programs(collection), collection):
        verdict = compare.replay(program, answers(collection))
        if verdict is None or not verdict.good:
            wrong[program.name] = verdict.example if verdict else "no answer: record it again"
    assert not wrong


@pytest.mark.parametrize("first", range(0, 16_000 if EVERYTHING else 200, 50))
def test_random_chains(first: int) -> None:
    for verdict in judge_batch(batches.Batch("chains", first, 50), KEPT):
        assert verdict.good or verdict.program.name in departures.NAMES, verdict.example


@pytest.mark.parametrize("first", range(0, 2000, 8) if EVERYTHING else (0, 72, 408))
def test_random_programs_of_blocks(first: int) -> None:
    """What warps exchange: in programs 75 and 411 two spin, and a third waits for a copy."""
    verdicts = judge_batch(batches.Batch("meetings", first, 8), KEPT)
    assert len(verdicts) == 8
    for verdict in verdicts:
        assert verdict.good, verdict.example


def test_what_ptxas_makes_of_a_chain_is_no_exception() -> None:
    """A chain that may differ from the optimised program has the answer of the other one."""
    assert set(answers("departures")) == departures.NAMES
    assert batches.Batch("departures", 0, 1).level == 0
    for verdict in judge_batch(batches.Batch("departures", 0, 5), KEPT):
        optimised = compare.replay(verdict.program, answers("chains"))
        assert verdict.good
        assert optimised is not None and not optimised.good


def test_a_correct_program_raises_no_alarm() -> None:
    """The checker finds nothing in programs whose answer is determined."""
    for program in machine.programs():
        some = program.name.endswith(("_0", "_1", "_20", "_41"))
        # In mbar_walk one lane initialises and its neighbours arrive without a bar.warp.sync:
        # the answer is determined on hardware, but nothing in PTX orders the two.
        if program.name.startswith("mbar_walk"):
            continue
        if some and program.family in ("barrier", "mbarrier", "cp_async"):
            compare.emulate(program, check=True)


def test_one_wrong_bit_is_seen(tmp_path: object) -> None:
    """Planted: an answer with one bit flipped, within the kept threads and beyond them."""
    program = batches.Batch("forms", 200, 1).programs()[0]
    right = compare.emulate(program)
    for lane in (3, program.lanes - 1):
        wrong = right.copy()
        wrong[0, lane] ^= np.uint64(1)
        path = tmp_path / "wrong_0.npz"  # type: ignore[operator]
        save(path, "nothing", [(program, pack(program, wrong))], lanes=12)
        verdict = compare.replay(program, Answers(path))
        assert verdict is not None and not verdict.good and program.name in verdict.example


def test_answers_to_another_program_are_not_used(tmp_path: object) -> None:
    program = batches.Batch("forms", 200, 1).programs()[0]
    path = tmp_path / "one_0.npz"  # type: ignore[operator]
    save(path, "nothing", [(program, pack(program, program.blank()))])
    other = dataclasses.replace(program, text=program.text + "// changed\n")
    assert compare.replay(other, Answers(path)) is None


def test_packing_keeps_every_bit_of_the_type() -> None:
    program = Program("p", "", (), ("b16", "pred", "b64"), ("x",), "f", threads=4)
    rows = np.array([[1, 2, 3, 0xFFFF], [0, 1, 0, 1], [1, 2, 3, 2**64 - 1]], np.uint64)
    assert (unpack(program, pack(program, rows)) == rows).all()


def test_the_dice_are_splitmix64() -> None:
    """The first numbers of SplitMix64 from seed 1234567, as its authors' C program prints them."""
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert Dice(1234567).words(3).tolist() == expected
    assert len(np.unique(mix(np.arange(1000, dtype=np.uint64)))) == 1000


def test_programs_are_the_same_each_time() -> None:
    one, two = (next(chains.programs(1, 77)) for _ in range(2))
    assert one == two and (one.draw() == two.draw()).all()
