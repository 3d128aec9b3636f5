"""Why the ring with warps of 64 × 64 is slower when the loads of B are left out of its loop.

The compiler makes other code of the shorter loop. In the code for sm_90 a tile's wait for copies
stands 27 products earlier: the loads of B, which must come before the barrier, no longer hold it
back. Here the loads of B stay in the code and are switched off when the kernel runs. The products
of a tile's last step are kept behind the barrier, which draws the wait further ahead. And the ring
has a fourth slot, with which a copy has a tile's time more. Beside the times stand the code's
order, what warps wait for, registers, and words that were spilled.
"""

from __future__ import annotations

import ctypes
import re
import statistics
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.tensor_cores import warp_tiles
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch, clocks, disassembly, profiler
from phasebit.instruments.beside_torch import Launch

NAME = "tensor_cores_loads_of_b"
WHOLE, LEFT_OUT, OFF = "whole", "no loads of B", "loads of B switched off"
BEHIND = {f"{loop}, products behind the barrier": loop for loop in (WHOLE, LEFT_OUT)}
FOUR = {f"{loop}, 4 slots": loop for loop in (WHOLE, LEFT_OUT, OFF)}
LOOPS = (WHOLE, LEFT_OUT, OFF, *BEHIND, *FOUR)
TILINGS = {
    warp_tiles.SMALL: ("small", warp_tiles._SHARED),
    warp_tiles.LARGE: ("large", warp_tiles._SHARED),
    f"{warp_tiles.LARGE}, one block": ("large", warp_tiles._ALONE),
}
"""Name -> the function that launches it, and a block's shared memory."""
EXPECTED = {
    OFF: "with one block between whole and without loads of B, as its wait for copies stands "
    "between theirs",
    f"{LEFT_OUT}, products behind the barrier": "with one block slower than without loads of B: "
    "the wait stands earlier still",
    f"{LEFT_OUT}, 4 slots": "with one block faster than whole with 4 slots: the copies have come "
    "when the wait does",
}
"""Written before the first run."""
_WHY = ("long_scoreboard", "short_scoreboard", "barrier", "mio_throttle", "lg_throttle",
        "math_pipe_throttle", "dispatch_stall", "wait", "no_instruction", "not_selected",
        "selected")  # fmt: skip
COUNTERS = (
    "sm__cycles_active.max", "launch__registers_per_thread", "smsp__inst_executed.sum",
    "smsp__sass_inst_executed_op_ldsm.sum", "smsp__sass_inst_executed_op_local.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    *(f"smsp__average_warps_issue_stalled_{why}_per_issue_active.ratio" for why in _WHY),
)  # fmt: skip
_COUNTED = (WHOLE, LEFT_OUT, OFF, f"{LEFT_OUT}, products behind the barrier")
_FOUR_SLOTS = warp_tiles._SHARED // 3 * 4
_ROUNDS, _REST, _WARM, _EACH = 10, 0.01, 2, 4

_SWITCHED = """\
// ldmatrix.trans, 9.7.14.5.15, where `there` is not 0; the registers keep what they hold otherwise.
__device__ inline void load_if(unsigned& r0, unsigned& r1, unsigned& r2, unsigned& r3,
                               const void* row, int there) {
    asm volatile("{ .reg .pred p;\\n\\t"
                 "setp.ne.s32 p, %5, 0;\\n\\t"
                 "@p ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3)
                 : "r"(ptx::shared_address(row)), "r"(there)
                 : "memory");
}

"""
_KERNEL = "template <class T, int SLOTS, int ALIGN, class In, class Out>\n__global__"
_OF_A = "a_slot(slot) + (a_lane ^ step * 32) + i * 16 * T::BK * 2);\n            }\n    };\n"
_OF_B = """\
        if (HOW == 0)
#pragma unroll
            for (int j = 0; j < T::WN / 16; ++j) {  // no compiler knows that `super` is 1
                auto& b = f[step % 2].b;
                load_if(b[2 * j][0], b[2 * j][1], b[2 * j + 1][0], b[2 * j + 1][1],
                        b_slot(slot) + (b_lane ^ j * 32) + step * 16 * T::BN * 2, super - 1);
            }
    };
"""

_BEHIND = (
    ("        __syncthreads();\n    };\n",
     "        return __syncthreads_or(0);  // 0, which only who has passed the barrier knows\n"
     "    };\n"),
    ("                wait();  // and nobody reads slot `full` any more\n",
     "                const int zero = wait();  // and nobody reads slot `full` any more\n"
     "#pragma unroll\n"
     "                for (auto& four : f[1].a) four[0] ^= zero;  // the last products wait\n"),
)  # fmt: skip


def source(loop: str) -> str:
    """The kernels with one of :data:`LOOPS`; raises ``ValueError`` where an edit does not fit."""
    if loop in FOUR:
        three, four = (f"gemm<T, {slots}, 16, __nv_bfloat16, float>" for slots in (3, 4))
        text = source(FOUR[loop])
        if text.count(three) != 4:
            raise ValueError("a tiling no longer names its kernel twice")
        return text.replace(three, four)
    if loop in BEHIND:
        return replace_each(warp_tiles.source(BEHIND[loop]), _BEHIND, "gemm.cuh")
    if loop != OFF:
        return warp_tiles.source(loop)
    edits = ((_KERNEL, _SWITCHED + _KERNEL), (_OF_A, _OF_A.removesuffix("    };\n") + _OF_B))
    return replace_each(warp_tiles.source(LEFT_OUT), edits, "gemm.cuh")


