"""Open kernels of others, to be timed beside ours: fast.cu, CUTLASS and DeepGEMM.

None of their code is kept here. ``PHASEBIT_RIVALS`` names a folder with a checkout of each, under
the names of :data:`CHECKOUTS`; DeepGEMM is built in its own (``python setup.py build_ext
--inplace``, with its submodules).
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import os
import re
import sys
from pathlib import Path
from typing import Any

from phasebit import toolchain

FOLDER = "PHASEBIT_RIVALS"
CHECKOUTS = {
    "fast.cu": "https://github.com/pranjalssh/fast.cu",
    "cutlass": "https://github.com/NVIDIA/cutlass",
    "DeepGEMM": "https://github.com/deepseek-ai/DeepGEMM",
}
"""Folder -> where it comes from."""

_FAST = "examples/matmul/matmul_12.cuh"
_FAST_HEAD = """\
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
typedef __nv_bfloat16 bf16;
#define CEIL_DIV(M, N) (((M) + (N) - 1) / (N))
#define cudaCheck(call) do { if ((call) != cudaSuccess) abort(); } while (0)
static cudaStream_t stream_of_rival;
"""
_FAST_FOOT = """
// C (m, n) = A (m, k) · B (n, k)ᵀ, bf16, all row-major: the rival's C is column-major, so A and B
// change places. A call with `fresh` makes its tensor maps anew.
extern "C" int product(bf16* a, bf16* b, bf16* c, int m, int n, int k, int fresh, void* stream) {
    if (fresh) M12::_prev_m = 0;
    stream_of_rival = (cudaStream_t)stream;
    runKernel12(n, m, k, b, a, c, nullptr);
    return cudaGetLastError();
}
"""
_CUTLASS = """\
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
using namespace cute;
using Element = cutlass::bfloat16_t;
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
using Out = cute::conditional_t<EXCHANGED, Column, Row>;
using TileShape = Shape<Int<ROWS>, Int<COLUMNS>, Int<DEPTH>>;
using Cluster = Shape<Int<PAIR>, _1, _1>;
using Sm = cutlass::arch::Sm90;
using Cores = cutlass::arch::OpClassTensorOp;
using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    Sm, Cores, TileShape, Cluster, cutlass::epilogue::collective::EpilogueTileAuto, float, float,
    void, Out, 8, Element, Out, 8, cutlass::epilogue::TmaWarpSpecialized##KIND>::CollectiveOp;
using Room = cutlass::gemm::collective::StageCountAutoCarveout<
    static_cast<int>(sizeof(typename Epilogue::SharedStorage))>;
using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    Sm, Cores, Element, Row, 8, Element, Column, 8, float, TileShape, Cluster, Room,
    cutlass::gemm::KernelTmaWarpSpecialized##LOOP>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<
    Shape<int, int, int, int>, Mainloop, Epilogue, cutlass::gemm::SCHEDULER>;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

// C (m, n) = A (m, k) · B (n, k)ᵀ, bf16, all row-major. EXCHANGED: Cᵀ = B · Aᵀ is made instead.
// Returns the bytes of room that it needs where `room` is null, else a status: 0 is success.
extern "C" long product(Element* a, Element* b, Element* c, int m, int n, int k, int swizzle,
                        int units, void* room, void* stream) {
    int rows = EXCHANGED ? n : m, columns = EXCHANGED ? m : n;
    typename Kernel::StrideA of_a{};
    typename Kernel::StrideB of_b{};
    typename Kernel::StrideD of_c{};
    get<0>(of_a) = k;
    get<0>(of_b) = k;
    [n](auto& stride) {
        if constexpr (EXCHANGED) get<1>(stride) = n; else get<0>(stride) = n;
    }(of_c);
    typename Gemm::Arguments asked{
        cutlass::gemm::GemmUniversalMode::kGemm,
        {rows, columns, k, 1},
        {EXCHANGED ? b : a, of_a, EXCHANGED ? a : b, of_b},
        {{1.0f, 0.0f}, nullptr, of_c, c, of_c},
        {0, units}};
    asked.scheduler.max_swizzle_size = swizzle;
    if (!room) return static_cast<long>(Gemm::get_workspace_size(asked));
    static Gemm gemm;
    if (gemm.can_implement(asked) != cutlass::Status::kSuccess) return -1;
    auto at = static_cast<cudaStream_t>(stream);
    if (gemm.initialize(asked, room, at) != cutlass::Status::kSuccess) return -2;
    return gemm.run(at) == cutlass::Status::kSuccess ? 0 : -3;
}
"""


def checkout(name: str) -> Path:
    """The folder of a rival's checkout.

    Raises :class:`toolchain.CudaError` where ``PHASEBIT_RIVALS`` has none.
    """
    folder = os.environ.get(FOLDER)
    if not folder:
        raise toolchain.CudaError(
            f"the rivals are not here: set {FOLDER} to a folder with checkouts of "
            + ", ".join(CHECKOUTS.values())
        )
    found = Path(folder) / name
    if not found.is_dir():
        raise toolchain.CudaError(f"{folder} has no {name}: clone {CHECKOUTS[name]} there")
    return found


def _read(name: str, path: str) -> str:
    """A file of a rival's checkout."""
    file = checkout(name) / path
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise toolchain.CudaError(f"{file} cannot be read: {error.strerror}") from error


