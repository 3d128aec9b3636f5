"""One named barrier for two sets of threads: a warp may be counted with the wrong ones.

``bar.sync 1, 64`` opens when any 64 threads have arrived. Where the halves of two groups of 64
come first, they open it for each other, and each goes on before its own other half has come.
"""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator import Run
from phasebit.launching.launch import compile

pytestmark = pytest.mark.nvcc

SCHEDULES = [("late", 0), ("eager", 0), *(("random", seed) for seed in range(4))]

BODY = """
extern "C" __global__ void exchange(int* out) {{
    __shared__ int tile[128];
    const int t = threadIdx.x, group = t / 64;
    {body}
}}
"""
EXCHANGE = """
    for (int round = 0; round < 3; ++round) {
        tile[t] = t + round;
        asm volatile("bar.sync %0, 64;" :: "r"(NUMBER) : "memory");
        out[t] = tile[t ^ 32];
        asm volatile("bar.sync %0, 64;" :: "r"(NUMBER) : "memory");
    }"""
BY_TURNS = """
    if (group == 0) {
        tile[t] = t;
        asm volatile("bar.sync 1, 64;" ::: "memory");
        out[t] = tile[t ^ 32];
    }
    MIDDLE
    if (group == 1) {
        tile[t] = t;
        asm volatile("bar.sync 1, 64;" ::: "memory");
        out[t] = tile[t ^ 32];
    }"""
HANDED_OVER = """
    if (group == 0) {
        for (int round = 0; round < 3; ++round) {
            asm volatile("bar.sync 2, 128;" ::: "memory");  // empty
            tile[t] = t + round;
            asm volatile("bar.arrive 1, 128;" ::: "memory");  // full
        }
    } else {
        asm volatile("bar.arrive 2, 128;" ::: "memory");
        for (int round = 0; round < 3; ++round) {
            asm volatile("bar.sync 1, 128;" ::: "memory");
            out[t] = tile[t - 64];
            if (round < 2) asm volatile("bar.arrive 2, 128;" ::: "memory");
        }
    }"""


def run(body: str, schedule: str, seed: int) -> Run:
    module = compile(BODY.format(body=body))
    out = np.zeros(128, np.int32)
    return module["exchange"].launch(1, 128, [out], schedule=schedule, seed=seed)


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize(
    "body",
    [
        EXCHANGE.replace("NUMBER", "1"),
        BY_TURNS.replace("MIDDLE", ""),
        BY_TURNS.replace("MIDDLE", "__syncwarp();"),
    ],
    ids=["two groups in a loop", "one group after the other", "after a barrier of the warp"],
)
def test_two_groups_at_one_barrier(body: str, schedule: str, seed: int) -> None:
    findings = run(body, schedule, seed).findings
    assert {"barrier", "race"} <= {finding.kind for finding in findings}
    (misuse, *_) = [finding for finding in findings if finding.kind == "barrier"]
    assert "may be counted in that one" in misuse.message and "barrier 1" in misuse.message


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
@pytest.mark.parametrize(
    "body",
    [
        EXCHANGE.replace("NUMBER", "1 + group"),
        BY_TURNS.replace("MIDDLE", "__syncthreads();"),
        BY_TURNS.replace("MIDDLE", 'asm volatile("bar.sync 3, 128;" ::: "memory");'),
        HANDED_OVER,
        # A warp that is alone is counted with nobody.
        'asm volatile("bar.sync 1, 32;" ::: "memory"); out[t] = t;',
    ],
    ids=["a number for each", "all in between", "all by name", "empty and full", "a warp each"],
)
def test_what_is_right_has_no_finding(body: str, schedule: str, seed: int) -> None:
    assert not run(body, schedule, seed).findings
