"""Plots are pictures of the page and sentences of numbers."""

from __future__ import annotations

import functools
import re
import xml.etree.ElementTree as ET
from fractions import Fraction
from itertools import pairwise

import pytest

pytest.importorskip("matplotlib")

from phasebit import two_widths
from phasebit.draw import (
    Arrow,
    Cell,
    Node,
    Panel,
    Picture,
    bars,
    chart,
    curves,
    diagram,
    dots,
    heatmap,
    panels,
    plots,
    roofline,
    scatter,
    spread,
)
from phasebit.letters import width

TEXT = "{http://www.w3.org/2000/svg}text"
RECT = "{http://www.w3.org/2000/svg}rect"


def a_heatmap(**change):
    given = {
        "values": [[Fraction(1, 3), 0.5], [2, 4]],
        "rows": ["a", "b"],
        "columns": [1, 2],
        "row_label": "row",
        "column_label": "column",
        "title": "A grid",
        "outline": {(1, 1)},
        "outline_means": "the largest",
    }
    return heatmap(**{**given, **change})


def some_curves(**change):
    given = {
        "x": [1, 2, 3],
        "series": {"up": [1, 2, 3], "down": [3, 2, 1]},
        "x_label": "slots",
        "y_label": "rate",
        "title": "Two lines",
        "notes": [(2, 2, "they cross")],
    }
    return curves(**{**given, **change})


@functools.cache
def two_curves():
    """As they are without a change; drawn once."""
    return some_curves()


PICTURES = pytest.mark.parametrize("picture", [a_heatmap, some_curves])


def words(picture) -> list[str]:
    return [e.text for e in ET.fromstring(picture.svg).iter(TEXT)]


@PICTURES
def test_svg_is_well_formed_themed_and_the_same_each_time(picture) -> None:
    one, other = picture(), picture()
    assert one == other
    root = ET.fromstring(one.svg)
    assert root.get("role") == "img"
    assert root[0].text == one.alt
    assert "<style" not in one.svg and "<metadata" not in one.svg and "DejaVu" not in one.svg
    bare = re.sub(r"var\([^;\"]*", "", one.svg)
    assert not re.findall(r"[:\s](#[0-9a-f]{6})\b", bare)


def test_a_label_keeps_its_decimals() -> None:
    picture = bars({"a": 0.003}, x_label="x", title="t", show=lambda value: f"{value:.3f}")
    assert "0.003" in words(picture)
    assert not re.search(r"[ML] [^\"]*\.\d{3}", picture.svg)


def test_a_bar_says_what_it_is_a_part_of() -> None:
    picture = bars({"a": 3, "b": 2}, of={"a": 10}, x_label="x", title="t")
    assert str(picture).splitlines()[1:] == ["a: 3 of 10", "b: 2"]
    assert {"3 of 10", "2"} <= set(words(picture))
    with pytest.raises(ValueError, match="a is larger"):
        bars({"a": 3}, of={"a": 2}, x_label="x", title="t")


@PICTURES
def test_the_same_content_stands_in_the_mimebundle(picture) -> None:
    bundle, one = picture()._repr_mimebundle_(), picture()
    assert set(bundle) == {"image/svg+xml", "text/plain"} and bundle["text/plain"] == str(one)
    assert two_widths.taken(bundle["image/svg+xml"]) == (one.svg, one.narrow)
    ET.fromstring(bundle["image/svg+xml"])


def of_every_kind() -> dict[str, Picture]:
    rows = {"a row with rather a long name, as they have": 3.0, "b": 1.0}
    many = {name: [value, value + 1, value + 2] for name, value in rows.items()}
    warm = {"times_are": "warm", "apart_are": "cold", "x_label": "µs"}
    parts = [Panel("C: blocks", 4, 4, [(1, 1)]), Panel("a block", 2, 2, [])]
    numbers = [[n / 10 for n in range(20)]] * 2
    return {
        "heatmap": a_heatmap(values=numbers, columns=range(20), outline=()),
        "curves": some_curves(title="A title that is a good deal longer than a phone has room for"),
        "bars": bars(rows, x_label="TFLOP/s", title="Bars"),
        "dots": dots({name: {"a": 1, "b": 2} for name in rows}, x_label="µs", title="Dots"),
        "spread": spread(many, {}, title="Spread", **warm),
        "roofline": roofline(4.0, {"bf16": 800.0}, {"a kernel": (500, 600)}, title="Roofs"),
        "scatter": scatter({"a": (1, 2)}, x_label="told", y_label="seen", title="Dots"),
        "panels": panels(parts, alt="C."),
        "chart": a_chart(cells=[[Cell("123")] * 32], rows=["one"], columns=range(32)),
        "diagram": a_diagram(),
    }  # fmt: skip


