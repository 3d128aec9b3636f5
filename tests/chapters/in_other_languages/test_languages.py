"""*The same in other languages*: right by their kept PTX, and their rings as the page has them."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from phasebit import files
from phasebit.chapters.chain import kernels as chain
from phasebit.chapters.in_other_languages import languages, view
from phasebit.emulator import EmulatorError
from tests.book.notebooks import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import compiled_languages


def test_the_record_is_of_these_sources() -> None:
    """Red after a change of a kernel, until `python tools/compiled_languages.py` has run."""
    record = json.loads((files.records() / languages.RECORD).read_text("utf-8"))
    assert record["sources"] == {
        name: compiled_languages.fingerprint(name) for name in languages.NAMES
    }


def test_another_triton_is_not_asked_for_the_pages_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A machine with torch has a Triton of its own; the page is about the record's."""

    def made(name: str) -> languages.Built:
        return languages.Built(name, 0, (), 0, "", origin="made now")

    monkeypatch.setattr(languages, "now", made)
    for here, said in (("3.6.0", "; here is 3.6.0"), ("", "; it is not installed here")):
        monkeypatch.setattr(languages, "installed", lambda package, here=here: here)
        for name in languages.NAMES:
            assert languages.built(name).origin.endswith(said)
    packages = languages.record()["packages"]
    monkeypatch.setattr(languages, "installed", lambda package: packages[package].split()[1])
    assert languages.built("gluon").origin == "made now"


@pytest.mark.drawn
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("name", languages.NAMES)
def test_the_product_is_right(name: str, schedule: str) -> None:
    run, exact = languages.multiply(languages.built(name), 300, 264, 72, schedule=schedule)
    assert exact
    found = [str(each) for each in run.findings]
    assert len(found) == (name == "tilelang")
    assert all("reaches lanes 0-31 of tensor memory" in each for each in found)


@pytest.mark.drawn
@pytest.mark.parametrize("name", languages.NAMES)
def test_the_rings_are_told_as_in_the_chain(name: str) -> None:
    """Bytes and commits for slices, commits and arrivals for sums."""
    one = languages.built(name)
    seen = view.signals(lambda: languages.multiply(one, 300, 264, 200))
    kinds = Counter(barrier.signal for barrier in seen.values())
    assert kinds == {"bytes": 3, "commits": 5, "arrivals": 2}
    epilogue = (4, 5, 6, 7) if name == "tilelang" else (0, 1, 2, 3)
    assert ("commits", epilogue) in {(b.signal, b.waiters) for b in seen.values()}


def waiting(one: languages.Built) -> list[tuple[int, ...]]:
    """Who waits for sums that are empty."""
    seen = view.signals(lambda: languages.multiply(one, 300, 264, 200))
    return sorted(each.waiters for each in seen.values() if each.signal == "arrivals")


@pytest.mark.drawn
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_nobody_reads_the_zeros_of_tritons_epilogue(schedule: str) -> None:
    less = languages.without_zeros(languages.built("triton"))
    run, exact = languages.multiply(less, 300, 264, 200, schedule=schedule)
    assert exact and run.findings == []


def test_without_the_zeros_the_barrier_has_one_role_that_waits() -> None:
    """Without them, and without the wait before them."""
    triton = languages.built("triton")
    less = languages.without_zeros(triton)
    assert triton.ptx.count("try_wait") == less.ptx.count("try_wait") + 1
    assert waiting(triton) == [(0, 1, 2, 3, 6), (6,)]
    assert waiting(less) == [(6,), (6,)]
    with pytest.raises(ValueError, match="give Triton's kernel"):
        languages.without_zeros(languages.built("gluon"))


def test_tensor_memory_is_freed_under_the_others_without_tilelangs_last_meeting() -> None:
    less = languages.without_meeting(languages.built("tilelang"))
    run, _ = languages.multiply(less, 300, 264, 200, schedule="eager")
    assert any(str(each).startswith("race: warp 0 of block 0 deallocates") for each in run.findings)
    for schedule in "late", "random":
        with pytest.raises(EmulatorError, match="after it was deallocated"):
            languages.multiply(less, 300, 264, 200, schedule=schedule)
    for other in "gluon", "triton":
        with pytest.raises(ValueError, match="give TileLang's kernel"):
            languages.without_meeting(languages.built(other))


@pytest.mark.parametrize(
    ("numbers", "words"),
    [([4], "warp 4"), ([3, 0, 1, 2, 6], "warps 0-3, 6"), ([1, 0], "warps 0-1")],
)
def test_warps_in_words(numbers: list[int], words: str) -> None:
    assert view.warps(numbers) == words


@pytest.mark.foreign
@pytest.mark.parametrize("name", languages.NAMES)
def test_what_is_kept_is_what_the_compiler_makes(name: str) -> None:
    package = languages.PACKAGES[name]
    made_by = languages.record()["packages"][package]
    if made_by != f"{package} {languages.installed(package)}":
        pytest.skip(f"the record is by {made_by}, which is not installed: NOT asked")
    assert languages.now(name).ptx == languages.kept(name).ptx


@pytest.mark.nvcc
def test_a_chain_is_drawn_from_its_run_and_what_is_none_is_refused() -> None:
    drawn = view.picture(lambda: chain.multiply(chain.source(chain.CHAIN), 300, 264, 72), "a chain")
    assert drawn.alt.splitlines()[1:] == [
        "warp 4 → warp 5: full: 4 × bytes", "warp 5 → warp 4: empty: 4 × commits",
        "warp 5 → warps 0-3: full: 2 × commits", "warps 0-3 → warp 5: empty: 2 × arrivals",
    ]  # fmt: skip
    triton = languages.built("triton")
    with pytest.raises(ValueError, match="draw a plain chain"):
        view.picture(lambda: languages.multiply(triton, 300, 264, 72), "Triton's")


def test_the_rings_of_a_product_are_found_whoever_asks_and_arrives() -> None:
    launches: dict[str, Callable[[], Any]] = {
        name: partial(languages.multiply, languages.built(name), 300, 264, 200)
        for name in languages.NAMES
    }
    four = (0, 1, 2, 3)
    assert view.chained(launches["gluon"]) == ((6,), (6,), (7,), four, (0,), 3, 2)
    assert view.chained(launches["triton"]) == ((4, 5), (4,), (6,), four, (0,), 3, 2)
    drawn = view.chains(launches, "three kernels")
    assert "tilelang: warp 0 → warp 1: full: 3 × bytes" in drawn.alt
    assert drawn.alt.count("→") == 12 and "4 asks" in drawn.narrow
    lonely = {"a": view.Barrier("bytes", (0,), (1,)), "b": view.Barrier("arrivals", (1,), (0,))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view, "signals", lambda launch: lonely)
        with pytest.raises(ValueError, match="no ring of slices and ring of sums"):
            view.chained(launches["gluon"])
