"""Interleaved products of *Layouts* with both loops in place, beside packing and the vendor.

The chapter's first record has the loop in place that :mod:`.layouts_controls` found careless. Here
the same products run with that loop, with the loop written anew, and from packed tiles, by turns.
"""

from __future__ import annotations

import ctypes
import statistics
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.layouts import layouts_controls as controls
from phasebit.chapters.layouts import packed_operands as operands
from phasebit.instruments import beside_torch, clocks, rested
from phasebit.instruments.beside_torch import Launch

NAME = "layouts_interleaved"
FIRST, ANEW, COPY, PACKED = "first loop", "loop written anew", "copy", "copy and packed"
_TEXTS = {FIRST: controls.IN_PLACE, ANEW: controls.SAME, PACKED: controls.PACKED}
_LIBRARY = """
extern "C" void run(int what, const float* A, const float* B, float* C, int M, int N, int K,
                    int batch, long long sm, long long sk, long long sb, float* packed,
                    cudaStream_t stream) {
    const Batch p{A, B, C, M, N, K, batch, size_t(sm), size_t(sk), size_t(sb)};
    if (what > 0) launch_pack(p, packed, stream);
    if (what != 1) launch_product(p, packed, stream);
    CHECK(cudaGetLastError());
}
"""


def build(name: str) -> toolchain.Build:
    """One of the three kernels as a library."""
    return toolchain.build(controls.text(_TEXTS[name]) + _LIBRARY, name=NAME, library=True)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    torch.backends.cuda.matmul.allow_tf32 = False
    loaded = clocks.libraries(build, _TEXTS)
    rested.clock()
    seed = torch.seed()
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events before and after each launch",
            "order": f"{operands.ROUNDS} rounds; each turn: a rest of {operands.REST} s, a launch "
            "that is not counted and one that is; the order of the contenders drawn anew for each "
            "round",
            "mhz": "clock of a multiprocessor, counted for 50 µs right after the timed launch",
            "inputs": f"normal random numbers, drawn anew for each shape, seed {seed}; no flush of "
            "the caches before a timed launch",
            "check": "before timing, all of C equal to the last bit to that of the first loop, and "
            "that on 128 rows by 128 columns against a product in double; C poisoned",
            "vendor": f"cuBLAS through torch {torch.__version__}: matmul, which copies an operand "
            "itself where cuBLAS cannot read it, and with an operand that is dense already; f32 "
            "without TF32",
        },
        "interleaved": [
            _times(torch, loaded, together, columns)
            for together in operands.INTERLEAVED for columns in operands.COLUMNS
        ],
    }  # fmt: skip


def _times(
    torch: Any, loaded: dict[str, ctypes.CDLL], together: int, n: int
) -> dict[str, Any]:
    m, k = operands.ROWS // together, operands.DEPTH
    a = torch.randn(m, k, together, device="cuda").permute(2, 0, 1)
    b = torch.randn(together, k, n, device="cuda")
    c = torch.empty(together, m, n, device="cuda")
    dense = a.contiguous().clone()
    packed = torch.empty(together * -(-m // 128) * 128 * k, device="cuda")
    strides = [ctypes.c_longlong(a.stride(i)) for i in (1, 2, 0)]
    *arrays, tiles = beside_torch.pointers((a, b, c, packed))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def launcher(name: str, what: int) -> Launch:
        run = loaded[name].run
        return lambda: run(what, *arrays, m, n, k, together, *strides, tiles, stream)

    launches = {FIRST: launcher(FIRST, 0), ANEW: launcher(ANEW, 0), PACKED: launcher(PACKED, 2)}
    for each in {0, together - 1}:
        beside_torch.check(torch, FIRST, launches[FIRST], (a[each], b[each], c[each]),
                           beside_torch.cut_sums(k))  # fmt: skip
    right = c.clone()
    for name, launch in launches.items():
        c.fill_(float("nan"))
        packed.fill_(float("nan"))
        launch()
        if not torch.equal(c, right):
            raise toolchain.CudaError(f"{name}: C is not that of the {FIRST}")
    launches |= {
        COPY: launcher(PACKED, 1),
        operands.VENDOR: lambda: torch.matmul(a, b, out=c),
        operands.VENDOR_DENSE: lambda: torch.matmul(dense, b, out=c),
    }
    times = rested.times(torch, launches, operands.ROUNDS, operands.REST)
    said = ", ".join(f"{name} {statistics.median(each['times_us']):.0f}"
                     for name, each in times.items())  # fmt: skip
    print(f"⏱ {together} interleaved, N = {n}: {said} µs", flush=True)
    return {"interleaved": together, "shape": [m, n, k], "times": times}
