"""The parts of the benchmark of *The anatomy of a fast GEMM* that take no time to measure."""

from __future__ import annotations

import itertools
import json
import platform
import random
import shutil
from statistics import median

import pytest

from phasebit import files, native
from phasebit.chapters.gemm import record as bench

pytestmark = pytest.mark.nvcc


@pytest.mark.parametrize("name", bench.VARIANTS)
def test_a_variant_is_another_program_and_right(name: str) -> None:
    library, _ = bench._variant(name)
    same = bench._variant("as it is")[0].build.library == library.build.library
    assert same == (name == "as it is")


def test_every_call_has_its_turns() -> None:
    calls: list[str] = []
    work = {name: lambda name=name: calls.append(name) for name in "abc"}
    times = bench._alternate(work, 3, {"c": 2})
    assert "".join(calls) == "ab" + "abc" + "abc" + "ab"
    assert {name: len(each) for name, each in times.items()} == {"a": 3, "b": 3, "c": 2}


def test_turns_may_be_shuffled_and_timed_by_another_clock() -> None:
    calls: list[str] = []
    work = {name: lambda name=name: calls.append(name) for name in "abcd"}
    ticks = itertools.count(step=1_000_000_000)
    times = bench._alternate(work, 5, clock=lambda: next(ticks), shuffled=random.Random(1))
    turns = ["".join(calls[i : i + 4]) for i in range(0, 24, 4)]
    assert {"".join(sorted(turn)) for turn in turns} == {"abcd"} and len(set(turns)) > 1
    assert times == {name: [1.0] * 5 for name in "abcd"}


@pytest.mark.skipif(
    shutil.which("objdump") is None or platform.machine() != "x86_64",
    reason="reads x86 machine code with objdump",
)
def test_sums_without_a_register_are_on_the_stack() -> None:
    def count(rows: int) -> int | None:
        options = [f"-DROWS={rows}", "-DVECTORS=2", "-mavx2", "-mfma", "-mno-avx512f"]
        return bench.stack(native.load("gemm/tile", options=options))

    assert count(6) == 0  # 12 sums, 2, 1: 15 of 16 registers
    spilled = count(8)  # 19 wanted
    assert spilled is not None and spilled >= 3


def test_the_record_says_what_the_chapter_draws() -> None:
    paths = sorted(files.records().glob(f"{bench.NAME}.*.json"))
    assert paths
    for path in paths:
        record = json.loads(path.read_text(encoding="utf-8"))
        assert set(record["ladder"]) == {str(n) for n in bench.SIZES}
        for times in record["ladder"].values():
            assert bench.VENDOR in times and bench.BEST in times
        kc, nc = record["block"][1:]
        assert f"{kc} {nc}" in record["blocks"]
        assert list(record["tiles"]) == [f"{rows} {vectors}" for rows, vectors in bench.TILES]


def test_what_the_chapter_says_of_the_ladder_and_the_sizes() -> None:
    for path in sorted(files.records().glob(f"{bench.NAME}.*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        for times in record["ladder"].values():
            rungs = ("naive", "interchanged", "tiled", "packed", "registers", "prefetch")
            gains = [median(times[one]) / median(times[next_])
                     for one, next_ in itertools.pairwise(rungs)]  # fmt: skip
            assert sorted(gains)[-2:] == sorted([gains[0], gains[3]]), "order and registers"
        rate = {int(n): int(n) ** 3 / median(times["prefetch"])
                for n, times in record["sweep"].items()}  # fmt: skip
        assert 0.88 < rate[500] / rate[512] < 0.92, "nine tenths"
        assert min(rate[1000], rate[1023]) >= rate[1024], "no slower"
