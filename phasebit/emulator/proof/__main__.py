"""``python -m phasebit.emulator.proof``: write, run, compare.

    … gpu OUT        run everything on this machine's GPU, answers into OUT/*.npz
    … check OUT      assemble everything, run nothing
    … compare OUT    run everything here and compare with the answers in OUT
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from phasebit.emulator.proof import batches as plan
from phasebit.emulator.proof import gpu, records
from phasebit.emulator.proof.program import Program

FILE_LIMIT = 12_000_000
"""Bytes of answers in one file, before compression."""


def record(folder: Path, collections: tuple[str, ...], chains: int, jobs: int, verbose: bool) -> None:
    """Run the proof on the GPU and write its answers."""
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    kept: list[tuple[Program, bytes]] = []
    written = size = total = 0
    device = gpu.Gpu()
    for program, answers in gpu.run(plan.batches(collections, chains), jobs, device):
        if verbose:
            print(program.name, file=sys.stderr)
        kept.append((program, records.pack(program, answers)))
        size += len(kept[-1][1])
        total += 1
        if size > FILE_LIMIT:
            records.save(folder / f"{collections[0]}_{written}.npz", repr(device), kept)
            kept, size, written = [], 0, written + 1
    records.save(folder / f"{collections[0]}_{written}.npz", repr(device), kept)
    print(f"⏱ {total} programs on {device!r} in {time.monotonic() - begin:.0f} s")


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m phasebit.emulator.proof", description=__doc__)
    parser.add_argument("action", choices=("gpu", "check", "compare"))
    parser.add_argument("folder", type=Path, nargs="?", default=Path("proof_answers"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--chains", type=int, default=plan.CHAINS)
    parser.add_argument("--only", nargs="*", default=["forms", "machine", "chains"])
    parser.add_argument("--verbose", action="store_true", help="name each program as it is done")
    chosen = parser.parse_args(arguments)
    collections = tuple(chosen.only)
    if chosen.action == "gpu":
        record(chosen.folder, collections, chosen.chains, chosen.jobs, chosen.verbose)
    return 0


if __name__ == "__main__":
    sys.exit(main())
