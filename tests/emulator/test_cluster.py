"""Clusters: blocks that reach each other's shared memory, and the cluster barrier."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from phasebit.emulator.launch import compile

SOURCE = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
// Each block takes its neighbour's tile from distributed shared memory.
extern "C" __global__ void ring(const int* in, int* out) {
    __shared__ int tile[64];
    cg::cluster_group cluster = cg::this_cluster();
    unsigned rank = cluster.block_rank(), next = (rank + 1) % cluster.num_blocks();
    tile[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
    cluster.sync();
    int* other = cluster.map_shared_rank(tile, next);
    int x = other[threadIdx.x ^ 1];
    atomicAdd(&other[threadIdx.x], 1000);
    cluster.sync();
    out[blockIdx.x * 64 + threadIdx.x] = x + tile[threadIdx.x];
}
"""

pytestmark = [
    pytest.mark.nvcc,
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH"),
]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_distributed_shared_memory(size: int) -> None:
    data = np.arange(512, dtype=np.int32)
    out = np.zeros(512, np.int32)
    run = compile(SOURCE, "sm_90a")["ring"].launch(8, 64, [data, out], cluster=size)
    blocks = data.reshape(8 // size, size, 64)
    neighbour = np.roll(blocks, -1, axis=1)[:, :, np.arange(64) ^ 1]
    assert np.array_equal(out.reshape(8 // size, size, 64), neighbour + blocks + 1000)
    assert not [h for h in run.hazards if "atom" not in str(h)], run.hazards
