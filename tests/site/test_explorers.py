"""The explorers work out what the emulator does, and can be used by keyboard, on a phone too."""

from __future__ import annotations

import random

import numpy as np
import pytest

from .conftest import HTML

PAGES = [
    path.relative_to(HTML).as_posix()
    for path in sorted(HTML.glob("book/**/*.html"))
    if 'class="phasebit-explorer"' in path.read_text(encoding="utf-8")
]

pytestmark = pytest.mark.site


def path(chapter: str) -> str:
    return next(page for page in PAGES if chapter in page)


@pytest.mark.parametrize(
    ("chapter", "wavefronts"),
    [("threads_and_memory", 32), ("_layouts", 16), ("tensor_cores", 32), ("copy_engine", 32)],
)
def test_the_chapters_on_banks_have_one(loaded, chapter: str, wavefronts: int) -> None:
    """Each shows conflicts to begin with, in the way of reading that its page is about."""
    tab = loaded(path(chapter))
    box = tab.locator(".phasebit-explorer[data-explorer=banks]").first
    preset = box.evaluate("box => ({ ...box.dataset })")
    assert box.locator(".pb-lab-numbers").inner_text().startswith(f"{wavefronts} wavefronts")
    for label, name in {
        "bytes a row": "row",
        "bytes a lane": "size",
        "a warp reads": "way",
    }.items():
        assert box.get_by_label(label).input_value() == preset[name]


def test_padding_takes_the_conflicts_of_a_column_away(loaded) -> None:
    tab = loaded(path("threads_and_memory"))
    box = tab.locator(".phasebit-explorer[data-explorer=banks]").first
    said = box.locator(".pb-lab-numbers")
    assert said.inner_text().startswith("32 wavefronts")
    box.get_by_label("bytes a row").select_option("132")
    assert said.inner_text().startswith("1 wavefront ")
    box.get_by_label("bytes a lane").select_option("16")
    assert "whole pieces of 16" in box.get_by_role("alert").inner_text()
    box.get_by_label("bytes a row").select_option("144")
    assert said.inner_text().startswith("4 wavefronts")


@pytest.fixture
def good(loaded):
    """Shared pages of which nothing sticks out or is pale after the test."""
    from .look import assert_good

    asked = []

    def page(chapter: str):
        asked.append(loaded(path(chapter)))
        return asked[-1]

    yield page
    for tab in asked:
        assert_good(tab)


@pytest.fixture
def script(loaded):
    """A page whose functions are called, and in which nothing is changed."""
    return loaded(path("copy_engine"))


