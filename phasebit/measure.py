"""Measurements and their records: what was timed, where, how, and every single time.

A record is one JSON file under ``records/``, for one benchmark on one GPU or processor, with at
least the fields :data:`FIELDS` or :data:`CPU_FIELDS`. What else it holds is the benchmark's own;
a :class:`Record` is the kind that times kernels for one matrix product. Tables and pictures are
drawn from records; no number in the book is typed by hand. The benchmarks themselves are in
:mod:`phasebit.recording`.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from phasebit import files, hardware, toolchain

VENDOR = "cuBLAS"

FIELDS = ("benchmark", "gpu", "driver", "cuda", "target", "date", "protocol")
"""What every record of a GPU says: its name, where and when it was measured, and how."""

CPU_FIELDS = ("benchmark", "cpu", "compiler", "flags", "date", "protocol")
"""What every record of a processor says."""


def matmul_flop(m: int, n: int, k: int) -> int:
    """Floating-point operations of C (m, n) = A (m, k) · B (k, n): a multiply and an add each.

    >>> matmul_flop(32, 32, 4096)
    8388608
    """
    return 2 * m * n * k


def tflops(flop: float, seconds: float) -> float:
    """10¹² floating-point operations a second. The one place where a time becomes a rate.

    Raises ``ValueError`` for a time that is not positive.
    """
    if seconds <= 0:
        raise ValueError(f"a time of {seconds} s has no rate: give a positive number of seconds")
    return flop / seconds / 1e12


def square_rate(size: int, times_us: Sequence[float]) -> float:
    """TFLOP/s of a product of square matrices, from the median of its times in microseconds."""
    return tflops(matmul_flop(size, size, size), statistics.median(times_us) * 1e-6)


def spoken(shape: Sequence[int], us: float) -> str:
    """A product's rate in a few words, from its M, N, K and its time in microseconds.

    >>> spoken((1000, 1000, 1000), 2000), spoken((32, 32, 4096), 100)
    ('1.00 TFLOP/s, 1000³', '83.9 GFLOP/s, 32 × 32 × 4096')
    """
    rate, unit = tflops(matmul_flop(*shape), us * 1e-6), "TFLOP/s"
    if rate < 1:
        rate, unit = rate * 1000, "GFLOP/s"
    size = f"{shape[0]}³" if len(set(shape)) == 1 else " × ".join(map(str, shape))
    return f"{rate:#.3g}".rstrip(".") + f" {unit}, {size}"


@dataclass(frozen=True)
class Summary:
    """What many times say, in their own unit."""

    count: int
    least: float
    low: float  # a quarter is below
    median: float
    high: float  # a quarter is above
    most: float
    mean: float

    @property
    def spread(self) -> float:
        """Width of the middle half, as a share of the median."""
        return (self.high - self.low) / self.median


def summary(times: Sequence[float]) -> Summary:
    """Median, quartiles, extremes and mean of some times.

    Raises ``ValueError`` for fewer than two, and for one that is not positive.
    """
    if len(times) < 2 or not all(0 < time < math.inf for time in times):
        raise ValueError("give at least two times, each a positive number")
    low, middle, high = statistics.quantiles(times, n=4)
    mean = statistics.fmean(times)
    return Summary(len(times), min(times), low, middle, high, max(times), mean)


@dataclass(frozen=True)
class Point:
    """A kernel on a roofline."""

    name: str
    intensity: float  # floating-point operations for each byte that must be moved
    tflops: float  # reached


def place(name: str, flop: float, moved: float, seconds: float) -> Point:
    """Where a kernel stands: ``flop`` operations, ``moved`` bytes that it cannot avoid moving.

    Raises ``ValueError`` for bytes or seconds that are not positive.
    """
    if moved <= 0:
        raise ValueError(f"{name} moves {moved} bytes: give a positive number")
    return Point(name, flop / moved, tflops(flop, seconds))


@dataclass(frozen=True)
class Roofline:
    """What a GPU reached when it did one thing only, each rate measured.

    Source: Williams, Waterman, Patterson, "Roofline", 2009.
    """

    bandwidth: float  # TB/s of a copy: 10¹² bytes read and written
    rates: dict[str, float]  # of arithmetic, TFLOP/s
    source: str

    def attainable(self, intensity: float, rate: str) -> float:
        """TFLOP/s that the slower of the two allows, at ``intensity`` operations a byte."""
        return min(self.rates[rate], self.bandwidth * intensity)

    def ridge(self, rate: str) -> float:
        """Operations a byte at which memory and arithmetic take the same time."""
        return self.rates[rate] / self.bandwidth

    def floor(self, flop: float, moved: float, rate: str) -> float:
        """Seconds below which no kernel can be that does and moves so much."""
        return max(flop / self.rates[rate], moved / self.bandwidth) / 1e12


def roofline(benchmark: str = "measuring") -> Roofline:
    """The recorded roofline: the medians of its rates. Raises as :func:`read` does."""
    data = read(benchmark)
    rates = {name: statistics.median(values) for name, values in data["rates"].items()}
    return Roofline(rates.pop("copy"), rates, source(data))


@dataclass(frozen=True)
class Row:
    """The times of one kernel, in microseconds."""

    kernel: str  # file name without .cu, or "cuBLAS"
    cold_us: tuple[float, ...]  # first launch of a process, one for each process
    flushed_us: tuple[float, ...]  # launches after a flush of the caches
    warm_us: tuple[float, ...]  # launches back to back, after warm-up

    @property
    def flushed(self) -> float:
        """Median of the launches after a flush, in µs."""
        return statistics.median(self.flushed_us)

    @property
    def warm(self) -> float:
        """Median of the warm launches, in µs."""
        return statistics.median(self.warm_us)


@dataclass(frozen=True)
class Record:
    """One benchmark, measured on one GPU on one day."""

    benchmark: str
    gpu: str
    driver: str
    cuda: str  # version of nvcc
    target: str
    date: str
    shape: tuple[int, int, int]  # M, N, K
    protocol: dict[str, str]  # what a reader needs to repeat it
    rows: tuple[Row, ...]

    def __getitem__(self, kernel: str) -> Row:
        for row in self.rows:
            if row.kernel == kernel:
                return row
        raise KeyError(f"the record {self.benchmark} has no kernel {kernel!r}")

    @property
    def source(self) -> str:
        """Where and when: ``"NVIDIA H200, 2026-11-21"``."""
        return f"{self.gpu}, {self.date}"


def parse(text: str) -> Record:
    """Read a record of kernels for one matrix product.

    Raises ``ValueError`` when a field is missing, unknown or empty, or a time is not positive.
    """
    data = check(json.loads(text))
    try:
        data["rows"] = tuple(
            Row(row.pop("kernel"), **{field: tuple(times) for field, times in row.items()})
            for row in data["rows"]
        )
        data["shape"] = tuple(data["shape"])
        record = Record(**data)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a record of measurements: {error}") from error
    if len(record.shape) != 3 or not record.rows:
        raise ValueError(f"record {record.benchmark}: give shape M, N, K and at least one row")
    for row in record.rows:
        times = (*row.cold_us, *row.flushed_us, *row.warm_us)
        if len(row.warm_us) < 2 or not row.flushed_us or min(times) <= 0:
            raise ValueError(f"record {record.benchmark}, {row.kernel}: times must be positive")
    return record


def check(data: Any) -> dict[str, Any]:
    """The record itself, when it says all that every record must.

    Raises ``ValueError`` when one of :data:`FIELDS` (:data:`CPU_FIELDS` for a record that names
    a ``cpu``) is missing or empty, or the date is none.
    """
    fields = CPU_FIELDS if isinstance(data, dict) and "cpu" in data else FIELDS
    missing = [field for field in fields if not (isinstance(data, dict) and data.get(field))]
    if missing:
        raise ValueError(f"not a record of measurements: it lacks {', '.join(missing)}")
    datetime.date.fromisoformat(data["date"])
    result: dict[str, Any] = data
    return result


def every(benchmark: str) -> list[dict[str, Any]]:
    """The records of a benchmark, one of each GPU, the newest first.

    Raises ``ValueError`` for one that is damaged.
    """
    found = [check(json.loads(path.read_text(encoding="utf-8"))) for path in _paths(benchmark)]
    return sorted(found, key=lambda data: str(data["date"]), reverse=True)


def read(benchmark: str) -> dict[str, Any]:
    """The newest record of a benchmark, of whichever GPU, as its JSON says it.

    Raises ``FileNotFoundError`` when there is none, ``ValueError`` for one that is damaged.
    """
    found = every(benchmark)
    if not found:
        raise FileNotFoundError(
            f"records/ has nothing on {benchmark}: measure it with 'python -m phasebit record'"
        )
    return found[0]


def load(benchmark: str) -> Record:
    """The newest record of a benchmark that times kernels for one matrix product.

    Raises as :func:`read` and :func:`parse` do.
    """
    return parse(json.dumps(read(benchmark)))


def _paths(benchmark: str = "*") -> list[Path]:
    return sorted(files.records().glob(f"{benchmark}.*.json"))


def save(record: Record | dict[str, Any]) -> Path:
    """Write a record to ``records/BENCHMARK.GPU.json``; returns the file.

    Raises ``ValueError`` when it does not say what every record must.
    """
    data = check(asdict(record) if isinstance(record, Record) else record)
    here = re.sub(r"[^a-z0-9]+", "-", str(_place(data)).lower()).strip("-")
    path = files.records() / f"{data['benchmark']}.{here}.json"
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
    # Lists of times on one line each: a record is read by people too.
    text = re.sub(r"\[[^][{}]*\]", lambda found: " ".join(found[0].split()), text)
    path.parent.mkdir(exist_ok=True)
    files.renew(path, text + "\n")
    return path


def source(data: dict[str, Any]) -> str:
    """Where and when a record was measured: ``"NVIDIA H200, 2026-11-21"``."""
    return f"{_place(data)}, {data['date']}"


def _place(data: dict[str, Any]) -> str:
    """The GPU or the processor that a record was made on."""
    return str(data["cpu"] if "cpu" in data else data["gpu"])


def recorded_on() -> str:
    """The GPUs that have records, the one that has most first, and the newest one's date."""
    records = [check(json.loads(path.read_text(encoding="utf-8"))) for path in _paths()]
    records = [data for data in records if "gpu" in data]
    if not records:
        return "no GPU yet (records/ is empty)"
    places = [place for place, _ in Counter(map(_place, records)).most_common()]
    return f"{' and '.join(places)}, {max(str(data['date']) for data in records)}"


