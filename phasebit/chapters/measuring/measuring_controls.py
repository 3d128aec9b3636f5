"""What *Measuring honestly* leaves open: why a graph is faster, and the ceiling at equal terms.

When blocks begin and end, in a stream and in a graph: whether the kernel's own time falls there,
or what lies between two launches. And the ceilings of the tensor cores for as long, without a
pause, as cuBLAS's product, with the power and the clock of each.
"""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phasebit import measure
from phasebit.chapters.measuring.sensors import SETTLE, Sensors
from phasebit.instruments import programs

NAME = "measuring_controls"
VENDOR = "cuBLAS, 8192³"
CEILINGS = (
    "bf16 wgmma, normal", "bf16 wgmma, normal, in turn", "bf16 wgmma, zeros",
    "f16 mma, normal, in turn",
)  # fmt: skip
WAYS = ("default stream", "own stream", "own stream, queue full", "graph")
STAMPED = (
    "first begin to last end, ns", "last end to next begin, ns",
    "a multiprocessor at work, cycles", "a multiprocessor between launches, cycles",
    "a block, cycles",
)  # fmt: skip
"""What the record has of each way: the medians of each turn's launches."""
_TWICE = (VENDOR, *CEILINGS[:2])
"""What runs in both rounds; the rest in the first."""
_ROUNDS, _SECONDS, _REST = 2, 2.0, 0.5
_GAPS = 2  # processes


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`phasebit.toolchain.CudaError` when there is no GPU, or when a kernel fails or is
    wrong, :class:`phasebit.toolchain.ToolMissing` without cuBLAS.
    """
    facts, cublas = measure.facts(), measure.find_cublas()
    names = ("gaps", "at_limit", "zeros")
    with ThreadPoolExecutor(len(names)) as pool:
        kernels = (f"measuring/{name}" for name in names)
        ready = dict(zip(names, pool.map(programs.kernel, kernels), strict=True))
    gaps: dict[str, list[float]] = {}
    for _ in range(_GAPS):
        for name, numbers in programs.times(ready["gaps"]).items():
            gaps.setdefault(name, []).extend(numbers)
    sustained: dict[str, dict[str, list[Any]]] = {
        name: {"rates": [], "watt": [], "mhz": []} for name in (VENDOR, *CEILINGS)
    }
    order, draw = list(sustained), random.Random()
    seconds = f"{_SECONDS:g}"
    for number in range(_ROUNDS):
        draw.shuffle(order)
        for name in order if number == 0 else (each for each in order if each in _TWICE):
            time.sleep(_REST)
            with Sensors() as sensors:
                if name == VENDOR:
                    data = ("--cublas", str(cublas), "--data", "normal", "--seconds", seconds)
                    times = programs.times(ready["zeros"], *data)["normal"]
                    rates = [measure.square_rate(8192, [each]) for each in times]
                else:
                    what = ("--what", name, "--seconds", seconds)
                    rates = programs.times(ready["at_limit"], *what)["rates"]
                watt, mhz = sensors.last(_SECONDS)
            found = sustained[name]
            found["rates"].append([round(rate, 2) for rate in rates])
            found["watt"] += watt
            found["mhz"] += mhz
            print(f"⏱ {name}: {measure.summary(rates).median:.0f} TFLOP/s", flush=True)
    return {
        "benchmark": NAME,
        **facts,
        "power_limit_w": programs.sensor("power.limit"),
        "protocol": {
            "clock": "CUDA events; gaps: %globaltimer and the multiprocessor's clock at the "
            "beginning and the end of each block",
            "gaps": f"gaps.cu, {_GAPS} processes: 200 launches in a row of the product of "
            "matvec.cu, 20 turns of each way after one that does not count, by turns in random "
            "order, a rest of 10 ms before each; with stamps the medians of a turn's launches; "
            "queue full: a kernel in front keeps the GPU busy for 3 ms, until the host has made "
            "all calls",
            "sustained": f"{_SECONDS:g} s without a pause, {_ROUNDS} rounds in random order, "
            f"{_ROUNDS - 1} of wgmma on zeros and of f16 mma; a rest of {_REST:g} s before each; "
            "rates: every launch of each round, of the ceilings from the first on, of cuBLAS "
            "after 20 that do not count; power and clock as "
            f"nvidia-smi reads them, without the first and last {SETTLE:g} s",
            "inputs": "normal random numbers, or zeros, drawn anew in each process",
            "vendor": f"cublasGemmEx of {cublas.name}, 8192 × 8192 × 8192, bf16, sums in f32, by "
            "turns (zeros.cu)",
        },
        "gaps": gaps,
        "sustained": sustained,
    }
