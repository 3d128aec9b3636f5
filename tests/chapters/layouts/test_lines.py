"""Interleaved matrices with gaps: the program that is counted, and counters that are not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from phasebit import toolchain
from phasebit.chapters.layouts import layouts_lines as lines
from phasebit.edits import replace_each
from tests.kernels.emulated import emulate


@pytest.mark.nvcc
def test_the_counted_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a small size; with ones in A, gaps or not, each element of C is the depth."""
    monkeypatch.setattr(lines, "DEPTH", 32)
    monkeypatch.setattr(lines, "CASES", {"a": lines.Case(8, 16, 20, 12)})
    text = replace_each(lines.counted_text(), (
        ("        launch_product(p, nullptr);\n",
         "        std::vector<float> ones(std::max(a, b), 0), seen(c);\n"
         "        for (size_t i = 0; i < a; ++i) ones[i] = i % apart < batch ? 1 : 7;\n"
         "        CHECK(cudaMemcpy(A, ones.data(), a * 4, cudaMemcpyHostToDevice));\n"
         "        ones.assign(b, 1);\n"
         "        CHECK(cudaMemcpy(B, ones.data(), b * 4, cudaMemcpyHostToDevice));\n"
         "        launch_product(p, nullptr);\n"
         "        CHECK(cudaMemcpy(seen.data(), C, c * 4, cudaMemcpyDeviceToHost));\n"
         "        for (float each : seen) if (each != 32) return 1;\n"),
    ))  # fmt: skip
    done = emulate(f"#include <algorithm>\n#include <vector>\n{text}")
    assert done.ok and not done.stderr, done.stdout + done.stderr


def test_an_unknown_counter_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def count(command: Any, metrics: list[str]) -> list[tuple[str, dict[str, float]]]:
        asked.append(len(metrics))
        if len(metrics) == len(lines.COUNTERS):
            raise toolchain.CudaError(f"Nsight Compute did not count {metrics[3]}, {metrics[5]}")
        return [("product", dict.fromkeys(metrics, 1.0)) for _ in lines.CASES]

    monkeypatch.setattr("phasebit.instruments.profiler.count", count)
    found = lines.counts(toolchain.Build(Path(), "", "", (), "", False))
    assert list(found) == list(lines.CASES) and lines.COUNTERS[3] not in found["8"]
    assert asked == [len(lines.COUNTERS), len(lines.COUNTERS) - 2]
