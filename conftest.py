"""The tiers of the tests: what each needs, how it is skipped, and the table at the end.

A test has one tier, by marker: none (Python only), ``nvcc``, ``foreign`` (kernels compiled by
others' packages, where these are installed), ``gpu``, ``book``, ``site``.
This file stands at the top because it also rules over the notebooks in ``book/``, which
nbval turns into tests.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections import Counter
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests import changed_verdicts, executed, forked, planted_rules, sampled

# Hundreds of tests start Python anew: half of that time goes into compiling the package, where
# nothing keeps what was compiled. `make` does the same.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# These options are for this run, which has read them: not for a pytest that some test starts.
os.environ.pop("PYTEST_ADDOPTS", None)

forked.install()

ROOT = Path(__file__).resolve().parent
TIERS = ("none", "nvcc", "foreign", "gpu", "book", "site")
NEEDS = {
    "none": "Python only",
    "nvcc": "compiles CUDA code",
    "foreign": "compiles with CuTe DSL, Triton",
    "gpu": "runs on an NVIDIA GPU",
    "book": "executes the notebooks",
    "site": "looks at the pages in Chromium",
}

LONGEST = (
    "tests/test_bugs.py",
    "tests/site/test_pages.py",
    "tests/site/test_budgets.py",
    "tests/site/test_grids.py",
    "tests/chapters/hopper_ring/test_products.py",
    "tests/chapters/double_buffering/test_kernels.py",
    "tests/chapters/tensor_cores/test_kernels.py",
    "tests/runtime/test_emulated.py",
    "tests/book/test_gate.py",
    "tests/chapters/measuring/test_kernels.py",
    "tests/test_notebook.py",
    "tests/chapters/double_buffering/test_exercises.py",
    "tests/chapters/asynchronous_copies/test_kernels.py",
    "tests/emulator/test_cuda.py",
    "tests/chapters/tensor_cores/test_exercises.py",
    "tests/emulator/test_findings_planted.py",
    "tests/chapters/chain/test_left_out_calls.py",
    "tests/chapters/layouts/test_kernels.py",
    "tests/chapters/copy_engine/test_tma_copy.py",
    "tests/chapters/other_peoples_kernels/test_exercises.py",
    "tests/chapters/warpgroup_products/test_wgmma.py",
    "tests/emulator/test_differential.py",
    "tests/chapters/asynchronous_copies/test_exercises.py",
    "tests/chapters/double_buffering/test_controls.py",
    "tests/test_clean.py",
    "tests/foreign/test_saved.py",
    "tests/site/test_explorers.py",
)
"""The files that take longest where nothing is cached, by processor time, from 300 s to 20 s."""


def tier(item: pytest.Item) -> str:
    """The tier of a test, from its markers; the most demanding one wins."""
    marks = {mark.name for mark in item.iter_markers()}
    return next((name for name in reversed(TIERS) if name in marks), "none")


@cache
def missing(name: str) -> str | None:
    """Why this machine cannot run a tier, or ``None`` when it can."""
    if name == "nvcc":
        from phasebit import toolchain

        try:
            toolchain.nvcc()
        except toolchain.ToolMissing as error:
            return str(error)
    if name == "gpu":
        from phasebit import hardware

        if hardware.gpu() is None:
            return "no NVIDIA GPU here"
    if name == "site":
        if chromium() is None:
            return "no Chromium here: apt-get install chromium"
        if not (ROOT / "_build" / "html" / "index.html").exists():
            return "no pages in _build/html: run 'make site'"
    return None


def chromium() -> str | None:
    """The path of Chromium or Chrome, or ``None``."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """nbval compares pictures by what they say (``text/plain``), not by their drawing.

    And it executes nothing that `make book` has just executed.
    """
    if type(collector).__name__ == "IPyNbFile":
        collector.skip_compare += ("image/svg+xml",)  # type: ignore[attr-defined]
        start_again(collector)
        executed.answer(collector, ROOT)


def start_again(collector: Any) -> None:
    """Let a notebook whose kernel did not start be started once more.

    Jupyter gives a kernel ports that were free a moment before: of two that workers start at once,
    with the same port, the second dies. One that dies at work is not started again.
    """
    start = collector.setup

    def setup() -> None:
        try:
            start()
        except RuntimeError:
            start()

    collector.setup = setup


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--one-of", default="1", metavar="N",
        help="run one of N members of each family of tests; fitting: so that it takes "
        f"{sampled.MINUTES} minutes (see tests/sampled.py)",
    )  # fmt: skip


def workers(config: pytest.Config) -> int:
    """How many processes share the tests."""
    counted = getattr(config, "workerinput", {}).get("workercount")
    return int(counted or config.getoption("numprocesses", None) or 1)


def one_of(config: pytest.Config) -> int:
    """N of ``--one-of``, as a number."""
    given = config.getoption("one_of")
    try:
        n = sampled.fitting(workers(config)) if given == "fitting" else int(given)
    except ValueError as error:
        raise pytest.UsageError(f"--one-of {given}: {error}") from None
    if n < 1:
        raise pytest.UsageError(f"--one-of {n}: name a whole number from 1 on")
    return n


def draw(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out of ``items`` what a sample leaves out, and note it at a member that stays."""
    n = one_of(config)
    if n == 1:
        return
    out = sampled.left_out(items, n, sampled.commit(ROOT), tier, planted_rules.planted_in)
    gone = {item for members in out.values() for item in members}
    items[:] = [item for item in items if item not in gone]
    told = set()
    for item in items:
        name = item.nodeid.partition("[")[0]
        if name in out and name not in told:
            told.add(name)
            item.user_properties.append(("left out", len(out[name])))
    config.hook.pytest_deselected(items=[*gone])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    whole = not config.getoption("lf", False) and not any("::" in each for each in config.args)
    if whole and (gone := planted_rules.lost({item.nodeid for item in items})):
        raise pytest.UsageError(f"tests/planted_rules.py names tests that are not: {gone}")
    for item in items:
        if type(item).__name__ == "IPyNbCell":
            item.add_marker("book")
        item.user_properties.append(("tier", tier(item)))  # for the closing table
    draw(config, items)
    # What takes longest comes first, then what compiles or executes: a worker that is done before
    # the others then waits for a short file.
    long = {item.path for item in items if tier(item) != "none"}
    place = {ROOT / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(LONGEST) + (item.path not in long)))


