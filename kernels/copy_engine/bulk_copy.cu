// A bulk copy: one thread asks for bytes that lie together, and everybody waits at a barrier that
// counts them. No address is computed for any element, and no thread carries one.
#include "check.cuh"
#include "ptx_sm90.cuh"
#include <random>
#include <vector>

constexpr int THREADS = 128;
constexpr int TILE = 1024;  // floats of a tile: 4 KiB

__global__ void __launch_bounds__(THREADS)
halve(const float* __restrict__ x,  // (n), n a multiple of 4: bulk copies have 16 bytes and more
      float* __restrict__ y,        // (n): x / 2
      int n)
{
    __shared__ alignas(16) float slot[TILE];
    __shared__ unsigned long long full;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);  // one arrival a phase, and as many bytes as it announces
        ptx::fence_mbarrier_init();    // the copy engine sees the barrier
    }
    __syncthreads();  // and the others do
    bool phase = false;
    for (int first = blockIdx.x * TILE; first < n; first += gridDim.x * TILE, phase = !phase) {
        const int count = min(TILE, n - first);
        if (threadIdx.x == 0) {
            ptx::mbarrier_arrive_expect_tx(&full, count * sizeof(float));
            ptx::cp_async_bulk_load(slot, x + first, count * sizeof(float), &full);
        }
        ptx::mbarrier_wait(&full, phase);
        for (int i = threadIdx.x; i < count; i += THREADS) y[first + i] = slot[i] / 2;
        ptx::fence_proxy_async_shared();  // the engine writes by a path of its own: after our reads
        __syncthreads();                  // and everybody's: the slot is empty again
    }
}

// Halve n fresh random numbers; every element of the result is compared.
void check(int n, std::mt19937& random) {
    std::normal_distribution<float> normal;
    std::vector<float> given(n), got(n);
    for (float& a : given) a = normal(random);
    float *x, *y;
    CHECK(cudaMalloc(&x, n * sizeof(float)));
    CHECK(cudaMalloc(&y, n * sizeof(float)));
    CHECK(cudaMemcpy(x, given.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(y, 0xff, n * sizeof(float)));  // NaN, so that what nobody writes is wrong
    halve<<<2, THREADS>>>(x, y, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got.data(), y, n * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(x));
    CHECK(cudaFree(y));
    for (int i = 0; i < n; ++i)
        if (!(got[i] == given[i] / 2)) {
            printf("halve: WRONG at %d of %d: %g of %g\n", i, n, got[i], given[i]);
            exit(2);
        }
}

int main(int argc, char** argv) {
    std::mt19937 random(argc > 1 ? std::stoul(argv[1]) : std::random_device{}());
    for (int n : {TILE, 4, 7 * TILE, 9 * TILE + 12, 5000}) check(n, random);
    printf("halve: OK, exact, for 5 sizes, whole tiles and ragged ones\n");
}
