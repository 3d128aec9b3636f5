"""How fast the emulator multiplies with tensor cores: kernels of others, kept with the tests.

    python bench/bench_tensor.py

A 256×512×256 product with tcgen05 for Blackwell (one block a tile) and a 256×256×512 product with
wgmma for Hopper, both compiled by CuTe DSL. The goals: below 3 seconds without checks, below 15
with all of them. Each time is the least of several, of the processor's time; reading and
translating the program, which the first launch does, is told apart.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.foreign.saved import Saved

REPEATS = 3
GOALS = {False: 3, True: 15}
KERNELS = {"cute_tcgen05": "tcgen05, f16", "cute_wgmma": "wgmma, f16"}


def seconds(kernel: Saved, check: bool) -> float:
    start = time.process_time()
    right, _ = kernel.multiply("late", check=check)
    took = time.process_time() - start
    assert right
    return took


def main() -> None:
    print(f"{'kernel':14} {'m × n × k':>15} {'checks':>7} {'goal':>6} {'first':>8} {'then':>8}")
    for name, what in KERNELS.items():
        for check, goal in GOALS.items():
            kernel = Saved.load(name)
            first = seconds(kernel, check)
            then = min(seconds(kernel, check) for _ in range(REPEATS))
            size = " × ".join(map(str, kernel.about["shape"]))
            print(f"{what:14} {size:>15} {'all' if check else 'none':>7} {goal:4} s "
                  f"{first:6.2f} s {then:6.2f} s")  # fmt: skip


if __name__ == "__main__":
    main()
