"""Causal attention: when a block asks for its next tile, and how many batches are made together.

Kernel g's producer asks for the next tile of the output before it fetches the keys of this one.
*Asked later* asks behind them. And kernel g makes all tiles of a batch before the next batch's; in
a batch the last rows of all heads, which see the most keys, come first. Here the heads of several
batches can count as one batch's, by two numbers of the launch. Beside the times: when each block is
done, and the bytes from memory.
"""

from __future__ import annotations

import ctypes
import statistics
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.attention import attend, launched
from phasebit.chapters.attention.narrow_heads import LAST
from phasebit.chapters.attention.rungs import CUDNN, FLASH, HEADS, NEXT, TOKENS
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch, clocks, profiler
from phasebit.instruments.beside_torch import Launch

NAME = "attention_together"
CASES = ((64, True, 1024), (64, True, 4096), (64, True, 16384), (128, True, 1024),
         (128, True, 4096), (128, True, 16384), (64, False, 1024))  # fmt: skip
COUNTS = (1, 2, 4, 8, 16)
LATE = (False, True)
FITTING, LATER = "as many as fit in L2", "asked later"
READ = "dram__bytes_read.sum"  # bytes
_ROUNDS, _REST, _WARM, _EACH = 8, 0.01, 2, 4
_STAMPED = 5  # launches whose blocks say when they are done

# How many batches are made together: all that the L2 cache holds the keys and values of.
_FITTING = """// Causal: so many batches' heads count as one's, whose last rows come first.
template <int D, bool CAUSAL> int together(const Attention& a) {
    int l2, n = CAUSAL ? a.batches : 1;
    CHECK(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, 0));
    const size_t one = size_t(a.kv_heads) * a.keys * D * 2 * sizeof(bf16);  // K and V of a batch
    while (n > 1 && (a.batches % n || n * one > size_t(l2))) --n;
    return n;
}

"""
_ASKED = "            next = given + atomicInc(counter, units - 1);\n"
_NEXT = "        int next;\n"
_HANDED = "        unit = __shfl_sync(~0u, next, 0);\n"
_SET = """
int set_together = 1;
extern "C" void set_batches(int n) { set_together = n; }
extern "C" int together_here(int batches, int heads, int keys, int D) {
    Attention a{};
    a.batches = batches, a.heads = a.kv_heads = heads, a.queries = a.keys = keys;
    return D == 64 ? together<64, true>(a) : together<128, true>(a);
}
"""
_LAUNCH = "template <int D, bool CAUSAL> void launch("
_COUNT = "    const int batches = packed ? 1 : a.batches;\n"
_GIVEN = "        a.batches, a.heads, a.first_query"
_STAMPS = """
__device__ unsigned long long spans[2][1024];  // ns: when a block began, when it was done
__device__ unsigned long long now() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}
"""
_READ_STAMPS = """
extern "C" void read_spans(unsigned long long* to) {  // and begin anew
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpyFromSymbol(to, spans, sizeof spans));
    static unsigned long long none[2][1024];
    CHECK(cudaMemcpyToSymbol(spans, none, sizeof spans));
}
"""
_KERNEL = "template <int D, bool CAUSAL>\n__global__ void"
_BEGIN = "    extern __shared__ __align__(1024) char memory[];\n"
_END = "        consume<D, CAUSAL>(s, each.factor, group);\n"
# For the profiler: what the numbers are does not change which bytes come.
_PROGRAM = """
int main(int argc, char** argv) {
    constexpr size_t COUNT = size_t(TOKENS) * HEADS * COLUMNS;
    bf16* memory[4];
    for (bf16*& each : memory) {
        CHECK(cudaMalloc(&each, COUNT * sizeof(bf16)));
        CHECK(cudaMemset(each, 0, COUNT * sizeof(bf16)));
    }
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    Attention a{memory[0], memory[1], memory[2], memory[3], TOKENS / LENGTH, HEADS, HEADS, LENGTH,
                LENGTH, 0.125f, device.multiProcessorCount, 0};
    CHECK(cudaMalloc(&a.counter, sizeof *a.counter));
    CHECK(cudaMemset(a.counter, 0, sizeof *a.counter));
    for (int i = 1; i < argc; ++i) {
        set_batches(std::atoi(argv[i]));
        for (int j = 0; j < 2; ++j) launch<COLUMNS, true>(a);
    }
    CHECK(cudaDeviceSynchronize());
}
"""


