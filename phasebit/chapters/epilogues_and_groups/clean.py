"""Which programs must be clean under compute-sanitizer: each kernel of the chapter, checked.

The kernels have no host half of their own: here they get one, with whole numbers on which f32 is
exact, so that results are compared to the last bit (but SwiGLU's).
"""

from __future__ import annotations

from phasebit.chapters.epilogues_and_groups import epilogue_bench, epilogues
from phasebit.chapters.epilogues_and_groups.epilogues import FETCHED, FUSED, GATED, GROUPS
from phasebit.instruments.sanitizer import Program

STEPS = ("Alpha", "RowScale", "Bias", "Residual", "Amax")
"""All whose results are exact on small whole numbers."""
TOGETHER = "d_fetched, together"

MATRIX = """
#include "timing.cuh"
#include <random>
#include <vector>

template <class T> struct Matrix {
    std::vector<T> host;
    T* memory;
    template <class Draw> Matrix(size_t count, Draw draw) : host(count) {
        for (T& x : host) x = T(draw());
        CHECK(cudaMalloc(&memory, count * sizeof(T)));
        CHECK(cudaMemcpy(memory, host.data(), count * sizeof(T), cudaMemcpyHostToDevice));
    }
    ~Matrix() { cudaFree(memory); }
    Matrix(const Matrix&) = delete;
    void download() {
        CHECK(cudaMemcpy(host.data(), memory, host.size() * sizeof(T), cudaMemcpyDeviceToHost));
    }
};

// The product of rows of A (·, K) and B (·, K).
inline double dot(const Matrix<bf16>& A, size_t row, const Matrix<bf16>& B, size_t col, int K) {
    double sum = 0;
    for (int k = 0; k < K; ++k)
        sum += double(float(A.host[row * K + k])) * float(B.host[col * K + k]);
    return sum;
}

inline bool same(double is, double must) {
    return is == must || (std::isnan(is) && std::isnan(must));
}
"""
"""What the mains share."""

UNDER_WAY = MATRIX + """
// A product with an epilogue; where `odd`, an infinity and a NaN are in it, in rows of their own.
struct UnderWay {
    int M, N, K;
    size_t at = 0;
    Matrix<bf16> A, B, C, residual;
    Matrix<float> bias, scale;
    Matrix<unsigned> amax;

    UnderWay(int M, int N, int K, std::mt19937& random, bool odd)
        : M(M), N(N), K(K),
          A(size_t(M) * K, [&] {
              const size_t i = at++;
              return odd && i == size_t(M / 2) * K + K / 2 ? INFINITY
                   : odd && i == size_t(M / 3) * K + K / 3 ? NAN : float(int(random() % 7) - 3);
          }),
          B(size_t(N) * K, [&] { return float(int(random() % 7) - 3); }),
          C(size_t(M) * N, [] { return NAN; }),
          residual(size_t(M) * N, [&] { return float(int(random() % 9) - 4); }),
          bias(N, [&] { return float(int(random() % 9) - 4); }),
          scale(M, [&] { return std::ldexp(1.0f, int(random() % 3)); }),
          amax(1, [] { return 0; }) {}
    void begin(cudaStream_t stream) {
        product(A.memory, B.memory, C.memory, M, N, K, bias.memory, scale.memory, residual.memory,
                amax.memory, 0.5f, 2.0f, timing::emulated() ? 1 : 100, stream);
    }
    bool right() {
        C.download(), amax.download();
        unsigned most = 0;
        for (int row = 0; row < M; ++row)
            for (int col = 0; col < N; ++col) {
                const size_t i = size_t(row) * N + col;
                const float must = float(0.5 * dot(A, row, B, col, K) * scale.host[row] +
                                         bias.host[col] + 2 * float(residual.host[i]));
                const float size = std::abs(must);
                const unsigned bits = reinterpret_cast<const unsigned&>(size);
                most = std::max(most, std::isnan(must) ? 0x7fffffff : bits);
                if (!same(float(C.host[i]), float(bf16(must)))) return false;
            }
        const float seen = reinterpret_cast<const float&>(amax.host[0]);
        return most == 0x7fffffff ? std::isnan(seen) : amax.host[0] == most;
    }
};
"""
"""The fused kernels' problem: ``begin(stream)``, ``right()``."""

