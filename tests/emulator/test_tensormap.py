"""Tensor maps and the copies that use them, against an oracle with plain loops and an H200.

PTX ISA 5.5 (tensors), 5.5.7 (swizzling modes), 9.7.9.27.1 (cp.async.bulk.tensor), and the
rules of the driver's cuTensorMapEncodeTiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phasebit as pb
from phasebit.emulator.copy_engine.tensormap import SIZE, decode
from phasebit.emulator.errors import Fault, LaunchError
from phasebit.emulator.numbers.swizzle import MODES
from tests.emulator import tensors


class TestSwizzle:
    """5.5.7."""

    @pytest.mark.parametrize("mode", MODES)
    def test_it_is_its_own_inverse_and_stays_within_its_line(self, mode: str) -> None:
        a = np.arange(4096)
        b = MODES[mode](a)
        assert np.array_equal(MODES[mode](b), a)
        assert np.array_equal(a // 128, b // 128)

    @pytest.mark.parametrize("mode", MODES)
    def test_it_is_what_the_tables_say(self, mode: str) -> None:
        a = range(0, 4096, 8)
        assert [int(x) for x in MODES[mode](np.array(a))] == [
            tensors.swizzled(x, mode) for x in a
        ]

    def test_128b_a_column_of_chunks_meets_every_bank_group(self) -> None:
        rows = MODES["128B"](np.arange(8) * 128) % 128 // 16
        assert sorted(rows.tolist()) == list(range(8))


class TestRules:
    """The checks of cuTensorMapEncodeTiled."""

    ARRAY = np.zeros((64, 64), np.float16)

    def made(self, **changes: Any) -> pb.TensorMap:
        return pb.TensorMap(**{"tensor": self.ARRAY, "box": (64, 8), **changes})

    def test_an_array_gives_its_type_extents_and_strides(self) -> None:
        d = self.made(swizzle="128B").descriptor
        assert (d.data_type, d.dims, d.strides, d.nbytes) == ("f16", (64, 64), (128,), 1024)

    def test_the_image_has_128_bytes_and_can_be_read_back(self) -> None:
        d = self.made(swizzle="64B", box=(32, 8), oob_fill="nan", l2_promotion="256B").at(4096)
        assert len(d.encode()) == SIZE
        assert decode(d.encode()) == d
        assert decode(bytes(SIZE)) is None

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"box": (64,)}, "box needs 2 numbers"),
            ({"box": (7, 8)}, "no multiple of 16"),
            ({"box": (0, 8)}, "allowed are 1 to 256"),
            ({"box": (64, 257)}, "allowed are 1 to 256"),
            ({"swizzle": "64B"}, "swizzle 64B allows 64"),
            ({"swizzle": "32B"}, "swizzle 32B allows 32"),
            ({"swizzle": "256B"}, "swizzle is one of"),
            ({"strides": (72,)}, "multiple of 16"),
            ({"strides": (1 << 40,)}, "below 2"),
            ({"element_strides": (1, 9)}, "allowed are 1 to 8"),
            ({"element_strides": (1, 0)}, "allowed are 1 to 8"),
            ({"dims": (64, (1 << 32) + 1)}, "allowed are 1 to 2"),
            ({"dims": (64, 0)}, "allowed are 1 to 2"),
            ({"dims": (8,) * 6, "box": (8,) * 6}, "1 to 5 dimensions"),
            ({"interleave": "16B"}, "at least 3 dimensions"),
            ({"dims": (256, 256, 64), "box": (256, 64, 8)}, "262144 bytes; 232448"),
            ({"data_type": "u16", "oob_fill": "nan"}, "only floating-point"),
            ({"data_type": "f17"}, "data_type is one of"),
            ({"tensor": 4104, "data_type": "f16", "dims": (64, 64)}, "no multiple of 16 bytes"),
            ({"tensor": "x"}, "made of an array or an address"),
            ({"tensor": np.zeros((64, 64), complex)}, "data_type is needed: none goes .* complex"),
            ({"box": 64}, "box of a tensor map is a list of whole numbers, .* not 64"),
            ({"box": "ab"}, "not 'ab'"),
            ({"box": (64.0, 8)}, "not .64.0, 8."),
            ({"element_strides": 2}, "element_strides of a tensor map"),
            ({"element_strides": np.array([1, 9])}, "allowed are 1 to 8"),
            ({"dims": 64}, "dims of a tensor map is a list of whole numbers, .* not 64"),
            ({"dims": ()}, "1 to 5 dimensions, not 0"),
            ({"tensor": np.zeros((), np.float16)}, "1 to 5 dimensions, not 0"),
            ({"box": np.array(64)}, "box needs 2 numbers for 2 dimensions, not 1"),
        ],
    )
    def test_a_broken_rule_is_named(self, changes: dict[str, Any], words: str) -> None:
        with pytest.raises(LaunchError, match=words):
            self.made(**changes)


def tile_of(case: tensors.Case, random: np.random.Generator) -> np.ndarray[Any, Any]:
    return random.integers(0, 256, tensors.shown(case), dtype=np.uint8)


class TestCopies:
    """9.7.9.27.1.2 and .3."""

    pytestmark = pytest.mark.nvcc

    @pytest.mark.parametrize("seed", range(60))
    def test_load(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        case = tensors.draw(random)
        schedule = ("eager", "late", "random")[seed % 3]
        run, data, shown = tensors.run(case, "load", tile_of(case, random), schedule=schedule)
        assert np.array_equal(shown, tensors.expected_load(case)), case
        assert np.array_equal(data, case.data)
        assert not run.findings

    @pytest.mark.parametrize("seed", range(60))
    def test_store(self, seed: int) -> None:
        random = np.random.default_rng(1000 + seed)
        case = tensors.draw(random, store=True)
        tile = tile_of(case, random)
        schedule = ("eager", "late", "random")[seed % 3]
        run, data, _ = tensors.run(case, "store", tile, schedule=schedule)
        assert np.array_equal(data, tensors.expected_store(case, tile, False)), case
        assert not run.findings

    @pytest.mark.parametrize("seed", range(20))
    def test_add(self, seed: int) -> None:
        random = np.random.default_rng(2000 + seed)
        case = tensors.draw(random)
        tile = tile_of(fitted(case), random)
        run, data, _ = tensors.run(fitted(case), "add", tile)
        assert np.array_equal(data, tensors.expected_store(fitted(case), tile, True)), case
        assert not run.findings

    def test_what_is_no_tensor_map_is_said(self) -> None:
        with pytest.raises(Fault, match="there is no tensor map at"):
            tensors.kernel("load", 1).launch(
                1, 32, [bytes(128), bytes(20), 16, 128, 0, np.zeros(4, np.int32)], shared=4096
            )

    def test_the_ranks_must_agree(self) -> None:
        array = np.zeros((16, 16), np.int32)
        made = pb.TensorMap(array, (16, 4))
        with pytest.raises(Fault, match="has 2 dimensions, not 3"):
            tensors.kernel("load", 3).launch(
                1, 32, [made, bytes(20), 256, 256, 0, np.zeros(64, np.int32)], shared=4096
            )

    def test_a_tile_that_is_not_aligned_is_a_fault(self) -> None:
        made = pb.TensorMap(np.zeros((16, 16), np.int32), (16, 4))
        with pytest.raises(Fault, match="no multiple of 128"):
            tensors.kernel("load", 2).launch(
                1, 32, [made, bytes(20), 256, 256, 64, np.zeros(64, np.int32)], shared=4096
            )

    def test_dims_that_the_array_has_not_are_a_fault(self) -> None:
        made = pb.TensorMap(np.zeros((16, 16), np.int32), (16, 4), dims=(16, 100))
        where = np.array([0, 14, 0, 0, 0], np.int32).tobytes()
        with pytest.raises(Fault, match="128 bytes past the end"):
            tensors.kernel("load", 2).launch(
                1, 32, [made, where, 256, 256, 0, np.zeros(64, np.int32)], shared=4096
            )

    def test_a_map_in_the_threads_own_memory_is_a_fault(self) -> None:
        """What a compiler makes of a parameter that is no __grid_constant__."""
        source = """
        #include "ptx_sm90.cuh"
        extern "C" __global__ void k(const CUtensorMap map) {
            __shared__ __align__(128) int tile[64];
            __shared__ unsigned long long full;
            if (threadIdx.x == 0) {
                ptx::mbarrier_init(&full, 1);
                ptx::cp_async_bulk_tensor_load(tile, map, 0, 0, &full);
            }
        }"""
        made = pb.TensorMap(np.zeros((16, 16), np.int32), (16, 4))
        with pytest.raises(Fault, match=r"in local memory.*__grid_constant__.*at PTX line"):
            pb.compile(source, "sm_90a")["k"].launch(1, 32, [made])

    def test_a_parameter_that_is_no_tensor_map_is_refused(self) -> None:
        made = pb.TensorMap(np.zeros((16, 16), np.int32), (16, 4))
        with pytest.raises(LaunchError, match="declare it const __grid_constant__"):
            tensors.kernel("load", 2).launch(
                1, 32, [made, made, 256, 256, 0, np.zeros(64, np.int32)], shared=4096
            )


def fitted(case: tensors.Case) -> tensors.Case:
    """The same box with strides that fit a type that can be added."""
    random = np.random.default_rng(sum(case.dims))
    while True:
        other = tensors.draw(random, store=True)
        if other.data_type in ("u32", "s32", "u64"):
            return other


@pytest.mark.gpu
class TestGpu:
    """The same copies on the GPU: bit for bit."""

    @pytest.mark.parametrize("kind", ["load", "store", "add"])
    def test_agrees(self, kind: str) -> None:
        for seed in range(400):
            random = np.random.default_rng(5000 + seed)
            case = tensors.draw(random, tensors.HOPPER, kind != "load")
            if kind == "add" and case.data_type not in ("u32", "s32", "u64"):
                continue
            tile = tile_of(case, random)
            _, data, shown = tensors.run(case, kind, tile)
            _, gpu_data, gpu_shown = tensors.run(case, kind, tile, device="gpu")
            assert np.array_equal(data, gpu_data), case
            assert np.array_equal(shown, gpu_shown), case


CHANGED = r"""
#include "ptx_sm90.cuh"
// Makes the map of the other half of the tensor from that of the first, and copies a box by it.
extern "C" __global__ void k(const __grid_constant__ CUtensorMap map, int* half, int rows,
                             CUtensorMap* room, int* out) {
    __shared__ alignas(128) CUtensorMap mine;
    __shared__ alignas(1024) int tile[8 * 32];
    __shared__ unsigned long long full;
    ((unsigned*)&mine)[threadIdx.x] = ((const unsigned*)&map)[threadIdx.x];
    __syncwarp();
    const unsigned at = ptx::shared_address(&mine);
    if (threadIdx.x == 0) {
        asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;"
                     :: "r"(at), "l"(half) : "memory");
        asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;"
                     :: "r"(at), "r"(rows) : "memory");
        asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;"
                     :: "r"(at), "l"(256ll) : "memory");
        asm volatile("tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 3;"
                     :: "r"(at) : "memory");
        asm volatile("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], 3;"
                     :: "r"(at) : "memory");
        ptx::mbarrier_init(&full, 1);
    }
    __syncwarp();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync"
                 ".aligned [%0], [%1], 128;" :: "l"(room), "r"(at) : "memory");
    FENCE
    if (threadIdx.x == 0) {
        ptx::mbarrier_arrive_expect_tx(&full, sizeof tile);
        ptx::cp_async_bulk_tensor_load(tile, *room, 0, 0, &full);
    }
    __syncwarp();
    ptx::mbarrier_wait(&full, 0);
    for (int row = 0; row < 8; ++row)
        out[row * 32 + threadIdx.x] = tile[row * 32 + (threadIdx.x ^ (row * 4))];
}
"""
FENCE = (
    'asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(room) : "memory");'
)


class TestReplace:
    """9.7.9.28, 9.7.13.16, 9.7.13.4 (fence.proxy.tensormap)."""

    pytestmark = pytest.mark.nvcc

    def run(self, fence: str) -> tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        data = np.arange(2 * 32 * 64, dtype=np.int32).reshape(2, 32, 64)
        out = np.full((8, 32), -1, np.int32)
        room = np.zeros(32, np.uint32)
        made = pb.TensorMap(data[0], (32, 8), data_type="f32", dims=(32, 4), strides=(128,))
        k = pb.compile(CHANGED.replace("FENCE", fence), "sm_90a")["k"]
        run = k.launch(1, 32, [made, data[1], 5, room, out])
        wanted = np.where(np.arange(8)[:, None] < 5, data[1, :8, :32], 0)
        return run, out, wanted

    def test_a_map_can_be_changed_field_by_field(self) -> None:
        run, out, wanted = self.run(FENCE)
        assert np.array_equal(out, wanted)
        assert not run.findings

    def test_without_the_fence_of_the_tensormap_proxy_it_is_found(self) -> None:
        run, _, _ = self.run("")
        assert [h.kind for h in run.findings] == ["proxy"]
        assert "fence.proxy.tensormap::generic.acquire" in run.findings[0].message
