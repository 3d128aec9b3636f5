"""``Kernel.times``: launches timed on a GPU, and refused where there is none."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

import phasebit as pb
from phasebit import files, hardware
from phasebit.emulator.errors import LaunchError
from phasebit.launching import devices
from phasebit.launching.launch import Kernel
from phasebit.launching.timing import _FLUSH

needs_gpu = pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU here")
pytestmark = pytest.mark.nvcc


def matvec() -> Kernel:
    instance = "template __global__ void matvec(int, int, const float*, const float*, float*);"
    module = pb.compile("#define OWN_MAIN\n" + files.kernel("measuring/matvec") + instance)
    return module[module.kernels[0]]


def arguments(M: int, K: int) -> list[object]:
    draw = np.random.default_rng()
    A, x = (draw.integers(-4, 5, shape).astype(np.float32) for shape in ((M, K), (K,)))
    return [M, K, A, x, np.full(M, np.nan, np.float32)]


def test_the_emulator_has_no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "gpu", lambda: None)
    kernel = matvec()
    with pytest.raises(devices.DeviceError, match="no GPU here"):
        kernel.times(1, 256, [arguments(8, 64)])
    with pytest.raises(LaunchError, match="give one at least"):
        kernel.times(1, 256, [])
    with pytest.raises(LaunchError, match="give one at least"):
        kernel.times(1, 256, [arguments(8, 64)], count=0)


def test_the_flush_reads_every_byte_once_and_writes_none() -> None:
    memory = np.zeros(2 * 256 * 16 * 4, np.uint32)  # two blocks, 16 times 16 bytes a thread
    module = pb.Module(_FLUSH)
    run = module["flush"].launch(grid=2, block=256, args=[memory])
    loaded = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    assert run.counters[loaded] == memory.nbytes // 32
    assert not memory.any() and not run.findings
    memory[-1] = 7  # so that the loads cannot have been left out
    module["flush"].launch(grid=2, block=256, args=[memory])
    assert memory[0] == 7


@pytest.mark.gpu
@needs_gpu
def test_times_on_a_gpu() -> None:
    """Every set is computed; a flush makes it slower; twice the rows take about twice as long."""
    kernel = matvec()
    sets = [arguments(4096, 2048) for _ in range(3)]
    warm = kernel.times(512, 256, sets[:1], count=100)
    flushed = kernel.times(512, 256, sets, count=100, flush=True)
    assert len(warm) == len(flushed) == 100 and min(warm) > 0
    for _, _, A, x, y in sets:
        assert np.array_equal(y, A @ x)
    assert statistics.median(flushed) > 1.2 * statistics.median(warm)
    half = kernel.times(256, 256, [arguments(2048, 2048)], count=100, flush=True)
    assert 1.2 < statistics.median(flushed) / statistics.median(half) < 2.2
    print("⏱ python:", statistics.median(warm), statistics.median(flushed))
