// The host and a kernel count in the same words at the same time.
#include <cstdio>
#include <unistd.h>

enum { THREADS = 64, ROUNDS = 200 };

// words: uint32 [3] in memory that the host sees: a sum, a largest number, bits
__global__ void count(unsigned *words) {
    for (int i = 0; i < ROUNDS; i++) {
        atomicAdd_system(words, 1);
        atomicMax_system(words + 1, i);
        atomicXor_system(words + 2, 1u << threadIdx.x % 16);
    }
}

int main() {
    unsigned *words, mine = 0, bits = 0;
    cudaMallocManaged(&words, 3 * sizeof *words);
    for (int i = 0; i < 3; i++)
        words[i] = 0;
    count<<<1, THREADS>>>(words);
    while (cudaStreamQuery(0) == cudaErrorNotReady) {
        __atomic_fetch_add(words, 1, __ATOMIC_SEQ_CST);
        __atomic_fetch_xor(words + 2, 1u << 16 << mine % 16, __ATOMIC_SEQ_CST);
        bits ^= 1u << 16 << mine % 16;
        mine++;
        usleep(50);
    }
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s: %d lost, largest %u, bits %x, host %s\n", cudaGetErrorName(error),
           (int)(mine + THREADS * ROUNDS - words[0]), words[1], words[2] ^ bits,
           mine > 10 ? "counted" : "came too late");
}
