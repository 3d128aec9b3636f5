// The blocks of a product in an order drawn by lot: whatever the table says, C is the same.
#include "block_order/order.cuh"
#include <algorithm>
#include <random>
#include <vector>

using In = __nv_bfloat16;
using Out = float;
using Tile = Tiling<64, 64, 64, 32, 32>;  // small, so that small products have several

void launch(const Gemm<In, Out>& g) {
    static std::mt19937 random(std::random_device{}());
    const int rows = (g.M + Tile::BM - 1) / Tile::BM;
    const int cols = (g.N + Tile::BN - 1) / Tile::BN;
    std::vector<Part> order;
    for (int row = 0; row < rows; ++row)
        for (int col = 0; col < cols; ++col) order.push_back({row, col});
    std::shuffle(order.begin(), order.end(), random);
    Part* table;
    CHECK(cudaMalloc(&table, std::max<size_t>(1, order.size()) * sizeof(Part)));
    CHECK(cudaMemcpy(table, order.data(), order.size() * sizeof(Part), cudaMemcpyHostToDevice));
    // What the address, length and distance of all rows of A and B are multiples of.
    const size_t all = size_t(g.A) | size_t(g.B) | size_t(g.K | g.N | g.lda | g.ldb) * 2;
    if (all % 16 == 0) launch_in_order<Tile, 16>(g, table, order.size());
    else if (all % 4 == 0) launch_in_order<Tile, 4>(g, table, order.size());
    else launch_in_order<Tile, 2>(g, table, order.size());
    CHECK(cudaFree(table));  // waits for the kernel
}

#include "gemm.cuh"
