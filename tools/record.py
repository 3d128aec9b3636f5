"""Measure again on this machine's GPU, and save the notebooks' outputs anew.

    python tools/record.py

Writes records/: the measurements of every chapter that has some, and what each program
of a %%cuda cell printed. Then every chapter is executed from a fresh kernel and saved in
place. Refuses on a machine with no GPU: the saved outputs come from one.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from execute import execute

from phasebit import chapters, machine
from phasebit.__main__ import main as phasebit
from phasebit.notebook import RECORDING

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    gpu = machine.gpu()
    if gpu is None:
        raise SystemExit(
            "make record needs an NVIDIA GPU and finds none: the saved outputs and records/ "
            "come from one. To execute the book as it is, run 'make book'."
        )
    print(f"Recording on {gpu.name} ({gpu.target}), driver {gpu.driver}.", flush=True)
    os.environ[RECORDING] = "1"  # %%cuda cells keep what their programs print
    if status := phasebit(["record"]):
        raise SystemExit(status)
    for path in chapters.notebooks(ROOT / "book"):
        execute(path)
    subprocess.run(["git", "status", "--short", "records", "book"], cwd=ROOT, check=False)


if __name__ == "__main__":
    main()
