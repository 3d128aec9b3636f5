"""The products of *The ring at full width*: several under way at a time; infinities and NaN."""

from __future__ import annotations

import pytest

from phasebit import hardware
from tests.chapters.hopper_ring.test_products import HARNESS, KERNELS
from tests.kernels import in_flight
from tests.kernels.mistakes import source

PROBLEM = """
struct UnderWay {
    harness::Matrix A, B, C;
    int M, N, K;
    UnderWay(int M, int N, int K, std::mt19937& random, bool odd)
        : A(M, K), B(N, K), C(M, N), M(M), N(N), K(K) {
        std::uniform_int_distribution<int> small(-4, 4);
        size_t at = 0;
        A.fill([&] {  // in one row an infinity, in another a NaN
            const size_t i = at++;
            return odd && i == size_t(M / 2) * K + K / 2 ? INFINITY
                 : odd && i == size_t(M / 3) * K + K / 3 ? NAN : float(small(random));
        });
        B.fill([&] { return float(small(random)); });
        C.fill([] { return NAN; }, -1234.0f);
    }
    void begin(cudaStream_t stream) {
        launch(Product{A.memory, B.memory, C.memory, M, N, K,
                       timing::emulated() ? 2 : harness::multiprocessors(), stream});
    }
    bool right() {
        C.download();
        for (int row = 0; row < M; ++row)
            for (int col = 0; col < N; ++col) {
                double sum = 0;
                for (int k = 0; k < K; ++k) sum += A.at(row, k) * B.at(col, k);
                const double is = C.at(row, col);
                const double must = __bfloat162float(__float2bfloat16(float(sum)));
                if (is != must && !(std::isnan(is) && std::isnan(must))) return false;
            }
        return true;
    }
};
"""


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["late", "random"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_several_under_way(kernel: str, schedule: str) -> None:
    text = in_flight.program(source(kernel), HARNESS, PROBLEM)
    in_flight.on_the_emulator(text, schedule)


@pytest.mark.nvcc
def test_a_kernel_that_forgets_a_nan_is_not_right() -> None:
    kept = "sums[i], sums[i + 1]"
    text = source("hopper_ring/a_one_stage")
    header = '#include "hopper_ring/product.cuh"'
    shared = in_flight.header("hopper_ring/product")
    assert kept in shared
    wrong = shared.replace(kept, "fmaxf(sums[i], -1e30f), fmaxf(sums[i + 1], -1e30f)")
    text = text.replace(header, wrong)
    assert in_flight.said(in_flight.program(text, HARNESS, PROBLEM)) == "wrong\n"


@pytest.mark.gpu
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU")
@pytest.mark.parametrize("kernel", KERNELS)
def test_several_under_way_on_the_gpu(kernel: str) -> None:
    text = in_flight.program(source(kernel), HARNESS, PROBLEM, in_flight.LARGE)
    in_flight.on_the_gpu(text)
