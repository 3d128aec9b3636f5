"""The list of instructions that ``python -m phasebit ptx`` prints."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from pathlib import Path

from phasebit.emulator.ptx.table import FAMILIES, Entry, entries

PROOF = Path(__file__).with_name("agreed.json")
"""How many programs agreed with a GPU, by instruction: {"mul.wide": 240, …}.

Written by ``python -m proof compare``, of a checkout; all of the proof that is installed.
"""


BY_WORDS = frozenset(
    {"cluster_launch", "tcgen05", "tcgen05_scaled", "tcgen05_shift", "tcgen05_sparse", "tcgen05_ws"}
)
"""Families that no GPU at hand can execute: their proof is a test for each of the ISA's words."""


def agreed() -> Mapping[str, int]:
    """The recorded proof."""
    found: dict[str, int] = json.loads(PROOF.read_text(encoding="utf-8"))
    return found


def types_of(entry: Entry) -> str:
    """The types that an entry takes, ``any`` when it does not say."""
    return " < ".join(" ".join(sorted(allowed)) for allowed in entry.types) or "any"


def listing(proof: Mapping[str, int] | None = None) -> str:
    """Every instruction: name, types, section of the PTX ISA, what it does, how it was proved.

    >>> print(listing({}).splitlines()[0])
    instruction                 PTX ISA        proof  what it does
    """
    proof = agreed() if proof is None else proof
    lines = [f"{'instruction':<26}  {'PTX ISA':<13} {'proof':>6}  what it does"]
    everything = entries()
    for family in FAMILIES:
        mine = [entry for entry in everything if entry.family == family]
        if mine:
            lines.append(f"-- {family}")
        for entry in mine:
            count = proof.get(entry.name, 0)
            shown = f"{count:>6}" if count else "   ISA" if family in BY_WORDS else "     -"
            lines.append(f"{entry.name:<26}  {entry.section:<13} {shown}  {entry.summary}")
    names = {entry.name for entry in everything}
    proved = sum(1 for name in names if proof.get(name))
    lines.append(
        f"{len(names)} instructions; {proved} compared with a GPU: bit for bit, "
        "approximate functions within the PTX ISA's stated error; ISA: proved by the PTX ISA's "
        "words, for no hardware was here"
    )
    return "\n".join(lines)


def describe(mnemonic: str) -> str:
    """What the emulator knows of one instruction: forms, types, modifiers, documentation.

    Raises ``LookupError`` for one that it does not know.
    """
    found = [e for e in entries() if mnemonic in (e.mnemonic, e.name)]
    if not found:
        raise LookupError(
            f"the emulator does not know {mnemonic}; `python -m phasebit ptx` lists what it knows"
        )
    parts = []
    for entry in found:
        signature = f"{' '.join(entry.arguments)} -> {' '.join(entry.results) or 'nothing'}"
        options = " ".join(f".{word}" for word in entry.options)
        text = inspect.getdoc(entry.function) or ""
        parts.append(
            f"{entry.name}  ({signature}; types: {types_of(entry)}; PTX ISA {entry.section})\n"
            + (f"  modifiers: {options}\n" if options else "")
            + "\n".join(f"  {line}" for line in text.splitlines())
        )
    return "\n\n".join(parts)
