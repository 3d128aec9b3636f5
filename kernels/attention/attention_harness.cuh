// Checks attention in bf16 against sums in double. Include it last, after
//     template <int D, bool CAUSAL> void launch(const Attention& a);     one launch of the kernel
// and, where that takes sequences of any lengths, `#define ANY_LENGTHS`.
//
// Shapes and data are drawn anew in each run, ragged ones among them, also queries that see no
// key, large scores, infinities and NaN, and launches in two streams at once. O is full of NaN
// before each launch; NaN and what lies behind O tell of writes that are missing and of those that
// are too many.
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

template <class T> struct Array {  // on the host and on the GPU
    std::vector<T> host;
    T* memory;

    Array(size_t elements) : host(elements) { CHECK(cudaMalloc(&memory, bytes())); }
    ~Array() { cudaFree(memory); }
    Array(const Array&) = delete;
    size_t bytes() const { return host.size() * sizeof(T); }
    void upload() { CHECK(cudaMemcpy(memory, host.data(), bytes(), cudaMemcpyHostToDevice)); }
    void download() { CHECK(cudaMemcpy(host.data(), memory, bytes(), cudaMemcpyDeviceToHost)); }
};

struct Heads : Array<bf16> {
    using Array::Array;
    double operator[](size_t i) const { return __bfloat162float(host[i]); }
    template <class Draw> void fill(Draw draw) {
        for (bf16& x : host) x = __float2bfloat16(float(draw()));
    }
};

struct Case {
    int heads, kv_heads;
    std::vector<int> queries, keys;  // of each batch; all alike unless packed
    float spread = 1;                // of the scores; 30 makes nearly all probabilities 0
    bool packed = false, odd = false;  // odd: some numbers are infinite or NaN
};

int sum(const std::vector<int>& lengths) {
    int all = 0;
    for (int length : lengths) all += length;
    return all;
}

