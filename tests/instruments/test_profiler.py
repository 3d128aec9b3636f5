"""Nsight Compute: what it says of each launch is read, or refused with a sentence."""

from __future__ import annotations

import pytest

from phasebit import toolchain
from phasebit.instruments import profiler


def test_parsing_its_table() -> None:
    head = 'ncu says\n"ID","Kernel Name","a.sum","b.sum"\n"","","byte","sector"\n'
    text = head + '"0","f(const float *)","1,024","7"\n"1","f(const float *)","2","8"\n'
    assert profiler.parse(text, ["a.sum", "b.sum"]) == [
        ("f", {"a.sum": 1024, "b.sum": 7}),
        ("f", {"a.sum": 2, "b.sum": 8}),
    ]
    with pytest.raises(toolchain.CudaError, match=r"did not count c\.sum"):
        profiler.parse(text, ["a.sum", "c.sum"])
    with pytest.raises(toolchain.CudaError, match="counted nothing"):
        profiler.parse("==ERROR== no permission", ["a.sum"])


def test_of_two_launches_the_second_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [("flush", {"a": 9.0}), ("matmul1", {"a": 1.0}), ("matmul1", {"a": 2.0}),
            ("matmul2", {"a": 3.0}), ("flush", {"a": 9.0}), ("matmul2", {"a": 4.0})]  # fmt: skip
    monkeypatch.setattr(profiler, "count", lambda command, metrics: seen)
    assert profiler.second_launches(["x"], ["a"], "matmul") == [{"a": 2.0}, {"a": 4.0}]
    monkeypatch.setattr(profiler, "count", lambda command, metrics: seen[:2])
    with pytest.raises(toolchain.CudaError, match="counted 1 launches of matmul"):
        profiler.second_launches(["x"], ["a"], "matmul")
