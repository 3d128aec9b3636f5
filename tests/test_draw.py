"""Plots are pictures of the page and sentences of numbers."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from fractions import Fraction

import pytest

pytest.importorskip("matplotlib")

from phasebit.draw import (
    Arrow,
    Cell,
    Node,
    Panel,
    bars,
    chart,
    curves,
    diagram,
    dots,
    heatmap,
    panels,
    roofline,
    scatter,
    spread,
)

TEXT = "{http://www.w3.org/2000/svg}text"


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


@PICTURES
def test_the_same_content_stands_in_the_mimebundle(picture) -> None:
    bundle = picture()._repr_mimebundle_()
    assert bundle == {"image/svg+xml": picture().svg, "text/plain": str(picture())}


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
    assert str(some_curves()) == (
        "Two lines. rate, from left to right at slots 1, 2, 3.\n"
        "up: 1.00 2.00 3.00\n"
        "down: 3.00 2.00 1.00"
    )
    assert {"up", "down", "they cross", "slots", "rate"} <= set(words(some_curves()))


def test_dots_say_every_value_of_a_row_and_rows_may_lack_one() -> None:
    picture = dots({"a": {"ours": 2, "theirs": 1}, "b": {"theirs": 4}}, x_label="µs", title="t")
    assert str(picture) == "t. µs.\na: ours 2.00, theirs 1.00\nb: theirs 4.00"
    assert {"a", "b", "ours", "theirs"} <= set(words(picture))
    with pytest.raises(ValueError, match="7 names"):
        dots({"a": dict.fromkeys("abcdefg", 1)}, x_label="x", title="t")


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


def test_an_arrow_to_nowhere_is_refused() -> None:
    with pytest.raises(ValueError, match="names no node: give one of a, b"):
        a_diagram(arrows=[Arrow("a", "c")])


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
        cell_widths(
            a_chart(cells=[[None, None, Cell(text)], [Cell("1"), None, None]], legend=None)
        )
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
    def lines(**legend: str) -> int:
        texts = ET.fromstring(a_chart(legend=legend).svg).iter(TEXT)
        return len({one.get("y") for one in texts if one.text in legend.values()})

    assert lines(blue="who asks", orange="who is late", grey="nobody") == 1
    assert lines(blue="who asks " * 4, orange="who is late " * 4) == 2


def test_a_legend_without_room_beside_the_chart_goes_below() -> None:
    wide = {"title": "Who & where, and a good deal more than that"}
    beside, below = (
        list(ET.fromstring(a_chart(legend={"orange": means}, **wide).svg).iter(TEXT))[-2:]
        for means in ("late", "late" * 20)
    )
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
    (found,) = re.findall(rf'text-anchor: (\w+);[^>]*>{name}</text>', svg)
    return str(found)


def test_a_name_does_not_lie_across_a_line() -> None:
    points = {"above": (0.5, 3.0), "below": (0.5, 1.0), "far": (900.0, 700.0)}
    svg = roofline(4.0, {"bf16": 800.0}, points, title="A GPU").svg
    assert [anchor(svg, name) for name in points] == ["end", "start", "middle"]
    points = {"above": (1.0, 2.0), "below": (1.0, 0.5), "far": (9.0, 9.0)}
    svg = scatter(points, x_label="told", y_label="seen", title="Dots", name=points).svg
    assert [anchor(svg, name) for name in points] == ["middle", "start", "end"]


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
