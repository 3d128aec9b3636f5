"""The clock over some launches, from two readings of each multiprocessor."""

from __future__ import annotations

import pytest

from phasebit import hardware, toolchain
from phasebit.instruments import clocks


def test_the_median_multiprocessor_counts_and_unseen_ones_do_not() -> None:
    begin = [[1000, 5000], [0, 0], [1000, 5000], [0, 5000]]
    end = [[2000, 6000], [9000, 6000], [2500, 6000], [1700, 6000]]
    assert clocks.median_mhz(begin, end) == 1500
    with pytest.raises(ValueError, match="median"):
        clocks.median_mhz([[0, 0]], [[1, 1]])


def test_all_are_built_and_the_reader_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def build(name: str) -> str:
        made.append(name)
        if name == "broken":
            raise toolchain.CudaError("no such kernel")
        return name.upper()

    monkeypatch.setattr(clocks, "reader", lambda: made.append("reader"))
    assert clocks.built(build, iter(["b", "a"])) == {"b": "B", "a": "A"}
    assert sorted(made) == ["a", "b", "reader"]
    with pytest.raises(toolchain.CudaError, match="no such kernel"):
        clocks.built(build, ["a", "broken"])


@pytest.mark.gpu
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU")
def test_a_real_clock_is_one_of_a_gpu() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(4096, 4096, device="cuda")
    (found,) = clocks.times(torch, {"a": lambda: x @ x}, 1, 0.0, warm=1, each=2).values()
    assert len(found["times_us"]) == 2 and 300 < found["mhz"][0] < 3500