@dataclass(frozen=True)
class Table:
    """Rows of text under a heading, shown by a notebook as a table and printed as text."""

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    source: str  # where the numbers come from

    def __str__(self) -> str:
        wide = [max(map(len, column)) for column in zip(self.heading, *self.rows, strict=True)]
        lines = [
            "  ".join(
                cell.rjust(width) if column else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, wide, strict=True))
            )
            for row in (self.heading, *self.rows)
        ]
        return "\n".join([*lines, self.source])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        def line(tag: str, cells: tuple[str, ...]) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        head, body = line("th", self.heading), "\n".join(line("td", row) for row in self.rows)
        caption = f"<caption>{escape(self.source)}</caption>"
        html = (
            f'<table class="table">{caption}\n<thead>{head}</thead>\n<tbody>{body}</tbody></table>'
        )
        return {"text/html": html, "text/plain": str(self)}


def product_rates(record: dict[str, Any]) -> Table:
    """The rates of products C (m, n) = A (m, k) · B (k, n) in TFLOP/s, a row for each contender.

    ``record``: its ``products``, each with ``m``, ``n``, ``k`` and ``us``: name -> times in µs.
    """
    products = record["products"]

    def rate(product: dict[str, Any], name: str) -> str:
        flop = matmul_flop(product["m"], product["n"], product["k"])
        return f"{tflops(flop, summary(product['us'][name]).median * 1e-6):,.0f}"

    shapes = (f"{each['m']} × {each['n']} × {each['k']}" for each in products)
    rows = [(name, *(rate(each, name) for each in products)) for name in products[0]["us"]]
    return Table(("TFLOP/s", *shapes), tuple(rows), f"{source(record)}, medians")


