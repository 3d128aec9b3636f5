"""What ptxas makes of the main loops of *Tiling on the GPU*: instructions of each kind, counted.

    python -m phasebit.chapters.tiling_on_the_gpu.machine_code

writes ``records/tiling_compiled.json``. It needs nvcc and nvdisasm and no GPU.
"""

from __future__ import annotations

import json
import re
from datetime import date
from typing import Any

from phasebit import files, process, toolchain
from phasebit.chapters.tiling_on_the_gpu import ladder
from phasebit.instruments import disassembly

NAME = "tiling_compiled"
TARGET = "sm_90a"
LOOPS = ("square", "two_resident", "vectorised", "warp_tile", "double_buffered",
         "through_registers", "tuned", "row_by_row")  # fmt: skip
KINDS = {
    "multiply-adds": r"FFMA\b",
    "with a reused operand": r"FFMA\b.*\.reuse",
    "shared loads": r"LDS\b",
    "shared stores": r"STS\b",
    "global loads": r"LDG\b",
    "asynchronous copies": r"LDGSTS\b",
    "barriers": r"BAR\b",
}
"""What is counted -> how such an instruction begins."""
_SECONDS = 60.0
_OPTIONS = ("-std=c++17", "-O3", "-Xptxas", "-v")
_PREDICATE = r"(?:@!?U?P\w+ )?"


def main_loop(sass: str) -> list[str]:
    """The instructions of the innermost loop that holds most multiply-adds of a function.

    ``sass``: its part of what ``nvdisasm -c`` prints. Raises ``ValueError`` when it has no loop.
    """
    labels: dict[str, int] = {}
    code: list[str] = []
    for line in sass.splitlines():
        if label := re.match(r"(\.L_x_\d+):", line):
            labels[label[1]] = len(code)
        elif instruction := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.+?) ;", line):
            code.append(instruction[1])
    loops = []
    for end, text in enumerate(code):
        jump = re.search(r"\bBRA\b.*`\((\.L_x_\d+)\)", text)
        if jump and labels.get(jump[1], len(code)) <= end:
            loops.append(code[labels[jump[1]] : end + 1])
    if not loops:
        raise ValueError("the function has no loop")
    most = max(_count(loop, KINDS["multiply-adds"]) for loop in loops)
    large = [loop for loop in loops if _count(loop, KINDS["multiply-adds"]) >= 0.9 * most]
    return min(large, key=len)


def counts(loop: list[str]) -> dict[str, int]:
    """Instructions of a loop: all, and of each of :data:`KINDS`."""
    return {"instructions": len(loop)} | {
        kind: _count(loop, pattern) for kind, pattern in KINDS.items()
    }


def _count(loop: list[str], pattern: str) -> int:
    return sum(bool(re.match(_PREDICATE + pattern, text)) for text in loop)


def loops() -> dict[str, dict[str, int]]:
    """The counts of each of :data:`LOOPS`, and the registers of a thread.

    Raises :class:`toolchain.ToolMissing` without nvdisasm, which is part of the CUDA toolkit.
    """
    found = {}
    for name in LOOPS:
        rung = ladder.VARIANTS[name]
        code, said = disassembly.cubin(ladder.text(name), TARGET, _OPTIONS)
        flags = "".join("Lb1E" for _ in rung.asks)
        symbol = f"{len(rung.kernel)}{rung.kernel}" + (f"I{flags}E" if flags else "")
        part = next(part for part in re.split(r"\n\.text\.", disassembly.listing(code))[1:]
                    if symbol in part.partition(":")[0])  # fmt: skip
        registers = re.search(rf"{re.escape(symbol)}.*?Used (\d+) registers", said, re.S)
        assert registers, said
        found[name] = {"registers": int(registers[1]), **counts(main_loop(part))}
    return found


def read() -> dict[str, Any]:
    """The record."""
    kept: dict[str, Any] = json.loads((files.records() / f"{NAME}.json").read_text("utf-8"))
    return kept


def main() -> None:
    """Write the record."""
    record = {
        "date": date.today().isoformat(),
        "nvcc": _version("nvcc"),
        "nvdisasm": _version("nvdisasm"),
        "target": TARGET,
        "loops": loops(),
    }
    text = json.dumps(record, indent=1)
    (files.records() / f"{NAME}.json").write_text(f"{text}\n", encoding="utf-8")


def _version(tool: str) -> str:
    said = process.run([toolchain.tool(tool), "--version"], timeout=_SECONDS).stdout
    return str(re.findall(r"V([\d.]+)", said)[0])


if __name__ == "__main__":
    main()
