"""What *Your own kernels* shows of other tools holds: a workflow, and how commands are told."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
import yaml

from phasebit.__main__ import main
from phasebit.chapters.your_own_kernels import view
from tests.book.notebooks import ROOT, address, prose

NOTEBOOK = ROOT / "book/appendix/your_own_kernels.ipynb"


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", prose(NOTEBOOK), re.DOTALL | re.MULTILINE)


def commands() -> list[list[str]]:
    """Every command of the page's shell and of its workflow."""
    (workflow,) = fenced("yaml")
    (job,) = yaml.safe_load(workflow)["jobs"].values()
    steps = [step["run"] for step in job["steps"] if "run" in step]
    return [shlex.split(line) for line in [*fenced("bash")[0].splitlines(), *steps]]


def test_the_workflow_is_one() -> None:
    (text,) = fenced("yaml")
    workflow = yaml.safe_load(text)
    assert set(workflow) == {"name", True, "jobs"}, "YAML reads a bare on as true, GitHub does not"
    assert workflow[True] == ["push", "pull_request"]
    (job,) = workflow["jobs"].values()
    assert job["runs-on"].startswith("ubuntu-")
    assert all(len({"run", "uses"} & set(step)) == 1 for step in job["steps"])
    words = {tuple(command[:2]) for command in commands()}
    assert words >= {("pip", "install"), ("phasebit", "doctor"), ("cmake", "--build")}


def test_the_workflow_installs_what_everything_else_installs() -> None:
    (install,) = (command for command in commands() if command[:2] == ["pip", "install"])
    asked = re.search(r"^cuda-toolkit.*", (ROOT / "requirements-cuda.txt").read_text(), re.M)
    assert asked and asked[0] in install and f"git+{address()}" in install
    assert asked[0] in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_option_of_ours_on_the_page_is_one() -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), pytest.raises(SystemExit):
        main(["run", "--help"])
    named = set(re.findall(r"`(--[a-z-]+)", prose(NOTEBOOK)))
    assert named <= set(re.findall(r"--[a-z-]+", said.getvalue())) | {"--help"}, named


def test_a_command_is_told_without_what_differs_by_machine(tmp_path: Path) -> None:
    said = (
        "race: thread 0 reads s: `ld.shared.u32 %r1, [%r2]` at PTX line 80 (own.cu:3)\n"
        "  PTX line     30  bar.sync 0;   race (late)\n"
        f"{tmp_path}/own.cu is there\n    ^^^^ ~~~\n\n1 passed in 0.53s\n" + "word " * 30
    )
    assert view.shortened(said, tmp_path).splitlines() == [
        "race: thread 0 reads s: own.cu:3", "  bar.sync 0;   race (late)", "own.cu is there", "",
        "1 passed",
        ("word " * 18).rstrip(), "    " + ("word " * 12).rstrip(),
    ]  # fmt: skip
