"""What the chapter shows of its kernels: roles at work, texts side by side, the record's times."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from statistics import median
from typing import Any

import numpy as np

from phasebit import draw, files, measure
from phasebit.chapters.warp_specialisation import clinic
from phasebit.chapters.warp_specialisation import record as benchmark
from phasebit.chapters.warp_specialisation import registers as machine_code
from phasebit.edits import replace_once
from phasebit.emulator.capabilities import REGISTER_FILES, limits
from phasebit.launching.launch import compile as compile_cuda
from phasebit.mbarrier import Mbarrier
from phasebit.occupancy import occupancy
from phasebit.timeline import Span, Timeline


def roles() -> Timeline:
    """Which role uses which slot of the healthy kernel, and when: a run on the emulator.

    Time is the number of accesses to the slots so far, by whole warps. A span reaches from a
    role's first access to a tile to its last.
    """
    text = clinic.source("00_healthy")
    known = clinic.constants(text)
    tile = 4 * known["M"] * known["BK"]  # bytes
    slots, laps = known["SLOTS"], known["TILES"] // known["SLOTS"]
    kernel = compile_cuda(text.replace('#include "harness.cuh"', ""))["matmul"]
    a, b, c = (
        np.zeros((known[rows], known[columns]), np.float32) for rows, columns in ("MK", "KN", "MN")
    )
    run = kernel.launch(1, known["THREADS"], [a, b, c], device="emulator", accesses=True)
    uses: dict[tuple[int, int], list[int]] = {}  # warp, slot -> its accesses, in order
    for step, use in enumerate(use for use in run.accesses if use.space == "shared"):
        slot = int(use.addresses[0]) % (slots * tile) // tile  # tiles of B behind those of A
        uses.setdefault((use.warp, slot), []).append(step)
    when: dict[tuple[str, int], list[int]] = {}
    for (warp, slot), steps in uses.items():
        kind = "produce" if warp < known["PRODUCERS"] // 32 else "consume"
        for lap, part in enumerate(np.split(np.array(steps), laps)):  # each lap the same accesses
            when.setdefault((kind, lap * slots + slot), []).extend(map(int, part))
    names = {"produce": "producers", "consume": "consumers"}
    spans = [
        Span(f"{names[kind]}, slot {number % slots}", min(steps), max(steps) + 1, kind, str(number))
        for (kind, number), steps in sorted(when.items())
    ]
    rows = tuple(f"{name}, slot {slot}" for slot in range(slots) for name in names.values())
    return Timeline(
        rows, spans, unit="access", title="Two roles and two slots: the tile that each is at",
        legend={"produce": "writes the tile", "consume": "reads the tile"},
    )  # fmt: skip


def parity() -> Timeline:
    """Four slots, eight consumers: what two of them see of ``full[0]``, phase by phase."""
    full = Mbarrier(1, name="full[0]")
    readers = {"consumer 0, tile 0: phase 0, parity 0": 0,
               "consumer 4, tile 4: phase 1, parity 1": 1}  # fmt: skip
    spans = []
    for done in range(3):
        spans.append(Span("full[0]", done, done + 1, f"parity {done % 2}", f"phase {done}"))
        for reader, phase in readers.items():
            ends = full.test_wait_parity(phase % 2)
            kind = "wait" if not ends else "full" if phase < full.phase else "bad"
            why = f"full[0] to complete phase {phase}, of parity {phase % 2}"
            spans.append(Span(reader, done, done + 1, kind, "", why if kind == "wait" else ""))
        full.arrive()
    return Timeline(
        ("full[0]", *readers), spans, unit="phases complete",
        title="Two waits for one barrier, by their parity",
        legend={
            "parity 0": "open phase, of parity 0", "parity 1": "open phase, of parity 1",
            "wait": "the wait goes on", "full": "the wait ends: its phase is complete",
            "bad": "the wait ends: its phase has not begun",
        },
    )  # fmt: skip


_PRODUCE, _CONSUME = (f"__device__ inline void {role}(" for role in ("produce", "consume"))


def allocated(texts: Mapping[str, str]) -> None:
    """Print how many registers ptxas gives a thread of each text, and what does not fit."""
    width = max(map(len, texts))
    for name, text in texts.items():
        _, found = machine_code.cubin(text)
        print(f"⏱ {name:>{width}}: {found.registers} registers a thread; "
              f"{found.spill_stores} bytes did not fit and go to memory")  # fmt: skip


def loaders(warps: int) -> str:
    """The kernel whose sums are declared inside, with this many warps that load."""
    text = benchmark.variant("inside")
    text = replace_once(
        text, "constexpr int THREADS = 3 * GROUP;         // one group loads, two multiply",
        f"constexpr int LOADERS = {32 * warps};  // threads that load\n"
        "constexpr int THREADS = LOADERS + 2 * GROUP;",
    )  # fmt: skip
    text = replace_once(text, "init(full[threadIdx.x], GROUP)", "init(full[threadIdx.x], LOADERS)")
    text = replace_once(text, "if (threadIdx.x < GROUP)", "if (threadIdx.x < LOADERS)")
    text = replace_once(text, "(threadIdx.x - GROUP)", "(threadIdx.x - LOADERS)")
    return text.replace("i += GROUP", "i += LOADERS")


def fewer_sums(rows: int) -> str:
    """The kernel whose sums are declared inside, with this many rows of C for each consumer."""
    text = benchmark.variant("inside")
    text = replace_once(text, "int M = 256,", f"int M = {16 * rows},")
    return replace_once(text, "int ROWS = 16,", f"int ROWS = {rows},")


def pool(launched: int, wanted: Sequence[int], asked: Sequence[int]) -> draw.Picture:
    """Registers a thread of each warp group and of the block's pool, request by request.

    By the rule of ``setmaxnreg``: a group that wants fewer than ``launched`` gives the rest to the
    pool at once; one that wants more waits until the pool can make up the number. ``asked`` is the
    order in which the groups ask.
    """
    held, spare = [launched] * len(wanted), 0
    waiting: list[int] = []
    names, lines = ["at launch"], [_held(held, spare, waiting)]
    for group in asked:
        waiting.append(group)
        while able := [one for one in waiting if wanted[one] - held[one] <= spare]:
            one = able[0]
            waiting.remove(one)
            spare, held[one] = spare - wanted[one] + held[one], wanted[one]
        what = "dec" if wanted[group] < launched else "inc"
        names.append(f"group {group}: {what} {wanted[group]}")
        lines.append(_held(held, spare, waiting))
    return draw.chart(
        lines, rows=names, columns=[*(f"group {group}" for group in range(len(wanted))), "pool"],
        row_label="", column_label="registers a thread, after each request",
        title="setmaxnreg moves registers through the pool of the block",
        legend={"grey": "waits for the pool", "green": "in the pool"},
    )  # fmt: skip


def _held(held: Sequence[int], spare: int, waiting: Sequence[int]) -> list[draw.Cell | None]:
    return [
        *(draw.Cell(str(number), "grey" if group in waiting else "orange" if group else "blue")
          for group, number in enumerate(held)),
        draw.Cell(str(spare), "green"),
    ]  # fmt: skip


def spread_over_files(*loading: int) -> draw.Picture:
    """Eight warps that multiply, beside these numbers of warps that load, in four register files.

    A warp's file is its number modulo four, and the warps that load are numbered first, as in the
    kernels. The last column is the most registers a thread with which one block still fits, by
    the calculator of :mod:`phasebit.occupancy`.
    """
    lines, names = [], []
    for loaders in loading:
        warps = ["L"] * loaders + ["M"] * 8
        held = [warps[file::REGISTER_FILES] for file in range(REGISTER_FILES)]
        fullest = max(map(len, held))
        most = max(
            registers for registers in range(1, 256)
            if occupancy(limits(90), registers, 0, 32 * len(warps)).blocks
        )  # fmt: skip
        lines.append([
            *(draw.Cell(" ".join(one), "orange" if len(one) == fullest else "blue")
              for one in held),
            draw.Cell(str(most)),
        ])  # fmt: skip
        names.append(f"{len(warps)} warps")
    return draw.chart(
        lines, rows=names,
        columns=[*(f"file {file}" for file in range(REGISTER_FILES)), "most registers"],
        row_label="", column_label="L loads, M multiplies",
        title="The warps of a block in four register files, and what a thread can have",
        legend={"orange": "the fullest files"},
    )  # fmt: skip


def ignored(recorded: dict[str, Any]) -> None:
    """Print what ptxas says of ``setmaxnreg`` without a number at entry, and the lines meant."""
    row = recorded["registers"]["ignored"]
    print(*row["notes"])
    print("bytes spilled:", row["spill_stores"])
    for number, line in enumerate(benchmark.ignored().splitlines(), 1):
        if "setmaxnreg" in line or "__launch_bounds__" in line:
            print(f"{number:3}  {line}")


def bounded_wait() -> None:
    """Print the wait that gives up."""
    path = files.kernels() / "warp_specialisation" / "bounded_wait.cuh"
    print(path.read_text(encoding="utf-8").partition("#pragma once\n")[2])


def text() -> None:
    """Print the kernel whose sums are declared inside, up to its ``matmul``, without producers."""
    before, _, rest = benchmark.variant("inside").partition("\n__global__")[0].partition(_PRODUCE)
    print((before + _CONSUME + rest.partition(_CONSUME)[2]).rstrip())


def instead(name: str) -> None:
    """Print what another kernel has instead of the lines of :func:`text`."""
    inside, other = (benchmark.variant(which).splitlines()[1:] for which in ("inside", name))
    lines = list(unified_diff(inside, other, lineterm="", n=1))[3:]
    shown = ("        …" if line.startswith("@@") else line for line in lines if line.strip())
    print("\n".join(shown))


def spills(recorded: dict[str, Any], *names: str) -> None:
    """Print the bytes that a thread of each kernel spills, and which role's code moves them."""
    first = max(map(len, names))
    print(f"{'':{first}} {'bytes':>6}  instructions that spill")
    print(f"{'':{first}} {'':>6} {' '.join(f'{role:>8}' for role in benchmark.ROLES)}")
    for name in names:
        row = recorded["registers"][name]
        used = " ".join(f"{row['roles'][role]['local']:8}" for role in benchmark.ROLES)
        print(f"{name:{first}} {row['spill_stores']:6} {used}")


