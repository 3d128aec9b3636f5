"""What the chapter says in words of its record: a new measurement must keep it."""

from __future__ import annotations

from statistics import median

from phasebit import measure


def test_layouts() -> None:
    record = measure.read("layouts")
    together = {
        (each["interleaved"], each["shape"][1] // 128): {
            name: median(times["times_us"]) for name, times in each["times"].items()
        }
        for each in record["interleaved"]
    }
    wrong = []
    for s in (1, 2, 4, 8, 16):
        most = together[s, 16]
        saved = (most["strided"] - most["copy and packed"] + most["copy"]) / 16
        for columns in (1, 2, 4, 8, 16):
            took = together[s, columns]
            if (columns > most["copy"] / saved) != (took["copy and packed"] < took["strided"]):
                wrong.append((s, columns))
    assert wrong == [(8, 2)], "the rule of the copy's price decides right but for one"
