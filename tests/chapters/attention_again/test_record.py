"""What would be timed on a B200: built as it is there, launched through the emulator's runtime."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from phasebit import hardware, measure, recording, toolchain
from phasebit.chapters.attention_again import record
from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.doors import device_arrays
from phasebit.emulator import formats
from phasebit.runtime import in_process, library


@pytest.mark.nvcc
def test_a_library_attends() -> None:
    shape = kernels.Shape(130, 200, heads=2, causal=True)
    data = kernels.draw(shape)
    built = record.build(kernels.POLYNOMIAL, shape.depth,
                         library.for_linking(toolchain.nvcc().major))  # fmt: skip
    with in_process.emulated("sm_100a") as runs:
        loaded = ctypes.CDLL(str(built.program))
        put = [device_arrays.array(np.ascontiguousarray(np.asarray(formats.encode("bf16", x))))
               for x in data]  # fmt: skip
        out = device_arrays.empty(put[0].shape, np.uint16)
        out[:] = 0x7FFF
        arrays = [ctypes.c_void_p(x.data_ptr()) for x in (*put, out)]
        record.attend(loaded, arrays, (2, shape.queries, shape.keys, shape.depth), True)
    assert len(runs.launches) == 1 and not runs.findings
    got = np.asarray(formats.decode("bf16", np.asarray(out)), np.float64)
    assert kernels.off(shape, data, got) <= 1


def test_another_gpu_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = hardware.Gpu("NVIDIA RTX PRO 6000", (12, 0), "580.1")
    monkeypatch.setattr(measure, "gpu", lambda: consumer)
    monkeypatch.setattr(measure, "facts", dict)
    monkeypatch.setattr(hardware, "gpu", lambda: consumer)
    with pytest.raises(toolchain.CudaError, match="runs sm_100a, a B200, and this one is NVIDIA R"):
        record.record()
    assert record.NAME in recording.possible()[1]
