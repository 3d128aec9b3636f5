"""The record of threads and memory: what the book computes and counts is what an H200 said.

Nothing here needs a GPU: ``python -m phasebit record 4`` wrote the record on one.
"""

from __future__ import annotations

from typing import Any

import pytest

from phasebit import measure
from phasebit.chapters.threads_and_memory import record as benchmark
from phasebit.chapters.threads_and_memory import view
from phasebit.occupancy import limits, occupancy

RECORD: dict[str, Any] = measure.read(benchmark.NAME)


def disagreements(**changed: int) -> int:
    """Configurations in which our occupancy is not the runtime's, with some limits changed."""
    own = type(limits(90))(**(vars(limits(90)) | changed))
    return sum(
        occupancy(own, RECORD["registers"][kernel], static + dynamic, threads).blocks != blocks
        for kernel, static, dynamic, threads, blocks in RECORD["occupancy"]
    )


def test_occupancy_is_that_of_the_runtime() -> None:
    assert len(RECORD["occupancy"]) >= 300
    assert len({row[-1] for row in RECORD["occupancy"]}) >= 15
    assert disagreements() == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"threads": 1536}, {"blocks": 24}, {"registers": 32768}, {"reserved_shared": 0},
        {"shared": 200 * 1024}, {"shared_unit": 1024}, {"block_shared": 100 * 1024},
    ],
    ids=lambda changed: next(iter(changed)),
)  # fmt: skip
def test_each_limit_matters(changed: dict[str, int]) -> None:
    assert disagreements(**changed) > 0


@pytest.mark.nvcc
def test_counters_are_those_of_the_profiler() -> None:
    runs = benchmark.launch_all("emulator")
    assert set(runs) == set(RECORD["counters"])
    for kernel, run in runs.items():
        assert run.findings == []
        mine = {metric: run.counters.get(metric, 0) for metric in benchmark.METRICS}
        assert mine == RECORD["counters"][kernel], kernel


def test_the_record_supports_what_the_chapter_says() -> None:
    """Orders of magnitude that the prose relies on; a new record must keep them."""
    vendor = view.memcpy_bandwidth(RECORD)
    times = {row[0]: float(row[4]) for row in view.transpose_table(RECORD).rows}
    assert times["cudaMemcpy"] == 1 and times["copy"] < 1.1
    assert times["naive"] > 2 * times["tiled"] > 3 * times["padded"]
    assert 1 / 3 < times["tiled"] / times["naive"] < 0.4 and times["tiled"] > 2
    wide, narrow = (view.bandwidth(RECORD, kind) for kind in ("wide", "resident"))
    assert wide[12] > 0.95 * max(wide.values())
    assert narrow[48] < 0.95 * narrow[64] and narrow[64] < 0.8 * vendor
    strided = view.strided_times(RECORD)
    assert strided[2] > 2.5 * strided[1] and strided[32] > 1.4 * strided[16] > 1.8 * strided[8]
    needed = {row[0]: float(row[5]) for row in view.dram_table(RECORD).rows}
    assert all(0.9 < needed[stride] < 1.1 for stride in ("1", "2", "4", "8", "16"))
    assert needed["32"] > 1.4
    for rates in (wide, narrow):  # the law is a bound
        assert all(rate <= 1.01 * min(vendor, rates[2] * n / 2) for n, rate in rates.items())
