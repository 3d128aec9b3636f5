"""Where the two ways of a branch meet again, against the definition, on graphs drawn at random.

A block post-dominates another if every way from there to the end goes through it (Aho, Lam, Sethi,
Ullman, section 9.6.1); the immediate one is the first on the way.
"""

from __future__ import annotations

import random

import pytest

import phasebit.emulator.ops  # noqa: F401  what instructions there are
from phasebit.emulator.errors import PtxError
from phasebit.emulator.ptx.control_flow import Graph, branch_table, build
from phasebit.emulator.ptx.reader import read
from phasebit.emulator.ptx.syntax import Instruction

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k()
{
    .reg .b32 %r<9>; .reg .pred %p<9>;
"""


def graph(body: str) -> Graph:
    return build(read(f"{HEAD}{body}\n}}\n").functions["k"])


def drawn(seed: int) -> str:
    """A block each for labels L0 to L7, which ends in a jump, a choice, a table or the end."""
    chance = random.Random(seed)
    text = "T: .branchtargets L1, L3, L6;\n"
    for i in range(8):
        text += f"L{i}: mov.u32 %r1, {i};\n"
        kind = chance.choice(["bra", "if", "if", "brx", "ret", "on"])
        if kind in ("bra", "if"):
            text += "@%p1 " * (kind == "if") + f"bra L{chance.randrange(8)};\n"
        elif kind != "on":
            text += {"brx": "brx.idx %r1, T;\n", "ret": "ret;\n"}[kind]
    return text + "ret;"


def by_definition(made: Graph, block: int) -> int | None:
    """The first block without which there is no way from this one to the end; None: only that."""

    def leads_out(start: int, without: int | None) -> bool:
        seen, waiting = {without}, [start]
        while waiting:
            at = waiting.pop()
            if at in seen:
                continue
            seen.add(at)
            if not made.blocks[at].successors:
                return True
            waiting += made.blocks[at].successors
        return False

    if not leads_out(block, None):
        return None
    on_all_ways = [
        other.index for other in made.blocks
        if other.index != block and not leads_out(block, other.index)
    ]  # fmt: skip
    # the nearest can be reached without any of the others
    for one in on_all_ways:
        if all(other == one or leads_to(made, block, one, other) for other in on_all_ways):
            return one
    return None


def leads_to(made: Graph, start: int, goal: int, without: int) -> bool:
    seen, waiting = {without}, [start]
    while waiting:
        at = waiting.pop()
        if at == goal:
            return True
        if at not in seen:
            seen.add(at)
            waiting += made.blocks[at].successors
    return False


@pytest.mark.parametrize("seed", range(40))
def test_post_dominators_are_what_the_definition_says(seed: int) -> None:
    made = graph(drawn(seed))
    for block in made.blocks:
        assert block.post_dominator == by_definition(made, block.index), block.index


def test_a_loop_in_a_choice() -> None:
    made = graph(
        "@%p1 bra ELSE; LOOP: mov.u32 %r1, 1; @%p2 bra LOOP; bra JOIN; ELSE: mov.u32 %r1, 2; "
        "JOIN: mov.u32 %r2, %r1; ret;"
    )
    at = made.labels
    assert made.blocks[0].post_dominator == at["JOIN"]
    assert made.blocks[at["ELSE"]].post_dominator == at["JOIN"]
    assert made.blocks[at["JOIN"]].post_dominator is None


TABLES = "T: .branchtargets A, B; A: mov.u32 %r1, 1; B: ret;"


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("brx.idx %r1, %r2;", "needs the name of a .branchtargets list"),
        ("brx.idx %r1, A;", "needs the name of a .branchtargets list"),
        ("brx.idx %r1;", "needs the name of a .branchtargets list"),
        ("brx.idx %r1, U; U: .branchtargets A, C;", "U names a label that is not there"),
    ],
)
def test_a_jump_by_a_table_that_is_none(end: str, words: str) -> None:
    function = read(f"{HEAD}{TABLES}\nret;\n{end}\n}}\n").functions["k"]
    (jump,) = (i for i in function.body if isinstance(i, Instruction) and i.mnemonic == "brx")
    with pytest.raises(PtxError, match=words):
        branch_table(function, jump)


def test_a_jump_by_a_table() -> None:
    function = read(f"{HEAD}{TABLES}\nret;\nbrx.idx %r1, T;\n}}\n").functions["k"]
    (jump,) = (i for i in function.body if isinstance(i, Instruction) and i.mnemonic == "brx")
    assert branch_table(function, jump) == ("A", "B")
