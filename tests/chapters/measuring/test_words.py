"""What the chapter says in words of its record: a new measurement must keep it."""

from __future__ import annotations

from statistics import median

from phasebit import measure
from phasebit.chapters.measuring import launch_gaps, measuring_controls, view

CONTROLS = measure.read(measuring_controls.NAME)
GAPS = measure.read(launch_gaps.NAME)


def test_measuring() -> None:
    record = measure.read("measuring")
    ways = {name[0]: median(times) for name, times in record["ways"].items()}
    caches = {name: median(times) for name, times in record["caches"].items()}
    copy = measure.roofline().bandwidth
    moved = 4 * record["shape"][0] * record["shape"][1]  # bytes

    def bandwidth(us: float) -> float:
        return moved / us / 1e6

    assert ways["2"] < ways["6"] < ways["5"] < ways["4"] < ways["3"] < ways["1"]
    assert bandwidth(ways["6"]) > 1.2 * copy > bandwidth(ways["4"]), "faster than memory, unseen"
    assert bandwidth(ways["6"]) > view.MEMORY_TBS, "faster than the data sheet's memory"
    empty = {name[0]: median(times) for name, times in record["empty"].items()}
    assert 0.8 < empty["2"] / ways["2"] < 1.1, "nothing takes as long as the product"
    assert 0.5 * ways["3"] < empty["3"] < ways["3"], "more than half"
    assert 0.85 < empty["5"] / empty["2"] < 1.1, "the host sets the pace"
    assert empty["6"] < 1 < 0.9 * ways["5"] - 0.8 * ways["6"], "less than a microsecond; gains one"
    ceilings = view.ceilings(record)
    assert copy < ceilings["read only"] < view.MEMORY_TBS
    turns, same = ceilings["f16 mma, normal, in turn"], measure.roofline().rates["f16 mma, normal"]
    assert 0.97 < turns / same < 1.03, "operands that change make no difference"
    assert ways["2"] < ways["5"], "the host keeps up"
    cold = [caches["8 sets in rotation"], caches["caches flushed"]]
    assert max(cold) < 1.08 * min(cold), "two cures that agree"
    assert min(cold) > 1.5 * ways["4"] and bandwidth(min(cold)) < 0.75 * copy
    for where in ("same buffers", "caches flushed"):
        assert 0.92 < caches[f"{where}, zeros"] / caches[where] < 1.05, "the data hardly matters"
    data = {
        kind: {name: median(values) for name, values in kept.items()}
        for kind, kept in record["data"].items()
    }
    zeros, whole, normal = (data[kind] for kind in ("zeros", "whole", "normal"))
    assert zeros["times_us"] < whole["times_us"] < normal["times_us"]
    assert zeros["mhz"] > whole["mhz"] > normal["mhz"]
    assert zeros["watt"] < 0.7 * whole["watt"] and whole["watt"] < 0.985 * record["power_limit_w"]
    assert normal["watt"] > 0.985 * record["power_limit_w"]


def test_what_only_the_gpu_times_comes_back() -> None:
    """From process to process the host's ways change, the GPU's hardly."""
    change = {}
    for name, *_, medians, _ in view.ways_table(measure.read("measuring")).rows:
        least, most = map(float, medians.split("–"))
        change[name[0]] = most / least - 1
    assert all(change[way] < 0.04 for way in "456")
    assert all(change[way] > 0.05 for way in "123")


def test_the_launch_to_scale() -> None:
    record = measure.read("measuring")
    length = {
        span.row: span.end - span.start for span in view.covers(record).spans if span.kind == "time"
    }
    ways = {f"way {name[0]}": median(times) for name, times in record["ways"].items()}
    for row, time in length.items():
        assert abs(time - ways[row]) < 1e-9, row
    kernel = next(span for span in view.covers(record).spans if span.kind == "kernel")
    assert ways["way 2"] < kernel.start and kernel.end < ways["way 3"]


