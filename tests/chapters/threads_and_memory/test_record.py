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
    sectors_of_l1 = 2 * 2**26 / 32 * 8 / RECORD["multiprocessors"] / RECORD["most_mhz"]  # µs
    assert 110 < sectors_of_l1 < 140 and strided[32] > 20 * sectors_of_l1, "an eighth of a ms"
    needed = {row[0]: float(row[5]) for row in view.dram_table(RECORD).rows}
    assert all(0.9 < needed[stride] < 1.1 for stride in ("1", "2", "4", "8", "16"))
    assert needed["32"] > 1.4
    for rates in (wide, narrow):  # the law is a bound
        assert all(rate <= 1.01 * min(vendor, rates[2] * n / 2) for n, rate in rates.items())


class TestWhatTheNextRecordAdds:
    """The page shows it as soon as a record has it; until then it says that it is not measured."""

    def test_latencies(self) -> None:
        without = {name: value for name, value in RECORD.items() if name != "latency"}
        assert str(view.hierarchy(without)).count("not measured yet") == 2
        walks = {"shared memory": 19.8, "64 KiB": 39.6, "8192 KiB": 198, "524288 KiB": 990}
        recorded = without | {"latency": {name: [time] for name, time in walks.items()}}
        said = str(view.hierarchy(recorded | {"most_mhz": 1980})).splitlines()
        assert [line.rpartition(": ")[2] for line in said[2:]] == [
            "10 ns",
            "20 ns",
            "100 ns",
            "500 ns",
        ]

    @pytest.mark.nvcc
    def test_divergence(self) -> None:
        runs, deals = benchmark.launch_deals("emulator"), benchmark.deals()
        assert {int(turns.sum()) for turns in deals.values()} == {2560}
        without = {name: value for name, value in RECORD.items() if name != "divergence"}
        table = view.divergence_table(deals, runs, without)
        assert [row[2] for row in table.rows] == ["80", "128", "2,560"]
        assert [row[4] for row in table.rows] == ["100%", "67%", "4%"]
        counted = {name: dict.fromkeys(benchmark.ISSUED, 7) for name in deals}
        table = view.divergence_table(deals, runs, without | {"divergence": counted})
        assert [row[5] for row in table.rows] == ["7"] * 3 and table.heading[5] == "profiler"

    def test_one_way(self) -> None:
        without = {name: value for name, value in RECORD.items() if name != "one_way"}
        assert "no record has them yet" in str(view.one_way_table(without))
        array = RECORD["bandwidth_bytes"] / 2
        counts = {
            f"{way}, stride {1 << log}": dict.fromkeys(benchmark.DRAM, array * (log + 1))
            for way in ("loads", "stores")
            for log in benchmark.LOGS
        }
        added = without | {"one_way": dict.fromkeys(benchmark.FETCHES, counts)}
        rows = view.one_way_table(added).rows
        assert rows[1] == ("2", *["2.0 + 2.0"] * 4) and len(rows) == 6
