"""Chapter 15's record and the programs that made it."""

from __future__ import annotations

import statistics

import pytest

from phasebit import files, measure
from phasebit.benchmarks import copy_engine


def test_every_variant_fits_its_kernel() -> None:
    for name, (kernel, edits) in copy_engine.VARIANTS.items():
        changed = edits != (("SLOTS = 4;", "SLOTS = 4;"),)
        assert (copy_engine.variant(name) != files.kernel(kernel)) is changed
    for kernel in copy_engine.STAMPED:
        text = copy_engine.stamped(kernel)
        assert text.count("stamp_both(") == 2 and " BEGIN" not in text and " END" not in text


def test_a_kernel_that_has_changed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "kernel", lambda name: "nothing")
    with pytest.raises(ValueError, match="once to be changed there"):
        copy_engine.variant("slots 2")


def test_the_ring_reaches_what_was_asked_of_it() -> None:
    record = measure.read(copy_engine.NAME)
    (large,) = [each for each in record["ladder"] if each["size"] == 8192]
    rates = {name: copy_engine.rate(8192, times) for name, times in large["times_us"].items()}
    assert rates["a ring of 4 slots"] >= 0.8 * rates[copy_engine.VENDOR]


@pytest.mark.parametrize("kernel", copy_engine.STAMPED)
def test_the_stamps_are_in_order(kernel: str) -> None:
    stamps = copy_engine.stamps(measure.read(copy_engine.NAME), kernel)
    assert 1.0 < stamps.ghz < 2.1  # an H200's clock
    for may, has in ((3, 4), (5, 6)):
        assert all(a < b for a, b in zip(stamps.places[may], stamps.places[has], strict=True))
    assert statistics.mean((stamps.copy, stamps.multiply)) > 0
    drawn = copy_engine.timeline(stamps, 60, 65, "six steps")
    consumed = [span for span in drawn.spans if span.kind == "consume"]
    assert {span.row for span in consumed} >= {"consumer 0", "consumer 1", "slot 0"}
