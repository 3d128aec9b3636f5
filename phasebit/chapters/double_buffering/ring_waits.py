"""Why the first ring is the fastest when warm, and rings with a third slot: what is left open.

The first ring and *loads first*, each as it is and with waits that never sleep: the library's wait
looks at the barrier a few times, and then sleeps between its looks. Each also with its consumers'
instructions in another order. Beside the times: clock stamps, and what Nsight Compute says of the
warps. And the rings *b* and *c* of the same chapter with one
slot to three, by turns.
"""

from __future__ import annotations

import random
import re
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.double_buffering import clock_stamps, controls
from phasebit.edits import replace_each
from phasebit.instruments import clocks, profiler, programs, samples

NAME = "double_buffering_waits"
FIRST, LOADS_FIRST = "barrier_double_buffer", "ring, loads first"
_ROUNDS, _LAUNCHES = 3, 200

Edits = tuple[tuple[str, str], ...]

_WAITS = """
// Arrive, and wait without a sleep between looks.
__device__ void arrive_and_%(name)s(barrier& b) {
    const unsigned there =
        unsigned(__cvta_generic_to_shared(cuda::device::barrier_native_handle(b)));
    asm volatile("{ .reg .b64 token; .reg .pred done;\\n"
                 "mbarrier.arrive.shared::cta.b64 token, [%%0];\\n"
                 "AGAIN: mbarrier.%(name)s.shared::cta.b64 done, [%%0], token;\\n"
                 "@!done bra AGAIN; }"
                 :: "r"(there) : "memory");
}
"""


def _waiting(how: str, slot: str = "slot") -> Edits:
    using = "using barrier = cuda::barrier<cuda::thread_scope_block>;\n"
    return (
        (using, using + _WAITS % {"name": how}),
        (f"ring.empty[{slot}].arrive_and_wait();", f"arrive_and_{how}(ring.empty[{slot}]);"),
        (f"ring.full[{slot}].arrive_and_wait();", f"arrive_and_{how}(ring.full[{slot}]);"),
    )


# The compiler orders the consumers' loads and multiply-adds otherwise in the two rings. It does so
# less in a function of its own, and not where a thread may have 128 registers: there it loads as
# far ahead in both.
_APART: Edits = (
    ("__device__ void consume(Ring& ring, float* __restrict__ C) {\n",
     "__shared__ alignas(Ring) char memory[sizeof(Ring)];\n"
     "__device__ __noinline__ void consume(float* __restrict__ C) {\n"
     "    Ring& ring = *reinterpret_cast<Ring*>(memory);\n"),
    ("    // Raw memory, since a shared variable may have no constructor to run.\n"
     "    __shared__ alignas(Ring) char memory[sizeof(Ring)];\n", ""),
    ("    else consume(ring, C);\n", "    else consume(C);\n"),
)  # fmt: skip
_MORE: Edits = (("__launch_bounds__(THREADS)", "__launch_bounds__(THREADS, 1)"),)
_ASKED: Edits = (  # a third slot needs more than 48 KiB
    ("#include <cuda/barrier>\n", '#include "check.cuh"\n#include <cuda/barrier>\n'),
    ("    __shared__ alignas(16) char memory[sizeof(Ring)];\n",
     "    extern __shared__ float4 memory[];\n"),
    ("    matmul<<<1, THREADS>>>(A, B, C);\n",
     "    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize,\n"
     "                               sizeof(Ring)));\n"
     "    matmul<<<1, THREADS, sizeof(Ring)>>>(A, B, C);\n"),
)  # fmt: skip


def _slots(kernel: str, given: int) -> dict[str, tuple[str, Edits]]:
    asked = _ASKED if kernel == "b_register_tiles" else ()
    return {
        f"{kernel[0]}, {slots} slot{'s' * (slots > 1)}": (
            kernel, (*asked, (f"SLOTS = {given}; ", f"SLOTS = {slots}; "))
        )
        for slots in (1, 2, 3)
    }  # fmt: skip


