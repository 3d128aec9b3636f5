"""What a group of *Attention* waits for, and which chain sets the pace.

Four questions that the ladder leaves open, each with runs in which one thing is otherwise:

* Where do the exponentials stand? The sources of kernels c and d have them before the wait for the
  output, but nothing ties a score to that place, and ptxas may move them behind it. In a *pinned*
  copy they stay.
* Does the chain of a group bind? A wait of some cycles is put behind its softmax. Where the chain
  sets the pace, a pass is longer by that wait from the first cycle on; where something else does,
  only from some wait on. The same before each fetch of the producer, which should have room, and
  for one group alone. The machine code is the same for all waits.
* Where is a group at which time? Sums of clocks at places in its loop, over all tiles.
* What does a softmax wait for? Samples of the warps' states by instruction, and the same softmax in
  a kernel where one group or two have it, with or without products beside it.
"""

from __future__ import annotations

import ctypes
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from phasebit import measure, toolchain
from phasebit.chapters.attention import (
    attend,
    launched,
    narrow_heads,
    rungs,
    softmax_alone,
)
from phasebit.chapters.attention.rungs import CUDNN, HEADS, TOKENS, Edits
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch, clocks, disassembly, profiler
from phasebit.instruments.samples import sampled

NAME = "attention_waits"
C, D, F = "overlapped", "persistent", "dynamic"
PINNED, BEHIND = ", pinned", ", pinned behind"
BEFORE = "exponentials before the wait"
IN_TURN = "groups in turn"
PRODUCER = 7
"""The producer's place among the waits; the groups have the first."""
PLACES = 14
_ROUNDS, _REST, _WARM, _EACH = 5, 0.01, 2, 4

_STEP_D = "        softmax.step(scores, shrink, shape.factor);  // the output may"
_STEP_C = f"{_STEP_D} be added up meanwhile\n"
_WAIT_F = (
    "            ptx::wgmma_wait_group<0>();\n            settle(o);\n"
    "            release(&s.v_empty[v.slot]);\n            v.advance();\n"
    "            if (moved) rescale(o, shrink);\n            softmax.weigh(scores, factor);\n"
)
_WEIGHED_F = (
    "            softmax.weigh(scores, factor);\n            pin(scores);\n"
    "            ptx::wgmma_wait_group<0>();\n            settle(o);\n"
    "            release(&s.v_empty[v.slot]);\n            v.advance();\n"
    "            if (moved) rescale(o, shrink);\n"
)
_SETTLE = "template <int N> __device__ void settle(unsigned (&p)[N][4]) {\n"
_PIN = """\
// The same for ptxas, too, which does not see settle: behind a branch that asks for all of them it
// computes none. An exponential is never negative, so nobody sleeps.
template <int N> __device__ void pin(float (&d)[N]) {
    settle(d);
    if (d[0] < 0) {
        float all = 0;
#pragma unroll
        for (int i = 0; i < N; ++i) all += d[i];
        asm volatile("nanosleep.u32 %0;" :: "r"(__float_as_uint(all)) : "memory");
    }
}
"""

