"""Scripts that are written at every build: the explorers' tables, the rings of the stepper."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from phasebit import palette
from phasebit.pipeline.walk import rings

from .notebooks import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from phasebit_book import explorers, stepper


def application(folder: Path, builder: str = "html") -> Any:
    return SimpleNamespace(builder=SimpleNamespace(format=builder), outdir=str(folder))


def values(script: Path) -> dict[str, Any]:
    """What a script gives the page: name -> value."""
    lines = script.read_text(encoding="utf-8").splitlines()
    found = [re.fullmatch(r"window\.(\w+) = (.*);", line) for line in lines]
    return {each[1]: json.loads(each[2]) for each in found if each}


def test_the_explorers_get_the_emulators_tables_and_the_books_colours(tmp_path: Path) -> None:
    explorers.write_tables(application(tmp_path))
    given = values(tmp_path / "_static" / explorers.TABLES)
    assert given["phasebitHues"] == list(palette.EIGHT)
    assert given["phasebitDescriptors"] == json.loads(json.dumps(explorers.descriptors()))


def test_the_stepper_gets_its_rings(tmp_path: Path) -> None:
    stepper.write_rings(application(tmp_path))
    given = values(tmp_path / "_static" / stepper.RINGS)
    assert given == {"phasebitRings": json.loads(json.dumps(rings()))}
    for name, ring in stepper.every().items():
        text = (tmp_path / "_static" / stepper.file(name)).read_text(encoding="utf-8")
        assert json.dumps(ring, separators=(",", ":"), ensure_ascii=False) in text, name
    assert len({stepper.file(name) for name in stepper.every()}) == len(stepper.every())


def test_only_a_site_has_scripts(tmp_path: Path) -> None:
    explorers.write_tables(application(tmp_path, "latex"))
    assert not list(tmp_path.iterdir())


def test_the_explorers_have_no_colours_of_their_own() -> None:
    text = (ROOT / "book" / "_static" / "explorers.js").read_text(encoding="utf-8")
    assert "window.phasebitHues" in text
    assert not re.search(r'"(orange|green|pink|cyan|red)"', text)


def test_every_colour_that_is_named_is_in_the_palette() -> None:
    assert set(palette.EIGHT) == set(palette.COLOURS)
    assert len(palette.EIGHT) == 8 and len(set(palette.EIGHT)) == 7
