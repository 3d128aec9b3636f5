"""Which of the chapter's programs must be clean under compute-sanitizer: every product.

They have the other format, too: e5m2 is one number in the text of a kernel.
"""

from __future__ import annotations

from phasebit import files
from phasebit.chapters.eight_bits import product
from phasebit.instruments.sanitizer import Program

OTHER = "#define A_FORMAT e5m2\n"
"""Before a kernel: A has e5m2."""


def programs() -> dict[str, Program]:
    """Name -> program."""
    texts = {name: files.kernel(f"eight_bits/{name}") for name in product.KERNELS}
    texts[f"{product.UNROLLED}, e5m2 × e4m3"] = OTHER + texts[product.UNROLLED]
    return {name: Program(text) for name, text in texts.items()}
