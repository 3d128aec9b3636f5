"""The record of *The ring at full width* and the programs that made it."""

from __future__ import annotations

import statistics

import pytest

from phasebit import files, measure, replay
from phasebit.chapters.hopper_ring import broken_ring, variants, view
from phasebit.chapters.hopper_ring import record as hopper_ring


def test_every_variant_fits_its_kernel() -> None:
    for name, (kernel, edits) in variants.VARIANTS.items():
        changed = edits != (("SLOTS = 4;", "SLOTS = 4;"),)
        assert (variants.variant(name) != files.kernel(f"hopper_ring/{kernel}")) is changed
    for kernel in variants.STAMPED:
        text = variants.stamped(kernel)
        assert text.count("stamp_both(") == 2 and " BEGIN" not in text and " END" not in text


def test_a_kernel_that_has_changed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "kernel", lambda name: "nothing")
    with pytest.raises(ValueError, match="once to be changed there"):
        variants.variant("slots 2")


def test_cycles_are_time_by_the_clock_of_the_same_launches() -> None:
    row = {"times_us": {"a": [1.0, 2.0, 1.0, 4.0, 4.0, 4.0]}, "mhz": {"a": [1500, 1000]}}
    assert view.cycles(row, "a") == (3000 + 4000) / 2  # of 1500, 3000, 1500, three × 4000
    size = 64
    recorded = {"multiprocessors": 2, "ladder": [{"size": size, **row}]}
    flop = 2 * size**3
    assert view.per_cycle(recorded, "a", size) == flop / 3500 / 2


def test_every_launch_of_the_record_has_a_clock() -> None:
    record = measure.read(hopper_ring.NAME)
    rows = [*record["ladder"], *record["variants"]]
    pairs = [(row["times_us"][name], row["mhz"][name]) for row in rows for name in row["times_us"]]
    pairs += [(times, record["neighbours"]["mhz"][name])
              for name, times in record["neighbours"]["after_us"].items()]  # fmt: skip
    for times, mhz in pairs:
        assert len(times) % len(mhz) == 0 and 1000 < min(mhz) <= max(mhz) < 2050  # an H200's


def test_the_broken_rings_are_those_of_the_record() -> None:
    """Red after a change of the kernel, until recorded again."""
    seen = measure.read(broken_ring.NAME)["programs"]
    assert {name: said["text"] for name, said in seen.items()} == {
        name: replay.key(broken_ring.broken(name)) for name in broken_ring.BROKEN
    }


def test_a_ring_that_cannot_be_broken_so_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "kernel", lambda name: "nothing")
    with pytest.raises(ValueError, match="once to be changed there"):
        broken_ring.broken("half of the bytes")


def test_the_ring_reaches_what_was_asked_of_it() -> None:
    record = measure.read(hopper_ring.NAME)
    (large,) = [each for each in record["ladder"] if each["size"] == 8192]
    rates = {name: view.rate(8192, times) for name, times in large["times_us"].items()}
    assert rates["a ring of 4 slots"] >= 0.8 * rates[variants.VENDOR]


@pytest.mark.parametrize("kernel", variants.STAMPED)
def test_the_stamps_are_in_order(kernel: str) -> None:
    stamps = view.stamps(measure.read(hopper_ring.NAME), kernel)
    assert 1.0 < stamps.ghz < 2.1  # an H200's clock
    for may, has in ((3, 4), (5, 6)):
        assert all(a < b for a, b in zip(stamps.places[may], stamps.places[has], strict=True))
    assert statistics.mean((stamps.copy, stamps.multiply)) > 0
    drawn = view.timeline(stamps, 60, 65, "six steps")
    consumed = [span for span in drawn.spans if span.kind == "consume"]
    assert {span.row for span in consumed} >= {"consumer 0", "consumer 1", "slot 0"}
