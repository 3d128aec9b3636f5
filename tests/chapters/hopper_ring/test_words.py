"""What the chapter says in words of its record: a new measurement must keep it."""

from __future__ import annotations

from functools import cached_property
from statistics import median, quantiles
from typing import Any

from phasebit import measure
from phasebit.chapters.hopper_ring import pays, ring_controls, variants, view

ONE, RING, STAY, BOXES, PAIRS = variants.LADDER


class TestCopyEngine:
    """Rates in FLOP a cycle on each multiprocessor, as the chapter compares them."""

    @cached_property
    def record(self) -> dict[str, Any]:
        return measure.read("hopper_ring")

    @property
    def launch(self) -> dict[str, Any]:
        """The ladder's row of the largest product."""
        row: dict[str, Any]
        (row,) = (row for row in self.record["ladder"] if row["size"] == 8192)
        return row

    def rate(self, name: str, size: int = 8192, part: str = "ladder") -> float:
        return view.per_cycle(self.record, name, size, part)

    def variant(self, name: str, size: int = 8192) -> float:
        return self.rate(name, size, "variants")

    def test_slots(self) -> None:
        record, variant = self.record, self.variant
        roof = view.roof()
        alone, ringed = (view.stamps(record, name) for name in variants.STAMPED)
        multiply = measure.matmul_flop(128, 256, 64) / roof
        both = (alone.copy + multiply, ringed.copy + ringed.multiply)
        assert all(2 < cycles / multiply < 3 for cycles in both), "three slots, and two are too few"
        for slots in (1, 2):
            law = roof * multiply * slots / both[0]
            assert 0.92 < variant(f"slots {slots}") / law < 1, "within eight per cent of the law"
        assert variant("slots 1") < roof / 2
        three, four = (variant(f"slots {slots}") / roof for slots in (3, 4))
        assert 0.88 < three < 0.9 and abs(four / three - 1) < 0.02, "eleven per cent are missing"
        assert 0.4 < (1 - multiply / ringed.tile) / (1 - four) < 0.6, "half, by the stamps"
        rounds = -(-64 * 32 // record["multiprocessors"])
        told = ringed.tile * 128 * rounds / view.cycles(self.launch, RING)
        assert round(told, 3) == 0.977, "what the stamps made us believe"

    def test_ladder(self) -> None:
        rate, variant, vendor = self.rate, self.variant, variants.VENDOR
        for row in self.record["ladder"]:
            size, times = row["size"], row["times_us"]
            assert (rate(RING, size) > 2 * rate(ONE, size)) is (size != 2048), "twice"
            assert rate(BOXES, size) / rate(STAY, size) > rate(STAY, size) / rate(RING, size) > 0.97
            assert 0.94 < rate(PAIRS, size) / rate(BOXES, size) < 1, "a little behind"
            ours, theirs = (quantiles(times[name], n=4) for name in (BOXES, vendor))
            assert ours[0] <= theirs[2] and theirs[0] <= ours[2], "the middle halves overlap"
            assert abs(rate(BOXES, size) / rate(vendor, size) - 1) < 0.03
            assert (rate(BOXES, size) > 1.01 * rate(vendor, size)) is (size == 8192)
        gains = [rate(BOXES, size) / rate(STAY, size) for size in variants.SIZES]
        assert gains == sorted(gains), "most of all where the loop is short"
        for size in variants.SIZES[:2]:
            assert variant("boxes in rows", size) < 0.985 * variant(BOXES, size)
            assert 0.6 < variant("released to the cluster", size) / variant(BOXES, size) < 0.7
        assert 2 * self.record["pairs_at_once"] == self.record["multiprocessors"], "all of them fit"
        for name in ("no setmaxnreg", "one producer warp"):
            assert abs(variant(name) / variant("slots 4") - 1) < 0.01, "here it buys nothing"
        for size in variants.SIZES[:2]:
            under_way = variant("one under way", size) / variant("slots 4", size)
            assert abs(under_way - 1) < 0.02, "worth nothing"
        assert {name: said["ignored"] for name, said in self.record["bounds"].items()} == {
            name: name == "no bound" for name in variants.BOUNDS
        }

    def test_neighbours(self) -> None:
        rate = self.rate
        near = self.record["neighbours"]
        assert near["kernel"] == BOXES
        for name, times in near["after_us"].items():
            assert abs(rate(name, part="neighbours") / rate(BOXES) - 1) < 0.04, "the same in cycles"
            assert view.rate(8192, times) > 1.05 * view.rate(8192, self.launch["times_us"][BOXES])

    def test_power(self) -> None:
        power = {
            name: {field: median(values) for field, values in seen.items()}
            for name, seen in self.record["power"].items()
        }
        limit = power[ONE]["limit_watts"]
        assert power[ONE]["watts"] < 0.95 * limit and 1900 < power[ONE]["sm_mhz"] < 2000
        assert median(self.launch["mhz"][ONE]) < 0.85 * power[ONE]["sm_mhz"]
        for name in (RING, STAY, BOXES, PAIRS, variants.VENDOR):
            assert power[name]["watts"] > 0.93 * limit and power[name]["sm_mhz"] < 1500


def test_broken_ring() -> None:
    record = measure.read("broken_ring")["programs"]
    quiet = [
        name for name, said in record.items()
        if name != "as it is" and set(said["alone"]) == {"right"}
    ]  # fmt: skip
    assert quiet == ["empty before the wait", "no wgmma.fence"], "two of the six"
    for name in ("as it is", *quiet):
        assert {tool["verdict"] for tool in record[name]["tools"].values()} == {"nothing"}
    assert not any(tool["lines"] for said in record.values() for tool in said["tools"].values())


def test_when_a_pair_pays() -> None:
    seen = measure.read(pays.NAME)
    wide, wide_pair, narrow, narrow_pair = pays.CONTENDERS

    def cycles(name: str) -> float:
        times = seen["times"][name]
        return view.cycles({what: {name: times[what]} for what in ("times_us", "mhz")}, name)

    def us(name: str) -> float:
        return median(seen["times"][name]["times_us"])

    def saved(of: str, what: str, alone: str, pair: str) -> int:
        return round(100 * (1 - seen[of][pair][what] / seen[of][alone][what]))

    assert abs(cycles(wide_pair) / cycles(wide) - 1) < 0.005
    assert round(1 - cycles(narrow_pair) / cycles(narrow), 2) == 0.25
    assert round(1 - us(narrow_pair) / us(narrow), 2) == 0.15 and us(wide) < us(narrow_pair)
    clocks = [round(median(seen["times"][name]["mhz"])) for name in (narrow_pair, narrow)]
    assert clocks == [1442, 1628]
    for what in ("joules", "microseconds"):
        assert saved("energy", what, wide, wide_pair) == 4
        assert saved("energy", what, narrow, narrow_pair) == 8
    for drawn in seen["energy"].values():
        assert round(drawn["joules"] / drawn["microseconds"] * 1e6, -1) == 690
    counted = seen["counted"][wide]
    assert [round(counted[what] * view.SECTOR / 1e9, 1) for what in ("asked_of_l2", "brought")] \
        == [9.4, 12.9]
    assert seen["counted"][wide_pair]["brought"] == counted["brought"]
    assert saved("counted", "asked_of_l2", wide, wide_pair) == 12


class TestControls:
    """One thing of the ring taken away at a time."""

    @cached_property
    def record(self) -> dict[str, Any]:
        return measure.read(ring_controls.NAME)

    def test_stamps_are_what_a_step_loses(self) -> None:
        loops, steps = self.record["loops"], self.record["steps"]
        step = {name: view.a_step(loops[name], steps) for name in view.LOOPS}
        first = {name: view.a_step(loops[name], steps, "first") for name in view.LOOPS}
        for name in ("as it is", "nothing copied"):
            assert round(step[name]) == round(first[name]) == 1027
        for name in ("no hand-over, nothing copied", "no hand-over, one under way"):
            assert 0.5 < step["as it is"] - step[name] < 1.5, "one less"
        stamped, watched = (first[name] for name in view.LOOPS[4:])
        assert round(stamped) == 1098 and round(watched - stamped) == 6
        told = view.stamps(measure.read("hopper_ring"), variants.RING).tile
        assert round(told) == 1088 and round(told - 1024) == 64
        launch = view.launch_cycles(loops["as it is"]) * self.record["multiprocessors"]
        assert round(measure.matmul_flop(8192, 8192, 8192) / launch / view.roof(), 2) == 0.88

    def test_what_is_lost_outside(self) -> None:
        launch = view.launch_cycles(self.record["loops"]["as it is"])
        parts = view.parts(self.record)
        shares = {part: cycles * 16 / launch for part, cycles in parts.items()}
        assert 0.09 < 1 - shares["loop"] < 0.105, "a tenth at the ends"
        assert shares["store"] > 0.5 * (1 - shares["loop"]), "most of it"
        assert sum(shares.values()) < 1

    def test_stores(self) -> None:
        for size in map(str, view.SIZES[:2]):
            ways = self.record["stores"][size]
            took = {name: view.launch_cycles(seen) for name, seen in ways.items()}
            for name in ring_controls.STORES:
                if name != "fragments":
                    assert abs(took[name] / took["boxes"] - 1) < 0.012, "as fast as the boxes"
            assert took["fragments"] > 1.04 * took["boxes"]
        halves = {
            name: quantiles(seen["times_us"], n=4)
            for name, seen in self.record["stores"]["2048"].items() if name in ring_controls.STORES
        }  # fmt: skip
        for ours in halves.values():
            assert all(ours[0] <= other[2] for other in halves.values()), "too widely to tell"
