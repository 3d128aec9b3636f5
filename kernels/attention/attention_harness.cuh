// Checks attention in bf16 against sums in double. Include it last, after
//     template <int D, bool CAUSAL> void launch(const Attention& a);     one launch of the kernel
//
// Shapes and data are drawn anew in each run, ragged ones among them, also queries that see no key
// and large scores. O is full of NaN before each launch; NaN and what lies behind O tell of writes
// that are missing and of those that are too many.
//
// The bound is softmax.py's: scores whose adders cut bits off, ex2, probabilities and outputs
// rounded to bf16, sums of f32. *Attention* derives it.
//
// Arguments: --seed N.
#pragma once
#include "check.cuh"
#include "timing.cuh"
#include <random>
#include <vector>

namespace harness {

constexpr size_t BEHIND = 256;  // elements behind O that are watched

struct Heads {
    std::vector<bf16> host;
    bf16* memory;

    Heads(size_t elements) : host(elements) { CHECK(cudaMalloc(&memory, bytes())); }
    ~Heads() { cudaFree(memory); }
    Heads(const Heads&) = delete;
    size_t bytes() const { return host.size() * sizeof(bf16); }
    double operator[](size_t i) const { return __bfloat162float(host[i]); }
    template <class Draw> void fill(Draw draw) {
        for (bf16& x : host) x = __float2bfloat16(float(draw()));
        CHECK(cudaMemcpy(memory, host.data(), bytes(), cudaMemcpyHostToDevice));
    }
    void download() { CHECK(cudaMemcpy(host.data(), memory, bytes(), cudaMemcpyDeviceToHost)); }
};

// spread: of the scores; 1 is usual, 30 makes nearly all probabilities 0.
template <int D, bool CAUSAL>
void check(int batches, int heads, int kv_heads, int queries, int keys, float spread,
           std::mt19937& random) {
    std::normal_distribution<float> normal;
    const size_t layers = size_t(batches) * heads, kv_layers = size_t(batches) * kv_heads;
    Heads Q(layers * queries * D), K(kv_layers * keys * D), V(kv_layers * keys * D);
    Heads O(layers * queries * D + BEHIND);
    Q.fill([&] { return spread * normal(random); });
    K.fill([&] { return normal(random); });
    V.fill([&] { return normal(random); });
    O.fill([] { return NAN; });
    const float scale = 1 / std::sqrt(float(D));
    int units = 2;  // on the emulator few, so that a block has several tiles
    if (!timing::emulated()) {
        cudaDeviceProp device;
        CHECK(cudaGetDeviceProperties(&device, 0));
        units = device.multiProcessorCount;
    }
    launch<D, CAUSAL>(Attention{Q.memory, K.memory, V.memory, O.memory, batches, heads, kv_heads,
                                queries, keys, scale, units, 0});
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    O.download();

    auto wrong = [&](size_t layer, int q, int d, double got, double right, double bound) {
        printf("attention: WRONG\n");
        fflush(stdout);
        fprintf(stderr, "wrong result: O[%zu][%d][%d] is %g and should be %g (error bound %g) for "
                "D=%d, %d queries, %d keys%s\n", layer, q, d, got, right, bound, D, queries, keys,
                CAUSAL ? ", causal" : "");
        exit(2);
    };
    for (size_t i = 0; i < BEHIND; ++i)
        if (!std::isnan(O[layers * queries * D + i])) wrong(layers, 0, i, O[i], NAN, 0);
    std::vector<double> p(keys);
    for (size_t layer = 0; layer < layers; ++layer)
        for (int q = 0; q < queries; ++q) {
            const size_t kv = layer / (heads / kv_heads) * keys * D;
            const int seen = CAUSAL ? std::min(keys, std::max(0, q + 1 + keys - queries)) : keys;
            double top = -INFINITY, sum = 0, error = 0;
            for (int j = 0; j < seen; ++j) {
                double dot = 0, sizes = 0;
                for (int d = 0; d < D; ++d) {
                    const double product = Q[(layer * queries + q) * D + d] * K[kv + j * D + d];
                    dot += product, sizes += std::abs(product);
                }
                p[j] = dot * scale;
                error = std::max(error, sizes * scale);
                top = std::max(top, p[j]);
            }
            for (int j = 0; j < seen; ++j) sum += p[j] = std::exp(p[j] - top);
            const double score = error * ((D + D / 8 + 4) * std::ldexp(1, -23) + std::ldexp(4, -24))
                                 + std::ldexp(1, -22);
            const double relative = 2 * score + std::ldexp(1, -8)
                                    + 2.5 * (keys + 8) * std::ldexp(1, -23);
            for (int d = 0; d < D; ++d) {
                double right = 0, sizes = 0;
                for (int j = 0; j < seen; ++j) {
                    right += p[j] / sum * V[kv + j * D + d];
                    sizes += p[j] / sum * std::abs(V[kv + j * D + d]);
                }
                const double got = O[(layer * queries + q) * D + d];
                const double bound = 1.01 * (relative * sizes + std::ldexp(std::abs(right), -8));
                if (!(std::abs(got - right) <= bound)) wrong(layer, q, d, got, right, bound);
            }
        }
}

template <int D, bool CAUSAL> void check_all(std::mt19937& random) {
    const bool slow = timing::emulated();
    auto ragged = [&](int most) { return 1 + int(random() % most); };
    check<D, CAUSAL>(1, slow ? 1 : 2, 1, slow ? 200 : 500, slow ? 200 : 500, 1, random);
    if (slow) return;
    check<D, CAUSAL>(1, 2, 2, 384, 384, 1, random);
    check<D, CAUSAL>(1, 4, 2, ragged(500), ragged(500), 1, random);
    check<D, CAUSAL>(2, 1, 1, ragged(400), ragged(400), 30, random);
    check<D, CAUSAL>(1, 1, 1, 300, 100, 1, random);  // causal: 200 queries that see no key
    check<D, CAUSAL>(1, 2, 1, 1, 1, 1, random);
}

}  // namespace harness

// For the benchmark, which loads the kernel from a library and stands others beside it.
extern "C" void attend(const bf16* Q, const bf16* K, const bf16* V, bf16* O, int batches, int heads,
                       int kv_heads, int queries, int keys, int D, int causal,
                       int multiprocessors, cudaStream_t stream) {
    const Attention a{Q, K, V, O, batches, heads, kv_heads, queries, keys,
                      1 / std::sqrt(float(D)), multiprocessors, stream};
    if (D == 64) causal ? launch<64, true>(a) : launch<64, false>(a);
    else causal ? launch<128, true>(a) : launch<128, false>(a);
    CHECK(cudaGetLastError());
}

int main(int argc, char** argv) {
    const char* given = timing::option(argc, argv, "--seed");
    std::mt19937 random(given ? std::stoul(given) : std::random_device{}());
    harness::check_all<64, false>(random);
    harness::check_all<64, true>(random);
    harness::check_all<128, false>(random);
    harness::check_all<128, true>(random);
    printf("attention: OK, full and causal, heads of 64 and of 128 columns\n");
}
