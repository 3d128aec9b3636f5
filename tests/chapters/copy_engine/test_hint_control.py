"""The program in which only the policy of the copies differs."""

from __future__ import annotations

from statistics import median

import pytest

from phasebit import files, measure
from phasebit.chapters.copy_engine import hint_control
from tests.kernels.emulated import emulate


def test_every_copy_carries_a_policy() -> None:
    text = hint_control.text()
    assert "ptx::cp_async_bulk_load(" in files.kernel(hint_control.KERNEL)
    assert "ptx::cp_async_bulk_load(" not in text
    assert all(f"L2::evict_{what}.b64" in text for what in ("first", "normal", "last"))


def test_an_edit_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "kernel", lambda name: "nothing")
    with pytest.raises(ValueError, match="once to be changed there"):
        hint_control.text()


def test_what_it_prints_is_read() -> None:
    said = "⏱ table=8 both normal: 2.5\nhints: OK\n⏱ table=8 stream first, table last: 8.0\n"
    found = hint_control.read(said + "⏱ table=8 both normal: 3.5\n")
    assert found == {"8": {"both normal": [2.5, 3.5], "stream first, table last": [8.0]}}


@pytest.mark.nvcc
def test_right_on_the_emulator() -> None:
    done = emulate(hint_control.text())
    assert done.ok and "hints: OK" in done.stdout and not done.stderr, done.stdout + done.stderr


def test_what_the_page_says_of_the_record() -> None:
    rates = {
        int(mib): {name: median(each) for name, each in policies.items()}
        for mib, policies in measure.read(hint_control.NAME)["hints"].items()
    }
    alone = {mib: by[hint_control.ALONE] for mib, by in rates.items()}
    assert min(alone[mib] for mib in (8, 16, 24, 28, 32)) > 0.99 * max(alone.values())
    assert 0.85 < alone[48] / alone[32] < 0.9
    first = {mib: by[hint_control.STREAM_FIRST] / by[hint_control.NORMAL]
             for mib, by in rates.items()}  # fmt: skip
    assert 1.3 < first[16] < 1.4 and 1.45 < first[32] < 1.6
    last = [by[hint_control.TABLE_LAST] / by[hint_control.STREAM_FIRST] for by in rates.values()]
    assert 1.1 < max(last) < 1.13
