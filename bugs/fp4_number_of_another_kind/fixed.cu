// The instruction descriptor says which type A and B have, by a number. In kind::f8f6f4, where the
// function that makes it comes from, e2m1 is 5; in kind::mxf4nvf4 it is 1.
#include "bugs_scaled.cuh"

constexpr unsigned E2M1 = 1;

__global__ void __launch_bounds__(128)
product(const uint4* A,       // (M, STEPS · STEP)
        const uint4* B,       // (N, STEPS · STEP)
        const uint4* scales,  // atoms: A's, B's, one for all steps
        float* C)             // (M, N)
{
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    __shared__ alignas(1024) Tiles tiles;
    __shared__ alignas(128) uint4 atoms[2][ATOM / 16];
    __shared__ unsigned long long done;
    const unsigned d = begin(tiles, A, B, atoms, scales, &done);
    constexpr unsigned INSTRUCTION = E2M1 << 7 | E2M1 << 10 | N / 8 << 17 | M / 128 << 27;
    if (threadIdx.x == 0) {
        for (int atom = 0; atom < 2; ++atom) ptx::tcgen05_cp_scales(d + N + 4 * atom, atoms[atom]);
        for (int step = 0; step < STEPS; ++step)
            ptx::tcgen05_mma_nvfp4(d, ptx::tcgen05_descriptor_128B(tiles.a) + 2 * step,
                                   ptx::tcgen05_descriptor_128B(tiles.b) + 2 * step,
                                   INSTRUCTION, d + N, d + N + 4, step > 0);
        ptx::tcgen05_commit(&done);
    }
    ptx::mbarrier_wait(&done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    store_and_end(d, C);
#endif
}

int main() {
    const bytes A = numbers(M, 0), B = numbers(N, 1);
    bytes scales(2 * ATOM);
    scale(scales, 0, [](int row, int) { return row % 2; });
    scale(scales, 1, [](int, int) { return 0; });
    std::vector<float> wanted(M * N);
    for (int i = 0; i < M * N; ++i)
        for (int k = 0; k < STEPS * STEP; ++k)
            wanted[i] += number(A, i / N, k) * number(B, i % N, k) * (1 + i / N % 2);
    float* C = poisoned<float>(M * N);
    product<<<1, 128>>>(reinterpret_cast<uint4*>(to_device(A)),
                        reinterpret_cast<uint4*>(to_device(B)),
                        reinterpret_cast<uint4*>(to_device(scales)), C);
    return verdict(to_host(C, M * N), wanted);
}
