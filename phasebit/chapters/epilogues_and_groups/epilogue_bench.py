"""What is measured in *Epilogues and groups*, and how: the kernels as libraries, operands, graphs.

Needs torch, for cuBLAS and for the check.
"""

from __future__ import annotations

import ctypes
import random
import time
from typing import Any

from phasebit import toolchain
from phasebit.chapters.epilogues_and_groups import epilogues
from phasebit.chapters.epilogues_and_groups.epilogues import FETCHED, FUSED, GATED, GROUPS
from phasebit.instruments import beside_torch, clocks

NAME = "epilogues_and_groups"
SHAPES = (8192, 8192, 8192), (4096, 14336, 4096), (4096, 4096, 512)
SQUARE = 4096
"""Rows and columns of the products whose epilogues are hidden or not."""
DEPTHS = (256, 512, 1024, 2048, 4096, 8192)
"""Their K."""
EXPERTS, HIDDEN, INNER = 64, 4096, 1536
"""Groups of a mixture of experts, and the depth and the columns of each product."""
ROWS = (1, 64, 128, 700)
"""Means of a Poisson distribution from which the rows of a group are drawn; group 0 is empty."""
PLAIN, SHORT, LONG = "no epilogue", "alpha, bias, GELU", "all six steps"
CHAINS = {PLAIN: (), SHORT: ("Alpha", "Bias", "Gelu"), LONG: epilogues.STEPS}
TEAMS = {"by turns": 1, "together": 2}
"""Order of the two warp groups -> how many of them share a tile."""
CUBLAS, CUBLASLT = "cuBLAS", "bias, GELU, cuBLASLt"
GROUPED, LOOP, ASKED, TORCHS = (
    "grouped", "a loop of cuBLAS", "the loop, asked for by the host", "torch's",
)  # fmt: skip
ONE, ONE_CUBLAS = "one product of all rows", "the same by cuBLAS"

ROUNDS, _REST = 12, 0.005
_GRAPH_US = 1500.0  # a graph holds launches for about so long

