"""*The ring at full width*: bf16 products by the copy engine and wgmma, each rung of the ladder.

Beside them, in the same process and by turns, cuBLAS. Needs torch, for cuBLAS and for the check.
Each row of timed launches has its own clock: see :mod:`phasebit.instruments.clocks`. Two more
records say what compute-sanitizer makes of the programs, ``clean_kernels``, and of broken ones,
``broken_ring``.
"""

from __future__ import annotations

import ctypes
import random
import re
import shutil
import statistics
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phasebit import measure, process, toolchain
from phasebit.chapters.hopper_ring import broken_ring, pays, ring_controls
from phasebit.chapters.hopper_ring.variants import (
    BOUNDS,
    LADDER,
    PAIRS,
    SIZES,
    STAMPED,
    VARIANTS,
    VENDOR,
    bounded,
    source,
    stamped,
    variant,
)
from phasebit.chapters.hopper_ring.view import rate
from phasebit.instruments import beside_torch, disassembly
from phasebit.instruments.beside_torch import Launch, Matrices
from phasebit.instruments.clocks import Clocks

NAME = "hopper_ring"
FURTHER = (broken_ring.NAME, pays.NAME, ring_controls.NAME)

_SETTLE, _SAMPLES = 1.0, 5  # seconds before power is read, and how often it is
_WARM = 10  # launches of a contender before those that are timed
_TIMED = 5
_AHEAD = 300_000  # cycles that the GPU waits before these, so that the host is ahead of it
_FENCES = ("MEMBAR.ALL.GPU", "MEMBAR.ALL.CTA")

_PLACES, _PASSES = 8, 256  # of include/stamps.cuh

# How many pairs of blocks run at the same time, asked of the kernel's own file.
_AT_ONCE = """
extern "C" int at_once() {
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Ring)));
    return pairs_at_once();
}
"""


def record() -> dict[str, Any]:
    """Measure on this machine's GPU, and save what becomes of the broken rings.

    Raises :class:`toolchain.CudaError` as :func:`measured` and :func:`broken_ring.record` do.
    """
    result = measured()
    measure.save(broken_ring.record())
    measure.save(pays.record())
    measure.save(ring_controls.record())
    return result


