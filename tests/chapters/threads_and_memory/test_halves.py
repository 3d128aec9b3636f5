"""The halves of a transpose: each makes the whole's accesses to its memory, and checks them."""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np
import pytest

from phasebit import files, measure
from phasebit.chapters.threads_and_memory import record as benchmark
from phasebit.chapters.threads_and_memory import transpose_halves as halves
from phasebit.chapters.threads_and_memory import view
from phasebit.edits import replace_once
from phasebit.launching.launch import compile as compile_ptx
from tests.kernels.emulated import emulate

NAME = "threads_and_memory/halves"


@pytest.mark.nvcc
def test_the_halves_are_right_on_the_emulator() -> None:
    done = emulate(files.kernel(NAME))
    assert done.ok and not done.stderr, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and all(line.endswith(": OK") for line in lines)


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("if (x < rows && y < cols) out[y * rows + x] = held[i];",
         "if (x < rows && y < cols) out[y * rows + x] = held[0];", "device memory alone"),
        ("if (x < cols && y < rows) tile[j][threadIdx.x] = scale",
         "if (x < cols && y < rows) tile[threadIdx.x][j] = scale", "shared memory alone"),
    ],
)  # fmt: skip
def test_a_wrong_half_is_seen(right: str, wrong: str, said: str) -> None:
    text = files.kernel(NAME)
    done = emulate(replace_once(text, right, wrong), right=text)
    assert not done.ok and f"wrong result of {said}" in done.stderr, done.stdout + done.stderr


@pytest.mark.nvcc
def test_each_half_does_to_its_memory_what_the_whole_does() -> None:
    module = compile_ptx(files.kernel(NAME), "sm_75")
    rows, cols = benchmark.SHAPE
    matrix = np.arange(rows * cols, dtype=np.float32)

    def counted(name: str, *args: Any) -> dict[str, float]:
        run = module[name].launch((cols // 32, rows // 32), (32, 8), list(args),
                                   device="emulator")  # fmt: skip
        assert run.findings == []
        return {metric: run.counters.get(metric, 0) for metric in benchmark.METRICS}

    device = counted("device_alone<true>", matrix, np.zeros_like(matrix), rows, cols)
    nobody = np.zeros(rows * cols, np.uint32)
    for kernel in halves.WHOLE:
        whole = counted(kernel, matrix, np.zeros_like(matrix), rows, cols)
        shared = counted(f"shared_{kernel}", nobody, rows, cols, np.uint32(0))
        for metric, count in whole.items():
            mine, other = (device, shared) if "global" in metric else (shared, device)
            assert mine[metric] == count and other[metric] == 0, (kernel, metric)
    assert not nobody.any()


def test_the_record_supports_what_the_chapter_says_of_the_halves() -> None:
    record = measure.read(halves.NAME)
    found = view.halves(record)
    assert len(found) == 8 and str(view.halves_picture(record)).count("\n") == 8
    hidden, above, racing = {}, {}, {}
    for name, (slower, race, whole, both) in ((n, us.values()) for n, us in found.items()):
        faster = both - slower
        hidden[name], above[name], racing[name] = (
            (both - whole) / faster, whole / slower - 1, race / slower - 1
        )  # fmt: skip
    for kernel in halves.WHOLE:
        full, six, four, two = (
            hidden[f"{kernel}, {count} blocks at once"] for count in (8, *halves.FEWER)
        )
        assert full > 0.5 and six > four > two - 0.01, "more than half; fewer blocks hide less"
        assert 1 / 3 < two < 0.4, "little more than a third"
    assert round(100 * above["padded, 8 blocks at once"]) == 8
    assert round(100 * above["tiled, 8 blocks at once"]) == 16
    assert round(100 * racing["padded, 8 blocks at once"]) == 4
    assert round(100 * racing["tiled, 8 blocks at once"]) == 3
    empty = record["times_us"][halves.named(halves.NOTHING, 8)]
    assert round(median(empty)) == 42, "a launch that does nothing"
    main = measure.read(benchmark.NAME)
    for name, kernel, needed, said in (
        ("padded, 8 blocks at once", "padded", view.sector_us, (144, 132)),
        ("tiled, 8 blocks at once", "tiled", view.wavefront_us, (298, 265)),
    ):
        assert (round(found[name]["the slower half"]), round(needed(main, kernel))) == said