VARIANTS: dict[str, tuple[str, Edits]] = {
    "first ring": (FIRST, ()),
    "first ring, try_wait": (FIRST, _waiting("try_wait")),
    "first ring, test_wait": (FIRST, _waiting("test_wait")),
    "loads first": (LOADS_FIRST, ()),
    "loads first, try_wait": (LOADS_FIRST, _waiting("try_wait")),
    "loads first, test_wait": (LOADS_FIRST, _waiting("test_wait")),
    "first ring, consumers apart": (FIRST, _APART),
    "loads first, consumers apart": (LOADS_FIRST, _APART),
    "first ring, more registers": (FIRST, _MORE),
    "loads first, more registers": (LOADS_FIRST, _MORE),
    **_slots("b_register_tiles", 2),
    **_slots("c_async_copies", 6),
}
"""Name -> a kernel or a control of the chapter, and what is replaced by what in it."""
STAMPED = ("first ring", "loads first")
_STAMPS = ", stamps"
PROGRAMS = (*VARIANTS, *(f"{name}{_STAMPS}" for name in STAMPED))
"""All that is run: the contenders, and copies with stamps."""
SCHEDULED = tuple(
    f"{ring}{how}"
    for how in ("", ", consumers apart", ", more registers")
    for ring in ("first ring", "loads first")
)
"""The two rings with one order of the consumers' instructions and another, by turns."""
COUNTED = ("first ring", "loads first")
_WHY = ("long_scoreboard", "short_scoreboard", "mio_throttle", "lg_throttle", "barrier", "membar",
        "sleeping", "wait", "not_selected", "dispatch_stall", "math_pipe_throttle",
        "branch_resolving", "no_instruction", "selected")  # fmt: skip
METRICS = (
    "smsp__inst_executed.sum", "smsp__cycles_active.sum", "smsp__issue_active.sum",
    *(f"smsp__average_warps_issue_stalled_{why}_per_issue_active.ratio" for why in _WHY),
)  # fmt: skip


def text(name: str) -> str:
    """A contender; raises ``ValueError`` where an edit does not fit."""
    kernel, edits = VARIANTS[name]
    return replace_each(controls.source(kernel), edits, kernel)


