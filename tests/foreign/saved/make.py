# mypy: ignore-errors
"""Compile some of this folder's kernels and keep them.

    python -m tests.foreign.saved.make

Needs nvidia-cutlass-dsl and Triton, no GPU.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import json
import lzma
import re

import cutlass
import numpy as np

from phasebit.emulator import TensorMap
from phasebit.launching.launch import Kernel
from tests.foreign import cute_blackwell, cute_hopper, test_gluon
from tests.foreign import test_triton_descriptors as triton_kernels
from tests.foreign.cute_scaled import Scaled, ScaledProduct
from tests.foreign.cute_tools import Product
from tests.foreign.saved import FOLDER
from tests.foreign.triton_tools import Built

F16, F32, E4M3 = cutlass.Float16, cutlass.Float32, cutlass.Float8E4M3FN


@contextlib.contextmanager
def watched():
    """The arguments of the launches inside."""
    seen, launch, through_door = [], Kernel.launch, Built.launch

    def note(self, grid, block, args, **more):
        seen.append((self, grid, block, args, more))
        return launch(self, grid, block, args, **more)

    Kernel.launch, Built.launch = note, Built.launch_here
    try:
        yield seen
    finally:
        Kernel.launch, Built.launch = launch, through_door


def save(name, compiler, target, shape, kinds, run, places=(0, 1, 2), **more_about):
    """``places``: which of A, B, C and scales each array is, in the order of the arguments."""
    with watched() as seen:
        run()
    kernel, grid, threads, args, more = seen[0]
    arrays, given = {}, []
    for arg in args:
        array = arg.tensor if isinstance(arg, TensorMap) else arg
        if isinstance(array, np.ndarray) and (
            len(arrays) < len(places) or id(array) in arrays
        ):
            number = arrays.setdefault(id(array), places[min(len(arrays), len(places) - 1)])
            given.append({"array": number})
            if isinstance(arg, TensorMap):
                d = arg.descriptor
                given[-1] |= {"box": d.box, "dims": d.dims, "strides": d.strides,
                              "swizzle": d.swizzle, "data_type": d.data_type}  # fmt: skip
        elif isinstance(array, np.ndarray):
            given.append({"scratch": arg.nbytes})
        elif isinstance(arg, bytes):
            given.append({"zeros": len(arg)})
        else:
            given.append({"number": int(arg)})
    about = {
        "compiler": f"{compiler} {importlib.metadata.version(compiler)}", "target": target,
        "date": datetime.date.today().isoformat(), "shape": shape, "kinds": kinds,
        "grid": [int(n) for n in grid], "threads": int(threads), "shared": int(more["shared"]),
        "cluster": more.get("cluster"), "args": given, "ptx": without_places(kernel.ptx),
    } | more_about  # fmt: skip
    (FOLDER / f"{name}.json.xz").write_bytes(lzma.compress(json.dumps(about).encode(), preset=9))


def without_places(ptx):
    """The text without what it says of the folders of the machine that made it."""
    return re.sub(r"(\.file\s+\d+\s+)\"[^\"]*/", r'\1"', ptx.partition("\t.section\t.debug")[0])


def cute(name, gemm, shape, target, kinds, **more):
    product = Product(gemm, shape, target)
    save(name, "nvidia-cutlass-dsl", target, shape, kinds, lambda: product.check_here(("late", 0)),
         **more)  # fmt: skip


def cute_scaled(name, kind, scale, vector, shape, kinds, named, **more):
    product = ScaledProduct(Scaled(kind, scale, vector, more.pop("tile"), **more), shape)
    save(name, "nvidia-cutlass-dsl", "sm_100a", shape, kinds, lambda: product.check(("late", 0)),
         (0, 1, 3, 4, 2), scale=named, vector=vector)  # fmt: skip


def by_gluon(name, case, target):
    shape = test_gluon.PRODUCTS[case][3]
    save(name, "triton", f"sm_{target}", shape, ["f16"] * 3,
         lambda: test_gluon.test_products(case, ("late", 0)))  # fmt: skip


def by_triton(name, case, target, shape):
    how = ("late", 0)
    save(name, "triton", f"sm_{target}", shape, ["f16"] * 3,
         lambda: triton_kernels.test_boxes(case, target, shape, how))  # fmt: skip


def main():
    new, old = cute_blackwell.Gemm, cute_hopper.Gemm
    cute("cute_tcgen05", new(F16, F32, (128, 128, 64)), (256, 512, 256), "sm_100a",
         ["f16", "f16", "f32"])  # fmt: skip
    cute("cute_tcgen05_pairs", new(F16, F32, (256, 128, 64), pair=True, cluster=(2, 2)),
         (512, 256, 320), "sm_100a", ["f16", "f16", "f32"])  # fmt: skip
    cute("cute_tcgen05_cluster", new(E4M3, F32, (128, 64, 128), cluster=(2, 2)), (256, 128, 512),
         "sm_100a", ["e4m3", "e4m3", "f32"])  # fmt: skip
    cute("cute_tcgen05_columns", new(F32, F32, (128, 128, 32), a_major="mn", b_major="mn"),
         (128, 128, 96), "sm_100a", ["f32"] * 3, columns=True)  # fmt: skip
    cute("cute_wgmma", old(F16, F16, (128, 128, 64), groups=(2, 1)), (256, 256, 512), "sm_90a",
         ["f16"] * 3)  # fmt: skip
    cute("cute_wgmma_cluster", old(F16, F16, (64, 64, 64), cluster=(2, 2)), (200, 152, 136),
         "sm_90a", ["f16"] * 3)  # fmt: skip
    by_triton("triton_roles_sm_100", "staying, roles, flat", 100, (256, 256, 192))
    by_triton("triton_roles_sm_90", "staying, roles, flat", 90, (200, 136, 208))
    by_triton("triton_maps_made_here_sm_100", "made here, roles", 100, (200, 136, 208))
    cute_scaled("cute_scaled_mxf8", E4M3, cutlass.Float8E8M0FNU, 32, (128, 128, 256),
                ["e4m3", "e4m3", "f32"], "ue8m0", tile=(128, 128, 128))  # fmt: skip
    cute_scaled("cute_scaled_nvf4_pair", cutlass.Float4E2M1FN, E4M3, 16, (256, 128, 512),
                ["e2m1", "e2m1", "f32"], "e4m3", tile=(256, 128, 256), pair=True,
                cluster=(2, 1))  # fmt: skip
    by_gluon("gluon_roles_sm_90", "roles, ragged", 90)
    by_gluon("gluon_taking_sm_100", "taking", 100)
    by_gluon("gluon_two_pairs_sm_100", "two pairs", 100)
    save("triton_one_stage_sm_90", "triton", "sm_90", (208, 144, 176), ["f16", "f16", "f32"],
         lambda: triton_kernels.test_pointers("one stage", 90, ("late", 0)))  # fmt: skip


if __name__ == "__main__":
    main()
