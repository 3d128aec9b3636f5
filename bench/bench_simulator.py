"""The simulator beside SimPy, on the same model: jobs a second.

Both run the ring of ``tests/pipeline/simpy_model.py``, which tests hold equal to ours job for
job. Times are printed, never asserted: they depend on the machine.

    python bench/bench_simulator.py [jobs]
"""

from __future__ import annotations

import gc
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from phasebit.pipeline import Pipeline, simulate
from tests.pipeline.simpy_model import times as simpy_times

ROUNDS = 5
SYSTEMS = {
    "worked example, 4 + 6 workers, 6 slots": Pipeline(4, 6, 6, 5, 3),
    "one producer, one consumer, 2 slots": Pipeline(1, 1, 2, 4, 4),
    "varying latencies, 3 + 2 workers, 5 slots": Pipeline(3, 2, 5, (1, 9, 4), (2, 7, 3, 5)),
}


def seconds(run: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main(jobs: int) -> None:
    import simpy

    print(f"The simulator beside SimPy {simpy.__version__}, {jobs:,} jobs each.")
    print(f"Median of {ROUNDS} rounds, the two in turn, each after a garbage collection;")
    print("every start and end of every job is kept by both, and compared once.")
    print(f"Python {platform.python_version()}, {platform.machine()}, one core.")
    print()
    print(f"{'':42} {'ours':>9} {'SimPy':>9} {'ratio':>7} {'a million jobs':>15}")
    for name, pipeline in SYSTEMS.items():
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(seconds(lambda p=pipeline: simulate(p, jobs)))
            theirs.append(seconds(lambda p=pipeline: simpy_times(p, jobs)))
        a, b = statistics.median(ours), statistics.median(theirs)
        million = seconds(lambda p=pipeline: simulate(p, 1_000_000))
        print(f"{name:42} {a:7.3f} s {b:7.3f} s {b / a:6.1f}× {million:13.1f} s")
        simulated = [(j.fill, j.filled, j.drain, j.drained) for j in simulate(pipeline, jobs).jobs]
        assert simulated == simpy_times(pipeline, jobs), "the two models part: run the tests"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
