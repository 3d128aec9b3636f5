// A read where it lies and A read from packed tiles: the same C, whatever the strides of A are.
#include "layouts/packing.cuh"
#include "timing.cuh"
#include <random>

namespace harness {

// What A's strides are: the dimension without gaps, and how far apart its elements lie.
enum class Order { ROWS, COLUMNS, BATCH };
const char* const NAMES[] = {"row-major", "column-major", "interleaved"};

template <class T> struct Array {
    std::vector<T> host;
    T* memory;
    explicit Array(size_t size, T value) : host(size, value) {
        CHECK(cudaMalloc(&memory, bytes()));
    }
    ~Array() { cudaFree(memory); }
    Array(const Array&) = delete;
    size_t bytes() const { return host.size() * sizeof(T); }
    void upload() { CHECK(cudaMemcpy(memory, host.data(), bytes(), cudaMemcpyHostToDevice)); }
    void download() { CHECK(cudaMemcpy(host.data(), memory, bytes(), cudaMemcpyDeviceToHost)); }
};

// Whole numbers, so that C must be exact; between the elements of A lies NaN, and behind C a word
// that must stay. Both ways, C is full of NaN before.
void check(Order order, int M, int N, int K, int batch, int gap, std::mt19937& random,
           unsigned seed) {
    Batch p{nullptr, nullptr, nullptr, M, N, K, batch, 0, 0, 0};
    if (order == Order::ROWS) p.sk = 1, p.sm = K + gap, p.sb = p.sm * M;
    if (order == Order::COLUMNS) p.sm = 1, p.sk = M + gap, p.sb = p.sk * K;
    if (order == Order::BATCH) p.sb = 1, p.sk = batch + gap, p.sm = p.sk * K;
    auto a_at = [&](int b, int m, int k) { return b * p.sb + m * p.sm + k * p.sk; };
    auto b_at = [&](int b, int k, int n) { return (size_t(b) * K + k) * N + n; };
    std::uniform_int_distribution<int> small(-4, 4);  // |Σ| ≤ 16·K stays below 2²⁴
    const size_t count = size_t(batch) * M * N;
    Array<float> A(a_at(batch - 1, M - 1, K - 1) + 1, NAN), B(size_t(batch) * K * N, 0);
    Array<float> C(count + 64, NAN), packed(packed_size(p), NAN);
    for (int b = 0; b < batch; ++b)
        for (int m = 0; m < M; ++m)
            for (int k = 0; k < K; ++k) A.host[a_at(b, m, k)] = small(random);
    for (float& x : B.host) x = small(random);
    A.upload(), B.upload(), packed.upload();
    p.A = A.memory, p.B = B.memory, p.C = C.memory;
    launch_pack(p, packed.memory);
    for (bool from_tiles : {false, true}) {
        std::fill(C.host.begin(), C.host.begin() + count, NAN);
        std::fill(C.host.begin() + count, C.host.end(), -1234.0f);
        C.upload();
        launch_product(p, from_tiles ? packed.memory : nullptr);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        C.download();
        for (size_t i = 0; i < C.host.size(); ++i) {
            float right = -1234.0f;
            const int b = i / (size_t(M) * N), m = i / N % M, n = i % N;
            if (i < count) {
                right = 0;
                for (int k = 0; k < K; ++k)
                    right += A.host[a_at(b, m, k)] * B.host[b_at(b, k, n)];
            }
            if (C.host[i] == right) continue;
            printf("packing: WRONG\n");
            fflush(stdout);
            fprintf(stderr, "wrong result: element %zu of C is %g and should be %g, A %s, %s, for "
                    "M=%d N=%d K=%d batch=%d gap=%d, seed %u\n", i, C.host[i], right,
                    from_tiles ? "packed" : "by strides", NAMES[int(order)], M, N, K, batch, gap,
                    seed);
            exit(2);
        }
    }
}

}  // namespace harness

int main(int argc, char** argv) {
    using namespace harness;
    const char* given = timing::option(argc, argv, "--seed");
    const unsigned seed = given ? std::stoul(given) : std::random_device{}();
    std::mt19937 random(seed);
    const int most = timing::emulated() ? 1 : 4;
    for (Order order : {Order::ROWS, Order::COLUMNS, Order::BATCH})
        for (int again = 0; again < most; ++again) {
            const int batch = 1 + random() % (3 * most) + 8 * (order == Order::BATCH);
            check(order, 129 + random() % 40, 1 + random() % (100 * most), 17 + random() % 20,
                  batch, random() % 3, random, seed);
        }
    check(Order::ROWS, 128, 128, 16, 1, 0, random, seed);
    printf("packing: OK, exact on whole numbers\n");
    return 0;
}
