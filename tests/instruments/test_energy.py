"""The meter of energy: what a launch drew, and a sentence where there is no meter."""

from __future__ import annotations

import ctypes
import types
from typing import Any

import pytest

from phasebit import toolchain
from phasebit.instruments import energy


class Board:
    """A GPU whose launches take a tenth of a second and draw 7 joules, and its driver."""

    def __init__(self) -> None:
        self.launched = 0

    def launch(self) -> None:
        self.launched += 1

    def now(self) -> float:
        return self.launched / 10

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, _index: int, _gpu: Any) -> int:
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, _gpu: Any, to: Any) -> int:
        to._obj.value = 5000 + 7000 * self.launched
        return 0


def test_a_launch_draws_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board()
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: board)
    monkeypatch.setattr(energy.time, "perf_counter", board.now)
    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(synchronize=lambda: None))
    seen = energy.of(torch, energy.Meter(), board.launch, 2.0)
    assert seen == {"joules": 7.0, "microseconds": 100_000.0}
    assert board.launched > 20  # some come before it counts


def test_what_the_driver_refuses_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board()
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: board)
    monkeypatch.setattr(board, "nvmlDeviceGetTotalEnergyConsumption", lambda *_: 3)
    with pytest.raises(toolchain.CudaError, match="TotalEnergyConsumption says 3"):
        energy.Meter().joules()


def test_no_driver_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: str) -> Any:
        raise OSError("cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(toolchain.CudaError, match="no energy can be measured, libnvidia-ml"):
        energy.Meter()
