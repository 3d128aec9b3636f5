"""Change the code a little, and see whether a test notices: mutants, by cosmic-ray's operators.

    python tools/mutants.py reach                    which tests reach which function (once)
    python tools/mutants.py run --sample 60          mutants drawn by --seed; all without --sample
    python tools/mutants.py run --again              survivors again: a test was written since
    python tools/mutants.py report --record          how many were killed, and who survived

A mutant is judged by the tests that reach its function, the quickest of each file first. What was
judged is kept in ``_build/mutants``: a run that was interrupted goes on where it was. Mutants that
no test can tell from the original stand in ``tests/equivalent_mutants.json`` with the reason, and
the last sample in ``records/mutants.json``, which ``tests/mutants.md`` shows.
Needs cosmic-ray, which ``make mutants`` installs beside the rest; no GPU, and an nvcc for the tests
of the runtime only.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import datetime
import difflib
import functools
import gc
import hashlib
import itertools
import json
import math
import os
import platform
import resource
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "_build" / "mutants"
REACH, SESSION, TREE = FOLDER / "reach.json", FOLDER / "session.jsonl", FOLDER / "tree"
PLACES, OUTPUT = FOLDER / "places.json", FOLDER / "output.txt"
EQUIVALENT = ROOT / "tests" / "equivalent_mutants.json"
RECORD, PAGE = ROOT / "records" / "mutants.json", ROOT / "tests" / "mutants.md"

# Not in .venv: what it depends on is not what the book pins.
sys.path.append(os.fspath(FOLDER / "cosmic-ray"))

PACKAGES = {
    "phasebit/emulator": [
        "tests/emulator", "tests/foreign/test_saved.py", "tests/runtime/test_side_by_side.py",
        "tests/runtime/test_emulator_backend.py",
    ],
    "phasebit/runtime": ["tests/runtime"],
}  # fmt: skip
"""Package -> the tests that mirror it, and others that judge its mutants."""
TIERS = {"phasebit/emulator": "not nvcc and not gpu", "phasebit/runtime": "not gpu"}
CHILDREN = "phasebit/runtime"
"""The package whose tests start it in other processes, too."""
FIRST, MOST_SECONDS = 4, 60.0
"""Tests of each file in the first round; seconds of tests in the second, for who survived that."""
CHEAP = 0.3
"""Seconds of a test that does not wait for quicker ones: the files that are nearest come first."""
LIMIT, PATIENCE = 6, 60
"""A mutant counts as killed by time when its tests take so many seconds of a processor more than
three times what they took; or so many times as long by the clock, when it only waits."""
MOST_BYTES = 6 << 30
"""What a mutant may ask for."""
ALIVE = ("survived", "reached by no test")


@dataclass(frozen=True)
class Mutant:
    """One change: where, and the line before and after."""

    module: str
    digest: str  # of the module's text
    operator: str
    occurrence: int
    line: int
    function: str
    before: str
    after: str

    @property
    def name(self) -> str:
        return f"{self.module}:{self.line} {self.operator} {self.occurrence} of {self.digest}"


def digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:8]


# -- which tests reach what -------------------------------------------------------------------


class Reach:
    """A plugin of pytest: the functions of the packages that each test calls, and its seconds."""

    def __init__(self) -> None:
        self.packages = tuple(os.fspath(ROOT / package) for package in PACKAGES)
        self.codes: set[CodeType] = set()
        self.tests: dict[str, float] = {}
        self.functions: dict[str, list[str]] = {}
        self.passed = False
        self.collecting = 0.0

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        """A function is called; its lines are not traced."""
        self.codes.add(frame.f_code)

    def pytest_collection(self, session: object) -> None:
        self.began = time.perf_counter()

    def pytest_collection_finish(self, session: object) -> None:
        self.collecting = round(time.perf_counter() - self.began, 4)

    def pytest_runtest_logstart(self, nodeid: str, location: object) -> None:
        self.codes.clear()
        self.passed = True
        self.began = time.perf_counter()
        sys.settrace(self._called)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.passed &= report.passed

    def pytest_runtest_logfinish(self, nodeid: str, location: object) -> None:
        sys.settrace(None)
        if not self.passed:
            return  # it cannot judge
        self.tests[nodeid] = round(time.perf_counter() - self.began, 4)
        for code in self.codes:
            if code.co_filename.startswith(self.packages):
                key = f"{os.path.relpath(code.co_filename, ROOT)}:{code.co_qualname}"
                self.functions.setdefault(key, []).append(nodeid)


def reach(chosen: list[str]) -> None:
    """Run each file of tests that is new or has changed, and write who reaches what.

    Those that are chosen run anyway, and with them their tests that need an nvcc.
    """
    import pytest

    sys.path.insert(0, os.fspath(ROOT))
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = (
        known() if REACH.exists() else {"files": {}, "reading": {}, "tests": {}, "functions": {}}
    )
    for package, folders in PACKAGES.items():
        paths = [path for each in folders for path in (ROOT / each).rglob("test_*.py")]
        paths += [ROOT / each for each in folders if each.endswith(".py")]
        for file in sorted(path.relative_to(ROOT).as_posix() for path in paths):
            now = digest((ROOT / file).read_text(encoding="utf-8"))
            if file not in chosen if chosen else found["files"].get(file) == now:
                continue
            plugin = Reach()
            tier = "not gpu" if chosen else TIERS[package]
            pytest.main(["-q", "--no-header", "-m", tier, file], plugins=[plugin])
            forget(found, file)
            found["files"][file], found["reading"][file] = now, plugin.collecting
            found["tests"] |= plugin.tests
            for key, tests in plugin.functions.items():
                found["functions"].setdefault(key, []).extend(tests)
            REACH.write_text(json.dumps(found), encoding="utf-8")


def forget(found: dict[str, Any], file: str) -> None:
    """Drop the tests of a file that has changed."""
    for test in [each for each in found["tests"] if each.startswith(f"{file}::")]:
        del found["tests"][test]
    for key, tests in found["functions"].items():
        found["functions"][key] = [test for test in tests if test in found["tests"]]


def known() -> dict[str, Any]:
    """What :func:`reach` wrote."""
    return dict(json.loads(REACH.read_text(encoding="utf-8")))


# -- mutants ----------------------------------------------------------------------------------


def stripped(source: str) -> str:
    """A program without annotations and docstrings, which no test is to tell apart."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
            given = node.args  # by place or by name: that is for mypy to see
            given.args = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            given.defaults = [*given.defaults, *filter(None, given.kw_defaults)]
            given.posonlyargs, given.kwonlyargs, given.kw_defaults = [], [], []
            for arg in filter(None, [*given.args, given.vararg, given.kwarg]):
                arg.annotation = None
        if isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value = ast.Constant(None)
    return ast.dump(tree)


