"""Occupancy against counting blocks one by one, and against the toolkit's ``cuda_occupancy.h``.

What the runtime says on a GPU is compared in ``test_threads_and_memory.py``.
"""

from __future__ import annotations

import subprocess

import pytest

from phasebit import Module, occupancy, toolchain
from phasebit.emulator import LaunchError, capabilities
from phasebit.runtime import properties

CAPABILITIES = (75, 80, 86, 88, 89, 90, 100, 120)


def test_unknown_capability_has_the_limits_of_an_older_one() -> None:
    assert occupancy.limits(95) == occupancy.limits(90)
    assert occupancy.limits(60) == occupancy.limits(75)


@pytest.mark.nvcc
def test_the_table_has_every_target_of_the_compiler() -> None:
    numbers = {capabilities.capability(target) for target in toolchain.nvcc().targets}
    assert numbers <= set(occupancy.LIMITS)


@pytest.mark.parametrize("number", occupancy.LIMITS)
def test_a_block_may_have_as_much_shared_memory_as_the_device_says(number: int) -> None:
    module = Module(f".version 9.0\n.target sm_{number}\n.address_size 64\n"
                    ".visible .entry nothing() { ret; }")  # fmt: skip
    most = properties.attribute(97, number, 1 << 30)  # cudaDevAttrMaxSharedMemoryPerBlockOptin
    module["nothing"].launch(1, 32, [], shared=most)
    with pytest.raises(LaunchError, match=f"are more than the {most} of sm_{number}"):
        module["nothing"].launch(1, 32, [], shared=most + 1)


def test_a_word_that_is_no_target() -> None:
    with pytest.raises(ValueError, match="'gfx942' is not a target"):
        capabilities.capability("gfx942")


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_occupancy_against_counting(capability: int) -> None:
    """Blocks are added one by one until one no longer fits."""
    own = occupancy.limits(capability)
    for threads in (1, 31, 32, 33, 96, 128, 250, 256, 384, 512, 768, 1000, 1024):
        for registers in (16, 32, 40, 63, 64, 128):
            for shared in (0, 1, 1000, 16384, 49152, own.block_shared):
                warps = -(-threads // 32)
                a_warp = -(-registers * 32 // 256) * 256
                files = [own.registers // 4] * 4
                blocks = 0
                taken = -(-(shared + own.reserved_shared) // own.shared_unit) * own.shared_unit
                while True:
                    placed = 0
                    trial = list(files)
                    while placed < warps and max(trial) >= a_warp:
                        trial[trial.index(max(trial))] -= a_warp
                        placed += 1
                    if (
                        placed < warps
                        or blocks == own.blocks
                        or (blocks + 1) * warps > own.threads // 32
                        or (blocks + 1) * taken > own.shared
                    ):
                        break
                    files = trial
                    blocks += 1
                got = occupancy.occupancy(own, registers, shared, threads).blocks
                assert got == blocks, (threads, registers, shared)


def test_nothing_fits() -> None:
    own = occupancy.limits(90)
    assert occupancy.occupancy(own, 32, 0, 0).blocks == 0
    assert occupancy.occupancy(own, 32, 0, 1025).blocks == 0
    assert occupancy.occupancy(own, 32, own.block_shared + 1, 32).blocks == 0


@pytest.mark.parametrize("blocks", range(1, 33))
def test_shared_memory_left_is_as_much_as_fits(blocks: int) -> None:
    own = occupancy.limits(90)
    static = 512
    left = occupancy.shared_for_blocks(own, blocks, static)
    assert occupancy.occupancy(own, 16, static + left, 32).blocks >= blocks
    if left + static < own.block_shared:
        assert occupancy.occupancy(own, 16, static + left + 128, 32).blocks < blocks


def test_what_limits_is_named() -> None:
    own = occupancy.limits(90)
    assert occupancy.occupancy(own, 32, 0, 256).limited_by == ("threads", "registers")
    assert occupancy.occupancy(own, 16, 100_000, 64).limited_by == ("shared memory",)
    assert occupancy.occupancy(own, 16, 0, 32).limited_by == ("blocks",)
    assert occupancy.occupancy(own, 16, 0, 32).share == 0.5


# NVIDIA's calculator is a header that needs no GPU. It knows the units and the numbers of blocks
# by itself; what a multiprocessor holds it is told.
CALCULATOR = """
#include <cstddef>
#include <cstdio>
#include "cuda_occupancy.h"
int main() {
    int major, minor, threads_most, registers_most, reserved, registers, threads;
    long shared_most, shared_block, shared;
    while (scanf("%d %d %d %d %ld %ld %d %d %ld %d", &major, &minor, &threads_most,
                 &registers_most, &shared_most, &shared_block, &reserved, &registers, &shared,
                 &threads) == 10) {
        cudaOccDeviceProp device;
        device.computeMajor = major, device.computeMinor = minor;
        device.maxThreadsPerBlock = 1024, device.maxThreadsPerMultiprocessor = threads_most;
        device.regsPerBlock = device.regsPerMultiprocessor = registers_most;
        device.warpSize = 32, device.numSms = 1;
        device.sharedMemPerBlock = 48 << 10, device.sharedMemPerBlockOptin = shared_block;
        device.sharedMemPerMultiprocessor = shared_most;
        device.reservedSharedMemPerBlock = reserved;
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = 1024, kernel.numRegs = registers;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.maxDynamicSharedSizeBytes = shared_block, kernel.numBlockBarriers = 1;
        cudaOccDeviceState state;
        cudaOccResult result;
        if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads,
                                                    shared))
            return 1;
        printf("%d\\n", result.activeBlocksPerMultiprocessor);
    }
}
"""


@pytest.mark.nvcc
def test_as_the_toolkits_own_calculator() -> None:
    program = toolchain.build(CALCULATOR).program
    cases = [
        (capability, registers, shared, threads)
        for capability in CAPABILITIES
        for registers in (16, 32, 33, 40, 64, 96, 128, 168, 255)
        for shared in (0, 1, 1000, 9300, 20000, 48 << 10, occupancy.limits(capability).block_shared)
        for threads in (1, 32, 33, 64, 128, 160, 256, 384, 512, 768, 1000, 1024)
    ]
    lines = []
    for capability, *case in cases:
        own = occupancy.limits(capability)
        told = (own.threads, own.registers, own.shared, own.block_shared, own.reserved_shared)
        lines.append(" ".join(map(str, (*divmod(capability, 10), *told, *case))))
    answer = subprocess.run(
        [program], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    theirs = [int(line) for line in answer.stdout.split()]
    ours = [occupancy.occupancy(occupancy.limits(c), *case).blocks for c, *case in cases]
    different = [(*case, a, b) for case, a, b in zip(cases, ours, theirs, strict=True) if a != b]
    assert len(cases) > 5000 and different == []
