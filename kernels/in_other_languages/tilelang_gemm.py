# mypy: ignore-errors
"""C = A · Bᵀ in TileLang, f16 in, f32 out: roles and barriers by hand, boxes and lanes not."""

import tilelang.language as T

BM, BN, BK = 128, 128, 64
STAGES, SUMS, BLOCKS = 3, 2, 1
F16, F32 = "float16", "float32"
m, n, k = T.dynamic("m"), T.dynamic("n"), T.dynamic("k")


@T.prim_func
def matmul(a: T.Tensor((m, k), F16), b: T.Tensor((n, k), F16), c: T.Tensor((m, n), F32)):
    """Each of BLOCKS makes one tile after another."""
    with T.Kernel(BLOCKS, threads=256) as block:
        in_a = T.alloc_shared((STAGES, BM, BK), F16)
        in_b = T.alloc_shared((STAGES, BN, BK), F16)
        in_c = T.alloc_shared((BM, BN), F32)
        sums = T.alloc_tmem([SUMS, BM, BN], F32)
        numbers = T.alloc_fragment((BM, BN), F32)
        full = T.alloc_barrier([32] * STAGES)
        empty = T.alloc_barrier([1] * STAGES)
        ready = T.alloc_barrier([1] * SUMS)
        free = T.alloc_barrier([128] * SUMS)
        rows = T.ceildiv(m, BM)
        steps = T.ceildiv(k, BK)
        turns = T.ceildiv(rows * T.ceildiv(n, BN) - block, BLOCKS)
        thread = T.get_thread_binding()
        if thread < 32:  # asks the copy engine for slices
            for turn in T.serial(turns):
                row = (block + turn * BLOCKS) % rows * BM
                column = (block + turn * BLOCKS) // rows * BN
                for step in T.serial(steps):
                    i = turn * steps + step
                    slot = i % STAGES
                    at = step * BK
                    T.mbarrier_wait_parity(empty[slot], (i // STAGES & 1) ^ 1)
                    T.tma_copy(
                        a[row : row + BM, at : at + BK], in_a[slot, :, :], barrier=full[slot]
                    )
                    T.tma_copy(
                        b[column : column + BN, at : at + BK], in_b[slot, :, :], barrier=full[slot]
                    )
                    T.mbarrier_arrive(full[slot])
        elif thread < 64:  # issues the products
            for turn in T.serial(turns):
                T.mbarrier_wait_parity(free[turn % SUMS], (turn // SUMS & 1) ^ 1)
                for step in T.serial(steps):
                    i = turn * steps + step
                    slot = i % STAGES
                    T.mbarrier_wait_parity(full[slot], i // STAGES & 1)
                    T.tcgen05_gemm(
                        in_a[slot, :, :],
                        in_b[slot, :, :],
                        sums[turn % SUMS, :, :],
                        transpose_B=True,
                        mbar=empty[slot],
                        clear_accum=step == 0,
                    )
                T.tcgen05_mma_arrive(ready[turn % SUMS])
        elif 128 <= thread < 256:  # fetches a sum and stores it
            for turn in T.serial(turns):
                row = (block + turn * BLOCKS) % rows * BM
                column = (block + turn * BLOCKS) // rows * BN
                T.mbarrier_wait_parity(ready[turn % SUMS], turn // SUMS & 1)
                T.copy(sums[turn % SUMS, :, :], numbers)
                T.mbarrier_arrive(free[turn % SUMS])
                T.copy(numbers, in_c)
                T.copy(in_c, c[row, column])
        T.sync_threads()  # the first warp gives tensor memory back
