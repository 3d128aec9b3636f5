// Products of four bits: C = A · Bᵀ of NVFP4, numbers of e2m1 and a scale of ue4m3 for each 16 of
// them along k, sums in f32. A slot holds a slice of A and B and their scales; the thread that
// multiplies copies the scales to tensor memory first, where the tensor core reads them.
constexpr int EACH = 1;  // instructions that an atom of scales, four for each row, serves
#include "low_precision/one_sum.cuh"

__device__ void multiply(Shared& s, int slices) {
    constexpr unsigned INSTRUCTION = ptx::tcgen05_nvfp4(TILE_M, TILE_N);
    const unsigned sum = s.tensor_memory;
    int slot = 0, phase = 0;
    for (int slice = 0; slice < slices; ++slice) {
        const Slot& from = s.slots[slot];
        const unsigned a_scales = sum + TILE_N + slot * 2 * STEPS * SCALES;
        const unsigned b_scales = a_scales + STEPS * SCALES;
        ptx::mbarrier_wait(&s.full[slot], phase);
        ptx::tcgen05_fence_after_thread_sync();
        for (int step = 0; step < STEPS; ++step) {  // in order before the products
            ptx::tcgen05_cp_scales(a_scales + SCALES * step, from.a_scales[step]);
            ptx::tcgen05_cp_scales(b_scales + SCALES * step, from.b_scales[step]);
        }
        const unsigned long long a = ptx::tcgen05_descriptor_128B(from.a);
        const unsigned long long b = ptx::tcgen05_descriptor_128B(from.b);
        for (int step = 0; step < STEPS; ++step)  // 64 along k are 32 bytes
            ptx::tcgen05_mma_nvfp4(sum, a + 2 * step, b + 2 * step, INSTRUCTION,
                                   a_scales + SCALES * step, b_scales + SCALES * step,
                                   slice + step > 0);
        ptx::tcgen05_commit(&s.empty[slot]);  // numbers and scales have been read
        if (++slot == STAGES) slot = 0, phase ^= 1;
    }
    ptx::tcgen05_commit(&s.done);
}