_RUN = """
template <class... Arguments> void run(void (*kernel)(Arguments...), int blocks, int bytes,
                                       cudaStream_t stream, Arguments... arguments) {
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<<<blocks, THREADS, bytes, stream>>>(arguments...);
    CHECK(cudaGetLastError());
}
"""
_LAUNCH = {
    FUSED: _RUN + """
extern "C" void product(const bf16* A, const bf16* B, bf16* C, int M, int N, int K,
                        const float* bias, const float* row_scale, const bf16* residual,
                        unsigned* amax, float alpha, float beta, int blocks, cudaStream_t stream) {
    const auto swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    run(matmul, blocks, int(sizeof(Ring)), stream, tensor_map_2d(A, M, K, BM, BK, swizzle),
        tensor_map_2d(B, N, K, BN, BK, swizzle),
        tensor_map_2d((const bf16*)C, M, N, BOX_ROWS, BOX_COLS, swizzle), Tiles{M, N, K}, bias,
        row_scale, residual, amax, alpha, beta);
}

// The whole chain on a result in memory, eight numbers a thread; N is a multiple of 8.
template <class Steps> __global__ void after(bf16* C, Given given) {
    const int row = blockIdx.y, col = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (col < given.N) {
        uint4* at = reinterpret_cast<uint4*>(C + size_t(row) * given.N + col);
        uint4 eight = *at;
        auto* pairs = reinterpret_cast<__nv_bfloat162*>(&eight);
        for (int i = 0; i < 4; ++i)
            pairs[i] = __float22bfloat162_rn(
                Steps::apply(__bfloat1622float2(pairs[i]), row, col + 2 * i, given));
        *at = eight;
    }
    finish(given);
}
extern "C" void chain(bf16* C, int M, int N, const float* bias, const float* row_scale,
                      const bf16* residual, unsigned* amax, float alpha, float beta,
                      cudaStream_t stream) {
    after<Chain<STEPS>><<<dim3(over(N, 8 * 256), M), 256, 0, stream>>>(
        C, Given{M, N, bias, row_scale, residual, amax, alpha, beta});
    CHECK(cudaGetLastError());
}
""",
    FETCHED: _RUN + """
extern "C" void product(const bf16* A, const bf16* B, bf16* C, int M, int N, int K,
                        const float* bias, const float* row_scale, const bf16* residual,
                        unsigned* amax, float alpha, float beta, int blocks, cudaStream_t stream) {
    const auto swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    run(matmul, blocks, int(sizeof(Shared)), stream, tensor_map_2d(A, M, K, BM, BK, swizzle),
        tensor_map_2d(B, N, K, BN, BK, swizzle),
        tensor_map_2d((const bf16*)C, M, N, BOX_ROWS, BOX_COLS, swizzle),
        tensor_map_2d(residual, M, N, BOX_ROWS, BOX_COLS, swizzle),
        tensor_map_2d(bias, 1, N, 1, BN, CU_TENSOR_MAP_SWIZZLE_NONE), Tiles{M, N, K}, row_scale,
        amax, alpha, beta);
}
""",
    GATED: _RUN + """
extern "C" void product(const bf16* A, const bf16* B, bf16* C, int M, int H, int K, int blocks,
                        cudaStream_t stream) {
    const auto swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    run(matmul, blocks, int(sizeof(Ring)), stream, tensor_map_2d(A, M, K, BM, BK, swizzle),
        tensor_map_2d(B, 2 * H, K, WIDE, BK, swizzle),
        tensor_map_2d((const bf16*)C, M, H, BOX_ROWS, BOX_COLS, swizzle), M, H, K);
}
""",
    GROUPS: _RUN + """
extern "C" void product(const bf16* A, const bf16* B, bf16* C, const int* sizes, int groups,
                        int rows, int N, int K, const float* row_scale, void* maps, int blocks,
                        cudaStream_t stream) {
    const auto swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    run(matmul, blocks, int(sizeof(Shared)), stream, tensor_map_2d(A, rows, K, BM, BK, swizzle),
        tensor_map_2d(B, groups * N, K, BN, BK, swizzle),
        tensor_map_2d((const bf16*)C, rows, N, BOX_ROWS, BOX_COLS, swizzle), A, C, sizes, groups,
        N, K, row_scale, (Maps*)maps);
}
""",
}


def text(kernel: str, steps: tuple[str, ...] = epilogues.STEPS, team: int = 1) -> str:
    """A kernel as a library has it: with functions that launch it."""
    source = epilogues.source(kernel)
    if kernel == FETCHED:
        source = epilogues.with_steps(source, epilogues.short(steps))
    if kernel == FUSED:
        source = epilogues.without_apart(epilogues.with_steps(source, steps))
        source = epilogues.with_constants(source, TEAM=team)
    return source + _LAUNCH[kernel]


def build(
    kernel: str, steps: tuple[str, ...] = epilogues.STEPS, team: int = 1
) -> toolchain.Build:
    """That library."""
    return toolchain.build(text(kernel, steps, team), name=NAME, target="sm_90a", library=True)


def timing() -> dict[str, str]:
    """What a protocol says of :func:`in_graphs`."""
    return {
        "clock": f"launches in a CUDA graph, as many as take about {_GRAPH_US / 1e3:g} ms (at "
        "least 4, at most 40), between two events; mhz: the multiprocessors' clock over them, the "
        "median multiprocessor",
        "order": f"{ROUNDS} rounds, in each the contenders in a new random order; a rest of "
        f"{_REST * 1e3:g} ms and a replay that does not count before each",
        "inputs": "normal random bf16 numbers, K innermost; no flush between launches",
    }


def guessed(m: int, n: int, k: int) -> float:
    """About the microseconds of a product with an epilogue, to say how many a graph holds."""
    return 2 * m * n * k / 5e8 + 20


