"""Open kernels of others, to be timed beside ours: fast.cu, CUTLASS, DeepGEMM.

(FlashAttention-3 has a module of its own, in the chapter that it stands beside.)

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
    "flash-attention": "https://github.com/Dao-AILab/flash-attention",
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
_DEEP = "deep_gemm/include/deep_gemm/impls/sm90_fp8_gemm_1d2d.cuh"
_DEEP_GEMM = """\
#include <deep_gemm/impls/sm90_fp8_gemm_1d2d.cuh>
#include <algorithm>
#include "check.cuh"

namespace rival {
using namespace deep_gemm;

constexpr int M_ = 256, N_ = 128, K_ = 128, STAGES = 3, THREADS = 384;
constexpr auto kernel = &sm90_fp8_gemm_1d2d_impl<
    cute::UMMA::Major::K, 0, COLUMNS, DEPTH, 1, M_, N_, K_, 128, 128, 128, STAGES, 128, 256,
    PAIR, (PAIR > 1), UNITS, GemmType::Normal, cutlass::bfloat16_t,
    epilogue::transform::EpilogueIdentity>;

static CUtensorMap map_of(CUtensorMapDataType type, int size, const void* at, int inner, int outer,
                          size_t stride, int box_inner, int box_outer, bool swizzled) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult state;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                           cudaEnableDefault, &state));
    const cuuint64_t dims[2] = {cuuint64_t(inner), cuuint64_t(outer)}, strides[1] = {stride * size};
    const cuuint32_t box[2] = {cuuint32_t(box_inner), cuuint32_t(box_outer)}, steps[2] = {1, 1};
    CUtensorMap map;
    if (reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found)(
            &map, type, 2, const_cast<void*>(at), dims, strides, box, steps,
            CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
        abort();
    return map;
}
}  // namespace rival

// C (m, n) = A (m, k) · B (n, k)ᵀ: e4m3 and bf16, row-major; a_scales (k / 128, m), rounded up and
// to 4; b_scales (n / 128, k / 128).
extern "C" void product(const void* a, const void* b, void* c, const float* a_scales,
                        const float* b_scales, int m, int n, int k, int units,
                        cudaStream_t stream) {
    using namespace rival;
    const auto byte = CU_TENSOR_MAP_DATA_TYPE_UINT8;
    const int along = (k + K_ - 1) / K_, bytes = M_ * N_ * 2 +
        STAGES * ((M_ + N_) * K_ + M_ * 4) + (along * 4 + 7) / 8 * 8 + 16 * 16;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    cudaLaunchAttribute pair;
    pair.id = cudaLaunchAttributeClusterDimension;
    pair.val.clusterDim = {PAIR, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = UNITS, config.blockDim = THREADS, config.dynamicSmemBytes = bytes;
    config.stream = stream, config.attrs = &pair, config.numAttrs = PAIR > 1;
    CHECK(cudaLaunchKernelEx(
        &config, kernel, const_cast<float*>(b_scales), static_cast<int*>(nullptr), unsigned(m),
        unsigned(n), unsigned(k), map_of(byte, 1, a, k, m, k, K_, M_, true),
        map_of(byte, 1, b, k, n, k, K_, N_, true),
        map_of(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, c, n, m, n, 64, M_, true),
        map_of(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, a_scales, (m + 3) / 4 * 4, along,
               (m + 3) / 4 * 4, M_, 1, false)));
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


def here(name: str) -> bool:
    """Whether ``PHASEBIT_RIVALS`` has a checkout of a rival."""
    return Path(os.environ.get(FOLDER, "/dev/null"), name).is_dir()


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


def deep_gemm_text(n: int, k: int, *, pair: int, units: int) -> tuple[str, tuple[str, ...]]:
    """DeepGEMM's product of e4m3 with block scales for one N and K, and options to compile it.

    As its own code makes it for a large product: tiles of 256 × 128, three stages, and N and K in
    the kernel's type. ``pair``: blocks that share a tile of A; 1 where there is only one wave of
    tiles. ``units``: multiprocessors. The text has a function ``product`` as ours have.
    """
    folders = checkout("DeepGEMM") / "deep_gemm/include", checkout("cutlass") / "include"
    _read("DeepGEMM", _DEEP)
    text = _DEEP_GEMM
    for name, value in {"COLUMNS": n, "DEPTH": k, "PAIR": pair, "UNITS": units}.items():
        text = re.sub(rf"\b{name}\b", str(value), text)
    options = ("-std=c++20", "-O3", "-w", "--expt-relaxed-constexpr", "--expt-extended-lambda",
               "--ptxas-options=--register-usage-level=10")  # fmt: skip
    return text, (*options, *(f"-isystem={folder}" for folder in folders))


def deep_gemm_fp8(n: int, k: int, *, pair: int, units: int) -> tuple[ctypes.CDLL, str]:
    """That, as a library, and what it was built from."""
    text, options = deep_gemm_text(n, k, pair=pair, units=units)
    digest = hashlib.sha256(_read("DeepGEMM", _DEEP).encode()).hexdigest()[:12]
    built = toolchain.build(
        text, name="deep_gemm", target="sm_90a", options=options, library=True
    )
    return _loaded(built), f"{_DEEP}, SHA-256 {digest}…"


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
