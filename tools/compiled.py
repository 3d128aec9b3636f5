"""Keep what compilers make of kernels for Blackwell, for machines that do not have them.

    python tools/compiled.py

Writes records/blackwell_compiled.json: the instructions (SASS) of the CUDA kernels, by ptxas and
cuobjdump. No GPU is needed. Refuses where one of the tools is missing.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from phasebit import assembled, files, process, replay, toolchain
from phasebit.chapters.chain import kernels
from phasebit.chapters.one_thread_multiplies import blackwell

KERNELS = (blackwell.ONE, f"chain/{kernels.CHAIN}", f"chain/{kernels.PAIR}")

SECONDS = 300.0
"""The longest that nvcc may take for a kernel."""


def answer(command: list[str | Path]) -> str:
    """What a tool prints; raises :class:`toolchain.CudaError` when it fails."""
    done = process.run(command, timeout=SECONDS)
    if not done.ok:
        raise toolchain.CudaError(f"{command[0]} failed: {done.stopped or done.stderr}")
    return done.stdout


def sass(text: str) -> dict[str, Any]:
    """The instructions of a kernel, one a line."""
    dump = toolchain.tool("cuobjdump")
    with tempfile.TemporaryDirectory() as scratch:
        cubin = Path(scratch, "kernel.cubin")
        path = Path(scratch, "kernel.cu")
        path.write_text(text, encoding="utf-8")
        command = toolchain.nvcc_command("cubin", "sm_100a", options=["-std=c++17", "-O3"])
        answer([*command, path, "-o", cubin])
        said = answer([dump, "-sass", cubin])
    lines = re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?;)", said, re.MULTILINE)
    return {"source": replay.key(text), "instructions": len(lines),
            "sass": assembled.packed("\n".join(lines))}  # fmt: skip


def main() -> None:
    said = answer([toolchain.tool("cuobjdump"), "--version"])
    record = {
        "date": datetime.date.today().isoformat(),
        "nvcc": toolchain.nvcc().version,
        "cuobjdump": re.findall(r"V([\d.]+)", said)[0],
        "target": "sm_100a",
        "kernels": {
            **{name: sass(files.kernel(name)) for name in KERNELS},
            kernels.SCOPED: sass(kernels.scoped(kernels.source(kernels.PAIR))),
        },
    }  # fmt: skip
    path = files.records() / assembled.RECORD
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    try:
        main()
    except toolchain.CudaError as error:
        sys.exit(str(error))