def pixels_across(svg: str) -> float:
    """How wide a drawing is, in CSS pixels; Matplotlib counts points."""
    across = ET.fromstring(svg).get("width", "")
    return float(across.removesuffix("pt")) * (4 / 3 if across.endswith("pt") else 1)


def test_every_picture_has_a_drawing_for_a_phone_with_letters_as_large() -> None:
    for kind, picture in of_every_kind().items():
        assert pixels_across(picture.narrow) <= 1.03 * two_widths.NARROW, kind
        sizes = re.findall(r"\bfont(?:-size)?:\s*([\d.]+)px", picture.narrow)
        points = pixels_across(picture.narrow) / float(
            ET.fromstring(picture.narrow).get("viewBox", "").split()[2])  # fmt: skip
        assert sizes and min(map(float, sizes)) * points >= 12, kind
        assert ET.fromstring(picture.narrow)[0].text == picture.alt


def test_a_chart_that_does_not_fit_leaves_its_empty_columns_out() -> None:
    cells = [[Cell(str(c)) if c % 8 == 0 else None for c in range(32)]] * 3
    drawn = a_chart(cells=cells, rows=["one", "two", "three"], columns=range(32), legend=None)
    wide, narrow = (ET.fromstring(one) for one in (drawn.svg, drawn.narrow))
    assert "empty columns are left out" not in "".join(wide.itertext())
    assert "empty columns are left out" in " ".join(text.text or "" for text in narrow.iter(TEXT))
    assert len([*narrow.iter(RECT)]) == len([*wide.iter(RECT)]) == 12
    assert [text.text for text in narrow.iter(TEXT)].count("one") == 1  # no second band
    assert float(narrow.get("height", 0)) < 1.3 * float(wide.get("height", 0))


def test_a_band_has_no_row_without_a_cell() -> None:
    cells = [[Cell(f"{c:03}") for c in range(32)], [Cell("alone")] + [None] * 31]
    drawn = a_chart(cells=cells, rows=["every", "first"], columns=range(32), legend=None)
    found = [text.text for text in ET.fromstring(drawn.narrow).iter(TEXT)]
    assert found.count("every") > 2 and found.count("first") == 1


def test_a_chart_that_is_too_wide_for_a_page_is_cut_into_bands() -> None:
    drawn = a_chart(
        cells=[[Cell(f"{100 * row + n}") for n in range(64)] for row in (1, 2)],
        columns=range(64), legend=None,
    )  # fmt: skip
    for svg, most in ((drawn.svg, 800), (drawn.narrow, two_widths.NARROW)):
        assert pixels_across(svg) <= most
        found = [each.text for each in ET.fromstring(svg).iter(TEXT)]
        for row in (1, 2):
            assert [found.count(f"{100 * row + n}") for n in range(64)] == [1] * 64


def test_a_heatmap_says_its_values() -> None:
    assert str(a_heatmap()) == (
        "A grid. From left to right, column 1, 2 (* the largest).\n"
        "row a: 0.33 0.50\n"
        "row b: 2.00 4.00*"
    )
    assert {"0.33", "0.50", "2.00", "4.00", "Framed: the largest.", "A grid"} <= set(
        words(a_heatmap())
    )


def test_curves_say_their_values_and_are_named() -> None:
    assert str(two_curves()) == (
        "Two lines. rate, from left to right at slots 1, 2, 3.\n"
        "up: 1.00 2.00 3.00\n"
        "down: 3.00 2.00 1.00"
    )
    assert {"up", "down", "they cross", "slots", "rate"} <= set(words(two_curves()))


def test_dots_say_every_value_of_a_row_and_rows_may_lack_one() -> None:
    picture = dots({"a": {"ours": 2, "theirs": 1}, "b": {"theirs": 4}}, x_label="µs", title="t")
    assert str(picture) == "t. µs.\na: ours 2.00, theirs 1.00\nb: theirs 4.00"
    assert {"a", "b", "ours", "theirs"} <= set(words(picture))
    with pytest.raises(ValueError, match="7 names"):
        dots({"a": dict.fromkeys("abcdefg", 1)}, x_label="x", title="t")


