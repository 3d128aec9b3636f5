"""*Epilogues and groups*: fused against apart, hidden and not, groups against a loop, by turns.

Needs torch, for cuBLAS and for the check.
"""

from __future__ import annotations

import ctypes
import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.epilogues_and_groups import epilogues
from phasebit.chapters.epilogues_and_groups.epilogues import FUSED, GROUPS
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

_ROUNDS, _REST = 12, 0.005
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
    if kernel == FUSED:
        source = epilogues.without_apart(epilogues.with_steps(source, steps))
        source = epilogues.with_constants(source, TEAM=team)
    return source + _LAUNCH[kernel]


def build(
    kernel: str, steps: tuple[str, ...] = epilogues.STEPS, team: int = 1
) -> toolchain.Build:
    """That library."""
    return toolchain.build(text(kernel, steps, team), name=NAME, target="sm_90a", library=True)


Libraries = dict[tuple[str, str], ctypes.CDLL]
"""(order of the groups, chain) -> a fused kernel."""


def built() -> tuple[Libraries, ctypes.CDLL, dict[str, int]]:
    """The fused kernels, the grouped one, and the registers of each fused one."""
    wanted = [(order, chain) for order in TEAMS for chain in CHAINS]
    with ThreadPoolExecutor(8) as pool:
        pool.submit(clocks.reader)
        grouped = pool.submit(build, GROUPS)
        made = list(pool.map(lambda w: build(FUSED, CHAINS[w[1]], TEAMS[w[0]]), wanted))
    registers = {
        f"{order}, {chain}": next(u.registers for u in one.resources if "matmul" in u.kernel)
        for (order, chain), one in zip(wanted, made, strict=True)
    }
    fused = {which: ctypes.CDLL(str(one.program)) for which, one in zip(wanted, made, strict=True)}
    return fused, ctypes.CDLL(str(grouped.result().program)), registers


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    fused, grouped, registers = built()
    bench = _Bench(torch, fused, grouped)
    return {
        "benchmark": NAME,
        **facts,
        "protocol": _protocol(torch),
        "registers": registers,
        "epilogues": [bench.shape(*shape) for shape in SHAPES],
        "hidden": [bench.depth(k) for k in DEPTHS],
        "groups": [bench.groups(mean) for mean in ROWS],
        "refused": bench.refused,
    }


def timing() -> dict[str, str]:
    """What a protocol says of :func:`in_graphs`."""
    return {
        "clock": f"launches in a CUDA graph, as many as take about {_GRAPH_US / 1e3:g} ms (at "
        "least 4, at most 40), between two events; mhz: the multiprocessors' clock over them, the "
        "median multiprocessor",
        "order": f"{_ROUNDS} rounds, in each the contenders in a new random order; a rest of "
        f"{_REST * 1e3:g} ms and a replay that does not count before each",
        "inputs": "normal random bf16 numbers, K innermost; no flush between launches",
    }


def _protocol(torch: Any) -> dict[str, str]:
    return {
        **timing(),
        "check": "before timing, all of C against torch in f32, within 2⁻⁷·|c| + 2·10⁻³·√K, and "
        "amax; C is full of NaN before",
        "apart": "cuBLAS, then torch's elementwise kernels, one for each step, in place; then one "
        "kernel: cuBLAS, then all steps in a kernel of ours, eight numbers a thread",
        "host": f"{ASKED}: the same calls without a graph, a product for each group that has rows",
        "vendor": f"torch {torch.__version__}, same process: torch.mm is cuBLAS; "
        "_addmm_activation is cuBLASLt's epilogue of bias and GELU, whose GELU is the tanh's; "
        "_grouped_mm is torch's own",
    }


