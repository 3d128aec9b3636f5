"""Random tensor maps, the kernels that copy by them, and an oracle with plain loops.

The kernels move one box: ``load`` from the tensor to shared memory, whose raw bytes it then
shows; ``store`` and ``add`` from raw bytes in shared memory to the tensor.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasebit.emulator.copy_engine.tensormap import BITS, TensorMap
from phasebit.launching.launch import Kernel, compile

SPANS = {"none": 256, "32B": 32, "64B": 64, "128B": 128, "128B_ATOM_32B": 128,
         "128B_ATOM_32B_FLIP_8B": 128, "128B_ATOM_64B": 128}  # fmt: skip
HOPPER = ("none", "32B", "64B", "128B")
"""Swizzles that sm_90 has; those of other atoms came with sm_100."""

SOURCE = r"""
#include <cuda.h>
__device__ unsigned address(const void* p) { return __cvta_generic_to_shared(p); }
struct Where { int c[5]; };
#define C1(w) "r"(w.c[0])
#define C2(w) C1(w), "r"(w.c[1])
#define C3(w) C2(w), "r"(w.c[2])
#define C4(w) C3(w), "r"(w.c[3])
#define C5(w) C4(w), "r"(w.c[4])

#define KERNELS(N, NAMES, COORDS)                                                               \
extern "C" __global__ void load##N(const __grid_constant__ CUtensorMap map, Where w, int bytes, \
                                   int shown, int offset, int* out) {                           \
    extern __shared__ __align__(1024) char room[];                                              \
    __shared__ unsigned long long full;                                                         \
    int* tile = (int*)(room + offset);                                                          \
    for (int i = threadIdx.x; i < (shown + offset) / 4; i += 32) ((int*)room)[i] = 0x5a5a5a5a;  \
    asm volatile("fence.proxy.async;" ::: "memory");                                            \
    if (threadIdx.x == 0) {                                                                     \
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(address(&full)));          \
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");                      \
    }                                                                                           \
    __syncthreads();                                                                            \
    if (threadIdx.x == 0) {                                                                     \
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"                   \
                     :: "r"(address(&full)), "r"(bytes) : "memory");                            \
        asm volatile("cp.async.bulk.tensor." #N "d.shared::cluster.global.tile"                 \
                     ".mbarrier::complete_tx::bytes [%0], [%1, {" NAMES "}], [%2];"             \
                     :: "r"(address(tile)), "l"(&map), "r"(address(&full)), COORDS(w)           \
                     : "memory");                                                               \
    }                                                                                           \
    asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;"      \
                 " @!p bra L; }" :: "r"(address(&full)) : "memory");                            \
    for (int i = threadIdx.x; i < shown / 4; i += 32) out[i] = tile[i];                         \
}                                                                                               \
extern "C" __global__ void store##N(const __grid_constant__ CUtensorMap map, Where w, int bytes,\
                                    int shown, int offset, const int* in) {                     \
    extern __shared__ __align__(1024) char room[];                                              \
    int* tile = (int*)(room + offset);                                                          \
    for (int i = threadIdx.x; i < shown / 4; i += 32) tile[i] = in[i];                          \
    asm volatile("fence.proxy.async;" ::: "memory");                                            \
    __syncthreads();                                                                            \
    if (threadIdx.x == 0) {                                                                     \
        asm volatile("cp.async.bulk.tensor." #N "d.global.shared::cta.tile.bulk_group"          \
                     " [%0, {" NAMES "}], [%1];"                                                \
                     :: "l"(&map), "r"(address(tile)), "r"(0), COORDS(w) : "memory");           \
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");                               \
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");                               \
    }                                                                                           \
}                                                                                               \
extern "C" __global__ void add##N(const __grid_constant__ CUtensorMap map, Where w, int bytes,  \
                                  int shown, int offset, const int* in) {                       \
    extern __shared__ __align__(1024) char room[];                                              \
    int* tile = (int*)(room + offset);                                                          \
    for (int i = threadIdx.x; i < shown / 4; i += 32) tile[i] = in[i];                          \
    asm volatile("fence.proxy.async;" ::: "memory");                                            \
    __syncthreads();                                                                            \
    if (threadIdx.x == 0) {                                                                     \
        asm volatile("cp.reduce.async.bulk.tensor." #N "d.global.shared::cta.add.tile.bulk_group"\
                     " [%0, {" NAMES "}], [%1];"                                                \
                     :: "l"(&map), "r"(address(tile)), "r"(0), COORDS(w) : "memory");           \
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");                               \
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");                               \
    }                                                                                           \
}
KERNELS(1, "%3", C1)
KERNELS(2, "%3, %4", C2)
KERNELS(3, "%3, %4, %5", C3)
KERNELS(4, "%3, %4, %5, %6", C4)
KERNELS(5, "%3, %4, %5, %6, %7", C5)
"""


@dataclass
class Case:
    """One box of one tensor."""

    data_type: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    at: tuple[int, ...]
    swizzle: str
    fill: str
    offset: int
    """Where in shared memory the tile begins, in bytes."""
    data: np.ndarray[Any, Any] = field(repr=False)
    """The memory that holds the tensor."""

    @property
    def size(self) -> int:
        return BITS.get(self.data_type, 32) // 8

    def map(self) -> TensorMap:
        return TensorMap(
            self.data, self.box, data_type=self.data_type, dims=self.dims, strides=self.strides,
            element_strides=self.steps, swizzle=self.swizzle, oob_fill=self.fill,
        )  # fmt: skip


def draw(
    random: np.random.Generator, swizzles: tuple[str, ...] = tuple(SPANS), store: bool = False
) -> Case:
    """A random case: every rank, type and swizzle, boxes that hang over every edge.

    Rows begin at multiples of 16 bytes; a store's box begins at no negative coordinate.
    """
    data_type = str(random.choice(["u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "bf16"]))
    size = BITS.get(data_type, 32) // 8
    rank = int(random.integers(1, 6))
    mode = str(random.choice(swizzles))
    unit = 16 // size
    inner = unit * int(random.integers(1, min(SPANS[mode], 256 * size) // 16 + 1))
    inner = min(inner, 256 // unit * unit)
    box = [inner]
    room = 4096 // (inner * size)
    for _ in range(rank - 1):
        extent = int(random.integers(1, max(2, min(16, room) + 1)))
        box.append(extent)
        room = max(1, room // extent)
    steps = [1] + [int(s) for s in random.choice([1, 1, 1, 2, 3], rank - 1)]
    dims = [int(random.integers(1, 2 * b + 2)) for b in box]
    strides = []
    below = -(-dims[0] * size // 16) * 16
    for extent in dims[1:]:
        below += 16 * int(random.integers(0, 3))
        strides.append(below)
        below *= extent
    least = [0 if store else -b for b in box]
    at = [int(random.integers(a, n + 2)) for a, n in zip(least, dims, strict=True)]
    at[0] = at[0] // unit * unit
    data = random.integers(0, 256, below + 64, dtype=np.uint8)
    fill = "nan" if data_type in ("f16", "f32", "bf16") and random.random() < 0.3 else "zeros"
    return Case(data_type, tuple(dims), tuple(strides), tuple(box), tuple(steps), tuple(at), mode,
                fill, 1024 * int(random.integers(0, 2)), data)  # fmt: skip


def elements(case: Case, pieces: bool = False) -> list[tuple[int, int | None]]:
    """For each element of the box, in order: its byte in shared memory, its byte in ``data``.

    None: it is outside of the tensor; with ``pieces``, but for the rest of a row's last 16 bytes.
    A swizzled row takes the swizzle's whole span.
    """
    found: list[tuple[int, int | None]] = []
    unit = 16 // case.size if pieces else 1
    dims = (-(-case.dims[0] // unit) * unit, *case.dims[1:])
    counts = [-(-b // e) for b, e in zip(case.box, case.steps, strict=True)]
    for number, index in enumerate(itertools.product(*map(range, reversed(counts)))):
        place = [c + i * e for c, i, e in
                 zip(case.at, reversed(index), case.steps, strict=True)]  # fmt: skip
        inside = all(0 <= p < n for p, n in zip(place, dims, strict=True))
        where = place[0] * case.size + sum(
            p * s for p, s in zip(place[1:], case.strides, strict=True)
        )
        row, column = divmod(number, counts[0])
        span = counts[0] * case.size if case.swizzle == "none" else SPANS[case.swizzle]
        to = swizzled(row * span + column * case.size, case.swizzle)
        found.append((to, where if inside else None))
    return found


def swizzled(a: int, mode: str) -> int:
    """Chunk and line of an address, combined as the PTX ISA's tables (5.5.7) have them."""
    line = a // 128
    atom = {"none": 16, "128B_ATOM_32B": 32, "128B_ATOM_32B_FLIP_8B": 32, "128B_ATOM_64B": 64}
    unit = atom.get(mode, 16)
    span = SPANS[mode]
    chunks = span // unit if mode != "none" else 1
    turn = (line * 128 // {"32B": 128, "64B": 128}.get(mode, 128)) % chunks
    chunk = a % span // unit if mode != "none" else 0
    if mode != "none":
        a = a - chunk * unit + (chunk ^ turn) * unit
    if mode.endswith("FLIP_8B") and line % 2:
        a ^= 8
    return a


def shown(case: Case) -> int:
    """Bytes of shared memory that the kernels show: whole lines, as a swizzle fills them."""
    return -(-case.map().descriptor.footprint // 128) * 128


def expected_load(case: Case) -> np.ndarray[Any, Any]:
    """What ``load`` shows."""
    size = case.size
    found = elements(case)
    tile = np.full(shown(case), 0x5A, np.uint8)
    nan = b"\xf7\x7f" * (size // 2)
    for to, origin in found:
        if origin is not None:
            tile[to : to + size] = case.data[origin : origin + size]
        elif case.fill == "nan":
            tile[to : to + size] = np.frombuffer(nan, np.uint8)
        else:
            tile[to : to + size] = 0
    return tile


def expected_store(case: Case, tile: np.ndarray[Any, Any], add: bool) -> np.ndarray[Any, Any]:
    """What ``store``, or ``add`` for integers, makes of the tensor's memory."""
    data, size = case.data.copy(), case.size
    form = np.dtype(f"u{size}")
    for origin, to in elements(case, pieces=True):
        if to is not None:
            value = tile[origin : origin + size].view(form)
            old = data[to : to + size].copy().view(form)
            data[to : to + size] = (old + value if add else value).view(np.uint8)
    return data


def kernel(kind: str, rank: int) -> Kernel:
    return MODULE()[f"{kind}{rank}"]


_module: list[Any] = []


def MODULE() -> Any:
    """The kernels, compiled once."""
    if not _module:
        _module.append(compile(SOURCE, "sm_90a"))
    return _module[0]


def run(
    case: Case, kind: str, tile: np.ndarray[Any, Any], device: str = "emulator", **options: Any
) -> tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The run, the tensor's memory and the tile's bytes after it."""
    case = Case(**{**case.__dict__, "data": case.data.copy()})
    raw = tile.copy().view(np.int32)
    where = np.zeros(5, np.int32)
    where[: len(case.at)] = case.at
    made = case.map()
    assert shown(case) == tile.nbytes
    done = kernel(kind, len(case.dims)).launch(
        1, 32, [made, where.tobytes(), made.nbytes, tile.nbytes, case.offset, raw],
        shared=tile.nbytes + 2048, device=device, **options,
    )  # fmt: skip
    return done, case.data, raw.view(np.uint8)
