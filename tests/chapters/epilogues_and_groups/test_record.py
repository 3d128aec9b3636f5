"""What measures *Epilogues and groups*, as far as a machine without a GPU can go."""

from __future__ import annotations

import pytest

from phasebit import measure, toolchain
from phasebit.chapters.epilogues_and_groups import groups, record, view
from phasebit.chapters.epilogues_and_groups.epilogues import FUSED, GROUPS


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", [FUSED, GROUPS])
def test_the_libraries_build(kernel: str) -> None:
    assert record.build(kernel, ("Alpha", "Bias")).program.exists()


def test_without_a_record_the_table_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(benchmark: str) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(measure, "read", none)
    assert "not measured yet" in str(view.times())


def test_a_record_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(benchmark: str) -> dict[str, object]:
        return {
            "gpu": "NVIDIA H200", "date": "2026-01-01",
            "epilogues": [{"shape": [1, 8, 8], "us": {"no epilogue, fused": [3.0, 1.0, 2.0]}}],
            "groups": [{"mean": 64, "us": {"grouped": [5.0]}}],
        }  # fmt: skip

    monkeypatch.setattr(measure, "read", made)
    said = str(view.times())
    assert "1 × 8 × 8: no epilogue, fused  2.0" in said and "64 rows a group: grouped" in said


def test_without_a_gpu_it_refuses_in_a_sentence() -> None:
    try:
        measure.gpu()
    except toolchain.CudaError:
        with pytest.raises(toolchain.CudaError):
            record.record()


def test_a_group_without_rows_has_no_tile() -> None:
    every = list(groups.walk([0, 130, 0, 1], 200))
    assert [tile.group for tile in every] == [1, 1, 1, 1, 3, 3]
    assert groups.rewrites([0, 130, 0, 1], 200, 2) == [2, 2]
    assert "group 0: no row | . ." in groups.picture([0, 130], 200, 2).alt
