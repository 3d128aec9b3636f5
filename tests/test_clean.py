"""ruff and mypy have nothing to say, and no module imports from a layer above its own."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

def layers() -> list[set[str]]:
    """The picture of CONTRIBUTING.md, from the bottom up; an indented line continues a layer."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown: list[set[str]] = []
    for line in re.findall(r"```\n(__main__ .*?)```", text, re.DOTALL)[0].splitlines():
        shown += [] if line.startswith(" ") else [set()]
        shown[-1].update(line[:40].split())
    return shown[::-1]


LAYERS = layers()
PURE = LAYERS[0] | LAYERS[1]

# The rooms of phasebit/emulator, from the bottom up, as in the text of its __init__.py.
ROOMS = (
    {"errors", "findings", "rulebook", "digest", "capabilities"},
    {"ptx"},
    {"numbers"},
    {"machine"},
    {"copy_engine"},
    {"tensor_core"},
    {"ops"},
    {"codegen"},
    {"checker"},
    {"api"},
    {"interleavings"},
)


@pytest.mark.parametrize("tool", [["ruff", "check", "."], ["mypy"]], ids=lambda tool: tool[0])
def test_the_code_is_clean(tool: list[str]) -> None:
    answer = subprocess.run([sys.executable, "-m", *tool], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_plan_of_the_house_shows_what_is_there() -> None:
    here = {path.stem for path in (ROOT / "phasebit").iterdir()
            if path.suffix == ".py" or (path / "__init__.py").exists()}  # fmt: skip
    shown = [name for layer in LAYERS for name in sorted(layer)]
    assert sorted(shown) == sorted(here - {"__init__"})


def test_the_files_that_are_begun_first_are_there() -> None:
    text = (ROOT / "conftest.py").read_text(encoding="utf-8")
    listed = re.findall(r'^    "(tests/.*)",$', text, re.MULTILINE)
    assert len(listed) > 10 and all((ROOT / name).exists() for name in listed)


def imports(path: Path) -> set[str]:
    """The modules that a file imports, at its top or inside a function: dotted names."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def layer(name: str) -> int:
    return next(i for i, names in enumerate(LAYERS) if name in names)


def files() -> dict[Path, str]:
    """Every module's file, with the name of its layer's member."""
    package = ROOT / "phasebit"
    found = {path: path.relative_to(package).parts[0] for path in package.rglob("*.py")}
    return {path: name.removesuffix(".py") for path, name in found.items() if name != "__init__.py"}


def breaches(own: str, names: set[str]) -> list[str]:
    """The imports that a module of this name may not make."""
    wrong = []
    for name in sorted(names):
        first, _, rest = name.partition(".")
        module = rest.partition(".")[0]
        if first != "phasebit":
            if own in PURE and first not in sys.stdlib_module_names:
                wrong.append(name)
        elif any(module in names for names in LAYERS) and layer(module) > layer(own):
            wrong.append(name)
    return wrong


@pytest.mark.parametrize("path", files(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_module_imports_from_its_own_layer_and_below(path: Path) -> None:
    assert breaches(files()[path], imports(path)) == []


def of_other_chapters(path: Path) -> list[str]:
    """The imports of a chapter's module from folders of other chapters."""
    own = path.parent.name
    other = re.compile(rf"phasebit\.chapters\.(?!{own}\.)\w+\.\w+")
    return [name for name in sorted(imports(path)) if other.match(name)]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "phasebit" / "chapters").glob("*/*.py")),
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)  # fmt: skip
def test_a_chapter_imports_from_no_other(path: Path) -> None:
    assert of_other_chapters(path) == []


def test_a_planted_import_of_another_chapter_is_found(tmp_path: Path) -> None:
    planted = tmp_path / "gemm" / "planted.py"
    planted.parent.mkdir()
    planted.write_text(
        "from phasebit.chapters.layouts import view\nfrom phasebit import chapters\n"
        "from phasebit.chapters.gemm import cpu_ladder\n"
    )
    assert of_other_chapters(planted) == ["phasebit.chapters.layouts.view"]


def emulator_files() -> dict[Path, str]:
    """Every module of the emulator, with the name of its room."""
    package = ROOT / "phasebit" / "emulator"
    found = {path: path.relative_to(package).parts[0] for path in package.rglob("*.py")}
    return {path: name.removesuffix(".py") for path, name in found.items() if name != "__init__.py"}


