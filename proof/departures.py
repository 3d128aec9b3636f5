"""Chains to which an H200 answers otherwise once ptxas has optimised them.

All of them agree when it optimises nothing (``-O0``), so their answers are recorded that way, and
none of them is an exception. Lines were taken away from each for as long as the two answers
differed; one to three instructions were left, on which ptxas 13.0 errs or takes a liberty:

== ===========================================================================================
35 ``abs`` of the least integer: ``slct`` or ``sub.cc`` take it for positive
22 ``neg.s16`` of the least integer: it is 32768 to ``shr``, ``sad``, ``mul.hi`` and others
 8 ``shl`` and ``shr`` of 16 bits, by the answer of ``cnot``
 7 ``setp`` of packed halves: the upper one of what a load of 8 or 16 bits extended
 3 ``cnot``, whose answer ``cvt`` makes a float: it is not 0 or 1
 2 ``min`` and ``max`` of equals are folded: a NaN keeps its payload and sign
 1 a predicate that ``testp`` wrote, and an instruction under a predicate changes
== ===========================================================================================

Where ``-O0`` differs from the emulator, and the optimised program does not, a chain had
``cvt.f32.f32`` of a NaN: a conversion there, a move here. Of 48,000 chains none differs from both.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from proof import chains
from proof.program import Program

NAMES = frozenset((Path(__file__).parent / "answers" / "departures.txt").read_text().split())
"""78 chains of 16,000."""

LEVEL = 0
"""How much the assembler optimises them."""


def programs() -> Iterator[Program]:
    """The chains themselves."""
    for name in sorted(NAMES):
        yield from chains.programs(1, int(name.partition("_")[2]))
