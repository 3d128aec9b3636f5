"""CUTLASS's own kernels and host code: whole programs, compiled and run without a GPU.

`gemm.cu` asks the CollectiveBuilder for a kernel, CUTLASS makes its tensor maps and launches it;
the program compares with a loop on the host.  `pip install nvidia-cutlass` brings the headers.
"""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from phasebit.runtime.command import nvcc_command

FOUND = importlib.util.find_spec("cutlass_library")
if FOUND is None or FOUND.origin is None:
    pytest.skip("nvidia-cutlass is not installed: NOT asked", allow_module_level=True)

pytestmark = [pytest.mark.foreign, pytest.mark.nvcc]

SOURCE = Path(FOUND.origin).parent / "source"
INCLUDES = [f"-I{SOURCE / part}" for part in ("include", "tools/util/include")]
SCHEDULES = ["eager", "late", "random"]
FOLDER = tempfile.TemporaryDirectory()

COOPERATIVE = {
    "SCHEDULE": "cutlass::gemm::KernelTmaWarpSpecializedCooperative",
    "EPILOGUE": "cutlass::epilogue::TmaWarpSpecializedCooperative",
}
PINGPONG = {
    "SCHEDULE": "cutlass::gemm::KernelTmaWarpSpecializedPingpong",
    "EPILOGUE": "cutlass::epilogue::TmaWarpSpecialized", "M": "64",
}  # fmt: skip
NEW = {"ARCH": "cutlass::arch::Sm100"}
PAIR = NEW | {
    "SCHEDULE": "cutlass::gemm::KernelTmaWarpSpecialized2SmSm100",
    "EPILOGUE": "cutlass::epilogue::TmaWarpSpecialized2Sm", "M": "256", "CLUSTER_M": "2",
}  # fmt: skip
STREAM = {"SCHEDULER": "cutlass::gemm::StreamKScheduler", "DECOMPOSITION": "StreamK"}

CASES = {
    "cooperative": ("sm_90a", COOPERATIVE | {"CLUSTER_M": "2"}, [(256, 264, 192, 2)]),
    "ping-pong": ("sm_90a", PINGPONG, [(128, 256, 128, 1), (200, 136, 96, 1)]),
    "stream-K": ("sm_90a", COOPERATIVE | STREAM | {"SPLITS": "1", "SMS": "6"},
                 [(256, 384, 320, 1)]),
    "pair": ("sm_100a", PAIR, [(512, 256, 192, 1)]),
}  # fmt: skip


@functools.cache
def built(name: str) -> Path:
    target, about, _ = CASES[name]
    program = Path(FOLDER.name) / name
    macros = [f"-DCASE_{key}={value}" for key, value in about.items()]
    options = [f"-arch={target}", "-std=c++17", "--expt-relaxed-constexpr", "-O1", "-w"]
    source = Path(__file__).parent / "cutlass" / "gemm.cu"
    command = [*nvcc_command([*options, *INCLUDES, *macros, str(source)]), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", CASES)
def test_products(name: str, schedule: str) -> None:
    for shape in CASES[name][2]:
        command = [sys.executable, "-m", "phasebit", "run", "--schedule", schedule,
                   str(built(name)), *map(str, shape)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("right\n", "")