_HEAD = """\
// How many cycles each group waits behind its softmax, and the producer before it fetches; and the
// sums of the clocks at which the groups came to each place, over all blocks and tiles.
__device__ int waits[8];
__device__ unsigned long long marks[8][14], passes[8];  // of each group

__device__ __forceinline__ void hold(unsigned cycles) {
    if (cycles == 0) return;
    const unsigned begin = clock();
    while (unsigned(clock()) - begin < cycles) {}
}
__device__ __forceinline__ void mark(int group, int place) {
    if (threadIdx.x % 128 == 0)
        atomicAdd(&marks[group][place], (unsigned long long)(clock64()));
}
__device__ __forceinline__ void count(int group, int more) {
    if (threadIdx.x % 128 == 0) atomicAdd(&passes[group], (unsigned long long)(more));
}
"""
_TAIL = """
__global__ void calibrate(int who, int times, long long* cycles) {
    const unsigned held = waits[who];
    const long long begin = clock64();
    for (int i = 0; i < times; ++i) hold(held);
    if (threadIdx.x == 0) *cycles = clock64() - begin;
}
extern "C" long long wait_lasts(int times) {
    long long *cycles, found;
    CHECK(cudaMalloc(&cycles, sizeof *cycles));
    calibrate<<<1, 128>>>(0, times, cycles);
    CHECK(cudaMemcpy(&found, cycles, sizeof found, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(cycles));
    return found;
}
extern "C" void set_waits(const int* cycles) {
    CHECK(cudaMemcpyToSymbol(waits, cycles, sizeof waits));
}
extern "C" void clear_marks() {
    static const unsigned long long none[8][14] = {};
    CHECK(cudaMemcpyToSymbol(marks, none, sizeof marks));
    CHECK(cudaMemcpyToSymbol(passes, none, sizeof passes));
}
extern "C" void read_marks(unsigned long long* sums, unsigned long long* count) {
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpyFromSymbol(sums, marks, sizeof marks));
    CHECK(cudaMemcpyFromSymbol(count, passes, sizeof passes));
}
"""
_HELD = "    const unsigned held = waits[{}];\n"
_LOOP_C = "    for (int tile = tiles - 2; tile >= 0; --tile, k.advance(), v.advance()) {\n"
_WAITING_C: Edits = (
    ("    float o[D / 2] = {}, scores[KEYS / 2];\n",
     _HELD.format("group") + "    float o[D / 2] = {}, scores[KEYS / 2];\n"),
    ("    Place<SLOTS> at;\n", _HELD.format(7) + "    Place<SLOTS> at;\n"),
    ("        rescale(o, shrink);\n        round_to_bf16<KEYS>(p, scores);\n",
     "        rescale(o, shrink);\n        round_to_bf16<KEYS>(p, scores);\n"
     "        settle(p);\n        hold(held);\n        __syncwarp();\n"),
    ("        ptx::mbarrier_wait(&s.k_empty[at.slot], !at.phase);\n",
     "        hold(held);\n        ptx::mbarrier_wait(&s.k_empty[at.slot], !at.phase);\n"),
    ("    ptx::mbarrier_wait(&s.q_full, 0);\n", "    mark(group, 0);\n"
     "    ptx::mbarrier_wait(&s.q_full, 0);\n    mark(group, 1);\n    mark(group, 2);\n"),
    (_LOOP_C, f"    count(group, tiles - 1);\n    mark(group, 3);\n{_LOOP_C}"),
    ("    }\n    ptx::mbarrier_wait(&s.v_full[v.slot], v.phase);\n",
     "    }\n    mark(group, 4);\n    ptx::mbarrier_wait(&s.v_full[v.slot], v.phase);\n"),
    ("    float inverse[2];\n    softmax.invert(inverse);\n",
     "    mark(group, 5);\n    float inverse[2];\n    softmax.invert(inverse);\n"),
    ("    store(o, O, row, shape.queries);\n}\n",
     "    store(o, O, row, shape.queries);\n    mark(group, 6);\n}\n"),
)  # fmt: skip
_FIRST_F = (
    "        ptx::mbarrier_wait(&s.k_full[k.slot], k.phase);\n        ptx::wgmma_fence();\n"
    "        begin_scores<D, 64, KEYS>(scores, q, s.k[k.slot]);\n        ptx::wgmma_wait_group<0>"
)
_LAST_F = "        }\n        ptx::mbarrier_wait(&s.v_full[v.slot], v.phase);\n"
_WAITING_F: Edits = (
    ("    Place<SLOTS> k, v;\n", _HELD.format("group") + "    Place<SLOTS> k, v;\n"),
    ("    Place<SLOTS> at;\n", _HELD.format(7) + "    Place<SLOTS> at;\n"),
    ("            softmax.weigh(scores, factor);\n            round_to_bf16<KEYS>(p, scores);\n",
     "            softmax.weigh(scores, factor);\n            round_to_bf16<KEYS>(p, scores);\n"
     "            settle(p);\n            hold(held);\n"
     "            __syncwarp();\n"),
    ("                ptx::mbarrier_wait(&s.k_empty[at.slot], !at.phase);\n",
     "                hold(held);\n"
     "                ptx::mbarrier_wait(&s.k_empty[at.slot], !at.phase);\n"),
    ("        ptx::mbarrier_wait(&s.q_full[t.slot], t.phase);\n",
     "        mark(group, 0);\n        ptx::mbarrier_wait(&s.q_full[t.slot], t.phase);\n"),
    ("        if (task.tiles == 0) return;\n",
     "        if (task.tiles == 0) {\n            mark(group, 7);\n            return;\n        }\n"
     "        mark(group, 1);\n"),
    (_FIRST_F, f"        mark(group, 2);\n{_FIRST_F}"),
    ("        // Tiles before this one are seen whole",
     "        count(group, seen - 1);\n        mark(group, 3);\n"
     "        // Tiles before this one are seen whole"),
    (_LAST_F, _LAST_F.replace("}\n", "}\n        mark(group, 4);\n")),
    ("        float inverse[2];\n        softmax.invert(inverse);\n",
     "        mark(group, 5);\n        float inverse[2];\n        softmax.invert(inverse);\n"),
    ("        release(&s.q_empty[t.slot]);  // the task, too, has been read\n",
     "        release(&s.q_empty[t.slot]);  // the task, too, has been read\n"
     "        mark(group, 6);\n"),
)  # fmt: skip
_IN_LOOP_F: Edits = (
    ("            ptx::mbarrier_wait(&s.k_full[k.slot], k.phase);\n"
     "            ptx::wgmma_fence();\n",
     "            mark(group, 8);\n            ptx::mbarrier_wait(&s.k_full[k.slot], k.phase);\n"
     "            mark(group, 9);\n            ptx::wgmma_fence();\n"),
    ("            ptx::wgmma_wait_group<1>();\n            settle(scores);\n",
     "            mark(group, 10);\n            ptx::wgmma_wait_group<1>();\n"
     "            settle(scores);\n            mark(group, 11);\n"),
    ("            ptx::wgmma_wait_group<0>();\n            settle(o);\n",
     "            mark(group, 12);\n            ptx::wgmma_wait_group<0>();\n"
     "            settle(o);\n            mark(group, 13);\n"),
)  # fmt: skip


