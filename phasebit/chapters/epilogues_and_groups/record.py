"""*Epilogues and groups*: fused against apart, and groups against a loop, by turns.

No GPU was at hand when this was written: the kernels were run on the emulator only, and what calls
them here was compiled and never run. Needs torch, for cuBLAS and for the check.
"""

from __future__ import annotations

import ctypes
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.epilogues_and_groups import epilogues
from phasebit.chapters.epilogues_and_groups.epilogues import FUSED, GROUPS
from phasebit.instruments import beside_torch, programs

NAME = "epilogues_and_groups"
SHAPES = (8192, 8192, 8192), (4096, 14336, 4096), (4096, 4096, 512)
EXPERTS, HIDDEN, INNER = 64, 4096, 1536
"""Groups of a mixture of experts, and the columns and the depth of each product."""
ROWS = (1, 64, 128, 700)
"""Means of a Poisson distribution from which the rows of a group are drawn; group 0 is empty."""
CHAINS = {
    "no epilogue": (),
    "alpha, bias, GELU": ("Alpha", "Bias", "Gelu"),
    "all six steps": epilogues.STEPS,
}
_ROUNDS, _EACH = 20, 5

_RUN = """
template <class... Arguments> void run(void (*kernel)(Arguments...), int blocks, int bytes,
                                       Arguments... arguments) {
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<<<blocks, THREADS, bytes>>>(arguments...);
    CHECK(cudaGetLastError());
}
"""
_LAUNCH = {
    FUSED: _RUN + """
extern "C" void product(const bf16* A, const bf16* B, bf16* C, int M, int N, int K,
                        const float* bias, const float* row_scale, const bf16* residual,
                        unsigned* amax, float alpha, float beta, int blocks) {
    const auto swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    run(matmul, blocks, int(sizeof(Ring)), tensor_map_2d(A, M, K, BM, BK, swizzle),
        tensor_map_2d(B, N, K, BN, BK, swizzle),
        tensor_map_2d((const bf16*)C, M, N, BOX_ROWS, BOX_COLS, swizzle), Tiles{M, N, K}, bias,
        row_scale, residual, amax, alpha, beta);
}
""",
    GROUPS: _RUN + """
extern "C" void product(const bf16* A, const bf16* B, bf16* C, const int* sizes, int groups,
                        int rows, int N, int K, const float* row_scale, void* maps, int blocks) {
    const auto swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    run(matmul, blocks, int(sizeof(Shared)), tensor_map_2d(A, rows, K, BM, BK, swizzle),
        tensor_map_2d(B, groups * N, K, BN, BK, swizzle),
        tensor_map_2d((const bf16*)C, rows, N, BOX_ROWS, BOX_COLS, swizzle), A, C, sizes, groups,
        N, K, row_scale, (Maps*)maps);
}
""",
}


def text(kernel: str, steps: tuple[str, ...] = epilogues.STEPS) -> str:
    """A kernel as a library has it: with a function that launches it."""
    source = epilogues.source(kernel)
    if kernel == FUSED:
        source = epilogues.with_steps(source, steps)
    return source + _LAUNCH[kernel]


def build(kernel: str, steps: tuple[str, ...] = epilogues.STEPS) -> toolchain.Build:
    """That library."""
    return toolchain.build(text(kernel, steps), name=NAME, target="sm_90a", library=True)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    fused = {name: ctypes.CDLL(str(build(FUSED, steps).program)) for name, steps in CHAINS.items()}
    grouped = ctypes.CDLL(str(build(GROUPS).program))
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events before and after each contender's launches",
            "order": f"{_ROUNDS} rounds; in each, every contender in turn, once uncounted and then "
            f"{_EACH} times counted",
            "inputs": "normal random bf16 numbers, K innermost; no flush between launches",
            "check": "before timing, against torch in f32, within 2⁻⁷·|c| + 2·10⁻³·√K",
            "apart": "cuBLAS, then torch's elementwise kernels, one for each step, in place",
            "vendor": f"torch {torch.__version__}: _addmm_activation is cuBLASLt's epilogue of "
            "bias and GELU, whose GELU is the tanh's; _grouped_mm is torch's own",
        },
        "epilogues": [_shape(torch, fused, *shape) for shape in SHAPES],
        "groups": [_groups(torch, grouped, mean) for mean in ROWS],
    }


def _near(torch: Any, got: Any, right: Any, k: int, what: str) -> None:
    bound = 2.0**-7 * right.abs() + 2e-3 * k**0.5
    if not bool(((got.float() - right).abs() <= bound).all()):
        raise toolchain.CudaError(f"{what} is wrong: look at it on the emulator first")


