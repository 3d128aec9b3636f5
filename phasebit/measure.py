"""Measurements and their records: what was timed, where, how, and every single time.

A record is one JSON file under ``records/``, for one benchmark on one GPU. Tables and pictures
are drawn from records; no number in the book is typed by hand.
"""

from __future__ import annotations

import datetime
import json
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path

from phasebit import files, machine, process, toolchain

BENCHMARKS: dict[int, tuple[str, tuple[str, ...]]] = {
    11: ("11_double_buffering", ("04_tiled", "05_barrier_double_buffer")),
}
"""Chapter -> the name of its record, and the kernels that it times side by side."""

VENDOR = "cuBLAS"
_LAPS = 5  # processes of each kernel: five cold launches, in five separate processes
_LAUNCHES = 500  # warm launches in each process
_SECONDS = 120.0


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


@dataclass(frozen=True)
class Row:
    """The times of one kernel, in microseconds."""

    kernel: str  # file name without .cu, or "cuBLAS"
    cold_us: tuple[float, ...]  # first launch of a process, one for each process
    flushed_us: tuple[float, ...]  # launches after a flush of the caches
    warm_us: tuple[float, ...]  # launches back to back, after warm-up

    @property
    def cold(self) -> float:
        """Median of the cold launches, in µs."""
        return statistics.median(self.cold_us)

    @property
    def flushed(self) -> float:
        """Median of the launches after a flush, in µs."""
        return statistics.median(self.flushed_us)

    @property
    def warm(self) -> float:
        """Median of the warm launches, in µs."""
        return statistics.median(self.warm_us)

    @property
    def middle_half(self) -> tuple[float, float]:
        """The quartiles of the warm launches, in µs: half of them lie between."""
        low, _, high = statistics.quantiles(self.warm_us, n=4)
        return low, high


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

    def rate(self, kernel: str) -> float:
        """TFLOP/s of the median warm launch."""
        return tflops(matmul_flop(*self.shape), self[kernel].warm * 1e-6)

    @property
    def source(self) -> str:
        """Where and when: ``"NVIDIA H200, 2026-11-21"``."""
        return f"{self.gpu}, {self.date}"


def parse(text: str) -> Record:
    """Read a record.

    Raises ``ValueError`` when a field is missing, unknown or empty, or a time is not positive.
    """
    data = json.loads(text)
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
    datetime.date.fromisoformat(record.date)
    return record


def load(benchmark: str) -> Record:
    """The newest record of a benchmark, of whichever GPU.

    Raises ``FileNotFoundError`` when there is none.
    """
    found = [parse(path.read_text(encoding="utf-8")) for path in _paths(benchmark)]
    if not found:
        raise FileNotFoundError(
            f"records/ has nothing on {benchmark}: measure it with 'python -m phasebit record'"
        )
    return max(found, key=lambda record: record.date)


def _paths(benchmark: str = "*") -> list[Path]:
    return sorted(files.records().glob(f"{benchmark}.*.json"))


def save(record: Record) -> Path:
    """Write a record to ``records/BENCHMARK.GPU.json``; returns the file."""
    gpu = re.sub(r"[^a-z0-9]+", "-", record.gpu.lower()).strip("-")
    path = files.records() / f"{record.benchmark}.{gpu}.json"
    text = json.dumps(asdict(record), indent=1, ensure_ascii=False)
    # Lists of times on one line each: a record is read by people too.
    text = re.sub(r"\[[^][{}]*\]", lambda found: " ".join(found[0].split()), text)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def recorded_on() -> str:
    """GPU and date of the newest record."""
    records = [parse(path.read_text(encoding="utf-8")) for path in _paths()]
    if not records:
        return "no GPU yet (records/ is empty)"
    return max(records, key=lambda record: record.date).source


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


