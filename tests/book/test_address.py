"""The repository's address stands in ``_config.yml``; everything else agrees with it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from .notebooks import ROOT, address

OWNER_AND_NAME = address().removeprefix("https://github.com/")

# Any address that would be the book's own if it is not a slip: the same name, or the
# owner's.
_OURS = re.compile(
    r"https?://(?:www\.)?(github\.com|raw\.githubusercontent\.com|colab\.research\.google\.com/github)"
    r"/([\w.-]+/[\w.-]+?)(?=\.git\b|[/\"')\s>#@\\]|$)"
)


def foreign(text: str, *, owner_and_name: str = OWNER_AND_NAME) -> list[str]:
    """Addresses of repositories with our name or our owner that are not the one we have."""
    owner, name = owner_and_name.split("/")
    return [
        match[0]
        for match in _OURS.finditer(text)
        if match[2] != owner_and_name
        and (
            match[2].startswith(f"{owner}/") or match[2].endswith(f"/{name}") or "phase" in match[2]
        )
    ]


def tracked() -> list[Path]:
    """Every file of the checkout that git would keep."""
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if names.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in names.stdout.splitlines()]


def test_everything_agrees_with_the_configuration() -> None:
    wrong = {}
    for path in tracked():
        if path.is_file() and path != Path(__file__):
            try:
                found = foreign(path.read_text(encoding="utf-8"))
            except UnicodeDecodeError:
                continue
            if found:
                wrong[path.relative_to(ROOT).as_posix()] = found
    assert not wrong


@pytest.mark.parametrize("name", ["README.md", "CITATION.cff"])
def test_it_is_named_where_readers_look(name: str) -> None:
    assert address() in (ROOT / name).read_text(encoding="utf-8")


def test_a_slip_is_found() -> None:
    assert foreign(
        "git+https://github.com/else/the-phase-bit@main", owner_and_name="a/the-phase-bit"
    )
    assert foreign("https://github.com/a/other/x", owner_and_name="a/the-phase-bit")
    assert not foreign(
        "https://github.com/a/the-phase-bit/actions", owner_and_name="a/the-phase-bit"
    )
    assert not foreign('"https://github.com/a/the-phase-bit"', owner_and_name="a/the-phase-bit")
    assert not foreign("https://github.com/NVIDIA/cccl", owner_and_name="a/the-phase-bit")
