"""Change the code a little, and see whether a test notices: mutants, by cosmic-ray's operators.

    python tools/mutants.py reach                    which tests reach which function (once)
    python tools/mutants.py run --sample 60          mutants drawn by --seed; all without --sample
    python tools/mutants.py report                   how many were killed, and who survived

A mutant is judged by the tests that reach its function, the quickest of each file first. What was
judged is kept in ``_build/mutants``: a run that was interrupted goes on where it was. Mutants that
no test can tell from the original stand in ``tests/equivalent_mutants.json`` with the reason.
Needs ``pip install cosmic-ray``; no GPU, and an nvcc for the tests of the runtime only.
"""

from __future__ import annotations

import argparse
import ast
import collections
import difflib
import hashlib
import json
import os
import random
import shutil
import subprocess
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
EQUIVALENT = ROOT / "tests" / "equivalent_mutants.json"

PACKAGES = {
    "phasebit/emulator": ["tests/emulator", "tests/foreign/test_saved.py"],
    "phasebit/runtime": ["tests/runtime"],
}
"""Package -> the tests that mirror it."""
TIERS = {"phasebit/emulator": "not nvcc and not gpu", "phasebit/runtime": "not gpu"}
FIRST, MOST_SECONDS = 4, 60.0
"""Tests of each file in the first round; seconds of tests in the second, for who survived that."""
LIMIT = 90.0
"""Seconds after which a mutant that hangs counts as killed."""


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
    """A plugin of pytest: the functions of the package that each test calls, and its seconds."""

    def __init__(self, package: str) -> None:
        self.package = os.fspath(ROOT / package)
        self.codes: set[CodeType] = set()
        self.tests: dict[str, float] = {}
        self.functions: dict[str, list[str]] = {}

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self.codes.add(frame.f_code)

    def pytest_runtest_logstart(self, nodeid: str, location: object) -> None:
        self.codes.clear()
        self.began = time.perf_counter()
        sys.setprofile(self._called)

    def pytest_runtest_logfinish(self, nodeid: str, location: object) -> None:
        sys.setprofile(None)
        self.tests[nodeid] = round(time.perf_counter() - self.began, 4)
        for code in self.codes:
            if code.co_filename.startswith(self.package):
                path = os.path.relpath(code.co_filename, ROOT)
                key = f"{path}:{code.co_firstlineno}"
                self.functions.setdefault(key, []).append(nodeid)


def reach(chosen: list[str]) -> None:
    """Run each file of tests once, and write who reaches what; files that are known stay so."""
    import pytest

    sys.path.insert(0, os.fspath(ROOT))
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = known() if REACH.exists() else {"files": [], "tests": {}, "functions": {}}
    for package, folders in PACKAGES.items():
        paths = [path for each in folders for path in (ROOT / each).rglob("test_*.py")]
        paths += [ROOT / each for each in folders if each.endswith(".py")]
        for file in sorted(path.relative_to(ROOT).as_posix() for path in paths):
            if file in found["files"] or (chosen and file not in chosen):
                continue
            plugin = Reach(package)
            pytest.main(["-q", "--no-header", "-m", TIERS[package], file], plugins=[plugin])
            found["files"].append(file)
            found["tests"] |= plugin.tests
            for key, tests in plugin.functions.items():
                found["functions"].setdefault(key, []).extend(tests)
            REACH.write_text(json.dumps(found), encoding="utf-8")


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


