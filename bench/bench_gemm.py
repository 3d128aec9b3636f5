"""How fast the matrix product of *The anatomy of a fast GEMM* is beside OpenBLAS, on one thread.

python bench/bench_gemm.py
"""

from __future__ import annotations

from phasebit.chapters.gemm import cpu_ladder as gemm


def main() -> None:
    """The two fast rungs at the sizes of the goal, 0.9 of OpenBLAS."""
    for name in ("registers", "prefetch"):
        for n in (1024, 2048):
            print(f"{name:>9}, {gemm.compare(gemm.rung(name), n).removeprefix('⏱ ')}", flush=True)


if __name__ == "__main__":
    main()
