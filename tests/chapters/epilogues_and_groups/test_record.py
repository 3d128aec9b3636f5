"""What measures *Epilogues and groups*, as far as a machine without a GPU can go."""

from __future__ import annotations

from typing import Any

import pytest

from phasebit import measure, toolchain
from phasebit.chapters.epilogues_and_groups import epilogue_bench as bench
from phasebit.chapters.epilogues_and_groups import fetching, groups, record, view
from phasebit.chapters.epilogues_and_groups.epilogues import FUSED, GROUPS


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", [FUSED, GROUPS])
def test_the_libraries_build(kernel: str) -> None:
    assert bench.build(kernel, ("Alpha", "Bias"), team=2).program.exists()


def made(clock: float = 1000.0) -> dict[str, Any]:
    """A record in which an epilogue costs what the model says, at a clock that changes."""
    e = 4000.0

    def row(us: dict[str, float]) -> dict[str, Any]:
        return {name: {"us": [x, 2 * x, x / 2], "mhz": [clock, clock / 2, 2 * clock]}
                for name, x in us.items()}  # fmt: skip

    hidden = []
    for k in bench.DEPTHS:
        us = {}
        for order in bench.TEAMS:
            us[f"{order}, {bench.PLAIN}"] = float(k)
            for chain in (bench.SHORT, bench.LONG):
                us[f"{order}, {chain}"] = k * view.predicted(k, e, order)
        hidden.append({"k": k, "times": row(us)})
    shape = {f"{chain}, {way}": 10.0 for chain in (bench.SHORT, bench.LONG)
             for way in ("fused", "then one kernel", "apart")}  # fmt: skip
    shape |= {f"{bench.PLAIN}, fused": 8.0, bench.CUBLAS: 7.0, bench.CUBLASLT: 9.0}
    names = (bench.GROUPED, bench.LOOP, fetching.ONE, fetching.ONE_CUBLAS)
    return {
        "gpu": "NVIDIA H200", "date": "2026-01-01", "hidden": hidden,
        "epilogues": [{"shape": [8, 16, 8], "times": row(shape)}],
        "groups": [{"mean": 2, "sizes": [0, 3, 4], "n": 8, "k": 8,
                    "times": row(dict.fromkeys(names, 5.0))}],
    }  # fmt: skip


def test_a_record_is_shown() -> None:
    said = str(view.fusing(made()))
    assert "8 × 16 × 8" in said and "no epilogue" in said and "NVIDIA H200" in said
    many = str(view.experts(made()))
    assert "7 in 2" in many and "5" in many
    assert f"{bench.PLAIN}: 1.00" in view.orders_drawn(made()).alt


def test_cycles_are_counted_at_the_clock_of_their_turn() -> None:
    curves = view.hidden_drawn(made(), bench.SHORT, 4000.0).alt.splitlines()[1:]
    found = dict(line.split(": ") for line in curves)
    for order in bench.TEAMS:
        assert found[f"{order}, measured"] == found[f"{order}, predicted"]


def test_an_epilogue_is_hidden_by_products_that_take_as_long() -> None:
    assert view.predicted(8192, 4000, "together") > view.predicted(8192, 4000, "by turns")
    assert view.predicted(500, 4000, "by turns") == 1 + 1 / 8  # the last one is seen
    assert view.predicted(250, 4000, "by turns") == (5 * 2000 + 4 * 4000) / 16000


@pytest.mark.parametrize("products", [10.0, 40.0, 99.0, 100.0, 101.0, 400.0])
def test_turns_played_tile_by_tile_take_what_the_arithmetic_says(products: float) -> None:
    epilogue, multiplies, free = 100.0, 0.0, [0.0, 0.0]
    for tile in range(8):  # one group multiplies at a time, each after its last epilogue
        multiplies = max(multiplies, free[tile % 2]) + products
        free[tile % 2] = multiplies + epilogue
    said = view.by_arithmetic(products, epilogue, "by turns")
    assert max(free) == pytest.approx(said * 8 * products)


def test_memory_gives_each_weight_once() -> None:
    assert view.moved(3, 1000, 2100, 2) == 2 * (2 * 1000 * 2100 + 3 * 1000 + 3 * 2100)


def test_without_a_gpu_it_refuses_in_a_sentence() -> None:
    try:
        measure.gpu()
    except toolchain.CudaError:
        with pytest.raises(toolchain.CudaError):
            record.record()


def test_a_group_without_rows_has_no_tile() -> None:
    every = list(groups.walk([0, 130, 0, 1], 300))
    assert [tile.group for tile in every] == [1, 1, 1, 1, 3, 3]
    assert [tile[1:] for tile in every[:4]] == [(0, 0), (0, 256), (128, 0), (128, 256)]
    assert groups.rewrites([0, 130, 0, 1], 300, 2) == [2, 2]
    assert "group 0: no row | . ." in groups.picture([0, 130], 300, 2).alt


@pytest.mark.nvcc
@pytest.mark.parametrize("name", [f"{fetching.SHARED}: {bench.LONG}", fetching.SMALL_TILES])
def test_what_stands_beside_them_builds(name: str) -> None:
    assert fetching.build(name).program.exists()


def test_every_change_fits_its_kernel() -> None:
    assert len(set(fetching.texts().values())) == len(fetching.texts()) - 4  # four are there twice
