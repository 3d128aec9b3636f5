"""Barriers and member masks on divided warps: what is undefined is found, what is legal is not."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from phasebit.emulator import Run
from phasebit.launching.launch import Module, compile

pytestmark = pytest.mark.nvcc

SCHEDULES = [("late", 0), ("eager", 0), *(("random", seed) for seed in range(4))]

LEGAL = {
    "return before a barrier": """
        if (i >= n) return;
        tile[t] = in[i]; __syncthreads(); out[i] = tile[t ^ 1];""",
    "work, then a return before a barrier": """
        if (i >= n) { out[i] = -1; return; }
        tile[t] = in[i]; __syncthreads(); out[i] = tile[t ^ 1];""",
    "return before a warp's barrier and a shuffle": """
        if (i >= n) return;
        tile[t] = in[i]; __syncwarp();
        out[i] = tile[t ^ 1] + __shfl_sync(0xffffffff, in[i], 0);""",
    "a warp returns, the others meet in a loop": """
        if (t / 32 == 1) return;
        for (int k = 0; k < in[3]; ++k) {
            __syncthreads(); tile[t] = in[i] + k; __syncthreads(); out[i] = tile[t ^ 1];
        }""",
    "a return inside the branch of one warp": """
        if (t / 32 == 0) {
            if (t >= 16) return;
            __syncwarp();
            out[i] = 1;
        }
        out[i] += 2;""",
    "a mask for each half": """
        const unsigned half = t % 32 < 16 ? 0xffff : 0xffff0000;
        if (t % 32 < 16) out[i] = __shfl_xor_sync(half, in[i], 1);
        else out[i] = __shfl_xor_sync(half, in[i], 2);
        __syncwarp();""",
    "masks from match": """
        const unsigned same = __match_any_sync(0xffffffff, in[i] % 3);
        out[i] = __reduce_add_sync(same, in[i]);""",
    "one lane works between the barriers": """
        for (int k = 0; k < 3; ++k) {
            if (t % 32 == 0) for (int j = 0; j < in[5]; ++j) tile[t] = in[i] + j + k;
            __syncwarp();
            out[i] = tile[t / 32 * 32];
            __syncthreads();
        }""",
    "divided, and together again": """
        int sum = 0;
        for (int k = 0; k < in[t % 8]; ++k) sum += k;
        tile[t] = sum; __syncthreads(); out[i] = tile[t ^ 1];""",
}

MISTAKES = {
    "a loop with a barrier that some lanes leave first": """
        for (int k = 0; k < in[t % 32 / 16]; ++k) {
            tile[t] = k;
            __syncthreads();  // <-
        }
        out[i] = tile[t];""",
    "half of a warp goes around, and on through a branch": """
        if (t % 32 < 16) __syncthreads();  // <-
        if (in[i] % 3) out[i] = 1; else out[i] = 2;
        if (in[i] % 5) out[i] += 1;""",
    "a vote that names lanes which go around it": """
        int all = 0;
        if (t % 2) all = __all_sync(0xffffffff, in[i]);  // <-
        out[i] = all;""",
    "a shuffle that leaves oneself out": """
        out[i] = __shfl_sync(0xfffffffe, in[i], 1);  // <-""",
    "two masks in one shuffle": """
        const unsigned mask = t % 32 ? 0xffffffff : 3;
        out[i] = __shfl_sync(mask, in[i], 1);  // <-""",
}


@functools.cache
def module() -> Module:
    text = "".join(
        f'extern "C" __global__ void {name(what)}(const int* in, int* out, int n) {{\n'
        "    __shared__ int tile[64];\n"
        f"    const int t = threadIdx.x, i = blockIdx.x * 64 + t;{body}\n}}\n"
        for what, body in (LEGAL | MISTAKES).items()
    )
    return compile('#line 1 "warps.cu"\n' + text, "sm_80", ["-lineinfo"])


def name(what: str) -> str:
    return what.replace(" ", "_").replace(",", "").replace("'", "")


def launch(what: str, schedule: tuple[str, int]) -> Run:
    data, out = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    return module()[name(what)].launch(
        2, 64, [data, out, 103], schedule=schedule[0], seed=schedule[1], max_steps=20_000
    )


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{s[0]}{s[1]}")
class TestWarps:
    @pytest.mark.parametrize("what", LEGAL)
    def test_legal(self, what: str, schedule: tuple[str, int]) -> None:
        findings = [h for h in launch(what, schedule).findings if h.kind == "barrier"]
        assert not findings

    @pytest.mark.parametrize("what", MISTAKES)
    def test_found(self, what: str, schedule: tuple[str, int]) -> None:
        findings = [h for h in launch(what, schedule).findings if h.kind == "barrier"]
        body = MISTAKES[what].splitlines()
        (marked,) = (number for number, line in enumerate(body) if "// <-" in line)
        before = sum(
            len(text.splitlines()) + 3 for text in [*LEGAL.values(), *MISTAKES.values()][
                : [*LEGAL, *MISTAKES].index(what)
            ]
        )  # fmt: skip
        assert {h.source for h in findings} == {f"warps.cu:{before + 3 + marked}"}