class _Bench:
    """Torch and the built kernels."""

    def __init__(self, torch: Any, fused: Libraries, grouped: ctypes.CDLL) -> None:
        self._torch, self._fused, self._grouped = torch, fused, grouped
        self._units = torch.cuda.get_device_properties(0).multi_processor_count
        self.refused: dict[str, str] = {}

    def shape(self, m: int, n: int, k: int) -> dict[str, Any]:
        """One product with three epilogues: fused, apart, apart in one kernel, and cuBLASLt's."""
        torch = self._torch
        given = Operands(torch, m, n, k)
        launches: dict[str, beside_torch.Launch] = {}
        for name in CHAINS:
            launches[f"{name}, fused"] = self._ours("by turns", name, given)
            self._check(launches[f"{name}, fused"], name, given)
            if name == PLAIN:
                launches[CUBLAS] = given.product
                continue
            launches[f"{name}, apart"] = given.apart(name)
            launches[f"{name}, then one kernel"] = self._then(name, given)
            self._check(launches[f"{name}, then one kernel"], name, given, coarse=True)
        launches[CUBLASLT] = given.activated
        return {"shape": [m, n, k], "times": self._timed(launches, m, n, k)}

    def depth(self, k: int) -> dict[str, Any]:
        """Square results with K = ``k``: each chain, in both orders of the groups."""
        given = Operands(self._torch, SQUARE, SQUARE, k)
        launches = {}
        for order in TEAMS:
            for chain in CHAINS:
                launches[f"{order}, {chain}"] = self._ours(order, chain, given)
                self._check(launches[f"{order}, {chain}"], chain, given)
        return {"k": k, "times": self._timed(launches, SQUARE, SQUARE, k)}

    def groups(self, mean: int) -> dict[str, Any]:
        """Products of a mixture of experts: ours, a loop of cuBLAS, torch's, and one of all."""
        torch = self._torch
        half = {"device": "cuda", "dtype": torch.bfloat16}
        torch.manual_seed(mean)
        sizes = torch.poisson(torch.full((EXPERTS,), float(mean))).int().tolist()
        sizes[0] = 0
        rows, n, k = sum(sizes), INNER, HIDDEN
        a, b, c = (torch.randn(*size, **half) for size in ((rows, k), (EXPERTS * n, k), (rows, n)))
        counts = torch.tensor(sizes, device="cuda", dtype=torch.int32)
        ends = counts.cumsum(0, dtype=torch.int32)
        scale = torch.ones(rows, device="cuda")
        maps = torch.zeros(
            self._units * epilogues.MAPS * 2 * 128, device="cuda", dtype=torch.uint8
        )
        first = beside_torch.pointers((a, b, c, counts))
        rest = beside_torch.pointers((scale, maps))
        weights = b.view(EXPERTS, n, k)
        starts = [sum(sizes[:g]) for g in range(EXPERTS)]
        filled = [g for g in range(EXPERTS) if sizes[g]]
        slices = [slice(starts[g], starts[g] + sizes[g]) for g in filled]

        def ours() -> None:
            self._grouped.product(
                *first, EXPERTS, rows, n, k, *rest, self._units, self._stream()
            )

        def loop() -> None:
            for g, at in zip(filled, slices, strict=True):
                torch.mm(a[at], weights[g].T, out=c[at])

        c.fill_(float("nan"))
        ours()
        right = torch.cat([a[at].float() @ weights[g].float().T
                           for g, at in zip(filled, slices, strict=True)])  # fmt: skip
        self._near(c, right, k, f"the grouped product of {mean} rows a group")
        one = Operands(torch, rows, n, k)
        launches: dict[str, beside_torch.Launch] = {
            GROUPED: ours, LOOP: loop, ONE: self._ours("by turns", PLAIN, one),
            ONE_CUBLAS: one.product,
            TORCHS: lambda: torch._grouped_mm(a, weights.transpose(1, 2), offs=ends),
        }  # fmt: skip
        self._check(launches[ONE], PLAIN, one)
        found = in_graphs(torch, launches, guessed(rows, n, k) + 180, self.refused)
        loop()
        found[ASKED] = {"us": beside_torch.timed(torch, loop, _ROUNDS), "mhz": []}
        return {"mean": mean, "sizes": sizes, "n": n, "k": k, "times": found}

    def _stream(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._torch.cuda.current_stream().cuda_stream)

    def _ours(self, order: str, chain: str, x: Operands) -> beside_torch.Launch:
        product = self._fused[order, chain].product
        return lambda: product(
            *x.pointers, *x.shape, *x.given, *x.numbers, self._units, self._stream()
        )

    def _then(self, chain: str, x: Operands) -> beside_torch.Launch:
        steps = self._fused["by turns", chain].chain
        m, n, _ = x.shape

        def launch() -> None:
            x.product()
            steps(x.pointers[2], m, n, *x.given, *x.numbers, self._stream())

        return launch

    def _check(
        self, launch: beside_torch.Launch, chain: str, x: Operands, coarse: bool = False
    ) -> None:
        """``coarse``: the sums were rounded to bf16 before the steps, too."""
        m, n, k = x.shape
        x.c.fill_(float("nan"))
        x.amax.zero_()
        launch()
        right = x.right(chain)
        what = f"{chain} at {m} × {n} × {k}"
        self._near(x.c, right, k, what, 2.0**-6 * right.abs().max().item() if coarse else 0)
        most = x.amax.view(self._torch.float32).item()
        if chain == LONG and not coarse and not (
            abs(most - right.abs().max().item()) <= 2e-3 * k**0.5
        ):
            raise toolchain.CudaError(f"{what} has a wrong amax: {most}")

    def _timed(
        self, launches: dict[str, beside_torch.Launch], m: int, n: int, k: int
    ) -> dict[str, Any]:
        return in_graphs(self._torch, launches, guessed(m, n, k), self.refused)

    def _near(self, got: Any, right: Any, k: int, what: str, more: float = 0) -> None:
        bound = 2.0**-7 * right.abs() + 2e-3 * k**0.5 + more
        if not bool(((got.float() - right).abs() <= bound).all()):
            raise toolchain.CudaError(f"{what} is wrong: look at it on the emulator first")


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
    for _ in range(_ROUNDS):
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
