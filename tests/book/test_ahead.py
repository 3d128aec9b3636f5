"""Notebooks executed before their pages are read."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import v4

from .notebooks import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from nbclient.exceptions import DeadKernelError
from phasebit_book import ahead as module
from phasebit_book.ahead import Ahead

pytestmark = pytest.mark.book


def written(path: Path, *sources: str) -> Any:
    """A notebook with these cells, at that place."""
    notebook = v4.new_notebook(cells=[v4.new_code_cell(each) for each in sources])
    nbformat.write(notebook, path)
    return notebook


def test_a_page_gets_what_was_executed_for_it_and_how_it_failed(tmp_path: Path) -> None:
    good = written(tmp_path / "good.ipynb", "x = 6", "print(7 * x)")
    bad = written(tmp_path / "bad.ipynb", "1 / 0")
    changed = written(tmp_path / "changed.ipynb", "print('before')")
    changed.cells[0].source = "print('after')"
    ahead, kept = Ahead(), tmp_path / "kept" / "part"
    names = ("good", "bad", "changed")
    ahead.begin({str(tmp_path / f"{name}.ipynb"): kept / f"{name}.ipynb" for name in names}, 60, 2)
    done = [ahead.executed(each, str(tmp_path), 60, False) for each in (good, bad, changed)]
    assert [each.err is None for each in done] == [True, False, True]
    assert good.cells[1].outputs[0].text == "42\n" and good.cells[1].execution_count == 2
    assert good.metadata.language_info.name == "python" and done[0].nb is good
    assert "ZeroDivisionError" in str(done[1].exc_string)
    assert changed.cells[0].outputs[0].text == "after\n", "what was begun is another notebook"
    assert nbformat.read(kept / "good.ipynb", as_version=4).cells[1].outputs[0].text == "42\n"
    assert sorted(each.name for each in kept.iterdir()) == ["bad.ipynb", "good.ipynb"]
    ahead.end()


def test_a_notebook_is_executed_once_though_its_markdown_is_changed_on_the_way(
    tmp_path: Path,
) -> None:
    counted = tmp_path / "count"
    page = written(tmp_path / "page.ipynb", f"print('x', file=open({str(counted)!r}, 'a'))")
    page.cells.append(v4.new_markdown_cell("a text"))
    nbformat.write(page, tmp_path / "page.ipynb")
    page.cells[1].source = "another text"
    ahead = Ahead()
    ahead.begin({str(tmp_path / "page.ipynb"): tmp_path / "kept.ipynb"}, 60, 1)
    assert ahead.executed(page, str(tmp_path), 60, False).err is None
    ahead.end()
    assert counted.read_text() == "x\n" and page.cells[1].source == "another text"


def test_where_a_build_fails_nothing_is_executed_any_more(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    program = (
        f"import os, pathlib, time; pathlib.Path({str(told)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(600)"
    )
    paths = [tmp_path / "one.ipynb", tmp_path / "two.ipynb"]
    for path in paths:
        written(path, program)
    ahead = Ahead()
    ahead.begin({str(path): tmp_path / "kept" / path.name for path in paths}, 600, 1)
    late = time.monotonic() + 60
    while not told.exists() or not told.read_text():
        assert time.monotonic() < late
        time.sleep(0.05)
    kernel = int(told.read_text())
    ahead.end(early=True)
    while alive(kernel):
        assert time.monotonic() < late, "the kernel of a notebook goes on"
        time.sleep(0.05)


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return not Path(f"/proc/{process}/stat").exists() or (
        Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    )


def test_a_kernel_that_did_not_start_is_started_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its port was taken meanwhile; one that dies at work is not asked to do it again."""
    for error, most in (RuntimeError("Kernel didn't respond"), 2), (DeadKernelError("died"), 1):
        asked = []

        def dies(*args: Any, error: Exception = error, asked: list[Any] = asked) -> None:
            asked.append(args)
            raise error

        monkeypatch.setattr(module, "single_nb_execution", dies)
        with pytest.raises(RuntimeError):
            module._execute("a notebook")
        assert len(asked) == most
    answers = iter([RuntimeError("Kernel died before replying to kernel_info"), None])

    def late(*args: Any) -> str:
        if error := next(answers):
            raise error
        return "executed"

    monkeypatch.setattr(module, "single_nb_execution", late)
    assert module._execute("a notebook") == "executed"
