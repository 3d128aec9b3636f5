"""What the chapter draws agrees with what the emulator counts."""

from __future__ import annotations

from math import gcd

import pytest

from phasebit.chapters.a_gpu_you_can_read import view
from phasebit.emulator import listing
from phasebit.emulator.ptx.table import entries


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 8, 31, 32])
def test_rows_of_the_pictures_are_sectors_and_wavefronts(stride: int) -> None:
    wavefronts = [line for line in str(view.banks(stride)).splitlines() if "|" in line]
    assert len(wavefronts) == gcd(stride, 32)
    words = " ".join(line.partition("|")[2] for line in wavefronts).replace(".", " ").split()
    assert sorted(map(int, words)) == list(range(32)), "each lane is served once"
    sectors = [line for line in str(view.sectors(stride)).splitlines() if "|" in line]
    touched = {4 * stride * lane // 32 for lane in range(32)}
    assert sum("#" in line for line in sectors) == len(touched)


def test_ways_are_counted_lane_by_lane() -> None:
    log = [(0, [0, 1], None), (1, [1], None), (2, [0, 1], None)]
    assert view.ways(log) == {(0, 1): 1, (0, 2): 1, (1, 2): 1}


def test_a_line_too_long_for_the_page_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    view.say("word " * 30)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and max(map(len, lines)) <= 80 and lines[1].startswith("    ")


def test_the_families_count_what_the_list_counts() -> None:
    rows = view.families().rows
    known = {(entry.family, entry.name) for entry in entries()}
    proved = {pair for pair in known if listing.agreed().get(pair[1])}
    assert sum(int(row[1]) for row in rows) == len(known)
    assert sum(int(row[2]) for row in rows) == len(proved)
    assert all(row[1] != row[2] for row in rows[1:]), "what is compared whole is one row"


def test_the_table_of_instructions_names_all_and_breaks_long_names() -> None:
    table = view.instructions()
    assert {row[0] for row in table.rows} == {entry.name for entry in entries()}
    html = table._repr_mimebundle_()["text/html"]
    assert "<td>cp.<wbr>async.<wbr>bulk.<wbr>commit_group</td>" in html
    assert "mbarrier::<wbr>" in html and ":<wbr>:" not in html
