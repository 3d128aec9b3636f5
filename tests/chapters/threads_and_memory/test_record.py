"""The record of threads and memory: what the book computes and counts is what an H200 said.

Nothing here needs a GPU: ``python -m phasebit record 4`` wrote the record on one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from phasebit import measure
from phasebit.chapters.threads_and_memory import counted_transposes, view
from phasebit.chapters.threads_and_memory import record as benchmark
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


@pytest.mark.nvcc
def test_padded_differs_from_tiled_in_wavefronts_alone() -> None:
    """Among what is counted; the few instructions more of *tiled* compute addresses."""
    tiled, padded = (benchmark.launch_all("emulator")[name] for name in ("tiled", "padded"))
    moved = [name for name in tiled.counters if "mem_global" in name or name == "inst.memory"]
    assert len(moved) > 4 and all(tiled.counters[name] == padded.counters[name] for name in moved)
    loads = view.WAVEFRONTS.format("ld")
    assert tiled.counters[loads] == 32 * padded.counters[loads]
    issued = [run.counters["smsp__inst_executed.sum"] for run in (tiled, padded)]
    assert 0.97 < issued[0] / issued[1] < 1.03


def test_the_record_supports_what_the_chapter_says() -> None:
    """Orders of magnitude that the prose relies on; a new record must keep them."""
    vendor = view.memcpy_bandwidth(RECORD)
    rows = view.transpose_table(RECORD).rows
    predicted, times = ({row[0]: float(row[at]) for row in rows} for at in (5, 6))
    assert sorted(times, key=times.__getitem__) == [
        "cudaMemcpy",
        "copy",
        "padded",
        "tiled",
        "naive",
    ]
    assert all(times[name] > 1.1 * predicted[name] for name in ("naive", "tiled", "padded"))
    assert predicted["padded"] < predicted["tiled"] < predicted["naive"]
    assert times["cudaMemcpy"] == 1 and times["copy"] < 1.1
    assert times["naive"] > 2 * times["tiled"] > 3 * times["padded"]
    assert 1 / 3 < times["tiled"] / times["naive"] < 0.4 and times["tiled"] > 2
    wide, narrow = (view.bandwidth(RECORD, kind) for kind in ("wide", "resident"))
    assert wide[12] > 0.95 * max(wide.values())
    assert narrow[48] < 0.95 * narrow[64] and narrow[64] < 0.8 * vendor
    strided = view.strided_times(RECORD)
    assert strided[2] > 2.5 * strided[1] and strided[32] > 1.4 * strided[16] > 1.8 * strided[8]
    needed = {stride: strided[stride] / us for stride, us in view.needed(RECORD).items()}
    assert all(0.9 < needed[stride] < 1.1 for stride in (1, 2, 4, 8, 16))
    assert needed[32] > 1.4
    for rates in (wide, narrow):  # the law is a bound
        assert all(rate <= 1.01 * min(vendor, rates[2] * n / 2) for n, rate in rates.items())


def test_each_level_answers_later_than_the_one_before() -> None:
    said = str(view.hierarchy(RECORD)).splitlines()
    levels = [float(line.rpartition(": ")[2].split()[0]) for line in said[2:]]
    assert len(levels) == 4
    assert all(far > 1.3 * near for near, far in pairwise(levels))


def test_a_walk_is_told_of_the_level_that_holds_it() -> None:
    walks = {"shared memory": 19.8, "64 KiB": 39.6, "512 KiB": 198.0, "8192 KiB": 202.0,
             "32768 KiB": 396.0, "524288 KiB": 990.0}  # fmt: skip
    recorded = RECORD | {"most_mhz": 1980, "latency": {k: [v] for k, v in walks.items()}}
    said = [line.rpartition(": ")[2] for line in str(view.hierarchy(recorded)).splitlines()[1:]]
    assert said == ["no load needed", "10 ns", "20 ns", "102 ns (100 to 200)", "500 ns"]


@pytest.mark.nvcc
def test_a_warp_issues_as_often_as_its_longest_lane_turns() -> None:
    runs, deals = benchmark.launch_deals("emulator"), benchmark.deals()
    assert {int(turns.sum()) for turns in deals.values()} == {2560}
    table = view.divergence_table(deals, runs, RECORD)
    assert [row[2] for row in table.rows] == ["80", "128", "2,560"]
    assert [row[4] for row in table.rows] == ["100%", "67%", "4%"]
    assert [row[6] for row in table.rows] == ["100%", "67%", "4%"]
    for name, run in runs.items():
        mine, theirs = (
            each[benchmark.ISSUED[0]] for each in (run.counters, RECORD["divergence"][name])
        )
        assert abs(mine / theirs - 1) < 0.05, name


def test_loads_fetch_pieces_and_stores_read_what_they_write_in_part() -> None:
    rows = [[float(cell) for cell in row] for row in view.one_way_table(RECORD).rows]
    assert [row[0] for row in rows] == [1, 2, 4, 8, 16, 32]
    assert [row[1] for row in rows] == [min(stride, 8) for stride, *_ in rows]
    assert [row[2] for row in rows] == [stride for stride, *_ in rows]
    assert [row[3] for row in rows] == [min(stride, 16) for stride, *_ in rows]
    assert [row[4] for row in rows] == [0, *(min(stride, 8) for stride, *_ in rows[1:])]
    array = RECORD["bandwidth_bytes"] / 2
    for name, counts in RECORD["one_way"]["32"].items():
        if name.startswith("stores"):
            wider = RECORD["one_way"]["128"][name]
            assert all(abs(counts[way] - wider[way]) < 0.05 * array for way in benchmark.DRAM)


def test_the_l2_cache_joins_what_the_naive_transpose_stores() -> None:
    """DRAM writes a large matrix once, and hardly a small one; L2 is asked 8 times as often."""
    table = view.counted_table(measure.read(counted_transposes.NAME))
    shapes = [row[0] for row in table.rows if row[0]]
    large, longer, small, _ = (
        {row[1]: [float(cell) for cell in row[2:]] for row in table.rows[2 * i : 2 * i + 2]}
        for i in range(4)
    )
    assert shapes[::2] == ["8192 × 8192", "2048 × 2048"]
    read, written, stores, time = large["naive"]
    assert written == 1.06 and read < 1.2 and stores == 8.1
    assert small["naive"][1] < 0.1 and small["naive"][2] == 8.0 and small["naive"][3] > time
    assert abs(longer["naive"][3] / time - 1) < 0.05
