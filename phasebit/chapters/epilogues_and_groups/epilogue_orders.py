"""Which step makes shared tiles faster than turns: each switched off, in both orders.

The residual is the suspect. It is left out, added without being read, read always in the same
place, where the caches have it, and read before the chain of a box begins, 4 or 16 bytes at a time.
Two more suspects are of the compiler: the length of the code (a loop), and registers. By turns a
thread holds twice as many sums, so less is left for loads under way. *Few registers* gives a thread
of shared tiles no more beside its sums than one by turns has.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple

from phasebit import measure, toolchain
from phasebit.chapters.epilogues_and_groups import epilogue_bench as benchmark
from phasebit.chapters.epilogues_and_groups import epilogue_controls
from phasebit.chapters.epilogues_and_groups.epilogue_bench import LONG, PLAIN, SHORT, TEAMS
from phasebit.chapters.epilogues_and_groups.epilogues import FUSED, STEPS
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch, clocks, profiler

NAME = "epilogue_orders"
DEPTHS = (256, 512, 1024, 2048)
"""K of the products, of 4096 × 4096 each."""
COUNTED_AT = 256
"""K at which Nsight Compute counts."""

Edits = tuple[tuple[str, str], ...]

_READ = (
    "        return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(\n"
    "            residual + size_t(row) * N + col));\n"
)
_NOT_READ: Edits = ((_READ, "        return {alpha, alpha};\n"),)
_ONE_PLACE: Edits = (("residual + size_t(row) * N + col", "residual + row % 128 * N + col % 128"),)
_KEPT: Edits = (
    ("    unsigned seen = 0;      // of amax, this thread's part\n",
     "    unsigned seen = 0;      // of amax, this thread's part\n"
     "    unsigned old = 0;       // of the residual, for the next two sums\n"),
    (_READ, "        return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(old));\n"),
    ("template <int COLS, class Value>\n", "template <int COLS, class G, class Value>\n"),
    ("store(Boxes& boxes, const CUtensorMap& C, int row, int col, Value value) {",
     "store(Boxes& boxes, const CUtensorMap& C, int row, int col, G& given, Value value) {"),
    ("tiles.row(n) + row_of(warp, h), tiles.col(n),\n",
     "tiles.row(n) + row_of(warp, h), tiles.col(n), given,\n"),
)  # fmt: skip
"""The residual of two sums comes from a register that was filled before."""
_CHAIN = ("                four[p] = pack(value(", "                given.old = OLD,\n"
          "                four[p] = pack(value(")  # fmt: skip
_EARLY: Edits = (
    *_KEPT,
    ("        for (int j = 0; j < BOX_COLS / 16; ++j) {\n            unsigned four[4];\n",
     "        for (int i = 0; i < 16; ++i) {\n"
     "            const int r = row + lane / 4 + i % 2 * 8;\n"
     "            const int c = col + part * BOX_COLS + i / 4 * 16 + i / 2 % 2 * 8 +\n"
     "                          lane % 4 * 2;\n"
     "            early[i] = 0;\n"
     "            if (r < given.M && c < given.N)\n"
     "                asm volatile(\"ld.global.b32 %0, [%1];\" : \"=r\"(early[i]) :\n"
     "                             \"l\"(given.residual + size_t(r) * given.N + c) : \"memory\");\n"
     "        }\n"
     "#pragma unroll\n"
     "        for (int j = 0; j < BOX_COLS / 16; ++j) {\n            unsigned four[4];\n"),
    ("        __syncwarp();\n#pragma unroll\n        for (int i",
     "        __syncwarp();\n        unsigned early[16];\n#pragma unroll\n        for (int i"),
    (_CHAIN[0], _CHAIN[1].replace("OLD", "early[4 * j + p]")),
)  # fmt: skip
_WIDE: Edits = (
    *_KEPT,
    ("#pragma unroll\n        for (int j = 0; j < BOX_COLS / 16; ++j) {\n"
     "            unsigned four[4];\n",
     "        for (int i = 0; i < 4; ++i) {  // eight lanes read 128 bytes of a row\n"
     "            const int r = row + 4 * i + lane / 8, c = col + part * BOX_COLS + lane % 8 * 8;\n"
     "            uint4 eight{};\n"
     "            if (r < given.M && c < given.N)\n"
     "                eight = *reinterpret_cast<const uint4*>(\n"
     "                    given.residual + size_t(r) * given.N + c);\n"
     "            bf16* at = box + (4 * i + lane / 8) * BOX_COLS;\n"
     "            at += (lane % 8 ^ (4 * i + lane / 8) % 8) * 8;\n"
     "            *reinterpret_cast<uint4*>(at) = eight;\n"
     "        }\n"
     "        __syncwarp();\n"
     "#pragma unroll\n"
     "        for (int j = 0; j < BOX_COLS / 16; ++j) {\n"
     "            unsigned four[4], old[4];\n"
     "            const int chunk = (2 * j + lane / 16) ^ lane % 8;\n"
     "            ptx::ldmatrix_x4(old[0], old[1], old[2], old[3],\n"
     "                             box + lane % 16 * BOX_COLS + chunk * 8);\n"),
    (_CHAIN[0], _CHAIN[1].replace("OLD", "old[p]")),
)  # fmt: skip
"""Sixteen bytes a lane, into the box, and from there as the results will go into it."""

_FEW: Edits = (
    ("        ptx::setmaxnreg_dec<40>();  // registers for the consumers' sums\n", ""),
    ("        ptx::setmaxnreg_inc<232>();\n", ""),
)
"""168 registers a consumer's thread and not 232: 64 fewer, as many as there are fewer sums."""

