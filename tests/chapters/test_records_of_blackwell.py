"""What would be timed on a B200 in chapters of Part VI: launched on the emulator, refused
elsewhere."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from phasebit import hardware, measure, recording, toolchain
from phasebit.chapters.low_precision import record as scaled
from phasebit.chapters.one_thread_multiplies import record as products
from phasebit.chapters.other_forms import record as forms
from phasebit.chapters.tensor_memory import record as memory

CONSUMER = hardware.Gpu("NVIDIA RTX PRO 6000", (12, 0), "580.1")


@pytest.mark.parametrize("module", [memory, products, forms, scaled])
def test_another_gpu_is_refused_in_a_sentence(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "gpu", lambda: CONSUMER)
    monkeypatch.setattr(measure, "facts", dict)
    monkeypatch.setattr(hardware, "gpu", lambda: CONSUMER)
    with pytest.raises(toolchain.CudaError, match=f"{module.NAME} is measured on a GPU that runs"):
        module.record()
    assert module.NAME in recording.possible()[1]


@pytest.mark.nvcc
@pytest.mark.parametrize("name", memory.SHAPES)
def test_loads_and_stores_again_and_again(name: str) -> None:
    out, run = memory.repeat(name, 3)
    assert not run.findings and (out[0, 37] % 1000 < 32).all()
    if name != "ld.16x256b.x8":
        assert np.array_equal(out[0, 37], 1000 * 37 + np.arange(32))


@pytest.mark.nvcc
@pytest.mark.parametrize("case", products.CASES)
def test_a_product_again_and_again(case: str) -> None:
    total = np.int32 if "s32" in case else np.float32
    once, run = products.repeat(case, 64, 1)
    thrice, _ = products.repeat(case, 64, 3)
    assert not run.findings
    a, b = (x[:, :64].view(total) for x in (once, thrice))
    if "f16," in case and case.endswith("f16"):
        a, b = (x[:, :64].astype(np.uint16).view(np.float16) for x in (once, thrice))
    assert np.isfinite(a.astype(float)).all() and a.any()
    assert np.allclose(3 * a.astype(float), b.astype(float), rtol=1e-2)


@pytest.mark.nvcc
def test_the_scaled_products_that_are_timed_are_right() -> None:
    assert scaled.checked("emulator") == []


@pytest.mark.nvcc
@pytest.mark.parametrize("case", forms.DEPTHS)
def test_half_of_a_and_all_of_it_again_and_again(case: str) -> None:
    once, run = forms.repeat(case, 4)
    thrice, _ = forms.repeat(case, 12)
    assert not run.findings and once.any()
    assert np.array_equal(3 * once.view(np.float32), thrice.view(np.float32))
