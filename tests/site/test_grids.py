"""The explorers that draw grids work out what the package does, in a page of their own."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator

import numpy as np
import pytest

from .conftest import HTML, ROOT

pytestmark = pytest.mark.site

KINDS = {
    "law": "how_fast",
    "layout": "_layouts",
    "divide": "_layouts",
    "tiles": "tiling_on_the_gpu",
    "occupancy": "tiling_on_the_gpu",
    "thread": "threads_and_memory",
    "sets": "caches_and_tiles",
    "roof": "_measuring",
    "order": "block_order",
    "loops": "_gemm",
    "fragment": "_tensor_cores",
    "box": "copy_engine",
    "barrier": "copy_engine",
    "cluster": "hopper_ring",
    "scales": "low_precision",
    "mesh": "two_gpus",
}


def path(kind: str) -> str:
    (found,) = HTML.glob(f"book/**/*{KINDS[kind]}.html")
    return found.relative_to(HTML).as_posix()


@pytest.fixture(scope="module")
def tab(browser, site) -> Iterator[object]:
    page = browser.new_page()
    page.goto(site + path("layout"))
    for script in sorted((ROOT / "book/_static").glob("explorer_*.js")):
        if script.name not in ("explorer_parts.js", "explorer_layouts.js"):  # which are there
            page.add_script_tag(path=script)
    yield page
    page.close()


def worked_out(tab, kind: str, values: dict[str, object]):
    """What a kind makes of some numbers, without the words on each cell."""
    made = "([kind, values]) => JSON.stringify(phasebitGrids[kind](values))"
    return json.loads(tab.evaluate(made, [kind, values]))  # a tenth of the time of an object


BESIDE = """() => [...document.querySelectorAll('.phasebit-explorer .pb-picture')]
  .map((one) => one.scrollWidth - one.clientWidth)"""
"""How much of each picture lies beside the screen."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_chapter_has_it_and_it_answers_the_keyboard(browser, site, kind: str) -> None:
    from .look import OVERFLOW, WIDTHS, Watch

    page = browser.new_page(viewport={"width": WIDTHS["phone"], "height": 900})
    watch = Watch(site)
    watch.attach(page)
    page.goto(site + path(kind))
    assert max(page.evaluate(BESIDE)) <= 1
    box = page.locator(f".phasebit-explorer[data-explorer={kind}]").first
    said = box.locator(".pb-lab-numbers")
    before = said.inner_text(), box.locator("svg").first.inner_html()
    assert box.get_by_role("alert").inner_text() == ""
    field = box.locator("input").first
    field.focus()
    page.keyboard.press("Control+a")
    typed = {"layout": "(4, 4) : (0, 1)", "divide": "(4, 4) : (0, 1)", "box": "8", "tiles": "32"}
    page.keyboard.type(typed.get(kind, "7"))
    assert (said.inner_text(), box.locator("svg").first.inner_html()) != before
    page.keyboard.press("Control+a")
    page.keyboard.type("7777777")
    assert box.get_by_role("alert").inner_text() != ""
    for width in reversed(WIDTHS.values()):  # the phone is at hand
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


def test_a_cell_of_the_law_that_is_chosen_is_told(tab) -> None:
    v = {"produce": 4, "consume": 4, "handoff": 2, "consumers": 1, "producers": 3, "slots": 2}
    told = worked_out(tab, "law", v)
    assert told["said"].startswith("With 3 producers, 2 slots and 1 consumer: 0.200 jobs a clock, ")
    assert told["cells"][2][1]["strong"] and not told["cells"][2][2]["strong"]
    levels = [cell["level"] for line in told["cells"] for cell in line]
    assert 0 < min(levels) < max(levels) <= 1