def test_only_the_gap_is_shorter_in_a_graph() -> None:
    rows = {row[0]: [float(cell) for cell in row[1:]] for row in view.graph_table(CONTROLS).rows}
    assert tuple(rows) == measuring_controls.WAYS
    adds, stamped, own, gap = zip(*rows.values(), strict=True)
    assert max(own) < 1.01 * min(own), "the product takes the same time"
    assert all(abs(each - gap[0]) < 0.05 for each in gap[:3]), "a full queue leaves it as it is"
    for times in (adds, stamped, gap):
        spared = [each - times[3] for each in times[:3]]
        assert min(spared) > 0.85 and max(spared) < 1.15, "a microsecond"


def test_most_of_what_a_graph_leaves_out_an_early_launch_does_without() -> None:
    middle = launch_gaps.middles(GAPS["launches"])
    saved = launch_gaps.saved(middle)
    after, late, early, many, deep = launch_gaps.KINDS

    def each(kind: str, what: str) -> tuple[float, float]:
        stream, graph = (middle[f"{way}, {kind}: {what}"] for way in launch_gaps.WAYS)
        return stream, graph

    assert "as long in the stream as in the graph" in launch_gaps.EXPECTED[early], "guessed none"
    slower: list[float] = []
    for kind in (early, deep):
        assert each(kind, "blocks that stand at the last end, %") == (100, 100)
        assert 280 <= saved[f"{kind}: {view.WORK}"] <= 295, "0.29"
        slower += [own / other for beside in (after, late) for own, other in
                   zip(each(kind, view.PRODUCT), each(beside, view.PRODUCT), strict=True)]
    assert f"{min(slower):.2f}" == "1.22", "slower beside blocks that wait"
    for kind in (after, late, many):
        assert each(kind, "blocks that stand at the last end, %") == (0, 0)
    whole = saved[f"{after}: {view.WORK}"]
    assert 0.75 * whole > max(saved[f"{kind}: {view.WORK}"] for kind in (early, late)) > 0, "most"
    slow = max(GAPS["launches"][f"graph, {after}: {view.WORK}"])
    fast = min(GAPS["launches"][f"stream, {after}: {view.WORK}"])
    assert fast - slow > 2 * saved[f"{early}: {view.WORK}"], "also of the graph's longer gaps"
    more = [stream / graph - 1 for stream, graph in (each(late, view.ADDS), each(after, view.ADDS))]
    assert [f"{part:.0%}" for part in more] == ["4%", "10%"]
    for with_many, without in zip(each(many, view.WORK), each(after, view.WORK), strict=True):
        assert abs(with_many - without) < 20, "4000 bytes, in nanoseconds"


def test_the_table_of_early_launches() -> None:
    table = view.early_table(GAPS)
    assert [row[0] for row in table.rows] == list(launch_gaps.KINDS[:4])
    assert table.rows[0][1:] == ("1.92", "0.72", "1.20", "5.44", "5.65", "7.39", "6.70")
    assert table.rows[2][1:6] == ("0.70", "0.42", "0.29", "7.12", "7.04")
    assert "7, 12, 0 and 9 of 24 turns had the longer one" in table.source


def test_at_equal_terms_the_ceiling_is_where_it_was() -> None:
    found = view.sustained(CONTROLS)
    same, turns, _, mma = (found[name] for name in measuring_controls.CEILINGS)
    product, roof = found[measuring_controls.VENDOR], measure.roofline().rates
    assert abs(same["rate"] / roof["bf16 wgmma, normal"] - 1) < 0.02
    assert 0.985 < turns["rate"] / same["rate"] < 1, "a percent"
    assert abs(mma["rate"] / roof["f16 mma, normal"] - 1) < 0.01, "or less"
    share = product["rate"] / same["rate"]
    assert abs(share - 0.80) < 0.01, "all of the distance is left"
    for each in (same, product):
        assert abs(each["watt"] / CONTROLS["power_limit_w"] - 1) < 0.03, "at the limit"
    assert (same["mhz"], product["mhz"]) == (1785, 1500)
    clock = product["mhz"] / same["mhz"]
    assert clock**2 < share, "most of the distance is clock"
    assert round(100 * product["a clock"] / same["a clock"]) == 94
    assert 1.2 < product["pJ"] / same["pJ"] < 1.3, "a quarter more"
    rows = view.sustained_table(CONTROLS).rows
    assert [row[0] for row in rows] == list(found) and rows[0][1:3] == ("850", "711")
