"""Rates, records and the tables made from them."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import pytest

from phasebit import clean_kernels, files, hardware, measure, proving, recording, toolchain
from phasebit.chapters.double_buffering import record as double_buffering
from phasebit.measure import Record, Row

ROWS = (
    Row("tiled", (200.0, 220.0, 210.0), (150.0, 152.0), (100.0, 102.0, 98.0, 100.0)),
    Row("cuBLAS", (), (12.0,), (10.0, 10.0, 10.0, 10.0)),
)
RECORD = Record(
    "double_buffering", "NVIDIA H200", "580", "13.0.88", "sm_90a", "2026-11-21",
    (32, 32, 4096), {"clock": "CUDA events"}, ROWS,
)  # fmt: skip


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(files, "records", lambda: tmp_path)
    return tmp_path


def test_a_rate_is_made_from_seconds() -> None:
    assert measure.matmul_flop(4096, 4096, 4096) == 137438953472
    assert measure.square_rate(1000, [1e3, 2e3, 9e3]) == measure.tflops(2e9, 2e-3)
    assert measure.tflops(1e12, 1) == 1 and measure.tflops(1e12, 1e-3) == 1000
    for seconds in (0, -1):
        with pytest.raises(ValueError, match="positive number of seconds"):
            measure.tflops(1, seconds)


def test_a_summary_is_no_mean() -> None:
    """One launch in a hundred is disturbed: the median does not see it, the mean does."""
    s = measure.summary([10.0] * 99 + [1010.0])
    assert (s.count, s.least, s.low, s.median, s.high, s.most) == (100, 10, 10, 10, 10, 1010)
    assert s.mean == 20 and s.spread == 0
    for bad in ([1.0], [1.0, 0.0], [1.0, -1.0], [1.0, math.nan], [1.0, math.inf]):
        with pytest.raises(ValueError, match="positive number"):
            measure.summary(bad)


def test_the_place_of_a_kernel() -> None:
    point = measure.place("a", flop=2e12, moved=1e12, seconds=2)
    assert point == measure.Point("a", 2.0, 1.0)
    with pytest.raises(ValueError, match="moves 0 bytes"):
        measure.place("a", 1, 0, 1)


def test_a_roofline() -> None:
    roof = measure.Roofline(4.0, {"f32": 64.0, "bf16": 800.0}, "a GPU")
    assert roof.ridge("f32") == 16 and roof.ridge("bf16") == 200
    assert roof.attainable(1, "f32") == 4 and roof.attainable(16, "f32") == 64
    assert roof.attainable(100, "f32") == 64 and roof.attainable(100, "bf16") == 400
    assert roof.floor(64e12, 1e12, "f32") == 1 and roof.floor(64e12, 8e12, "f32") == 2


def test_the_recorded_roofline() -> None:
    """Every rate is there, and none is above what NVIDIA's data sheet promises an H200."""
    roof = measure.roofline()
    assert 3 < roof.bandwidth < 4.8 and 50 < roof.rates["f32"] < 67
    assert 400 < roof.rates["f16 mma, normal"] < roof.rates["bf16 wgmma, normal"] < 990
    record = measure.read("measuring")
    for part in ("ways", "caches", "rates"):
        assert all(measure.summary(times).least > 0 for times in record[part].values())
    for kind in ("zeros", "whole", "normal"):
        assert len(record["data"][kind]["times_us"]) > 1000
        assert len(record["data"][kind]["watt"]) == len(record["data"][kind]["mhz"]) > 10


def test_what_is_written_is_read(records: Path) -> None:
    path = measure.save(RECORD)
    assert path.name == "double_buffering.nvidia-h200.json"
    assert measure.load("double_buffering") == RECORD
    assert measure.recorded_on() == RECORD.source == "NVIDIA H200, 2026-11-21"


def test_the_newest_record_counts(records: Path) -> None:
    measure.save(dataclasses.replace(RECORD, gpu="Tesla T4", date="2026-11-22"))
    measure.save(RECORD)
    assert measure.load("double_buffering").gpu == "Tesla T4"
    measure.save(dataclasses.replace(RECORD, benchmark="another"))
    assert measure.recorded_on() == "NVIDIA H200 and Tesla T4, 2026-11-22"


def test_no_record(records: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing on double_buffering"):
        measure.load("double_buffering")
    assert "no GPU yet" in measure.recorded_on()


@pytest.mark.parametrize(
    "harm",
    [
        lambda data: data.pop("driver"),
        lambda data: data.update(extra=1),
        lambda data: data["rows"].clear(),
        lambda data: data["rows"][0].pop("warm_us"),
        lambda data: data["rows"][0].update(warm_us=[]),
        lambda data: data["rows"][0].update(warm_us=[1.0, -1.0]),
        lambda data: data["rows"][1].update(flushed_us=[]),
        lambda data: data.update(date="yesterday"),
        lambda data: data.update(shape=[32, 32]),
    ],
)
def test_a_damaged_record_is_refused(harm: object) -> None:
    data = json.loads(json.dumps(dataclasses.asdict(RECORD)))
    assert measure.parse(json.dumps(data)) == RECORD
    harm(data)  # type: ignore[operator]
    with pytest.raises(ValueError):
        measure.parse(json.dumps(data))


def test_a_table_is_text_and_a_table_of_the_page() -> None:
    table = measure.Table(("kernel", "warm, µs"), (("<tiles>", "100.0"), ("cuBLAS", "9.0")), "here")
    heading, tiled, vendor, source = str(table).splitlines()
    assert len(heading) == len(vendor) == len(tiled) and source == "here"
    shown = table._repr_mimebundle_()
    assert shown["text/plain"] == str(table)
    assert "<td>&lt;tiles&gt;</td><td>100.0</td>" in shown["text/html"]


def test_a_kernel_that_was_not_measured() -> None:
    with pytest.raises(KeyError, match="has no kernel 'other'"):
        RECORD["other"]


def test_recording_needs_a_chapter_and_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "gpu", lambda: None)
    with pytest.raises(LookupError, match="none has nothing to measure"):
        recording.chapter("none")
    with pytest.raises(toolchain.CudaError, match="no NVIDIA GPU here"):
        recording.record("double_buffering")


