"""What the chapter says in words of its record: a new measurement must keep it."""

from __future__ import annotations

from statistics import median

from phasebit import measure


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