def choices(seed: int) -> dict[str, int | str]:
    """Numbers that a reader might choose."""
    some = random.Random(seed)
    bits, row = some.randint(0, 3), some.choice([64, 128, 132, 144, 256, 512])
    size = some.choice([size for size in (4, 8, 16) if row % size == 0])
    return {
        "bits": bits,
        "low": some.randint(4, 6),
        "shift": some.randint(3, 5),
        "row": row,
        "size": size,
        "way": some.choice(["column", "row", "matrices"]),
        "column": some.randint(0, row // size - 1),
    }


def wanted(v) -> np.ndarray:
    """The addresses of 32 lanes, by the emulator's swizzle."""
    from phasebit.emulator import swizzle

    lane = np.arange(32)
    rows, bytes_ = {
        "column": (lane, 0 * lane + v["column"] * v["size"]),
        "row": (lane * v["size"] // v["row"], lane * v["size"] % v["row"]),
        "matrices": (lane % 8, (lane // 8 + v["column"]) * v["size"] % v["row"]),
    }[v["way"]]
    return swizzle.Swizzle("own", 0, v["bits"], v["low"], v["shift"])(rows * v["row"] + bytes_)


def test_addresses_and_wavefronts_are_the_emulators(script) -> None:
    from phasebit.emulator import traffic

    for seed in range(60):
        v = choices(seed)
        lanes = script.evaluate("v => phasebitExplorers.addresses(v)", v)
        assert lanes == wanted(v).tolist(), v
        asked = [lanes, v["size"]]
        found = script.evaluate("([a, n]) => phasebitExplorers.wavefronts(a, n)", asked)
        total, lost = traffic.bank_passes(np.array(lanes), v["size"])
        assert sum(part["count"] for part in found) == total, v
        assert len(found) == total - lost, v


def test_a_swizzle_takes_the_conflicts_away(good) -> None:
    box = good("copy_engine").locator(".phasebit-explorer[data-explorer=banks]").first
    said = box.locator(".pb-lab-numbers")
    assert said.inner_text().startswith("32 wavefronts")
    assert "the busiest bank must give 8" in box.locator("svg").first.inner_html()
    box.locator(".pb-x-cell").first.click()
    assert "bank 8, which must give 8 words" in box.locator(".pb-x-told").inner_text()
    assert box.locator(".pb-x-same").count() == 4 and box.locator(".pb-x-near").count() == 7
    box.get_by_label("swizzle").select_option("128B")
    assert said.inner_text().startswith("4 wavefronts")
    assert box.get_by_label("bits that move").input_value() == "3"
    box.get_by_label("bits that move").fill("2")
    assert box.get_by_label("swizzle").input_value() == "own"
    assert said.inner_text().startswith("8 wavefronts")


def test_numbers_that_make_no_picture_are_refused(good) -> None:
    box = good("copy_engine").locator(".phasebit-explorer[data-explorer=banks]").first
    for label, value, says in (
        ("bits that move", "5", "shift at least as many as move"),
        ("first of them", "2", "must stay together"),
        ("element of the row", "9", "has elements 0 to 7"),
        ("element of the row", "", "give a whole number"),
    ):
        box.get_by_label("swizzle").select_option("128B")
        field = box.get_by_label(label)
        before = field.input_value()
        field.fill(value)
        assert says in box.get_by_role("alert").inner_text()
        field.fill(before)
        assert box.get_by_role("alert").inner_text() == ""


# -- descriptors --------------------------------------------------------------------


def test_the_fields_of_matrix_descriptors_are_the_emulators(script) -> None:
    from phasebit.emulator import matrix_descriptors

    some = random.Random(1)
    for family, modes in matrix_descriptors.SWIZZLES.items():
        low = 62 if family == "wgmma" else 61
        for mode in modes:
            start, leading, stride = (some.randrange(1 << 14) for _ in range(3))
            bits = start | leading << 16 | stride << 32 | (family == "tcgen05") << 46 | mode << low
            read = matrix_descriptors.decode(bits, family)
            view = f"matrix, {family}"
            told = script.evaluate("([v, h]) => phasebitExplorers.fields(v, h)", [view, hex(bits)])
            words = {field["name"]: field["words"] for field in told["found"]}
            assert words["address"] == str(read.start)
            assert words["leading offset"] == str(read.leading)
            assert words["stride offset"] == str(read.stride)
            assert words["swizzle"] == read.swizzle.name
            assert told["stray"] == [] and all(field["known"] for field in told["found"])


def test_the_fields_of_instruction_descriptors_are_the_emulators(script) -> None:
    from phasebit.emulator import instruction_descriptors as words_of

    for kind, types in words_of.TYPES.items():
        for a in types.values():
            d = next(iter(words_of.RESULTS[kind].values()))
            bits = words_of.encode(kind, 128, 96, a, a, d, negate_b=kind != "i8")
            view = f"instruction, kind::{kind}"
            told = script.evaluate("([v, h]) => phasebitExplorers.fields(v, h)", [view, hex(bits)])
            words = {field["name"]: field["words"] for field in told["found"]}
            assert (words["M"], words["N"], words["type of A"]) == ("128", "96", a)
            assert words["type of D"] == d
            assert words["negate B"] == ("no" if kind == "i8" else "yes")
            assert told["stray"] == []


def test_a_wrong_descriptor_is_told(good) -> None:
    page = good("warpgroup_products")
    box = page.locator(".phasebit-explorer[data-explorer=descriptor]").first
    box.get_by_label("descriptor").select_option("matrix, tcgen05")
    field = box.get_by_label("its bits, as a number")
    field.fill("0x4000004000010040")  # a Hopper descriptor: version 0
    row = box.get_by_role("row", name="version")
    assert "none such" in row.inner_text()
    field.fill("0x4010404000010040")
    assert "bit 52 must be 0" in box.get_by_role("alert").inner_text()
    for wrong in ("0x", "12x", "-1", "0x1" + 16 * "0"):
        field.fill(wrong)
        assert "at most 64 bits" in box.get_by_role("alert").inner_text()


def test_a_bit_that_is_clicked_turns(good) -> None:
    page = good("warpgroup_products")
    box = page.locator(".phasebit-explorer[data-explorer=descriptor]").first
    field = box.get_by_label("its bits, as a number")
    before = int(field.input_value(), 16)
    bits = box.locator(".pb-x-cell")
    assert bits.count() == 64
    bits.last.click()
    assert int(field.input_value(), 16) == before ^ 1
    assert box.locator(".pb-x-told").inner_text().startswith("Bit 0, of address")
    assert box.locator(".pb-x-same").count() == 14, "all bits of its field stand out"
    box.locator(".pb-picture").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert int(field.input_value(), 16) == before ^ 3


def test_what_an_instruction_takes_is_what_the_emulator_takes(script) -> None:
    from phasebit.emulator import instruction_descriptors as words_of

    some = random.Random(2)
    ends = {True: 0, False: 0}
    for trial in range(600):
        kind = some.choice(list(words_of.TYPES))
        a, b = (some.choice(list(words_of.TYPES[kind].values())) for _ in "ab")
        d = some.choice(list(words_of.RESULTS[kind].values()))
        m = some.choice([64, 128, 256, 16 * some.randint(1, 20)])
        bits = words_of.encode(
            kind, m, 8 * some.randint(0, 34), a, b, d, mn_major_a=some.random() < 0.3,
            mn_major_b=some.random() < 0.3, negate_a=some.random() < 0.2,
            saturate=some.random() < 0.1,
        )  # fmt: skip
        if trial % 4 == 0:
            bits ^= 1 << some.randrange(32)
        said = script.evaluate(
            "([v, h]) => phasebitExplorers.verdict(v, h)", [f"instruction, kind::{kind}", hex(bits)]
        )
        for group in (1, 2):
            try:
                found = str(words_of.decode(bits, kind, group))
            except words_of.InstructionDescriptorError:
                found = ""
            assert (str(group) in said["groups"]) == bool(found), (hex(bits), kind, said)
            ends[bool(found)] += 1
            if found:
                assert found == f"kind::{kind}: {said['words']}"
    assert min(ends.values()) > 100


# -- tensor memory ------------------------------------------------------------------


@pytest.fixture
def tensor(loaded):
    return loaded(path("tensor_memory"))


def test_the_cells_of_a_load_are_the_emulators(tensor) -> None:
    from phasebit.emulator import tcgen05_access

    some = random.Random(3)
    for shape, registers in tcgen05_access.REGISTERS.items():
        for _ in range(6):
            times = some.choice([n for n in (1, 2, 4, 8, 16, 32) if n * registers <= 128])
            apart, pack = some.randint(1, 40), some.random() < 0.5
            told = tensor.evaluate(
                "([s, n, a, p]) => phasebitExplorers.cells(s, n, a, p)", [shape, times, apart, pack]
            )
            lanes, columns = tcgen05_access.cells(shape, registers * times, apart)
            for t in range(32):
                for j in range(registers * times):
                    lane, column = int(lanes[t, j]), int(columns[t, j])
                    held = (
                        [[lane, 2 * column], [lane, 2 * column + 1]] if pack else [[lane, column]]
                    )
                    assert told[t][j] == held, (shape, times, t, j)


def test_a_reader_chooses_warp_and_shape(tensor) -> None:
    box = tensor.locator(".phasebit-explorer[data-explorer=tensor]").first
    said = box.locator(".pb-lab-numbers")
    assert "warp 1 gets lanes 32 to 47, 8 registers a thread" in said.inner_text()
    box.get_by_label("shape").select_option("32x32b")
    box.get_by_label("warp of the block").fill("6")
    box.get_by_label("first column").fill("10")
    assert "Address 0x0040000a: warp 6 gets lanes 64 to 95" in said.inner_text()
    assert "lane 64, column 10: register 0 of thread 0" in box.locator("svg").first.inner_html()
    box.get_by_label("repeated").select_option("128")
    assert "drawn are 32 of 128 columns" in said.inner_text()


@pytest.mark.parametrize(
    ("label", "value", "says"),
    [
        ("warp of the block", "32", "from 0 to 31"),
        ("first column", "511", "there are 512"),
        ("repeated", "128", "128 at most"),
    ],
)
def test_loads_that_there_are_not_are_refused(tensor, label: str, value: str, says: str) -> None:
    box = tensor.locator(".phasebit-explorer[data-explorer=tensor]").first
    field = box.get_by_label(label)
    (field.select_option if label == "repeated" else field.fill)(value)
    assert says in box.get_by_role("alert").inner_text()