def test_marks_that_would_hide_each_other_stand_apart() -> None:
    rows = {"near": {"a": 1.0, "b": 1.01, "c": 9.0}, "far": {"a": 1.0, "b": 5.0, "c": 9.0}}
    picture = dots(rows, x_label="x", title="t")
    for drawn in (picture.svg, picture.narrow):
        uses = [each for each in ET.fromstring(drawn).iter() if each.tag.endswith("use")]
        at = {(each.get("x"), each.get("y")) for each in uses}
        ys = sorted({float(y) for x, y in at if y and x})
        assert len(at) == len(uses)
        assert len(ys) >= 3  # two rows, and the marks that left theirs


def test_the_names_of_ticks_have_room_beside_each_other() -> None:
    x = [1, 2, 3, 4, 6, 8, 16, 32]
    picture = curves(x, {"a": x}, x_label="slots", y_label="y", title="t")
    told = {each.text: float(each.get("x", "nan"))
            for each in ET.fromstring(picture.narrow).iter(TEXT)
            if each.text in map(str, x) and "middle" in (each.get("style") or "")}  # fmt: skip
    places = sorted(told.values())
    assert {"1", "8", "32"} <= set(told)
    assert "2" not in told
    assert min(b - a for a, b in pairwise(places)) >= 9
    assert str(picture).startswith("t. y, from left to right at slots 1, 2, 3, 4, 6, 8, 16, 32.")


def test_points_that_stand_evenly_keep_their_names() -> None:
    assert "at slots a, b, c." in str(some_curves(x="abc", notes=(), evenly=True))
    picture = some_curves(x=[8, 64, 1024], notes=(), evenly=True)
    assert "at slots 8, 64, 1024." in str(picture)
    found = ET.fromstring(picture.svg).iter(TEXT)
    at = {each.text: float(each.get("x", "nan")) for each in found}
    assert at["64"] - at["8"] == pytest.approx(at["1024"] - at["64"], abs=0.02)


def test_equal_ratios_are_equally_far_apart() -> None:
    names = {"ten": [1, 10], "hundred": [1, 100], "thousand": [1, 1000]}
    picture = some_curves(x=[1, 2], series=names, notes=(), ratios=True)
    at = {each.text: float(each.get("y", "nan")) for each in ET.fromstring(picture.svg).iter(TEXT)}
    assert at["ten"] - at["hundred"] == pytest.approx(at["hundred"] - at["thousand"], abs=0.02)


@pytest.mark.parametrize("change", [{}, {"line": 2}, {"line": 5}])
def test_a_line_across_is_within_the_axes_and_no_curve(change: dict[str, int]) -> None:
    picture = some_curves(**change)
    assert str(picture) == str(two_curves())
    for drawn in (picture.svg, picture.narrow):
        ticks = [text.text for text in ET.fromstring(drawn).iter(TEXT)]
        assert ("5" in ticks) == (change.get("line") == 5)
    assert (picture.svg != two_curves().svg) == bool(change)


def test_a_median_stands_where_it_lies_or_right_of_crosses_with_room() -> None:
    """An outlier does not draw the number away; a factor is equally long everywhere."""
    drawn = spread(
        {"near": [10, 10.1, 10.2, 9.9], "far": [20, 21, 20, 22]},
        {"near": [9.8, 10, 10, 40], "far": [45, 46, 47]},
        x_label="x", title="t", times_are="warm", apart_are="cold", ratios=True,
    )  # fmt: skip
    found = ET.fromstring(drawn.svg).iter(TEXT)
    at = {each.text: float(each.get("x", "nan")) for each in found}
    assert at["10.0"] == pytest.approx(at["10"], abs=0.02) and at["46.0"] > at["20"] * 1.5
    assert at["50"] - at["20"] == pytest.approx(1.3219 * (at["20"] - at["10"]), abs=0.1)


def test_a_change_of_a_value_changes_the_sentence() -> None:
    assert str(a_heatmap(values=[[Fraction(1, 3), 0.5], [2, 5]])) != str(a_heatmap())


