"""*Four warps multiply*: wgmma's rate by its width, A in shared memory and in registers."""

from __future__ import annotations

import re
from typing import Any

from phasebit import measure
from phasebit.chapters.warpgroup_products import asking, beside_copies, narrow
from phasebit.instruments import programs

NAME = "warpgroup_products"
FURTHER = (narrow.NAME, beside_copies.NAME, asking.NAME)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU, and save what narrow instructions cost, what copies beside
    the products do to both, and which instructions of the thread that asks for them do.

    Raises :class:`toolchain.CudaError` when there is none.
    """
    facts = measure.facts()
    measure.save(narrow.record())
    measure.save(beside_copies.record())
    measure.save(asking.record())
    rates: dict[tuple[str, ...], list[float]] = {}
    said = programs.output(programs.kernel(f"{NAME}/rate"), "time")
    pattern = r"^⏱ N=(\d+) A=(\w+) groups=(\d) pending=(\d) (\S+)$"
    for *where, rate in re.findall(pattern, said, re.MULTILINE):
        rates.setdefault(tuple(where), []).append(float(rate))
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "rates": "rate.cu: one block on each multiprocessor, tiles of normal random bf16 "
            "numbers that stay in shared memory, 500 batches of 16 instructions; a run on "
            "ones, whose sums are compared, goes before and does not count; FLOP a cycle by "
            "the multiprocessor's clock, of the median multiprocessor in each of 9 rounds",
            "pending": "how many committed batches may be under way when the next is begun",
        },
        "rates": [
            {"n": int(n), "a": a, "groups": int(groups), "pending": int(pending),
             "flop_a_cycle": each}
            for (n, a, groups, pending), each in rates.items()
        ],
    }  # fmt: skip
