// Checks a product that two GPUs compute: links them, launches several turns on both without a wait
// between, then checks each turn's results. Include it last, after `void launch(const Share& p);`
// and GATHERS: whether rows of A are sent, or parts of sums.
//
// Data are small whole numbers, on which f32 sums are exact: C must be their rounding, and where
// parts are added, the rounding of one part and the peer's rounded part. In one turn infinities and
// a NaN are among them. C is NaN before a launch, and what lies behind it must stay so.
//
// Arguments: M N K: only that shape; --seed N.
#pragma once
#include "check.cuh"
#include "timing.cuh"
#include <random>
#include <vector>

// Flags each way: one for each strip of A, or one for each warp's strip of each tile.
inline int flags_of(int rows, int N) {
    const int down = (rows + BM - 1) / BM;
    return GATHERS ? down : down * ((N + BN - 1) / BN) * CONSUMERS / 32;
}

namespace harness {

constexpr int SLOTS = 2, TURNS = 3;  // of the ring between the GPUs: turn t uses slot t % 2
constexpr size_t BEHIND = 1024;      // elements behind C that are watched
constexpr int SAMPLE = 4096;         // elements checked of a result
constexpr int ODD = 1;               // the turn with infinities and a NaN

template <class T> T* on_device(size_t count, int byte) {
    T* made;
    CHECK(cudaMalloc(&made, count * sizeof(T)));
    CHECK(cudaMemset(made, byte, count * sizeof(T)));
    return made;
}

using Numbers = std::vector<bf16>;

inline bf16* upload(const Numbers& host) {
    bf16* made = on_device<bf16>(host.size(), 0xff);
    CHECK(cudaMemcpy(made, host.data(), host.size() * sizeof(bf16), cudaMemcpyHostToDevice));
    return made;
}

inline double rounded(double x) { return __bfloat162float(__float2bfloat16(float(x))); }

// One product of both GPUs, TURNS times. M is even, N and K are multiples of 8. Whether it is right.
inline bool right(int M, int N, int K, unsigned seed) {
    std::mt19937 random(seed);
    const int rows = M / 2, flags = flags_of(rows, N);
    const size_t sent = GATHERS ? size_t(rows) * K : size_t(flags) * BOX_ROWS * BN;
    const size_t made = size_t(GATHERS ? M : rows) * N;
    const auto draw = [&](size_t count) {
        Numbers drawn(count);
        for (bf16& x : drawn) x = __float2bfloat16(float(int(random() % 7) - 3));
        return drawn;
    };
    Numbers A[2][TURNS], B[2];
    bf16 *a[2][TURNS], *b[2], *c[2][TURNS], *slots[2], *leaving[2];
    unsigned *full[2], *counts[2], *made_of[2];
    int multiprocessors = 0;
    CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    for (int d = 0; d < 2; ++d) {
        CHECK(cudaSetDevice(d));
        slots[d] = on_device<bf16>(SLOTS * sent, 0xff);
        leaving[d] = on_device<bf16>(SLOTS * sent, 0xff);
        full[d] = on_device<unsigned>(flags, 0);
        made_of[d] = on_device<unsigned>(flags, 0);
        std::vector<unsigned> table(TURNS * flags);
        for (int i = 0; i < TURNS * flags; ++i)
            table[i] = (i / flags + 1) * (GATHERS ? std::min(BM, rows - i % flags * BM) : 1);
        counts[d] = on_device<unsigned>(table.size(), 0);
        CHECK(cudaMemcpy(counts[d], table.data(), table.size() * 4, cudaMemcpyHostToDevice));
        b[d] = upload(B[d] = draw(size_t(N) * K));
        for (int t = 0; t < TURNS; ++t) {
            A[d][t] = draw(size_t(GATHERS ? rows : M) * K);
            if (t == ODD) A[d][t][d] = __float2bfloat16(d ? NAN : INFINITY);
            if (t == ODD && rows > 1) A[d][t][K + d] = __float2bfloat16(-INFINITY);
            a[d][t] = upload(A[d][t]);
            c[d][t] = on_device<bf16>(made + BEHIND, 0xff);
        }
    }
    for (int d = 0; d < 2; ++d) CHECK(cudaSetDevice(d)), CHECK(cudaDeviceSynchronize());
    for (int t = 0; t < TURNS; ++t)
        for (int d = 0; d < 2; ++d) {
            CHECK(cudaSetDevice(d));
            const size_t slot = t % SLOTS * sent;
            launch(Share{a[d][t], b[d], c[d][t], M, N, K, d, unsigned(t + 1),
                         timing::emulated() ? 1 : multiprocessors, slots[1 - d] + slot,
                         full[1 - d], slots[d] + slot, full[d], counts[d] + t * flags,
                         leaving[d] + slot, made_of[d], 0});
            CHECK(cudaGetLastError());
        }
    bool good = true;
    for (int d = 0; d < 2; ++d) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaDeviceSynchronize());
        for (int t = 0; t < TURNS; ++t) {
            Numbers got(made + BEHIND);
            CHECK(cudaMemcpy(got.data(), c[d][t], got.size() * sizeof(bf16), cudaMemcpyDefault));
            for (size_t i = made; i < got.size(); ++i) good &= std::isnan(__bfloat162float(got[i]));
            const size_t step = std::max<size_t>(1, made / SAMPLE) | 1;  // odd: all columns come
            for (size_t i = 0; i < made; i += step) {
                const int row = i / N + (GATHERS ? 0 : d * rows), col = i % N;
                double part[2] = {};  // of the peer and of this GPU, where K is divided
                for (int of = GATHERS; of < 2; ++of) {
                    const int from = of ? d : 1 - d;
                    const bf16* x = GATHERS ? &A[row / rows][t][size_t(row % rows) * K]
                                            : &A[from][t][size_t(row) * K];
                    for (int k = 0; k < K; ++k)
                        part[of] += double(__bfloat162float(x[k])) *
                                    __bfloat162float(B[from][size_t(col) * K + k]);
                }
                const double is = __bfloat162float(got[i]);
                const double must = rounded(part[1] + rounded(part[0]));
                good &= is == must || (std::isnan(is) && std::isnan(must));
            }
        }
    }
    for (int d = 0; d < 2; ++d) {
        for (int t = 0; t < TURNS; ++t) CHECK(cudaFree(a[d][t])), CHECK(cudaFree(c[d][t]));
        CHECK(cudaFree(b[d])), CHECK(cudaFree(slots[d])), CHECK(cudaFree(full[d]));
        CHECK(cudaFree(counts[d])), CHECK(cudaFree(leaving[d])), CHECK(cudaFree(made_of[d]));
    }
    if (!good) fprintf(stderr, "wrong result for M=%d N=%d K=%d, seed %u\n", M, N, K, seed);
    return good;
}

}  // namespace harness

