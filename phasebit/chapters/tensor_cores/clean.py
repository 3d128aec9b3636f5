"""Which of the chapter's programs must be clean under compute-sanitizer: every rung."""

from __future__ import annotations

from phasebit.instruments.sanitizer import Program

RUNGS = {
    "naive": "launch_naive(g);",
    "plain tiles": "launch_one_slot<Tiling<64, 64, 64, 32, 32>, false, 2>(g);",
    "swizzled tiles": "launch_one_slot<Tiling<64, 64, 64, 32, 32>, true, 2>(g);",
    "a ring": "launch_gemm<Tiling<64, 64, 64, 32, 32>, 4>(g, 1);",
    "large warp tiles": "launch_gemm<Tiling<128, 256, 64, 64, 64>, 3>(g, 1);",
    "super-rows": "launch_gemm<Tiling<64, 64, 32, 32, 32>, 2>(g, 2);",
}
"""Rung -> how it is launched on any shape."""

_TYPES = {"f16": "__half", "bf16": "__nv_bfloat16", "f32": "float"}


def programs() -> dict[str, Program]:
    """Name -> program."""
    return {
        **{rung: Program(checked(launch)) for rung, launch in RUNGS.items()},
        "super-rows, f16": Program(checked(RUNGS["super-rows"], "f16", "f16")),
    }


def checked(launch: str, read: str = "bf16", write: str = "f32") -> str:
    """A program that checks one kernel of the chapter; ``read`` and ``write`` name its types."""
    return (
        '#include "tensor_cores/gemm.cuh"\n#include "tensor_cores/naive.cuh"\n'
        f"using In = {_TYPES[read]};\nusing Out = {_TYPES[write]};\n"
        f"void launch(const Gemm<In, Out>& g) {{ {launch} }}\n"
        '#include "gemm.cuh"\n'
    )