_LOOP = epilogue_controls.VARIANTS[f"{SHORT}, a loop"].edits


class Variant(NamedTuple):
    """The fused kernel with a chain of steps and something otherwise."""

    steps: tuple[str, ...]
    edits: Edits = ()


NOT_READ, ONE_PLACE = f"{LONG}, the residual not read", f"{LONG}, the residual of one tile"
EARLY, WIDE = f"{LONG}, the residual read early", f"{LONG}, the residual read early, 16 bytes"
FEW, LOOP = "few registers", "a loop"
WITH_RESIDUAL = f"{SHORT}, residual"
SPOKEN = {"Alpha": "alpha", "RowScale": "the scale", "Bias": "the bias", "Gelu": "GELU",
          "Residual": "the residual", "Amax": "amax"}  # fmt: skip
VARIANTS = {
    PLAIN: Variant(()),
    "residual": Variant(("Residual",)),
    SHORT: Variant(benchmark.CHAINS[SHORT]),
    WITH_RESIDUAL: Variant((*benchmark.CHAINS[SHORT], "Residual")),
    LONG: Variant(STEPS),
    **{
        f"{LONG} but {spoken}": Variant(tuple(step for step in STEPS if step != left))
        for left, spoken in SPOKEN.items()
    },
    NOT_READ: Variant(STEPS, _NOT_READ),
    ONE_PLACE: Variant(STEPS, _ONE_PLACE),
    EARLY: Variant(STEPS, _EARLY),
    WIDE: Variant(STEPS, _WIDE),
    f"{SHORT}, {LOOP}": Variant(benchmark.CHAINS[SHORT], _LOOP),
    f"{LONG}, {LOOP}": Variant(STEPS, _LOOP),
    f"{LONG}, {FEW}": Variant(STEPS, _FEW),
}
"""Contender -> what it is, in either order; :data:`FEW` with shared tiles only."""
COUNTED = (SHORT, LONG, f"{LONG} but the residual", WIDE, f"{LONG}, {LOOP}")
"""Of these Nsight Compute counts, in both orders."""
_WHY = ("no_instruction", "wait", "long_scoreboard", "short_scoreboard", "lg_throttle",
        "math_pipe_throttle", "not_selected", "dispatch_stall", "selected")  # fmt: skip
METRICS = (
    "smsp__inst_executed.sum", "smsp__cycles_active.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "lts__t_sectors_srcunit_tex_op_read.sum", "dram__bytes_read.sum",
    *(f"smsp__average_warps_issue_stalled_{why}_per_issue_active.ratio" for why in _WHY),
)  # fmt: skip


def contenders() -> list[str]:
    """``ORDER: VARIANT``, of all."""
    return [f"{order}: {name}" for order in TEAMS for name in VARIANTS
            if order == "together" or not name.endswith(FEW)]  # fmt: skip


def variant(contender: str) -> Variant:
    """What a contender is, by its name."""
    return VARIANTS[contender.partition(": ")[2]]


def text(contender: str) -> str:
    """A contender's text; raises ``ValueError`` where an edit does not fit."""
    steps, edits = variant(contender)
    built = benchmark.text(FUSED, steps, TEAMS[contender.partition(":")[0]])
    return replace_each(built, edits, f"{FUSED}.cu")


