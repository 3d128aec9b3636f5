// What every rung of *The anatomy of a fast GEMM* needs besides its idea. The rest of a rung stands
// in its own file, even where the one before has the same lines: it is read from top to bottom, and
// what `diff` says of two neighbours is the idea.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>

// C = beta C: c (m, n) with ldc floats from row to row. With beta 0 C is not read (BLAS says so),
// so what it holds may be NaN.
inline void scale(int64_t m, int64_t n, float beta, float* c, int64_t ldc) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];
}

// Memory for one packed block, at the start of a page. A rung keeps it for its next call: the
// operating system provides a page when it is first touched, and that takes longer than filling it.
class Buffer {
  public:
    explicit Buffer(int64_t page = 4096) : page_(page) {}
    ~Buffer() { std::free(data_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    // At least so many floats; what they hold is not said.
    float* reserve(int64_t floats) {
        const int64_t pages = (floats * int64_t(sizeof(float)) + page_ - 1) / page_;
        if (data_ == nullptr || pages * page_ > bytes_) {
            std::free(data_);
            bytes_ = std::max<int64_t>(pages, 1) * page_;
            data_ = static_cast<float*>(std::aligned_alloc(page_, bytes_));
            if (data_ == nullptr) std::abort();
        }
        return data_;
    }
    int64_t bytes() const { return bytes_; }

  private:
    const int64_t page_;
    float* data_ = nullptr;
    int64_t bytes_ = 0;
};