def in_graphs(
    torch: Any, launches: dict[str, beside_torch.Launch], us: float, refused: dict[str, str]
) -> dict[str, Any]:
    """``us`` and ``mhz`` of each contender, as the protocol says.

    ``us`` given: about what a launch takes. A contender that cannot be put into a graph goes to
    ``refused``, with what was said.
    """
    reader = clocks.Clocks(torch)
    count = max(4, min(40, int(_GRAPH_US / us)))
    graphs = {}
    for name, launch in launches.items():
        try:
            launch()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(count):
                    launch()
            graphs[name] = graph
        except (RuntimeError, AttributeError) as error:
            refused[name] = str(error).splitlines()[0][:300]
    found: dict[str, dict[str, list[float]]] = {n: {"us": [], "mhz": []} for n in graphs}
    order, draw = list(graphs), random.Random(len(graphs))
    for _ in range(ROUNDS):
        draw.shuffle(order)
        for name in order:
            time.sleep(_REST)
            graphs[name].replay()
            reader.look(0)
            (took,) = beside_torch.timed(torch, graphs[name].replay, 1)
            reader.look(1)
            found[name]["us"].append(round(took / count, 3))
            found[name]["mhz"].append(reader.mhz())
    return found


class Operands:
    """Random operands of a product with an epilogue, and torch's ways to compute it."""

    def __init__(self, torch: Any, m: int, n: int, k: int) -> None:
        half = {"device": "cuda", "dtype": torch.bfloat16}
        self._torch, self.shape = torch, (m, n, k)
        self.a, self.b, self.residual = (
            torch.randn(*size, **half) for size in ((m, k), (n, k), (m, n))
        )
        self.bias, self.scale = torch.randn(n, device="cuda"), torch.rand(m, device="cuda") + 0.5
        self.amax = torch.zeros(1, device="cuda", dtype=torch.int32)
        self.c = torch.empty(m, n, **half)
        self.short = self.bias.bfloat16()
        self._column = self.scale.bfloat16()[:, None]
        self.pointers = beside_torch.pointers((self.a, self.b, self.c))
        self.given = beside_torch.pointers((self.bias, self.scale, self.residual, self.amax))
        self.numbers = ctypes.c_float(0.125), ctypes.c_float(0.5)

    def product(self) -> None:
        """C = A · Bᵀ by cuBLAS."""
        self._torch.mm(self.a, self.b.T, out=self.c)

    def activated(self) -> Any:
        """The product with cuBLASLt's epilogue of bias and GELU."""
        return self._torch._addmm_activation(self.short, self.a, self.b.T, use_gelu=True)

    def apart(self, chain: str) -> beside_torch.Launch:
        """CuBLAS, then a kernel of torch's for each step."""
        torch, c, long = self._torch, self.c, chain == LONG

        def launch() -> None:
            self.product()
            c.mul_(0.125)
            if long:
                c.mul_(self._column)
            c.add_(self.short)
            torch.ops.aten.gelu_(c)
            if long:
                c.add_(self.residual, alpha=0.5)
                torch.linalg.vector_norm(c, float("inf"), dtype=torch.float32)

        return launch

    def right(self, chain: str) -> Any:
        """The result in f32 of a chain of :data:`CHAINS`."""
        return self.steps(CHAINS[chain])

    def steps(self, names: tuple[str, ...]) -> Any:
        """The result in f32 of any chain of steps."""
        x = self.a.float() @ self.b.float().T
        apply = {
            "Alpha": lambda: 0.125 * x,
            "RowScale": lambda: self.scale[:, None] * x,
            "Bias": lambda: x + self.bias,
            "Gelu": lambda: self._torch.nn.functional.gelu(x),
            "Residual": lambda: x + 0.5 * self.residual.float(),
            "Amax": lambda: x,
        }
        for name in names:
            x = apply[name]()
        return x


def launch(torch: Any, library: ctypes.CDLL, x: Operands) -> beside_torch.Launch:
    """A launch of a built kernel on these operands, in torch's stream of that moment."""
    units = torch.cuda.get_device_properties(0).multi_processor_count
    return lambda: library.product(
        *x.pointers, *x.shape, *x.given, *x.numbers, units,
        ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
    )  # fmt: skip
