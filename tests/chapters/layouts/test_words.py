"""What the chapter says in words of its record: a new measurement must keep it."""

from __future__ import annotations

from statistics import median
from typing import Any

from phasebit import measure
from phasebit.chapters.layouts import layouts_controls as ways
from phasebit.chapters.layouts import layouts_interleaved as both
from phasebit.chapters.layouts import layouts_lines as lines
from phasebit.chapters.layouts import packed_operands


def _medians(record: dict[str, Any]) -> dict[tuple[int, int], dict[str, float]]:
    """Products together and columns of blocks -> the median µs of each way."""
    return {
        (each["interleaved"], each["shape"][1] // 128): {
            name: median(times["times_us"]) for name, times in each["times"].items()
        }
        for each in record["interleaved"]
    }


def test_what_the_chapter_says_of_the_first_record() -> None:
    record = measure.read("layouts")
    together = _medians(record)
    sectors_hardly_cost = together[8, 8]["strided"] / together[1, 8]["strided"]
    assert 1 < sectors_hardly_cost < 1.02
    for way in ("strided", "copy and packed", "cuBLAS"):
        times = [median(each["times"][way]["times_us"]) for each in record["alone"]]
        assert max(times) < 1.03 * min(times), "each takes nearly the same time in all four"


def test_when_packing_pays_beside_either_loop() -> None:
    together = _medians(measure.read("layouts_interleaved"))
    first, anew, wrong, paid = {}, {}, [], 0
    for s in (1, 2, 4, 8, 16):
        first[s], anew[s] = (
            [n for n in (1, 2, 4, 8, 16)
             if together[s, n][both.PACKED] < together[s, n][loop]]
            for loop in (both.FIRST, both.ANEW)
        )  # fmt: skip
        most = together[s, 16]
        saved = (most[both.ANEW] - most[both.PACKED] + most[both.COPY]) / 16
        for n in (1, 2, 4, 8):
            paid += n in anew[s]
            if (n > most[both.COPY] / saved) != (n in anew[s]):
                wrong.append((s, n))
    assert first == {1: [2, 4, 8, 16], **{s: [4, 8, 16] for s in (2, 4, 8, 16)}}
    assert anew == {1: [], 2: [], 4: [16], 8: [8, 16], 16: [4, 8, 16]}
    assert round(1 - together[4, 16][both.PACKED] / together[4, 16][both.ANEW], 2) == 0.01
    assert wrong == [(8, 4)], "the rule errs once, for eight interleaved with four columns"
    assert paid == 3


def test_what_the_distance_of_the_floats_costs() -> None:
    together = _medians(measure.read("layouts_interleaved"))

    def slower(s: int, loop: str) -> float:
        mine, dense = (
            took[loop] - (took[both.COPY] if loop == both.PACKED else 0)
            for took in (together[s, 8], together[1, 8])
        )
        return mine / dense - 1

    assert round(slower(8, both.ANEW), 2) == 0.08
    assert round(max(slower(s, both.PACKED) for s in (2, 4, 8, 16)), 3) == 0.035, "at most 3.5%"
    for s in (8, 16):
        assert slower(s, both.FIRST) < slower(s, both.ANEW) / 2, "the first hid most of that"
        assert slower(s, both.PACKED) < slower(s, both.ANEW) / 2, "tiles save most of it"
    assert slower(16, both.ANEW) > 2 * slower(8, both.ANEW)
    eight, sixteen = (
        each["strided"][packed_operands.ASKED]
        for each in measure.read("layouts")["interleaved_counted"]
        if each["interleaved"] in (8, 16)
    )
    assert abs(sixteen / eight - 1) < 0.01, "as many sectors"


def test_what_the_lines_cost() -> None:
    record = measure.read("layouts_lines")
    took = {name: median(times["times_us"]) for name, times in record["times"].items()}
    counted = record["counters"]
    dense, gaps, sixteen = "8", "8, as far apart as 16", "16"
    assert abs(took[gaps] / took[sixteen] - 1) < 0.02, "as slow"
    assert round(took[gaps] / took[dense] - 1, 2) == 0.12
    assert round(took[f"{gaps}, A in the cache"] / took[f"{dense}, A in the cache"] - 1, 2) == 0.11
    read = {name: row["dram__bytes_read.sum"] for name, row in counted.items()}
    assert 0.49 < read[sixteen] / read[gaps] < 0.52, "half as much"
    for name, case in record["cases"].items():
        row, loads = counted[name], "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
        # Half of the loads are of A: 32 floats, each in a sector of its own; the others in a line.
        assert 2 * row[lines.LINES] == row[loads] * (case["apart"] + 1), "twice as many lines"
        if name.endswith("in the cache"):
            of_a, of_b = case["m"] * case["apart"] * 4096, case["batch"] * case["n"] * 4096
            assert abs(read[name] / (of_a + of_b) - 1) < 0.01, "memory brings each byte once"
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    for name in (gaps, sixteen):
        for same in (sectors, "smsp__inst_executed.sum"):
            assert counted[name][same] == counted[dense][same]
        for twice in (lines.LINES, lines.ASKS_L2):
            assert 1.8 < counted[name][twice] / counted[dense][twice] < 2, "nearly twice"
    hits = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"
    shares = {name: row[hits] / row[sectors] for name, row in counted.items()}
    assert shares.pop(f"{dense}, A in the cache") > 0.25 and max(shares.values()) < 0.02


def test_beside_the_vendor() -> None:
    together = _medians(measure.read("layouts_interleaved"))
    wins = [key for key, took in together.items() if took[both.ANEW] < took["cuBLAS"]]
    assert sorted(wins) == [(8, 2), (16, 1), (16, 2)], "at small N"
    for n in (1, 2):
        took = together[16, n]
        assert took["cuBLAS"] - took["cuBLAS, A dense"] > took["cuBLAS"] / 2
    for n in (1, 2, 4, 8, 16):
        copies = [together[s, n]["cuBLAS"] - together[s, n]["cuBLAS, A dense"] for s in (16, 2)]
        assert copies[0] > 4 * copies[1], "more than four times as long as for two"
        assert together[16, n][both.COPY] < 1.2 * together[2, n][both.COPY]


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
    assert took[all_four] < took[packed] < took[same], "packing itself gains nothing"
    copies = [each for each in measure.read("layouts")["interleaved"]
              if each["interleaved"] == 1 and each["shape"][1] == controls["shape"][1]]  # fmt: skip
    copy = median(copies[0]["times"]["copy"]["times_us"])
    assert (round(took[same] - took[packed]), round(copy)) == (14, 46)
    assert {each.packed for name, each in ways.WAYS.items() if name in (same, all_four)} == {False}
