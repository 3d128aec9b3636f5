"""The device's numbers, and how many blocks fit."""

from __future__ import annotations

import struct
import subprocess

import pytest

from phasebit import toolchain
from phasebit.runtime import properties as device
from phasebit.runtime.library import SOURCES

CAPABILITIES = (75, 80, 86, 89, 90, 100, 120)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_properties_pack_into_the_structures_size(capability):
    assert len(device.properties_bytes(capability, 1 << 32)) == 1008
    names = device.layout()[0]
    assert set(device.properties(capability, 1)) <= {*names, *device.layout(12)[0]}
    assert len(set(names)) == len(names)


def test_the_structure_of_cuda_12():
    """Size and offsets: gcc's, with the header of the package nvidia-cuda-runtime-cu12 12.9."""
    names, codes = device.layout(12)
    offsets = {"multiProcessorCount": 388, "l2CacheSize": 616, "sharedMemPerBlockOptin": 696,
               "clusterLaunch": 772}  # fmt: skip
    for name, offset in offsets.items():
        before = codes[: names.index(name)]
        assert struct.calcsize("@" + "".join(before) + "0" + codes[names.index(name)]) == offset
    assert len(device.properties_bytes(90, 1 << 32, 12)) == 1032
    assert set(names) - set(device.layout()[0]) == {
        "clockRate", "deviceOverlap", "kernelExecTimeoutEnabled", "computeMode",
        "maxTexture1DLinear", "memoryClockRate", "singleToDoublePrecisionPerfRatio",
        "cooperativeMultiDeviceLaunch",
    }  # fmt: skip


def test_no_attribute_past_the_last():
    for number in (0, -1, 148, 9999):
        with pytest.raises(KeyError):
            device.attribute(number, 90, 1)
    assert device.attribute(10, 90, 1) == 32


def unpacked(capability: int, version: int = 13) -> dict[str, list[object]]:
    """The structure as a program reads it: field -> its elements."""
    names, codes = device.layout(version)
    data = device.properties_bytes(capability, 12345, version)
    values = list(struct.unpack_from("@" + "".join(codes), data))
    found: dict[str, list[object]] = {}
    for name, code in zip(names, codes, strict=True):
        count = int(code[:-1] or 1) if code[-1] != "s" else 1
        found[name], values = values[:count], values[count:]
    assert not values
    return found


@pytest.mark.parametrize(("capability", "differs"), [
    (75, {"regsPerBlock": [65536], "sharedMemPerMultiprocessor": [65536], "major": [7],
          "minor": [5], "sharedMemPerBlockOptin": [65536], "maxThreadsPerMultiProcessor": [1024],
          "maxBlocksPerMultiProcessor": [16], "reservedSharedMemPerBlock": [0],
          "clusterLaunch": [0]}),
    (89, {"sharedMemPerMultiprocessor": [102400], "major": [8], "minor": [9], "clusterLaunch": [0],
          "sharedMemPerBlockOptin": [101376], "maxThreadsPerMultiProcessor": [1536],
          "maxBlocksPerMultiProcessor": [24]}),
    (90, {}), (100, {"major": [10], "minor": [0]}),
])  # fmt: skip
@pytest.mark.parametrize("version", [12, 13])
def test_every_field_of_the_properties(
    capability: int, differs: dict[str, list[int]], version: int
) -> None:
    expected = {
        "name": [f"phasebit emulator (sm_{capability})".encode().ljust(256, b"\0")],
        "uuid": [b"phasebit emulato"], "totalGlobalMem": [12345], "sharedMemPerBlock": [49152],
        "regsPerBlock": [65536], "warpSize": [32], "memPitch": [2**31 - 1],
        "maxThreadsPerBlock": [1024], "maxThreadsDim": [1024, 1024, 64],
        "maxGridSize": [2**31 - 1, 65535, 65535], "totalConstMem": [65536], "major": [9],
        "minor": [0], "textureAlignment": [512], "texturePitchAlignment": [32],
        "multiProcessorCount": [8], "canMapHostMemory": [1], "concurrentKernels": [1],
        "asyncEngineCount": [2], "unifiedAddressing": [1], "memoryBusWidth": [256],
        "l2CacheSize": [4194304], "maxThreadsPerMultiProcessor": [2048],
        "streamPrioritiesSupported": [1], "globalL1CacheSupported": [1],
        "localL1CacheSupported": [1], "sharedMemPerMultiprocessor": [233472],
        "regsPerMultiprocessor": [65536], "managedMemory": [1], "concurrentManagedAccess": [1],
        "computePreemptionSupported": [1], "cooperativeLaunch": [1],
        "sharedMemPerBlockOptin": [232448], "maxBlocksPerMultiProcessor": [32],
        "reservedSharedMemPerBlock": [1024], "hostRegisterSupported": [1],
        "memoryPoolsSupported": [1], "clusterLaunch": [1], "luid": [bytes(8)],
    } | differs  # fmt: skip
    if version == 13:
        expected |= {"deviceNumaId": [-1], "hostNumaId": [-1]}
    else:
        expected |= {"clockRate": [10**6], "memoryClockRate": [10**6], "deviceOverlap": [1],
                     "singleToDoublePrecisionPerfRatio": [2]}  # fmt: skip
    found = unpacked(capability, version)
    assert {name: value for name, value in found.items() if name in expected} == expected
    assert not any(any(value) for name, value in found.items() if name not in expected)


