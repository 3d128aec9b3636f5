"""Which of the chapter's programs must be clean under compute-sanitizer: all of them."""

from __future__ import annotations

from phasebit import files
from phasebit.instruments.sanitizer import Program

KERNELS = ("a_one_stage", "b_ring", "c_blocks_that_stay", "d_boxes_of_c", "e_pairs")
_SEED_ALONE = ("bulk_copy", "tma_copy", "wgmma")  # no other argument


def programs() -> dict[str, Program]:
    """Name -> program."""
    return {
        **{name: Program(files.kernel(f"copy_engine/{name}"), ("1",)) for name in _SEED_ALONE},
        **{name: Program(files.kernel(f"copy_engine/{name}")) for name in KERNELS},
    }