def measured() -> dict[str, Any]:
    """The chapter's own record.

    Raises :class:`toolchain.CudaError` when there is no GPU, torch or cuobjdump, or when a kernel
    fails or is wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here("hopper_ring")
    texts = {rung: source(name) for rung, name in LADDER.items()}
    texts |= {name: variant(name) for name in VARIANTS}
    texts |= {f"stamps {name}": stamped(name) for name in STAMPED}
    texts["at once"] = source(PAIRS) + _AT_ONCE
    with ThreadPoolExecutor(8) as pool:
        built = dict(zip(texts, pool.map(_build, texts.values()), strict=True))
    loaded = {name: ctypes.CDLL(str(build.program)) for name, build in built.items()}
    ladder = {rung: loaded[rung] for rung in LADDER}
    clocks = Clocks(torch)
    return {
        "benchmark": NAME,
        **facts,
        "protocol": _protocol(torch),
        "ladder": [_side_by_side(torch, clocks, ladder, size, rounds=20) for size in SIZES],
        "variants": [
            _side_by_side(
                torch, clocks, {**{v: loaded[v] for v in VARIANTS}, **ladder}, size, rounds=12
            )
            for size in SIZES[:2]
        ],
        "neighbours": _neighbours(torch, clocks, loaded, SIZES[0]),
        "power": _power(torch, ladder, SIZES[0]),
        "multiprocessors": clocks.units,
        "pairs_at_once": loaded["at once"].at_once(),
        "fences": {
            name: _fences(built[name]) for name in ("pairs of blocks", "released to the cluster")
        },
        "registers": {name: _registers(built[name]) for name in (*LADDER, *VARIANTS)},
        "bounds": {name: _noted(bounded(name)) for name in BOUNDS},
        "stamps": {name: _stamps(torch, loaded[f"stamps {name}"], SIZES[0]) for name in STAMPED},
    }


def _protocol(torch: Any) -> dict[str, str]:
    return {
        "clock": "CUDA events before and after each launch",
        "order": f"in each round the contenders in a new random order; {_WARM} launches of each "
        f"that do not count, a fifth of a millisecond in which the host gets ahead, then {_TIMED} "
        "that do",
        "inputs": "normal random bf16 numbers, A (M, K) and B (N, K) row-major, f32 sums, bf16 "
        "results; no flush between launches",
        "check": "before timing, 128 rows by 128 columns of the result against a product in "
        "double, within (K + K/8 + 4)·2⁻²³·Σ|a·b| + 2⁻⁸·|c|",
        "vendor": f"cuBLAS through torch {torch.__version__}, the same operands",
        "stamps": "the multiprocessor's clock, read in block 0 by the thread of the producer, one "
        "of each consumer and one that only looks; a launch after one of the same",
        "neighbours": "10 launches of the neighbour, then one that counts",
        "mhz": f"the multiprocessors' clock over the {_TIMED} launches that count, from a kernel "
        "before them and one behind them that read it and the GPU's nanoseconds; the median "
        "multiprocessor",
        "power": f"nvidia-smi, power.draw.instant and clocks.sm, {_SAMPLES} times while the GPU "
        f"repeats the launch, {_SETTLE:g} s after it has begun",
    }


def _build(text: str) -> toolchain.Build:
    return toolchain.build(text, name=NAME, target="sm_90a", library=True)


def _matrices(torch: Any, size: int) -> Matrices:
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return a, b, torch.empty_like(a)


def _launches(
    torch: Any, libraries: Mapping[str, ctypes.CDLL], matrices: Matrices
) -> dict[str, Launch]:
    a, b, c = matrices
    pointers = beside_torch.pointers(matrices)
    size, units = len(a), torch.cuda.get_device_properties(0).multi_processor_count
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def ours(library: ctypes.CDLL) -> Launch:
        return lambda: library.product(*pointers, size, size, size, units, stream)

    return {name: ours(library) for name, library in libraries.items()} | {
        VENDOR: lambda: torch.mm(a, b.t(), out=c)
    }


def _timed(torch: Any, clocks: Clocks, launch: Launch, count: int) -> tuple[list[float], int]:
    """Microseconds of each of some launches, and the MHz that they ran at."""
    torch.cuda._sleep(_AHEAD)
    clocks.look(0)
    times = beside_torch.timed(torch, launch, count)
    clocks.look(1)
    return times, clocks.mhz()


def _side_by_side(
    torch: Any, clocks: Clocks, libraries: Mapping[str, ctypes.CDLL], size: int, rounds: int
) -> dict[str, Any]:
    a, b, c = matrices = _matrices(torch, size)
    launches = _launches(torch, libraries, matrices)
    for name, launch in launches.items():
        beside_torch.check(
            torch, name, launch, (a, b.t(), c), beside_torch.cut_sums(size), stored=2.0**-8
        )
    times: dict[str, list[float]] = {name: [] for name in launches}
    mhz: dict[str, list[int]] = {name: [] for name in launches}
    order, draw = list(launches), random.Random(size)
    for _ in range(rounds):
        draw.shuffle(order)
        for name in order:
            for _ in range(_WARM):
                launches[name]()
            each, clock = _timed(torch, clocks, launches[name], _TIMED)
            times[name] += each
            mhz[name].append(clock)
    for name, each in times.items():
        at = statistics.median(mhz[name])
        print(f"⏱ {size}: {name}, {rate(size, each):.1f} TFLOP/s at {at:.0f} MHz")
    return {"size": size, "times_us": times, "mhz": mhz}


def _neighbours(
    torch: Any, clocks: Clocks, loaded: Mapping[str, ctypes.CDLL], size: int
) -> dict[str, Any]:
    """The same kernel after launches of itself and after launches of a slow one."""
    launches = _launches(torch, loaded, _matrices(torch, size))
    subject = "boxes of C"
    times: dict[str, list[float]] = {subject: [], "one stage": []}
    mhz: dict[str, list[int]] = {subject: [], "one stage": []}
    for _ in range(40):
        for neighbour in times:
            for _ in range(10):
                launches[neighbour]()
            each, clock = _timed(torch, clocks, launches[subject], 1)
            times[neighbour] += each
            mhz[neighbour].append(clock)
    return {"size": size, "kernel": subject, "after_us": times, "mhz": mhz}


def _power(torch: Any, ladder: Mapping[str, ctypes.CDLL], size: int) -> dict[str, Any]:
    """Watts and MHz of the GPU while it does nothing but one product, as its driver reads them."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        raise toolchain.CudaError("nvidia-smi is not on PATH: it tells the GPU's power")
    query = "--query-gpu=power.draw.instant,clocks.sm,power.limit"
    result: dict[str, Any] = {}
    for name, launch in _launches(torch, ladder, _matrices(torch, size)).items():
        seen: dict[str, list[float]] = {"watts": [], "sm_mhz": [], "limit_watts": []}
        done = torch.cuda.Event()
        launch()
        torch.cuda.synchronize()
        begin = time.monotonic()
        while len(seen["watts"]) < _SAMPLES:
            for _ in range(50):  # about a tenth of a second
                launch()
            done.record()
            if time.monotonic() - begin > _SETTLE:
                asked = process.run([smi, query, "--format=csv,noheader,nounits"], timeout=30)
                for values, word in zip(seen.values(), asked.stdout.split(","), strict=True):
                    values.append(float(word))
            done.synchronize()
        result[name] = seen
    return result


def _fences(built: toolchain.Build) -> dict[str, int]:
    """How many of each fence stand in a kernel's machine code."""
    said = process.run([toolchain.tool("cuobjdump"), "-sass", str(built.program)], timeout=60)
    if not said.ok:
        raise toolchain.CudaError(f"cuobjdump failed on {built.program}: {said.stderr}")
    return {fence: len(re.findall(rf"\b{re.escape(fence)}\b", said.stdout)) for fence in _FENCES}


def _registers(built: toolchain.Build) -> int:
    (used,) = [use.registers for use in built.resources if "matmul" in use.kernel]
    return used


def _noted(text: str) -> dict[str, Any]:
    """What ptxas says of a product's registers: how many, and whether it ignores setmaxnreg."""
    options = ("-std=c++17", "-O3", "-Xptxas", "-v")
    _, log = disassembly.cubin(text, "sm_90a", options)
    (used,) = re.findall(r"entry function '\w*matmul.*?Used (\d+) registers", log, re.DOTALL)
    return {"registers": int(used), "ignored": "'setmaxnreg' ignored" in log}


def _stamps(torch: Any, library: ctypes.CDLL, size: int) -> dict[str, Any]:
    launch = _launches(torch, {"stamped": library}, _matrices(torch, size))["stamped"]
    launch()
    launch()
    places = ((ctypes.c_longlong * _PASSES) * _PLACES)()
    span = ((ctypes.c_longlong * 2) * 2)()
    library.read_stamps(places, span)
    begin = span[0][0]
    tiles = size // 64
    cycles = [[at - begin if at else -1 for at in place[:tiles]] for place in places]
    return {
        "size": size,
        "places": cycles,
        "cycles": span[1][0] - begin,
        "ns": span[1][1] - span[0][1],
    }
