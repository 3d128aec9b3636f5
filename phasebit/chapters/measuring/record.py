"""*Measuring honestly*: a kernel timed in many ways, what a GPU can do at most, what data costs.

Each program runs in several processes; the parts take turns, so that the GPU's temperature is
nobody's advantage.
"""

from __future__ import annotations

from typing import Any

from phasebit import measure
from phasebit.chapters.measuring import launch_gaps, measuring_controls
from phasebit.chapters.measuring.sensors import SETTLE, Sensors
from phasebit.instruments import programs

NAME = "measuring"
FURTHER = (measuring_controls.NAME, launch_gaps.NAME)
"""Records that are saved beside this one."""

_CLOCKS, _CACHES, _ROOFLINE = 5, 3, 3  # processes of each program
_ROUNDS, _SUSTAINED = 2, 2.0  # of each kind of data, and seconds of products without a pause
DATA = ("zeros", "whole", "normal")

Lists = dict[str, list[float]]


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    The record holds ``ways`` and ``caches`` (microseconds, by the name of the way), ``shape`` (of
    A, f32), ``l2_mib`` (the size of the L2 cache), ``power_limit_w``, ``rates`` (TB/s of
    ``copy``, TFLOP/s of the others) and ``data`` (for each kind: ``times_us`` of products, and
    every ``watt`` and ``mhz`` that was read meanwhile). ``empty`` are ways of timing a kernel
    that does nothing, ``ceilings`` rates beside the roof: memory that is only read, and tensor
    cores whose operands change.
    """
    facts, cublas = measure.facts(), measure.find_cublas()
    measure.save(measuring_controls.record())
    measure.save(launch_gaps.record())
    names = ("clocks", "caches", "roofline", "zeros", "empty", "ceilings")
    ready = {name: programs.kernel(f"measuring/{name}") for name in names}
    ways: Lists = {}
    caches: Lists = {}
    rates: Lists = {}
    empty: Lists = {}
    ceilings: Lists = {}
    for lap in range(_CLOCKS):
        _join(ways, programs.times(ready["clocks"]))
        _join(empty, programs.times(ready["empty"]))
        if lap < _CACHES:
            _join(caches, programs.times(ready["caches"]))
        if lap < _ROOFLINE:
            _join(rates, programs.times(ready["roofline"]))
            _join(ceilings, programs.times(ready["ceilings"]))
        print(f"⏱ process {lap + 1} of {_CLOCKS}", flush=True)
    data: dict[str, Lists] = {kind: {} for kind in DATA}
    for _ in range(_ROUNDS):
        for kind in DATA:
            arguments = ("--cublas", str(cublas), "--data", kind, "--seconds", f"{_SUSTAINED:g}")
            with Sensors() as sensors:
                times = programs.times(ready["zeros"], *arguments)[kind]
                watt, mhz = sensors.last(_SUSTAINED)
            _join(data[kind], {"times_us": times, "watt": watt, "mhz": mhz})
            print(f"⏱ {kind}: {measure.summary(times).median:.0f} µs", flush=True)
    return {
        "benchmark": NAME,
        **facts,
        "shape": [4096, 2048],
        "l2_mib": rates.pop("L2 cache, MiB")[0],
        "power_limit_w": programs.sensor("power.limit"),
        "protocol": {
            "ways": f"clocks.cu, {_CLOCKS} processes: the first launch of each, then 200 "
            "times each other way; ways 5 and 6 are times of 200 launches over 200",
            "empty": f"empty.cu, a kernel without work, {_CLOCKS} processes, 200 times each way",
            "ceilings": f"ceilings.cu, {_ROOFLINE} processes, 50 launches each after 50 that do "
            "not count; read only: 512 MiB",
            "caches": f"caches.cu, {_CACHES} processes, 200 launches a way after 200 that do "
            "not count; events around each launch; flushed: 256 MiB of other memory are read "
            "before each",
            "rates": f"roofline.cu, {_ROOFLINE} processes, 50 launches each after 50 that do "
            "not count; copy: 512 MiB read and 512 MiB written",
            "data": f"zeros.cu, cublasGemmEx of {cublas.name}, 8192 × 8192 × 8192, bf16, sums "
            f"in f32, {_SUSTAINED:g} s without a pause, {_ROUNDS} rounds in turn; whole: -4 to "
            "4; power and clock as nvidia-smi reads them, without the first and last "
            f"{SETTLE:g} s",
            "inputs": "normal random numbers where nothing else is said, drawn anew in each "
            "process",
            "clock": "CUDA events, except where the way says otherwise",
        },
        "ways": ways,
        "empty": empty,
        "ceilings": ceilings,
        "caches": caches,
        "rates": rates,
        "data": data,
    }


def _join(all_of_them: Lists, more: Lists) -> None:
    for name, values in more.items():
        all_of_them.setdefault(name, []).extend(values)
