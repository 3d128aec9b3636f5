"""What the multiplier executes from one product to the next: in PTX, and in machine code.

Of our last kernel, of the same with a thread that ``elect.sync`` chooses, and of CUTLASS's.
"""

from __future__ import annotations

import re
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasebit import process, toolchain
from phasebit.chapters.attention_again import role_counts
from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.edits import replace_once
from phasebit.instruments import disassembly

if TYPE_CHECKING:
    from phasebit.measure import Table

TARGET = "sm_100a"
IN_A_ROW = 8
"""Products that a call of `multiply_scores` or `multiply_weights` issues, for heads of 128."""

FIRST_LANE = "        else if (warp == MULTIPLIER && lane == 0) multiply(s, steps);"
CHOSEN = "        else if (warp == MULTIPLIER && elected()) multiply(s, steps);"
ELECTED = """// True in one thread of the warp, which the hardware chooses.
__device__ inline bool elected() {
    unsigned chosen;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }"
                 : "=r"(chosen));
    return chosen;
}

"""
KERNEL = '__global__ void __launch_bounds__(THREADS, 1)\nattend('


def elected() -> str:
    """Our last kernel; the multiplier's thread is the one that ``elect.sync`` chooses."""
    text = replace_once(kernels.source(kernels.REGISTERS), FIRST_LANE, CHOSEN)
    return replace_once(text, KERNEL, ELECTED + KERNEL)


@contextmanager
def executed(warp: int) -> Iterator[list[str]]:
    """Opcodes of PTX that a warp of each block executes meanwhile, in their order."""
    from phasebit.emulator import LaunchObserver, observing

    found: list[str] = []

    class Watcher(LaunchObserver):
        def enters(self, g: Any) -> None:
            if warp in {int(w) % g.batch.warps for w in g.batch.warp_of[g.lanes]}:
                block = g.batch.machine.program.blocks[g.pc].instructions
                found.extend(instruction.opcode for instruction in block)

    with observing(Watcher()):
        yield found


def stretches(code: Sequence[str], product: str) -> list[list[str]]:
    """The instructions behind one product up to the next, itself among them.

    Only within each row of :data:`IN_A_ROW` products. ``product``: what one has in its text. Raises
    ``ValueError`` where the last row is not whole.
    """
    at = [place for place, text in enumerate(code) if product in text]
    if not at or len(at) % IN_A_ROW:
        raise ValueError(f"{len(at)} products are not whole rows of {IN_A_ROW}")
    return [list(code[begin + 1 : end + 1]) for number, (begin, end) in enumerate(pairwise(at), 1)
            if number % IN_A_ROW]  # fmt: skip


def usual(found: Sequence[Sequence[str]]) -> tuple[int, list[str]]:
    """The median of their lengths, and the stretch of this length that is met most often."""
    middle = statistics.median_low(map(len, found))
    [(often, _)] = Counter(tuple(each) for each in found if len(each) == middle).most_common(1)
    return middle, list(often)


def machine_code(code: bytes) -> list[str]:
    """Instructions of a listing by nvdisasm, with what guards them."""
    return re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.+?) ;", disassembly.listing(code), re.M)


def assembled(ptx: str) -> bytes:
    """PTX through the ptxas that stands beside nvcc."""
    with tempfile.TemporaryDirectory() as folder:
        text, made = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        text.write_text(ptx, encoding="utf-8")
        command = [toolchain.tool("ptxas"), f"-arch={TARGET}", text, "-o", made]
        done = process.run(list(map(str, command)), timeout=300)
        if not done.ok:
            raise toolchain.CudaError(f"ptxas failed: {done.stderr}")
        return made.read_bytes()


def counted(opcodes: Sequence[str], code: bytes) -> dict[str, Any]:
    """What a record keeps of a kernel: of its multiplier's run, and of its machine code."""
    ptx, opcodes_between = usual(stretches(opcodes, "tcgen05.mma"))
    static = stretches(machine_code(code), "UTCHMMA")
    machine = statistics.median_low(map(len, static))
    return {"executed": len(opcodes), "ptx": ptx, "opcodes": opcodes_between, "machine": machine,
            "instructions": next(each for each in static if len(each) == machine)}  # fmt: skip


def ours(text: str) -> dict[str, Any]:
    """:func:`counted` of a kernel of ours; ``RuntimeError`` where it is not right."""
    data = kernels.draw(role_counts.SHAPE)
    with executed(role_counts.OURS["multiplier"].start) as opcodes:
        made = kernels.attend(text, data, schedule="eager")
    if made.run.findings or kernels.off(role_counts.SHAPE, data, made.out) > 1:
        raise RuntimeError("a kernel of attention_again is not right: run its tests")
    code, _ = disassembly.cubin(text, TARGET, ("-std=c++17", "-O3", "-DHEAD=128"))
    return counted(opcodes, code)


SIDES = {"ours": "ours", "elected": "ours, its thread chosen by elect.sync",
         "cutlass": "CUTLASS's"}  # fmt: skip
"""What the record calls each kernel -> what the page does."""


def table() -> Table:
    """The multiplier of each kernel, from the record."""
    from phasebit.measure import Table

    record = role_counts.recorded()
    rows = ((words, f"{side['executed']:,}", str(side["ptx"]), str(side["machine"]))
            for name, words in SIDES.items() if (side := record["issue"][name]))  # fmt: skip
    return Table(
        ("kernel", "PTX executed by the multiplier", "a product in PTX", "in machine code"),
        tuple(rows), "instructions of a warp; a product: from the one before, the median; "
        f"ptxas {record['nvcc']}; {record['package']}; {record['date']}",
    )  # fmt: skip


def listing(name: str) -> str:
    """What stands from one product to the next in machine code, from the record; of ``SIDES``."""
    side = role_counts.recorded()["issue"][name]
    return f"{SIDES[name]}:\n" + "\n".join(f"    {text}" for text in side["instructions"])
