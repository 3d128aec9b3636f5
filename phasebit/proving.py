"""What ``python -m phasebit prove`` does: the same launches on a GPU and on the emulator, the same
bits.

A chapter whose kernels were written without a GPU that runs them has a module ``prove`` in its
folder, with ``cases()``: a list of :class:`phasebit.launching.two_devices.Case`. What was
compared is kept in a record, ``records/proved.nvidia-b200.json`` for a B200, after each case. So it
may be stopped at any time and goes on where it was; a case is compared again when its kernel or its
headers have changed.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from phasebit import chapters, files, hardware, measure, replay, toolchain
from phasebit.launching.two_devices import Case

NAME = "proved"
PROTOCOL = {
    "compare": "each case is launched once on the GPU and once on the emulator, on the same random "
    "operands; every bit of every array that the kernel may write is compared",
}


def cases() -> dict[str, Case]:
    """Every case of every chapter: chapter and name -> the case."""
    found = {}
    for chapter in chapters.having("prove"):
        for case in chapters.load(chapter, "prove").cases():
            found[f"{chapter}: {case.name}"] = case
    return found


def path(gpu: hardware.Gpu) -> Path:
    """The record of a GPU."""
    here = re.sub(r"[^a-z0-9]+", "-", gpu.name.lower()).strip("-")
    return files.records() / f"{NAME}.{here}.json"


def compare(case: Case) -> dict[str, Any]:
    """Launch a case on both devices: how many elements agree, bit by bit.

    Raises :class:`toolchain.CudaError` where a device cannot be had, and the emulator's errors.
    """
    import numpy as np

    real = case.launch("gpu")
    begin = time.monotonic()
    ours = case.launch("emulator")
    seconds = time.monotonic() - begin
    elements = differ = 0
    first = ""
    for name, there in real.items():
        bits = np.dtype(f"u{there.dtype.itemsize}")
        a, b = (np.ascontiguousarray(x).view(bits) for x in (there, ours[name]))
        elements += a.size
        wrong = np.argwhere(a != b)
        differ += len(wrong)
        if len(wrong) and not first:
            at = tuple(wrong[0].tolist())
            first = f"{name}{list(at)} is {there[at]} on the GPU and {ours[name][at]} here"
    return {
        "kernel": replay.key(case.source), "elements": elements, "differ": differ, "first": first,
        "emulator_s": round(seconds, 2),
    }  # fmt: skip


def prove(
    known: Mapping[str, Case], words: Iterable[str] = (), say: Callable[[str], None] = print
) -> int:
    """Compare the cases that this GPU runs and that are not in its record yet; 0 if all agree.

    ``words``: only cases whose names contain one of them. Raises :class:`toolchain.CudaError` where
    no GPU is here, or one that runs none of them.
    """
    gpu = measure.gpu()
    chosen = {n: c for n, c in known.items() if not [*words] or any(w in n for w in words)}
    mine = {name: case for name, case in chosen.items() if _runs(gpu, case)}
    if not mine:
        targets = ", ".join(sorted({case.target for case in chosen.values()})) or "no target"
        raise toolchain.CudaError(
            f"this GPU, {gpu.name}, runs {gpu.target}, and what there is to prove is for "
            f"{targets}: start this on a GPU that runs it"
        )
    where = path(gpu)
    record = {"benchmark": NAME, **measure.facts(), "protocol": PROTOCOL, "cases": {}}
    if where.exists():
        record["cases"] = json.loads(where.read_text(encoding="utf-8"))["cases"]
    done: dict[str, Any] = record["cases"]  # type: ignore[assignment]
    todo = {
        name: case for name, case in mine.items()
        if done.get(name, {}).get("kernel") != replay.key(case.source)
    }  # fmt: skip
    seconds = sum(case.seconds for case in todo.values())
    say(f"⏱ {len(mine)} launches, {len(mine) - len(todo)} of them compared before; the others take "
        f"about {seconds:.0f} s; they go on where you stop them")  # fmt: skip
    for name, case in todo.items():
        done[name] = compare(case)
        measure.save(record)
        say(_line(name, done[name]))
    wrong = [name for name in mine if done[name]["differ"]]
    say(f"{len(mine) - len(wrong)} of {len(mine)} launches agree in every bit; wrote {where}")
    return 1 if wrong else 0


def _runs(gpu: hardware.Gpu, case: Case) -> bool:
    """Whether a GPU runs a case: what is for no certain chip runs on every later one."""
    return (gpu.takes if case.family else gpu.executes)(case.target) or gpu.assembles(case.target)


def _line(name: str, found: Mapping[str, Any]) -> str:
    if not found["differ"]:
        return f"{name}: all {found['elements']} elements agree"
    return f"{name}: {found['differ']} of {found['elements']} differ; {found['first']}"
