"""The drawing says everything twice, the same way each time, on white and on black."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasebit import two_widths
from phasebit.letters import width
from phasebit.palette import COLOURS
from phasebit.pipeline import Pipeline, simulate
from phasebit.timeline import SPARE, STYLES, Mark, Span, Timeline, number, ticks

RUN = simulate(Pipeline(4, 6, 6, 5, 3), 20).timeline


def two(**change) -> Timeline:
    given = {
        "rows": ["warp 0", "warp 1"],
        "spans": [
            Span("warp 0", 0, 4, "produce", "7"),
            Span("warp 1", 0, 4, "wait"),
            Span("warp 1", 4, 6, "consume", "7"),
        ],
    }
    return Timeline(**{**given, **change})


def test_text_drawing() -> None:
    assert str(two(title="one hand-off")) == (
        "one hand-off\n"
        "clock   0    5\n"
        "warp 0  7###\n"
        "warp 1  ....7=\n"
        "# produce  = consume  . wait"
    )


def test_text_drawing_of_marks_and_units() -> None:
    text = str(two(unit="cycles", marks=[Mark("warp 1", 4, "sees full")], legend={"wait": "idle"}))
    assert "cycles 4, warp 1: sees full" in text
    assert text.splitlines()[0].startswith("cycles  0")
    assert ". idle" in text


def test_a_wide_run_is_wrapped_and_complete() -> None:
    spans = [Span("w", 10 * k, 10 * k + 6, "produce", str(k)) for k in range(30)]
    text = str(Timeline(["w"], spans))
    assert [int(n) for n in re.findall(r"(\d+)#", text)] == list(range(30))
    assert max(map(len, text.splitlines())) <= 100
    assert len(text.splitlines()) == 12  # four blocks of two lines, blank lines between, a key


def test_a_very_wide_run_is_scaled_and_says_so() -> None:
    text = str(Timeline(["w"], [Span("w", 100 * k, 100 * k + 60, "produce") for k in range(30)]))
    assert text.splitlines()[-1] == "(one column = 32.89 clock; spans: produce 30)"


def test_times_that_are_no_whole_numbers_are_scaled() -> None:
    text = str(Timeline(["w"], [Span("w", 0.25, 7.75, "produce", "a")], unit="µs"))
    assert "one column = 0.08 µs" in text


def test_down_text() -> None:
    t = Timeline(
        ["producer", "consumer"],
        [Span("producer", 0, 1, "produce", "write"), Span("consumer", 1, 2, "bad", "read")],
        [Mark("consumer", 1, "too early")], unit="step", down=True,
    )
    assert str(t) == (
        "step  producer  consumer\n"
        "0     # write\n"
        "1               ! read\n"
        "step 1, consumer: too early\n"
        "# produce  ! bad"
    )
    root = ET.fromstring(t.svg())
    words = {e.text for e in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"write", "read", "producer", "consumer", "step 1, consumer: too early"} <= words


@pytest.mark.parametrize("timeline", [RUN, two(), two(down=True), Timeline([], [])], ids=str)
def test_svg_is_well_formed_and_has_a_title(timeline) -> None:
    root = ET.fromstring(timeline.svg())
    assert root.get("role") == "img"
    assert root[0].tag.endswith("title") and len(root[0].text) > 10
    assert timeline.svg() == timeline.svg()


def test_svg_has_no_fixed_colour_but_as_a_fallback() -> None:
    bare = re.sub(r"var\((?:[^()]|\([^()]*(?:\([^()]*\))*[^()]*\))*\)", "", RUN.svg())
    assert not re.findall(r"#[0-9a-f]{3,6}", bare.replace("fill:#fff", ""))
    assert "<style" not in RUN.svg() and " id=" not in RUN.svg()


def test_svg_shows_units_and_every_label() -> None:
    svg = RUN.svg()
    words = [e.text for e in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert "clock" in words and "producer 0" in words and "hand-off" in words
    for job in range(20):  # a producer, a consumer and twice a slot (and perhaps the axis)
        assert words.count(str(job)) >= 4


def test_svg_escapes() -> None:
    t = two(title="a < b & c", rows=["warp 0", "warp 1"], legend={"wait": "<idle>"})
    assert ET.fromstring(t.svg())[0].text.startswith("a < b & c")


def test_mimebundle() -> None:
    bundle = RUN._repr_mimebundle_()
    assert set(bundle) == {"image/svg+xml", "text/plain"}
    assert bundle["text/plain"] == str(RUN)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"spans": [Span("warp 9", 0, 1, "wait")]}, "row 'warp 9' of a span or mark is not in"),
        ({"marks": [Mark("warp 9", 0, "x")]}, "row 'warp 9' of a span or mark is not in"),
        ({"spans": [Span("warp 0", 2, 1, "wait")]}, "ends before it starts"),
        ({"spans": [Span("warp 0", 0, float("nan"), "wait")]}, "has no finite time"),
        ({"rows": ["warp 0", "warp 1", "warp 1"]}, "name a row twice"),
    ],
)
def test_what_cannot_be_drawn_is_refused(change, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        two(**change)


def test_any_kind_has_a_look_of_its_own() -> None:
    kinds = [f"kind {n}" for n in range(len(SPARE))]
    t = Timeline(["w"], [Span("w", n, n + 1, kind) for n, kind in enumerate(kinds)])
    assert len(set(t.styles.values())) == len(kinds)


def test_hand_offs_and_parities_look_the_same_in_every_picture() -> None:
    """Not by order of appearance: a reader compares pictures."""
    first, second = ["hand-off", "parity 0", "parity 1"], ["x", "parity 1", "parity 0", "hand-off"]
    one, other = (
        Timeline(["w"], [Span("w", n, n + 1, kind) for n, kind in enumerate(kinds)]).styles
        for kinds in (first, second)
    )
    assert all(one[kind] == other[kind] == STYLES[kind] for kind in first)


def test_a_wide_drawing_scrolls_before_its_letters_become_small() -> None:
    root = ET.fromstring(RUN.svg())
    least = re.search(r"min-width:(\d+)px;font:12px", root.get("style"))
    assert int(least[1]) >= 11 / 12 * float(root.get("width"))


def told(svg: str, name: str = "data-told") -> dict:
    return json.loads(ET.fromstring(svg).get(name))


@pytest.mark.parametrize("timeline", [RUN, two(), two(down=True)], ids=str)
def test_a_drawing_says_what_it_shows_and_where(timeline) -> None:
    said, where = told(timeline.svg()), told(timeline.svg(), "data-places")
    assert said["rows"] == list(timeline.rows) and said["unit"] == timeline.unit
    assert where["down"] == timeline.down and len(where["rows"]) == len(timeline.rows)
    spans = {(said["rows"][row], start, end, said["kinds"][kind][0], label)
             for row, start, end, kind, label, *_ in said["spans"]}  # fmt: skip
    assert spans == {tuple(span[:5]) for span in timeline.spans if span.end > span.start}
    times, places = zip(*where["time"], strict=True)
    assert list(times) == sorted(times) and list(places) == sorted(places)
    assert times[0] == timeline.start and times[-1] == timeline.end


def test_the_reason_of_a_wait_stands_in_the_drawing() -> None:
    why = "slot 1's \"full\" & <more>"
    spans = [Span("warp 0", 0, 4, "wait", "", why), Span("warp 0", 4, 5, "x")]
    assert [span[5:] for span in told(two(spans=spans).svg())["spans"]] == [[why], []]


def test_every_wait_of_the_simulator_says_for_which_slot() -> None:
    waits = [span for span in RUN.spans if span.kind == "wait"]
    assert waits
    for span in waits:
        job = min((s for s in RUN.spans if s.row == span.row and s.start >= span.end and s.label),
                  key=lambda s: s.start).label  # fmt: skip
        (slot,) = {s.row for s in RUN.spans if s.row.startswith("slot") and s.label == job}
        state = "empty" if span.row.startswith("producer") else "full"
        assert span.waits_for == f"{slot} to be {state}"


@pytest.mark.parametrize("timeline", [RUN, two(), two(down=True)], ids=str)
def test_the_narrow_drawing_fits_on_a_phone_and_has_every_row(timeline) -> None:
    root = ET.fromstring(timeline.svg(narrow=True))
    assert float(root.get("width")) <= two_widths.NARROW
    words = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert set(timeline.rows) <= set(words) and "data-told" not in root.attrib


def test_long_sentences_go_on_below() -> None:
    long = "every thread waits and nothing is left that could wake one " * 5
    for down in (False, True):
        t = two(marks=[Mark("warp 1", 4, long)], down=down)
        for narrow, most in ((False, 800), (True, two_widths.NARROW)):
            assert float(ET.fromstring(t.svg(narrow)).get("width")) <= 1.1 * most


def test_columns_are_cut_before_a_drawing_is_wider_than_a_page() -> None:
    rows = [f"thread {n}" for n in range(6)]
    spans = [Span(row, n, n + 1, "produce", "start copy of item 3 to slot 1, part 0 of two")
             for n, row in enumerate(rows)]  # fmt: skip
    svg = Timeline(rows, spans, down=True).svg()
    assert float(ET.fromstring(svg).get("width")) <= 800
    assert svg.count(">start copy") == 6


def test_no_line_runs_through_a_box_or_its_words() -> None:
    """Boxes let the page through, so the line of a column has gaps where they stand."""
    rows, steps = ["a", "b"], [0, 1, 3]
    t = Timeline(rows, [Span("a", k, k + 1, "produce", "words") for k in steps], down=True)
    svg = t.svg()
    rails = [tuple(map(float, at)) for at in re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)", svg)]
    boxes = re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h", svg)[: len(steps)]
    assert len(rails) == 4  # three gaps beside the boxes of a, and all of b
    for x, y, w, h in (map(float, box) for box in boxes):
        assert not [r for r in rails if x < r[0] < x + w and r[1] < y + h - 1 and r[2] > y + 1]


def test_kinds_differ_without_colour() -> None:
    """In a text drawing by their sign; in the picture no two fixed kinds share hue and texture."""
    every = [*STYLES.values(), *SPARE]
    assert len({style.sign for style in every}) == len(every)
    assert len({(s.colour, s.texture) for s in STYLES.values()}) == len(STYLES)
    assert STYLES["produce"].texture != STYLES["consume"].texture


def _luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("ground", ["#ffffff", "#121212"])
@pytest.mark.parametrize("name", COLOURS)
def test_every_colour_reads_on_white_and_on_black(name, ground) -> None:
    one, other = sorted([_luminance(COLOURS[name]), _luminance(ground)])
    assert (other + 0.05) / (one + 0.05) >= 3


@settings(deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 20))
def test_ticks_are_round_few_and_inside(start, length, most) -> None:
    found = ticks(start, start + length, most)
    assert len(found) <= most + 1
    assert all(start - 1e-6 * length <= t <= start + length * (1 + 1e-6) for t in found)


@pytest.mark.parametrize(
    ("value", "text"),
    [(12, "12"), (3.5, "3.5"), (-0.25, "-0.25"), (-0.001, "0"), (0, "0"), (100, "100")],
)
def test_numbers_are_short(value, text) -> None:
    assert number(value) == text


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 9), st.sampled_from([*STYLES, "x", "y"])),
        max_size=20,
    )
)
def test_whatever_is_drawn_is_well_formed(spans) -> None:
    t = Timeline(["w"], [Span("w", a, a + n, kind, f"{a}&") for a, n, kind in spans])
    ET.fromstring(t.svg())
    str(t)


def test_numbers_of_marks_that_are_near_stand_apart() -> None:
    def places(second: float) -> list[tuple[float, bool]]:
        t = two(marks=[Mark("warp 1", 4, "one"), Mark("warp 1", second, "two")])
        found = re.findall(r'<text x="([\d.]+)" y="[\d.]+" style="stroke:none;([^"]*)">\d', t.svg())
        return [(float(x), "text-anchor:end" in style) for x, style in found]

    (one, before), (two_, after) = places(4.02)
    assert before and not after and two_ - one > 6
    assert [before for _, before in places(6)] == [False, False]


def test_the_first_number_of_the_scale_stands_apart_from_the_unit(monkeypatch) -> None:
    def apart(start: int) -> float:
        drawn = two(rows=["a"], spans=[Span("a", start, start + 900, "full")]).svg()
        unit = re.search(r'<text x="([\d.]+)" y="12" text-anchor="end">clock</text>', drawn)
        first = re.search(r'"middle">\s*<text x="([\d.]+)" y="[\d.]+">(\d+)</text>', drawn)
        assert unit
        assert first
        return float(first[1]) - width(first[2]) / 2 - float(unit[1])

    starts = 0, 95, 199, 998
    assert min(map(apart, starts)) > 3
    monkeypatch.setattr("phasebit.timeline.rightwards._APART", 60)
    assert min(map(apart, starts)) < 0
