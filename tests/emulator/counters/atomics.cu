// Atomics on shared and global memory. Every kernel runs as 2 blocks of 64 threads.
#define KERNEL extern "C" __global__ void
#define ARGUMENTS (const float* __restrict__ in, unsigned* __restrict__ out)

__device__ int me() { return blockIdx.x * 64 + threadIdx.x; }
__device__ unsigned number(const float* in) { return (unsigned)in[me()] + me(); }

KERNEL global_red_distinct ARGUMENTS { atomicAdd(out + me(), number(in)); }
KERNEL global_red_stride_8 ARGUMENTS { atomicAdd(out + 8 * me(), number(in)); }
KERNEL global_red_same ARGUMENTS { atomicXor(out, number(in)); }
KERNEL global_red_four ARGUMENTS { atomicXor(out + me() % 4, number(in)); }
KERNEL global_red_half_warp ARGUMENTS { if (me() % 32 < 16) atomicXor(out + me(), number(in)); }
KERNEL global_atom_distinct ARGUMENTS { out[1024 + me()] = atomicXor(out + me(), number(in)); }
KERNEL global_atom_same ARGUMENTS { out[1024 + me()] = atomicXor(out, number(in)); }
KERNEL global_atom_exchange ARGUMENTS { out[1024 + me()] = atomicExch(out + me(), number(in)); }
KERNEL global_atom_cas ARGUMENTS { out[1024 + me()] = atomicCAS(out + me(), 0u, number(in)); }
KERNEL global_red_float ARGUMENTS { atomicAdd((float*)out + me(), in[me()]); }

template <class Change> __device__ void shared(const float* in, unsigned* out, Change change) {
    __shared__ unsigned tile[64 * 32];
    for (int i = threadIdx.x; i < 64 * 32; i += 64) tile[i] = 0;
    __syncthreads();
    change(tile, number(in));
    __syncthreads();
    for (int i = threadIdx.x; i < 64 * 32; i += 64) out[i] = tile[i];
}
#define SHARED(name, statement) \
    KERNEL name ARGUMENTS { \
        shared(in, out, [out](unsigned* tile, unsigned n) { const int i = threadIdx.x; (void)i; statement; }); \
    }
SHARED(shared_atom_distinct, out[4096 + me()] = atomicXor(tile + i, n))
SHARED(shared_atom_stride_2, out[4096 + me()] = atomicXor(tile + 2 * i, n))
SHARED(shared_atom_column, out[4096 + me()] = atomicXor(tile + 32 * i, n))
SHARED(shared_atom_same, out[4096 + me()] = atomicXor(tile, n))
SHARED(shared_red_distinct, atomicXor(tile + i, n))
SHARED(shared_red_same, atomicXor(tile, n))
SHARED(shared_red_four, atomicXor(tile + i % 4, n))
SHARED(shared_add_distinct, atomicAdd(tile + i, n))
SHARED(shared_exchange, out[4096 + me()] = atomicExch(tile + i, n))
SHARED(shared_cas, out[4096 + me()] = atomicCAS(tile + i, 0u, n))
