// The copy engine (TMA): one thread asks for a whole box of a matrix and waits at an mbarrier. The
// threads double what has come, and the engine brings it back. Nobody computes an address, and at
// the ragged edge nobody tests one: what lies outside comes as zeros and is not written.
#include "ptx_sm90.cuh"
#include "tensor_map.cuh"
#include <random>
#include <vector>

constexpr int ROWS = 32, COLS = 64;  // a box: rows of 128 bytes, as long as the swizzle allows
constexpr int THREADS = 128;
using Element = __nv_bfloat16;

__global__ void __launch_bounds__(THREADS)
twice(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out) {
    __shared__ alignas(1024) Element tile[ROWS * COLS];  // the swizzle's pattern: 1024 bytes
    __shared__ unsigned long long full;
    const int x = blockIdx.x * COLS, y = blockIdx.y * ROWS;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init();
        ptx::mbarrier_arrive_expect_tx(&full, sizeof tile);  // the whole box, at the edge too
        ptx::cp_async_bulk_tensor_load(tile, in, x, y, &full);
    }
    __syncthreads();  // the others see the barrier
    ptx::mbarrier_wait(&full, 0);
    for (int i = threadIdx.x; i < ROWS * COLS; i += THREADS)
        tile[i] = tile[i] + tile[i];  // wherever the swizzle has put it
    ptx::fence_proxy_async_shared();  // the engine does not see stores unless told to
    __syncthreads();                  // of all threads
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk_tensor_store(out, x, y, tile);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read<0>();  // the tile must stay until it has been read
    }
}

// Doubles a matrix (rows, cols) of fresh random numbers; every element of the result is compared.
bool right(int rows, int cols, CUtensorMapSwizzle swizzle, std::mt19937& random) {
    std::normal_distribution<float> normal;
    std::vector<Element> given(rows * cols), got(rows * cols);
    for (Element& a : given) a = __float2bfloat16(normal(random));
    Element *in, *out;
    const size_t bytes = given.size() * sizeof(Element);
    CHECK(cudaMalloc(&in, bytes));
    CHECK(cudaMalloc(&out, bytes));
    CHECK(cudaMemcpy(in, given.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(out, 0xff, bytes));  // NaN, so that what nobody writes is wrong
    const dim3 grid((cols + COLS - 1) / COLS, (rows + ROWS - 1) / ROWS);
    twice<<<grid, THREADS>>>(tensor_map_2d(in, rows, cols, ROWS, COLS, swizzle),
                             tensor_map_2d(out, rows, cols, ROWS, COLS, swizzle));
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got.data(), out, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
    int wrong = 0;
    for (int i = 0; i < rows * cols; ++i)
        wrong += !(__bfloat162float(got[i]) == 2 * __bfloat162float(given[i]));
    if (wrong) printf("twice: WRONG at %d of %d x %d elements\n", wrong, rows, cols);
    return !wrong;
}

int main(int argc, char** argv) {
    std::mt19937 random(argc > 1 ? std::stoul(argv[1]) : std::random_device{}());
    for (auto swizzle : {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_128B})
        for (auto [rows, cols] : {std::pair{64, 128}, {1, 8}, {33, 72}, {70, 200}, {31, 56}})
            if (!right(rows, cols, swizzle, random)) return 2;
    printf("twice: OK, exact, for whole boxes and ragged edges, plain and swizzled\n");
    return 0;
}