# Measuring


def gpu() -> hardware.Gpu:
    """The GPU that a record is made on; raises :class:`toolchain.CudaError` without one."""
    found = hardware.gpu()
    if found is None:
        raise toolchain.CudaError("there is no NVIDIA GPU here: records are made on one")
    return found


def facts() -> dict[str, str]:
    """What every record says about the machine and the day: the fields but name and protocol.

    Raises :class:`toolchain.CudaError` without a GPU or without nvcc.
    """
    here, compiler = gpu(), toolchain.nvcc()
    return {
        "gpu": here.name,
        "driver": here.driver,
        "cuda": compiler.version,
        "target": compiler.target_for(here),
        "date": datetime.date.today().isoformat(),
    }


def cpu_facts(build: toolchain.HostBuild) -> dict[str, Any]:
    """What every record of a processor says about it, the compiler and the day."""
    here = hardware.cpu()
    caches = [[cache.level, cache.bytes, cache.ways, cache.line] for cache in here.caches]
    return {
        "cpu": here.model,
        "caches": caches,  # level, bytes, ways, bytes of a line
        "page": here.page,
        "compiler": build.compiler,
        "flags": " ".join(build.flags),
        "date": datetime.date.today().isoformat(),
    }


def find_cublas(folders: Sequence[str] | None = None) -> Path:
    """The cuBLAS library of this machine: of the CUDA toolkit, or installed by pip.

    Raises :class:`toolchain.ToolMissing` when there is none.
    """
    home = toolchain.nvcc().path.resolve().parent.parent
    pip = [str(lib) for place in sys.path for lib in Path(place or ".").glob("nvidia/*/lib")]
    system = [f"{home}/lib64", "/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu"]
    for folder in folders if folders is not None else [*pip, *system]:
        found = sorted(Path(folder).glob("libcublas.so.*"))
        if found:
            return found[-1]
    raise toolchain.ToolMissing(
        "no cuBLAS here to measure beside: install it with pip install nvidia-cublas"
    )
