"""Which of the chapter's programs must be clean under compute-sanitizer: all of them."""

from __future__ import annotations

from phasebit import files
from phasebit.instruments.sanitizer import Program

KERNELS = ("a_one_stage", "b_ring", "c_persistent", "d_boxes_of_c", "e_pairs")


def programs() -> dict[str, Program]:
    """Name -> program."""
    return {
        **{name: Program(files.kernel(f"hopper_ring/{name}")) for name in KERNELS},
        "pair": Program(files.kernel("hopper_ring/pair"), ("1",)),
    }
