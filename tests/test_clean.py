"""ruff and mypy have nothing to say, and no module imports from a layer above its own."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# From the bottom up, as in CONTRIBUTING.md.
LAYERS = (
    {"palette", "mbarrier"},
    {"timeline", "pipeline"},
    {"files", "machine", "process", "occupancy"},
    {"toolchain", "replay", "chapters", "registers"},
    {"devices", "gpu", "native"},
    {"emulator"},
    {"runtime"},
    {
        *("measure", "rounding", "gemm", "caches", "ladder", "block_order", "packed_tiles"),
        *("draw", "boxes", "patterns", "clinic", "planted", "blackwell"),
        *("leave_one_out", "layouts"),
    },
    {"nests"},
    {"benchmarks"},
    {"exercises", "notebook", "cpp_cells", "doctor"},
    {"__main__"},
)
PURE = LAYERS[0] | LAYERS[1]


@pytest.mark.parametrize("tool", [["ruff", "check", "."], ["mypy"]], ids=lambda tool: tool[0])
def test_the_code_is_clean(tool: list[str]) -> None:
    answer = subprocess.run([sys.executable, "-m", *tool], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_plan_of_the_house_shows_the_same_layers() -> None:
    """The picture of CONTRIBUTING.md, from the top down; an indented line continues a layer."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown: list[set[str]] = []
    for line in re.findall(r"```\n(__main__ .*?)```", text, re.DOTALL)[0].splitlines():
        shown += [] if line.startswith(" ") else [set()]
        shown[-1].update(line[:40].split())
    *upper, lowest = shown
    assert upper == [*reversed(LAYERS[1:])] and lowest == LAYERS[0]


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


def test_a_planted_import_is_found(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(
        "import json\nfrom phasebit import notebook\ndef f():\n    import numpy.fft\n"
    )
    assert breaches("timeline", imports(planted)) == ["numpy.fft", "phasebit.notebook"]
    assert breaches("doctor", imports(planted)) == []