def functions(source: str) -> list[tuple[int, int, str]]:
    """First line with decorators, last line and qualified name of each function; outer first."""
    found: list[tuple[int, int, str]] = []

    def look(node: ast.AST, prefix: str) -> None:
        for each in ast.iter_child_nodes(node):
            inside = prefix
            if isinstance(each, ast.ClassDef):
                inside = f"{prefix}{each.name}."
            elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                name = prefix + getattr(each, "name", "<lambda>")
                lines = [each.lineno, *(one.lineno for one in getattr(each, "decorator_list", []))]
                found.append((min(lines), each.end_lineno or each.lineno, name))
                inside = f"{name}.<locals>."
            look(each, inside)

    look(ast.parse(source), "")
    return found


def all_places(within: tuple[str, ...]) -> Iterator[tuple[str, str, int, int]]:
    """Module, and what :func:`places` says of it, which is kept as long as its text stays."""
    kept = json.loads(PLACES.read_text(encoding="utf-8")) if PLACES.exists() else {}
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        module, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        if not module.startswith(within):
            continue
        if kept.get(module, [""])[0] != digest(text):
            kept[module] = [digest(text), [*places(module)]]
        for operator, occurrence, line in kept[module][1]:
            yield module, operator, occurrence, line
    PLACES.write_text(json.dumps(kept), encoding="utf-8")


