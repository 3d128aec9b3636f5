"""Nsight Compute, asked what the warps at each instruction wait for."""

from __future__ import annotations

import csv
import io
import re
import tempfile
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from phasebit import process, toolchain

_STATE = re.compile(r"(?:stall_|smsp__pcsamp_warps_issue_stalled_)(\w+)")


def sampled(program: Path, kernel: str) -> list[str]:
    """Of each instruction of a kernel its name and its samples by state; the second launch.

    Instructions come in the order of the machine code; ``"MUFU.EX2 wait 12, math 5"``. Raises
    :class:`toolchain.CudaError` when Nsight Compute fails or says nothing that can be read.
    """
    return parse_source(page([program], kernel, skip=1))


def page(
    command: Sequence[str | PathLike[str]], kernel: str, *, skip: int, options: Sequence[str] = ()
) -> str:
    """ncu's page of machine code with samples, as CSV, of a kernel's launch after ``skip`` others.

    ``options``: more of ncu's own. Raises :class:`toolchain.CudaError` when it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = f"{folder}/samples"
        asked = [
            "ncu", "--clock-control", "none", "--section", "SourceCounters", *options,
            "--kernel-name", f"regex:{kernel}",
            "--launch-skip", str(skip), "--launch-count", "1", "-f", "-o", report, *command,
        ]  # fmt: skip
        done = process.run(asked, timeout=60)
        if not done.ok:
            raise toolchain.CudaError(f"Nsight Compute failed: {done.stdout[-800:]}{done.stderr}")
        csv_page = f"{folder}/page.csv"  # longer than what process.run takes from a command
        shown = process.run(
            ["sh", "-c", 'exec "$@" >"$0"', csv_page, "ncu", "--import", f"{report}.ncu-rep",
             "--page", "source", "--csv", "--print-source", "sass"], timeout=60,
        )  # fmt: skip
        text = Path(csv_page).read_text(encoding="utf-8") if Path(csv_page).exists() else ""
        if not shown.ok:
            raise toolchain.CudaError(f"Nsight Compute failed: {text[-800:]}{shown.stderr}")
    return text


_EXECUTED = re.compile(r"(?i)(# )?(instructions executed|(smsp__)?inst_executed)")


def parse_source(text: str, *, executed: bool = False) -> list[str]:
    """Read ncu's source page as CSV; raises :class:`toolchain.CudaError` without samples.

    ``executed``: before its samples, how many warps executed an instruction, where ncu says so.
    """
    rows = list(csv.reader(io.StringIO(text)))
    begin = next((i for i, row in enumerate(rows) if "Source" in row and "Address" in row), None)
    if begin is None:
        raise toolchain.CudaError(f"Nsight Compute showed no machine code: {text[:400]}")
    head = rows[begin]
    states = {
        i: match[1] for i, name in enumerate(head)
        if (match := _STATE.fullmatch(name)) and not name.endswith("_not_issued")
    }  # fmt: skip
    ran = next((i for i, name in enumerate(head) if executed and _EXECUTED.fullmatch(name)), None)
    found, all_samples = [], 0
    for row in rows[begin + 1 :]:
        if len(row) != len(head):
            continue
        words = row[head.index("Source")].split()
        words = words[1:] if words and words[0].startswith("@") else words
        if not words:
            continue
        counts = {name: _count(row[i]) for i, name in states.items()}
        all_samples += sum(counts.values())
        if ran is not None:
            counts = {"executed": _count(row[ran]), **counts}
        said = ", ".join(f"{name} {n}" for name, n in counts.items() if n)
        depth = f" {words[-1]}" if "DEPBAR" in words[0] else ""
        begun = " gsb0" if "gsb0" in words[-1] or "gsb0" in words[-2:] else ""
        found.append(f"{words[0].rstrip(';')}{depth}{begun if 'HGMMA' in words[0] else ''} {said}")
    if not all_samples:
        raise toolchain.CudaError(f"Nsight Compute showed no samples: {', '.join(head)[:1500]}")
    return found


def _count(cell: str) -> int:
    try:
        return int(float(cell.replace(",", "")))
    except ValueError:
        return 0