def later() -> str:
    """Kernel g, whose producer asks for its next tile behind the keys and values of this one."""
    edits = (
        (_ASKED, ""), (_NEXT, ""),
        (_HANDED, f"        int next;\n        if (copies) next = given + atomicInc(counter, "
                  f"units - 1);\n{_HANDED}"),
    )  # fmt: skip
    return replace_each(attend.flat(attend.NEXT), edits, attend.NEXT)


def fitting(text: str | None = None) -> str:
    """Kernel g, or ``text``, with as many batches made together as fit in L2."""
    edits = (
        (_LAUNCH, _FITTING + _LAUNCH),
        (_COUNT, f"{_COUNT}    const int n = packed ? 1 : together<D, CAUSAL>(a);\n"),
        (_GIVEN, "        a.batches / n, a.heads * n, a.first_query"),
    )
    return replace_each(text or attend.flat(attend.NEXT), edits, attend.NEXT)


def settable(text: str | None = None) -> str:
    """The same, and :data:`_SET` says how many; 0: as many as fit."""
    edits = (
        (f"\n{_LAUNCH}", f"{_SET}\n{_LAUNCH}"),
        ("packed ? 1 : together<D, CAUSAL>(a);",
         "packed ? 1 : set_together ? set_together : together<D, CAUSAL>(a);"),
    )  # fmt: skip
    return replace_each(fitting(text), edits, NAME)


def stamped(text: str | None = None) -> str:
    """The same, and each block stamps when it begins and when its last group is done."""
    edits = (
        (_KERNEL, f"{_STAMPS}\n{_KERNEL}"),
        (_BEGIN, f"    if (threadIdx.x == 0) spans[0][blockIdx.x] = now();\n{_BEGIN}"),
        (_END, f"{_END}        if (threadIdx.x % 128 == 0) "
               "atomicMax(&spans[1][blockIdx.x], now());\n"),
        (f"\n{_LAUNCH}", f"{_READ_STAMPS}\n{_LAUNCH}"),
    )  # fmt: skip
    return replace_each(settable(text), edits, NAME)


def program(d: int, length: int) -> str:
    """A program that launches causal attention twice for each count that it is given."""
    harness = '#include "attention/attention_harness.cuh"\n'
    sizes = (f"constexpr int TOKENS = {TOKENS}, HEADS = {HEADS}, LENGTH = {length}, "
             f"COLUMNS = {d};\n")  # fmt: skip
    return replace_each(settable(), ((harness, f"#include <cstdlib>\n{sizes}{_PROGRAM}"),), NAME)


def counts(length: int) -> list[int]:
    """Those of :data:`COUNTS` that divide the batches of a case."""
    return [n for n in COUNTS if TOKENS // length % n == 0]


def contender(n: int, late: bool = False) -> str:
    """What a count is called: 1 is the kernel itself, 0 is :data:`FITTING`."""
    if n == 1:
        return LATER if late else NEXT
    return f"{LATER}, " * late + (f"{n} batches together" if n else FITTING)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    texts: dict[Any, str] = {"last": attend.flat(attend.DYNAMIC)}
    for late in LATE:
        kernel = later() if late else None
        texts |= {("set", late): settable(kernel), ("stamped", late): stamped(kernel)}
    causal = [(d, length) for d, masked, length in CASES if masked]
    with ThreadPoolExecutor(16) as pool:
        reader = pool.submit(clocks.reader)
        programs = {case: pool.submit(toolchain.build, program(*case), name=NAME, target="sm_90a")
                    for case in causal}  # fmt: skip
        built = dict(zip(texts, pool.map(_build, texts.values()), strict=True))
        reader.result()
        commands = {case: future.result().program for case, future in programs.items()}
    loaded = {key: ctypes.CDLL(str(each.program)) for key, each in built.items()}
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **clocks.protocol(_ROUNDS, _REST, warm=_WARM, each=_EACH),
            "inputs": f"normal random bf16 numbers, {HEADS} heads, {TOKENS} tokens in all",
            "check": "before timing, all of the output against cuDNN's, within 0.02 + 2 per cent",
            "done": "µs from the first block's begin to each block's end by %globaltimer, in order "
            f"of the end; of {_STAMPED} launches the one whose mean idle time is the median",
            "bytes": f"{READ} of the second launch, the caches flushed before it, operands of "
            "zeros",
            "profiler": profiler.version(),
            "rivals": f"torch {torch.__version__}, scaled_dot_product_attention with the backend "
            "of cuDNN and with the one of FlashAttention-2, same process, by turns",
        },
        "fit": {
            f"{d}, {length}":
            loaded["set", False].together_here(TOKENS // length, HEADS, length, d)
            for d, length in causal
        },
        "times": [_by_turns(torch, loaded, *case) for case in CASES],
        "done": [_done(torch, loaded, *case) for case in causal],
        "bytes": [_bytes(commands[case], *case) for case in causal],
    }  # fmt: skip