def test_a_thread_holds_what_the_layout_of_lanes_and_warps_says(tab) -> None:
    """Beside tensor-layouts: lanes of a warp row by row, warps of a block likewise."""
    from tensor_layouts import Layout

    for bm, bn, wm, wn, tm, tn in (
        (64, 64, 32, 32, 8, 4), (128, 128, 64, 32, 8, 8), (128, 64, 32, 64, 8, 8),
        (32, 64, 16, 8, 4, 1),
    ):  # fmt: skip
        down, across, warps_across = wm // tm, wn // tn, bn // wn
        lanes = Layout((across, down), (tn * bm, tm))  # lane -> offset, column-major
        warps = Layout((warps_across, bm // wm), (wn * bm, wm))
        for thread in (0, 1, 31, 32, 37, bm * bn // (tm * tn) - 1):
            told = worked_out(tab, "tiles", {
                "blockm": bm, "blockn": bn, "warpm": wm, "warpn": wn, "threadm": tm, "threadn": tn,
                "thread": thread,
            })  # fmt: skip
            place = warps(thread // 32) + lanes(thread % 32)
            assert (told["row"], told["column"]) == (place % bm, place // bm)
            cells = {cell["text"] for line in told["cells"] for cell in line}
            assert cells == set(range(told["threads"]))
    wrong = {"blockm": 64, "blockn": 64, "warpm": 32, "warpn": 32, "threadm": 8, "threadn": 8,
             "thread": 0}  # fmt: skip
    assert "a warp has 32 lanes" in worked_out(tab, "tiles", wrong)
    assert "does not divide" in worked_out(tab, "tiles", {**wrong, "warpm": 24})
    assert "at most 1024" in worked_out(
        tab, "tiles", {**wrong, "blockm": 256, "blockn": 256, "threadn": 4})  # fmt: skip


def test_where_a_thread_is_and_how_many_blocks_are_beside_it(tab) -> None:
    from phasebit.emulator.capabilities import REGISTER_FILES
    from phasebit.occupancy import limits, occupancy

    some = random.Random(7)
    ends = {True: 0, False: 0}
    for _ in range(200):
        v = {"gpu": f"sm_{some.choice([75, 80, 90, 100])}", "blocks": some.randint(1, 64),
             "cluster": some.choice([1, 1, 2, 4]), "threads": some.randint(1, 1024),
             "registers": some.randint(1, 128), "shared": some.choice([0, 16384, 49152]),
             "block": some.randint(0, 63), "warp": some.randint(0, 31), "lane": some.randint(0, 31),
             }  # fmt: skip
        arch = int(v["gpu"][3:])
        real = occupancy(limits(arch), v["registers"], v["shared"], v["threads"])
        index = 32 * v["warp"] + v["lane"]
        there = (
            v["block"] < v["blocks"] and index < v["threads"] and real.blocks > 0
            and v["blocks"] % v["cluster"] == 0 and (v["cluster"] == 1 or arch >= 90)
        )  # fmt: skip
        told = worked_out(tab, "thread", v)
        assert isinstance(told, str) is not there, (v, told)
        ends[there] += 1
        if there:
            assert (told["fit"], told["index"]) == (real.blocks, index)
            assert told["part"] == v["warp"] % REGISTER_FILES
            assert f"{real.warps} of {real.most_warps} warps" in told["said"]
            assert f"thread {v['block'] * v['threads'] + index} of" in told["said"]
    assert min(ends.values()) > 30


def test_lines_stay_in_the_sets_of_the_packages_cache(tab) -> None:
    from phasebit import caches

    some = random.Random(8)
    for _ in range(60):
        v = {"address": some.randrange(1 << 16), "line": some.choice([32, 64, 128]),
             "sets": some.choice([1, 4, 64]), "ways": some.randint(1, 8),
             "stride": some.choice([4, 60, 64, 1024, 4096]), "steps": some.randint(1, 60),
             }  # fmt: skip
        told = worked_out(tab, "sets", v)
        level = caches.Level("L1", v["line"], v["sets"], v["ways"])
        walk = [v["address"] + k * v["stride"] for k in range(v["steps"])]
        assert told["misses"] == caches.trace(walk, [level]).misses["L1"]
        for number, held in zip(told["used"], told["kept"], strict=True):
            _, lines = caches.kept(walk, level, number)[-1]
            assert [cell["text"] for cell in held if cell] == [*lines]
        assert (told["tag"] * v["sets"] + told["set"]) * v["line"] + told["byte"] == v["address"]
    assert "powers of two" in worked_out(tab, "sets", {**v, "sets": 12})


def test_a_product_lies_where_the_package_puts_it_under_the_roof(tab) -> None:
    from phasebit import measure

    some = random.Random(9)
    for _ in range(40):
        m, n, k = (2 ** some.randint(0, 13) for _ in range(3))
        v = {"m": m, "n": n, "k": k, "bytes": some.choice([1, 2, 4, 8]),
             "bandwidth": some.randint(100, 8000), "rate": some.randint(1, 2000)}  # fmt: skip
        told = worked_out(tab, "roof", v)
        moved = v["bytes"] * (m * k + k * n + m * n)
        point = measure.place("it", measure.matmul_flop(m, n, k), moved, 1.0)
        assert told["intensity"] == pytest.approx(point.intensity)
        most = min(v["rate"], point.intensity * v["bandwidth"] / 1000)
        assert told["most"] == pytest.approx(most)
        assert (told["limit"] == "arithmetic") == (most == v["rate"])


def test_the_roof_that_is_offered_is_the_one_that_was_measured(loaded) -> None:
    from phasebit import measure

    page = loaded(path("roof"))
    told, roof = page.evaluate("() => phasebitRoof"), measure.roofline()
    assert told["bandwidth"] == round(1000 * roof.bandwidth)
    assert told["rates"] == {name: round(rate) for name, rate in roof.rates.items()}


def test_blocks_run_in_the_orders_of_the_package(tab) -> None:
    from phasebit.chapters.block_order import orders

    for rows, columns, high in ((8, 12, 4), (5, 7, 3), (16, 16, 16), (1, 9, 2), (6, 4, 1)):
        real = {
            "row by row": orders.rows_first(rows, columns),
            "super-rows": orders.super_rows(rows, columns, high),
            "Hilbert's curve": orders.hilbert(rows, columns),
        }
        for name, parts in real.items():
            v = {"order": name, "rows": rows, "columns": columns, "high": high, "resident": 5}
            told = worked_out(tab, "order", {**v, "wave": 1})
            assert [tuple(part) for part in told["parts"]] == parts
            now = parts[5:10]
            assert {*told["ofA"]} == {row for row, _ in now}
            assert {*told["ofB"]} == {column for _, column in now}
            assert "waves" in worked_out(tab, "order", {**v, "wave": 99})


def test_gpus_of_a_mesh_hold_what_the_chapters_table_says(tab) -> None:
    from phasebit.chapters.two_gpus import meshes

    some = random.Random(17)
    ways = ["rows", "columns", "copies", "at 0", "at 1", "at 3"]
    kept = 0
    for _ in range(200):
        rows, columns = some.choice([1, 7, 8, 100, 8192]), some.choice([1, 5, 64, 4096])
        down, across = some.choice([1, 2, 4, 8]), some.choice([1, 2, 4, 8])
        first, second = some.choice(ways), some.choice(ways)
        axis, size = some.randint(0, 1), some.choice([1, 2, 4])
        told = worked_out(tab, "mesh", {
            "rows": rows, "columns": columns, "bytes": size, "down": down, "across": across,
            "divdown": first, "divacross": second, "gather": ["down", "across"][axis],
        })  # fmt: skip
        along = [int(way[3:]) if way.startswith("at") else way for way in (first, second)]
        if down * across > 16:
            assert "16 at most" in told
            continue
        try:
            parts = meshes.held((rows, columns), (down, across), tuple(along))
        except ValueError:
            assert "nothing lies at" in told
            continue
        kept += 1
        more = meshes.brought(parts, axis)
        for one, (place, part) in zip(told["gpus"], parts.items(), strict=True):
            assert tuple(one["place"]) == place
            assert [range(*one["rows"]), range(*one["columns"])] == [*part], (place, told["said"])
            assert one["bytes"] == part.size * size and one["brought"] == more[place] * size
        held = {part: [] for part in parts.values() if part.size}
        for number, part in enumerate(parts.values()):
            if part.size:
                held[part].append(number)
        assert [one["gpus"] for one in told["parts"]] == [*held.values()]
    assert kept > 60


def test_pointing_at_a_gpu_shows_its_part(loaded) -> None:
    page = loaded(path("mesh"))
    box = page.locator(".phasebit-explorer[data-explorer=mesh]")
    assert "Each of 2 GPUs holds 4096 × 8192 numbers, 64 MiB" in box.inner_text()
    told = box.locator(".pb-x-told")
    assert told.inner_text().startswith("GPU 0, (0, 0) of the mesh, holds rows 0 to 4095")
    box.get_by_label("GPUs across").select_option("2")
    box.get_by_label("laid across").select_option("columns")
    box.locator('[data-at="1,0"]').hover()
    assert told.inner_text() == (
        "GPU 2, (1, 0) of the mesh, holds rows 4096 to 8191, columns 0 to 4095: 32 MiB. "
        "The all-gather down brings it 32 MiB, from the GPUs with a dashed frame."
    )
    lit = ".pb-x-same", ".pb-x-near"
    places = [[one.get_attribute("data-at") for one in box.locator(c).all()] for c in lit]
    assert places == [["1,0", "part,2"], ["0,0", "part,0"]]
    box.locator(".pb-picture").focus()
    page.keyboard.press("ArrowUp")
    assert told.inner_text().startswith("GPU 0")
    box.get_by_label("laid across").select_option("at 1")
    assert "holds nothing" in told.inner_text()
    box.get_by_label("laid across").select_option("at 2")
    assert "across there are the numbers 0 to 1" in box.get_by_role("alert").inner_text()


def test_each_loop_holds_still_what_the_chapter_draws(tab) -> None:
    """Beside `five_loops` of the chapter: the parts in its words, loop by loop."""
    from phasebit.chapters.gemm import view
    from phasebit.chapters.gemm.cpu_ladder import Block

    sizes = {"m": 96, "n": 96, "k": 64, "mc": 48, "nc": 48, "kc": 32, "mr": 8, "nr": 16, "bytes": 4}
    words = str(view.five_loops(96, 96, 64, Block(mc=48, kc=32, nc=48), (8, 16), (0,) * 5))
    lines = words.split(".", 1)[1].strip().splitlines()
    assert len(lines) == 5
    for loop, line in enumerate(lines):
        told = worked_out(tab, "loops", {**sizes, "loop": str(loop), "round": 0})
        for name, shape in re.findall(r"([ABC]) (\d+ × \d+)", line):
            (a, b), (c, d) = told["parts"][name]
            assert f"{b - a} × {d - c}" == shape, (loop, name)
            assert told["sizes"][name] == 4 * (b - a) * (d - c)


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


def test_tiles_are_those_of_the_library(tab) -> None:
    from tensor_layouts import Layout, zipped_divide

    some = random.Random(5)
    for shape, stride in (
        ((8, 8), (8, 1)), ((8, 12), (1, 8)), ((4, (2, 4)), (2, (1, 8))), ((4, 8), (0, 1)),
        (((2, 4), (2, 2, 3)), ((1, 16), (2, 8, 64))), (((4, 8), (2, 2)), ((32, 1), (16, 8))),
    ):  # fmt: skip
        real = Layout(shape, stride)
        rows, columns = (int(np.prod(np.ravel(mode))) if isinstance(mode, int) else
                         int(np.prod(np.array(mode))) for mode in shape)  # fmt: skip
        made = 0
        for _ in range(40):
            down, across = (some.choice([1, 2, 3, 4, 6, 8]) for _ in range(2))
            apart = some.choice([1, 1, 2, 4])
            told = worked_out(tab, "divide", {
                "layout": f"{shape} : {stride}", "tiler": f"{down}:{apart}, {across}"})  # fmt: skip
            if isinstance(told, str):
                whole = rows % (down * apart) == columns % across == 0
                assert not whole or "does not fit" in told, (shape, down, apart, across, told)
                if whole:
                    with pytest.raises(ValueError):
                        zipped_divide(real, (Layout(down, apart), Layout(across, 1)))
                continue
            made += 1
            cut = zipped_divide(real, (Layout(down, apart), Layout(across, 1)))
            said = Layout(*(eval(part) for part in told["whole"].split(" : ")))
            for row in range(rows):
                for column in range(columns):
                    place = told["places"][row][column]
                    within, tile = int(place["within"]), int(place["tile"])
                    offset = told["offsets"][row][column]
                    assert cut(within, tile) == said(within, tile) == offset == real(row, column)
        assert made > 5
    for wrong in ("", "2", "2, 4, 1", "3, 4", "2, x", "2:3, 1", "0, 4"):
        assert isinstance(worked_out(tab, "divide", {"layout": "(8, 8) : (8, 1)",
                                                     "tiler": wrong}), str)  # fmt: skip


def test_a_barrier_counts_as_the_packages(tab) -> None:
    from phasebit.mbarrier import Mbarrier, MbarrierError

    some = random.Random(6)
    ends = {True: 0, False: 0}
    for _ in range(120):
        count = some.randint(1, 4)
        events = [
            some.choice([f"arrive {some.randint(1, 2)}", "arrive",
                         f"expect {16 * some.randint(0, 3)}", f"bytes {16 * some.randint(1, 3)}"])
            for _ in range(some.randint(1, 7))
        ]  # fmt: skip
        real = Mbarrier(count, check_observed=False)
        states = [(real.phase, real.pending, real.tx)]
        waits = [[real.test_wait_parity(0), real.test_wait_parity(1)]]
        for event in events:
            what, _, number = event.partition(" ")
            act = {"arrive": real.arrive, "expect": real.arrive_expect_tx,
                   "bytes": real.complete_tx}[what]  # fmt: skip
            try:
                act(int(number or 1))
            except MbarrierError:
                states = []
                break
            states.append((real.phase, real.pending, real.tx))
            waits.append([real.test_wait_parity(0), real.test_wait_parity(1)])
        told = worked_out(tab, "barrier", {"count": count, "events": ", ".join(events)})
        assert isinstance(told, str) is not states, (count, events, told)
        ends[bool(states)] += 1
        if states:
            assert [(s["phase"], s["pending"], s["tx"]) for s in told["states"]] == states
            assert [[c["text"] == "goes on" for c in line[4:]] for line in told["cells"]] == waits
    assert min(ends.values()) > 20
    for wrong in ("bytes", "arrive 0", "arrive -1", "land 3", "expect 1048576", "arrive, arrive 5"):
        assert isinstance(worked_out(tab, "barrier", {"count": 2, "events": wrong}), str), wrong


BOXES = """
#include <cuda.h>
#include "ptx_sm90.cuh"
// One thread fetches a box that counts as `bytes`; out: the first 8192 words of the tile.
extern "C" __global__ void fetch(const __grid_constant__ CUtensorMap map, const int* at, int* out,
                                 int bytes)
{
    extern __shared__ __align__(1024) int tile[];
    __shared__ unsigned long long full;
    for (int i = threadIdx.x; i < 8192; i += 32) tile[i] = 0x7777;
    if (threadIdx.x == 0) ptx::mbarrier_init(&full, 1);
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::mbarrier_arrive_expect_tx(&full, bytes);
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
                     ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
            :: "r"(ptx::shared_address(tile)), "l"(&map), "r"(ptx::shared_address(&full)),
               "r"(at[0]), "r"(at[1]), "r"(at[2]) : "memory");
    }
    ptx::mbarrier_wait(&full, 0);
    for (int i = threadIdx.x; i < 8192; i += 32) out[i] = tile[i];
}
"""


def boxes(some: random.Random) -> dict[str, object]:
    """What a reader might ask of a box."""
    return {
        "x": some.choice([-4, -2, 0, 3, 4, 8, 12, 14, 16]), "y": some.randint(-3, 6),
        "z": some.randint(-3, 3),
        "width": some.choice([2, 4, 6, 8, 12, 16, 32]), "height": some.randint(1, 8),
        "depth": some.randint(1, 4), "stepy": some.choice([1, 1, 2, 3]),
        "stepz": some.choice([1, 1, 2]), "type": some.choice(["f32", "f64"]),
        "swizzle": some.choice(["none", "32B", "64B", "128B"]),
        "outside": some.choice(["zeros", "NaN"]),
    }  # fmt: skip


@pytest.mark.nvcc
def test_a_box_lies_where_the_emulator_puts_it(tab) -> None:
    """Each element of many boxes, by a kernel that fetches them on the emulator."""
    from phasebit import TensorMap, files
    from phasebit.emulator import Fault, LaunchError
    from phasebit.launching import launch

    kernel = launch.compile(BOXES, "sm_90a", ["-I", str(files.kernels() / "include")])["fetch"]
    some = random.Random(3)
    ends = {True: 0, False: 0}
    for _ in range(60):
        v = boxes(some)
        kind = {"f32": np.float32, "f64": np.float64}[v["type"]]
        tensor = np.arange(1, 1 + 3 * 6 * 16, dtype=kind).reshape(3, 6, 16)
        told = worked_out(tab, "box", v)
        try:
            made = TensorMap(
                tensor, (v["width"], v["height"], v["depth"]), data_type=v["type"],
                element_strides=(1, v["stepy"], v["stepz"]), swizzle=v["swizzle"],
                oob_fill=v["outside"].lower(),
            )  # fmt: skip
        except LaunchError as error:
            assert isinstance(told, str), (v, error)
            ends[False] += 1
            continue
        out = np.zeros(8192, np.int32)
        at = np.array([v[axis] for axis in "xyz"], np.int32)
        try:
            kernel.launch(1, 32, [made, at, out, made.nbytes], shared=32768 + 1024)
        except Fault as error:
            assert isinstance(told, str) and "must begin at" in told, (v, error)
            ends[False] += 1
            continue
        assert not isinstance(told, str), (v, told)
        ends[True] += 1
        assert told["said"].startswith(f"The barrier gets {made.nbytes} bytes")
        words = out.view(kind)
        for line, drawn in enumerate(told["memory"]):
            for column, cell in enumerate(drawn):
                held = words[line * len(drawn) + column]
                if cell is None:
                    assert out[(line * len(drawn) + column) * kind().nbytes // 4] == 0x7777, v
                elif cell["faint"]:
                    assert held == 0 if v["outside"] == "zeros" else np.isnan(held), (v, held)
                else:
                    z, y, x = np.argwhere(tensor == held)[0]
                    assert told["numbers"][z][y][x] == cell["number"], (v, cell)
    assert min(ends.values()) > 10
    assert "multiple of 16" in worked_out(tab, "box", {**v, "width": 3})


TILES = """
#include "ptx_sm90.cuh"
// A block has a tile of A, 32 numbers, and one of B, 16. It fetches its part of each, for `masks`.
extern "C" __global__ void share(const int* a, const int* b, const int* told, int* out, int across)
{
    __shared__ alignas(128) int tile[48];
    __shared__ unsigned long long full;
    const int me = blockIdx.x + blockIdx.y * gridDim.x;
    const int* mine = told + 6 * me;  // part, parts and mask of A, then of B
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
    ptx::cluster_arrive();
    ptx::cluster_wait();
    if (threadIdx.x == 0) {
        ptx::mbarrier_arrive_expect_tx(&full, sizeof tile);
        for (int which = 0; which < 2; ++which) {
            const int rows = which ? 16 : 32, each = rows / mine[3 * which + 1];
            const int first = mine[3 * which] * each;
            const int* from = (which ? b + 16 * blockIdx.y : a + 32 * blockIdx.x) + first;
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                         ".multicast::cluster [%0], [%1], %2, [%3], %4;"
                :: "r"(ptx::shared_address(tile + 32 * which + first)), "l"(from), "r"(each * 4),
                   "r"(ptx::shared_address(&full)), "h"((short)mine[3 * which + 2]) : "memory");
        }
    }
    ptx::mbarrier_wait(&full, 0);
    out[49 * me + threadIdx.x] = tile[threadIdx.x];
    if (threadIdx.x == 0) out[49 * me + 48] = rank;
    ptx::cluster_arrive();
    ptx::cluster_wait();
}
"""


@pytest.mark.nvcc
@pytest.mark.parametrize("down, across", [(2, 1), (1, 2), (2, 2), (4, 1), (2, 4), (1, 8)])
def test_by_its_masks_every_block_gets_its_tiles(tab, down: int, across: int) -> None:
    """On the emulator: each block fetches what the explorer says, for whom it says."""
    from phasebit import files
    from phasebit.launching import launch

    told = np.zeros((8, 8, 6), np.int32)  # [along n, along m]
    ranks = np.zeros((8, 8), np.int32)
    for row in range(8):
        for column in range(8):
            made = worked_out(tab, "cluster", {
                "down": down, "across": across, "row": row, "column": column, "m": 32, "n": 16,
                "depth": 8,
            })  # fmt: skip
            told[column, row] = [made[one][what] for one in "ab"
                                 for what in ("part", "parts", "mask")]  # fmt: skip
            ranks[column, row] = made["mine"]
            assert made["cells"][row][column]["rank"] == made["mine"]
            assert made["shared"] * down * across == made["alone"] * (
                down * 32 + across * 16) / 48  # fmt: skip
            assert made["hears"] == down + across - 1
    a, b = np.arange(8 * 32, dtype=np.int32), 1000 + np.arange(8 * 16, dtype=np.int32)
    out = np.full((8, 8, 49), -1, np.int32)
    module = launch.compile(TILES, "sm_90a", ["-I", str(files.kernels() / "include")])
    module["share"].launch((8, 8), 48, [a, b, told.ravel(), out.ravel(), across],
                           cluster=(down, across))  # fmt: skip
    for column in range(8):
        for row in range(8):
            wanted = [*a[32 * row :][:32], *b[16 * column :][:16], ranks[column, row]]
            assert out[column, row].tolist() == wanted


def test_who_shares_what_cannot_be_cut_is_refused(tab) -> None:
    asked = {"down": 2, "across": 2, "row": 0, "column": 0, "m": 129, "n": 16, "depth": 8}
    assert "whole rows" in worked_out(tab, "cluster", asked)
    assert "not portable" in worked_out(tab, "cluster", {**asked, "m": 8, "down": 8})


def test_a_scale_lies_where_the_emulator_reads_it(tab) -> None:
    from phasebit.emulator import block_scales, scaled_descriptors

    rows = np.repeat(np.arange(128, dtype=np.uint8)[:, None], 4, 1)
    parts = np.tile(np.arange(4, dtype=np.uint8), (128, 1))
    cells = {what: block_scales.words(x).copy().view(np.uint8).reshape(32, 4, 4)
             for what, x in (("row", rows), ("part", parts))}  # fmt: skip
    atoms = {"row": block_scales.atoms(rows)[0], "part": block_scales.atoms(parts)[0]}
    some = random.Random(4)
    for kind, vectors in scaled_descriptors.VECTORS.items():
        for vector, per_row in vectors.items():
            if not vector.startswith("scale_vec"):
                continue
            depth = scaled_descriptors.K[kind]
            for _ in range(12):
                row, k = some.randrange(128), some.randrange(256)
                told = worked_out(tab, "scales", {"kind": f"{kind}, {vector}", "row": row, "k": k})
                number = k * per_row // depth
                lane, word = told["lane"], told["column"] - 4 * told["atom"]
                assert told["atom"] == number // 4
                assert cells["row"][lane, word, told["byte"]] == row
                assert cells["part"][lane, word, told["byte"]] == number % 4
                assert atoms["row"][told["place"]] == row
                assert atoms["part"][told["place"]] == number % 4
                assert told["id"] in scaled_descriptors.IDS[per_row]
                assert told["step"] == k // depth
                read = {part for part in range(4) if not told["cells"][0][part]["faint"]}
                first = number % 4 - (k % depth) * per_row // depth
                assert read == {*range(first, first + per_row)} and first == told["id"]
                for line, drawn in enumerate(told["cells"]):
                    held = [cell["row"] for cell in drawn]
                    assert held == cells["row"][line].ravel().tolist()


def test_a_lane_holds_what_the_emulator_gives_it(tab) -> None:
    from phasebit.emulator import fragments

    for matrix, real, packed in (
        ("A of m16n8k16, f16, bf16", fragments.operand_a(16, 16, 2), 2),
        ("B of m16n8k32, s8, e4m3", fragments.operand_b(8, 32, 4), 4),
        ("C of m16n8k8, tf32", fragments.accumulator(16, 8), 1),
        ("ldmatrix.x1, 16 bits", fragments.operand_a(8, 8, 2), 2),
    ):
        for lane in (0, 5, 31):
            told = worked_out(tab, "fragment", {"matrix": matrix, "lane": lane})
            assert f" {real.elements // packed} registers" in told["said"]
            places = re.findall(r"\((\d+), (\d+)\)", told["said"].partition("column):")[2])
            wanted = zip(real.row[lane], real.column[lane], strict=True)
            assert [(int(r), int(c)) for r, c in places] == [(int(r), int(c)) for r, c in wanted]
    assert isinstance(worked_out(tab, "fragment", {"matrix": matrix, "lane": 32}), str)


def places(page, matrix: str, lane: int) -> list[tuple[int, int]]:
    """What the explorer says that a lane holds."""
    told = worked_out(page, "fragment", {"matrix": matrix, "lane": lane})
    found = re.findall(r"\((\d+), (\d+)\)", told["said"].partition("column):")[2])
    return [(int(row), int(column)) for row, column in found]


def test_a_thread_of_a_warp_group_holds_what_the_library_says(tab) -> None:
    from tensor_layouts import atoms_nv

    atom = atoms_nv.SM90_64x16x16_F32F16F16_SS
    for thread in (0, 5, 31, 32, 77, 127):
        held = places(tab, "D of wgmma m64n16, f32", thread)
        assert len(held) == 8
        for value, (row, column) in enumerate(held):
            assert atom.c_layout(thread, value) == row + 64 * column
    assert "0 to 127" in worked_out(
        tab, "fragment", {"matrix": "D of wgmma m64n16, f32", "lane": 128}
    )


LOADED = """
#include "ptx.cuh"
// Four matrices of 8 × 8: element e of row r is 8 r + e. Lane t's registers go to out + 4 t.
extern "C" __global__ void load(unsigned* out)
{
    __shared__ alignas(16) unsigned short rows[32][8];
    for (int e = 0; e < 8; ++e) rows[threadIdx.x][e] = 8 * threadIdx.x + e;
    __syncwarp();
    unsigned a = 0, b = 0, c = 0, d = 0;
    const unsigned at = (unsigned)__cvta_generic_to_shared(rows[threadIdx.x]);
    asm volatile("ldmatrix.sync.aligned.m8n8.xCOUNT.shared.b16 {REGISTERS}, [%4];"
                 : "+r"(a), "+r"(b), "+r"(c), "+r"(d) : "r"(at) : "memory");
    out[4 * threadIdx.x] = a, out[4 * threadIdx.x + 1] = b;
    out[4 * threadIdx.x + 2] = c, out[4 * threadIdx.x + 3] = d;
}
"""


@pytest.mark.nvcc
@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_gives_each_lane_what_the_explorer_says(tab, count, trans) -> None:
    from phasebit import files
    from phasebit.launching import launch

    registers = ", ".join(f"%{n}" for n in range(count))
    text = LOADED.replace("xCOUNT", f"x{count}{trans}").replace("REGISTERS", registers)
    out = np.zeros((32, 4), np.uint32)
    kernel = launch.compile(text, "sm_90a", ["-I", str(files.kernels() / "include")])["load"]
    kernel.launch(1, 32, [out])
    held = out.view(np.uint16).reshape(32, 8)[:, : 2 * count]
    for lane in range(32):
        said = [8 * row + column for row, column in
                places(tab, f"ldmatrix.x{count}{trans}, 16 bits", lane)]  # fmt: skip
        assert said == held[lane].tolist()


# -- cells that are chosen, and the page's address -------------------------------------


def chosen(box) -> list[str]:
    return box.locator(".pb-x-same > title").all_text_contents()


def test_a_lane_lights_all_that_it_holds_by_click_and_by_key(loaded) -> None:
    page = loaded(path("fragment"))
    box = page.locator(".phasebit-explorer[data-explorer=fragment]").first
    told, lane = box.locator(".pb-x-told"), box.get_by_role("spinbutton", name="lane")
    assert told.inner_text().startswith("Click a cell")
    box.locator(".pb-x-cell", has_text="17").first.click()
    assert lane.input_value() == "17"
    assert "lane 17" in told.inner_text()
    assert len(chosen(box)) == 8 and all("lane 17," in title for title in chosen(box))
    box.locator(".pb-picture").focus()
    before = told.inner_text()
    page.keyboard.press("ArrowDown")
    assert told.inner_text() != before and lane.input_value() == "17"
    page.keyboard.press("Enter")
    assert f"lane {lane.input_value()}," in told.inner_text()


def test_the_address_keeps_what_was_chosen(browser, site) -> None:
    page = browser.new_page()
    page.goto(site + path("divide"))
    box = page.locator(".phasebit-explorer[data-explorer=divide]")
    assert "x" not in page.url.partition("?")[2]
    box.get_by_label("shape : strides").fill("(8, 12) : (1, 8)")
    box.get_by_label("tiler").fill("4:2, 3")
    said = box.locator(".pb-lab-numbers").inner_text()
    again = browser.new_page()
    again.goto(page.url)
    other = again.locator(".phasebit-explorer[data-explorer=divide]")
    assert other.get_by_label("tiler").input_value() == "4:2, 3"
    assert other.locator(".pb-lab-numbers").inner_text() == said
    assert again.locator(".phasebit-explorer[data-explorer=layout] input").input_value() == (
        "(4, (2, 4)) : (2, (1, 8))")  # fmt: skip
    page.close()
    again.close()


def test_a_box_that_is_refused_is_drawn_and_told(loaded) -> None:
    page = loaded(path("box"))
    box = page.locator(".phasebit-explorer[data-explorer=box]")
    assert box.locator("svg").count() == 3
    box.get_by_label("corner x").fill("3")
    assert "must begin at a multiple of 16" in box.get_by_role("alert").inner_text()
    assert box.locator("svg").count() == 1 and "(3, 1, 1)" in box.locator("svg").inner_html()
    box.get_by_label("corner x").fill("12")
    assert box.locator(".pb-x-inside").count() == 3 and box.locator("svg").count() == 3