def build(contender: str) -> toolchain.Build:
    """A contender as a library."""
    return toolchain.build(text(contender), name=NAME, target="sm_90a", library=True)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel is wrong,
    :class:`toolchain.ToolMissing` without Nsight Compute.
    """
    facts, version = measure.facts(), profiler.version()
    torch = beside_torch.torch_here(NAME)
    built = clocks.built(build, contenders())
    loaded = {name: ctypes.CDLL(str(each.program)) for name, each in built.items()}
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **benchmark.timing(),
            "check": "before timing, all of C against torch in f32, within "
            "2⁻⁷·|c| + 2·10⁻³·√K; C is full of NaN before",
            NOT_READ: "in its place the step adds beta · alpha to every number",
            ONE_PLACE: "of 128 × 128, read for every tile: the caches have it",
            EARLY: "the 16 reads of a box of 64 columns come before its first sum's chain",
            WIDE: "a lane reads 16 bytes, four times, puts them into the box, and takes from there "
            "what its sums need",
            LOOP: "two boxes of 16 rows and 64 columns are two turns of a loop; by turns four",
            FEW: "168 a thread of a consumer and not 232, for want of setmaxnreg",
            "counters": f"{version}, one launch each at 4096 × 4096 × {COUNTED_AT}, caches flushed",
            "vendor": f"cuBLAS through torch {torch.__version__}, torch.mm, same process",
        },
        "registers": {name: _registers(each) for name, each in built.items()},
        "spills": [
            name
            for name, each in built.items()
            if any(u.spills for u in each.resources if "matmul" in u.kernel)
        ],
        "times": {str(k): _times(torch, loaded, k) for k in DEPTHS},
        "counters": _counted([f"{order}: {name}" for name in COUNTED for order in TEAMS]),
    }


def _registers(built: toolchain.Build) -> int:
    return next(u.registers for u in built.resources if "matmul" in u.kernel)


def right(torch: Any, contender: str, given: benchmark.Operands) -> Any:
    """What a contender must compute, in f32."""
    name = contender.partition(": ")[2]
    steps = VARIANTS[name].steps
    if name == NOT_READ:
        return given.steps(tuple(step for step in steps if step != "Residual")) + 0.5 * 0.125
    whole = given.residual
    if name == ONE_PLACE:
        given.residual = whole[:128, :128].repeat(whole.shape[0] // 128, whole.shape[1] // 128)
    try:
        return given.steps(steps)
    finally:
        given.residual = whole


def _times(torch: Any, loaded: dict[str, ctypes.CDLL], k: int) -> dict[str, Any]:
    given = benchmark.Operands(torch, benchmark.SQUARE, benchmark.SQUARE, k)
    launches = {name: benchmark.launch(torch, library, given) for name, library in loaded.items()}
    for name, launch in launches.items():
        given.c.fill_(float("nan"))
        launch()
        due = right(torch, name, given)
        near = (given.c.float() - due).abs() <= 2.0**-7 * due.abs() + 2e-3 * k**0.5
        if not bool(near.all()):
            raise toolchain.CudaError(f"{name} is wrong: look at it on the emulator first")
    launches[benchmark.CUBLAS] = given.product
    refused: dict[str, str] = {}
    found = benchmark.in_graphs(torch, launches, benchmark.guessed(*given.shape), refused)
    if refused:
        raise toolchain.CudaError(f"no graph could be made of {refused}")
    for name in VARIANTS:
        both = [sorted(found[f"{order}: {name}"]["us"]) for order in TEAMS
                if f"{order}: {name}" in found]  # fmt: skip
        said = " ".join(f"{each[len(each) // 2]:.1f}" for each in both)
        print(f"⏱ K = {k}, {name}: {said} µs ({', '.join(list(TEAMS)[-len(both) :])})", flush=True)
    return found


def _counted(contenders: list[str]) -> dict[str, dict[str, float]]:
    """What the profiler counts of the second launch of each."""
    command = (sys.executable, "-m", __name__, *contenders)
    counted = dict(
        zip(contenders, profiler.second_launches(command, METRICS, "matmul"), strict=True)
    )
    for name, counts in counted.items():
        print(f"⏱ {name}: {counts}", flush=True)
    return counted


def _main(contenders: list[str]) -> None:
    """Two launches of each, for the profiler."""
    import torch

    size = benchmark.SQUARE
    given = benchmark.Operands(torch, size, size, COUNTED_AT)
    for contender in contenders:
        launch = benchmark.launch(torch, ctypes.CDLL(str(build(contender).program)), given)
        for _ in range(2):
            launch()
        torch.cuda.synchronize()


if __name__ == "__main__":
    _main(sys.argv[1:])
