"""Launches that begin early, in a stream and in a graph, are right; the record's names fit."""

from typing import Any

import pytest

from phasebit import measure, toolchain
from phasebit.chapters.measuring import launch_gaps
from phasebit.instruments import programs
from tests.kernels.emulated import emulate


@pytest.mark.nvcc
def test_early_and_not_in_a_stream_and_in_a_graph() -> None:
    done = emulate(launch_gaps.TEXT)
    assert done.ok and not done.stderr, done.stdout + done.stderr
    assert done.stdout.endswith("one after another and early\n")


def test_the_record_names_what_the_program_keeps() -> None:
    for words in (*launch_gaps.KINDS, *(f"{way}, " for way in launch_gaps.WAYS)):
        assert f'"{words}"' in launch_gaps.TEXT, words
    for words in launch_gaps.STAMPED:
        assert f'"{words}"' in launch_gaps.TEXT, words
    assert f"rounds = emulated ? 1 : {launch_gaps._TURNS};" in launch_gaps.TEXT
    for words in launch_gaps.ALL:
        assert f'"{words}"' in launch_gaps.TEXT, words


def _kept() -> dict[str, list[float]]:
    """As of one process: of early launches the next begin is before the last end."""
    found = {name: [8.0] for name in launch_gaps.ALL}
    for way in launch_gaps.WAYS:
        for kind in launch_gaps.KINDS:
            for what in launch_gaps.STAMPED:
                begins = kind.startswith("early") and what.endswith("begin, ns")
                number = -4800.0 if begins else 900.0 if way == "stream" else 640.0
                found[f"{way}, {kind}: {what}"] = [number] * launch_gaps._TURNS
    return found


def _recorded(monkeypatch: pytest.MonkeyPatch, kept: dict[str, list[float]]) -> dict[str, Any]:
    class Built:
        program = None

    monkeypatch.setattr(measure, "facts", lambda: {"gpu": "none"})
    monkeypatch.setattr(toolchain, "build", lambda *_, **__: Built())
    monkeypatch.setattr(programs, "times", lambda _: kept)
    return launch_gaps.record()


def test_a_next_launch_that_begins_before_the_end_is_recorded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _recorded(monkeypatch, _kept())
    early = "early, asked at the beginning: last end to next begin, ns"
    assert found["launches"][f"graph, {early}"] == [-4800.0] * 2 * launch_gaps._TURNS
    said = capsys.readouterr().out
    assert f"⏱ graph, {early}: -4800.00\n" in said
    assert "⏱ a graph saves, one after another: last end to next work, ns: 260\n" in said
    assert f"⏱ a graph saves, {early}: 0\n" in said


@pytest.mark.parametrize("numbers", [[], [1.0] * 11, [float("nan")] * 12])
def test_numbers_that_are_missing_or_none_are_refused(
    monkeypatch: pytest.MonkeyPatch, numbers: list[float]
) -> None:
    name = "stream, one after another: a launch adds, µs"
    with pytest.raises(toolchain.CudaError, match=name):
        _recorded(monkeypatch, _kept() | {name: numbers})
