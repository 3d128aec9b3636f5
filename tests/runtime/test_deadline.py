"""When a program is late."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from phasebit.runtime import run_program


@pytest.mark.parametrize(("passed", "late"), [(0.0, False), (2.4, False), (2.5, True), (9.0, True)])
def test_late_from_the_deadline_on(
    passed: float, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(run_program, "time", SimpleNamespace(monotonic=lambda: now[0]))
    watch, endless = run_program._Watch(2.5), run_program._Watch(None)
    now[0] += passed
    assert watch.late() == late
    assert not endless.late()