def room(name: str) -> int:
    return next(i for i, names in enumerate(ROOMS) if name in names)


def upward(own: str, names: set[str]) -> list[str]:
    """The imports of a module in this room that lead to a room above it, for types or not."""
    inside = [name for name in sorted(names) if name.startswith("phasebit.emulator.")]
    return [name for name in inside if room(name.split(".")[2]) > room(own)]


@pytest.mark.parametrize("path", emulator_files(), ids=lambda path: path.name)
def test_a_module_of_the_emulator_imports_from_its_own_room_and_below(path: Path) -> None:
    assert upward(emulator_files()[path], imports(path)) == []


def test_a_planted_import_of_a_room_above_is_found(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(
        "from typing import TYPE_CHECKING\n"
        "from phasebit.emulator.ptx.types import Array\n"
        "if TYPE_CHECKING:\n    from phasebit.emulator.checker.races import Races\n"
        "def f():\n    from phasebit.emulator import ops\n"
    )
    assert upward("machine", imports(planted)) == [
        "phasebit.emulator.checker.races.Races", "phasebit.emulator.ops"
    ]  # fmt: skip
    assert upward("checker", imports(planted)) == []


def circle(package: Path) -> list[str]:
    """Modules of a package's folder that import one another in turn, for types or not; or none.

    The first is also the last.
    """
    modules = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parents[1]).with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = path
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        named = imports(path)
        named = {name if name in modules else name.rpartition(".")[0] for name in named}
        graph[module] = named & modules.keys()
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_of_the_emulator_import_one_another_in_a_circle() -> None:
    assert circle(ROOT / "phasebit" / "emulator") == []


def test_a_planted_circle_is_found(tmp_path: Path) -> None:
    machine = tmp_path / "phasebit" / "emulator" / "machine"
    machine.mkdir(parents=True)
    inside = "phasebit.emulator.machine"
    (machine / "__init__.py").write_text("")
    (machine / "scheduler.py").write_text(f"def f():\n    from {inside} import group\n")
    (machine / "group.py").write_text(f"from {inside}.batch import Batch\n")
    (machine / "batch.py").write_text("import numpy\n")
    assert circle(machine.parent) == []
    (machine / "batch.py").write_text(
        "from typing import TYPE_CHECKING\n"
        f"if TYPE_CHECKING:\n    from {inside}.scheduler import Machine\n"
    )
    assert {name.removeprefix(f"{inside}.") for name in circle(machine.parent)} == {
        "batch", "group", "scheduler"
    }  # fmt: skip


def test_a_planted_import_is_found(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(
        "import json\nfrom phasebit import notebook\ndef f():\n    import numpy.fft\n"
    )
    assert breaches("timeline", imports(planted)) == ["numpy.fft", "phasebit.notebook"]
    assert breaches("doctor", imports(planted)) == []


CHAPTER_MODULES = {"record", "view", "exercises", "clean", "prove"}
"""What a chapter's folder may hold, by the same name in each."""


def homonyms(files: list[str]) -> dict[str, list[str]]:
    """Name -> the modules and folders of the package that share it; chapters bear their own names.

    ``files``: paths from the package down.
    """
    found: dict[str, list[str]] = {}
    for file in files:
        path = Path(file)
        if path.name == "__init__.py":
            path = path.parent
        own = (len(path.parts) == 3 and path.stem in CHAPTER_MODULES) or len(path.parts) == 2
        if path.stem != "__main__" and not (path.parts[:1] == ("chapters",) and own):
            found.setdefault(path.stem, []).append(file)
    return {name: places for name, places in found.items() if len(places) > 1}


def test_no_two_modules_have_one_name() -> None:
    package = ROOT / "phasebit"
    assert homonyms([path.relative_to(package).as_posix() for path in package.rglob("*.py")]) == {}


def test_a_planted_name_is_found() -> None:
    fine = ["ring.py", "chapters/rings/__init__.py", "chapters/rings/view.py",
            "chapters/barriers/__init__.py", "chapters/barriers/view.py",
            "ops/barriers.py"]  # fmt: skip
    assert homonyms(fine) == {}
    assert homonyms([*fine, "emulator/ring.py"]) == {"ring": ["ring.py", "emulator/ring.py"]}
    assert homonyms([*fine, "ops/__init__.py", "chapters/barriers/ops.py"]).keys() == {"ops"}
