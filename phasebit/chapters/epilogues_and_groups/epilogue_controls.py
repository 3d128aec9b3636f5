"""Why an epilogue costs more than its instructions: runs in which one thing of it is otherwise.

Each chain is measured as it is, where every instruction is executed once for a tile, and in a loop
of four turns, whose code is a quarter as long; with a shorter GELU; without the residual, the only
step that reads a whole matrix. Nsight Compute says what the warps wait for. And the product alone
has another order of tiles, for its own time.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple

from phasebit import measure, toolchain
from phasebit.chapters.epilogues_and_groups import epilogue_bench as benchmark
from phasebit.chapters.epilogues_and_groups.epilogues import FUSED, STEPS
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch, clocks, profiler

NAME = "epilogue_controls"
EPILOGUE, PRODUCT = (4096, 4096, 512), (8192, 8192, 8192)
"""Shapes: of the chains, and of the order of tiles."""

Edits = tuple[tuple[str, str], ...]

_LOOP: Edits = (
    ("#pragma unroll\n        for (int h = 0; h < HALVES; ++h)\n"
     "            store<BN>(ring.boxes[warp], C, tiles.row(n) + row_of(warp, h), tiles.col(n),\n",
     "#pragma unroll 1\n        for (int quarter = 0; quarter < 2 * HALVES; ++quarter) {\n"
     "            store<BOX_COLS>(\n"
     "                      ring.boxes[warp], C, tiles.row(n) + row_of(warp, quarter / 2),\n"
     "                      tiles.col(n) + quarter % 2 * BOX_COLS,\n"),
    ("x{sums[h][i], sums[h][i + 1]};", "x{sums[0][i], sums[0][i + 1]};"),
    ("apply(x, row, col, given);\n                      });\n",
     "apply(x, row, col, given);\n                      });\n"
     "#pragma unroll  // the sums of the next quarter\n"
     "            for (int i = 0; i + BN / 4 < HALVES * BN / 2; ++i)\n"
     "                sums[i / (BN / 2)][i % (BN / 2)] =\n"
     "                    sums[(i + BN / 4) / (BN / 2)][(i + BN / 4) % (BN / 2)];\n        }\n"),
)  # fmt: skip
_SHORT_GELU: Edits = (
    ("[](float v) { return 0.5f * v * (1 + erff(v * 0.70710678f)); }",
     "[](float v) {\n            float t;\n"
     "            asm(\"tanh.approx.f32 %0, %1;\" : \"=f\"(t)\n"
     "                : \"f\"(v * fmaf(0.035677408f * v, v, 0.79788456f)));\n"
     "            return 0.5f * v * (1 + t);\n        }"),
)  # fmt: skip
_BANDS: Edits = (
    ("int row(int number) const { return number % rows() * BM; }",
     "int columns() const { return over(N, BN); }\n"
     "    __device__ int first(int number) const { return number / (8 * columns()) * 8; }\n"
     "    __device__ int high(int number) const { return min(8, rows() - first(number)); }\n"
     "    __device__ int row(int number) const {\n"
     "        return (first(number) + number % (8 * columns()) % high(number)) * BM;\n    }"),
    ("int col(int number) const { return number / rows() * BN; }",
     "int col(int number) const {\n"
     "        return number % (8 * columns()) / high(number) * BN;\n    }"),
)  # fmt: skip


class Variant(NamedTuple):
    """The fused kernel with a chain of steps and something otherwise."""

    steps: tuple[str, ...]
    edits: Edits = ()


BANDS = "no epilogue, bands of 8 rows of tiles"
SHORT, LONG = benchmark.CHAINS[benchmark.SHORT], STEPS
VARIANTS = {
    benchmark.PLAIN: Variant(()),
    f"{benchmark.PLAIN}, a loop": Variant((), _LOOP),
    "alpha, bias": Variant(("Alpha", "Bias")),
    "alpha, GELU": Variant(("Alpha", "Gelu")),
    benchmark.SHORT: Variant(SHORT),
    f"{benchmark.SHORT}, a loop": Variant(SHORT, _LOOP),
    f"{benchmark.SHORT}, by tanh.approx": Variant(SHORT, _SHORT_GELU),
    f"{benchmark.SHORT}, by tanh.approx, a loop": Variant(SHORT, (*_SHORT_GELU, *_LOOP)),
    benchmark.LONG: Variant(LONG),
    f"{benchmark.LONG}, a loop": Variant(LONG, _LOOP),
    f"{benchmark.LONG} but the residual": Variant(
        tuple(step for step in LONG if step != "Residual")
    ),
    BANDS: Variant((), _BANDS),
}
"""Contender -> what it is."""
COUNTED = (
    benchmark.PLAIN, benchmark.SHORT, f"{benchmark.SHORT}, a loop", benchmark.LONG,
    f"{benchmark.LONG}, a loop",
)  # fmt: skip
"""Of these Nsight Compute says what warps wait for."""
_WHY = ("no_instruction", "wait", "long_scoreboard", "short_scoreboard",
        "math_pipe_throttle", "not_selected", "dispatch_stall", "gmma", "selected")  # fmt: skip
METRICS = (
    "smsp__inst_executed.sum", "smsp__cycles_active.sum", "smsp__issue_active.sum",
    *(f"smsp__average_warps_issue_stalled_{why}_per_issue_active.ratio" for why in _WHY),
)  # fmt: skip

def text(name: str) -> str:
    """A contender's text; raises ``ValueError`` where an edit does not fit."""
    steps, edits = VARIANTS[name]
    return replace_each(benchmark.text(FUSED, steps), edits, f"{FUSED}.cu")