def fast_cu() -> tuple[ctypes.CDLL, str]:
    """The last kernel of fast.cu's worklog, and what it was built from.

    It takes m, n and k that are multiples of 256, 256 and 64.
    """
    text = _read("fast.cu", _FAST)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    launched, found = re.subn(r"sMemSize>>>\(M", "sMemSize, stream_of_rival>>>(M", text)
    if found != 1:
        raise toolchain.CudaError(f"{_FAST} is not the kernel that this was written for")
    options = ("-std=c++17", "-O3", "-DNDEBUG", "-w", "--use_fast_math",
               "--expt-relaxed-constexpr")  # fmt: skip
    built = toolchain.build(
        _FAST_HEAD + launched + _FAST_FOOT, name="fast.cu", target="sm_90a", options=options,
        library=True,
    )  # fmt: skip
    return _loaded(built), f"{_FAST}, SHA-256 {digest}…"


def cutlass(
    rows: int, columns: int, depth: int, *, pair: int = 1, pingpong: bool = False,
    stream_k: bool = False, exchanged: bool = False,
) -> ctypes.CDLL:  # fmt: skip
    """A kernel made of CUTLASS's collectives, with a tile of ``rows`` × ``columns`` × ``depth``.

    ``pair``: blocks of a cluster along M. ``exchanged``: the transpose of C is made. Takes minutes
    of a core to compile.
    """
    headers = checkout("cutlass") / "include"
    kind = "" if pingpong else "Cooperative"
    loop = "Pingpong" if pingpong else "Cooperative"
    text = (
        _CUTLASS.replace("##KIND", kind).replace("##LOOP", loop)
        .replace("SCHEDULER", "StreamKScheduler" if stream_k else "PersistentScheduler")
    )  # fmt: skip
    for name, value in {
        "ROWS": rows, "COLUMNS": columns, "DEPTH": depth, "PAIR": pair,
        "EXCHANGED": str(exchanged).lower(),
    }.items():  # fmt: skip
        text = re.sub(rf"\b{name}\b", str(value), text)
    built = toolchain.build(
        text, name="cutlass", target="sm_90a", library=True, timeout=900,
        options=("-std=c++17", "-O3", "-DNDEBUG", "-w", "--expt-relaxed-constexpr",
                 f"-isystem={headers}"),
    )  # fmt: skip
    return _loaded(built)


def _loaded(built: toolchain.Build) -> ctypes.CDLL:
    """A rival's library; it calls the driver by name, so the driver's library comes first."""
    ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(built.program))


def cutlass_version() -> str:
    """As its own header says."""
    header = "include/cutlass/version.h"
    found = dict(re.findall(r"#define CUTLASS_(MAJOR|MINOR|PATCH) (\d+)", _read("cutlass", header)))
    if len(found) != 3:
        raise toolchain.CudaError(f"{header} names no version of three parts")
    return ".".join(found[part] for part in ("MAJOR", "MINOR", "PATCH"))


def deep_gemm() -> Any:
    """The package ``deep_gemm``; raises :class:`toolchain.CudaError` where it does not load."""
    folder = str(checkout("DeepGEMM"))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module("deep_gemm")
    except ImportError as error:
        raise toolchain.CudaError(f"DeepGEMM does not load from {folder}: {error}") from error
