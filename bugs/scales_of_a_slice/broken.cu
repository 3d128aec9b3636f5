// Tensor memory holds the scales of 256 rows: of each pair of steps first those of rows 0 to 127,
// then those of rows 128 to 255. A product takes the second half, and steps along as if that half
// lay there alone. Where it reads there are scales, of other rows and steps.
#include "bugs_scaled.cuh"

__global__ void __launch_bounds__(128)
product(const uint4* A,       // (M, STEPS · STEP): rows 128 to 255
        const uint4* B,       // (N, STEPS · STEP)
        const uint4* scales,  // atoms: of A's 256 rows as said above, then B's, one for all steps
        float* C)             // (M, N)
{
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    __shared__ alignas(1024) Tiles tiles;
    __shared__ alignas(128) uint4 atoms[2 * STEPS + 1][ATOM / 16];
    __shared__ unsigned long long done;
    const unsigned d = begin(tiles, A, B, atoms, scales, &done);
    const unsigned all = d + N, slice = all + 2 * 4, b_scales = all + 2 * STEPS * 4;
    if (threadIdx.x == 0) {
        for (int atom = 0; atom <= 2 * STEPS; ++atom)
            ptx::tcgen05_cp_scales(all + 4 * atom, atoms[atom]);
        for (int step = 0; step < STEPS; ++step) {
            const unsigned a_scales = slice + step * 4;
            ptx::tcgen05_mma_nvfp4(d, ptx::tcgen05_descriptor_128B(tiles.a) + 2 * step,
                                   ptx::tcgen05_descriptor_128B(tiles.b) + 2 * step,
                                   ptx::tcgen05_nvfp4(M, N), a_scales, b_scales, step > 0);
        }
        ptx::tcgen05_commit(&done);
    }
    ptx::mbarrier_wait(&done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    store_and_end(d, C);
#endif
}

int main() {
    const bytes A = numbers(M, 0), B = numbers(N, 1);
    bytes scales((2 * STEPS + 1) * ATOM);
    auto exponent = [](int half, int step) { return (step + 2 * half) % 3; };
    for (int step = 0; step < STEPS; ++step)
        for (int half = 0; half < 2; ++half)
            scale(scales, step / 2 * 4 + half * 2 + step % 2,
                  [&](int, int) { return exponent(half, step); });
    scale(scales, 2 * STEPS, [](int, int) { return 0; });
    std::vector<float> wanted(M * N);
    for (int i = 0; i < M * N; ++i)
        for (int k = 0; k < STEPS * STEP; ++k)
            wanted[i] += number(A, i / N, k) * number(B, i % N, k) * (1 << exponent(1, k / STEP));
    float* C = poisoned<float>(M * N);
    product<<<1, 128>>>(reinterpret_cast<uint4*>(to_device(A)),
                        reinterpret_cast<uint4*>(to_device(B)),
                        reinterpret_cast<uint4*>(to_device(scales)), C);
    return verdict(to_host(C, M * N), wanted);
}
