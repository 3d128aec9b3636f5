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
    sectors_hardly_cost = together[8, 8]["strided"] / together[1, 8]["strided"]
    assert 1 < sectors_hardly_cost < 1.02
    for s in (1, 2, 4, 8, 16):
        pays = [n for n in (1, 2, 4, 8, 16)
                if together[s, n]["copy and packed"] < together[s, n]["strided"]]  # fmt: skip
        assert pays[0] in (2, 4), "from two to four columns of blocks on"
    wins = [key for key, took in together.items() if took["strided"] < took["cuBLAS"]]
    assert sorted(wins) == [(16, 1), (16, 2)], "sixteen interleaved and N up to 256"