def registers(recorded: dict[str, Any], *names: str) -> draw.Picture:
    """The registers that the instructions of each role name, of those that a thread of it has.

    A kernel that executes ``setmaxnreg`` is shown after the trade.
    """
    bars: dict[str, int] = {}
    have: dict[str, int] = {}
    for name in names:
        row = recorded["registers"][name]
        traded = re.findall(r"setmaxnreg\.(?:dec|inc)\.\S+ (\d+);", benchmark.variant(name))
        held = (*map(int, traded),) or (row["registers"],) * len(benchmark.ROLES)
        for role, own in zip(benchmark.ROLES, held, strict=True):
            bar = f"{name}: {role}rs"
            bars[bar], have[bar] = row["roles"][role]["highest"] + 1, own
    return draw.bars(
        bars, of=have, hues={bar: "orange" for bar in bars if "produce" in bar},
        x_label="registers a thread: named, of those it has",
        title=f"What each role uses (CUDA {recorded['cuda']})",
    )  # fmt: skip


def times(recorded: dict[str, Any], *names: str) -> draw.Picture:
    """The median warm time of each kernel; green: it moves registers."""
    bars = {name: median(recorded["registers"][name]["warm_us"]) for name in names}
    return draw.bars(
        bars, hues={"setmaxnreg": "green"}, show=lambda value: f"{value:.1f}", x_label="µs, warm",
        title=f"C (256, 192) = A (256, 1024) · B (1024, 192), {measure.source(recorded)}",
    )  # fmt: skip


def rates(recorded: dict[str, Any]) -> dict[str, str]:
    """Kernel -> its time in a warm launch."""
    return {
        f"registers/{name}": f"{measure.summary(said['warm_us']).median:.0f} µs"
        for name, said in recorded["registers"].items()
        if said["warm_us"]
    }