def places(module: str) -> Iterator[tuple[str, int, int]]:
    """Operator, occurrence and line of all that could be changed in a module."""
    from cosmic_ray import plugins
    from cosmic_ray.ast import ast_nodes, get_ast

    nodes = [*ast_nodes(get_ast((ROOT / module).read_text(encoding="utf-8")))]
    for name in sorted(plugins.operator_names()):
        operator = plugins.get_operator(name)
        if operator.arguments() or "NoOp" in name:
            continue
        positions = (at for node in nodes for at in operator().mutation_positions(node))
        for occurrence, (start, _) in enumerate(positions):
            yield name, occurrence, start[0]


def made(module: str, operator: str, occurrence: int, line: int) -> tuple[Mutant, str] | None:
    """A mutant and its module's text; ``None`` where nothing that runs is changed."""
    from cosmic_ray import plugins
    from cosmic_ray.mutating import mutate_code

    source = (ROOT / module).read_text(encoding="utf-8")
    try:
        text = mutate_code(source, plugins.get_operator(operator)(), occurrence)
        if text is None or stripped(text) == stripped(source):
            return None
    except (SyntaxError, AttributeError):  # the latter: an exception of a module, among several
        return None
    changes = difflib.ndiff(source.splitlines(), text.splitlines())
    lines = [each for each in changes if each[:2] in ("- ", "+ ")]
    before = " ".join(each[2:].strip() for each in lines if each[0] == "-")
    after = " ".join(each[2:].strip() for each in lines if each[0] == "+")
    names = [name for first, last, name in functions(source) if first <= line <= last]
    function = names[-1] if names else ""
    return Mutant(module, digest(source), operator, occurrence, line, function, before, after), text


def drawn(sample: int | None, seed: int, within: str) -> Iterator[tuple[Mutant, str]]:
    """Mutants, as many as asked for: a line first, then one of its changes, each as likely."""
    lines: dict[tuple[str, int], list[tuple[str, int]]] = collections.defaultdict(list)
    for module, operator, occurrence, line in all_places(tuple(within.split(","))):
        lines[module, line].append((operator, occurrence))

    def lot(*what: object) -> bytes:
        """What decides who comes first; it stays, whatever else is changed."""
        return hashlib.sha256(repr((seed, *what)).encode()).digest()

    order = sorted(lines, key=lambda at: lot(*at))
    for at in order:
        lines[at].sort(key=lambda change, at=at: lot(*at, *change))
    chosen = (
        (module, *changes[turn], line)
        for turn in range(max(map(len, lines.values()), default=0))
        for module, line in order
        if turn < len(changes := lines[module, line])
    )
    yield from itertools.islice(filter(None, itertools.starmap(made, chosen)), sample)


# -- judging ----------------------------------------------------------------------------------


