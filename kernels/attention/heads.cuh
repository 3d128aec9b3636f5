// map_heads<D>(matrix, layers, rows, box_rows): what the copy engine must know of heads of D
// columns (layers, rows, D) to copy boxes of them. Rows beyond a layer's end are zeros, not the
// next layer. With `packed` the matrix is (rows, layers, D).
#pragma once
#include "check.cuh"
#include <cuda.h>
#include <cuda_bf16.h>

using bf16 = __nv_bfloat16;
constexpr int PANEL = 64;  // columns of a head in 128 bytes: a row of the swizzle

template <int D>
CUtensorMap map_heads(const bf16* matrix, int layers, int rows, int box_rows, bool packed = false) {
    using Encode = decltype(&cuTensorMapEncodeTiled);
    static Encode encode = [] {  // it belongs to the driver; the runtime finds it
        void* found = nullptr;
        cudaDriverEntryPointQueryResult state;
        CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                               cudaEnableDefault, &state));
        return reinterpret_cast<Encode>(found);
    }();
    // All from the innermost dimension outwards; strides in bytes, of all dimensions but that.
    const cuuint64_t dims[] = {D, cuuint64_t(rows), cuuint64_t(layers)};
    const size_t line = D * sizeof(bf16);
    const cuuint64_t strides[] = {packed ? layers * line : line, packed ? line : rows * line};
    const cuuint32_t box[] = {PANEL, cuuint32_t(box_rows), 1}, steps[] = {1, 1, 1};
    CUtensorMap map;
    const CUresult result = encode(
        &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, const_cast<bf16*>(matrix), dims, strides, box,
        steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "cuTensorMapEncodeTiled refuses %d x %d x %d in boxes of %d: error %d\n",
                layers, rows, D, box_rows, result);
        exit(1);
    }
    return map;
}