ATTRIBUTES = {
    1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 2**31 - 1, 6: 65535, 7: 65535, 8: 49152, 9: 65536, 10: 32,
    11: 2**31 - 1, 12: 65536, 13: 10**6, 14: 512, 15: 1, 16: 8, 19: 1, 31: 1, 36: 10**6, 37: 256,
    38: 4194304, 39: 2048, 40: 2, 41: 1, 51: 32, 75: 9, 76: 0, 78: 1, 79: 1, 80: 1, 81: 233472,
    82: 65536, 83: 1, 87: 2, 89: 1, 90: 1, 95: 1, 97: 232448, 99: 1, 106: 32, 111: 1024, 115: 1,
    120: 1, 131: -1, 134: -1,
}  # fmt: skip
"""cudaDeviceAttr of sm_90 that are not 0, by the numbers of the toolkit's driver_types.h."""


def test_every_attribute() -> None:
    for number in range(1, 148):
        assert device.attribute(number, 90, 1) == ATTRIBUTES.get(number, 0), number


def test_an_extent_has_an_attribute_for_each_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    extents = {"maxThreadsDim": (5, 6, 7), "maxGridSize": (8, 9, 10)}
    monkeypatch.setattr(device, "properties", lambda capability, memory: extents)
    assert [device.attribute(number, 90, 1) for number in range(2, 8)] == [5, 6, 7, 8, 9, 10]


@pytest.mark.nvcc
def test_layouts_are_those_of_the_toolkits_headers(tmp_path):
    """cudaDeviceProp as device.py has it, the structures of abi.h, and every error's number."""
    try:
        nvcc, major = toolchain.nvcc().path, toolchain.nvcc().major
    except toolchain.ToolMissing as error:
        pytest.skip(str(error))
    names, codes = device.layout(major)
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
    for name in names[:-1]:  # the last is what is reserved
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
        if (structure, major) == ("cudaPointerAttributes", 12):
            lines.append("static_assert(sizeof(::cudaPointerAttributes) == 24);")
            continue
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
    if major == 12:
        newer |= {
            "cudaErrorContained",
            "cudaErrorTensorMemoryLeak",
            "cudaErrorFunctionNotLoaded",
            "cudaErrorInvalidResourceType",
            "cudaErrorInvalidResourceConfiguration",
        }
    for line in (SOURCES / "errors.h").read_text().splitlines():
        if line.startswith("X("):
            name, number = line[2:].split(", ")[:2]
            if name not in newer:
                lines.append(f"static_assert(int(::{name}) == {number});")
    source = tmp_path / "layout.cpp"
    source.write_text("\n".join(lines) + "\nint main() {}\n")
    command = [nvcc, "-std=c++17", "-c", source, "-o", tmp_path / "layout.o"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # Planted: one field less must be noticed.
    source.write_text(source.read_text().replace("  int warpSize;\n", ""))
    assert subprocess.run(command, capture_output=True).returncode != 0