def pinned(name: str) -> str:
    """A kernel whose exponentials stand before the wait for the output, in its machine code too.

    With :data:`BEHIND` they stand behind it, and the branch that keeps them there does: a control
    of what the branch itself costs.
    """
    behind_c = "        ptx::wgmma_wait_group<0>();\n        settle(o);\n"
    kernel, edits = {
        C + PINNED: (attend.OVERLAPPED, (_STEP_C, f"{_STEP_C}        pin(scores);\n")),
        C + BEHIND: (attend.OVERLAPPED, (behind_c, f"{behind_c}        pin(scores);\n")),
        D + PINNED: (attend.PERSISTENT, (_STEP_D, _STEP_D.replace("  // the output may",
            "\n        pin(scores);  // the output may"))),
        F + PINNED: (attend.DYNAMIC, (_WAIT_F, _WEIGHED_F)),
        F + BEHIND: (attend.DYNAMIC, (_WAIT_F, f"{_WAIT_F}            pin(scores);\n")),
    }[name]  # fmt: skip
    return replace_each(attend.flat(kernel), ((_SETTLE, _PIN + _SETTLE), edits), name)


def plain(name: str) -> str:
    """A rung, a variant, a pinned rung, the groups in turn, or the next scores before the store."""
    if name == rungs.NEXT:
        return attend.flat(attend.NEXT)
    if PINNED in name:
        return pinned(name)
    return narrow_heads.text(name) if name == IN_TURN else rungs.text(name)


def waiting(name: str, within: bool = False) -> str:
    """The same with waits that can be set and with marks; ``within``: marks within a pass, too."""
    edits = _WAITING_C if name.startswith(C) else _WAITING_F
    text = replace_each(plain(name), edits + (_IN_LOOP_F if within else ()), name)
    return _HEAD + text + _TAIL


def placed(name: str, d: int) -> tuple[int, int]:
    """Exponentials of a pass in the machine code, before the wait for the output and behind it.

    Raises :class:`toolchain.ToolMissing` without nvdisasm.
    """
    long = name.startswith(D)
    code, _ = disassembly.cubin(attend.alone(plain(name), (d, False), long=long), "sm_90a")
    seen = re.findall(r"MUFU\.EX2|DEPBAR\.LE gsb0, 0x[01]|HGMMA.*gsb0", disassembly.listing(code))
    scores = next(i for i, each in enumerate(seen) if each.endswith("0x1"))
    output = next(i for i in range(scores, len(seen)) if seen[i].endswith("0x0"))
    last = next(i for i in range(output, len(seen)) if "HGMMA" in seen[i])
    return output - scores - 1, last - output - 1


