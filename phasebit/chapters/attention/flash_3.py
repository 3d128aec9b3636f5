"""FlashAttention-3's forward as a rival of *Attention*, where somebody has built it.

None of its code is kept here. ``PHASEBIT_RIVALS`` names a folder with a checkout of
github.com/Dao-AILab/flash-attention (see :mod:`phasebit.instruments.rivals`), and
``python -m phasebit.chapters.attention.flash_3`` builds its kernels for bf16 and heads of 64 and of
128 there, in some twenty minutes of a core.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
from pathlib import Path
from typing import Any

from phasebit import process, toolchain
from phasebit.instruments import beside_torch, rivals
from phasebit.instruments.beside_torch import Launch

FOLDER, LIBRARY = "flash-attention", "fa3.so"
_LOOP = "hopper/mainloop_fwd_sm90_tma_gmma_ws.hpp"
_LEFT_OUT = ("BACKWARD", "PAGEDKV", "SPLIT", "APPENDKV", "LOCAL", "SOFTCAP", "PACKGQA", "FP16",
             "FP8", "SM8x")  # fmt: skip
_TEXT = """\
#include "flash_fwd_launch_template.h"
#define FORWARD(D) run_mha_fwd_<90, cutlass::bfloat16_t, D, D, false, false, false, false>
// As ours: Q and O (batches, heads, queries, D), K and V (batches, kv_heads, keys, D), or packed.
extern "C" int attend(void* q, void* k, void* v, void* o, float* lse, int* room, int batches,
                      int heads, int kv_heads, int queries, int keys, int d, int causal, int units,
                      int* first_query, int* first_key, int all_queries, int all_keys,
                      cudaStream_t stream) {
    Flash_fwd_params p = {};
    const bool packed = first_query;
    const auto row = [&](int h) { return packed ? long(h) * d : long(d); };
    const auto head = [&](int s) { return packed ? long(d) : long(s) * d; };
    p.is_bf16 = true;
    p.q_ptr = q, p.k_ptr = k, p.v_ptr = v, p.o_ptr = o, p.softmax_lse_ptr = lse;
    p.q_row_stride = p.o_row_stride = row(heads);
    p.q_head_stride = p.o_head_stride = head(queries);
    p.k_row_stride = p.v_row_stride = row(kv_heads);
    p.k_head_stride = p.v_head_stride = head(keys);
    p.v_dim_stride = 1;
    if (!packed) {
        p.q_batch_stride = p.o_batch_stride = long(heads) * queries * d;
        p.k_batch_stride = p.v_batch_stride = long(kv_heads) * keys * d;
    }
    p.cu_seqlens_q = first_query, p.cu_seqlens_k = first_key;
    p.b = p.b_k = batches, p.h = heads, p.h_k = kv_heads;
    p.seqlen_q = queries, p.seqlen_k = keys;
    p.seqlen_q_rounded = (queries + 127) / 128 * 128;
    p.seqlen_k_rounded = (keys + 127) / 128 * 128;
    p.d = p.d_rounded = p.dv = p.dv_rounded = d;
    p.total_q = packed ? all_queries : batches * queries;
    p.total_k = packed ? all_keys : batches * keys;
    p.scale_softmax = 1 / sqrtf(d);
    p.p_dropout = 1, p.p_dropout_in_uint8_t = 255, p.rp_dropout = 1;
    p.is_causal = causal;
    p.window_size_left = keys - 1, p.window_size_right = causal ? 0 : queries - 1;
    p.num_splits = 1, p.page_size = 1, p.arch = 90, p.num_sm = units;
    p.varlen_sort_batches = true, p.head_swizzle = causal;
    if (packed) {
        const int b = (batches + 3) / 4 * 4, vectors = 3 + (causal != 0);
        p.prepare_varlen_pdl = batches <= 992;
        p.num_splits_dynamic_ptr = room, p.num_m_blocks_ptr = room + b;
        p.varlen_batch_idx_ptr = room + 2 * b;
        p.num_nheads_in_l2_ptr = causal ? room + 3 * b : nullptr;
        p.tile_count_semaphore = room + vectors * b, p.tile_count_semaphore_offset = vectors * b;
    } else if (causal) {
        p.tile_count_semaphore = room;
        if (cudaMemsetAsync(room, 0, 4, stream) != cudaSuccess) return 1;
    }
    d == 64 ? FORWARD(64)(p, stream) : FORWARD(128)(p, stream);
    return cudaGetLastError();
}
"""


def build() -> Path:
    """Build the library in the checkout; raises :class:`toolchain.CudaError` where that fails."""
    folder = rivals.checkout(FOLDER)
    source, library = folder / "fa3.cu", folder / LIBRARY
    source.write_text(_TEXT, encoding="utf-8")
    options = ["-std=c++17", "-O3", "--use_fast_math", "--expt-relaxed-constexpr", "-w", "-shared",
               "-Xcompiler", "-fPIC", "-gencode", "arch=compute_90a,code=sm_90a", "-DNDEBUG",
               "-DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED", "-DCUTLASS_ENABLE_GDC_FOR_SM90",
               *(f"-DFLASHATTENTION_DISABLE_{part}" for part in _LEFT_OUT),
               f"-I{folder}/hopper", f"-I{folder}/csrc/cutlass/include"]  # fmt: skip
    sources = [source, folder / "hopper" / "flash_prepare_scheduler.cu"]
    done = process.run([toolchain.nvcc().path, *options, *sources, "-o", library], timeout=7200)
    if not done.ok:
        raise toolchain.CudaError(f"FlashAttention-3 does not build: {done.stderr[:500]}")
    return library


def here() -> ctypes.CDLL | None:
    """The library; ``None`` where nobody has built it."""
    if not os.environ.get(rivals.FOLDER):
        return None
    library = Path(os.environ[rivals.FOLDER]) / FOLDER / LIBRARY
    if not library.is_file():
        return None
    ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(library))


def version() -> str:
    """What was built, in words of a record."""
    folder = rivals.checkout(FOLDER)
    found = re.search(r'__version__ = "(.+)"', (folder / "hopper/__init__.py").read_text())
    if found is None:
        raise toolchain.CudaError("hopper/__init__.py names no version")
    digest = hashlib.sha256((folder / _LOOP).read_bytes()).hexdigest()[:12]
    return f"FlashAttention-3 {found[1]}, {_LOOP} with SHA-256 {digest}…"


def launch(
    torch: Any, library: ctypes.CDLL, tensors: tuple[Any, Any, Any, Any], causal: bool,
    starts: Any = None,
) -> Launch:  # fmt: skip
    """One launch on q, k, v and o as :func:`launched.ours` has them."""
    q = tensors[0]
    batches, heads, length, d = q.shape if starts is None else (
        len(starts) - 1, q.shape[1], int((starts[1:] - starts[:-1]).max()), q.shape[2])  # fmt: skip
    sums = torch.empty(q.numel() // d, device="cuda")
    room = torch.zeros(4096, dtype=torch.int32, device="cuda")
    first = None if starts is None else ctypes.c_void_p(starts.data_ptr())
    tokens = 0 if starts is None else q.shape[0]
    pointers = beside_torch.pointers((*tensors, sums, room))
    units = torch.cuda.get_device_properties(0).multi_processor_count
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def go(kept: tuple[Any, ...] = (sums, room, starts)) -> None:  # alive as long as the launch is
        failed = library.attend(*pointers, batches, heads, heads, length, length, d, int(causal),
                                units, first, first, tokens, tokens, stream)  # fmt: skip
        if failed:
            raise toolchain.CudaError(f"FlashAttention-3 fails with error {failed}")

    return go


if __name__ == "__main__":
    print(build())
