"""What the README shows of one's own kernels does what it says, in as many lines as it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.nvcc
def test_from_an_installed_package_to_a_race_with_its_line(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    match = re.search(r"cat > race\.py <<'EOF'\n(.*?\n)EOF\npython race\.py +# (.*)\n", text, re.S)
    assert match and match[1].count("\n") <= 10
    begin, line, _ = match[2].split("…")
    (tmp_path / "race.py").write_text(match[1])
    done = subprocess.run(
        [sys.executable, tmp_path / "race.py"], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.startswith(begin) and line.strip(" ;") in done.stdout, done.stderr
    marked = match[1].partition('"""')[2].splitlines()[int(re.search(r":(\d+)", line)[1]) - 1]
    assert marked == "    x[threadIdx.x] = s[63 - threadIdx.x];"


def test_what_is_linked_is_there() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    assert links and [link for link in links if not (ROOT / link).exists()] == []