# The same problem as in the record, as a program: what a profiler looks at.
_PROGRAM = """
#include <cmath>
__global__ void draw(bf16* x, size_t count, unsigned seed) {  // normal random numbers
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        unsigned bits[2];
        for (int j = 0; j < 2; ++j) {
            unsigned h = unsigned(2 * i + j) * 2654435761u + seed;
            h = (h ^ h >> 15) * 2246822519u, h = (h ^ h >> 13) * 3266489917u;
            bits[j] = h ^ h >> 16;
        }
        const float u = (bits[0] + 1.0f) / 4294967808.0f, a = bits[1] * 1.46291808e-9f;
        x[i] = __float2bfloat16(sqrtf(-2 * logf(u)) * cosf(a));
    }
}
int main() {
    constexpr size_t COUNT = size_t(TOKENS) * HEADS * COLUMNS;
    bf16* memory[4];
    for (int i = 0; i < 4; ++i) {
        CHECK(cudaMalloc(&memory[i], COUNT * sizeof(bf16)));
        draw<<<1024, 256>>>(memory[i], COUNT, i);
    }
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    Attention a{memory[0], memory[1], memory[2], memory[3], TOKENS / LENGTH, HEADS, HEADS, LENGTH,
                LENGTH, 1 / std::sqrt(float(COLUMNS)), device.multiProcessorCount, 0};
    CHECK(cudaMalloc(&a.counter, sizeof *a.counter));
    CHECK(cudaMemset(a.counter, 0, sizeof *a.counter));
    for (int i = 0; i < 2; ++i) launch<COLUMNS, false>(a);
    CHECK(cudaDeviceSynchronize());
}
"""
LENGTH = 4096


def program(name: str, d: int) -> str:
    """A program that launches a kernel twice, for heads of ``d`` columns, full attention."""
    text = plain(name)
    harness = '#include "attention/attention_harness.cuh"\n'
    if text.count(harness) != 1:
        raise ValueError(f"{name} has no harness at its end")
    sizes = f"constexpr int TOKENS = {TOKENS}, HEADS = {HEADS}, LENGTH = {LENGTH}, COLUMNS = {d};\n"
    return text.replace(harness, sizes + _PROGRAM)


class Slack(NamedTuple):
    """A problem, and who waits in it, for how long."""

    kernel: str
    d: int
    causal: bool
    length: int
    who: Mapping[str, Sequence[int]]
    cycles: Sequence[int]


SOME = (0, 50, 100, 200, 300, 450, 600, 900, 1200)
THREE, FOUR = range(3), range(4)
SLACKS = (
    Slack(C, 128, False, 4096, {"all groups": range(2), "the producer": (PRODUCER,)}, SOME),
    Slack(C + PINNED, 128, False, 4096, {"all groups": range(2)}, SOME),
    Slack(F, 128, False, 4096, {"all groups": THREE, "the producer": (PRODUCER,)}, SOME),
    Slack(F, 64, False, 4096, {"all groups": FOUR, "the producer": (PRODUCER,)}, SOME),
    Slack(F, 64, True, 4096, {"all groups": FOUR, "the last group": (3,), "the first group": (0,),
                              "the producer": (PRODUCER,)}, SOME),
    Slack(IN_TURN, 64, True, 4096, {"all groups": FOUR, "the last group": (3,)}, SOME),
)  # fmt: skip
ORDERS = (C, C + PINNED, C + BEHIND, D, D + PINNED, F, BEFORE, F + PINNED, F + BEHIND)
ENDS = (F, rungs.NEXT)
END_CASES = ((64, False, 1024), (64, True, 1024), (64, False, 4096), (64, True, 4096),
             (128, False, 1024), (128, True, 1024))  # fmt: skip
ORDER_CASES = ((128, False, 4096), (128, True, 4096), (64, False, 4096), (64, True, 4096))
MARKED = ((F, 64, True, 4096), (IN_TURN, 64, True, 4096), (F, 64, False, 4096),
          (F, 64, False, 1024), (F, 64, True, 1024), (F, 128, False, 4096))  # fmt: skip
SAMPLED = ((C, 128), (C + PINNED, 128), (F, 128), (F, 64))

