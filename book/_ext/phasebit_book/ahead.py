"""Notebooks are executed side by side, on every processor that this build may use.

Sphinx reads one page after the other, and MyST-NB executes a notebook when its page is read. Here
all of them are begun, in the order of reading, before the first page is read; a page then takes
what was executed for it, and how it failed. MyST-NB asks one function for that; :func:`setup` puts
another in its place. What was executed is also kept beside the pages, as it was printed: MyST-NB
strips what it joins, and nbval compares every character (tests/executed.py).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
from jupyter_cache.executors.utils import ExecutionResult, single_nb_execution
from myst_nb.core.execute import direct
from sphinx.application import Sphinx

Key = tuple[str, tuple[str, ...]]

KEPT = "executed"
"""The folder beside that of the pages with the notebooks as they were executed."""


class Ahead:
    """Notebooks that are being executed: by their folder, and the sources of their code."""

    def __init__(self) -> None:
        self.begun: dict[Key, Future[ExecutionResult]] = {}
        self.keeps: dict[Key, Path] = {}
        self.pool: ProcessPoolExecutor | None = None

    def begin(self, paths: Mapping[str, Path], timeout: float, workers: int) -> None:
        """Execute these notebooks, ``workers`` at a time; ``timeout`` is in seconds, for a cell.

        ``paths``: of each notebook, and where it is kept as it was executed.
        """
        self.pool = ProcessPoolExecutor(workers, initializer=_interrupted_by_us)
        for path, keeps in paths.items():
            notebook = nbformat.read(path, as_version=4)
            folder = os.path.dirname(os.path.abspath(path))
            # Pieces of a stream are joined as they were printed: how they were cut depends on
            # timing, and MyST-NB would begin a line with each.
            self.keeps[_key(notebook, folder)] = keeps
            self.begun[_key(notebook, folder)] = self.pool.submit(
                _execute, notebook, folder, timeout, allow_errors=False, coalesce_streams=True
            )

    def executed(self, notebook: Any, cwd: str, *args: Any, **options: Any) -> ExecutionResult:
        """What MyST-NB gets for a notebook: outputs in its cells, seconds, and the error if any."""
        key = _key(notebook, cwd)
        future = self.begun.pop(key, None)
        if future is None:  # MyST-NB has made it of something else, as of text
            return single_nb_execution(notebook, cwd, *args, **options)
        try:
            done = future.result()
        except BaseException:  # also Ctrl-C, of which Sphinx tells nobody
            self.end(early=True)
            raise
        self.keeps[key].parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(done.nb, self.keeps[key])
        for cell, filled in zip(notebook.cells, done.nb.cells, strict=True):
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = filled.outputs, filled.execution_count
        notebook.metadata.update(done.nb.metadata)  # the kernel's language, for the colours
        done.nb = notebook
        return done

    def end(self, early: bool = False) -> None:
        """Nothing is executed any more; ``early``: where the build has failed, at once."""
        if self.pool is not None:
            self.pool.shutdown(wait=not early, cancel_futures=True)
            for each in multiprocessing.active_children() if early else ():
                each.kill()  # its kernel ends with it
        self.begun, self.keeps, self.pool = {}, {}, None


def _key(notebook: Any, folder: str) -> Key:
    """By what is executed: `plain.py` has changed the Markdown when a page is read."""
    sources = (cell.source for cell in notebook.cells if cell.cell_type == "code")
    return os.path.abspath(folder), tuple(sources)


def _execute(*args: Any, **options: Any) -> ExecutionResult:
    """What executes a notebook; once more where its kernel did not start.

    Jupyter gives a kernel ports that were free a moment before: two that start at once may get the
    same one, and the second of them dies.
    """
    try:
        return single_nb_execution(*args, **options)
    except RuntimeError as error:
        if type(error) is not RuntimeError:  # a kernel that dies later has a class of its own
            raise
        return single_nb_execution(*args, **options)


def _interrupted_by_us() -> None:
    """Ctrl-C ends the processes that execute, without a word of theirs."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def setup(app: Sphinx) -> dict[str, bool]:
    ahead = Ahead()

    def begin(app: Sphinx, env: Any, names: list[str]) -> None:
        if app.config["nb_execution_mode"] == "force":
            paths = {str(env.doc2path(name)): name for name in names}
            kept = Path(app.outdir).parent / KEPT
            notebooks = {path: kept / f"{name}.ipynb" for path, name in paths.items()
                         if path.endswith(".ipynb")}  # fmt: skip
            workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
            ahead.begin(notebooks, app.config["nb_execution_timeout"], workers)

    direct.single_nb_execution = ahead.executed
    app.connect("env-before-read-docs", begin)
    app.connect("build-finished", lambda app, error: ahead.end(early=error is not None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