def functions(source: str) -> list[tuple[int, int, int, str]]:
    """First line with decorators, first and last line, and name of every function; outer first."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            decorators = getattr(node, "decorator_list", [])
            first = min([node.lineno, *(each.lineno for each in decorators)])
            last = node.end_lineno or node.lineno
            found.append((first, node.lineno, last, getattr(node, "name", "")))
    return found


def places(module: str) -> Iterator[tuple[str, int, int]]:
    """Operator, occurrence and line of all that could be changed in a module."""
    from cosmic_ray import plugins
    from cosmic_ray.ast import ast_nodes, get_ast

    tree = get_ast((ROOT / module).read_text(encoding="utf-8"))
    for name in sorted(plugins.operator_names()):
        operator = plugins.get_operator(name)
        if operator.arguments() or "NoOp" in name:
            continue
        positions = (at for node in ast_nodes(tree) for at in operator().mutation_positions(node))
        for occurrence, (start, _) in enumerate(positions):
            yield name, occurrence, start[0]


def made(module: str, operator: str, occurrence: int, line: int) -> tuple[Mutant, str] | None:
    """A mutant and its module's text; ``None`` where nothing that runs is changed."""
    from cosmic_ray import plugins
    from cosmic_ray.mutating import mutate_code

    source = (ROOT / module).read_text(encoding="utf-8")
    text = mutate_code(source, plugins.get_operator(operator)(), occurrence)
    try:
        if text is None or stripped(text) == stripped(source):
            return None
    except SyntaxError:
        return None
    changes = difflib.ndiff(source.splitlines(), text.splitlines())
    lines = [each for each in changes if each[:2] in ("- ", "+ ")]
    before = " ".join(each[2:].strip() for each in lines if each[0] == "-")
    after = " ".join(each[2:].strip() for each in lines if each[0] == "+")
    names = [name for first, _, last, name in functions(source) if first <= line <= last and name]
    mutant = Mutant(
        module, digest(source), operator, occurrence, line, ".".join(names), before, after
    )
    return mutant, text


def drawn(sample: int | None, seed: int, within: str) -> Iterator[tuple[Mutant, str]]:
    """Mutants, as many as asked for: a line first, then one of its changes, each as likely."""
    lines: dict[tuple[str, int], list[tuple[str, int]]] = collections.defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            module = path.relative_to(ROOT).as_posix()
            if module.startswith(tuple(within.split(","))):
                for operator, occurrence, line in places(module):
                    lines[module, line].append((operator, occurrence))
    dice = random.Random(seed)
    order = sorted(lines)
    dice.shuffle(order)
    count = 0
    while order and count != sample:
        for module, line in [*order]:
            if count == sample:
                return
            choices = lines[module, line]
            operator, occurrence = choices.pop(dice.randrange(len(choices)))
            if not choices:
                order.remove((module, line))
            mutant = made(module, operator, occurrence, line)
            if mutant:
                count += 1
                yield mutant


# -- judging ----------------------------------------------------------------------------------


