"""What the chapter says in words of its record: a new measurement must keep it."""

from __future__ import annotations

from statistics import median

from phasebit import measure
from phasebit.chapters.block_order import neighbours, view
from phasebit.chapters.block_order.block_order_times import ASKED, HIT, LOOKUPS


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


def test_the_clock_falls_under_the_random_order_and_under_cublas() -> None:
    *_, wide = measure.read("block_order")["orders"]
    found = wide["without_rest"]
    for turn in range(view.ROUNDS):
        clock = {name: median(each["mhz"][3 * turn : 3 * turn + 3]) for name, each in found.items()}
        took = median(found[view.FIRST]["times_us"][3 * turn : 3 * turn + 3])
        rested = view.microseconds(wide["rows"][0])
        assert (took < 1.01 * rested) if turn == 0 else (took > 1.2 * rested)
        del clock[view.FIRST]
        assert set(sorted(clock, key=clock.__getitem__)[:2]) == {view.LOT, view.VENDOR}
    assert "clock: 1979 " in view.turns(wide).alt


def test_an_undivided_cache_misses_too_little() -> None:
    record = measure.read("block_order")
    _, *lines = str(view.missed_by_the_near_half(record, record["orders"][0])).splitlines()
    for line in lines:
        counted, _, undivided = (float(part.split()[-1]) for part in line.split(","))
        assert undivided < counted


def test_the_bytes_that_are_drawn_are_all_bytes() -> None:
    record = measure.read("block_order")
    cube, name = record["orders"][0], "super-rows of 16"
    lines = str(view.halves(record, cube, name)).splitlines()[1:]
    asked, forwarded, near, other = (float(line.split()[-2]) for line in lines)
    told = view.play(record, cube)[name]
    assert abs(near + forwarded - told.missed / 1e9) < 0.02 and asked > forwarded > other
    assert abs(near + other - told.read / 1e9) < 0.02


def test_the_first_wave_is_drawn_as_its_order_says() -> None:
    record = measure.read("block_order")
    cube = record["orders"][0]
    drawn = view.waves(record, cube, ("row by row", "super-rows of 16")).alt
    # 132 = 4 · 32 + 4 tiles in rows of 32; 8 · 16 + 4 in columns of 16
    assert "row by row: 132 tiles in 5 rows and 32 columns" in drawn
    assert "super-rows of 16: 132 tiles in 16 rows and 9 columns" in drawn


def test_what_the_controls_say() -> None:
    controls = measure.read("block_order_controls")
    cube, square, wide = (each["orders"] for each in controls["shapes"])
    assert all(each["displaced"] < controls["multiprocessors"] for each in cube.values())
    assert 0.15 < square["row by row"]["lag_b"] < 0.18, "a sixth"
    assert 0.45 < wide["column by column"]["lag_a"] < 0.5, "nearly half"
    assert all(each["drawn by lot"][lag] > 0.1 for each in (square, wide)
               for lag in ("lag_a", "lag_b"))  # fmt: skip
    neighbours = [cube, square, wide], ("super-rows of 2", "super-rows of 4", "super-rows of 8")
    assert all(each[name][lag] < 0.01 for each in neighbours[0] for name in neighbours[1]
               for lag in ("lag_a", "lag_b"))  # fmt: skip
    drawn = {name: median(each["watts"]) for name, each in wide.items()}
    assert min(drawn.values()) > 0.9 * controls["power_limit_w"], "nearly the limit"
    clock = {name: median(each["mhz"]) for name, each in wide.items()}
    assert max(clock, key=clock.__getitem__) == "drawn by lot"
    read = {row["order"]: row["dram__bytes_read.sum"]
            for row in measure.read("block_order")["orders"][-1]["rows"]}  # fmt: skip
    least = [name for name in read if read[name] < 6e9]
    most = [name for name in read if read[name] > 12e9 and name != "drawn by lot"]
    assert min(clock[name] for name in least) > max(clock[name] for name in most)


def test_requests_are_joined_within_a_gpc_and_not_across() -> None:
    record = measure.read("requests_joined")
    shares, engine = (view.joined_by(record, way) for way in ("cp.async", "copy engine"))
    assert all(abs(shares[who] - engine[who]) < 0.003 for who in shares), "the same shares"
    for pair in ("two of a TPC", "two TPCs of a GPC"):
        assert abs(shares[f"{pair}, 0 ns"] - 0.5) < 0.001
        assert 0.93 < shares[f"{pair}, 50 ns"] < 0.95 and shares[f"{pair}, 800 ns"] > 0.999
        counts = record["counts"]["cp.async"][f"{pair}, 100 ns"]
        spared = counts[ASKED] - counts[LOOKUPS]
        missed = counts[LOOKUPS] - counts[HIT]
        assert abs(spared / missed - 1) < 0.03, "as many as it misses"
    assert all(shares[f"two GPCs, {shift} ns"] > 0.999 for shift in (0, 1600))
    assert shares["each its own"] > 0.999
    assert 3 < 1 / shares["all of a GPC"] < 1 / shares["all"] < 4, "between three and four"
    sizes = [len(gpc) for gpc in record["gpcs"]]
    assert sum(size for size in sizes if size in (16, 18)) > 0.85 * sum(sizes), "mostly"
    assert "two of a TPC" in str(view.joined(record))


def test_what_holds_neighbours_together() -> None:
    record = measure.read("block_order_neighbours")
    runs = {(run["reads"], run["numbers"], run["held_ns"]): run for run in record["runs"]
            if run["order"] == view.HELD_IN}  # fmt: skip
    own, four, apart, pairs = neighbours.OWN, neighbours.FOUR, neighbours.APART, neighbours.PAIRS
    dealt, fixed = neighbours.DEALT, neighbours.FIXED
    assert record["multiprocessors"] == 132
    assert all(run["begin_1"] < 0.005 for key, run in runs.items() if key[1] == dealt)
    assert 0.19 < runs[apart, fixed, 0]["begin_1"] < 0.22, "a fifth"
    assert 0.22 < runs[apart, fixed, 0]["block_us"] / runs[own, fixed, 0]["block_us"] - 1 < 0.25
    assert 0.12 < runs[own, fixed, 0]["begin_64"] < 0.13, "an eighth"
    for what in (own, four, pairs):
        close = runs[apart, dealt, 0]["begin_1"] / runs[what, dealt, 0]["begin_1"]
        assert 9.5 < close < 11, "ten times closer"
        assert runs[what, fixed, 0]["begin_1"] < 1 / 300
        behind = runs[what, fixed, neighbours.HOLD]["behind_waves"]
        assert behind["1"] > 4000 and all(behind[wave] < 100 for wave in ("64", "128", "131"))
    assert runs[apart, fixed, neighbours.HOLD]["behind_waves"]["131"] > 4000
    lines = str(view.held_together(record)).splitlines()
    assert lines[1].startswith("with none") and "20.56%" in lines[1]