def judges(mutant: Mutant, reached: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The tests of the first round, a few of each file; and those of the second: files of which
    more tests reach the function come first, as they are likelier to be about it."""
    source = (ROOT / mutant.module).read_text(encoding="utf-8")
    folders = [
        each for package in PACKAGES if mutant.module.startswith(package)
        for each in PACKAGES[package]
    ]  # fmt: skip
    there = {
        each for each in reached["tests"] if not folders or each.startswith(tuple(folders))
    }  # fmt: skip
    tests: set[str] = set()
    for first, last, name in reversed(functions(source)):  # the innermost that anybody reaches
        if first <= mutant.line <= last and not tests:
            tests = there & set(reached["functions"].get(f"{mutant.module}:{name}", ()))
    if not tests:  # what runs when the module is imported: whoever reaches any of its functions
        for key, found in reached["functions"].items():
            tests |= there & set(found) if key.startswith(f"{mutant.module}:") else set()
    # What a child of the tests runs, nobody sees from here: then those of the module, or all.
    if not tests:
        named = f"/test_{Path(mutant.module).stem}.py::"
        tests = {each for each in there if named in each} or there
    order = sorted(tests, key=lambda test: (price(test, reached), test))
    files: dict[str, list[str]] = collections.defaultdict(list)
    for test in order:
        files[test.partition("::")[0]].append(test)
    quick = {test for found in files.values() for test in found[:FIRST]}
    whole = collections.Counter(test.partition("::")[0] for test in reached["tests"])
    near = sorted(files, key=lambda file: -len(files[file]) / whole[file])
    rest, spent = [], 0.0
    further = [each for file in near for each in files[file] if each not in quick]
    if mutant.module.startswith(CHILDREN):
        further += sorted(there - tests, key=lambda test: (price(test, reached), test))
    for test in further:
        spent += reached["tests"][test]
        if spent > MOST_SECONDS:
            break
        rest.append(test)
    rank = {file: number for number, file in enumerate(near)}
    quickest = sorted(
        quick,
        key=lambda test: (
            price(test, reached) > CHEAP,
            rank[test.partition("::")[0]],
            price(test, reached),
            test,
        ),
    )
    return quickest, rest


def price(test: str, reached: dict[str, Any]) -> float:
    """Seconds of a test, and of reading its file."""
    file = test.partition("::")[0]
    return float(reached["tests"][test] + reached.get("reading", {}).get(file, 0.0))


def helpings(tests: list[str], reached: dict[str, Any]) -> Iterator[list[str]]:
    """The tests in portions, small ones first: most mutants die at once."""
    size, portion, spent = 1.0, list[str](), 0.0
    for test in tests:
        portion.append(test)
        spent += price(test, reached)
        if spent > size or len(portion) == 400:
            yield portion
            size, portion, spent = 4 * size, [], 0.0
    if portion:
        yield portion


def verdict(mutant: Mutant, text: str, reached: dict[str, Any], turn: int) -> tuple[str, str]:
    """``killed``, ``killed by time``, ``survived`` or ``reached by no test``; and the killer."""
    rounds = [each for tests in judges(mutant, reached) for each in helpings(tests, reached)]
    if not rounds:
        return "reached by no test", ""
    path = TREE / mutant.module
    original = path.read_text(encoding="utf-8")
    later = time.time() + 2 * turn  # another time than any compiled file knows
    for tests in rounds:
        while tests:
            try:
                path.write_text(text, encoding="utf-8")
                os.utime(path, (later + 1, later + 1))
                said, killer = tried(tests, reached["tests"])
            finally:
                path.write_text(original, encoding="utf-8")
                os.utime(path, (later, later))
            if not said:
                break
            if passes(killer or tests[0], reached["tests"]):
                return said, killer
            print(f"fails without any change: {killer or tests[0]}", flush=True)
            tests = [each for each in tests if each != (killer or tests[0])]
    return "survived", ""


SURE: dict[str, bool] = {}
"""Tests that were tried on the tree without any change: do they pass?"""


def passes(test: str, seconds: dict[str, float]) -> bool:
    """Does a test pass on the tree as it is? Asked once; a file is taken to."""
    if test not in SURE:
        SURE[test] = "::" not in test or not tried([test], seconds)[0]
    return SURE[test]


def tried(tests: list[str], seconds: dict[str, float]) -> tuple[str, str]:
    """How tests kill the tree, and which of them; two empty strings where all pass.

    They run in a child of this process, which has everything imported but the package.
    """
    import hypothesis  # noqa: F401
    import numpy  # noqa: F401
    import pytest

    limit = LIMIT + math.ceil(3 * sum(seconds.get(test, 0.0) for test in tests))
    read, write = os.pipe()
    child = os.fork()
    if not child:
        status = 99
        try:
            os.close(read)
            gc.freeze()  # pytest collects garbage at its end: not all that its parent holds
            enter(limit)
            killer = Killer(write, tests)
            options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "phasebit.pytest_plugin"]
            status = int(pytest.main([*options, *tests], plugins=[killer]))
        finally:
            os._exit(status)
    os.close(write)
    ends = select.select([os.pidfd_open(child)], [], [], PATIENCE * limit)[0]
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with open(read, encoding="utf-8") as pipe:
        killer_name = pipe.read().partition("\n")[0]
    if not ends or os.WIFSIGNALED(status):
        return "killed by time" if not killer_name else "killed", killer_name
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 1, 2, 99) and not killer_name:  # no test was found, or called wrongly
        said = OUTPUT.read_text(encoding="utf-8", errors="replace")
        if "while loading conftest" in said:  # it imports what was changed
            return "killed", ""
        raise SystemExit(f"these are no tests here: {' '.join(tests)}\n{said[-2000:]}")
    return ("killed", killer_name) if code else ("", "")


def enter(seconds: int) -> None:
    """Make this process one of the tree's, with limits, whose output nobody sees."""
    os.setsid()
    out = os.open(OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    os.chdir(TREE)
    given = [os.path.realpath(each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    ours = {*given, os.fspath(ROOT), os.fspath(ROOT / "tools"), os.fspath(FOLDER / "cosmic-ray")}
    sys.path[:] = [
        os.fspath(TREE),
        *(each for each in sys.path if os.path.realpath(each) not in ours),
    ]
    os.environ.update(
        PYTHONPATH=os.fspath(TREE),
        PHASEBIT_CACHE=os.fspath(FOLDER / "cache"),
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
    )


class Killer:
    """A plugin of pytest: runs tests in our order, and writes what fails first."""

    def __init__(self, pipe: int, tests: list[str]) -> None:
        self.pipe = pipe
        self.place = {test: number for number, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: self.place.get(item.nodeid, 0))  # after that of conftest.py

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            os.write(self.pipe, f"{report.nodeid}\n".encode())

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            os.write(self.pipe, f"{report.nodeid}\n".encode())


def equivalent() -> dict[tuple[str, str, str], str]:
    """Module, line before, line after -> why nobody can tell."""
    entries = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return {(each["module"], each["before"], each["after"]): each["why"] for each in entries}


def run(sample: int | None, seed: int, within: str, again: bool) -> int:
    """Judge mutants that were not judged yet, or survivors again; how many survive."""
    try:
        import cosmic_ray  # noqa: F401
    except ImportError:
        raise SystemExit("there is no cosmic-ray: make mutants installs it") from None
    if not REACH.exists():
        raise SystemExit("nobody knows which tests reach what: python tools/mutants.py reach")
    reached = known()
    if TREE.exists():
        shutil.rmtree(TREE)
    ignored = shutil.ignore_patterns("__pycache__", "_build", ".*", "node_modules")
    shutil.copytree(ROOT, TREE, ignore=ignored)
    judged = {each["name"]: each["verdict"] for each in unchanged(session())}
    known_same, survived = equivalent(), 0
    chosen = survivors() if again else drawn(sample, seed, within)
    with SESSION.open("a", encoding="utf-8") as out:
        for turn, (mutant, text) in enumerate(chosen):
            if mutant.name in judged and not again:
                said, killer = judged[mutant.name], ""
            else:
                same = (mutant.module, mutant.before, mutant.after) in known_same
                said, killer = ("equivalent", "") if same else verdict(mutant, text, reached, turn)
                facts = {"name": mutant.name, "verdict": said, "killer": killer, "seed": seed}
                out.write(json.dumps(facts | asdict(mutant)) + "\n")
                out.flush()
            survived += said in ALIVE
            print(f"{said:20} {mutant.name} {killer}", flush=True)
    return survived


def survivors() -> Iterator[tuple[Mutant, str]]:
    """The mutants that no test killed so far."""
    for each in unchanged(session()):
        if each["verdict"] in ALIVE:
            mutant = made(each["module"], each["operator"], each["occurrence"], each["line"])
            if mutant:
                yield mutant


def session() -> list[dict[str, Any]]:
    """What was judged so far; ``first`` is the verdict before tests were written for a mutant."""
    if not SESSION.exists():
        return []
    found: dict[str, dict[str, Any]] = {}
    for each in map(json.loads, SESSION.read_text(encoding="utf-8").splitlines()):
        before = found.get(each["name"], {"first": each["verdict"], "seed": each["seed"]})
        found[each["name"]] = each | {key: before[key] for key in ("first", "seed")}
    return [*found.values()]


def unchanged(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of modules whose text is still the same: they need not be judged again."""

    @functools.cache
    def now(module: str) -> str:
        path = ROOT / module
        return digest(path.read_text(encoding="utf-8")) if path.exists() else ""

    return [each for each in entries if now(each["module"]) == each["digest"]]


def gone(module: str, before: str) -> bool:
    """Whether the line that was changed is no longer in its module."""
    path = ROOT / module
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return before.strip() not in " ".join(line.strip() for line in text.splitlines())


# -- what came out ----------------------------------------------------------------------------


def interval(part: int, whole: int) -> tuple[float, float]:
    """Wilson's 95 % interval for a share of which ``part`` of ``whole`` were seen, in per cent."""
    if not whole:
        return 0.0, 100.0
    z, share = 1.959964, part / whole
    middle = (share + z * z / (2 * whole)) / (1 + z * z / whole)
    half = z / (1 + z * z / whole) * math.sqrt(share * (1 - share) / whole + (z / whole / 2) ** 2)
    return round(100 * (middle - half), 1), round(100 * (middle + half), 1)


def room(module: str) -> str:
    """The folder that a module is counted in: of the emulator, one of its rooms."""
    parts = module.split("/")
    return "/".join(parts[1:3] if parts[1] == "emulator" and len(parts) > 3 else parts[1:2])


def summary(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """What is counted: of each seed and each folder, and who survives."""
    same = equivalent()
    for each in entries:
        if (each["module"], each["before"], each["after"]) in same:
            each["verdict"] = "equivalent"
        elif gone(each["module"], each["before"]):
            each["verdict"] = "gone"
    seeds = sorted({each["seed"] for each in entries})
    rooms = sorted({room(each["module"]) for each in entries})
    told = ("seed", "module", "function", "before", "after", "verdict")
    return {
        "samples": [
            {"seed": seed} | counts([each for each in entries if each["seed"] == seed])
            for seed in seeds
        ],
        "folders": [
            {"folder": one, "seeds": seeds}
            | counts([each for each in entries if room(each["module"]) == one])
            for one in rooms
        ],
        "survivors": [
            {key: each[key] for key in told} for each in entries if each["verdict"] in ALIVE
        ],
    }


def with_earlier(found: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """The counts, and those of samples in the record that this session knows nothing of."""
    seeds = {each["seed"] for each in found["samples"]}
    for each in before["folders"]:  # of samples that were counted together all go, or none
        seeds |= set(each["seeds"]) if seeds & set(each["seeds"]) else set()
    kept = {
        "samples": [each for each in before["samples"] if each["seed"] not in seeds],
        "folders": [each for each in before["folders"] if seeds.isdisjoint(each["seeds"])],
        "survivors": [each for each in before["survivors"] if each["seed"] not in seeds],
    }
    return {key: kept[key] + found[key] for key in kept}


def counts(entries: list[dict[str, Any]]) -> dict[str, int]:
    """Mutants, those that nobody can tell, and those killed when drawn; those whose line is gone
    since, and those of the others that are killed now."""
    real = [each for each in entries if each["verdict"] != "equivalent"]
    return {
        "mutants": len(entries),
        "equivalent": len(entries) - len(real),
        "killed_when_drawn": sum(each["first"].startswith("killed") for each in real),
        "gone": sum(each["verdict"] == "gone" for each in real),
        "killed": sum(each["verdict"].startswith("killed") for each in real),
    }


COUNTED = ("mutants", "equivalent", "gone", "killed_when_drawn", "killed")


def total(samples: list[dict[str, int]]) -> dict[str, int]:
    """All samples together."""
    return {key: sum(each[key] for each in samples) for key in COUNTED}


def page(record: dict[str, Any]) -> str:
    """The record as a page."""

    def row(name: str, one: dict[str, int]) -> str:
        real = one["mutants"] - one["equivalent"]
        cells = [name, one["mutants"], one["equivalent"]]
        for key, of in (("killed_when_drawn", real), ("killed", real - one["gone"])):
            cells.append(f"{one[key]} of {of}" + (f": {100 * one[key] / of:.1f} %" if of else ""))
        low, high = interval(one["killed_when_drawn"], real)
        cells[-2] += f" ({low} to {high})"  # the others were looked at: they stand for no others
        return f"| {' | '.join(map(str, cells))} |"

    lines = [
        "# Mutants",
        "",
        f"Written by `tools/mutants.py report --record` on {record['date']}, with the operators of"
        f" {record['operators']} on Python {record['python']}. A line of the emulator or of the"
        " runtime is drawn, each as likely, then one change of it. The tests that reach its"
        " function judge it: a few of each file, then those of the nearest files, a minute of them;"
        " of the emulator's, only tests that need no nvcc. *When drawn* is what the tests did"
        " before anybody knew the mutant: it alone says what they do with mutants that nobody"
        " looked at, and too little, as longer tests were not asked. In brackets, Wilson's 95 %"
        " interval. *Now* is after tests were written for those that survived, and without those"
        " whose line is no longer there; a sample keeps its counts until it is judged again.",
        "",
        "| sample | mutants | equivalent | killed when drawn | killed now |",
        "| --- | --- | --- | --- | --- |",
        *(row(f"seed {each['seed']}", each) for each in record["samples"]),
        row("all", total(record["samples"])),
        "",
        "| folder | mutants | equivalent | killed when drawn | killed now |",
        "| --- | --- | --- | --- | --- |",
        *(
            row(f"`{name}`", total([each for each in record["folders"] if each["folder"] == name]))
            for name in sorted({each["folder"] for each in record["folders"]})
        ),
        "",
    ]
    if record["survivors"]:
        lines += ["Those that survive:", ""]
        for each in record["survivors"]:
            where = f"`{each['module']}`, `{each['function'] or 'the module'}`"
            lines.append(f"- {where}: `{each['before']}` → `{each['after']}`")
        lines.append("")
    return "\n".join(lines)


def report(keep: bool) -> None:
    """Print the counts and the survivors with their lines; keep them as the record."""
    entries = session()
    for each in entries:
        if each["verdict"] in ALIVE and "seed" in each:
            print(f"{each['verdict']}: {each['name']}\n  - {each['before']}\n  + {each['after']}")
    found = summary(entries)
    if keep:
        found = with_earlier(found, json.loads(RECORD.read_text(encoding="utf-8")))
        from importlib.metadata import version

        facts = {
            "what": "mutants of the emulator and the runtime, and whether a test notices",
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "python": platform.python_version(),
            "operators": f"cosmic-ray {version('cosmic-ray')}",
        }
        RECORD.write_text(json.dumps(facts | found, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(page(facts | found), encoding="utf-8")
    for one in found["samples"]:
        real = one["mutants"] - one["equivalent"]
        low, high = interval(one["killed_when_drawn"], real)
        print(
            f"seed {one['seed']}: of {real} that are not equivalent {one['killed_when_drawn']} were"
            f" killed when drawn ({low} to {high} %), {one['killed']} of {real - one['gone']} now"
        )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    reaching = commands.add_parser("reach")
    reaching.add_argument("tests", nargs="*", help="files of tests; all that mirror the packages")
    reporting = commands.add_parser("report")
    reporting.add_argument("--record", action="store_true", help="keep it in records/ and tests/")
    running = commands.add_parser("run")
    running.add_argument("--sample", type=int)
    running.add_argument("--seed", type=int, default=1)
    running.add_argument("--again", action="store_true", help="judge the survivors again")
    running.add_argument(
        "--within", default="phasebit/", help="a module, or a folder of them; commas between"
    )
    given = parser.parse_args()
    if given.command == "reach":
        reach(given.tests)
    elif given.command == "report":
        report(given.record)
    elif run(given.sample, given.seed, given.within, given.again):
        report(False)
        raise SystemExit(1)


if __name__ == "__main__":
    main()
