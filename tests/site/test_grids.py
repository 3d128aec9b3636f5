"""The explorers that draw grids work out what the package does, in a page of their own."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import numpy as np
import pytest

from .conftest import HTML

pytestmark = pytest.mark.site

KINDS = {
    "law": "how_fast",
    "layout": "_layouts",
    "occupancy": "tiling_on_the_gpu",
    "fragment": "_tensor_cores",
    "box": "copy_engine",
}


def path(kind: str) -> str:
    (found,) = HTML.glob(f"book/**/*{KINDS[kind]}.html")
    return found.relative_to(HTML).as_posix()


@pytest.fixture(scope="module")
def tab(browser, site) -> Iterator[object]:
    page = browser.new_page()
    page.goto(site + path("layout"))
    yield page
    page.close()


def worked_out(tab, kind: str, values: dict[str, object]):
    """What a kind makes of some numbers, without the words on each cell."""
    return tab.evaluate(
        """([kind, values]) => {
          const made = phasebitGrids[kind](values);
          return typeof made === "string" ? made : {
            ...made, cells: made.cells.map((line) => line.map((cell) => cell ?? null)) };
        }""",
        [kind, values],
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_chapter_has_it_and_it_answers_the_keyboard(browser, site, kind: str) -> None:
    from .look import OVERFLOW, WIDTHS, Watch

    page = browser.new_page()
    watch = Watch(site)
    watch.attach(page)
    page.goto(site + path(kind))
    box = page.locator(f".phasebit-explorer[data-explorer={kind}]")
    before = box.get_by_role("status").inner_text(), box.locator("svg").inner_html()
    assert box.get_by_role("alert").inner_text() == ""
    field = box.locator("input").first
    field.focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("(4, 4) : (0, 1)" if kind == "layout" else "7")
    assert (box.get_by_role("status").inner_text(), box.locator("svg").inner_html()) != before
    page.keyboard.press("Control+a")
    page.keyboard.type("77777")
    assert box.get_by_role("alert").inner_text() != ""
    for width in WIDTHS.values():
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(OVERFLOW) == []
    assert watch.wrong == []
    page.close()


def test_the_rates_are_those_of_the_law(tab) -> None:
    from phasebit import pipeline
    from phasebit.pipeline import law

    some = random.Random(1)
    for _ in range(12):
        v = {"produce": some.randint(1, 9), "consume": some.randint(1, 9),
             "handoff": some.randint(0, 4), "consumers": some.randint(1, 8)}  # fmt: skip
        told = worked_out(tab, "law", v)["cells"]
        for p in range(8):
            for b in range(16):
                bounds = law.bounds(
                    pipeline.Pipeline(
                        producers=p + 1, consumers=v["consumers"], slots=b + 1,
                        produce=v["produce"], consume=v["consume"],
                        see_full=v["handoff"], see_empty=0,
                    )
                )  # fmt: skip
                assert abs(told[p][b]["rate"] - bounds.rate) < 1e-9
                assert set(told[p][b]["limits"]) <= {*bounds.limits}


def test_offsets_are_those_of_the_library(tab) -> None:
    from tensor_layouts import Layout

    for shape, stride in (
        ((4, 8), (8, 1)), ((4, 8), (1, 4)), ((4, (2, 4)), (2, (1, 8))), ((4, 8), (0, 1)),
        (((2, 2), (2, (2, 2))), ((1, 4), (2, (8, 16)))), (((4, 8), (2, 2)), ((32, 1), (16, 8))),
    ):  # fmt: skip
        told = worked_out(tab, "layout", {"layout": f"{shape} : {stride}"})["offsets"]
        real = Layout(shape, stride)
        wanted = [[real(r, c) for c in range(len(told[0]))] for r in range(len(told))]
        assert told == wanted
    for wrong in ("", "(4, 8)", "(4, 8) : (1, (2, 3))", "(4, 8, 2) : (1, 2, 3)", "(4, 8 : (1, 2)",
                  "(0, 8) : (1, 2)", "(400, 8) : (1, 2)", "alert(1)"):  # fmt: skip
        assert isinstance(worked_out(tab, "layout", {"layout": wrong}), str), wrong


def test_blocks_that_fit_are_those_of_the_package(tab) -> None:
    from phasebit.occupancy import limits, occupancy

    some = random.Random(2)
    for _ in range(300):
        arch = some.choice([75, 80, 90, 100])
        v = {"registers": some.randint(1, 255), "threads": some.randint(1, 1024),
             "shared": some.choice([0, some.randint(0, 64 * 1024)])}  # fmt: skip
        real = occupancy(limits(arch), v["registers"], v["shared"], v["threads"])
        told = worked_out(tab, "occupancy", {"gpu": f"sm_{arch}", **v})
        assert (told["blocks"], told["fits"]) == (real.blocks, real.fits), v


def test_a_box_is_the_piece_that_numpy_cuts(tab) -> None:
    some = random.Random(3)
    for _ in range(60):
        v = {name: some.randint(-3, 8) for name in "xyz"}
        v |= {"width": 4 * some.randint(1, 2), "height": some.randint(1, 8),
              "depth": some.randint(1, 8), "bytes": 4}  # fmt: skip
        told = worked_out(tab, "box", v)
        around = np.full((24, 24, 24), -1)
        around[8:12, 8:14, 8:16] = np.arange(4 * 6 * 8).reshape(4, 6, 8)
        z, y, x = (8 + v[axis] for axis in "zyx")
        cut = around[z : z + v["depth"], y : y + v["height"], x : x + v["width"]].ravel()
        places = np.array(told["numbers"]).ravel()
        assert [int(np.flatnonzero(places == n)[0]) if n in places else -1
                for n in range(cut.size)] == cut.tolist(), v  # fmt: skip
        assert told["said"].startswith(f"The barrier gets {4 * cut.size} bytes")
    assert "multiple of 16" in worked_out(tab, "box", {**v, "width": 3})


def test_a_lane_holds_what_the_emulator_gives_it(browser, site) -> None:
    from phasebit.emulator import fragments

    page = browser.new_page()
    page.goto(site + path("fragment"))
    for matrix, real, packed in (
        ("A of m16n8k16, f16, bf16", fragments.operand_a(16, 16, 2), 2),
        ("B of m16n8k32, s8, e4m3", fragments.operand_b(8, 32, 4), 4),
        ("C of m16n8k8, tf32", fragments.accumulator(16, 8), 1),
    ):
        for lane in (0, 5, 31):
            told = worked_out(page, "fragment", {"matrix": matrix, "lane": lane})
            assert f" {real.elements // packed} registers" in told["said"]
            places = re.findall(r"\((\d+), (\d+)\)", told["said"].partition("column):")[2])
            wanted = zip(real.row[lane], real.column[lane], strict=True)
            assert [(int(r), int(c)) for r, c in places] == [(int(r), int(c)) for r, c in wanted]
    assert isinstance(worked_out(page, "fragment", {"matrix": matrix, "lane": 32}), str)
    page.close()
