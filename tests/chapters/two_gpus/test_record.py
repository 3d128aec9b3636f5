"""What measures *Two GPUs*, as far as a machine without two GPUs can go."""

from __future__ import annotations

import pytest

from phasebit import measure, toolchain
from phasebit.chapters.two_gpus import link_law, record, view
from phasebit.draw import Picture

LINK = {"flag there and back": 3.0, "stores of 8 blocks": 90.0, "copy engine, 64 KiB": 20.0,
        "copy engine, 65536 KiB": 400.0}  # fmt: skip


def _case(whole: bool, kind: str = "gather", **us: float) -> dict[str, object]:
    times = {name.replace("_", " "): [value] for name, value in us.items()}
    return {"kind": kind, "shape": [8192, 1024, 8192], "whole": whole, "times_us": times}


def made(benchmark: str) -> dict[str, object]:
    return {
        "gpu": "NVIDIA H200", "date": "2026-01-01", "link": LINK,
        "cases": [
            _case(True, product=100, one_after_the_other=200, ours=110, torch=150,
                  communication=90),
            _case(False, product=100, our_product=100, ours=220),
        ],
    }  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize("name", record.texts())
def test_the_libraries_build(name: str) -> None:
    assert record.build(name).program.exists()


def test_without_a_record_the_tables_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(benchmark: str) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(measure, "read", none)
    for table in (view.times(), view.link(), view.predicted()):
        assert "not measured yet" in str(table)


def test_a_record_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "read", made)
    said = str(view.times())
    assert "90 %" in said and "50 %" in said and "8192 × 1024 × 8192" in said
    curves = view.predicted_drawn("gather")
    assert isinstance(curves, Picture) and "the law: 118" in curves.alt
    shares = view.hidden_drawn()
    assert isinstance(shares, Picture) and "ours 90, wanted 95" in shares.alt
    drawn = view.link()
    assert isinstance(drawn, Picture)
    assert "cudaMemcpyAsync, 65536 KiB: 400" in drawn.alt and "3 µs" in drawn.alt
    # 64 MiB at 400 GB/s take 168 µs, and then half of the product follows, which alone takes 100.
    assert "218" in str(view.predicted())


def test_overlap_that_is_worse_than_none_hides_less_than_nothing() -> None:
    us = {"product": 100.0, "one after the other": 200.0, "torch": 230.0}
    assert view.hidden(us, "torch") == pytest.approx(-0.3)


def test_the_lines_of_the_link_are_read() -> None:
    lines = "right\n⏱ flag there and back: 2.83 us\n⏱ copy engine, 64 KiB: 26.3 GB/s\n"
    found = {match["what"]: float(match["number"]) for match in record._LINE.finditer(lines)}
    assert found == {"flag there and back": 2.83, "copy engine, 64 KiB": 26.3}


@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_from_the_least_columns_on_the_product_hides_everything(gpus: int) -> None:
    least = link_law.least(700, 400)
    assert view.slower(least, gpus, 400) == pytest.approx(1)
    assert view.slower(0.99 * least, gpus, 400) > 1.001


def test_without_two_gpus_it_refuses_in_a_sentence() -> None:
    try:
        measure.gpu()
    except toolchain.CudaError:
        with pytest.raises(toolchain.CudaError):
            record.record()
