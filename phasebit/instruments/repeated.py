"""How long one product into tensor memory takes: a block that repeats it, timed.

For the records of chapters of Part VI.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from phasebit import measure

if TYPE_CHECKING:
    from phasebit.launching.launch import Kernel

FEW, MANY = 1_000, 11_000
"""How often a launch multiplies; the difference of two launches is what so many cost."""

_COUNT = 40

PROTOCOL = {
    "clock": "events around each launch of one block",
    "each": f"the difference of the medians of {_COUNT} launches that multiply {MANY} and "
    f"{FEW} times into one sum, divided by the difference; the rest of the GPU is idle",
}


def timed(launch: Callable[[int], tuple[Kernel, list[Any]]]) -> dict[str, Any]:
    """Every time of launches on this machine's GPU, in µs, and what one product takes, in ns.

    ``launch``: the kernel and its arguments for so many products; one block of 128 threads.
    """
    few, many = (
        kernel.times(1, 128, [arguments], count=_COUNT)
        for kernel, arguments in map(launch, (FEW, MANY))
    )
    spent = statistics.median(many) - statistics.median(few)
    return {"us_few": few, "us_many": many, "ns_each": round(spent * 1e3 / (MANY - FEW), 3)}


def table(record: dict[str, Any]) -> measure.Table:
    """What the page shows of a record: how long each product takes."""
    rows = []
    for each in record["products"]:
        flop = measure.matmul_flop(each["m"], each["n"], each["k"])
        shape = f"{each['m']} × {each['n']} × {each['k']}"
        rows.append((each["product"], shape, f"{each['ns_each']:.1f}",
                     f"{measure.tflops(flop, each['ns_each'] * 1e-9):.1f}"))  # fmt: skip
    return measure.Table(("one product", "shape", "ns", "TFLOP/s of a multiprocessor"),
                         tuple(rows), measure.source(record))  # fmt: skip
