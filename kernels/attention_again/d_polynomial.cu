// A share of the exponentials by a polynomial on the FMA units, the others by the special units.
#include "attention_again/correction.cuh"

constexpr int POLYNOMIAL = 2;  // of eight exponentials
constexpr int THREADS = 32 * (STORER + 1);

__global__ void __launch_bounds__(THREADS, 1)
attend(const __grid_constant__ CUtensorMap Q,  // (queries, heads · DEPTH), boxes of 128 × 64
       const __grid_constant__ CUtensorMap K,  // (keys, heads · DEPTH), the same boxes
       const __grid_constant__ CUtensorMap V,  // (keys, heads · DEPTH)
       const __grid_constant__ CUtensorMap O,  // (queries, heads · DEPTH)
       const Problem p) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    attend_by_roles<POLYNOMIAL>(Q, K, V, O, p);
#endif
}

#include "attention_again/harness.cuh"