def test_one_value_everywhere_is_drawn() -> None:
    ET.fromstring(a_heatmap(values=[[1, 1], [1, 1]]).svg)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: a_heatmap(values=[[1, 2]]), "values has the shape 1 by .*: give 2 rows of 2"),
        (lambda: some_curves(series={"up": (0, 1, 2)}, ratios=True), "is not positive"),
        (lambda: some_curves(evenly=True), "notes have places on an axis of numbers"),
        (lambda: some_curves(series={"up": [1]}), "series 'up' has 1 values: give 3"),
        (
            lambda: some_curves(series={str(n): [1, 2, 3] for n in range(7)}),
            "series has 7 curves: give at most 6",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(make, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def a_diagram(**change):
    given = {
        "nodes": {"a": Node("empty", 0, 0), "b": Node("full & seen", 160, 60, "blue")},
        "arrows": [Arrow("a", "b", "fill"), Arrow("b", "a", "drain", 20), Arrow("a", "a", "wait")],
        "title": "A slot",
    }
    return diagram(**{**given, **change})


def test_a_diagram_says_its_arrows_and_is_well_formed() -> None:
    assert str(a_diagram()) == (
        "A slot.\nempty → full & seen: fill\nfull & seen → empty: drain\nempty → empty: wait"
    )
    root = ET.fromstring(a_diagram().svg)
    assert root.get("role") == "img" and root[0].text == str(a_diagram())
    assert {"empty", "full & seen", "fill", "drain", "wait"} == set(words(a_diagram()))
    assert len(root.findall(".//{http://www.w3.org/2000/svg}polygon")) == 3
    assert a_diagram() == a_diagram()


def test_a_diagram_says_whose_states_its_boxes_are() -> None:
    nodes = {
        "a": Node("free", 0, 0, of="producer"), "b": Node("busy", 90, 0, of="producer"),
        "c": Node("free", 0, 80, of="consumer"),
    }  # fmt: skip
    drawn = diagram(nodes, [Arrow("a", "b", "take"), Arrow("c", "c", "wait")], title="Two")
    assert sorted(words(drawn)) == ["busy", "consumer", "free", "free", "producer", "take", "wait"]
    assert str(drawn) == "Two.\nproducer: free → busy: take\nconsumer: free → free: wait"


@pytest.mark.parametrize("of", ["", "a long name of something"])
def test_everything_in_a_diagram_is_inside_its_box(of) -> None:
    nodes = {"a": Node("empty", 0, 0, of=of), "b": Node("full & seen", 160, 60, "blue", of)}
    root = ET.fromstring(a_diagram(nodes=nodes).svg)
    left, top, width, height = map(float, root.get("viewBox").split())
    for text in root.iter(TEXT):
        assert left <= float(text.get("x")) <= left + width
        assert top <= float(text.get("y")) <= top + height


def test_a_list_for_a_phone_keeps_the_order_and_every_arrow_inside() -> None:
    nodes = {f"n{k}": Node(f"{k} a chapter with a long title", 160 * k, 0) for k in range(9)}
    arrows = [Arrow("n0", f"n{k}") for k in range(1, 9)]
    root = ET.fromstring(diagram(nodes, arrows, title="Many", narrow="listed").narrow)
    left, top, width, height = map(float, root.get("viewBox").split())
    assert (left, width) == (0, two_widths.NARROW)
    boxes = [rect for rect in root if rect.tag.endswith("rect")]
    assert [text.text[0] for text in root.iter(TEXT)] == list("012345678")
    tops = [float(box.get("y")) for box in boxes]
    assert tops == sorted(tops) and tops[-1] + float(boxes[-1].get("height")) < top + height
    for path in root.iter("{http://www.w3.org/2000/svg}path"):
        x = [float(pair) for pair in re.findall(r"[\d.-]+", path.get("d"))][::2]
        assert min(x[0], x[-1]) / 4 + 3 * min(x[1:3]) / 4 > 0  # how far a curve of four points goes
    assert len(list(root.iter("{http://www.w3.org/2000/svg}polygon"))) == len(arrows)


SLANTS = [(160, 90), (160, -90), (-160, 90), (-160, -90), (220, 60), (-220, 60)]


def arrows_on(svg: str, label: str) -> list[tuple[float, float]]:
    """The points of arrows that lie within a label or all but touch it."""
    root = ET.fromstring(svg)
    text = next(each for each in root.iter(TEXT) if each.text == label)
    x, y, half = float(text.get("x", "0")), float(text.get("y", "0")), 0.8 * width(label) / 2
    found = []
    for path in root.iter(TEXT.replace("text", "path")):
        numbers = [float(one) for one in re.findall(r"-?\d+\.?\d*", path.get("d", ""))]
        (ax, ay), (mx, my), (bx, by) = zip(numbers[::2], numbers[1::2], strict=True)
        for t in (step / 60 for step in range(61)):
            u = 1 - t
            px = u * u * ax + 2 * u * t * mx + t * t * bx
            py = u * u * ay + 2 * u * t * my + t * t * by
            if abs(px - x) < half + 2 and y - 10 < py < y + 3:
                found.append((px, py))
    return found


@pytest.mark.parametrize("bend", [0.0, 24.0, -24.0])
@pytest.mark.parametrize(("x", "y"), SLANTS)
def test_the_label_of_an_arrow_aslant_stands_beside_it(x: float, y: float, bend: float) -> None:
    boxes = {"a": Node("a", 0, 0), "b": Node("b", x, y)}
    picture = diagram(boxes, [Arrow("a", "b", "says", bend)], title="t")
    assert not arrows_on(picture.svg, "says")


def test_a_label_gives_way_to_another_arrow() -> None:
    boxes = {"a": Node("a", 0, 0), "b": Node("b", 66, 90), "c": Node("c", 120, -90)}
    alone = diagram(boxes, [Arrow("a", "b", "arrives")], title="t")
    beside = diagram(boxes, [Arrow("a", "b", "arrives"), Arrow("b", "c")], title="t")
    right, left = (
        next(float(each.get("x", "0")) for each in ET.fromstring(one.svg).iter(TEXT)
             if each.text == "arrives") for one in (alone, beside)
    )  # fmt: skip
    assert left < 33 < right
    assert not arrows_on(beside.svg, "arrives")


@pytest.mark.parametrize("between", [True, False])
def test_a_label_of_an_arrow_past_a_box_touches_neither_it_nor_the_next(between: bool) -> None:
    """Where an arrow goes straight down as well, the label keeps to the left of it."""
    boxes = {name: Node(name, 170 * k, 80 * (name == "c"))
             for k, name in enumerate(("a much wider box", "b", "c", "d"))}  # fmt: skip
    ways = [Arrow("a much wider box", "c"), Arrow("a much wider box", "d", "0.60 GB")]
    straight = [Arrow("a much wider box", "b")] if between else []
    drawn = ET.fromstring(diagram(boxes, [*ways, *straight], title="t").narrow)
    (label,) = (each for each in drawn.iter(TEXT) if each.text == "0.60 GB")
    middle = next(
        float(each.get("x", "0")) for each in drawn.iter(TEXT) if each.text == "a much wider box"
    )
    (bow,) = (each.get("d", "") for each in drawn.iter(TEXT.replace("text", "path"))
              if "C" in each.get("d", ""))  # fmt: skip
    numbers = [float(one) for one in re.findall(r"-?\d+\.?\d*", bow)]
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = zip(numbers[::2], numbers[1::2], strict=True)
    x, y = float(label.get("x", "0")), float(label.get("y", "0"))
    for t in (step / 60 for step in range(61)):
        u = 1 - t
        px = u**3 * ax + 3 * u * u * t * bx + 3 * u * t * t * cx + t**3 * dx
        py = u**3 * ay + 3 * u * u * t * by + 3 * u * t * t * cy + t**3 * dy
        assert not y - 9 < py < y + 3 or px < x - 2 or between
    assert x + width("0.60 GB") < middle if between else True


def test_a_label_in_two_lines_is_broken_at_its_comma() -> None:
    boxes = {"s": Node("s: begins to fill", 0, 0), "t": Node("t: begins to drain", 280, 0)}
    arrows = [Arrow("s", "t", "p + h_full clocks, 0 jobs", 26),
              Arrow("t", "s", "c + h_empty clocks, B jobs", 26)]  # fmt: skip
    drawn = ET.fromstring(diagram(boxes, arrows, title="t").narrow)
    assert {"c + h_empty clocks,", "B jobs"} <= {each.text for each in drawn.iter(TEXT)}


def test_an_arrow_may_have_a_colour_and_a_drawing_another_size() -> None:
    arrows = [Arrow("a", "b"), Arrow("b", "a", bend=20, hue="blue")]
    nodes = {"a": Node("empty", 0, 0), "b": Node("full", 160, 0)}
    usual, larger = (diagram(nodes, arrows, title="Two", scale=by) for by in (1, 1.5))
    assert re.findall(r"<path .*?stroke:var\(--pb-(\w+)", usual.svg) == ["blue"]
    roots = [ET.fromstring(one.svg) for one in (usual, larger)]
    assert roots[0].get("viewBox") == roots[1].get("viewBox")
    assert float(roots[1].get("width")) == pytest.approx(1.5 * float(roots[0].get("width")))


def test_an_arrow_to_nowhere_is_refused() -> None:
    with pytest.raises(ValueError, match="names no node: give one of a, b"):
        a_diagram(arrows=[Arrow("a", "c")])
    with pytest.raises(ValueError, match="names no node: give one of a"):
        a_diagram(narrow=({"a": Node("empty", 0, 0)}, [Arrow("a", "b")]))


def test_a_diagram_may_have_boxes_of_its_own_for_a_phone() -> None:
    own = {"a": Node("empty\nat 8", 0, 0), "b": Node("full", 200, 0)}
    drawn = a_diagram(narrow=(own, [Arrow("a", "b")]))
    assert drawn.svg == a_diagram().svg and str(drawn) == str(a_diagram())
    root = ET.fromstring(drawn.narrow)
    assert {"empty", "at 8", "full"} == {part.strip() for text in root.iter(TEXT)
                                         for part in text.itertext()}  # fmt: skip
    assert float(root.get("viewBox").split()[2]) <= two_widths.NARROW
    with pytest.raises(ValueError, match="wide: a phone has 340"):
        a_diagram(narrow=({**own, "b": Node("full", 400, 0)}, []))


def a_chart(**change):
    given = {
        "cells": [[Cell("7"), None, Cell("", "blue")], [None, None, Cell("12", "orange")]],
        "rows": ["first", 2], "columns": [0, 1, 2], "row_label": "wave", "column_label": "bank",
        "title": "Who & where", "legend": {"orange": "late"},
    }  # fmt: skip
    return chart(**{**given, **change})


def test_a_chart_says_its_cells_and_is_well_formed() -> None:
    assert str(a_chart()) == (
        "Who & where. wave downwards; bank from 0 to 2.\nfirst |  7  .  #\n   2 |  .  . 12"
    )
    assert str(a_chart(row_label="")).startswith("Who & where. bank from 0 to 2.\n")
    root = ET.fromstring(a_chart().svg)
    assert root.get("role") == "img" and root[0].text == str(a_chart())
    assert {"Who & where", "first", "2", "7", "12", "bank", "late"} <= set(words(a_chart()))
    assert len(root.findall(".//{http://www.w3.org/2000/svg}rect")) == 4  # one in the legend


def test_everything_in_a_chart_is_inside_its_box() -> None:
    root = ET.fromstring(a_chart().svg)
    width, height = (float(root.get(side)) for side in ("width", "height"))
    for text in root.iter(TEXT):
        assert 0 <= float(text.get("x")) <= width and 0 <= float(text.get("y")) <= height


RECT = "{http://www.w3.org/2000/svg}rect"


def cell_widths(picture) -> list[str]:
    return [one.get("width") for one in ET.fromstring(picture.svg).iter(RECT)]


def test_the_columns_of_a_grid_are_as_wide_as_its_widest_text() -> None:
    narrow, wide = (
        cell_widths(a_chart(cells=[[None, None, Cell(text)], [Cell("1"), None, None]], legend=None))
        for text in ("2", "0, 2, 4, 6")
    )
    assert len({*narrow}) == len({*wide}) == 1
    assert float(wide[0]) > 2 * float(narrow[0])


def test_a_column_with_a_name_is_as_wide_as_its_own_texts() -> None:
    cells = [[Cell("1"), Cell("2"), Cell("0, 2, 4, 6, 8, 10")]] * 2
    drawn = a_chart(cells=cells, columns=["late", "eager", "random"], legend=None)
    assert len({*cell_widths(drawn)}) == 3


def test_no_letter_of_a_chart_has_less_than_12_px() -> None:
    sizes = re.findall(r"font(?:-size)?:\s*([\d.]+)px", a_chart().svg)
    assert sizes and min(map(float, sizes)) >= 12


def test_a_legend_is_one_line_where_a_phone_has_room_for_it() -> None:
    def lines(**legend: str) -> list[int]:
        drawn = a_chart(legend=legend)
        return [
            len({one.get("y") for one in ET.fromstring(svg).iter(TEXT)
                 if one.text in legend.values()})
            for svg in (drawn.svg, drawn.narrow)
        ]  # fmt: skip

    assert lines(blue="who asks", orange="who is late", grey="nobody") == [1, 1]
    assert lines(blue="who asks " * 4, orange="who is late " * 4) == [1, 2]


def test_a_legend_without_room_beside_the_chart_goes_below() -> None:
    def label_and_legend(means: str) -> list[ET.Element]:
        texts = ET.fromstring(a_chart(legend={"orange": means}).svg).iter(TEXT)
        return [one for one in texts if one.text in ("bank", means)]

    beside, below = map(label_and_legend, ("late", "late" * 20))
    assert beside[0].get("y") == beside[1].get("y")
    assert float(below[1].get("y")) > float(below[0].get("y"))
    assert float(below[1].get("x")) < float(beside[1].get("x"))


def test_a_chart_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cells has the shape 2 by .*: give 2 rows of 2"):
        a_chart(columns=[0, 1])


def test_a_roofline_says_its_roofs_and_points() -> None:
    picture = roofline(
        4.0, {"f32": 64.0, "bf16": 800.0}, {"<ours>": (0.5, 1.5), "theirs": (2000.0, 700.0)},
        title="A GPU",
    )  # fmt: skip
    assert picture.alt.splitlines() == [
        "A GPU.",
        "memory: 4.00 TB/s",
        "f32: 64 TFLOP/s, from 16.0 FLOP/B on",
        "bf16: 800 TFLOP/s, from 200.0 FLOP/B on",
        "<ours>: 0.5 FLOP/B, 1.5 TFLOP/s",
        "theirs: 2e+03 FLOP/B, 700 TFLOP/s",
    ]
    ET.fromstring(picture.svg)
    for text in ("FLOP/B", "TFLOP/s", "4.00 TB/s", "f32: 64", "&lt;ours&gt;"):
        assert text in picture.svg
    for bandwidth, rates, points in (
        (0, {"f32": 1.0}, {}), (1, {}, {}), (1, {"f32": 1.0}, {"x": (0.0, 1.0)}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="must be positive"):
            roofline(bandwidth, rates, points, title="none")


def anchor(svg: str, name: str) -> str:
    (found,) = re.findall(rf"text-anchor: (\w+);[^>]*>{name}</text>", svg)
    return str(found)


def test_a_name_does_not_lie_across_a_line() -> None:
    points = {"above": (0.5, 3.0), "below": (0.5, 1.0), "far": (900.0, 700.0)}
    svg = roofline(4.0, {"bf16": 800.0}, points, title="A GPU").svg
    assert [anchor(svg, name) for name in points] == ["end", "start", "middle"]
    points = {"above": (1.0, 2.0), "below": (1.0, 0.5), "far": (9.0, 9.0)}
    svg = scatter(points, x_label="told", y_label="seen", title="Dots", name=points).svg
    assert [anchor(svg, name) for name in points] == ["middle", "start", "end"]


ROOFS = {"f32": 65.0, "mma": 616.0, "wgmma": 844.0}
LOW = {"a slow kernel": (683.0, 0.5), "a fast kernel with a long name": (2730.0, 641.0)}


def struck(svg: str) -> list[str]:
    """Names of points through which a roof or an axis goes, or which leave the axes."""
    line = r"M (\S+) (\S+) \nL (\S+) (\S+) \n"
    thick = re.findall(rf'{line}"[^>]*stroke-width: 1.8', svg)
    lines = [[float(n) for n in each] for each in thick]
    ticks = re.findall(r'<use [^>]*y="(\S+)" style="fill: var\(--muted', svg)
    ground = max(map(float, ticks))
    right = max(n[2] for n in lines)
    found = []
    for words in ET.fromstring(svg).iter(TEXT):
        text = "".join(words.itertext()).strip()
        if not any(text in name for name in LOW):
            continue
        x, y = float(words.get("x", "nan")), float(words.get("y", "nan"))
        half = width(text, 9) / 2 - 3
        if x + half > right or y + 2 > ground:
            found.append(text)
        for x0, y0, x1, y1 in lines:
            steps = [(x0 + (x1 - x0) * t / 400, y0 + (y1 - y0) * t / 400) for t in range(401)]
            if any(abs(a - x) < half and y - 7 < b < y + 2 for a, b in steps):
                found.append(text)
    return found


def test_no_roof_and_no_axis_strikes_a_name() -> None:
    picture = roofline(4.03, ROOFS, LOW, title="A GPU")
    assert picture.narrow is not None
    assert struck(picture.svg) == struck(picture.narrow) == []


def test_a_name_that_is_struck_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "_beside", lambda axes, name, *rest: (name, (0, -14)))
    picture = roofline(4.03, ROOFS, LOW, title="A GPU")
    assert picture.narrow is not None
    assert struck(picture.svg) and struck(picture.narrow)


def test_heat_maps_on_one_scale_have_the_same_colours() -> None:
    few = a_heatmap(values=[[1, 2], [1, 2]], scale=(0, 4)).svg
    assert few != a_heatmap(values=[[1, 2], [1, 2]]).svg
    for alpha in ("0.12", "0.21"):  # of 1 and 2 where 4 is darkest
        assert f"opacity: {alpha}" in few and f"opacity: {alpha}" in a_heatmap(
            values=[[1, 2], [0, 4]]).svg  # fmt: skip
    with pytest.raises(ValueError, match="not all on the scale 0 to 1"):
        a_heatmap(scale=(0, 1))


def test_a_scatter_says_its_points_and_names_some() -> None:
    points = {"one": (1.0, 2.0), "two": (4.0, 0.5)}
    picture = scatter(points, x_label="told", y_label="seen", title="Dots", name={"two"})
    assert picture.alt == "Dots. told, seen.\none: 1, 2\ntwo: 4, 0.5"
    shown = words(picture)
    assert {"told", "seen", "Dots", "two"} <= set(shown) and "one" not in shown
    for wrong in ({}, {"x": (0.0, 1.0)}):
        with pytest.raises(ValueError, match="must be positive"):
            scatter(wrong, x_label="told", y_label="seen", title="none")


def test_panels_mark_their_parts() -> None:
    one = Panel("a block", 2, 3, {(0, 1)}, labels={(1, 2): "5"})
    shown = panels([one, Panel("a warp", 4, 4, ())], alt="Tiles.")
    assert str(shown) == "Tiles." and "a warp" in shown.svg and ">5<" in shown.svg
    for strange in ({(2, 0)}, {(0, 3)}, {(-1, 0)}):
        with pytest.raises(ValueError, match="a block: it has no part"):
            panels([one._replace(marked=strange)], alt="Tiles.")


def test_neighbours_of_a_row_are_one_rectangle() -> None:
    def rectangles(*marked: tuple[int, int]) -> int:
        return panels([Panel("C", 3, 4, marked)], alt="C.").svg.count("opacity: 0.75")

    assert rectangles((0, 2), (0, 1), (0, 0)) == 1
    assert rectangles((0, 3), (1, 0)) == 2  # the end of a row and the beginning of the next
    assert rectangles((0, 0), (0, 2)) == 2


def test_a_heading_in_words_has_room() -> None:
    def width(*columns: str) -> float:
        given = {"rows": [0], "row_label": "row", "column_label": "column", "title": "t"}
        shown = chart([[Cell("x")] * len(columns)], columns=columns, **given)
        return float(ET.fromstring(shown.svg).get("width", ""))

    assert width("racecheck", "memcheck") > width("1", "2") + 60


def test_the_name_of_the_first_column_is_not_cut_off() -> None:
    """On a phone, where names of rows stand above them and columns begin at the edge."""
    rows = ["a name that has no room beside its row on a phone", "two"]
    cells = [[Cell("s", "green")] * 16] * 2
    drawn = chart(cells, rows=rows, columns=[256 + 16 * k for k in range(16)], row_label="",
                  column_label="column", title="Columns")  # fmt: skip
    first = next(one for one in ET.fromstring(drawn.narrow).iter(TEXT) if one.text == "256")
    assert float(first.get("x")) >= width("256") / 2
