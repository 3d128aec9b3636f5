"""What the chapter shows: fragments, banks, what its rungs demand, and the record's rates."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from phasebit import draw, files, measure
from phasebit.chapters.tensor_cores import exercises as check
from phasebit.draw import Cell, Panel, Picture
from phasebit.emulator import EmulatorError, Schedule, fragments
from phasebit.launching import launch
from phasebit.palette import EIGHT, HUES

KERNELS = {
    "naive": "fragments from global memory",
    "one_slot": "swizzle",
    "gemm": "super-rows",
}
"""Kernel -> the best rung that is one of it."""

WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
HIT, ASKED = "lts__t_sectors_srcunit_tex_lookup_hit.sum", "lts__t_sectors_srcunit_tex.sum"
DRAM = "dram__bytes_read.sum"

MMA_FLOP = 2 * 16 * 8 * 16
"""Operations of one ``mma.sync`` of 16 × 8 × 16."""

RUNNING, ROWS, COLUMNS = 132, 64, 32
"""Blocks that run together on an H200; rows and columns of blocks of 128 × 256 in 8192 × 8192."""

Tiles = tuple[int, int, int, int, int]
"""Block's tile: rows, columns, depth; a warp's part of it: rows, columns."""


def rates(recorded: dict[str, Any]) -> dict[str, str]:
    """Kernel -> its rate on the product of the ladder."""
    ladder = recorded["ladder"]
    return {
        kernel: measure.spoken(
            [ladder["size"]] * 3, measure.summary(ladder["times_us"][rung]).median
        )
        for kernel, rung in KERNELS.items()
    }


def instruction(words: str, header: str = "ptx.cuh") -> None:
    """Print a function of ``kernels/include``, and the comment above it; ``words``: its first."""
    text = (files.kernels() / "include" / header).read_text(encoding="utf-8")
    print(next(part for part in text.split("\n\n") if part.startswith(words)).rstrip())


def one_slot() -> None:
    """Print the loop of ``one_slot``, and how a warp loads its fragments in it."""
    folder = files.kernels() / "tensor_cores"
    loop = (folder / "one_slot.cuh").read_text(encoding="utf-8")
    print(loop[loop.index("    for (int k0") : loop.index("    sum.store")].rstrip())
    load = (folder / "warp.cuh").read_text(encoding="utf-8")
    load = load[load.index("    template <int BK, int BN, bool SWIZZLE>") : load.index("\n};")]
    print("\n" + load.replace("#pragma unroll\n", ""))


def ring() -> None:
    """Print the loop of the ring's kernel."""
    print(_of_ring("    int full = 0", "    // The last copies"))


def filling() -> None:
    """Print how the ring's kernel starts the copies of a tile, and waits for one."""
    print(_of_ring("    auto fill", "    auto advance"))


def _of_ring(first: str, behind: str) -> str:
    """The lines of the ring's kernel from ``first`` to those before ``behind``."""
    text = (files.kernels() / "tensor_cores/gemm.cuh").read_text(encoding="utf-8")
    lines = text[text.index(first) : text.index(behind)].replace("#pragma unroll\n", "")
    return textwrap.dedent(lines).rstrip()


