"""What *Four producers, four consumers* draws from a run."""

from __future__ import annotations

import pytest

from phasebit.chapters.chain import kernels, signal_scopes, slips, view
from phasebit.emulator import Schedule

pytestmark = pytest.mark.nvcc


def test_the_scope_of_the_cluster_adds_invalidations_and_nothing_else() -> None:
    rows = {row[0].partition(" (")[0]: row[2:] for row in signal_scopes.table().rows}
    assert set(rows) == set(signal_scopes.MEANINGS)
    few, many = map(int, rows.pop("invalidations"))
    assert few < many / 10 and all(a == b != "0" for a, b in rows.values())


@pytest.mark.parametrize("sums", [1, 2])
def test_the_picture_says_what_overlaps(sums: int) -> None:
    text = kernels.source(kernels.CHAIN).replace("SUMS = 2", f"SUMS = {sums}")
    with kernels.watching() as log:
        run, exact = kernels.multiply(text, 384, 256, 192, schedule="eager")
    assert exact and not run.findings
    said = view.picture(text, log).alt.splitlines()
    assert len(said) == 4 and said[1] == "tile 0 is added up in sum 0, alone"
    beside = "alone" if sums == 1 else "while tile 1 is carried out"
    assert said[3] == f"tile 2 is added up in sum 0, {beside}"
    rows = {span.row for span in view.roles(text, log).spans}
    assert {"slot 3", "tensor core", f"sum {sums - 1}", "epilogue"} <= rows


def test_the_picture_of_two_products_of_a_pair() -> None:
    """Each sum is filled by a warp of its own; the names of a cluster's barriers say the block."""
    text = kernels.source(kernels.TWO_PRODUCTS)
    with kernels.watching() as log:
        run, exact = kernels.multiply(text, 1024, 256, 192, schedule="eager")
    assert exact and not run.findings
    said = view.picture(text, log).alt.splitlines()[1:]
    assert [line.rpartition(", ")[2] for line in said] == [
        "alone", "alone", "while product 1 is carried out", "alone"
    ]  # fmt: skip


def test_the_picture_of_the_fourth_ring() -> None:
    """Two answers at the beginning; the third after all, the epilogue last, have read the first."""
    text = kernels.source(kernels.LAUNCH_CONTROL)
    with kernels.watching() as log:
        run, exact = kernels.multiply(text, 1000, 256, 192, schedule="eager")
    assert exact and not run.findings
    drawn = view.roles(text, log, slices=False)
    assert drawn.rows == ("launch control", "answer 0", "answer 1", "sum 0", "sum 1", "epilogue")
    said = view.picture(text, log, slices=False).alt
    assert "answer 0 is asked for in slot 0, at the beginning" in said
    assert "answer 1 is asked for in slot 1, at the beginning" in said
    assert "answer 2 is asked for in slot 0, after all have read 0\n" in said
    (read,) = (s.end for s in drawn.spans
               if s.row == "answer 0" and s.label == "0" and s.kind == "consume")
    (out,) = (s.end for s in drawn.spans
              if s.row == "sum 0" and s.label == "0" and s.kind == "consume")
    assert read > out, "the epilogue reads it when it has carried the first tile out"


FOUND_AT_THE_END = {
    kernels.CHAIN: ("nothing found",) * 3,
    kernels.PAIR: ("nothing found", "nothing found", "cluster: block 0 may leave the kernel before "
                   "thread 0 of block 1 uses its memory"),
    kernels.PIECES: ("nothing found",
                     *["race: warp 0 of block 0 deallocates tensor memory"] * 2),
}  # fmt: skip
"""Of a kernel without the tails, without the meeting, and without both."""


@pytest.mark.parametrize("name", FOUND_AT_THE_END)
def test_how_a_block_and_a_pair_may_end(name: str) -> None:
    said = slips.endings(name).splitlines()
    for line, what, found in zip(
        said, ("the tails", "the meeting", "both"), FOUND_AT_THE_END[name], strict=True
    ):
        assert line.startswith(f"without {what}: {found}")


def test_the_four_roles_and_what_tells_full_and_empty() -> None:
    said = view.four_roles(kernels.source(kernels.CHAIN)).alt.splitlines()[1:]
    assert [line.rpartition(": ")[2] for line in said] == [
        "bytes", "a commit", "a commit", "arrivals of warps", "the meeting",
        "wait_group.read, the meeting",
    ]  # fmt: skip
    assert said[0].startswith("copy engine, for warp 4 → tensor core, for warp 5: 4 slices")
    text = kernels.source(kernels.CHAIN)  # what stands in it for the ring without mbarriers
    assert "wait_group_read<0>" in text and "bar_sync(1, 32 * EPILOGUE)" in text


def test_what_is_fetched_is_watched() -> None:
    text = kernels.source(kernels.CHAIN)
    with kernels.watching() as log:
        kernels.multiply(text, 384, 256, 64, schedule="eager")
    fetched = [seen.barrier for seen in log if seen.what == "fetches" and seen.warp == 3]
    pieces = [f"{first}-{first + 32}" for first in range(0, 512, 32)]
    assert fetched == pieces + pieces[:8]


@pytest.mark.parametrize("schedule", ["eager", "random"])
@pytest.mark.parametrize("makers", view.HANDING)
def test_eight_tiles_are_handed_out_once_each(makers: str, schedule: Schedule) -> None:
    said = view.handed_out([makers], [schedule])
    assert said.startswith(f"{makers}, {schedule}: exact: True, findings: 0, tiles made: 8")
    assert said.endswith(f"by 2 {makers} of 8") == (schedule == "eager")


def test_too_few_bytes_end_in_two_ways() -> None:
    rows, only_a = slips.too_few_bytes().splitlines()
    assert "deadlock; 41984 bytes announced and 49152 come" in rows
    assert only_a == "only A: exact: True; async"


def test_a_verdict_says_what_is_wrong() -> None:
    text = kernels.source(kernels.CHAIN)
    assert kernels.verdict(text, 130, 12, 64).count("exact, 0 findings") == 3
    twisted = text.replace("(p ^ t * PARTS / 8 % PARTS)", "p")
    assert kernels.verdict(twisted, 130, 260, 64).count("WRONG") == 3


def test_watching_leaves_the_emulator_as_it_was() -> None:
    from phasebit.emulator import MbarrierObserver
    from phasebit.emulator.machine.events import Told

    with kernels.watching():
        assert Told()[MbarrierObserver.completes]
    assert not Told()[MbarrierObserver.completes]
