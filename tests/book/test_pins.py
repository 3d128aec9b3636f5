"""The pins hold on every Python that the package says it supports."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from .notebooks import ROOT

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
VERSIONS = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if ":: Python ::" in line]
PINS = [
    Requirement(line)
    for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


def test_the_oldest_python_is_the_one_that_is_required_and_pinned_for() -> None:
    assert PROJECT["requires-python"] == f">={VERSIONS[0]}"
    assert f"--python-version {VERSIONS[0]} " in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_workflow_tries_every_python() -> None:
    text = (ROOT / ".github" / "workflows" / "book.yml").read_text(encoding="utf-8")
    matrix = re.search(r"python: \[(.*)\]", text)
    assert matrix and re.findall(r'"([\d.]+)"', matrix[1]) == VERSIONS


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: pin.name)
def test_a_pinned_version_takes_every_python(pin: Requirement) -> None:
    """3.11.0 included, not the newest 3.11 alone: Debian 12 has 3.11.2."""
    if pin.marker and not pin.marker.evaluate():
        pytest.skip("not for this machine")
    package = importlib.metadata.distribution(pin.name)
    if package.version not in pin.specifier:
        pytest.skip(f"{package.version} is installed, not what is pinned")
    takes = SpecifierSet(package.metadata.get("Requires-Python", ""))
    assert [each for each in VERSIONS if not takes.contains(f"{each}.0")] == []


def test_the_set_up_cell_brings_the_nvcc_that_is_pinned() -> None:
    """Colab without a toolkit: `pip install phasebit[notebook]` is all that the cell does."""
    text = (ROOT / "requirements-cuda.txt").read_text(encoding="utf-8")
    pinned = next(line for line in text.splitlines() if line.startswith("cuda-toolkit["))
    extra = map(Requirement, PROJECT["optional-dependencies"]["notebook"])
    asked = next(each for each in extra if each.name == "cuda-toolkit")
    assert Requirement(pinned).specifier == asked.specifier
    assert asked.extras == Requirement(pinned).extras == {"nvcc", "cccl"}
    assert asked.marker and asked.marker.evaluate({"platform_system": "Linux"})


def test_types_are_checked_for_the_python_that_is_there() -> None:
    """NumPy 2.5 needs Python 3.12: read as 3.11, its stubs give an array no ``max()``."""
    assert "python_version" not in SETTINGS["tool"]["mypy"]
