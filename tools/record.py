"""Measure again on this machine's GPU, and save the notebooks' outputs anew.

    python tools/record.py

Writes records/: the measurements of every chapter that has some, and what each program
of a %%cuda cell printed. Then every chapter is executed from a fresh kernel and saved in
place. At last nbval executes all chapters once more and compares every cell with what was
saved: on the GPU, and then on the emulator. Refuses on a machine with no GPU: the saved
outputs come from one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from execute import execute

from phasebit import contents, files, hardware
from phasebit.__main__ import main as phasebit
from phasebit.notebook import RECORDING

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    gpu = hardware.gpu()
    if gpu is None:
        raise SystemExit(
            "make record needs an NVIDIA GPU and finds none: the saved outputs and records/ "
            "come from one. To execute the book as it is, run 'make book'."
        )
    print(f"Recording on {gpu.name} ({gpu.target}), driver {gpu.driver}.", flush=True)
    for old in (files.records() / "runs").glob("*.json"):
        old.unlink()
    os.environ[RECORDING] = "1"  # %%cuda cells keep what their programs print
    if status := phasebit(["record"]):
        raise SystemExit(status)
    for path in contents.notebooks(ROOT / "book"):
        execute(path)
    del os.environ[RECORDING]
    failed = [device for device in ("gpu", "emulator") if not compare(device)]
    subprocess.run(["git", "status", "--short", "records", "book"], cwd=ROOT, check=False)
    if failed:
        raise SystemExit(f"some cells print something else on: {', '.join(failed)}")


def compare(device: str) -> bool:
    """Whether nbval, in strict mode, finds every cell as it is saved."""
    print(f"Comparing every cell with what is saved, on: {device}", flush=True)
    rules = "--nbval-sanitize-with=tests/book/sanitize.cfg"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval", rules]
    environment = {**os.environ, "PHASEBIT_DEVICE": device, "PYTEST_ADDOPTS": ""}
    answer = subprocess.run([*command, "book"], cwd=ROOT, env=environment, check=False)
    return answer.returncode == 0


if __name__ == "__main__":
    main()
