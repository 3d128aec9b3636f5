"""Measure again on this machine's GPU, and save the notebooks' outputs anew.

    python tools/record.py [NOTEBOOK…]

Writes records/ through the notebooks themselves (each measurement that a chapter shows
is recorded by the cell that makes it), then executes every chapter, or the ones named,
from a fresh kernel and saves it in place. Refuses on a machine with no GPU: the saved
outputs come from one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from execute import execute

from phasebit import machine

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: list[str]) -> None:
    gpu = machine.gpu()
    if gpu is None:
        raise SystemExit(
            "make record needs an NVIDIA GPU and finds none: the saved outputs and records/ "
            "come from one. To execute the book as it is, run 'make book'."
        )
    print(f"Recording on {gpu.name} ({gpu.target}), driver {gpu.driver}.")
    os.environ["PHASEBIT_RECORD"] = "1"
    chapters = [Path(name) for name in arguments] or sorted(ROOT.glob("book/part*/*.ipynb"))
    for path in chapters:
        execute(path)
    subprocess.run(["git", "status", "--short", "records", "book"], cwd=ROOT, check=False)


if __name__ == "__main__":
    main(sys.argv[1:])
