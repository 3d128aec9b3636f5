"""The device's numbers, and how many blocks fit."""

from __future__ import annotations

import subprocess

import pytest

from phasebit import toolchain
from phasebit.runtime import device, occupancy
from phasebit.runtime.library import SOURCES

CAPABILITIES = (75, 80, 86, 89, 90, 100, 120)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_properties_pack_into_the_structures_size(capability):
    assert len(device.properties_bytes(capability, 1 << 32)) == 1008
    names, _ = device.layout()
    assert set(device.properties(capability, 1)) <= set(names)
    assert len(set(names)) == len(names)


def test_no_attribute_past_the_last():
    for number in (0, -1, 148, 9999):
        with pytest.raises(KeyError):
            device.attribute(number, 90, 1)
    assert device.attribute(10, 90, 1) == 32


def test_unknown_capability_has_the_limits_of_an_older_one():
    assert device.limits(95) == device.limits(90)
    assert device.limits(60) == device.limits(75)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_occupancy_against_counting(capability):
    """Blocks are added one by one until one no longer fits."""
    own = device.limits(capability)
    for threads in (1, 31, 32, 33, 96, 128, 250, 256, 384, 512, 768, 1000, 1024):
        for registers in (16, 32, 40, 63, 64, 128):
            for shared in (0, 1, 1000, 16384, 49152, own.block_shared):
                warps = -(-threads // 32)
                a_warp = -(-registers * 32 // 256) * 256
                files = [own.registers // 4] * 4
                blocks = 0
                taken = -(-(shared + own.reserved_shared) // 128) * 128
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
                got = occupancy.blocks_per_multiprocessor(own, registers, shared, threads)
                assert got == blocks, (threads, registers, shared)


def test_nothing_fits():
    own = device.limits(90)
    assert occupancy.blocks_per_multiprocessor(own, 32, 0, 0) == 0
    assert occupancy.blocks_per_multiprocessor(own, 32, 0, 1025) == 0
    assert occupancy.blocks_per_multiprocessor(own, 32, own.block_shared + 1, 32) == 0


@pytest.mark.parametrize("blocks", range(1, 33))
def test_shared_memory_left_is_as_much_as_fits(blocks):
    own = device.limits(90)
    static = 512
    left = occupancy.shared_for_blocks(own, blocks, static)
    fits = occupancy.blocks_per_multiprocessor
    assert fits(own, 16, static + left, 32) >= blocks
    if left + static < own.block_shared:
        assert fits(own, 16, static + left + 128, 32) < blocks


@pytest.mark.nvcc
def test_layouts_are_those_of_the_toolkits_headers(tmp_path):
    """cudaDeviceProp as device.py has it, the structures of abi.h, and every error's number."""
    names, codes = device.layout()
    # Ours first: some of these names are macros in the toolkit's headers.
    lines = ["#include <cstddef>", "#include <cstdint>", "namespace ours {"]
    types = {"i": "int", "I": "unsigned", "N": "size_t"}
    fields = []
    for name, code in zip(names, codes, strict=True):
        kind, count = types.get(code[-1], "char"), code[:-1]
        fields.append(f"  {kind} {name}{f'[{count}]' if count else ''};")
    lines += ["struct Prop {", *fields, "};"]
    # abi.h in a namespace, so that its names stand beside CUDA's
    abi = (SOURCES / "abi.h").read_text().replace("#pragma once", "")
    lines += [line for line in abi.splitlines() if not line.startswith("#define")]
    lines += ["}", "#include <cuda_runtime.h>"]
    lines += ["static_assert(sizeof(ours::Prop) == sizeof(cudaDeviceProp));"]
    for name in names:
        lines.append(
            f"static_assert(offsetof(ours::Prop, {name}) == offsetof(cudaDeviceProp, {name}));"
        )
    structures = {
        "cudaFuncAttributes": "sharedSizeBytes numRegs maxDynamicSharedSizeBytes"
        " requiredClusterWidth nonPortableClusterSizeAllowed",
        "cudaPointerAttributes": "type device devicePointer hostPointer",
        "cudaLaunchConfig_t": "gridDim blockDim dynamicSmemBytes stream attrs numAttrs",
        "cudaLaunchAttribute": "id val",
        "cudaMemcpy3DParms": "srcArray srcPos srcPtr dstArray dstPos dstPtr extent kind",
        "cudaPitchedPtr": "ptr pitch xsize ysize",
        "cudaExtent": "width height depth",
        "cudaMemLocation": "type id",
        "cudaKernelNodeParams": "func gridDim blockDim sharedMemBytes kernelParams",
        "cudaMemsetParams": "dst pitch value elementSize width height",
        "cudaHostNodeParams": "fn userData",
    }
    for structure, members in structures.items():
        lines.append(f"static_assert(sizeof(ours::{structure}) == sizeof(::{structure}));")
        for member in members.split():
            lines.append(
                f"static_assert(offsetof(ours::{structure}, {member}) == "
                f"offsetof(::{structure}, {member}));"
            )
    for line in abi.splitlines():  # the enumerations
        name, _, value = line.strip().rstrip(",").partition(" = ")
        if name.startswith("cuda") and value.isdigit() and " " not in name:
            lines.append(f"static_assert(int(ours::{name}) == int(::{name}));")
    newer = {"cudaErrorVersionTranslation", "cudaErrorInsufficientLoaderVersion"}
    newer |= {
        "cudaErrorStreamDetached",
        "cudaErrorGraphRecaptureFailure",
        "cudaErrorFabricNotReady",
    }
    for line in (SOURCES / "errors.h").read_text().splitlines():
        if line.startswith("X("):
            name, number = line[2:].split(", ")[:2]
            if name not in newer:
                lines.append(f"static_assert(int(::{name}) == {number});")
    source = tmp_path / "layout.cpp"
    source.write_text("\n".join(lines) + "\nint main() {}\n")
    try:
        nvcc = toolchain.nvcc().path
    except toolchain.ToolMissing as error:
        pytest.skip(str(error))
    command = [nvcc, "-std=c++17", "-c", source, "-o", tmp_path / "layout.o"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # Planted: one field less must be noticed.
    source.write_text(source.read_text().replace("  int warpSize;\n", ""))
    assert subprocess.run(command, capture_output=True).returncode != 0
