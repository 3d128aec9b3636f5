"""What stands beside our products with block scales: a torch that is made up, right and wrong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit import toolchain
from phasebit.chapters.low_precision import record, vendor
from phasebit.emulator import formats


class Tensor:
    """An array with the few methods that are asked for."""

    def __init__(self, array: Any, kind: str = "") -> None:
        self.array, self.kind = array, kind

    def view(self, kind: str) -> Tensor:
        return Tensor(self.array, kind)

    def cuda(self) -> Tensor:
        return self

    float = cpu = cuda

    def t(self) -> Tensor:
        return Tensor(self.array.T, self.kind)

    def numpy(self) -> Any:
        return self.array


def blocked(scales: Any, rows: int, count: int) -> Any:
    """Scales (rows, count) from the layout that cuBLAS's manual has: 128 × 4 blocks, row by row."""
    found = np.empty((rows, count), np.uint8)
    for r in range(rows):
        for j in range(count):
            block = r // 128 * (count // 4) + j // 4
            found[r, j] = scales[512 * block + r % 32 * 16 + r % 128 // 32 * 4 + j % 4]
    return found


def multiplied(a: Tensor, b: Tensor, *, scale_a: Tensor, scale_b: Tensor, out_dtype: str) -> Tensor:
    """What ``torch._scaled_mm`` makes of codes and scales."""
    factors = []
    for codes, scales in ((a.array, scale_a), (b.array.T, scale_b)):
        if a.kind == "float4_e2m1fn_x2":
            codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(len(codes), -1)
            kind, block = "e2m1", 16
        else:
            kind, block = "e4m3", 32
        rows, k = codes.shape
        held = blocked(scales.array, rows, k // block)
        by = formats.decode("e4m3", held) if block == 16 else 2.0 ** (held.astype(float) - 127)
        factors.append(formats.decode(kind, codes) * np.repeat(by, block, axis=1))
    return Tensor(
        np.asarray(formats.decode("bf16", formats.encode("bf16", factors[0] @ factors[1].T)))
    )


def torch(product: Any = multiplied) -> Any:
    names = {name: name for kind in vendor.KINDS.values() for name in kind[:2]}
    return SimpleNamespace(from_numpy=Tensor, _scaled_mm=product, bfloat16="bf16",
                           __version__="9.9", **names)  # fmt: skip


@pytest.mark.parametrize("kind", vendor.KINDS)
def test_the_operands_lie_as_cublas_has_them(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasebit.instruments.beside_torch.times", lambda *a: {kind: [7.0]})
    assert vendor.times(torch(), kind, 256) == [7.0]


@pytest.mark.parametrize("kind", vendor.KINDS)
def test_what_is_wrong_is_not_timed(kind: str) -> None:
    def exchanged(a: Tensor, b: Tensor, **how: Any) -> Tensor:
        how["scale_a"] = Tensor(how["scale_a"].array[::-1])
        return multiplied(a, b, **how)

    assert vendor.times(torch(exchanged), kind, 256) == (
        f"{kind}: the result is wrong, so it was not timed"
    )


def test_what_torch_refuses_is_said_in_words() -> None:
    def refuses(*_: Any, **__: Any) -> None:
        raise RuntimeError("only for sm_100\nat line 7")

    assert vendor.times(torch(refuses), "NVFP4", 256) == (
        "NVFP4: torch 9.9 refuses: only for sm_100"
    )
    without = torch()
    del without.float8_e8m0fnu
    assert "MXFP8: torch 9.9 refuses" in str(vendor.times(without, "MXFP8", 256))


def test_the_record_has_what_was_timed_and_says_what_was_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record, "SIZES", (256,))
    monkeypatch.setattr("phasebit.instruments.beside_torch.torch_here", lambda name: torch())
    monkeypatch.setattr(vendor, "times", lambda torch, kind, size:
                        [7.0] if kind == "NVFP4" else "MXFP8: wrong")  # fmt: skip
    products, said = record._vendor()
    assert [each["kernel"] for each in products] == ["cuBLAS, NVFP4, C in bf16"]
    assert said.endswith("bf16 results; MXFP8: wrong")

    def missing(name: str) -> None:
        raise toolchain.CudaError("no torch here")

    monkeypatch.setattr("phasebit.instruments.beside_torch.torch_here", missing)
    assert record._vendor() == ([], "nothing: no torch here")
