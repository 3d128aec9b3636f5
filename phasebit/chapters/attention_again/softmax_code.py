"""What ptxas makes of the softmax of *Attention again*: instructions of each loop, counted.

    python -m phasebit.chapters.attention_again.softmax_code

writes ``records/attention_again_compiled.json``. It needs nvcc and nvdisasm and no GPU.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import date
from typing import Any

from phasebit import files, process, toolchain
from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.edits import replace_once
from phasebit.instruments import disassembly

NAME = "attention_again_compiled"
TARGET = "sm_100a"
SHARES = (0, 1, 2, 3, 4, 6, 8)
EVEN = SHARES[::2]
"""Of the last kernel, which makes two exponentials at a time: 0, 2, 4 and 8."""
LOOPS = {
    "mask": {"LDTM": 1, "SEL": 32, "STTM": 1},
    "largest": {"LDTM": 1, "FMNMX3": 16},
    "weights": {"LDTM": 1, "F2FP": 16, "STTM": 1},
    "rescale": {"LDTM": 1, "FMUL": 32, "STTM": 1},
}
"""A loop over pieces of 32 columns -> opcodes, and how many it has of each: the shortest such."""
ROW = {"row": {"LDTM": 4, "F2FP": 64, "STTM": 4}}
"""The same where a row stays in registers: a loop over steps, all that a warp does in one."""
MASK = "        if (p.seen(first) < key + ROWS) mask(r, seen - key);"


def shared(share: int, kernel: str = kernels.POLYNOMIAL) -> str:
    """A kernel with so many of eight exponentials left to the polynomial."""
    text = kernels.source(kernel)
    return replace_once(text, "POLYNOMIAL = 2;", f"POLYNOMIAL = {share};")


def unmasked(share: int) -> str:
    """The last kernel without its mask, which few steps need: what the others execute."""
    return replace_once(shared(share, kernels.REGISTERS), MASK, "")


def loops(sass: str, which: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Name of a loop, of ``which`` -> opcode, without suffixes -> how many are in it."""
    labels: dict[str, int] = {}
    code: list[str] = []
    for line in sass.splitlines():
        if label := re.match(r"(\.L_x_\d+):", line):
            labels[label[1]] = len(code)
        elif instruction := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.+?) ;", line):
            code.append(re.sub(r"^@!?U?P\w+ ", "", instruction[1]))
    found = []
    for end, text in enumerate(code):
        jump = re.search(r"\bBRA\b.*`\((\.L_x_\d+)\)", text)
        if jump and labels.get(jump[1], len(code)) <= end:
            body = code[labels[jump[1]] : end + 1]
            found.append(Counter(re.split(r"[. ]", one)[0] for one in body))
    result = {}
    for name, has in which.items():
        fitting = [each for each in found if has.items() <= each.items()]
        if not fitting:
            raise ValueError(f"no loop of the machine code is {name}: none has {has}")
        result[name] = dict(sorted(min(fitting, key=lambda each: each.total()).items()))
    return result


def compiled(text: str, which: dict[str, dict[str, int]]) -> dict[str, Any]:
    """Registers of a thread and the loops of a kernel, for heads of 128.

    Raises :class:`toolchain.ToolMissing` without nvdisasm, which is part of the CUDA toolkit.
    """
    options = ("-std=c++17", "-O3", "-Xptxas", "-v", "-DHEAD=128")
    code, said = disassembly.cubin(text, TARGET, options)
    registers = re.search(r"Used (\d+) registers", said)
    assert registers, said
    return {"registers": int(registers[1]), "loops": loops(disassembly.listing(code), which)}


def read() -> dict[str, Any]:
    """The record."""
    kept: dict[str, Any] = json.loads((files.records() / f"{NAME}.json").read_text("utf-8"))
    return kept


def main() -> None:
    """Write the record."""
    record = {
        "date": date.today().isoformat(),
        "nvcc": version("nvcc"),
        "nvdisasm": version("nvdisasm"),
        "target": TARGET,
        "of eight exponentials by polynomial": {
            str(share): compiled(shared(share), LOOPS) for share in SHARES
        },
        "a row in registers": {str(share): compiled(unmasked(share), ROW) for share in EVEN},
    }
    text = json.dumps(record, indent=1)
    (files.records() / f"{NAME}.json").write_text(f"{text}\n", encoding="utf-8")


def version(tool: str) -> str:
    """As the tool says it: ``"13.0.88"``."""
    said = process.run([toolchain.tool(tool), "--version"], timeout=60).stdout
    return str(re.findall(r"V([\d.]+)", said)[0])


if __name__ == "__main__":
    main()
