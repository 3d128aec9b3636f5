// DeepGEMM's product for Blackwell, with scales in tensor memory: our harness, their kernel.
//
// C (m, n) = A (m, k) · B (n, k)ᵀ, A of e4m3, B of e4m3 or e2m1, each block along k with a power of
// two as scale. Small numbers, so that sums are exact; C is bf16, rounded once.
#include <deep_gemm/impls/sm100_fp8_fp4_gemm_1d1d.cuh>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call) do { if (auto error = call) { \
    printf("%s: error %d\n", #call, int(error)); exit(2); } } while (0)

using namespace deep_gemm;
using Major = cute::UMMA::Major;
using Byte = cutlass::float_e4m3_t;
using Half = cutlass::detail::float_e2m1_unpacksmem_t;

constexpr int TILE = 128, STAGES = 3, UNITS = 2;
constexpr int M = 192, N = 256, K = 384;

static CUtensorMap map_of(CUtensorMapDataType type, const void* at, int inner, int outer,
                          size_t stride, int box_inner, int box_outer, bool swizzled) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult state;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                           cudaEnableDefault, &state));
    const cuuint64_t dims[2] = {cuuint64_t(inner), cuuint64_t(outer)}, strides[1] = {stride};
    const cuuint32_t box[2] = {cuuint32_t(box_inner), cuuint32_t(box_outer)}, steps[2] = {1, 1};
    CUtensorMap map;
    CHECK(reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found)(
        &map, type, 2, const_cast<void*>(at), dims, strides, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE,
        swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    return map;
}

template <class T>
static T* on_device(const std::vector<T>& host) {
    T* made;
    CHECK(cudaMalloc(&made, host.size() * sizeof(T)));
    CHECK(cudaMemcpy(made, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    return made;
}

// Numbers from -2 to 2 by halves, as what a type has them: e4m3, or e2m1.
static const float VALUES[] = {0, .5f, 1, 1.5f, 2, 0, -.5f, -1, -1.5f, -2};
static const unsigned char BYTES[] = {0, 0x30, 0x38, 0x3c, 0x40, 0, 0xb0, 0xb8, 0xbc, 0xc0};
static const unsigned char HALVES[] = {0, 1, 2, 3, 4, 0, 9, 10, 11, 12};

// Exponents (rows, k / block) as four bytes a word, (words along k, rows).
static std::vector<unsigned> scale_words(const std::vector<int>& exponents, int rows, int blocks) {
    std::vector<unsigned> words((blocks + 3) / 4 * rows);
    for (int r = 0; r < rows; ++r)
        for (int j = 0; j < blocks; ++j)
            words[j / 4 * rows + r] |= unsigned(127 + exponents[r * blocks + j]) << j % 4 * 8;
    return words;
}

template <class B, Major MAJOR_B, int PAIR, int BLOCK_B>
static int run() {
    constexpr bool HALF = std::is_same_v<B, Half>;
    constexpr int BLOCK_A = 128;
    srand(1);
    std::vector<float> a(M * K), b(N * K);
    std::vector<unsigned char> a_codes(M * K), b_codes(HALF ? N * K / 2 : N * K);
    for (int i = 0; i < M * K; ++i) {
        int which = rand() % 10;
        a[i] = VALUES[which], a_codes[i] = BYTES[which];
    }
    for (int i = 0; i < N * K; ++i) {
        int which = rand() % 10, n = i / K, k = i % K;
        b[i] = VALUES[which];
        int place = MAJOR_B == Major::K ? n * K + k : k * N + n;
        if (HALF) b_codes[place / 2] |= HALVES[which] << place % 2 * 4;
        else b_codes[place] = BYTES[which];
    }
    std::vector<int> of_a(M * (K / BLOCK_A)), of_b(N * (K / BLOCK_B));
    for (int& x : of_a) x = rand() % 3 - 1;
    for (int& x : of_b) x = rand() % 3 - 1;
    std::vector<__nv_bfloat16> c(M * N, __float2bfloat16(NAN));

    auto d_a = on_device(a_codes), d_b = on_device(b_codes);
    auto d_sa = on_device(scale_words(of_a, M, K / BLOCK_A));
    auto d_sb = on_device(scale_words(of_b, N, K / BLOCK_B));
    auto d_c = on_device(c);

    constexpr auto kernel = &sm100_fp8_fp4_gemm_1d1d_impl<
        Major::K, MAJOR_B, BLOCK_A, BLOCK_B, BLOCK_A, 0, 0, 0, TILE, TILE, TILE, 1, 128, 128, 128,
        STAGES, 128, 128, PAIR, false, UNITS, false, false, GemmType::Normal, false, Byte, B,
        cutlass::bfloat16_t, epilogue::transform::EpilogueIdentity>;
    constexpr int LOAD_N = TILE / PAIR;
    constexpr int bytes = 2 * TILE * 128 + STAGES * (TILE * TILE + LOAD_N * TILE + 8 * TILE) + 1024;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    cudaLaunchAttribute pair;
    pair.id = cudaLaunchAttributeClusterDimension;
    pair.val.clusterDim = {PAIR, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = UNITS, config.blockDim = 256, config.dynamicSmemBytes = bytes;
    config.attrs = &pair, config.numAttrs = 1;
    const auto byte = CU_TENSOR_MAP_DATA_TYPE_UINT8, word = CU_TENSOR_MAP_DATA_TYPE_INT32;
    const auto type_b = HALF ? CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B : byte;
    const int inner = MAJOR_B == Major::K ? K : N, outer = MAJOR_B == Major::K ? N : K;
    const int box = MAJOR_B == Major::K ? LOAD_N : TILE;
    auto words = [](int block) { return (K / block + 3) / 4; };
    CHECK(cudaLaunchKernelEx(
        &config, kernel, static_cast<int*>(nullptr), unsigned(M), unsigned(N), unsigned(K),
        map_of(byte, d_a, K, M, K, TILE, TILE, true),
        map_of(type_b, d_b, inner, outer, HALF ? inner / 2 : inner, TILE, box, true),
        map_of(word, d_sa, M, words(BLOCK_A), M * 4, TILE, 1, false),
        map_of(word, d_sb, N, words(BLOCK_B), N * 4, TILE, 1, false),
        map_of(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, d_c, N, M, N * 2, 64, TILE, true)));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(c.data(), d_c, c.size() * 2, cudaMemcpyDeviceToHost));

    int wrong = 0;
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) {
            float sum = 0;
            for (int k = 0; k < K; ++k)
                sum += ldexpf(a[m * K + k] * b[n * K + k], of_a[m * (K / BLOCK_A) + k / BLOCK_A] +
                                                              of_b[n * (K / BLOCK_B) + k / BLOCK_B]);
            auto right = __float2bfloat16(sum);
            wrong += memcmp(&right, &c[m * N + n], 2) != 0;
        }
    printf(wrong ? "%d wrong\n" : "OK\n", wrong);
    return wrong != 0;
}

int main(int argc, char** argv) {
    switch (argc > 1 ? atoi(argv[1]) : 0) {
        case 0: return run<Byte, Major::K, 1, 128>();
        case 1: return run<Byte, Major::MN, 1, 32>();
        case 2: return run<Half, Major::K, 1, 32>();
        case 3: return run<Half, Major::MN, 1, 32>();
        case 4: return run<Byte, Major::K, 2, 128>();
        case 5: return run<Half, Major::K, 2, 32>();
    }
    return 2;
}
