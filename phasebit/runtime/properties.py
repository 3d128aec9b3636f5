"""The device that programs see: its name, its limits, its `cudaDeviceProp`.

The limits are those of the compute capability that the program was compiled for
(:mod:`phasebit.emulator.capabilities`). What belongs to a chip and not to a capability is made up
and small. Fields that mean nothing here are 0.
"""

from __future__ import annotations

import struct
from typing import cast

from phasebit.emulator.capabilities import (
    KIB,
    MAX_BLOCK,
    MAX_BLOCK_EXTENTS,
    MAX_GRID,
    MULTIPROCESSORS,
    USUAL_SHARED,
    WARP,
    limits,
)

CLOCK_KHZ = 1_000_000  # a clock of the emulator counts as one nanosecond

# cudaDeviceProp of CUDA 13, field by field: name and struct code (N is size_t). A test compares
# the offsets with the compiler's.
_LAYOUT = """
name 256s
uuid 16s
luid 8s
luidDeviceNodeMask I
totalGlobalMem N
sharedMemPerBlock N
regsPerBlock i
warpSize i
memPitch N
maxThreadsPerBlock i
maxThreadsDim 3i
maxGridSize 3i
totalConstMem N
major i
minor i
textureAlignment N
texturePitchAlignment N
multiProcessorCount i
integrated i
canMapHostMemory i
maxTexture1D i
maxTexture1DMipmap i
maxTexture2D 2i
maxTexture2DMipmap 2i
maxTexture2DLinear 3i
maxTexture2DGather 2i
maxTexture3D 3i
maxTexture3DAlt 3i
maxTextureCubemap i
maxTexture1DLayered 2i
maxTexture2DLayered 3i
maxTextureCubemapLayered 2i
maxSurface1D i
maxSurface2D 2i
maxSurface3D 3i
maxSurface1DLayered 2i
maxSurface2DLayered 3i
maxSurfaceCubemap i
maxSurfaceCubemapLayered 2i
surfaceAlignment N
concurrentKernels i
ECCEnabled i
pciBusID i
pciDeviceID i
pciDomainID i
tccDriver i
asyncEngineCount i
unifiedAddressing i
memoryBusWidth i
l2CacheSize i
persistingL2CacheMaxSize i
maxThreadsPerMultiProcessor i
streamPrioritiesSupported i
globalL1CacheSupported i
localL1CacheSupported i
sharedMemPerMultiprocessor N
regsPerMultiprocessor i
managedMemory i
isMultiGpuBoard i
multiGpuBoardGroupID i
hostNativeAtomicSupported i
pageableMemoryAccess i
concurrentManagedAccess i
computePreemptionSupported i
canUseHostPointerForRegisteredMem i
cooperativeLaunch i
sharedMemPerBlockOptin N
pageableMemoryAccessUsesHostPageTables i
directManagedMemAccessFromHost i
maxBlocksPerMultiProcessor i
accessPolicyMaxWindowSize i
reservedSharedMemPerBlock N
hostRegisterSupported i
sparseCudaArraySupported i
hostRegisterReadOnlySupported i
timelineSemaphoreInteropSupported i
memoryPoolsSupported i
gpuDirectRDMASupported i
gpuDirectRDMAFlushWritesOptions I
gpuDirectRDMAWritesOrdering i
memoryPoolSupportedHandleTypes I
deferredMappingCudaArraySupported i
ipcEventSupported i
clusterLaunch i
unifiedFunctionPointers i
deviceNumaConfig i
deviceNumaId i
mpsEnabled i
hostNumaId i
gpuPciDeviceID I
gpuPciSubsystemID I
hostNumaMultinodeIpcSupported i
reserved 56i
"""

# What CUDA 12 has besides: behind which field, name. Its fields for NUMA came with 13.
_ONLY_12 = {
    "maxGridSize": "clockRate",
    "texturePitchAlignment": "deviceOverlap",
    "multiProcessorCount": "kernelExecTimeoutEnabled",
    "canMapHostMemory": "computeMode",
    "maxTexture1DMipmap": "maxTexture1DLinear",
    "unifiedAddressing": "memoryClockRate",
    "hostNativeAtomicSupported": "singleToDoublePrecisionPerfRatio",
    "cooperativeLaunch": "cooperativeMultiDeviceLaunch",
}
_LAST_OF_12 = "unifiedFunctionPointers"


def layout(version: int = 13) -> tuple[list[str], list[str]]:
    """Names and codes of the fields of `cudaDeviceProp` of CUDA 13 or 12, in order."""
    pairs = [(name, code) for name, code in map(str.split, _LAYOUT.strip().split("\n"))]
    if version == 12:
        last = [name for name, _ in pairs].index(_LAST_OF_12)
        more = [[pair, (_ONLY_12.get(pair[0], ""), "i")] for pair in pairs[: last + 1]]
        pairs = [pair for both in more for pair in both if pair[0]] + [("reserved", "63i")]
    return [name for name, _ in pairs], [code for _, code in pairs]


