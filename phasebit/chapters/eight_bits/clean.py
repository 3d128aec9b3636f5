"""Which of the chapter's programs must be clean under compute-sanitizer: every product.

They have the other format, too: e5m2 is one number in the text of a kernel.
"""

from __future__ import annotations

from phasebit import files
from phasebit.chapters.eight_bits import lead, product
from phasebit.edits import replace_each
from phasebit.instruments.sanitizer import Program

OTHER = "#define A_FORMAT e5m2\n"
"""Before a kernel: A has e5m2."""


def programs() -> dict[str, Program]:
    """Name -> program."""
    texts = {name: files.kernel(f"eight_bits/{name}") for name in product.KERNELS}
    texts[f"{product.UNROLLED}, e5m2 × e4m3"] = OTHER + texts[product.UNROLLED]
    # racecheck takes one lane's arrival for all lanes for a hazard; of this twin it says nothing.
    texts[f"{product.IN_SLOT}, every lane arrives"] = replace_each(
        texts[product.IN_SLOT], lead.EVERY_LANE, f"{product.IN_SLOT}.cu"
    )
    return {name: Program(text) for name, text in texts.items()}