def table(record: Record, names: dict[str, str] | None = None) -> Table:
    """A record as a table, the vendor's library first; ``names`` are those of the kernels."""
    rows = []
    for row in sorted(record.rows, key=lambda row: row.kernel != VENDOR):
        low, high = row.middle_half
        rows.append(
            (
                (names or {}).get(row.kernel, row.kernel),
                f"{row.cold:.0f}" if row.cold_us else "–",
                f"{row.flushed:.1f}",
                f"{row.warm:.1f}",
                f"{low:.1f}–{high:.1f}",
                f"{record.rate(row.kernel):.3f}",
                f"{record[VENDOR].warm / row.warm:.2f}",
            )
        )
    times = ("first launch, µs", "caches flushed, µs", "warm, µs", "middle half")
    return Table(
        ("kernel", *times, "TFLOP/s", "of cuBLAS"),
        tuple(rows),
        f"{record.source}, driver {record.driver}, CUDA {record.cuda}",
    )


# Measuring


def record(chapter: int, say: Callable[[str], None] = print) -> Path:
    """Measure a chapter's kernels on this machine's GPU and write the record.

    The kernels take turns, process by process, each beside cuBLAS. Raises
    :class:`toolchain.CudaError` when there is no GPU, no cuBLAS, or a kernel fails.
    """
    if chapter not in BENCHMARKS:
        known = ", ".join(map(str, BENCHMARKS))
        raise toolchain.CudaError(f"chapter {chapter} has nothing to measure: choose from {known}")
    gpu = machine.gpu()
    if gpu is None:
        raise toolchain.CudaError("there is no NVIDIA GPU here: records are made on one")
    name, kernels = BENCHMARKS[chapter]
    cublas = find_cublas()
    builds = {kernel: toolchain.build(files.kernels() / f"{kernel}.cu") for kernel in kernels}
    laps: dict[str, list[dict[str, list[float]]]] = {kernel: [] for kernel in kernels}
    for lap in range(_LAPS):
        for kernel in kernels:
            laps[kernel].append(_lap(builds[kernel].program, cublas))
            say(f"⏱ {kernel}, process {lap + 1} of {_LAPS}: cold "
                f"{laps[kernel][-1]['cold_us'][0]:.1f} µs, "
                f"warm {statistics.median(laps[kernel][-1]['warm_us']):.1f} µs")  # fmt: skip
    rows = [
        Row(
            kernel,
            *(
                tuple(time for lap in laps[kernel] for time in lap[kind])
                for kind in ("cold_us", "flushed_us", "warm_us")
            ),
        )
        for kernel in kernels
    ]
    every = [lap for kernel in kernels for lap in laps[kernel]]
    rows.append(
        Row(
            VENDOR,
            (),  # its first call loads a library of many kernels: no comparison
            tuple(time for lap in every for time in lap["cublas_flushed_us"]),
            tuple(time for lap in every for time in lap["cublas_us"]),
        )
    )
    m, n, k = every[0]["shape"]
    build = builds[kernels[0]]
    return save(
        Record(
            benchmark=name,
            gpu=gpu.name,
            driver=gpu.driver,
            cuda=build.nvcc,
            target=build.target,
            date=datetime.date.today().isoformat(),
            shape=(int(m), int(n), int(k)),
            protocol={
                "clock": "CUDA events before and after each launch, launches queued",
                "cold": f"the first launch of a process, after the same flush, {_LAPS} processes",
                "flushed": "20 launches a process, each after 256 MiB of other memory is read",
                "warm": f"{_LAUNCHES} launches a process, after 50 that do not count",
                "order": "kernels alternate by process; within it, 50 launches of the kernel "
                "and 50 of cuBLAS by turns",
                "inputs": "normal random numbers, one set a process; they stay in the L2 cache",
                "vendor": f"cublasSgemm from {cublas.name}, pedantic f32, no TF32",
            },
            rows=tuple(rows),
        )
    )


def _lap(program: Path, cublas: Path) -> dict[str, list[float]]:
    """One process: every time that its harness writes, in microseconds."""
    with tempfile.TemporaryDirectory() as scratch:
        times = Path(scratch, "times.json")
        command: list[str | Path] = [program, "warm", "--repeats", str(_LAUNCHES)]
        command += ["--json", times, "--cublas", cublas]
        done = process.run(command, timeout=_SECONDS)
        if not done.ok:
            why = "did not end in time" if done.stopped else f"status {done.status}"
            raise toolchain.CudaError(f"the benchmark failed, {why}: {done.stdout}{done.stderr}")
        result: dict[str, list[float]] = json.loads(times.read_text(encoding="utf-8"))
        return result


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