def test_a_record_beside_a_chapters_is_measured_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "gpu", lambda: None)
    assert recording.chapter("layouts_controls") == "layouts_controls"
    alone, whole = (recording.benchmark(name) for name in ("layouts_controls", "layouts"))
    assert (alone.NAME, whole.NAME) == ("layouts_controls", "layouts")
    assert recording.chapter("layouts") == "layouts"
    with pytest.raises(toolchain.CudaError, match="no NVIDIA GPU here"):
        recording.record("layouts_controls")


@pytest.mark.nvcc
def test_no_cublas_is_a_sentence() -> None:
    with pytest.raises(toolchain.ToolMissing, match="no cuBLAS here"):
        measure.find_cublas([])


RECORDS = sorted(files.records().glob("*.*.json"))
"""Those that name the machine they were made on."""


def test_every_record_belongs_to_a_benchmark_and_is_whole() -> None:
    """A chapter whose record is missing fails by itself: it cannot draw its tables."""
    modules = [recording.benchmark(chapter) for chapter in recording.measured()]
    further = {name for module in modules for name in getattr(module, "FURTHER", ())}
    names = {module.NAME for module in modules} | further | {clean_kernels.NAME, proving.NAME}
    assert {path.name.partition(".")[0] for path in RECORDS} <= names
    for path in RECORDS:
        data = measure.check(json.loads(path.read_text(encoding="utf-8")))
        assert path.name.startswith(data["benchmark"] + ".")
        assert all(isinstance(words, str) and words for words in data["protocol"].values())


NO_RIVAL = {
    "clean_kernels", "clock_stamps", "copy_engine_prefetch", "other_peoples_kernels", "proved",
    "requests_joined", "transposes_counted",
}  # fmt: skip
"""What tools say, and single launches."""
NOT_TIMED = {"broken_links", "broken_ring"}
NO_LIBRARY = {
    "to_pack_or_not", "copy_engine", "copy_engine_hints", "warpgroup_products", "warpgroup_narrow",
    "block_order_controls", "block_order_neighbours", "hopper_ring_pairs", "attention_stamps",
    "warpgroup_copies", "warpgroup_asking", "two_gpus_parts",
    "layouts_lines", "measuring_launches", "tensor_cores_loads_of_b",
}  # fmt: skip
"""Nests stand beside compilers; what only reads, or only multiplies, beside what is documented;
one order of blocks beside another; a kernel beside itself without a part; two rungs of a ladder, in
two tiles, beside each other, and when the parts of a kernel begin: the ladders' own records have
cuBLAS and cuDNN."""


@pytest.mark.parametrize(
    "path", [path for path in RECORDS if path.name.split(".")[0] not in NO_RIVAL],
    ids=lambda path: path.name.split(".")[0],
)  # fmt: skip
def test_a_protocol_says_what_one_needs_to_repeat_it(path: Path) -> None:
    """Warm-up, how often, which inputs, and the vendor's library or copy in the same run."""
    record = measure.check(json.loads(path.read_text(encoding="utf-8")))
    said = " ".join(record["protocol"].values())
    if record["benchmark"] in NOT_TIMED:
        assert "processes" in said and "seed" in said
        return
    assert re.search(r"(not|that) count", said), "the warm-up"
    assert re.search(r"\d+ (warm )?(launches|runs|rounds)|turn", said), "how often, in what order"
    assert re.search(r"random (whole |bf16 |f32 )?(numbers|bits)|inputs random", said), "the inputs"
    if record["benchmark"] not in NO_LIBRARY:
        assert re.search(r"cuBLAS|cublas|cuDNN|cudaMemcpy|OpenBLAS", said), "the vendor's library"
        assert re.search(r"same (process|bytes)|by turns|in turn|through torch", said), "same run"


def test_a_record_without_protocol_is_not_saved(records: Path) -> None:
    data = dataclasses.asdict(RECORD) | {"protocol": {}}
    with pytest.raises(ValueError, match="lacks protocol"):
        measure.save(data)
    assert not list(records.iterdir())


def test_the_record_of_double_buffering_is_whole() -> None:
    record = measure.load(double_buffering.NAME)
    kernels = double_buffering.KERNELS
    timed = [row.kernel for row in record.rows]
    # A record of before the controls has none of them.
    assert timed in (
        [*kernels, measure.VENDOR],
        [*double_buffering.timed_kernels(), measure.VENDOR],
    )
    assert {"clock", "cold", "flushed", "warm", "order", "inputs", "vendor"} <= set(record.protocol)
    assert all(len(record[kernel].cold_us) >= 5 for kernel in kernels)
    assert all(len(row.warm_us) >= 500 for row in record.rows)


def test_a_record_of_a_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "records", lambda: tmp_path)
    data = {
        "benchmark": "gemm",
        "cpu": "Some CPU @ 2.0",
        "compiler": "g++ 12",
        "flags": "-O3",
        "date": "2026-11-21",
        "protocol": {"repeats": "9"},
    }
    assert measure.save(data).name == "gemm.some-cpu-2-0.json"
    assert measure.source(measure.read("gemm")) == "Some CPU @ 2.0, 2026-11-21"
    assert measure.recorded_on().startswith("no GPU yet")
    del data["flags"]
    with pytest.raises(ValueError, match="lacks flags"):
        measure.save(data)