_PROTOCOL = {
    "waits": "cycles that every thread of a group spends between its softmax and its next pass, or "
    "the producer's thread before each fetch, spinning on its clock; the same machine code for all "
    "waits; lasts: what a wait takes where nothing else runs; cycles of a launch: its time by the "
    "clock of its turn; pass: cycles of a pass of a group, by marks at the ends of its loop",
    "marks": "the first thread of each group adds its clock to a sum at each place, in all blocks; "
    "cycles between two places, all tiles of a launch together, over its tiles or passes",
    "samples": "Nsight Compute's section SourceCounters, the second launch of a program, heads of "
    "so many columns, full attention: samples of warps at each instruction that has one, by state",
    "alone": f"the softmax of kernel c {softmax_alone.PASSES} times in a kernel of its own, one "
    "block on each multiprocessor, the second launch: cycles of one, the mean of all blocks, of "
    "each group",
}


def _build(text: str) -> toolchain.Build:
    return toolchain.build(text, name=NAME, target="sm_90a", library=True)


def _programs() -> dict[tuple[str, int], str]:
    return {(name, d): program(name, d) for name, d in SAMPLED}


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    texts: dict[Any, str] = {("order", name): plain(name) for name in (*ORDERS, *ENDS)}
    texts |= {("waits", each.kernel): waiting(each.kernel) for each in SLACKS}
    texts |= {("marks", case[0]): waiting(case[0], within=True) for case in MARKED}
    texts["alone"] = softmax_alone.text()
    with ThreadPoolExecutor(16) as pool:
        first = pool.submit(clocks.reader)
        programs = {key: pool.submit(toolchain.build, text, name=NAME, target="sm_90a")
                    for key, text in _programs().items()}  # fmt: skip
        where = {(name, d): pool.submit(placed, name, d) for name in ORDERS for d in (64, 128)}
        built = dict(zip(texts, pool.map(_build, texts.values()), strict=True))
        first.result()
    loaded = {key: ctypes.CDLL(str(each.program)) for key, each in built.items()}
    spilled = {
        " ".join(key) if isinstance(key, tuple) else key:
        max((each.spill_stores for each in build.resources), default=0)
        for key, build in built.items()
    }  # fmt: skip
    found: dict[str, Any] = {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **clocks.protocol(_ROUNDS, _REST, warm=_WARM, each=_EACH),
            "inputs": f"normal random bf16 numbers, {HEADS} heads, {TOKENS} tokens in all",
            "check": "before timing, all of the output against cuDNN's, within 0.02 + 2 per cent",
            **_PROTOCOL,
            "profiler": profiler.version(),
            "rivals": f"torch {torch.__version__}, scaled_dot_product_attention with the backend "
            "of cuDNN and with the one of FlashAttention-2, same process, by turns with the orders "
            "and the ends",
        },
        "spilled": spilled,
        "exponentials": {
            name: {str(d): where[name, d].result() for d in (64, 128)} for name in ORDERS
        },
    }
    _say("compiled")
    units = torch.cuda.get_device_properties(0).multi_processor_count
    found["alone"] = softmax_alone.measured(loaded["alone"], units)
    _say("alone: " + ", ".join(f"{name} {cycles}" for name, cycles in found["alone"].items()))
    found["orders"] = [_by_turns(torch, loaded, ORDERS, *case) for case in ORDER_CASES]
    found["ends"] = [_by_turns(torch, loaded, ENDS, *case) for case in END_CASES]
    _say("orders and ends")
    found["slack"] = [_slack(torch, loaded["waits", each.kernel], each) for each in SLACKS]
    _say("slack")
    found["marks"] = [_marked(torch, loaded["marks", case[0]], *case) for case in MARKED]
    _say("marks")
    found["samples"] = []
    for (name, d), future in programs.items():
        try:
            samples = sampled(future.result().program, "attention")
        except toolchain.CudaError as error:
            print(f"⏱ no samples of {name}, heads of {d}: {error}", flush=True)
            continue
        found["samples"].append({"kernel": name, "d": d, "instructions": samples})
    _say("samples")
    return found


def _say(what: str) -> None:
    print(f"⏱ {time.strftime('%H:%M:%S')} {what}", flush=True)


def _check(
    torch: Any, name: str, launch: Callable[[], Any], tensors: launched.Tensors, causal: bool
) -> None:
    right = launched.torchs(torch, tensors, causal)[CUDNN]()
    launched.check(name, launch, tensors[3], right)


def _by_turns(
    torch: Any,
    loaded: Mapping[Any, ctypes.CDLL],
    names: Sequence[str],
    d: int,
    causal: bool,
    length: int,
) -> dict[str, Any]:
    tensors = launched.tensors(torch, d, length)
    launches = {
        name: launched.ours(torch, loaded["order", name], tensors, causal) for name in names
    }
    for name, launch in launches.items():
        _check(torch, name, launch, tensors, causal)
    launches |= launched.torchs(torch, tensors, causal)
    times = clocks.times(torch, launches, _ROUNDS, _REST, warm=_WARM, each=_EACH)
    return {"d": d, "causal": causal, "sequence": length, "contenders": times}


