// A group of its own corrects O, and only where a row's maximum has moved by more than 8 (log2).
#include "attention_again/correction.cuh"

constexpr int THREADS = 32 * (STORER + 1);

__global__ void __launch_bounds__(THREADS, 1)
attend(const __grid_constant__ CUtensorMap Q,  // (queries, heads · DEPTH), boxes of 128 × 64
       const __grid_constant__ CUtensorMap K,  // (keys, heads · DEPTH), the same boxes
       const __grid_constant__ CUtensorMap V,  // (keys, heads · DEPTH)
       const __grid_constant__ CUtensorMap O,  // (queries, heads · DEPTH)
       const Problem p) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    attend_by_roles<0>(Q, K, V, O, p);
#endif
}

#include "attention_again/harness.cuh"
