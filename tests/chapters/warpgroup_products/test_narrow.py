"""The program that counts cycles of narrow instructions."""

from __future__ import annotations

from statistics import median

import pytest

from phasebit import files, measure
from phasebit.chapters.warpgroup_products import narrow
from tests.kernels.emulated import emulate


def test_an_edit_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    given = files.kernel(narrow.KERNEL)
    monkeypatch.setattr(files, "kernel", lambda name: given.replace("wgmma_wait_group", "wait"))
    with pytest.raises(ValueError, match="once to be changed there"):
        narrow.text()


def test_what_it_prints_is_read() -> None:
    said = "⏱ N=24 A=registers groups=4 sums=2 13.125\n" * 2 + "rate: OK\n"
    (row,) = narrow.read(said)
    assert row == {"n": 24, "a": "registers", "groups": 4, "sums": 2, "cycles": [13.125, 13.125]}


@pytest.mark.nvcc
def test_right_on_the_emulator() -> None:
    rest = "    each<8>(x, ones), each<16>(x, ones), each<24>(x, ones), each<32>(x, ones), each<64>"
    one = narrow.text().replace(f"{rest}(x, ones);\n", "")  # 24 wide, two sums by turns
    assert one != narrow.text()
    done = emulate(one)
    assert done.ok and "every sum of ones is exact" in done.stdout, done.stdout + done.stderr


def test_what_the_page_says_of_the_record() -> None:
    for row in measure.read(narrow.NAME)["cycles"]:
        cycles = median(row["cycles"])
        if row["a"] == "registers":
            assert cycles == pytest.approx(max(13, row["n"] / 2), abs=0.15), row
        else:
            assert cycles == pytest.approx((2048 + 32 * row["n"]) / 128, abs=0.15), row
