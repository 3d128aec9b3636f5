"""The products of *Eight bits*: several under way at a time; NaN and scales that are infinite."""

from __future__ import annotations

import pytest

from phasebit import hardware
from phasebit.chapters.eight_bits import product
from tests.kernels import in_flight

PROBLEM = """
struct UnderWay {
    harness::Problem p;
    UnderWay(int M, int N, int K, std::mt19937& random, bool odd) : p(M, N, K) {
        std::uniform_int_distribution<int> small(-2, 2), power(-2, 1);
        size_t at = 0, scale = 0;
        p.A.fill([&] { return odd && at++ == size_t(M / 3) * K + K / 3 ? NAN : small(random); });
        p.B.fill([&] { return small(random); });
        p.b_scales.fill([&] { return std::ldexp(1.0f, power(random)); });
        p.a_scales.fill([&] {  // of one row, in one block, infinite
            const bool is = odd && SCALES > 1 && scale++ == size_t(M / 2);
            return is ? INFINITY : std::ldexp(1.0f, power(random));
        });
        p.C.fill([] { return NAN; }, -1234.0f);
    }
    void begin(cudaStream_t stream) {
        Product given = p.product();
        given.stream = stream;
        launch(given);
    }
    bool right() {
        p.C.download();
        for (int row = 0; row < p.M; ++row)
            for (int col = 0; col < p.N; ++col) {
                double sum = 0;
                for (int k = 0; k < p.K; k += BLOCK) {  // a scale is multiplied with whole sums
                    double part = 0;
                    for (int i = k; i < std::min(p.K, k + BLOCK); ++i)
                        part += p.A.at(row, i) * p.B.at(col, i);
                    sum += part * (p.a_scale(row, k) * p.b_scale(col, k));
                }
                const double is = p.C.at(row, col), must = float(bf16(float(sum)));
                if (is != must && !(std::isnan(is) && std::isnan(must))) return false;
            }
        return true;
    }
};
"""
FORMATS = {"": "", "e5m2": "#define A_FORMAT e5m2\n#define B_FORMAT e5m2\n",
           "e5m2 × e4m3": "#define A_FORMAT e5m2\n"}  # fmt: skip


def text(kernel: str, formats: str, shapes: str) -> str:
    """The program."""
    source = product.source(kernel)
    return FORMATS[formats] + in_flight.program(source, product.HARNESS, PROBLEM, shapes)


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["late", "random"])
@pytest.mark.parametrize("kernel", product.KERNELS)
def test_several_under_way(kernel: str, schedule: str) -> None:
    in_flight.on_the_emulator(text(kernel, "", in_flight.SHAPES), schedule)


@pytest.mark.nvcc
@pytest.mark.parametrize("formats", ["e5m2", "e5m2 × e4m3"])
@pytest.mark.parametrize("kernel", [product.ONE_SCALE, product.KERNELS[-1]])
def test_the_other_format(kernel: str, formats: str) -> None:
    in_flight.on_the_emulator(text(kernel, formats, in_flight.SHAPES), "late")


@pytest.mark.nvcc
def test_numbers_of_another_format_than_the_instruction_s_are_wrong() -> None:
    """The harness draws e5m2, the kernel takes it for e4m3."""
    right = text(product.UNROLLED, "e5m2", in_flight.SHAPES)
    header = in_flight.header("eight_bits/wgmma_eight_bits")
    wrong = header.replace("WGMMA_FORMATS(A_FORMAT, B_FORMAT)", '".e4m3.e4m3"')
    assert wrong != header
    shared = in_flight.header("eight_bits/product")
    shared = shared.replace('#include "eight_bits/wgmma_eight_bits.cuh"\n', wrong)
    assert in_flight.said(right.replace('#include "eight_bits/product.cuh"\n', shared)) == "wrong\n"


@pytest.mark.gpu
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU")
@pytest.mark.parametrize("formats", FORMATS)
@pytest.mark.parametrize("kernel", product.KERNELS)
def test_several_under_way_on_the_gpu(kernel: str, formats: str) -> None:
    in_flight.on_the_gpu(text(kernel, formats, in_flight.LARGE))