template <int D, bool CAUSAL> class Run {
  public:
    Run(const Case& c, std::mt19937& random)
        : c(c), Q(size_t(sum(c.queries)) * c.heads * D), K(size_t(sum(c.keys)) * c.kv_heads * D),
          V(K.host.size()), O(Q.host.size() + BEHIND), first_query(c.queries.size() + 1),
          first_key(c.keys.size() + 1), counter(1) {
        std::normal_distribution<float> normal;
        Q.fill([&] { return c.spread * normal(random); });
        K.fill([&] { return normal(random); });
        V.fill([&] { return normal(random); });
        O.fill([] { return NAN; });
        for (size_t b = 0; b < c.queries.size(); ++b) {
            first_query.host[b + 1] = first_query.host[b] + c.queries[b];
            first_key.host[b + 1] = first_key.host[b] + c.keys[b];
        }
        if (c.odd) {
            const auto set = [](Heads& x, size_t at, float y) { x.host[at] = __float2bfloat16(y); };
            const size_t last = c.queries.size() - 1;
            set(Q, query(last, 0, c.queries[last] / 2), NAN);
            set(K, key(last, 0, c.keys[last] / 3) + 1, INFINITY);
            set(V, key(last, 0, c.keys[last] / 2) + 2, INFINITY);
            set(V, key(last, 0, c.keys[last] / 4) + 3, -INFINITY);
            if (c.packed)  // all of the second sequence: no other may see any of it
                for (int h = 0; h < c.kv_heads; ++h)
                    for (int j = 0; j < c.keys[1]; ++j)
                        for (int d = 0; d < D; ++d)
                            set(K, key(1, h, j) + d, NAN), set(V, key(1, h, j) + d, INFINITY);
        }
        for (Heads* x : {&Q, &K, &V, &O}) x->upload();
        first_query.upload();
        first_key.upload();
        counter.upload();
    }

    void start(cudaStream_t stream = 0) {
        int units = 2;  // on the emulator few, so that a block has several tiles
        if (!timing::emulated()) {
            cudaDeviceProp device;
            CHECK(cudaGetDeviceProperties(&device, 0));
            units = device.multiProcessorCount;
        }
        Attention a{Q.memory, K.memory, V.memory, O.memory, int(c.queries.size()), c.heads,
                    c.kv_heads, c.packed ? sum(c.queries) : c.queries[0],
                    c.packed ? sum(c.keys) : c.keys[0], SCALE, units, stream};
        if (c.packed) a.first_query = first_query.memory, a.first_key = first_key.memory;
        a.counter = counter.memory;
        launch<D, CAUSAL>(a);
        CHECK(cudaGetLastError());
    }

    void check() {
        O.download();
        counter.download();
        for (size_t i = 0; i < BEHIND; ++i)
            if (!std::isnan(O[Q.host.size() + i])) wrong(0, 0, -1, int(i), O[i], NAN, 0);
        if (counter.host[0] != 0) wrong(0, 0, -1, -1, counter.host[0], 0, 0);
        for (size_t b = 0; b < c.queries.size(); ++b)
            for (int h = 0; h < c.heads; ++h)
                for (int q = 0; q < c.queries[b]; ++q) row(b, h, q);
    }

  private:
    const Case c;
    Heads Q, K, V, O;
    Array<int> first_query, first_key;
    Array<unsigned> counter;
    const float SCALE = 1 / std::sqrt(float(D));

    // Where a row begins.
    size_t query(size_t b, int h, int q) const {
        return at(first_query, c.queries, c.heads, b, h, q);
    }
    size_t key(size_t b, int h, int j) const { return at(first_key, c.keys, c.kv_heads, b, h, j); }
    size_t at(const Array<int>& first, const std::vector<int>& lengths, int heads, size_t b, int h,
              int i) const {
        const size_t row = first.host[b] + i;
        return D * (c.packed ? row * heads + h : (b * heads + h) * lengths[b] + i);
    }

    void wrong(size_t b, int h, int q, int d, double got, double right, double bound) const {
        printf("attention: WRONG\n");
        fflush(stdout);
        fprintf(stderr, "wrong result: O[%zu][%d][%d][%d] is %g and should be %g (error bound %g) "
                "for D=%d, %d queries, %d keys%s%s\n", b, h, q, d, got, right, bound, D,
                c.queries[b], c.keys[b], CAUSAL ? ", causal" : "", c.packed ? ", packed" : "");
        exit(2);
    }

    void row(size_t b, int h, int q) const {
        const int kv = h / (c.heads / c.kv_heads), keys = c.keys[b];
        const int seen = CAUSAL ? std::min(keys, std::max(0, q + 1 + keys - c.queries[b])) : keys;
        std::vector<double> p(seen);
        double top = -INFINITY, whole = 0, error = 0;
        bool odd = false;  // a score that is NaN or +∞ makes all of the row NaN
        const size_t first = query(b, h, q);
        for (int j = 0; j < seen; ++j) {
            const size_t at = key(b, kv, j);
            double dot = 0, sizes = 0;
            for (int d = 0; d < D; ++d) {
                const double product = Q[first + d] * K[at + d];
                dot += product, sizes += std::abs(product);
            }
            p[j] = dot * SCALE;
            odd |= !(p[j] < INFINITY);
            if (std::isfinite(sizes)) error = std::max(error, sizes * SCALE);
            top = std::max(top, p[j]);
        }
        for (double& x : p) whole += x = x == -INFINITY ? 0 : std::exp(x - top);
        const double score = error * ((D + D / 8 + 4) * std::ldexp(1, -23) + std::ldexp(4, -24))
                             + std::ldexp(1, -22);
        const double relative = 2 * score + std::ldexp(1, -8)
                                + 2.5 * (keys + 8) * std::ldexp(1, -23);
        double right[D] = {}, sizes[D] = {};
        bool hidden[D] = {};  // 0 · ∞ is NaN: a hidden key's infinity may be seen
        for (int j = 0; j < keys; ++j) {
            const size_t at = key(b, kv, j);
            const double weight = j < seen && whole > 0 ? p[j] / whole : 0;
            for (int d = 0; d < D; ++d) {
                const double v = V[at + d];
                if (j >= seen) hidden[d] |= !std::isfinite(v);
                else if (whole > 0) right[d] += weight * v, sizes[d] += weight * std::abs(v);
            }
        }
        for (int d = 0; d < D; ++d) {
            if (odd) right[d] = NAN;
            const double got = O[first + d];
            const double bound = 1.01 * (relative * sizes[d] + std::ldexp(std::abs(right[d]), -8));
            const bool same = std::isfinite(right[d]) ? std::abs(got - right[d]) <= bound
                              : std::isnan(right[d]) ? std::isnan(got) : got == right[d];
            if (!same && !(hidden[d] && std::isnan(got)))
                wrong(b, h, q, d, got, right[d], bound);
        }
    }
};

