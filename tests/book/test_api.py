"""The page *What the package offers* has every public name, and the list of changes its version."""

from __future__ import annotations

import re

import phasebit

from .notebooks import ROOT

PAGE = (ROOT / "book/api.md").read_text(encoding="utf-8")
CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_public_name_is_on_the_page_and_no_other() -> None:
    sections = re.split(r"currentmodule:: ([\w.]+)\n", PAGE)
    own = "".join(text for name, text in zip(sections[1::2], sections[2::2], strict=True)
                  if name == "phasebit")  # fmt: skip
    documented = re.findall(r"^\.\. auto(?:class|function|exception|data):: (\w+)", own, re.M)
    assert sorted(documented) == sorted({*phasebit.__all__} - {"__version__"})


def test_members_that_are_named_are_there() -> None:
    for name, members in re.findall(r"auto\w+:: (\w+)(?:\(.*\))?\n   :members: (\S.*)", PAGE):
        thing = getattr(phasebit, name, None)
        if thing is None:
            continue
        for member in members.split(", "):
            notes = {key for each in thing.__mro__ for key in getattr(each, "__annotations__", {})}
            assert hasattr(thing, member) or member in notes, f"{name}.{member}"


def test_the_changes_name_this_version_and_the_page_shows_them() -> None:
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", CHANGES, re.M)
    assert phasebit.__version__ in versions
    assert "{include} ../CHANGELOG.md" in (ROOT / "book/changes.md").read_text(encoding="utf-8")
    assert "](CHANGELOG.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
