// Rung e by several threads: the rounds of one of its loops are divided among them. -DLOOP=0 divides
// the loop over j0, 1 that over i, 2 that over j.
#include <atomic>
#include <thread>
#include <vector>

#include "gemm/panels.h"

#ifndef LOOP
#define LOOP 0
#endif
constexpr int kMost = 64;  // threads

// Nobody passes until all have arrived. The last one flips the phase, on which the others wait.
class Barrier {
  public:
    explicit Barrier(int count) : count_(count) {}
    void wait() {
        const int phase = phase_;
        if (++arrived_ == count_) {
            arrived_ = 0;
            phase_ = 1 - phase;
        }
        while (phase_ == phase) std::this_thread::yield();
    }

  private:
    const int count_;
    std::atomic<int> arrived_{0}, phase_{0};
};

// c (MR, NR) += alpha a b, with a panel of A, a (kc, MR), and one of B, b (kc, NR).
__attribute__((noinline)) static void micro(int64_t kc, const float* __restrict a,
                                            const float* __restrict b, float alpha,
                                            float* __restrict c, int64_t ldc) {
    Vector sum[MR][kVectors] = {};
    for (int64_t p = 0; p < kc; p++, a += MR, b += NR) {
        const Vector left = *(const Vector*)b, right = *(const Vector*)(b + kWidth);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) {
            sum[i][0] += a[i] * left;
            sum[i][1] += a[i] * right;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) {
        *(Vector*)(c + i * ldc) += alpha * sum[i][0];
        *(Vector*)(c + i * ldc + kWidth) += alpha * sum[i][1];
    }
}

// The tiles of rows i0 to i1 and columns j0 to j1 of one block of C, c (mc, nc), from its panels of
// A, a (mc / MR, kc, MR), and of B, b (nc / NR, kc, NR).
static void block(int64_t i0, int64_t i1, int64_t j0, int64_t j1, int64_t mc, int64_t nc,
                  int64_t kc, const float* a, const float* b, float alpha, float* c, int64_t ldc) {
    for (int64_t i = i0; i < i1; i += MR)
        for (int64_t j = j0; j < j1; j += NR)
            if (i + MR <= mc && j + NR <= nc) {
                micro(kc, a + i * kc, b + j * kc, alpha, c + i * ldc + j, ldc);
            } else {
                float tile[MR * NR] = {};
                micro(kc, a + i * kc, b + j * kc, alpha, tile, NR);
                for (int64_t r = 0; r < std::min<int64_t>(MR, mc - i); r++)
                    for (int64_t s = 0; s < std::min<int64_t>(NR, nc - j); s++)
                        c[(i + r) * ldc + j + s] += tile[r * NR + s];
            }
}

// Where the share of one thread begins: `whole` in pieces of `step`, one after the other.
static int64_t begin(int64_t whole, int64_t step, int thread, int threads) {
    const int64_t pieces = (whole + step - 1) / step;
    return std::min(pieces * thread / threads * step, whole);
}

// C = alpha A B + beta C, as gemm of rung e, by `threads` threads, at most 64.
extern "C" void gemm(int64_t threads, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
                     int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc,
                     const int64_t* sizes) {
    const int team = std::max<int64_t>(1, std::min<int64_t>(threads, kMost));
    // A block of B for each thread, so that all have one: where j0 is divided.
    const int64_t share = LOOP == 0 ? round_up((n + team - 1) / team, NR) : n;
    const int64_t MC = sizes[0], KC = sizes[1], NC = std::max<int64_t>(NR, std::min(sizes[2], share));
    scale(m, n, beta, c, ldc);
    if (alpha == 0) return;  // BLAS: then A and B are not read
    static Buffer buffer_a, buffers_b[kMost];
    float* const panels_a = buffer_a.reserve(round_up(std::min(m, MC), MR) * std::min(k, KC));
    float* own_b[kMost];
    for (int t = 0; t < (LOOP == 0 ? team : 1); t++)
        own_b[t] = buffers_b[t].reserve(round_up(std::min(n, NC), NR) * std::min(k, KC));
    Barrier barrier(team);
    const auto work = [&](int t) {
        for (int64_t p0 = 0; p0 < k; p0 += KC)
            for (int64_t i0 = 0; i0 < m; i0 += MC) {
                const int64_t kc = std::min(KC, k - p0), mc = std::min(MC, m - i0);
                const int64_t from = begin(mc, MR, t, team), to = begin(mc, MR, t + 1, team);
                pack_a(to - from, kc, a + (i0 + from) * lda + p0, lda, panels_a + from * kc);
                barrier.wait();  // A is packed
                const int64_t first = LOOP == 0 ? begin(n, NC, t, team) : 0;
                const int64_t last = LOOP == 0 ? begin(n, NC, t + 1, team) : n;
                for (int64_t j0 = first; j0 < last; j0 += NC) {
                    const int64_t nc = std::min(NC, n - j0);
                    const int64_t left = begin(nc, NR, t, team), right = begin(nc, NR, t + 1, team);
                    float* const panels_b = own_b[LOOP == 0 ? t : 0];
                    float* const here = c + i0 * ldc + j0;
                    if (LOOP == 0) {
                        pack_b(kc, nc, b + p0 * ldb + j0, ldb, panels_b);
                        block(0, mc, 0, nc, mc, nc, kc, panels_a, panels_b, alpha, here, ldc);
                        continue;
                    }
                    pack_b(kc, right - left, b + p0 * ldb + j0 + left, ldb, panels_b + left * kc);
                    barrier.wait();  // B is packed
                    if (LOOP == 1)
                        block(from, to, 0, nc, mc, nc, kc, panels_a, panels_b, alpha, here, ldc);
                    else
                        block(0, mc, left, right, mc, nc, kc, panels_a, panels_b, alpha, here, ldc);
                    barrier.wait();  // B is no longer read
                }
                if (LOOP == 0) barrier.wait();  // A is no longer read
            }
    };
    std::vector<std::thread> others;
    for (int t = 1; t < team; t++) others.emplace_back(work, t);
    work(0);
    for (std::thread& other : others) other.join();
}