template <int D, bool CAUSAL> void check(const Case& c, std::mt19937& random) {
    Run<D, CAUSAL> run(c, random);
    run.start();
    CHECK(cudaDeviceSynchronize());
    run.check();
}

// Twice two launches in two streams: those of a stream follow each other, those of two need not.
template <int D, bool CAUSAL> void check_in_flight(std::mt19937& random) {
    Run<D, CAUSAL> one({2, 1, {150}, {150}}, random), other({1, 1, {70}, {90}, 30}, random);
    cudaStream_t streams[2];
    for (cudaStream_t& stream : streams) CHECK(cudaStreamCreate(&stream));
    for (int i = 0; i < 2; ++i) one.start(streams[0]), other.start(streams[1]);
    CHECK(cudaDeviceSynchronize());
    for (cudaStream_t stream : streams) CHECK(cudaStreamDestroy(stream));
    one.check();
    other.check();
}

template <int D, bool CAUSAL> void check_all(std::mt19937& random) {
    const bool slow = timing::emulated();
    auto ragged = [&](int most) { return 1 + int(random() % most); };
    if (slow) check<D, CAUSAL>({1, 1, {200}, {200}, 1, false, true}, random);
#ifdef ANY_LENGTHS
    check<D, CAUSAL>({2, 1, {70, 20, 30, 90, 1}, {70, 40, 0, 66, 3}, 1, true, true}, random);
    if (!slow) {
        Case c{4, 2, {}, {}, 4, true};
        for (int i = 0; i < 12; ++i)
            c.queries.push_back(ragged(400)), c.keys.push_back(ragged(400));
        check<D, CAUSAL>(c, random);
    }
#endif
    if (slow && D == 64) check_in_flight<D, CAUSAL>(random);
    if (slow) return;
    check<D, CAUSAL>({2, 1, {500, 500}, {500, 500}}, random);
    check<D, CAUSAL>({2, 2, {384}, {384}}, random);
    check<D, CAUSAL>({4, 2, {ragged(500)}, {ragged(500)}}, random);
    const int queries = ragged(400), keys = ragged(400);
    check<D, CAUSAL>({1, 1, {queries, queries}, {keys, keys}, 30}, random);
    check<D, CAUSAL>({1, 1, {300}, {100}}, random);  // causal: 200 queries that see no key
    check<D, CAUSAL>({2, 1, {1}, {1}}, random);
    check<D, CAUSAL>({2, 1, {200}, {300}, 1, false, true}, random);
    check_in_flight<D, CAUSAL>(random);
}

}  // namespace harness

// For the benchmark, which loads the kernel from a library and stands others beside it.
extern "C" void attend(const bf16* Q, const bf16* K, const bf16* V, bf16* O, int batches, int heads,
                       int kv_heads, int queries, int keys, int D, int causal,
                       int multiprocessors, const int* first_query, const int* first_key,
                       unsigned* counter, cudaStream_t stream) {
    const Attention a{Q, K, V, O, batches, heads, kv_heads, queries, keys,
                      1 / std::sqrt(float(D)), multiprocessors, stream, first_query, first_key,
                      counter};
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
