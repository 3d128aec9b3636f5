"""From what one sees to what to look at first: each with a program that shows it, run here.

Most of the programs are those of ``bugs/``; three kernels stand below.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from phasebit import bugs, contents, files

if TYPE_CHECKING:
    from phasebit.measure import Table

MISALIGNED = """extern "C" __global__ void copy(const float* x, float4* y) {
    y[threadIdx.x] = *reinterpret_cast<const float4*>(x + 4 * threadIdx.x + 1);
}
"""
PLAIN_TARGET = """extern "C" __global__ void fence() {
    asm volatile("wgmma.fence.sync.aligned;");
}
"""
CONFLICTS = """extern "C" __global__ void reverse(float* y) {
    __shared__ float tile[32][32];
    tile[threadIdx.x][0] = threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = tile[31 - threadIdx.x][0];
}
"""


class Symptom(NamedTuple):
    """What one sees, what to ask first, a program that has it, and chapters that explain it."""

    seen: str
    first: str
    program: str
    """A folder of ``bugs/``, or one of the three texts."""
    chapters: tuple[str, ...]


SYMPTOMS = (
    Symptom("it hangs", "at which barrier does who wait, and what is missing: arrivals or bytes?",
            "bytes_without_an_arrival", ("barriers", "copy_engine")),
    Symptom("it hangs, or is right by luck", "does the barrier count as many as arrive?",
            "every_lane_arrives", ("barriers", "cute_dsl")),
    Symptom("the first tile is right, the next is not",
            "does every role carry its phases on from tile to tile?",
            "phase_begins_anew", ("state_machine", "chain")),
    Symptom("wrong in every run, in part", "does each wait have the parity of its own barrier?",
            "parity_of_the_loop", ("barriers", "hopper_ring")),
    Symptom("other results in other runs", "who may still read what is written again?",
            "operand_of_two_groups", ("warp_specialisation",)),
    Symptom("old numbers, now and then",
            "is there a proxy fence between threads' writes and an engine that reads?",
            "bulk_store_without_proxy_fence", ("copy_engine", "hopper_ring")),
    Symptom("NaN, or numbers from nowhere", "is all written that is read, sums included?",
            "unwritten_accumulator", ("threads_and_memory", "one_thread_multiplies")),
    Symptom("sums of another tile, on Blackwell", "who still reads tensor memory that is freed?",
            "tensor_memory_freed_while_read", ("tensor_memory", "chain")),
    Symptom("right alone, a failed launch beside others",
            "does a block leave while another still uses its memory?",
            "remote_arrive_after_exit", ("hopper_ring", "chain")),
    Symptom("illegal address, at a barrier", "is the barrier alive when the last arrival comes?",
            "invalidated_before_commit", ("barriers", "one_thread_multiplies")),
    Symptom("misaligned address", "is each address a multiple of the access?",
            MISALIGNED, ("threads_and_memory", "copy_engine")),
    Symptom("illegal instruction, no kernel image",
            "for which target was it compiled: sm_90a, or sm_90?",
            PLAIN_TARGET, ("copy_engine", "tensor_memory")),
    Symptom("right for squares alone",
            "has the test extents that all differ, and NaN in its output?",
            "swapped_extents", ("gemm",)),
    Symptom("right and slow", "which counter is not what you predicted?",
            CONFLICTS, ("measuring", "layouts")),
)  # fmt: skip


def own(text: str) -> tuple[str, str]:
    """How a run of one of the three kernels ends, and what is said of it."""
    import numpy as np

    from phasebit.emulator import EmulatorError
    from phasebit.launching.launch import compile
    from phasebit.toolchain import CudaError

    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"
    target = "sm_90" if text is PLAIN_TARGET else None
    sizes = {MISALIGNED: (256, 128), CONFLICTS: (32,)}.get(text, ())
    arrays = [np.zeros(n, np.float32) for n in sizes]
    try:
        module = compile(text, target)
        run = module[module.kernels[0]].launch(1, 32, arrays)
    except EmulatorError as error:
        return type(error).__name__, str(error).split("; ")[0]
    except CudaError as error:
        return "not compiled", str(error).partition(": ")[2] or str(error)
    return "right", f"{run.counters[conflicts]:.0f} bank conflicts in one store of a warp"


@cache
def outcome(program: str) -> bugs.Outcome:
    """A run of a program of ``bugs/`` as it was, under the schedule late."""
    return bugs.bug(program).run()


def verdict(one: Symptom) -> tuple[str, str]:
    """How the run of its program ends; the rule that is broken, with the line, or what is said."""
    if one.program not in bugs.names():
        return own(one.program)
    seen = outcome(one.program)
    ended = "it does not end" if "did not end" in seen.result else seen.result
    if not seen.findings:
        return ended, "nothing: it breaks no rule of the machine"
    bug = bugs.bug(one.program)
    finding = next((each for each in seen.findings if each.rule == bug.rule), seen.findings[0])
    lines = [place.calls[-1].line for place in finding.places if place.calls]
    text = bug.text("broken").splitlines()
    at = f", at {text[lines[0] - 1].strip().split('  //')[0]}" if lines else ""
    return ended, f"{finding.rule}{at}"


def table() -> Table:
    """A row for each symptom."""
    from phasebit.measure import Table

    rows = []
    for one in SYMPTOMS:
        ended, said = verdict(one)
        where = " and ".join(_number(name) for name in one.chapters)
        rows.append((one.seen, one.first, ended, said, where))
    return Table(
        ("you see", "ask first", "the result of such a program", "the emulator says", "chapter"),
        tuple(rows), "each program run here, under the schedule late",
    )  # fmt: skip


def _number(name: str) -> str:
    book = files.book()
    return str(contents.number(contents.notebook(book, name))) if book.is_dir() else name