def judges(mutant: Mutant, reached: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The tests of the first round, and those of the second."""
    source = (ROOT / mutant.module).read_text(encoding="utf-8")
    own = [each for each in functions(source) if each[0] <= mutant.line <= each[2]]
    tests: set[str] = set()
    for first, line, _, _ in reversed(own):  # the innermost that anybody reaches
        for at in {first, line}:
            tests |= set(reached["functions"].get(f"{mutant.module}:{at}", ()))
        if tests:
            break
    if not tests:  # what runs when the module is imported: whoever reaches any of its functions
        for key, found in reached["functions"].items():
            tests |= set(found) if key.startswith(f"{mutant.module}:") else set()
    seconds = reached["tests"]
    files: dict[str, list[str]] = collections.defaultdict(list)
    for test in sorted(tests, key=lambda each: (seconds[each], each)):
        files[test.partition("::")[0]].append(test)
    first = [test for found in files.values() for test in found[:FIRST]]
    rest, spent = [], 0.0
    for test in sorted(tests - set(first), key=lambda each: (seconds[each], each)):
        spent += seconds[test]
        if spent > MOST_SECONDS:
            break
        rest.append(test)
    return first, rest


def verdict(mutant: Mutant, text: str, reached: dict[str, Any], turn: int) -> str:
    """``killed``, ``killed by time``, ``survived``, or ``reached by no test``."""
    rounds = [tests for tests in judges(mutant, reached) if tests]
    if not rounds:
        return "reached by no test"
    path = TREE / mutant.module
    original = path.read_text(encoding="utf-8")
    later = time.time() + turn  # another time than any compiled file knows
    try:
        path.write_text(text, encoding="utf-8")
        os.utime(path, (later, later))
        for tests in rounds:
            for at in range(0, len(tests), 400):
                said = tried(tests[at : at + 400], LIMIT)
                if said:
                    return said
    finally:
        path.write_text(original, encoding="utf-8")
        os.utime(path, (later - 0.5, later - 0.5))
    return "survived"


def tried(tests: list[str], limit: float | None) -> str:
    """What tests say of the tree: nothing where they pass, else how the mutant was killed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    here = {"PYTHONPATH": os.fspath(TREE), "PHASEBIT_CACHE": os.fspath(FOLDER / "cache")}
    try:
        done = subprocess.run(
            command, cwd=TREE, timeout=limit, capture_output=True, text=True,
            env={**os.environ, **here},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "killed by time"
    if done.returncode not in (0, 1, 2):  # no test was found, or pytest was called wrongly
        raise SystemExit(f"these are no tests here: {' '.join(tests)}\n{done.stdout[-2000:]}")
    return "killed" if done.returncode else ""


def equivalent() -> dict[tuple[str, str, str], str]:
    """Module, line before, line after -> why nobody can tell."""
    entries = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return {(each["module"], each["before"], each["after"]): each["why"] for each in entries}


def run(sample: int | None, seed: int, within: str) -> int:
    """Judge mutants that were not judged yet; the number of those that survived."""
    try:
        import cosmic_ray  # noqa: F401
    except ImportError:
        raise SystemExit("there is no cosmic-ray: pip install cosmic-ray") from None
    if not REACH.exists():
        raise SystemExit("nobody knows which tests reach what: python tools/mutants.py reach")
    reached = known()
    if TREE.exists():
        shutil.rmtree(TREE)
    ignored = shutil.ignore_patterns("__pycache__", "_build", ".*", "node_modules")
    shutil.copytree(ROOT, TREE, ignore=ignored)
    for file in reached["files"]:
        tests = [test for test in reached["tests"] if test.startswith(f"{file}::")]
        if any(tried(tests[at : at + 400], None) for at in range(0, len(tests), 400)):
            raise SystemExit(f"{file} fails without any change")
    judged = {each["name"]: each["verdict"] for each in session()}
    known_same, survived = equivalent(), 0
    with SESSION.open("a", encoding="utf-8") as out:
        for turn, (mutant, text) in enumerate(drawn(sample, seed, within)):
            if mutant.name in judged:
                said = judged[mutant.name]
            elif (mutant.module, mutant.before, mutant.after) in known_same:
                said = "equivalent"
            else:
                said = verdict(mutant, text, reached, turn)
                entry = {"name": mutant.name, "verdict": said, **asdict(mutant)}
                out.write(json.dumps(entry) + "\n")
                out.flush()
            survived += said in ("survived", "reached by no test")
            print(f"{said:20} {mutant.name}", flush=True)
    return survived


def session() -> list[dict[str, Any]]:
    """What was judged so far, of modules that have not changed since."""
    if not SESSION.exists():
        return []
    entries = map(json.loads, SESSION.read_text(encoding="utf-8").splitlines())
    now = {
        path.relative_to(ROOT).as_posix(): digest(path.read_text(encoding="utf-8"))
        for package in PACKAGES for path in (ROOT / package).rglob("*.py")
    }  # fmt: skip
    return [each for each in entries if now.get(each["module"]) == each["digest"]]


def report() -> None:
    """Counts, and the survivors with their lines."""
    same = equivalent()
    counts = collections.Counter[str]()
    for each in session():
        key = (each["module"], each["before"], each["after"])
        said = "equivalent" if key in same else each["verdict"]
        counts[said] += 1
        if said in ("survived", "reached by no test"):
            print(f"{said}: {each['name']}\n  - {each['before']}\n  + {each['after']}")
    killed = counts["killed"] + counts["killed by time"]
    judged = sum(counts.values()) - counts["equivalent"]
    share = f"{100 * killed / judged:.1f} %" if judged else "none judged"
    print(f"killed {killed} of {judged} that are not equivalent ({share}); {dict(counts)}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    reaching = commands.add_parser("reach")
    reaching.add_argument("tests", nargs="*", help="files of tests; all that mirror the packages")
    commands.add_parser("report")
    running = commands.add_parser("run")
    running.add_argument("--sample", type=int)
    running.add_argument("--seed", type=int, default=1)
    running.add_argument(
        "--within", default="phasebit/", help="a module, or a folder of them; commas between"
    )
    given = parser.parse_args()
    if given.command == "reach":
        reach(given.tests)
    elif given.command == "report":
        report()
    elif run(given.sample, given.seed, given.within):
        report()
        raise SystemExit(1)


if __name__ == "__main__":
    main()