def pytest_collection_finish() -> None:
    """The collector of garbage took a third of the time of tests that translate large kernels.

    What is here by now stays, and so do most of the hundred thousand objects that are made of a
    kernel: it need not look at them again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 5)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers():
        if reason := missing(mark.name):
            pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test that plants what breaks a rule must find it; a cell's verdict must matter."""
    planted = planted_rules.planted_in(item.nodeid)
    if not planted:
        result = yield
        if type(item).__name__ == "IPyNbCell" and (line := changed_verdicts.unnoticed(item)):
            pytest.fail(f"nbval would pass this cell with other words in place of {line!r}")
        return result
    with planted_rules.noted() as seen:
        result = yield
    if planted - seen:
        pytest.fail(f"nothing is found of {sorted(planted - seen)}, which this test plants")
    return result


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The closing table: what ran, what did not, and why."""
    counts = {name: Counter[str]() for name in TIERS}
    reasons = {name: Counter[str]() for name in TIERS}
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            name = dict(getattr(report, "user_properties", ())).get("tier")
            if name is None:  # a whole file: it was skipped, or could not be collected
                if not report.nodeid.startswith("tests/foreign/"):
                    continue
                name = "foreign"
            counts[name][outcome] += 1
            if outcome == "skipped" and isinstance(report.longrepr, tuple):
                reasons[name][report.longrepr[2].removeprefix("Skipped: ")] += 1
    left: Counter[str] = Counter()
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            told = dict(getattr(report, "user_properties", ()))
            left[told.get("tier", "")] += told.get("left out", 0)
    terminalreporter.section("tiers")
    for name in TIERS:
        count = counts[name]
        failed = count["failed"] + count["error"]
        if not count:
            verdict = "no test was chosen"
        elif not count["passed"] and not failed:
            verdict = f"SKIPPED: {reasons[name].most_common(1)[0][0]}"
        elif count["skipped"]:
            verdict = f"ran; skipped some: {'; '.join(reasons[name])}"
        else:
            verdict = "ran"
        if left[name]:
            verdict += f"; a sample: {left[name]} left out"
        terminalreporter.line(
            f"{name:7} {NEEDS[name]:31} {count['passed']:5} passed {failed:3} failed "
            f"{count['skipped']:4} skipped   {verdict}",
            red=bool(failed),
            yellow=not failed and verdict.startswith("SKIPPED"),
        )
    if sum(left.values()):
        config, seed = terminalreporter.config, sampled.commit(ROOT)
        terminalreporter.line(
            f"One of {one_of(config)} tests that are alike was run, drawn by the commit {seed}: "
            f"{sum(left.values())} were left out. `make test ONE_OF=1` runs all, here in about "
            f"{sampled.whole(workers(config))} minutes."
        )
