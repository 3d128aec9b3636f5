// What two GPUs share: a ring whose slots lie in the memory of the GPU that reads them.
//
// `full[tile]` lies beside the slots, with the reader; the writer raises it to the turn that it has
// written. It only grows, so nobody resets it between launches: the turn is the phase.
//
// There is no `empty`, because there are two slots. Turn t overwrites what the peer read in turn
// t - 2. This GPU has had the peer's tiles of turn t - 1, which the peer sent after its kernel of
// turn t - 2 had ended.
//
// Flags between GPUs need .sys scope, on both sides (PTX ISA 8.5, 8.8): .gpu scope orders threads of
// one GPU.
#pragma once

constexpr int SLOTS = 2;  // turn t uses slot t % SLOTS

struct Link {              // one GPU's ends of the two rings, towards the peer and from it
    float* there;          // the peer's slots, (SLOTS, …): this GPU writes them
    unsigned* there_full;  // one for each tile, with the peer
    const float* here;     // this GPU's slots, (SLOTS, …): the peer writes them
    const unsigned* full;  // one for each tile, here
};

// All threads of the block have stored; one tells the peer so. The barrier of the block makes their
// stores part of what the release publishes.
__device__ inline void raise(unsigned* flag, unsigned turn) {
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(turn) : "memory");
}

// The block goes on once the flag has come to the turn.
__device__ inline void wait_for(const unsigned* flag, unsigned turn) {
    if (threadIdx.x == 0) {
        unsigned seen;
        do asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        while (seen < turn);
    }
    __syncthreads();
}

constexpr int TILE = 16;     // rows and columns of a tile
constexpr int THREADS = 64;  // of a block: each computes 4 elements of a tile

// A tile of a product, by one block: the sums of thread t are rows t / 16 + {0, 4, 8, 12}, column
// t % 16. A: (16, K), rows K apart; B: (K, 16), rows N apart.
template <int K, int N> __device__ void multiply(const float* A, const float* B, float (&sum)[4]) {
    __shared__ float As[TILE][TILE], Bs[TILE][TILE];
    const int row = threadIdx.x / TILE, column = threadIdx.x % TILE;
    for (float& each : sum) each = 0;
    for (int k = 0; k < K; k += TILE) {
        for (int i = row; i < TILE; i += THREADS / TILE) {
            As[i][column] = A[i * K + k + column];
            Bs[i][column] = B[(k + i) * N + column];
        }
        __syncthreads();
        for (int kk = 0; kk < TILE; ++kk)
            for (int i = 0; i < 4; ++i) sum[i] += As[row + 4 * i][kk] * Bs[kk][column];
        __syncthreads();
    }
}