def tilings(loop: str) -> dict[str, tuple[str, int]]:
    """Of :data:`TILINGS` those that run a loop; a fourth slot leaves room for one block."""
    alone = f"{warp_tiles.LARGE}, one block"
    return {alone: ("large", _FOUR_SLOTS)} if loop in FOUR else TILINGS


def build(loop: str) -> toolchain.Build:
    """The same as a library."""
    return toolchain.build(source(loop), name=NAME, library=True)


def counted(loop: str) -> toolchain.Build:
    """A program with one launch of each of :data:`TILINGS`."""
    text = source(loop) + warp_tiles._COUNTED.format(
        size=warp_tiles.SIZE, shared=warp_tiles._SHARED, alone=warp_tiles._ALONE
    )
    return toolchain.build(text, name=NAME)


_LETTERS = {"HMMA": "p", "LDSM": "l", "LDGSTS": "c", "BAR": "|", "DEPBAR": "w", "STL": "s",
            "LDL": "s"}  # fmt: skip


def order(loop: str) -> dict[str, str] | str:
    """Tiling -> the loop's instructions of some kinds, in order, a letter each.

    p: products, l: loads of fragments, L: those with a predicate, c: copies, w: the wait for
    copies, |: the barrier, s: spilled words. Where nvdisasm is missing, the sentence that says so.
    """
    try:
        code = disassembly.listing(disassembly.cubin(source(loop), "sm_90")[0])
    except toolchain.ToolMissing as error:
        return str(error)
    found = {}
    for part in re.split(r"^\.text\.", code, flags=re.M)[1:]:
        said = []
        for predicate, name in re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(@!?\w+ )?(\w+)", part, re.M):
            letter = _LETTERS.get(name, "B" if name == "BRA" else "")
            said.append("L" if predicate and letter == "l" else letter)
        loops = re.findall(r"B([^B]*p[^B]*)B", "".join(said))
        small = "Li32ELi32E" in part.partition(":")[0]
        found[warp_tiles.SMALL if small else warp_tiles.LARGE] = max(loops, key=len, default="")
    return found


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    with ThreadPoolExecutor() as pool:  # nothing is compiled any more when the times are taken
        counting = {loop: pool.submit(counted, loop) for loop in _COUNTED}
        orders = {loop: pool.submit(order, loop) for loop in LOOPS[:5]}
        loaded = clocks.libraries(build, LOOPS)
        counts = {loop: each.result() for loop, each in counting.items()}
        code = {loop: each.result() for loop, each in orders.items()}
    times = _times(torch, loaded)
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **clocks.protocol(_ROUNDS, _REST, warm=_WARM, each=_EACH),
            "inputs": f"normal random bf16 numbers, {warp_tiles.SIZE}³, row-major, f32 sums and "
            "results",
            "tiles": "as in tensor_cores_warp_tiles",
            "loops": "no loads of B: they are not in the loop's code; switched off: they are, and "
            "a predicate that only the running kernel knows keeps them from being executed; "
            "products behind the barrier: an operand of each product of a tile's last step takes a "
            "zero from the barrier's reduction; 4 slots: in place of 3",
            "code": "the order of the loop's instructions for sm_90: p products, l loads of "
            "fragments, L those with a predicate, c copies, w the wait for copies, | the barrier, "
            "s spilled words",
            "check": "before timing, 128 rows by 128 columns of each result against a product in "
            "double of what the kernel multiplies",
            "counters": f"{profiler.version()}, caches flushed before each launch, clocks left "
            "alone; the whole kernel",
            **{f"expected of {loop}": words for loop, words in EXPECTED.items()},
        },
        "contenders": times,
        "order": code,
        "counters": {loop: _counters(each) for loop, each in counts.items()},
    }


def _counters(program: toolchain.Build) -> dict[str, dict[str, float]] | dict[str, str]:
    """Of each launch; where the profiler refuses, the sentence in which it does: times are kept."""
    try:
        rows = profiler.count_known([program.program], COUNTERS)
        if len(rows) != len(TILINGS):
            raise toolchain.CudaError(f"ncu saw {len(rows)} launches of {len(TILINGS)}")
    except toolchain.CudaError as error:
        print(f"⏱ the profiler says nothing: {str(error)[:300]}", flush=True)
        return {"refused": str(error)[:300]}
    return {name: row for name, (_, row) in zip(TILINGS, rows, strict=True)}


def _times(torch: Any, loaded: dict[str, ctypes.CDLL]) -> dict[str, dict[str, list[float]]]:
    size = warp_tiles.SIZE
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty(size, size, device="cuda")
    pointers = beside_torch.pointers((a, b, c))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    launches: dict[str, Launch] = {}
    for loop in LOOPS:
        as_if = WHOLE if loop.startswith(WHOLE) else LEFT_OUT
        of_a, of_b = (
            torch.tensor(each, device="cuda") for each in warp_tiles.multiplied(as_if, size)
        )
        for tiling, (function, shared) in tilings(loop).items():
            name = f"{tiling}: {loop}"
            launches[name] = partial(loaded[loop][function], *pointers, size, shared, stream)
            matrices = a[:, of_a], b[of_b], c
            beside_torch.check(torch, name, launches[name], matrices, beside_torch.cut_sums(size))
    found = clocks.times(torch, launches, _ROUNDS, _REST, warm=_WARM, each=_EACH)
    for name, times in found.items():
        print(f"⏱ {name}: {statistics.median(times['times_us']):.1f} µs", flush=True)
    return found
