"""The table of instructions: complete, documented, printed; and the examples in the modules."""

from __future__ import annotations

import doctest
import importlib
import re

import pytest

from phasebit.emulator.ops.listing import describe, listing
from phasebit.emulator.ptx.table import FAMILIES, entries

MODULES = [
    "findings", "ptx.placement", "ops.listing", "ptx.mangling", "checker.traffic", "ptx.types",
]  # fmt: skip


@pytest.mark.parametrize("entry", entries(), ids=lambda e: f"{e.family}-{e.name}")
def test_every_entry_is_documented(entry: object) -> None:
    assert re.fullmatch(r"9\.7\.\d+(\.\d+)*", entry.section), "a section of the PTX ISA"  # type: ignore[attr-defined]
    assert entry.summary.endswith((".", ")")) or ":" in entry.summary  # type: ignore[attr-defined]
    assert entry.kind in ("value", "effect", "blocking", "collective")  # type: ignore[attr-defined]


def test_the_list_names_every_instruction_and_its_proof() -> None:
    text = listing({"mul.wide": 240})
    assert re.search(r"^mul\.wide +9\.7\.1\.3 +240  mul\.wide: the whole product", text, re.M)
    for family in FAMILIES:
        assert f"-- {family}" in text or not any(e.family == family for e in entries())
    last = text.splitlines()[-1]
    assert last.startswith(
        f"{len({e.name for e in entries()})} instructions; 1 compared with a GPU"
    )


def test_one_instruction_in_full() -> None:
    text = describe("shfl")
    assert "shfl.sync" in text and "modifiers: .idx .up .down .bfly" in text
    with pytest.raises(LookupError, match=r"does not know frob; .* lists what it knows"):
        describe("frob")


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_the_modules(module: str) -> None:
    result = doctest.testmod(importlib.import_module(f"phasebit.emulator.{module}"))
    assert result.attempted and not result.failed