_FUSED = UNDER_WAY + """
int main() {
    std::mt19937 random(1);
    struct { int M, N, K; } shapes[] = {{1, 8, 16}, {129, 264, 72}, {500, 1032, 328}};
    for (auto [M, N, K] : shapes) {
        UnderWay one(M, N, K, random, M == 129);
        one.begin(0);
        CHECK(cudaDeviceSynchronize());
        if (!one.right()) return puts("fused: WRONG"), 2;
        if (timing::emulated() && M > 1) break;
    }
    puts("fused: OK, exact on whole numbers, an infinity and a NaN among them");
}
"""
_GATED = MATRIX + """
int main() {
    const int M = 130, H = 72, K = 72;
    std::mt19937 random(1);
    auto small = [&] { return float(int(random() % 7) - 3) / 8; };
    Matrix<bf16> A(M * K, small), B(2 * H * K, small), C(M * H, [] { return NAN; });
    product(A.memory, B.memory, C.memory, M, H, K, timing::emulated() ? 1 : 7, 0);
    CHECK(cudaDeviceSynchronize());
    C.download();
    for (int row = 0; row < M; ++row)
        for (int col = 0; col < H; ++col) {
            const double gate = dot(A, row, B, col, K), up = dot(A, row, B, H + col, K);
            const double must = gate / (1 + std::exp(-gate)) * up;
            const double is = float(C.host[row * H + col]);
            if (!(std::abs(is - must) <= std::ldexp(std::abs(must), -7) + 1e-5))
                return puts("gated: WRONG"), 2;
        }
    puts("gated: OK");
}
"""
_GROUPS = MATRIX + """
int main() {
    const int N = 264, K = 136, blocks = timing::emulated() ? 1 : 5;
    std::vector<int> counts{3, 0, 130, 0, 1, 257, 64};
    if (timing::emulated()) counts.resize(5);
    std::mt19937 random(1);
    size_t at = 0, rows = 0;
    for (int count : counts) rows += count;
    auto small = [&] { return float(int(random() % 7) - 3); };
    Matrix<int> sizes(counts.size(), [&] { return counts[at++]; });
    Matrix<bf16> A(rows * K, small), B(counts.size() * N * K, small);
    Matrix<bf16> C(rows * N, [] { return NAN; });
    Matrix<float> scale(rows, [&] { return std::ldexp(1.0f, int(random() % 3)); });
    Matrix<unsigned char> maps(blocks * 4 * 128, [] { return 0; });
    product(A.memory, B.memory, C.memory, sizes.memory, int(counts.size()), int(rows), N, K,
            scale.memory, maps.memory, blocks, 0);
    CHECK(cudaDeviceSynchronize());
    C.download();
    for (size_t group = 0, row = 0; group < counts.size(); ++group)
        for (const size_t end = row + counts[group]; row < end; ++row)
            for (int col = 0; col < N; ++col) {
                const double must = dot(A, row, B, group * N + col, K) * scale.host[row];
                if (!same(float(C.host[row * N + col]), float(bf16(float(must)))))
                    return puts("groups: WRONG"), 2;
            }
    puts("groups: OK, exact on whole numbers");
}
"""


def text(name: str, main: str) -> str:
    """A kernel, what launches it, and a main; of a fused one, with :data:`STEPS`."""
    kernel = FETCHED if name == TOGETHER else name
    built = epilogue_bench.text(kernel, STEPS)
    return (epilogues.together(built) if name == TOGETHER else built) + main


def programs() -> dict[str, Program]:
    """Name -> program."""
    mains = {FUSED: _FUSED, FETCHED: _FUSED, TOGETHER: _FUSED, GATED: _GATED, GROUPS: _GROUPS}
    return {name: Program(text(name, main), ()) for name, main in mains.items()}
