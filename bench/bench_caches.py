"""How fast the cache simulator is: accesses a second through two caches and two TLBs.

python bench/bench_caches.py
"""

from __future__ import annotations

import time

from phasebit import caches

GOAL = 20e6
N = 320


def main() -> None:
    """Watch a blocked product and a row-by-row one, the least of three times."""
    for block, what in ((48, "in blocks of 48"), (N, "without blocks")):
        caches.blocked(8, 8, 8)  # compile
        times = []
        for _ in range(3):
            begin = time.process_time()
            counts = caches.blocked(N, N, block)
            times.append(time.process_time() - begin)
        rate = counts.accesses / min(times)
        print(
            f"a product of {N} × {N} {what}: {rate / 1e6:.0f} million accesses a second "
            f"(goal {GOAL / 1e6:.0f}), L1 missed {counts.rate('L1'):.1%}"
        )


if __name__ == "__main__":
    main()
