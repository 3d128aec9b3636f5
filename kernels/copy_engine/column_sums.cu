// Results on the way out: each block sums a stripe of rows, and the engine adds its sums to those of
// the other blocks in memory, by one instruction.
#include "check.cuh"
#include "ptx_sm90.cuh"
#include <array>
#include <random>
#include <vector>

namespace ptx {
// cp.reduce.async.bulk, 9.7.9.25.4.3: add floats in shared memory to those in global memory, in this
// thread's bulk group. sm_90.
__device__ inline void cp_reduce_async_bulk_add(float* global, const float* shared,
                                                unsigned bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
                 :: "l"(global), "r"(shared_address(shared)), "r"(bytes) : "memory");
}
}  // namespace ptx

constexpr int MOST = 256;  // columns

extern "C" __global__ void
column_sums(const float* __restrict__ x,  // (gridDim.x · rows, cols), row-major
            float* __restrict__ sums,     // (cols), zeros before
            int rows, int cols)           // of a stripe; cols: threads of a block, a multiple of 4
{
    __shared__ alignas(16) float mine[MOST];
    float sum = 0;
    const float* stripe = x + size_t(blockIdx.x) * rows * cols;
    for (int row = 0; row < rows; ++row) sum += stripe[row * cols + threadIdx.x];
    mine[threadIdx.x] = sum;
    ptx::fence_proxy_async_shared();  // the engine sees what this thread has stored,
    __syncthreads();                  // and all the others
    if (threadIdx.x == 0) {
        ptx::cp_reduce_async_bulk_add(sums, mine, cols * sizeof(float));
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read<0>();  // shared memory must stay until it has been read
    }
}

int main(int argc, char** argv) {
    std::mt19937 random(argc > 1 ? std::stoul(argv[1]) : std::random_device{}());
    std::uniform_int_distribution<int> whole(-9, 9);  // exact in whatever order they are added
    for (auto [blocks, rows, cols] : {std::array{1, 5, 4}, {7, 16, 64}, {40, 3, 256}}) {
        std::vector<float> x(size_t(blocks) * rows * cols), got(cols), right(cols);
        for (size_t i = 0; i < x.size(); ++i) right[i % cols] += x[i] = whole(random);
        float *device, *sums;
        CHECK(cudaMalloc(&device, x.size() * sizeof(float)));
        CHECK(cudaMalloc(&sums, cols * sizeof(float)));
        CHECK(cudaMemcpy(device, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemset(sums, 0, cols * sizeof(float)));
        column_sums<<<blocks, cols>>>(device, sums, rows, cols);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(got.data(), sums, cols * sizeof(float), cudaMemcpyDeviceToHost));
        CHECK(cudaFree(device));
        CHECK(cudaFree(sums));
        if (got != right) return printf("column_sums: WRONG for %d blocks\n", blocks), 2;
    }
    printf("column_sums: OK, exact on whole numbers\n");
}