def _build(text: str) -> toolchain.Build:
    return toolchain.build(text, name=NAME, target="sm_90a", library=True)


def _by_turns(
    torch: Any, loaded: dict[Any, ctypes.CDLL], d: int, causal: bool, length: int
) -> dict[str, Any]:
    tensors = launched.tensors(torch, d, length)

    def of(n: int, late: bool) -> Launch:
        library = loaded["set", late]
        launch = launched.ours(torch, library, tensors, causal)

        def set_and_launch() -> None:
            library.set_batches(n)
            launch()

        return set_and_launch

    launches = {LAST: launched.ours(torch, loaded["last"], tensors, causal)}
    launches |= {
        contender(n, late): of(n, late) for late in LATE for n in (0, *counts(length))
    }
    right = launched.torchs(torch, tensors, causal)[CUDNN]()
    for name, each in launches.items():
        launched.check(name, each, tensors[3], right)
    launches |= launched.torchs(torch, tensors, causal)
    found = clocks.times(torch, launches, _ROUNDS, _REST, warm=_WARM, each=_EACH)
    median = {name: statistics.median(each["times_us"]) for name, each in found.items()}
    print(f"⏱ {d}, {'causal' if causal else 'full'}, {length}: of {FLASH} "
          + ", ".join(f"{name} {median[FLASH] / us:.2f}" for name, us in median.items()),
          flush=True)  # fmt: skip
    return {"d": d, "causal": causal, "sequence": length, "contenders": found}


def _done(torch: Any, loaded: dict[Any, ctypes.CDLL], d: int, length: int) -> dict[str, Any]:
    tensors = launched.tensors(torch, d, length)
    spans = ((ctypes.c_ulonglong * 1024) * 2)()
    units = torch.cuda.get_device_properties(0).multi_processor_count
    right = launched.torchs(torch, tensors, True)[CUDNN]()
    found = {}
    for late in LATE:
        library = loaded["stamped", late]
        launch = launched.ours(torch, library, tensors, True)
        for n in counts(length):
            library.set_batches(n)
            launched.check(f"{contender(n, late)}, with stamps", launch, tensors[3], right)
            library.read_spans(spans)  # from here on the stamps of one launch
            seen = []
            for turn in range(_STAMPED + 2):
                launch()
                library.read_spans(spans)
                first = min(spans[0][:units])
                if turn >= 2:
                    seen.append(sorted((end - first) / 1e3 for end in spans[1][:units]))
            seen.sort(key=lambda ends: ends[-1] - statistics.mean(ends))
            found[contender(n, late)] = seen[len(seen) // 2]
    return {"d": d, "sequence": length, "blocks": found}


def _bytes(program: Any, d: int, length: int) -> dict[str, Any]:
    asked = counts(length)
    seen = profiler.second_launches([program, *map(str, asked)], [READ], "attention")
    read = {contender(n): each[READ] for n, each in zip(asked, seen, strict=True)}
    return {"d": d, "sequence": length, "read": read}