def lanes(fragment: Any, title: str, packed: int = 2) -> Picture:
    """Each element of a fragment with its lane and register, ``packed`` elements a register."""
    rows, columns = fragment.shape
    cells: list[list[Cell | None]] = [[None] * columns for _ in range(rows)]
    for lane in range(32):
        for i, (row, column) in enumerate(
            zip(fragment.row[lane], fragment.column[lane], strict=True)
        ):
            cells[row][column] = Cell(f"{lane}:{i // packed}", EIGHT[lane // 4])
    return draw.chart(
        cells, rows=range(rows), columns=range(columns), row_label="row", column_label="column",
        title=f"{title}: lane:register",
    )  # fmt: skip


def operands() -> tuple[Picture, Picture, Picture]:
    """The fragments of A (16, 16), B (16, 8) and C (16, 8)."""
    return (
        lanes(fragments.operand_a(16, 16, 2), "A, 16 × 16"),
        lanes(fragments.operand_b(8, 16, 2), "B, 16 × 8"),
        lanes(fragments.accumulator(16, 8), "C, 16 × 8", packed=1),
    )


def ldmatrix(transposed: bool = False) -> Picture:
    """Which lane gives each row's address to ``ldmatrix.x4``, and where each element arrives.

    A warp loads a tile of 16 × 16 whose elements are their own numbers, on the emulator.
    """
    name = "ldmatrix_x4_trans" if transposed else "ldmatrix_x4"
    kernel = launch.compile(
        '#include "ptx.cuh"\n'
        "__global__ void look(const unsigned short* tile, unsigned* out) {\n"
        "    __shared__ alignas(16) unsigned short a[16][16];\n"
        "    const int lane = threadIdx.x;\n"
        "    for (int i = lane; i < 256; i += 32) a[i / 16][i % 16] = tile[i];\n"
        "    __syncwarp();\n    unsigned r[4];\n"
        f"    ptx::{name}(r[0], r[1], r[2], r[3], &a[lane % 16][lane / 16 * 8]);\n"
        "    for (int i = 0; i < 4; ++i) out[4 * lane + i] = r[i];\n}\n"
    )["look"]
    registers = np.zeros((32, 4), np.uint32)
    kernel.launch(1, 32, [np.arange(256, dtype=np.uint16), registers], device="emulator")
    out = registers.view(np.uint16).reshape(32, 4, 2)
    cells: list[list[Cell | None]] = [[None] * 18 for _ in range(16)]
    for row in range(16):
        for half in range(2):
            cells[row][9 * half] = Cell(str(row + 16 * half), "grey")
    for lane, register, half in np.ndindex(32, 4, 2):
        row, column = divmod(int(out[lane, register, half]), 16)
        cells[row][column + 1 + column // 8] = Cell(f"{lane}:{register}", HUES[register])
    columns = ["lane", *range(8), "lane", *range(8, 16)]
    return draw.chart(
        cells, rows=range(16), columns=columns, row_label="row", column_label="column",
        title=f"{name}: lane that gives a row's address; lane:register of each element",
        legend={HUES[i]: f"register {i}" for i in range(4)},
    )  # fmt: skip


def banks(place: Callable[[int, int], int], title: str) -> Picture:
    """Where ``place(row, chunk)`` puts the chunks of eight rows among eight groups of banks."""
    cells: list[list[Cell | None]] = [[None] * 8 for _ in range(8)]
    for row in range(8):
        for chunk in range(8):
            cells[row][place(row, chunk)] = Cell(str(chunk), "orange" if chunk == 2 else "grey")
    return draw.chart(
        cells, rows=range(8), columns=range(8), row_label="row",
        column_label="group of four banks", title=title,
        legend={"orange": "rows of the matrix that begins at chunk 2"},
    )  # fmt: skip


def conflicts(recorded: dict[str, Any]) -> measure.Table:
    """Wavefronts and conflicts of ``one_slot``: counted here, and by Nsight Compute."""
    rows = []
    for rung, swizzle in {"shared tiles": "false", "swizzle": "true"}.items():
        run, right = check.emulate(
            f"one_slot<Tiling<64, 64, 64, 32, 32>, {swizzle}, 16, In, Out>", (128, 128, 128),
            grid=(2, 2), block=128,
        )  # fmt: skip
        if not right or run.findings:
            raise AssertionError(f"{rung}: wrong, or with findings")
        for name, counter in {"wavefronts": WAVEFRONTS, "conflicts": CONFLICTS}.items():
            here, there = run.counters[counter], recorded["conflicts"][rung][counter]
            rows.append((f"{rung}: {name}", f"{here:,}", f"{here * 64:,}", f"{there:,.0f}"))
    heading = ("loads of shared memory", "emulator", "× 64", "Nsight Compute")
    return measure.Table(heading, tuple(rows), "the products are right; no findings")


def demands(*tilings: Tiles) -> measure.Table:
    """What one ``mma.sync`` asks for in a tiling: bytes from outside, wavefronts of shared memory.

    The wavefronts are those of the ring's kernel on the emulator, with two slots and four tiles
    along K; after the last tile it loads one step of zeros. The bytes are arithmetic.
    """
    rows = []
    for tiles in tilings:
        bm, bn, bk, wm, wn = tiles
        k, threads = 4 * bk, 32 * (bm // wm) * (bn // wn)
        run, right = check.emulate(
            f"gemm<Tiling<{', '.join(map(str, tiles))}>, 2, 16, In, Out>", (bm, bn, k), 1, threads,
            shared=2 * 2 * bk * (bm + bn), arguments=[1],
        )  # fmt: skip
        if not right or run.findings or run.counters[CONFLICTS]:
            raise AssertionError(f"{tiles}: wrong, or with findings or conflicts")
        mma = bm * bn * k // (16 * 8 * 16)
        outside = 2 * (bm + bn) * k / mma
        rows.append((f"{bm} × {bn}", f"{wm} × {wn}", f"{outside:.0f}",
                     f"{run.counters[WAVEFRONTS] / mma:.2f}"))  # fmt: skip
    heading = ("block", "warp", "bytes from outside, an mma", "wavefronts of loads, an mma")
    return measure.Table(heading, tuple(rows), "on the emulator: right, no findings, no conflicts")


def tiles(sizes: Tiles, matrix: int) -> Picture:
    """C cut into tiles of blocks, one of these into tiles of warps, that into pieces of an ``mma``.

    In the last panel the elements of a piece that lane 0 holds are marked.
    """
    bm, bn, _, wm, wn = sizes
    held = fragments.accumulator(16, 8)
    of_lane = {(int(row), int(col)) for row, col in zip(held.row[0], held.column[0], strict=True)}
    down, across = bm // wm, bn // wn
    numbers = {divmod(warp, across): str(warp) for warp in range(down * across)}
    parts = (
        Panel(f"C: blocks of {bm} × {bn}", matrix // bm, matrix // bn, {(1, 2)}),
        Panel(f"a block: {down * across} warps of {wm} × {wn}", down, across, {(0, 0)}, "orange",
              1.2, 1.2 * bm / bn, numbers),
        Panel(f"a warp: {wm // 16 * wn // 8} of 16 × 8", wm // 16, wn // 8, {(0, 0)}, "green",
              1.0, wm / wn),
        Panel("an mma: lane 0", 16, 8, of_lane, "pink", 0.5),
    )  # fmt: skip
    places = ", ".join(f"({row}, {col})" for row, col in sorted(of_lane))
    return draw.panels(
        parts,
        alt=f"Tiles within tiles. C, {matrix} × {matrix}, is cut into {matrix // bm} × "
        f"{matrix // bn} blocks of {bm} × {bn}; a block's tile into {down} × {across} of {wm} × "
        f"{wn}, one for each warp; a warp's into {wm // 16} × {wn // 8} pieces of 16 × 8, one for "
        f"each mma.sync of a step; of a piece lane 0 holds {places}.",
    )


def waves(*heights: int) -> Picture:
    """The blocks of C that run together at first, for 8192 × 8192 in blocks of 128 × 256."""
    parts, said = [], []
    for height in heights:
        first = {check.rasterise(n, ROWS, COLUMNS, height) for n in range(RUNNING)}
        rows, columns = ({place[i] for place in first} for i in (0, 1))
        parts.append(Panel(f"super-rows of {height}", ROWS, COLUMNS, first, "orange"))
        said.append(f"super-rows of {height}: in {len(rows)} rows and {len(columns)} columns")
    return draw.panels(
        parts,
        alt=f"The first {RUNNING} of {ROWS} × {COLUMNS} blocks of 128 × 256.\n" + "\n".join(said),
    )


def heights(recorded: dict[str, Any]) -> Picture:
    """Super-rows of several heights over those of height 1: what the first wave needs, what memory
    read, time and cycles. Prints what was read where that is most, and where it is least."""
    rows = recorded["heights"]["rows"]
    times = [statistics.median(row["times_us"]) for row in rows]
    lines = {
        "time": times,
        "cycles": [time * statistics.median(row["mhz"])
                   for time, row in zip(times, rows, strict=True)],
        "read from memory": [row[DRAM] for row in rows],
        "rows and columns needed": [check.wave_traffic(RUNNING, ROWS, COLUMNS, 128, 256,
                                                       row["height"]) for row in rows],
    }  # fmt: skip
    for pick in (max, min):
        row = pick(rows, key=lambda each: each[DRAM])
        print(f"height {row['height']:2}: {row[HIT] / row[ASKED]:.0%} of L2's lookups hit, "
              f"{row[DRAM] / 1e9:.2f} GB read, {times[rows.index(row)] / 1e3:.2f} ms")  # fmt: skip
    return draw.curves(
        [row["height"] for row in rows],
        {name: [value / values[0] for value in values] for name, values in lines.items()},
        x_label="rows of blocks in a super-row", y_label="over that of height 1", evenly=True,
        line=1, title=f"Super-rows, 8192 × 8192 × 8192, {measure.source(recorded)}",
    )  # fmt: skip


def fits(arch: str, *slots: int) -> None:
    """Print whether the last rung runs on the emulator's GPU of this target, with so many slots."""
    for number in slots:
        needed = number * 2 * 64 * (128 + 256)
        print(f"{arch}, {number} slots, {needed // 1024} KiB: ", end="")
        try:
            run, right = check.emulate(
                f"gemm<Tiling<128, 256, 64, 64, 64>, {number}, 16, In, Out>", (128, 256, 128), 1,
                256, shared=needed, arguments=[1], arch=arch,
            )  # fmt: skip
            print(f"right: {right}, findings: {len(run.findings)}")
        except EmulatorError as error:
            print(error)


def turing() -> None:
    """Run the ring compiled for sm_75 under three schedules; print what all of them say."""
    schedules: tuple[Schedule, ...] = ("late", "eager", "random")
    said = []
    for schedule in schedules:
        run, right = check.emulate(
            "gemm<Tiling<64, 64, 64, 32, 32>, 2, 16, In, Out>", (128, 128, 128), 4, 128,
            shared=2 * 16384, arguments=[2], schedule=schedule, arch="sm_75",
        )  # fmt: skip
        said.append((right, len(run.findings), run.counters[CONFLICTS]))
    right = all(each[0] for each in said)
    findings, conflicts = (sum(each[i] for each in said) for i in (1, 2))
    print(f"sm_75, schedules {', '.join(schedules)}: right: {right}, findings: {findings}, "
          f"bank conflicts: {conflicts}")  # fmt: skip


def ladder(recorded: dict[str, Any]) -> dict[str, float]:
    """Rung -> TFLOP/s, and what ``mma.sync`` does alone."""
    size, peak = recorded["ladder"]["size"], recorded["peak"]
    found = {
        rung: measure.square_rate(size, times)
        for rung, times in recorded["ladder"]["times_us"].items()
    }
    seconds = statistics.median(peak["times_us"]) * 1e-6
    return {**found, "mma.sync alone": measure.tflops(peak["flop"], seconds)}


def steps(recorded: dict[str, Any], measuring: dict[str, Any]) -> None:
    """Print what each rung gains over the one before; and whether ``mma.sync`` alone is fair.

    ``measuring``: the record of *Measuring honestly*, which changes its operands, too.
    """
    found = ladder(recorded)
    names = list(recorded["ladder"]["times_us"])
    for before, rung in pairwise(names):
        print(f"{found[rung] / found[before]:4.1f} times: {rung}")
    first, last = names[0], names[-1]
    print(f"from the first rung to the last: {found[last] / found[first]:.0f} times as fast")
    print(f"of mma.sync alone: {found[last] / found['mma.sync alone']:.0%}")
    print(alone(measuring))


def bounds(recorded: dict[str, Any], measuring: dict[str, Any]) -> Picture:
    """What small and large tiles reach, and what their loads from shared memory allow.

    At one wavefront a clock; the clock is the one that *Measuring honestly* saw under products.
    Prints what each asks of what lies outside.
    """
    found = ladder(recorded)
    clock = statistics.median(measuring["data"]["normal"]["mhz"]) * 1e6
    bars: dict[str, float] = {}
    for rung, outside, each in (("a ring of 4 slots", 128, 2), ("larger warp tiles", 48, 1)):
        bars[rung] = found[rung]
        bars[f"{rung}: its loads allow"] = RUNNING * clock * MMA_FLOP / each * 1e-12
        asked = found[rung] / MMA_FLOP * outside
        print(f"{rung}: asks {asked:.1f} TB/s of L2 and memory")
    bars["mma.sync alone"] = found["mma.sync alone"]
    return draw.bars(
        bars, hues={name: "grey" for name in bars if name not in recorded["ladder"]["times_us"]},
        x_label="TFLOP/s", title=f"Reached, and allowed (grey), {measure.source(recorded)}",
    )  # fmt: skip


def cut(number: float) -> Picture:
    """The bits of an f32 number, of its two parts, and of what a tensor core reads of the low one.

    The parts are those of ``double_buffering/h_tensor_cores.cu``.
    """
    whole = np.float32(number)
    high = _read(whole)
    low = whole - high
    lines = {f"{number}": whole, "high part": high, "low part": low, "low part as read": _read(low)}
    cells = [
        [Cell(bit, "blue" if place < 9 else "orange" if place < 19 else "grey")
         for place, bit in enumerate(f"{int(part.view(np.uint32)):032b}")]
        for part in lines.values()
    ]  # fmt: skip
    return draw.chart(
        cells, rows=list(lines), columns=range(31, -1, -1), row_label="", column_label="bit",
        title="An f32 number in two parts",
        legend={"blue": "sign and exponent", "orange": "read of the significand",
                "grey": "not read"},
    )  # fmt: skip


def _read(number: np.float32) -> np.float32:
    """What a tensor core reads of an f32 number: its upper 19 bits, tf32."""
    return (number.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def memory_alone(recorded: dict[str, Any]) -> None:
    """Print how long memory takes for the most that any height reads, and how long the kernel."""
    worst = max(row[DRAM] for row in recorded["heights"]["rows"])
    copy = recorded["copy_bytes_per_second"]
    best = statistics.median(recorded["best"][1]["times_us"]["super-rows"])
    print(f"memory: {worst / copy * 1e3:.2f} ms to read {worst / 1e9:.2f} GB at the copy rate, "
          f"{copy / 1e12:.2f} TB/s")  # fmt: skip
    print(f"kernel: {best / 1e3:.2f} ms")


def alone(measuring: dict[str, Any]) -> str:
    """What the record of *Measuring honestly* says of ``mma.sync`` alone."""
    fixed = measure.roofline().rates["f16 mma, normal"]
    changing = statistics.median(measuring["ceilings"]["f16 mma, normal, in turn"])
    return (
        f"mma.sync alone, f16, normal random numbers: {fixed:.0f} TFLOP/s with the same operands, "
        f"{changing:.0f} with operands that change"
    )


def in_three_products(kernels: measure.Record, inside: dict[str, Any]) -> measure.Table:
    """f32 on tensor cores: times, and the largest errors in units of 2⁻²⁴ · Σ|a·b|.

    ``kernels`` and ``inside`` are the two records of *Double buffering with barriers*.
    """
    plain, three = "g_own_ring", "h_tensor_cores"
    shown = {
        "f32, no tensor cores": plain,
        "three products, parts cut": three,
        "three products, parts rounded": f"{three}, rounded parts",
        "one product": f"{three}, one product",
    }
    rows = []
    for name, kernel in shown.items():
        time = f"{kernels[kernel].warm:.1f}" if kernel in (plain, three) else ""
        wrong = (inside[kind][kernel][0] for kind in ("errors", "errors_positive"))
        rows.append((name, time, *(f"{each:,.1f}" for each in wrong)))
    sums = (inside[kind][three][1] for kind in ("errors", "errors_positive"))
    rows.append(("f32 sums, a term at a time", "", *(f"{each:,.1f}" for each in sums)))
    heading = ("32 × 32 × 4096, one block", "warm, µs", "error, normal numbers", "from 0.5 to 1")
    about = f"errors in units of 2⁻²⁴ · Σ|a·b|; {measure.source(inside)}"
    return measure.Table(heading, tuple(rows), about)


def beside_no_tensor_cores(recorded: dict[str, Any], tiling: dict[str, Any]) -> Picture:
    """The first rung, between the last one of *Tiling on the GPU* and ``mma.sync`` alone.

    ``tiling``: the record of that chapter, whose products are f32 and of the same size. Prints
    the two shares.
    """
    rates, size = ladder(recorded), recorded["ladder"]["size"]
    first, alone = rates["fragments from global memory"], rates["mma.sync alone"]
    without = measure.square_rate(size, tiling["products"][str(size)]["tuned"])
    print(f"{first / without:.2f} times the rate without tensor cores")
    print(f"{first / alone:.1%} of mma.sync alone")
    return draw.bars(
        {"f32, no tensor cores": without, "bf16, the direct way": first, "mma.sync alone": alone},
        hues={"f32, no tensor cores": "grey", "mma.sync alone": "grey"},
        x_label=f"TFLOP/s, {size} × {size} × {size}",
        title=f"The direct way to use tensor cores, {measure.source(recorded)}",
    )


def controls(recorded: dict[str, Any]) -> measure.Table:
    """Kernels that change one thing of the one above, by turns, and what each gains."""
    size, times_us = recorded["controls"]["size"], recorded["controls"]["times_us"]
    rows: list[tuple[str, ...]] = []
    before = 0.0
    for name, times in times_us.items():
        low, middle, high = statistics.quantiles(times, n=4)
        gain = f"{before / middle:.2f} times" if before else ""
        mhz = statistics.median(recorded["controls"]["mhz"][name])
        rows.append((name, f"{middle:.0f}", f"{low:.0f}–{high:.0f}", f"{mhz:.0f}",
                     f"{measure.square_rate(size, times):.0f}", gain))  # fmt: skip
        before = middle
    heading = ("kernel", "µs", "middle half", "MHz", "TFLOP/s", "as fast as the one above")
    return measure.Table(heading, tuple(rows), measure.source(recorded))


def parts(controlled: dict[str, Any]) -> Picture:
    """Cycles of the ring's loop with a part left out, or alone, over those of the whole loop.

    ``controlled``: the record of the controls. Prints how fast copies were, and what a branch costs
    the large tiles.
    """
    found = controlled["contenders"]
    named = {"small": "small tiles", "large": "large tiles"}

    def of_whole(size: str, loop: str) -> float:
        mine, whole = (thousand_cycles(found[f"{size}: {each}"]) for each in (loop, "whole"))
        return mine / whole

    print(f"the ring's copies alone, small tiles: {copied(controlled):.1f} TB/s")
    for way in ("apart", "together"):
        rate = statistics.median(controlled["reads"][f"cp.async, blocks {way}, 32 MiB"])
        print(f"cp.async from 32 MiB, blocks {way}: {rate:.1f} TB/s")
    loops = [name.removeprefix("small: ") for name in found if name.startswith("small: ")]
    for loop in (each for each in loops if "branch" in each):
        print(f"large tiles, {loop}: {of_whole('large', loop):.2f} of the cycles")
    return draw.dots(
        {loop: {told: of_whole(size, loop) for size, told in named.items()}
         for loop in loops if loop != "whole" and "branch" not in loop},
        line=1, x_label="cycles; 1 is the whole loop",
        title=f"The ring's loop, a part left out or alone, {measure.source(controlled)}",
    )  # fmt: skip


def warp_tiles(recorded: dict[str, Any]) -> measure.Table:
    """The warp's two tiles, the larger one with as many blocks as fit and with one: cycles.

    ``recorded``: the record of :mod:`.warp_tiles`.
    """
    found = recorded["contenders"]
    first, *_ = found
    small = first.partition(":")[0]
    tilings = list(dict.fromkeys(name.partition(":")[0] for name in found if ":" in name))
    loops = [name.partition(": ")[2] for name in found if name.startswith(f"{small}:")]
    rows = [("blocks on a multiprocessor",
             *(str(found[f"{tiling}: {loops[0]}"]["blocks"]) for tiling in tilings))]  # fmt: skip
    for loop in loops:
        each = (thousand_cycles(found[f"{tiling}: {loop}"]) for tiling in tilings)
        rows.append((loop, *(f"{cycles:,.0f}" for cycles in each)))
    return measure.Table(("the loop, thousand cycles", *tilings), tuple(rows),
                         f"blocks of 128 × 128, {measure.source(recorded)}")  # fmt: skip


def loads_of_b(recorded: dict[str, Any]) -> measure.Table:
    """The warp's larger tile, one block, without loads of B: left out, and switched off.

    ``recorded``: the record of :mod:`.loads_of_b`. Waits are those of a warp, for each instruction.
    """
    tiling, rows = "warps of 64 × 64, one block", []
    for loop in ("whole", "no loads of B", "loads of B switched off"):
        times = (
            statistics.median(recorded["contenders"][f"{tiling}: {loop}{slots}"]["times_us"])
            for slots in ("", ", 4 slots")
        )
        counts, code = recorded["counters"][loop][tiling], recorded["order"][loop]
        before = code[tiling.partition(",")[0]].partition("w")[0].count("p")
        waits = (counts[f"smsp__average_warps_issue_stalled_{why}_per_issue_active.ratio"]
                 for why in ("long_scoreboard", "dispatch_stall"))  # fmt: skip
        rows.append((
            loop, *(f"{time:.0f}" for time in times), f"{counts['launch__registers_per_thread']}",
            f"{counts['smsp__sass_inst_executed_op_local.sum']:,}", str(before),
            *(f"{wait:.2f}" for wait in waits),
        ))  # fmt: skip
    heading = ("the loop", "µs", "µs, 4 slots", "registers", "accesses to spilled words",
               "products before the wait", "cycles waited for copies (long scoreboard)",
               "at dispatch")  # fmt: skip
    about = f"{tiling}; waits for each instruction; {measure.source(recorded)}"
    return measure.Table(heading, tuple(rows), about)


def thousand_cycles(contender: dict[str, Any]) -> float:
    """Median time by median clock."""
    time, clock = (statistics.median(contender[of]) for of in ("times_us", "mhz"))
    return float(time * clock / 1e3)


def copied(controlled: dict[str, Any]) -> float:
    """TB/s that the ring's copies alone bring, with small tiles."""
    moved = controlled["size"] ** 3 * 2 * (64 + 64) / (64 * 64)
    time = statistics.median(controlled["contenders"]["small: copies alone"]["times_us"])
    return float(moved / time / 1e6)


def rivals(recorded: dict[str, Any]) -> measure.Table:
    """Our last rung, Triton and cuBLAS, by turns."""
    rows = []
    for result in recorded["best"]:
        size, times = result["size"], result["times_us"]
        mine = measure.square_rate(size, times["super-rows"])
        for name in times:
            low, _, high = statistics.quantiles(times[name], n=4)
            own = measure.square_rate(size, times[name])
            clock = statistics.median(result["mhz"][name])
            rows.append((f"{size}: {name}", f"{statistics.median(times[name]):.0f}",
                         f"{low:.0f}–{high:.0f}", f"{clock:.0f}", f"{own:.0f}",
                         f"{mine / own:.2f}"))  # fmt: skip
    heading = ("product and kernel", "µs", "middle half", "MHz", "TFLOP/s", "ours beside it")
    return measure.Table(heading, tuple(rows), measure.source(recorded))


def ragged(recorded: dict[str, Any]) -> measure.Table:
    """Shapes whose rows begin at multiples of 16, 4, 4 and 2 bytes."""
    rows = []
    for result in recorded["ragged"]:
        m, n, k = result["shape"]
        flop = measure.matmul_flop(m, n, k)
        each = (statistics.median(times) * 1e-6 for times in result["times_us"].values())
        rows.append((f"{m} × {n} × {k}", *(f"{measure.tflops(flop, time):.0f}" for time in each)))
    heading = ("M × N × K", "ours, TFLOP/s", "cuBLAS, TFLOP/s")
    return measure.Table(heading, tuple(rows), measure.source(recorded))
