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


EXAMPLES = {
    "sparse": "83_blackwell_sparse_gemm/83_blackwell_sparse_gemm",
    "sparse NVFP4, a pair":
        "84_blackwell_narrow_precision_sparse_gemm/84a_blackwell_nvfp4_bf16_sparse_gemm",
    "NVFP4 into NVFP4":
        "72_blackwell_narrow_precision_gemm/72b_blackwell_nvfp4_nvfp4_gemm",
}  # fmt: skip
"""Programs that come with the package, unchanged; each compares with CUTLASS's reference."""

LEAVES = "leaves the kernel while a bulk copy of"
"""What may be found in them: their last store is not waited for before the block ends."""


@functools.cache
def example(name: str) -> Path:
    found = importlib.util.find_spec("nvidia.cu13")
    headers = [Path(each) / "include" for each in found.submodule_search_locations] if found else []
    if not any((each / "curand_kernel.h").exists() for each in headers):
        pytest.skip("nvidia-curand is not installed: NOT asked")
    program = Path(FOLDER.name) / name.replace(" ", "_")
    options = ["-arch=sm_100a", "-std=c++17", "--expt-relaxed-constexpr", "-O1", "-w"]
    folders = [*INCLUDES, f"-I{SOURCE / 'examples' / 'common'}", *(f"-I{each}" for each in headers)]
    source = SOURCE / "examples" / f"{EXAMPLES[name]}.cu"
    command = [*nvcc_command([*options, *folders, str(source)]), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", EXAMPLES)
def test_programs_that_come_with_it(name: str, schedule: str) -> None:
    """Slow to compile, and cuRAND's draws are slow too: the sizes are the smallest that fit."""
    sizes = ["--m=256", "--n=128", "--k=256"] if "NVFP4" in name else [
        "--m=128", "--n=128", "--k=256"
    ]  # fmt: skip
    command = [sys.executable, "-m", "phasebit", "run", "--limit", "800", "--schedule", schedule,
               str(example(name)), *sizes, "--iterations=0"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Disposition: Passed" in done.stdout, done.stderr
    assert all(LEAVES in line for line in done.stderr.splitlines()), done.stderr
