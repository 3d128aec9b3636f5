"""What *Attention* runs to find a cause: the texts fit the kernels, and nothing is said in vain."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from phasebit import toolchain
from phasebit.chapters.attention import attend
from phasebit.chapters.attention import attention_controls as controls


@pytest.mark.parametrize("name", controls.TEXTS)
def test_every_edit_fits(name: str) -> None:
    assert "__global__" in controls.TEXTS[name]()


def test_one_thing_is_otherwise() -> None:
    def kernel(text: str) -> str:
        return text[text.index("__global__") : text.index("template <int D, bool CAUSAL> void")]

    first = attend.flat(attend.ONE_GROUP)
    assert "std::max(int(sizeof(Shared<D>)), 200 * 1024)" in controls.with_shared(200)
    assert kernel(controls.with_shared(200)).startswith(kernel(first).partition("template")[0])
    second = attend.flat(attend.PING_PONG)
    assert "bar_sync(1 + group" in second and "bar_sync(1 + group" not in controls.without_turns()


def test_no_block_at_once_is_an_error() -> None:
    for found in (0, -1):
        with pytest.raises(toolchain.CudaError, match="no block of one group, heads of 64, fits"):
            controls._at_once(SimpleNamespace(at_once=lambda d, n=found: n), "one group", 64)
    assert controls._at_once(SimpleNamespace(at_once=lambda d: 2), "one group", 64) == 2
