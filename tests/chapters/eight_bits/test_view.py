"""What *Eight bits* draws by itself: bits that are cut off, cycles beyond another kernel's."""

from __future__ import annotations

from phasebit import measure
from phasebit.chapters.eight_bits import view


def test_a_sum_keeps_thirteen_bits_behind_its_first() -> None:
    drawn = view.cut(0.5, (4096, 8192)).alt
    assert "4,096 + 0.5 grows by 0.5; 8,192 + 0.5 grows by 0." in drawn
    kept = measure.read("eight_bits")["sums"]["survivors"]["e4m3"]
    assert kept.index(False) - 1 == view.BITS


def test_a_price_is_the_difference_of_the_cycles_that_are_shown() -> None:
    recorded, names = measure.read("eight_bits"), ("block scales", "one scale, halves of 128")
    bare = view.cycles_table(recorded, (8192, 8192, 8192), names)
    table = view.cycles_table(recorded, (8192, 8192, 8192), names, over=names[1])
    assert table.heading == (*bare.heading, "price")
    assert [each[:-1] for each in table.rows] == list(bare.rows)
    (mine, base), prices = (int(each[3]) for each in bare.rows), [each[4] for each in table.rows]
    assert prices == [f"{mine - base:+d}", "+0"]