def build(name: str) -> toolchain.Build:
    """A contender as a library."""
    return toolchain.build(text(name), name=NAME, target="sm_90a", library=True)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, when a kernel fails or is
    wrong, :class:`toolchain.ToolMissing` without Nsight Compute.
    """
    facts, version = measure.facts(), profiler.version()
    torch = beside_torch.torch_here(NAME)
    built = clocks.built(build, VARIANTS)
    loaded = {name: ctypes.CDLL(str(each.program)) for name, each in built.items()}
    chains = [name for name in VARIANTS if name != BANDS]
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **benchmark.timing(),
            "kernel": "the fused one, its warp groups by turns",
            "check": "before timing, all of C against torch in f32, within "
            "2⁻⁷·|c| + 2·10⁻³·√K; C is full of NaN before",
            "a loop": "the epilogue of a tile in four turns of a loop, whose sums are moved down "
            "by registers; its code is a quarter as long",
            "counters": f"{version}, one launch each at {' × '.join(map(str, EPILOGUE))}, caches "
            "flushed",
            "vendor": f"cuBLAS through torch {torch.__version__}, torch.mm, same process",
        },
        "registers": {
            name: next(u.registers for u in each.resources if "matmul" in u.kernel)
            for name, each in built.items()
        },
        "epilogues": _times(torch, loaded, chains, EPILOGUE),
        "products": _times(torch, loaded, [benchmark.PLAIN, BANDS], PRODUCT),
        "counters": {name: _counted(name) for name in COUNTED},
    }


def _times(
    torch: Any, loaded: dict[str, ctypes.CDLL], names: list[str], shape: tuple[int, int, int]
) -> dict[str, Any]:
    given = benchmark.Operands(torch, *shape)
    launches = {name: benchmark.launch(torch, loaded[name], given) for name in names}
    for name, launch in launches.items():
        given.c.fill_(float("nan"))
        launch()
        right = given.steps(VARIANTS[name].steps)
        near = (given.c.float() - right).abs() <= 2.0**-7 * right.abs() + 2e-3 * shape[2] ** 0.5
        if not bool(near.all()):
            raise toolchain.CudaError(f"{name} is wrong: look at it on the emulator first")
    launches[benchmark.CUBLAS] = given.product
    refused: dict[str, str] = {}
    found = benchmark.in_graphs(torch, launches, benchmark.guessed(*shape), refused)
    if refused:
        raise toolchain.CudaError(f"no graph could be made of {refused}")
    return found


def _counted(name: str) -> dict[str, float]:
    """What the profiler counts of the second launch."""
    command = (sys.executable, "-m", __name__, name)
    (counted,) = profiler.second_launches(command, METRICS, "matmul")
    return counted


def _main(name: str) -> None:
    """Two launches, for the profiler."""
    import torch

    library = ctypes.CDLL(str(build(name).program))
    launch = benchmark.launch(torch, library, benchmark.Operands(torch, *EPILOGUE))
    for _ in range(2):
        launch()
    torch.cuda.synchronize()


if __name__ == "__main__":
    _main(sys.argv[1])
