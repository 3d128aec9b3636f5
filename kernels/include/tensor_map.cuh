// tensor_map_2d(matrix, rows, cols, box_rows, box_cols, swizzle): what the copy engine must know of
// a row-major matrix to copy boxes of it. The kernel takes it as const __grid_constant__ CUtensorMap.
//
// The function that makes it, cuTensorMapEncodeTiled, belongs to the driver; the runtime finds it,
// so that nothing but the runtime need be linked.
#pragma once
#include "check.cuh"
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <type_traits>

template <class T> constexpr CUtensorMapDataType tensor_type() {
    if constexpr (std::is_same_v<T, float>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    else if constexpr (std::is_same_v<T, __half>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    else if constexpr (std::is_same_v<T, __nv_bfloat16>) return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    else {
        static_assert(std::is_same_v<T, int>, "a type that tensor_type knows");
        return CU_TENSOR_MAP_DATA_TYPE_INT32;
    }
}

template <class T>
CUtensorMap tensor_map_2d(const T* matrix, unsigned rows, unsigned cols, unsigned box_rows,
                          unsigned box_cols, CUtensorMapSwizzle swizzle) {
    using Encode = decltype(&cuTensorMapEncodeTiled);
    static Encode encode = [] {
        void* found = nullptr;
        cudaDriverEntryPointQueryResult state;
        CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                               cudaEnableDefault, &state));
        if (state != cudaDriverEntryPointSuccess) {
            fprintf(stderr, "this driver has no cuTensorMapEncodeTiled: it is older than 12.0\n");
            exit(1);
        }
        return reinterpret_cast<Encode>(found);
    }();
    // All from the innermost dimension outwards; strides in bytes, of all dimensions but that.
    const cuuint64_t dims[2] = {cols, rows}, strides[1] = {cols * sizeof(T)};
    const cuuint32_t box[2] = {box_cols, box_rows}, steps[2] = {1, 1};
    CUtensorMap map;
    CUresult result = encode(&map, tensor_type<T>(), 2, const_cast<T*>(matrix), dims, strides, box,
                             steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                             CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "cuTensorMapEncodeTiled refuses %u x %u in boxes of %u x %u: error %d\n",
                rows, cols, box_rows, box_cols, result);
        exit(1);
    }
    return map;
}
