# mypy: ignore-errors
"""What the bugs in Gluon share: arrays, boxes of them, and one line that says whether it is right.

A folder of ``bugs/`` whose mistake can be made in Gluon has a ``gluon.py``: one kernel with a
constant ``BROKEN``, the same structure as ``broken.cu`` and ``fixed.cu``, and ``LINES``, the texts
of the lines that the repair changes or protects: a checker's report ought to name one of them.
``python bugs/NAME/gluon.py broken`` runs it on a GPU and needs PyTorch;
`phasebit.triton` runs it on the emulator.
"""

import sys

import numpy as np
import triton
from triton import language as tl
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

ROWS, COLUMNS, THREADS = gl.constexpr(32), gl.constexpr(32), gl.constexpr(128)

# Triton 3.6 has the longer names, later ones the shorter.
load_box = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
store_box = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global

SPREAD = gl.constexpr(gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0]))
"""The registers of a tile (ROWS, COLUMNS): a row for each warp, an element for each lane."""

SHARED = gl.constexpr(gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=32, rank=2))
"""Shared memory that a box comes into."""


def numbers(tiles):
    """(tiles · ROWS, COLUMNS), whole."""
    return np.arange(tiles * ROWS.value * COLUMNS.value, dtype=np.int32).reshape(-1, COLUMNS.value)


class OnTheGpu:
    """PyTorch's tensors."""

    def __init__(self):
        import torch

        self.torch = torch
        # Memory that a kernel asks for beside its arguments; the checks of ConSan do.
        triton.set_allocator(
            lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8)
        )

    def array(self, data):
        """A copy on the device."""
        return self.torch.from_numpy(data).cuda()

    def box(self, array, shape=(ROWS.value, COLUMNS.value), layout=SHARED.value):
        """A tensor map of an array, for boxes of this shape."""
        return TensorDescriptor.from_tensor(array, list(shape), layout)

    def back(self, array):
        """On the host, when all is done."""
        return array.cpu().numpy()


class Emulated:
    """`phasebit.doors.device_arrays`."""

    def array(self, data):
        """A copy on the device."""
        from phasebit.doors import device_arrays

        return device_arrays.array(data)

    def box(self, array, shape=(ROWS.value, COLUMNS.value), layout=SHARED.value):
        """A tensor map of an array, for boxes of this shape."""
        return TensorDescriptor(Typed(array), [*array.shape], [*array.stride()], [*shape], layout)

    def back(self, array):
        """The same bytes."""
        return np.array(array)


class Typed:
    """An array on the device whose element type is Triton's."""

    def __init__(self, array):
        self.array, self.dtype = array, getattr(tl, str(array.dtype))
        self.shape, self.data_ptr, self.stride = array.shape, array.data_ptr, array.stride


def verdict(got, wanted):
    """``right`` or ``wrong: 3 of 40``, as `verdict` in ``bug.cuh``."""
    wrong = np.count_nonzero(got != wanted)
    return f"wrong: {wrong} of {wanted.size}" if wrong else "right"


def main(run):
    """The end of a program in Gluon: ``run(device, broken)`` gives results and what is wanted."""
    said = verdict(*run(OnTheGpu(), sys.argv[1] == "broken"))
    print(said)
    sys.exit(0 if said == "right" else 2)
