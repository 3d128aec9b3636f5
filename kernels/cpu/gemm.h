// What every rung of the ladder of chapter 8 needs besides its idea.
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

// Memory for one packed block, at the start of a page; freed at the end of the call.
class Buffer {
  public:
    explicit Buffer(int64_t floats, int64_t page = 4096) {
        bytes_ = (floats * int64_t(sizeof(float)) + page - 1) / page * page;
        data_ = static_cast<float*>(std::aligned_alloc(page, std::max(bytes_, page)));
        if (data_ == nullptr) std::abort();
    }
    ~Buffer() { std::free(data_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    float* data() const { return data_; }
    int64_t bytes() const { return bytes_; }

  private:
    float* data_;
    int64_t bytes_;
};