// For the benchmark, which loads the kernel from a library, one process for each GPU.
extern "C" void product(const bf16* A, const bf16* B, bf16* C, int M, int N, int K, int device,
                        unsigned turn, int multiprocessors, bf16* there, unsigned* there_full,
                        const bf16* here, const unsigned* full, const unsigned* counts,
                        bf16* leaving, unsigned* made, cudaStream_t stream) {
    launch(Share{A, B, C, M, N, K, device, turn, multiprocessors, there, there_full, here, full,
                 counts, leaving, made, stream});
    CHECK(cudaGetLastError());
}

int main(int argc, char** argv) {
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    if (devices < 2) {
        puts("two GPUs are needed, and there is one: on the emulator, phasebit run --devices 2");
        return 3;
    }
    for (int d = 0; d < 2; ++d) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaDeviceEnablePeerAccess(1 - d, 0));
    }
    const char* given = timing::option(argc, argv, "--seed");
    const unsigned seed = given ? std::stoul(given) : std::random_device{}();
    struct Shape { int M, N, K; };
    std::vector<Shape> shapes{{2 * 130, 40, 72}};
    if (!timing::emulated())  // all multiprocessors at work, and several tiles for each
        shapes = {{2, 8, 8}, {2 * 1111, 2120, 968}, {4096, 4096, 1024}};
    if (argc > 3 && argv[1][0] != '-')
        shapes = {{atoi(argv[1]), atoi(argv[2]), atoi(argv[3])}};
    bool good = true;
    for (auto [M, N, K] : shapes) good = good && harness::right(M, N, K, seed);
    puts(good ? "right" : "wrong");
    return good ? 0 : 2;
}
