"""Why sixteen interleaved matrices cost more than eight, for as many sectors.

With eight, a row of a tile lies in sectors that are neighbours, four in each line of 128 bytes;
with sixteen, in every other sector. Here eight matrices lie as far apart as sixteen do, with gaps:
nothing but the lines has changed. And all that again with an A that fits into the L2 cache.
"""

from __future__ import annotations

import ctypes
import statistics
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from phasebit import measure, toolchain
from phasebit.chapters.layouts import layouts_controls as controls
from phasebit.chapters.layouts import layouts_interleaved
from phasebit.instruments import beside_torch, profiler, rested
from phasebit.instruments.beside_torch import Launch

NAME = "layouts_lines"
DEPTH = 1024


class Case(NamedTuple):
    """A batch: elements (m, k) of its products lie side by side, and then a gap."""

    batch: int
    apart: int
    """Floats from one k to the next: the products, and the gap."""
    m: int
    n: int


CASES = {
    "8": Case(8, 8, 2048, 1024),
    "8, as far apart as 16": Case(8, 16, 2048, 1024),
    "16": Case(16, 16, 1024, 1024),
    "16, as far apart as 32": Case(16, 32, 1024, 1024),
    "8, A in the cache": Case(8, 8, 256, 2048),
    "8, as far apart as 16, A in the cache": Case(8, 16, 256, 2048),
    "16, A in the cache": Case(16, 16, 128, 2048),
}
EXPECTED = {
    "8, as far apart as 16": "as slow as 16: the lines are the price",
    "8, as far apart as 16, A in the cache": "slower than 8, too: then it is what L1 and L2 do for "
    "each line, and not the memory",
}
"""Written before the first run."""
LINES = "l1tex__t_set_accesses_pipe_lsu_mem_global_op_ld.sum"
ASKS_L2 = "lts__t_requests_srcunit_tex_op_read.sum"
FROM_L2 = "lts__t_sectors_srcunit_tex_op_read.sum"
WAITS = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
COUNTERS = (
    "sm__cycles_active.max", "smsp__inst_executed.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "l1tex__m_xbar2l1tex_read_sectors.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum",
    LINES,
    "l1tex__m_l1tex2xbar_req_cycles_active.sum",
    ASKS_L2, FROM_L2,
    "lts__t_tag_requests.sum", "lts__t_sectors_srcunit_tex_lookup_miss.sum",
    "dram__bytes_read.sum", "dram__sectors_read.sum",
    WAITS,
    "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
)  # fmt: skip
"""What the profiler does not know by such a name is left out."""
ROUNDS, REST = 15, 0.01

_COUNTED = """
int main() {{
    const int cases[][4] = {{{cases}}};  // batch, floats apart, M, N
    for (const auto& [batch, apart, M, N] : cases) {{
        const size_t a = size_t(M) * {depth} * apart, b = size_t(batch) * {depth} * N,
                     c = size_t(batch) * M * N;
        float *A, *B, *C;
        CHECK(cudaMalloc(&A, a * 4));
        CHECK(cudaMalloc(&B, b * 4));
        CHECK(cudaMalloc(&C, c * 4));
        CHECK(cudaMemset(A, 0, a * 4));
        CHECK(cudaMemset(B, 0, b * 4));
        const Batch p{{A, B, C, M, N, {depth}, batch, size_t({depth}) * apart, size_t(apart), 1}};
        launch_product(p, nullptr);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaFree(A));
        CHECK(cudaFree(B));
        CHECK(cudaFree(C));
    }}
}}
"""


def counted_text() -> str:
    """A program with one launch of each of :data:`CASES`."""
    cases = ", ".join("{" + ", ".join(map(str, case)) + "}" for case in CASES.values())
    return controls.text(controls.SAME) + _COUNTED.format(cases=cases, depth=DEPTH)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel is wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    torch.backends.cuda.matmul.allow_tf32 = False
    with ThreadPoolExecutor(2) as pool:
        counting = pool.submit(toolchain.build, counted_text(), name=NAME)
        library = pool.submit(layouts_interleaved.build, layouts_interleaved.ANEW)
        rested.clock()
        program = counting.result()
        run = ctypes.CDLL(str(library.result().program)).run
    launches = {name: _launch(torch, run, name, case) for name, case in CASES.items()}
    times = rested.times(torch, launches, ROUNDS, REST)
    for name, each in times.items():
        print(f"⏱ {name}: {statistics.median(each['times_us']):.0f} µs", flush=True)
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events before and after each launch",
            "order": f"{ROUNDS} rounds; each turn: a rest of {REST} s, a launch that is not "
            "counted and one that is; the order drawn anew for each round",
            "mhz": "clock of a multiprocessor, counted for 50 µs right after the timed launch",
            "kernel": "the better loop of layouts_interleaved, A in place",
            "inputs": "normal random numbers; no flush of the caches before a timed launch; "
            f"K = {DEPTH}",
            "check": "before timing, the first and the last product on 128 rows by 128 columns "
            "against a product in double; C poisoned",
            "counters": f"{profiler.version()}, caches flushed before each launch, clocks left "
            "alone; A and B zero",
            **{f"expected of {what}": words for what, words in EXPECTED.items()},
        },
        "cases": {name: case._asdict() for name, case in CASES.items()},
        "times": times,
        "counters": counts(program),
    }


def _launch(torch: Any, run: Any, name: str, case: Case) -> Launch:
    a = torch.randn(case.m, DEPTH, case.apart, device="cuda")[..., : case.batch].permute(2, 0, 1)
    b = torch.randn(case.batch, DEPTH, case.n, device="cuda")
    c = torch.empty(case.batch, case.m, case.n, device="cuda")
    strides = [ctypes.c_longlong(a.stride(i)) for i in (1, 2, 0)]
    arrays = beside_torch.pointers((a, b, c))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def launch(kept: Any = (a, b, c)) -> Any:
        run(0, *arrays, case.m, case.n, DEPTH, case.batch, *strides, None, stream)
        return kept

    for each in (0, case.batch - 1):
        matrices = (a[each], b[each], c[each])
        beside_torch.check(torch, name, launch, matrices, beside_torch.cut_sums(DEPTH))
    return launch


def counts(program: toolchain.Build) -> dict[str, Any]:
    """What the profiler counts of each case; times are kept where it refuses.

    A counter that it does not know is left out.
    """
    try:
        rows = profiler.count_known([program.program], COUNTERS)
        if len(rows) != len(CASES):
            raise toolchain.CudaError(f"ncu saw {len(rows)} launches of {len(CASES)}")
    except toolchain.CudaError as error:
        print(f"⏱ the profiler says nothing: {str(error)[:300]}", flush=True)
        return {"refused": str(error)[:300]}
    return {name: row for name, (_, row) in zip(CASES, rows, strict=True)}
