// MXFP4: numbers of e2m1 and a scale of ue8m0 for each 32 of them along k, half as many as NVFP4
// has. An atom of scales serves two instructions; the scale factor id says which half is meant.
constexpr int EACH = 2;  // instructions that an atom of scales serves
#include "low_precision/one_sum.cuh"

__device__ void multiply(Shared& s, int slices) {
    const unsigned sum = s.tensor_memory;
    int slot = 0, phase = 0;
    for (int slice = 0; slice < slices; ++slice) {
        const Slot& from = s.slots[slot];
        const unsigned a_scales = sum + TILE_N + slot * 2 * ATOMS * SCALES;
        const unsigned b_scales = a_scales + ATOMS * SCALES;
        ptx::mbarrier_wait(&s.full[slot], phase);
        ptx::tcgen05_fence_after_thread_sync();
        for (int atom = 0; atom < ATOMS; ++atom) {  // in order before the products
            ptx::tcgen05_cp_scales(a_scales + SCALES * atom, from.a_scales[atom]);
            ptx::tcgen05_cp_scales(b_scales + SCALES * atom, from.b_scales[atom]);
        }
        const unsigned long long a = ptx::tcgen05_descriptor_128B(from.a);
        const unsigned long long b = ptx::tcgen05_descriptor_128B(from.b);
        for (int step = 0; step < STEPS; ++step) {  // 64 along k are 32 bytes
            const int atom = step / EACH, id = 2 * (step % EACH);
            ptx::tcgen05_mma_mxfp4(sum, a + 2 * step, b + 2 * step,
                                   ptx::tcgen05_mxfp4(TILE_M, TILE_N, id),
                                   a_scales + SCALES * atom, b_scales + SCALES * atom,
                                   slice + step > 0);
        }
        ptx::tcgen05_commit(&s.empty[slot]);  // numbers and scales have been read
        if (++slot == STAGES) slot = 0, phase ^= 1;
    }
    ptx::tcgen05_commit(&s.done);
}
