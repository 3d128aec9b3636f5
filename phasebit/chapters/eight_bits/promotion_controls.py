"""The same kernel with promotion and without: nothing else of it is changed.

In the chapter's own controls more than the promotion differs: the kernel with one scale has wider
instructions and keeps a product under way. Here the kernel with block scales loses its promotion
alone, then its wait as well.
"""

from __future__ import annotations

import ctypes
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.eight_bits import contenders
from phasebit.chapters.eight_bits.contenders import B, Edits
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch, clocks

NAME = "eight_bits_controls"
SHAPES = ((8192, 8192, 8192), (4096, 4096, 4096))
BLOCKS, PLAIN, NONE, UNDER_WAY, HALVES = (
    "block scales", "promotion without scales", "no promotion", "no promotion, a product under way",
    "one scale, halves of 128",
)  # fmt: skip
LTS = ("cuBLASLt, scales by row", "cuBLASLt, one scale, fast")
_ROUNDS, _REST, _WARM, _EACH = 12, 0.01, 3, 5

_IN_THE_TENSOR_CORE: Edits = (
    ("const Stage<BN>& stage, int group, int half) {",
     "const Stage<BN>& stage, int group, int half,\n"
     "                                      bool add) {"),
    ("b + 2 * k, k > 0);", "b + 2 * k, add || k > 0);"),
    ("                Part part;\n                ptx::wgmma_fence();\n"
     "                begin_multiply(part, ring.stage[s], group, half);\n",
     "                ptx::wgmma_fence();\n"
     "                begin_multiply(sums[half], ring.stage[s], group, half, k > 0);\n"),
    ("                promote(sums[half], part, scale * b[half], below * b[half]);\n",
     '                asm volatile("" :: "f"(scale * b[half]), "f"(below * b[half]));\n'),
)  # fmt: skip
_WAIT: Edits = (
    ("                ptx::wgmma_wait_group<0>();\n                if (half == 1) {\n"
     "                    __syncwarp();  // all lanes have read their scales\n"
     "                    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.empty[s]);\n"
     "                }\n",
     "                ptx::wgmma_wait_group<1>();\n                if (half == 0 && k > 0) {\n"
     "                    __syncwarp();  // all lanes have read their scales\n"
     "                    if (threadIdx.x % 32 == 0)\n"
     "                        ptx::mbarrier_arrive(&ring.empty[(s + SLOTS - 1) % SLOTS]);\n"
     "                }\n"),
    ("        for (int half = 0; half < 2; ++half)\n            store<HALF>",
     "        ptx::wgmma_wait_group<0>();\n"
     "        __syncwarp();\n"
     "        if (threadIdx.x % 32 == 0)\n"
     "            ptx::mbarrier_arrive(&ring.empty[(s + SLOTS - 1) % SLOTS]);\n"
     "        for (auto& part : sums)\n"
     '            for (float& sum : part) asm volatile("" : "+f"(sum) :: "memory");\n'
     "        for (int half = 0; half < 2; ++half)\n            store<HALF>"),
)  # fmt: skip
CHANGES: dict[str, Edits] = {
    BLOCKS: (),
    PLAIN: contenders.VARIANTS[PLAIN][1],
    NONE: _IN_THE_TENSOR_CORE,
    UNDER_WAY: (*_IN_THE_TENSOR_CORE, *_WAIT),
}
"""What is otherwise in the kernel with block scales."""


def text(name: str) -> str:
    """A contender's text; raises ``ValueError`` where an edit does not fit."""
    if name == HALVES:
        return contenders.variant(HALVES)
    return replace_each(contenders.source(B), CHANGES[name], f"{B}.cu")


def build(name: str) -> toolchain.Build:
    """A contender as a library."""
    return toolchain.build(text(name), name=NAME, target="sm_90a", library=True)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    names = (*CHANGES, HALVES)
    loaded = clocks.libraries(build, names)
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **clocks.protocol(_ROUNDS, _REST, warm=_WARM, each=_EACH),
            "inputs": "normal random numbers, as e4m3, all scales 1; A (M, K) and B (N, K) "
            "row-major; results bf16",
            "check": "before timing, on whole numbers, for a ragged shape: exact",
            "vendor": f"cuBLASLt through torch {torch.__version__}, torch._scaled_mm, same process",
        },
        "multiprocessors": torch.cuda.get_device_properties(0).multi_processor_count,
        "products": [_products(torch, loaded, shape) for shape in SHAPES],
    }


def _products(
    torch: Any, loaded: dict[str, ctypes.CDLL], shape: tuple[int, int, int]
) -> dict[str, Any]:
    for name, library in loaded.items():
        _check(torch, name, library, (1000, 1032, 1168))
    m, n, k = shape
    a, b = ((16 * torch.randn(rows, k, device="cuda")).to(torch.float8_e4m3fn) for rows in (m, n))
    c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    launches: dict[str, beside_torch.Launch] = {
        name: _launch(torch, library, a, b, c) for name, library in loaded.items()
    }
    one, bf16 = torch.ones(1, device="cuda"), torch.bfloat16
    rows, columns = torch.ones(m, 1, device="cuda"), torch.ones(1, n, device="cuda")
    launches[LTS[0]] = lambda: torch._scaled_mm(
        a, b.t(), rows, columns, out_dtype=bf16, use_fast_accum=False
    )
    launches[LTS[1]] = lambda: torch._scaled_mm(
        a, b.t(), one, one, out_dtype=bf16, use_fast_accum=True
    )
    found = clocks.times(torch, launches, _ROUNDS, _REST, warm=_WARM, each=_EACH)
    return {"shape": shape, "contenders": found}


def _launch(torch: Any, library: ctypes.CDLL, a: Any, b: Any, c: Any) -> beside_torch.Launch:
    """With all scales 1, of both kinds."""
    m, n, k = len(a), len(b), a.shape[1]
    along, down, pitch = -(-k // 128), -(-n // 128), -(-m // 4) * 4
    scales = torch.ones(along, pitch, device="cuda"), torch.ones(down, along, device="cuda")
    pointers = beside_torch.pointers((a, b, c, *scales))
    units = torch.cuda.get_device_properties(0).multi_processor_count
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def launch(alive: Any = scales) -> None:  # the scales live as long as the launch
        library.product(*pointers, m, n, k, units, stream)

    return launch


def _check(torch: Any, name: str, library: ctypes.CDLL, shape: tuple[int, int, int]) -> None:
    """Whole numbers, for which every sum is exact."""
    m, n, k = shape
    a, b = (torch.randint(-2, 3, (rows, k), device="cuda").float() for rows in (m, n))
    eight = [x.to(torch.float8_e4m3fn) for x in (a, b)]
    c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
    _launch(torch, library, eight[0], eight[1], c)()
    torch.cuda.synchronize()
    if not bool((c == (a @ b.T).bfloat16()).all()):
        raise toolchain.CudaError(f"{name} is wrong at {m} × {n} × {k}")