def ahead(sass: str) -> float:
    """How many instructions a shared load is ahead of the first that uses it, on average.

    Of the loads and multiply-adds in ``sass``, a listing by nvdisasm or cuobjdump:

    >>> ahead("LDS R1, [R9] ; LDS.64 R2, [R9+0x8] ; FFMA R4, R1, R1, R4 ; FFMA R4, R3, R1, R4 ;")
    2.0
    """
    code = []
    for name, wide, first, rest in re.findall(r"\b(LDS|FFMA)(?:\.(\d+))? R(\d+), ([^;]*)", sass):
        registers = {int(first) + i for i in range(int(wide or 32) // 32)}
        code.append((name, registers, {int(number) for number in re.findall(r"R(\d+)", rest)}))
    waits = []
    for at, (name, registers, _) in enumerate(code):
        uses = (n for n, (_, _, read) in enumerate(code[at + 1 :], 1) if read & registers)
        if name == "LDS":
            waits.append(next(uses, len(code) - at))
    return statistics.fmean(waits)


def build(name: str) -> toolchain.Build:
    """A contender's program for this machine's GPU, or that of its copy with stamps."""
    plain = name.removesuffix(_STAMPS)
    source = text(plain)
    return toolchain.build(clock_stamps.stamped(FIRST, source) if plain != name else source)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU, no cuBLAS, or a kernel fails,
    :class:`toolchain.ToolMissing` without Nsight Compute.
    """
    facts, cublas = measure.facts(), measure.find_cublas()
    built = clocks.built(build, PROGRAMS)
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in built}
    order, draw = list(built), random.Random()
    for _ in range(_ROUNDS):
        draw.shuffle(order)
        for name in order:
            seen[name].append(_lap(built[name].program, cublas))
    for name, laps in seen.items():
        flushed, warm = (statistics.median(_joined(laps, kind)) for kind in _KINDS)
        print(f"⏱ {name}: {warm:.1f} µs warm, {flushed:.1f} µs flushed")
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events before and after each launch, launches queued",
            "order": f"{_ROUNDS} processes of each contender, in a new random order in each round",
            "warm": f"{_LAUNCHES} launches a process, after 50 that do not count",
            "flushed": "20 launches a process, each after 256 MiB of other memory is read",
            "inputs": "normal random numbers, one set a process; every kernel is checked in the "
            "process that times it",
            "vendor": f"cublasSgemm from {cublas.name}, pedantic f32, no TF32, in the same process "
            "by turns",
            "waits": "as it is: the library's, which sleeps between its looks at the barrier after "
            "some of them; try_wait and test_wait: a loop around this instruction and nothing else",
            "stamps": "the multiprocessor's clock, read by one thread of each role; cycles since "
            "the first stamp of the launch; one warm launch in each of the processes",
            **_again_protocol(),
        },
        "times": {
            name: {kind: _joined(laps, kind) for kind in _KINDS} for name, laps in seen.items()
        },
        "cublas": {
            kind: _joined([lap for laps in seen.values() for lap in laps], f"cublas_{kind}")
            for kind in ("us", "flushed_us")
        },
        "stamps": {
            name: [_trimmed(lap["stamps_warm"]) for lap in seen[f"{name}{_STAMPS}"]]
            for name in STAMPED
        },
        "schedules": _schedules({name: built[name].program for name in SCHEDULED}),
        **_profiled({name: built[name].program for name in COUNTED}),
    }


_KINDS = ("flushed_us", "warm_us")


def _schedules(programs: Mapping[str, Path]) -> dict[str, dict[str, list[float]]]:
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in programs}
    order, draw = list(programs), random.Random()
    for _ in range(_ROUNDS):
        draw.shuffle(order)
        for name in order:
            seen[name].append(_lap(programs[name]))
    found = {name: {kind: _joined(laps, kind) for kind in _KINDS} for name, laps in seen.items()}
    for name, times in found.items():
        flushed, warm = (statistics.median(times[kind]) for kind in _KINDS)
        print(f"⏱ {name}: {warm:.1f} µs warm, {flushed:.1f} µs flushed", flush=True)
    return found


def _lap(program: Path, cublas: Path | None = None) -> dict[str, Any]:
    beside = () if cublas is None else ("--cublas", cublas)
    return programs.times(program, "warm", "--repeats", str(_LAUNCHES), *beside)


def _joined(laps: list[dict[str, Any]], kind: str) -> list[float]:
    return [time for lap in laps for time in lap[kind]]


def _trimmed(stamps: dict[str, Any]) -> dict[str, Any]:
    """Without the passes that the loop did not make."""
    passes = sum(at >= 0 for at in stamps["places"][5])
    return {**stamps, "places": [place[:passes] for place in stamps["places"]]}


def _tried(what: Callable[[Path], Any], program: Path) -> Any:
    """What the profiler says, or the sentence in which it refuses: the times are kept."""
    try:
        return what(program)
    except (toolchain.CudaError, toolchain.ToolMissing, OSError, ValueError) as error:
        print(f"⏱ the profiler says nothing of {program.name}: {str(error)[:300]}")
        return {"refused": str(error)[:300]}


_SKIPPED = 60
"""Of the launches back to back: six are checks, twenty come after a flush, then fifty warm up."""
_ARGUMENTS = ("warm", "--repeats", "50")
_CACHES = ("--cache-control", "none")


def _counters(program: Path) -> dict[str, float]:
    launch = ("-k", "matmul", "-s", str(_SKIPPED), "-c", "1")
    ((_, found),) = profiler.count([*_CACHES, *launch, program, *_ARGUMENTS], METRICS)
    return found


def _samples(program: Path) -> list[str]:
    """Line by line of the machine code: how often it ran, and samples by state."""
    command: list[str | Path] = [program, *_ARGUMENTS]
    try:  # every 32 cycles: one block is short
        page = samples.page(
            command, "matmul", skip=_SKIPPED, options=(*_CACHES, "--warp-sampling-interval", "0")
        )
    except toolchain.CudaError as error:
        print(f"⏱ ncu takes its own sampling interval: {str(error)[:300]}")
        page = samples.page(command, "matmul", skip=_SKIPPED, options=_CACHES)
    return samples.parse_source(page, executed=True)


def again() -> Path:
    """Time the schedules and ask the profiler; it goes into the newest record."""
    facts = measure.facts()
    built = clocks.built(build, SCHEDULED)
    programs = {name: built[name].program for name in SCHEDULED}
    record = measure.read(NAME)
    record["protocol"] |= _again_protocol()
    record |= {"schedules": _schedules(programs), "profiled": facts}
    measure.save(record)
    return measure.save(record | _profiled({name: programs[name] for name in COUNTED}))


def _again_protocol() -> dict[str, str]:
    return {
        "schedules": "by turns as the times, without cuBLAS; consumers apart: their loop is a "
        "function that is not inlined; more registers: __launch_bounds__(THREADS, 1)",
        "counters": f"{profiler.version()}, one launch, caches left as they are; the program's "
        "launches are warm",
        "samples": "the same, each instruction of the machine code with how many warps executed it "
        "and the samples in which a warp stood at it, by state",
    }


def _profiled(programs: Mapping[str, Path]) -> dict[str, Any]:
    return {
        "counters": {name: _tried(_counters, program) for name, program in programs.items()},
        "samples": {name: _tried(_samples, program) for name, program in programs.items()},
    }
