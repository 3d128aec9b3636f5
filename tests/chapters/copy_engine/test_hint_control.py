"""The program in which only the policy of the copies differs."""

from __future__ import annotations

import pytest

from phasebit import files
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