def properties(capability: int, memory: int) -> dict[str, object]:
    """The values of `cudaDeviceProp` that are not 0. `memory` in bytes."""
    own = limits(capability)
    return {
        "name": f"phasebit emulator (sm_{capability})".encode(),
        "uuid": b"phasebit emulato",
        "totalGlobalMem": memory,
        "sharedMemPerBlock": USUAL_SHARED,
        "regsPerBlock": own.registers,
        "warpSize": WARP,
        "memPitch": 2**31 - 1,
        "maxThreadsPerBlock": MAX_BLOCK,
        "maxThreadsDim": MAX_BLOCK_EXTENTS,
        "maxGridSize": MAX_GRID,
        "totalConstMem": 64 * KIB,
        "major": capability // 10,
        "minor": capability % 10,
        "textureAlignment": 512,
        "texturePitchAlignment": 32,
        "multiProcessorCount": MULTIPROCESSORS,
        "canMapHostMemory": 1,
        "concurrentKernels": 1,
        "asyncEngineCount": 2,
        "unifiedAddressing": 1,
        "memoryBusWidth": 256,
        "l2CacheSize": 4 * KIB * KIB,
        "maxThreadsPerMultiProcessor": own.threads,
        "streamPrioritiesSupported": 1,
        "globalL1CacheSupported": 1,
        "localL1CacheSupported": 1,
        "sharedMemPerMultiprocessor": own.shared,
        "regsPerMultiprocessor": own.registers,
        "managedMemory": 1,
        "concurrentManagedAccess": 1,
        "computePreemptionSupported": 1,
        "cooperativeLaunch": 1,
        "sharedMemPerBlockOptin": own.block_shared,
        "maxBlocksPerMultiProcessor": own.blocks,
        "reservedSharedMemPerBlock": own.reserved_shared,
        "hostRegisterSupported": 1,
        "memoryPoolsSupported": 1,
        "clusterLaunch": int(capability >= 90),
        "deviceNumaId": -1,
        "hostNumaId": -1,
        "clockRate": CLOCK_KHZ,
        "memoryClockRate": CLOCK_KHZ,
        "deviceOverlap": 1,
        "singleToDoublePrecisionPerfRatio": 2,
    }


def properties_bytes(capability: int, memory: int, version: int = 13) -> bytes:
    """`cudaDeviceProp` as a program compiled against CUDA 13, or 12, reads it."""
    values = properties(capability, memory)
    flat: list[object] = []
    names, codes = layout(version)
    for name, code in zip(names, codes, strict=True):
        count = int(code[:-1] or 1) if code[-1] != "s" else 1
        value = values.get(name, b"" if code[-1] == "s" else 0)
        filled = value if isinstance(value, tuple) else (value,) * count
        flat += filled
    # "@": the compiler's own sizes and alignment. The struct ends on a multiple of 8.
    data = struct.pack("@" + "".join(codes), *flat)
    return data + bytes(-len(data) % 8)


# cudaDeviceAttr: number -> field of cudaDeviceProp, an element of one, or a fixed value.
_ATTRIBUTES: dict[int, str | tuple[str, int] | int] = {
    1: "maxThreadsPerBlock",
    2: ("maxThreadsDim", 0),
    3: ("maxThreadsDim", 1),
    4: ("maxThreadsDim", 2),
    5: ("maxGridSize", 0),
    6: ("maxGridSize", 1),
    7: ("maxGridSize", 2),
    8: "sharedMemPerBlock",
    9: "totalConstMem",
    10: "warpSize",
    11: "memPitch",
    12: "regsPerBlock",
    13: CLOCK_KHZ,
    14: "textureAlignment",
    15: 1,
    16: "multiProcessorCount",
    19: "canMapHostMemory",
    31: "concurrentKernels",
    36: CLOCK_KHZ,
    37: "memoryBusWidth",
    38: "l2CacheSize",
    39: "maxThreadsPerMultiProcessor",
    40: "asyncEngineCount",
    41: "unifiedAddressing",
    51: "texturePitchAlignment",
    75: "major",
    76: "minor",
    78: "streamPrioritiesSupported",
    79: "globalL1CacheSupported",
    80: "localL1CacheSupported",
    81: "sharedMemPerMultiprocessor",
    82: "regsPerMultiprocessor",
    83: "managedMemory",
    87: 2,
    89: "concurrentManagedAccess",
    90: "computePreemptionSupported",
    95: "cooperativeLaunch",
    97: "sharedMemPerBlockOptin",
    99: "hostRegisterSupported",
    106: "maxBlocksPerMultiProcessor",
    111: "reservedSharedMemPerBlock",
    115: "memoryPoolsSupported",
    120: "clusterLaunch",
    131: "deviceNumaId",
    134: "hostNumaId",
}
_LAST_ATTRIBUTE = 147


def attribute(number: int, capability: int, memory: int) -> int:
    """One `cudaDeviceAttr`. Raises KeyError for a number that CUDA 13 does not know."""
    if not 1 <= number <= _LAST_ATTRIBUTE:
        raise KeyError(number)
    where = _ATTRIBUTES.get(number, 0)
    if isinstance(where, int):
        return where
    own = properties(capability, memory)
    if isinstance(where, str):
        value = own[where]
    else:
        name, element = where
        value = cast(tuple[int, ...], own[name])[element]
    assert isinstance(value, int)
    return value
