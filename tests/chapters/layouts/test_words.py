"""What the chapter says in words of its record: a new measurement must keep it."""

from __future__ import annotations

from statistics import median

from phasebit import measure
from phasebit.chapters.layouts import layouts_controls as ways


def test_layouts() -> None:
    record = measure.read("layouts")
    together = {
        (each["interleaved"], each["shape"][1] // 128): {
            name: median(times["times_us"]) for name, times in each["times"].items()
        }
        for each in record["interleaved"]
    }
    wrong = []
    for s in (1, 2, 4, 8, 16):
        most = together[s, 16]
        saved = (most["strided"] - most["copy and packed"] + most["copy"]) / 16
        for columns in (1, 2, 4, 8, 16):
            took = together[s, columns]
            if (columns > most["copy"] / saved) != (took["copy and packed"] < took["strided"]):
                wrong.append((s, columns))
    assert wrong == [(8, 2)], "the rule of the copy's price decides right but for one"
    sectors_hardly_cost = together[8, 8]["strided"] / together[1, 8]["strided"]
    assert 1 < sectors_hardly_cost < 1.02
    for s in (1, 2, 4, 8, 16):
        pays = [n for n in (1, 2, 4, 8, 16)
                if together[s, n]["copy and packed"] < together[s, n]["strided"]]  # fmt: skip
        assert pays[0] in (2, 4), "from two to four columns of blocks on"
    wins = [key for key, took in together.items() if took["strided"] < took["cuBLAS"]]
    assert sorted(wins) == [(16, 1), (16, 2)], "sixteen interleaved and N up to 256"
    for way in ("strided", "copy and packed"):
        times = [median(each["times"][way]["times_us"]) for each in record["alone"]]
        assert max(times) < 1.01 * min(times), "neither distance nor order makes a difference"


def test_what_the_chapter_says_of_the_loop_in_place() -> None:
    controls = measure.read("layouts_controls")
    took = {name: median(each["times_us"]) for name, each in controls["times"].items()}
    place, same, packed = ways.IN_PLACE, ways.SAME, ways.PACKED
    all_four = "16 bytes, no conflicts, no limits, a pointer"
    by_loop, gain = took[place] - took[same], took[place] - took[packed]
    assert (round(by_loop), round(gain)) == (195, 209), "the loop takes 195 of the 209 µs"
    counters = {name: controls["counters"][name] for name in (place, same)}
    for metric in (ways.LOADS, "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"):
        assert counters[place][metric] == counters[same][metric], "same loads and sectors"
    fewer = 1 - counters[same][ways.INSTRUCTIONS] / counters[place][ways.INSTRUCTIONS]
    assert round(fewer, 2) == 0.11
    assert took["no limits"] < took[same] - 30, "without limits it is faster still"
    assert took[all_four] < took[packed] < took[same], "packing itself gains nothing"
    slowest = max((name for name in took if name != measure.VENDOR), key=lambda name: took[name])
    assert slowest == "packed, 4 bytes, limits, addresses", "a careless loop over packed tiles"
    copies = [each for each in measure.read("layouts")["interleaved"]
              if each["interleaved"] == 1 and each["shape"][1] == controls["shape"][1]]  # fmt: skip
    copy = median(copies[0]["times"]["copy"]["times_us"])
    assert (round(took[same] - took[packed]), round(copy)) == (14, 46)
    assert {each.packed for name, each in ways.WAYS.items() if name in (same, all_four)} == {False}