def _shape(torch: Any, fused: dict[str, ctypes.CDLL], m: int, n: int, k: int) -> dict[str, Any]:
    """One product with three epilogues: fused, apart, and cuBLASLt's."""
    half = {"device": "cuda", "dtype": torch.bfloat16}
    a, b, residual = (torch.randn(*size, **half) for size in ((m, k), (n, k), (m, n)))
    bias, scale = torch.randn(n, device="cuda"), torch.rand(m, device="cuda") + 0.5
    amax, c = torch.zeros(1, device="cuda"), torch.empty(m, n, **half)
    short, gelu = bias.bfloat16(), torch.nn.functional.gelu
    tensors = beside_torch.pointers((a, b, c)), beside_torch.pointers((bias, scale, residual, amax))
    numbers = ctypes.c_float(0.125), ctypes.c_float(0.5)
    blocks = programs.multiprocessors()

    def ours(name: str) -> beside_torch.Launch:
        return lambda: fused[name].product(*tensors[0], m, n, k, *tensors[1], *numbers, blocks)

    def apart(name: str) -> beside_torch.Launch:
        def launch() -> None:
            torch.mm(a, b.T, out=c)
            if name == "no epilogue":
                return
            c.mul_(0.125)
            if name == "all six steps":
                c.mul_(scale.bfloat16()[:, None])
            c.add_(short)
            c.copy_(gelu(c))
            if name == "all six steps":
                c.add_(residual, alpha=0.5)
                amax.copy_(c.abs().max())

        return launch

    right = 0.125 * (a.float() @ b.float().T)
    expected = {"no epilogue": 8 * right, "alpha, bias, GELU": gelu(right + bias)}
    expected["all six steps"] = (
        gelu(right * scale[:, None] + bias) + 0.5 * residual.float()
    )
    launches: dict[str, beside_torch.Launch] = {}
    for name in CHAINS:
        c.fill_(float("nan"))
        ours(name)()
        torch.cuda.synchronize()
        _near(torch, c, expected[name], k, f"{name} at {m} × {n} × {k}")
        launches |= {f"{name}, fused": ours(name), f"{name}, apart": apart(name)}
    launches["bias, GELU, cuBLASLt"] = lambda: torch._addmm_activation(
        short, a, b.T, use_gelu=True
    )
    return {"shape": [m, n, k], "us": beside_torch.times(torch, launches, _ROUNDS, _EACH)}


def _groups(torch: Any, grouped: ctypes.CDLL, mean: int) -> dict[str, Any]:
    """Products of a mixture of experts: ours, a loop of cuBLAS, and torch's."""
    half = {"device": "cuda", "dtype": torch.bfloat16}
    sizes = torch.poisson(torch.full((EXPERTS,), float(mean))).int().tolist()
    sizes[0] = 0
    rows, n, k = sum(sizes), INNER, HIDDEN
    a, b, c = (torch.randn(*size, **half) for size in ((rows, k), (EXPERTS * n, k), (rows, n)))
    counts = torch.tensor(sizes, device="cuda", dtype=torch.int32)
    ends = counts.cumsum(0, dtype=torch.int32)
    scale, blocks = torch.ones(rows, device="cuda"), programs.multiprocessors()
    maps = torch.zeros(blocks * epilogues.MAPS * 2 * 128, device="cuda", dtype=torch.uint8)
    first, rest = beside_torch.pointers((a, b, c, counts)), beside_torch.pointers((scale, maps))
    weights = b.view(EXPERTS, n, k)
    starts = [sum(sizes[:g]) for g in range(EXPERTS)]
    filled = [g for g in range(EXPERTS) if sizes[g]]

    def ours() -> None:
        grouped.product(*first, EXPERTS, rows, n, k, *rest, blocks)

    def loop() -> None:
        for g in filled:
            at = slice(starts[g], starts[g] + sizes[g])
            torch.mm(a[at], weights[g].T, out=c[at])

    c.fill_(float("nan"))
    ours()
    torch.cuda.synchronize()
    right = torch.cat([a[starts[g] : starts[g] + sizes[g]].float() @ weights[g].float().T
                       for g in filled])  # fmt: skip
    _near(torch, c, right, k, f"the grouped product of {mean} rows a group")
    launches = {"grouped": ours, "a loop of cuBLAS": loop}
    if hasattr(torch, "_grouped_mm"):
        launches["torch's"] = lambda: torch._grouped_mm(a, weights.transpose(1, 2), offs=ends)
    found = beside_torch.times(torch, launches, _ROUNDS, _EACH)
    return {"mean": mean, "rows": rows, "n": n, "k": k, "us": found}
