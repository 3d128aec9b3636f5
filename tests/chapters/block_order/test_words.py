"""What the chapter says in words of its record: a new measurement must keep it."""

from __future__ import annotations

from statistics import median

from phasebit import measure
from phasebit.chapters.block_order import view


def test_the_order_of_blocks() -> None:
    record = measure.read("block_order")
    *_, wide = record["orders"]
    for entry in record["orders"]:
        rows = sorted(entry["rows"], key=lambda row: row["dram__bytes_read.sum"])
        assert [row["order"] for row in rows[:2]] == ["super-rows of 16", "Hilbert"]
    read = {row["order"]: row["dram__bytes_read.sum"] for row in wide["rows"]}
    assert 9 < read["row by row"] / read["super-rows of 16"] < 11
    restless = {name: median(each["times_us"]) for name, each in wide["without_rest"].items()}
    assert 1.15 < restless["row by row"] / restless["super-rows of 16"] < 1.25
    assert restless["drawn by lot"] < restless["row by row"]
    clocks = [median(row["mhz"]) for row in wide["rows"]]
    assert max(clocks) < 1.01 * min(clocks), "with rests, one clock"


def test_the_first_wave_is_drawn_as_its_order_says() -> None:
    record = measure.read("block_order")
    cube = record["orders"][0]
    drawn = view.waves(record, cube, ("row by row", "super-rows of 16")).alt
    # 132 = 4 · 32 + 4 tiles in rows of 32; 8 · 16 + 4 in columns of 16
    assert "row by row: 132 tiles in 5 rows and 32 columns" in drawn
    assert "super-rows of 16: 132 tiles in 16 rows and 9 columns" in drawn
