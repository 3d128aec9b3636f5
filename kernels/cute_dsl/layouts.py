# mypy: ignore-errors
"""What CuTe DSL says of layouts and types when it compiles: text, for machines that lack it."""

import cutlass
import cutlass.cute as cute
import cutlass.utils.blackwell_helpers as sm100
import numpy as np
from cutlass.cute.nvgpu import OperandMajorMode, tcgen05, warp
from cutlass.cute.runtime import from_dlpack, make_ptr
from cutlass.cute.viz import print_latex, print_latex_tv
from cutlass.utils import HardwareInfo

import phasebit.cute

BF16, F32 = cutlass.BFloat16, cutlass.Float32


@cute.struct
class Shared:
    slices: cute.struct.MemRange[cutlass.Int64, 8]
    sums: cute.struct.MemRange[cutlass.Int64, 4]
    tensor_memory: cutlass.Int32


@cute.jit
def evaluate(array: cute.Tensor, pointer: cute.Pointer, said: cutlass.Constexpr):
    """Fills ``said``, a dictionary, while this is traced; nothing is left to run."""
    said["from_dlpack"], said["make_ptr"] = str(array.type), str(pointer.type)
    row_major = cute.make_layout((4, 8), stride=(8, 1))
    divided = cute.zipped_divide(row_major, (2, 4))
    said["row_major"], said["zipped_divide"] = str(row_major), str(divided)
    print_latex(divided, render_func=lambda text: said.update(print_latex=text))
    op = warp.MmaF16BF16Op(BF16, F32, (16, 8, 16))
    held = cute.make_tiled_mma(op).tv_layout_C
    said["tv_layout"] = str(held)
    print_latex_tv(held, (16, 8), render_func=lambda text: said.update(print_latex_tv=text))
    mma = sm100.make_trivial_tiled_mma(
        BF16, BF16, OperandMajorMode.K, OperandMajorMode.K, F32, tcgen05.CtaGroup.ONE, (128, 256)
    )
    said["slots_of_a"] = str(sm100.make_smem_layout_a(mma, (128, 256, 64), BF16, 4))
    said["sums"] = str(
        mma.make_fragment_C(cute.append(mma.partition_shape_C((128, 256)), 2)).layout
    )


def show() -> dict[str, str]:
    """What is asked -> what CuTe DSL says."""
    said: dict[str, str] = {}
    pointer = make_ptr(BF16, 4096, cute.AddressSpace.gmem, assumed_align=16)
    cute.compile(evaluate, from_dlpack(np.zeros((4, 8), np.float32)), pointer, said)
    said["struct"] = f"{Shared.size_in_bytes()} bytes"
    with phasebit.cute.emulated("sm_100a"):  # in place of a driver
        asked = HardwareInfo()
        said["HardwareInfo"] = f"{asked.get_device_multiprocessor_count()} multiprocessors, " + (
            ", ".join(f"{asked.get_max_active_clusters(n)} clusters of {n}" for n in (1, 2, 4))
        )
    return said
