"""``python -m proof``: write, run, compare.

… gpu FOLDER       run every program on this machine's GPU; answers into FOLDER/*.npz
… compare FOLDER   run them here, compare with the answers in FOLDER, and report
… replay           the same with the answers that the repository keeps
… keep FOLDER      keep a sample of FOLDER's answers in the repository
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from pathlib import Path

from phasebit.emulator.ops.listing import PROOF
from phasebit.emulator.ptx.reader import read
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.table import select
from proof import batches as plan
from proof import compare, gpu, records
from proof.batches import Batch
from proof.compare import Verdict
from proof.program import Program, module

WRITTEN_OUT = ("bra", "brx", "call", "ret", "exit")
"""Control flow: the translator itself, not entries of the table."""

FILE_LIMIT = 12_000_000
"""Bytes of answers in one file, before compression."""

KEPT = Path(__file__).with_name("answers")
"""Where the repository keeps a sample of the answers."""

KEPT_LANES = {"forms": 12, "machine": 12, "additions": 12}
"""Of how many threads; the digest covers the rest."""


def record(folder: Path, collections: tuple[str, ...], chains: int, jobs: int) -> None:
    """Run the proof on the GPU and write its answers."""
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    device = gpu.Gpu()
    total = 0
    for collection in collections:
        kept: list[tuple[Program, bytes]] = []
        written = size = 0
        for program, answers in gpu.run(plan.batches((collection,), chains), jobs, device):
            kept.append((program, records.pack(program, answers)))
            size += len(kept[-1][1])
            total += 1
            if size > FILE_LIMIT:
                records.save(folder / f"{collection}_{written}.npz", repr(device), kept)
                kept, size, written = [], 0, written + 1
        records.save(folder / f"{collection}_{written}.npz", repr(device), kept)
    print(f"⏱ {total} programs on {device!r} in {time.monotonic() - begin:.0f} s")


@functools.cache
def _answers(folder: Path, collection: str) -> tuple[records.Answers, ...]:
    return tuple(records.Answers(path) for path in sorted(folder.glob(f"{collection}_*.npz")))


def judge_batch(batch: Batch, folder: Path) -> list[Verdict]:
    """The verdicts on the programs of a batch that have a recorded answer."""
    verdicts = []
    for program in batch.programs():
        for answers in _answers(folder, batch.collection):
            verdict = compare.replay(program, answers)
            if verdict is not None:
                verdicts.append(verdict)
    return verdicts


def agreed_by_entry(verdicts: list[Verdict]) -> dict[str, int]:
    """How many programs with an instruction agreed in all cases, by the entry's name."""
    count: Counter[str] = Counter()
    known: dict[tuple[str, int], str] = {}
    for verdict in verdicts:
        if not verdict.good:
            continue
        names = set()
        for function in read(module([verdict.program])).functions.values():
            for item in function.body:
                if isinstance(item, Instruction) and item.mnemonic not in WRITTEN_OUT:
                    key = (item.opcode, len(item.operands))
                    if key not in known:
                        known[key] = select(item).entry.name
                    names.add(known[key])
        count.update(names)
    return dict(sorted(count.items()))


def report(verdicts: list[Verdict]) -> str:
    """One line an instruction family, then each disagreement once by instruction."""
    lines = [f"{'family':<12}{'programs':>9}{'agreed':>8}{'cases':>12}{'agreed':>12}"]
    families: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        families.setdefault(verdict.program.family, []).append(verdict)
    for family, mine in sorted(families.items()):
        lines.append(
            f"{family:<12}{len(mine):>9}{sum(v.good for v in mine):>8}"
            f"{sum(v.cases for v in mine):>12}{sum(v.agreed for v in mine):>12}"
        )
    apart: dict[str, float] = {}
    for verdict in verdicts:
        if verdict.apart:
            words = verdict.program.opcodes[0].split(".")
            name = f"{words[0]}.{words[-1]}" if words[0] != "mma" else ".".join(words[3:])
            apart[name] = max(apart.get(name, 0.0), verdict.apart)
    for name, most in sorted(apart.items()):
        lines.append(f"{name}: the approximation is up to {most:.0f} units from the GPU's")
    shown: set[str] = set()
    for verdict in verdicts:
        what = verdict.program.family if verdict.program.family == "chain" else (
            verdict.program.opcodes[0]
        )  # fmt: skip
        if not verdict.good and what not in shown:
            shown.add(what)
            lines.append(f"{what}: {verdict.agreed} of {verdict.cases}: {verdict.example}")
    chains = [v.program.name for v in verdicts if not v.good and v.program.family == "chain"]
    if chains:
        lines.append(f"{len(chains)} chains: {' '.join(chains)}")
    good = sum(v.good for v in verdicts)
    lines.append(f"{good} of {len(verdicts)} programs agree")
    return "\n".join(lines)


def compare_all(
    folder: Path, collections: tuple[str, ...], chains: int, jobs: int
) -> list[Verdict]:
    """Run the proof here and compare with the answers of a folder."""
    work = list(plan.batches(collections, chains, size=40))
    with multiprocessing.Pool(jobs) as pool:
        done = pool.imap_unordered(functools.partial(judge_batch, folder=folder), work)
        verdicts = [v for batch in done for v in batch]
    return sorted(verdicts, key=lambda v: v.program.name)


def keep(folder: Path, collections: tuple[str, ...], chains: int) -> None:
    """Keep a sample: all programs' digests and the answers of the first threads."""
    KEPT.mkdir(exist_ok=True)
    for collection in collections:
        found: list[tuple[Program, bytes]] = []
        device = ""
        for batch in plan.batches((collection,), chains):
            for program in batch.programs():
                for answers in _answers(folder, collection):
                    if answers.holds(program):
                        found.append((program, answers[program.name]))
                        device = answers.device
        path = KEPT / f"{collection}_0.npz"
        size = records.save(path, device, found, KEPT_LANES.get(collection, 0))
        print(f"{path.name}: {len(found)} programs, {size} bytes")


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m proof", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("action", choices=("gpu", "compare", "replay", "keep"))
    parser.add_argument("folder", type=Path, nargs="?", default=Path("proof_answers"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--chains", type=int, default=plan.CHAINS)
    parser.add_argument("--only", nargs="*", default=list(plan.COLLECTIONS))
    chosen = parser.parse_args(arguments)
    collections = tuple(chosen.only)
    if chosen.action == "gpu":
        record(chosen.folder, collections, chosen.chains, chosen.jobs)
        return 0
    if chosen.action == "keep":
        keep(chosen.folder, collections, chosen.chains)
        return 0
    folder = KEPT if chosen.action == "replay" else chosen.folder
    verdicts = compare_all(folder, collections, chosen.chains, chosen.jobs)
    print(report(verdicts))
    if chosen.action == "compare" and set(collections) == set(plan.COLLECTIONS):
        PROOF.write_text(json.dumps(agreed_by_entry(verdicts), indent=0) + "\n", encoding="utf-8")
    return 0 if all(v.good for v in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
