"""A ring that the copy engine fills, in a cluster that shares each tile by multicast.

Each block of the cluster loads a part of every tile and multicasts it to all; a slot is empty
again when the consumers of *all* blocks have said so, to every block's barrier.  The kernel has
everything that is easily got wrong at once: remote arrivals, barriers that several copies
count, parities, and blocks that must not leave early.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phasebit as pb
from phasebit.edits import replace_once
from phasebit.emulator import Run
from phasebit.emulator.errors import Deadlock, Fault, StepLimit
from phasebit.launching.launch import compile

SOURCE = """
#include "ptx_sm90.cuh"
constexpr int STAGES = 3, ROWS = 32, COLS = 32;  // a tile of ints: rows of 128 bytes
#ifndef CLUSTER
#define CLUSTER 2
#endif
extern "C" __global__ void __launch_bounds__(96)
sums(const __grid_constant__ CUtensorMap in, int tiles, int* out) {
    __shared__ alignas(1024) int tile[STAGES][ROWS * COLS];
    __shared__ unsigned long long full[STAGES], empty[STAGES];
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            ptx::mbarrier_init(&full[s], 1);
            ptx::mbarrier_init(&empty[s], 2 * CLUSTER);  // a warp each, of all blocks
        }
        ptx::fence_mbarrier_init();
    }
    ptx::cluster_arrive();
    ptx::cluster_wait();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    constexpr int PART = ROWS / CLUSTER;
    int sum = 0;
    if (warp == 2) {
        if (lane == 0)
            for (int i = 0; i < tiles; ++i) {
                const int s = i % STAGES, round = i / STAGES;
                ptx::mbarrier_wait(&empty[s], (round & 1) ^ 1);
                ptx::mbarrier_arrive_expect_tx(&full[s], sizeof tile[s]);
                ptx::cp_async_bulk_tensor_multicast(
                    &tile[s][rank * PART * COLS], in, 0, i * ROWS + rank * PART, &full[s],
                    (1 << CLUSTER) - 1);
            }
    } else {
        for (int i = 0; i < tiles; ++i) {
            const int s = i % STAGES, round = i / STAGES;
            ptx::mbarrier_wait(&full[s], round & 1);
            for (int row = warp; row < ROWS; row += 2)
                sum += (rank + 1) * tile[s][row * COLS + (lane ^ (row % 8 * 4))];  // the swizzle
            __syncwarp();
            if (lane == 0)
                for (int to = 0; to < CLUSTER; ++to) ptx::mbarrier_arrive_at(&empty[s], to);
        }
        atomicAdd(&out[blockIdx.x * 32 + lane], sum);
    }
    ptx::cluster_arrive();
    ptx::cluster_wait();
}
"""

pytestmark = pytest.mark.nvcc


def launch(
    source: str = SOURCE, cluster: int = 2, tiles: int = 8, **options: Any
) -> tuple[Run, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The run, what it gave, what it should have given."""
    data = np.random.default_rng(3).integers(-1000, 1000, (32 * tiles, 32), dtype=np.int32)
    out = np.zeros((2 * cluster, 32), np.int32)
    kernel = compile(source, "sm_90a", [f"-DCLUSTER={cluster}"])["sums"]
    made = pb.TensorMap(data, (32, 32 // cluster), swizzle="128B")
    run = kernel.launch(2 * cluster, 96, [made, tiles, out], cluster=cluster, **options)
    ranks = np.arange(2 * cluster) % cluster + 1
    return run, out, ranks[:, None] * data.sum(axis=0)[None, :]


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_right_and_without_findings(cluster: int, schedule: str) -> None:
    run, out, wanted = launch(cluster=cluster, schedule=schedule)
    assert np.array_equal(out, wanted)
    assert not run.findings


MISTAKES = {
    "the producer does not wait": ("ptx::mbarrier_wait(&empty[s], (round & 1) ^ 1);", ""),
    "the other parity": ("(round & 1) ^ 1", "round & 1"),
    "the consumers do not wait": ("ptx::mbarrier_wait(&full[s], round & 1);", ""),
    "only the own block is told": (
        "for (int to = 0; to < CLUSTER; ++to) ptx::mbarrier_arrive_at(&empty[s], to);",
        "ptx::mbarrier_arrive(&empty[s]), ptx::mbarrier_arrive(&empty[s]);",
    ),
    "the warp is not together": ("__syncwarp();", ""),
    "barriers not seen by the others": (
        "    ptx::cluster_arrive();\n    ptx::cluster_wait();\n    const", "    const"),
    "a block leaves early": ("    ptx::cluster_arrive();\n    ptx::cluster_wait();\n}", "}"),
    "only its own part is expected": ("sizeof tile[s]);", "sizeof tile[s] / CLUSTER);"),
    "one arrival too many": ("2 * CLUSTER);", "2 * CLUSTER + 1);"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name: str) -> None:
    old, new = MISTAKES[name]
    text = replace_once(SOURCE, old, new)
    try:
        run, _, _ = launch(text, schedule="late", max_steps=5000)
        assert run.findings
    except (Deadlock, Fault, StepLimit):
        pass
