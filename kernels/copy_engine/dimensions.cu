// Boxes of tensors of one to five dimensions, and the pixels under one place of a filter (im2col):
// one instruction each, whose coordinates begin with the innermost dimension.
#include "ptx_sm90.cuh"

namespace ptx {
// cp.async.bulk.tensor, 9.7.9.27.1.2, from global to shared memory: the barrier counts the bytes of
// the whole box. at: one coordinate for each dimension, the innermost first. sm_90.
#define PTX_BOX(DIMENSIONS, COORDINATES, ...)                                                      \
    asm volatile("cp.async.bulk.tensor." #DIMENSIONS                                               \
                 "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"                      \
                 " [%0], [%1, {" COORDINATES "}], [%2];"                                           \
                 :: "r"(shared_address(shared)), "l"(&map), "r"(shared_address(barrier)),          \
                    __VA_ARGS__ : "memory")

template <int DIMENSIONS>
__device__ inline void box(void* shared, const CUtensorMap& map, const int* at,
                           unsigned long long* barrier) {
    if constexpr (DIMENSIONS == 1) PTX_BOX(1, "%3", "r"(at[0]));
    if constexpr (DIMENSIONS == 2) PTX_BOX(2, "%3, %4", "r"(at[0]), "r"(at[1]));
    if constexpr (DIMENSIONS == 3) PTX_BOX(3, "%3, %4, %5", "r"(at[0]), "r"(at[1]), "r"(at[2]));
    if constexpr (DIMENSIONS == 4)
        PTX_BOX(4, "%3, %4, %5, %6", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]));
    if constexpr (DIMENSIONS == 5)
        PTX_BOX(5, "%3, %4, %5, %6, %7", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]));
}

// The same with .im2col, of images (image, row, column, channel): pixels from position at on, each
// moved by right and down within the filter's window.
__device__ inline void im2col(void* shared, const CUtensorMap& map, const int* at,
                              unsigned short right, unsigned short down,
                              unsigned long long* barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};"
                 :: "r"(shared_address(shared)), "l"(&map), "r"(shared_address(barrier)),
                    "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "h"(right), "h"(down)
                 : "memory");
}
}  // namespace ptx

// One block of 32 threads fetches a box of `bytes` and lays it out in `out` (bytes / 4).
template <class Ask> __device__ void fetch(int* out, int bytes, Ask ask) {
    extern __shared__ __align__(1024) int tile[];
    __shared__ unsigned long long full;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init();
        ptx::mbarrier_arrive_expect_tx(&full, bytes);
        ask(tile, &full);
    }
    __syncthreads();
    ptx::mbarrier_wait(&full, 0);
    for (int i = threadIdx.x; i < bytes / 4; i += 32) out[i] = tile[i];
}

// map: a tensor; at: the corner of the box, the innermost coordinate first.
#define FETCH(DIMENSIONS)                                                                          \
    extern "C" __global__ void fetch_##DIMENSIONS(const __grid_constant__ CUtensorMap map,         \
                                                  const int* at, int* out, int bytes) {            \
        fetch(out, bytes, [&](int* tile, unsigned long long* full) {                               \
            ptx::box<DIMENSIONS>(tile, map, at, full);                                             \
        });                                                                                        \
    }
FETCH(1)
FETCH(2)
FETCH(3)
FETCH(4)
FETCH(5)

extern "C" __global__ void
fetch_pixels(const __grid_constant__ CUtensorMap map,  // of images, for im2col
             const int* at,                            // (4): channel, column, row, image
             int right, int down,                      // where in the filter's window
             int* out, int bytes)
{
    fetch(out, bytes, [&](int* tile, unsigned long long* full) {
        ptx::im2col(tile, map, at, right, down, full);
    });
}