def _set(library: ctypes.CDLL, who: Sequence[int], cycles: int) -> None:
    library.set_waits((ctypes.c_int * 8)(*(cycles if i in who else 0 for i in range(8))))


def _read(library: ctypes.CDLL) -> tuple[list[list[int]], list[int]]:
    sums, count = ((ctypes.c_ulonglong * PLACES) * 8)(), (ctypes.c_ulonglong * 8)()
    library.read_marks(sums, count)
    return [list(each) for each in sums], list(count)


def between(sums: Sequence[int], begin: int, end: int) -> int:
    """Cycles from one place to another, from sums that may have wrapped."""
    return (sums[end] - sums[begin] + (1 << 63)) % (1 << 64) - (1 << 63)


def _slack(torch: Any, library: ctypes.CDLL, each: Slack) -> dict[str, Any]:
    tensors = launched.tensors(torch, each.d, each.length)
    launch = launched.ours(torch, library, tensors, each.causal)
    settings = {(who, cycles): groups for who, groups in each.who.items() for cycles in each.cycles}
    turns = list(settings)
    library.wait_lasts.restype = ctypes.c_longlong
    lasts = []
    for cycles in each.cycles:
        _set(library, range(8), cycles)
        lasts.append(round(library.wait_lasts(1000) / 1000, 1))
        _check(torch, f"{each.kernel} with waits of {cycles} cycles", launch, tensors, each.causal)
    found: dict[Any, dict[str, Any]] = {
        turn: {"who": turn[0], "wait": turn[1], "times_us": [], "mhz": [], "pass": []}
        for turn in turns
    }
    clock, draw = clocks.Clocks(torch), random.Random()
    for _ in range(_ROUNDS):
        draw.shuffle(turns)
        for turn in turns:
            _set(library, settings[turn], turn[1])
            time.sleep(_REST)
            for _ in range(_WARM):
                launch()
            torch.cuda.synchronize()
            library.clear_marks()
            clock.look(0)
            found[turn]["times_us"] += beside_torch.timed(torch, launch, _EACH)
            clock.look(1)
            found[turn]["mhz"].append(clock.mhz())
            sums, count = _read(library)
            found[turn]["pass"].append(
                [round(between(s, 3, 4) / n, 1) for s, n in zip(sums, count, strict=True) if n]
            )
    _set(library, (), 0)
    return {"kernel": each.kernel, "d": each.d, "causal": each.causal, "sequence": each.length,
            "waits": list(each.cycles), "lasts": lasts, "runs": list(found.values())}  # fmt: skip


def _marked(
    torch: Any, library: ctypes.CDLL, name: str, d: int, causal: bool, length: int
) -> dict[str, Any]:
    """Sums of a launch: of each group the cycles between neighbouring places, and its passes."""
    tensors = launched.tensors(torch, d, length)
    launch = launched.ours(torch, library, tensors, causal)
    _set(library, (), 0)
    _check(torch, f"{name} with marks", launch, tensors, causal)
    launch()
    torch.cuda.synchronize()
    library.clear_marks()
    launch()
    sums, count = _read(library)
    groups = range(4 if d == 64 else 3)
    parts = {
        "hidden tiles": (1, 2), "first scores and softmax": (2, 3), "passes": (3, 4),
        "last product": (4, 5), "store": (5, 6), "wait for K": (8, 9),
        "wait for scores": (10, 11), "largest scores": (11, 12), "wait for the output": (12, 13),
    }  # fmt: skip
    cycles = {what: [between(sums[g], *ends) for g in groups] for what, ends in parts.items()}
    mask = (1 << 64) - 1  # the last wait for queries ends at place 7: there are none
    ends = [(sums[g][1] + sums[g][7]) & mask for g in groups]
    cycles["wait for queries"] = [
        (end - sums[g][0] + (1 << 63)) % (1 << 64) - (1 << 63)
        for g, end in zip(groups, ends, strict=True)
    ]
    return {"kernel": name, "d": d, "causal": causal, "sequence": length,
            "passes": [count[g] for g in groups], "cycles": cycles}  # fmt: skip
