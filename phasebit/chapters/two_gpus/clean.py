"""Which of the chapter's programs must be clean under compute-sanitizer: all but the measuring one.

The small ones have their sizes in them; the products at full width get one that a tool can follow.
"""

from __future__ import annotations

from phasebit import files
from phasebit.instruments.sanitizer import Program

GPUS = 2
SMALL = "a_gather", "b_gather_multiply", "c_multiply_reduce"
LARGE = "d_gather_ring", "e_ring_scatter", "g_carried_scatter", "h_copied_scatter"
SIZE = "600", "520", "264"
"""M, N and K: ragged, several tiles for each GPU."""


def programs() -> dict[str, Program]:
    """Name -> program."""
    found = {name: Program(_text(name), (), gpus=GPUS) for name in SMALL}
    inputs = f"products of two GPUs: {' × '.join(SIZE)}, seed 1"
    for name in LARGE:
        found[name] = Program(_text(name), (*SIZE, "--seed", "1"), inputs=inputs, gpus=GPUS)
    return found


def _text(name: str) -> str:
    return files.kernel(f"two_gpus/{name}")
