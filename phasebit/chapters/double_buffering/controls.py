"""Controls of the comparison: kernels of the chapter in which one thing is different.

Each is a file of ``kernels/double_buffering``, or a copy of one in which a few lines say something
else. The record ``double_buffering`` times them by turns with the kernels.
"""

from __future__ import annotations

from difflib import unified_diff

from phasebit import files
from phasebit.edits import replace_each

_Edits = tuple[tuple[str, str], ...]

_STORE = "        if (tile + 1 < TILES) store(1 - slot);  // here a thread waits for its loads\n"
_LOAD = "        if (tile + 1 < TILES) load(tile + 1);  // nobody waits for it yet\n"

CONTROLS: dict[str, tuple[str, _Edits]] = {
    "one slot, 4 rows": ("tiled", (("THREADS = 512; ", "THREADS = 256; "),)),
    "no roles, 4 rows": ("no_roles", ()),
    "no roles, 2 rows": ("no_roles", (("THREADS = 256; ", "THREADS = 512; "),)),
    "no roles, second barrier": ("no_roles", ((_STORE, "        __syncthreads();\n" + _STORE),)),
    "no roles, stored at once": (
        "no_roles",
        ((_STORE, ""), (_LOAD, "        if (tile + 1 < TILES) load(tile + 1), store(1 - slot);\n")),
    ),
    "ring, one slot": ("barrier_double_buffer", (("SLOTS = 2; ", "SLOTS = 1; "),)),
    "ring, loads first": (
        "barrier_double_buffer",
        (
            (
                "        for (int row = y; row < M; row += ROWS)\n"
                "            ring.a[slot][row][x] = A[row * K + k0 + x];\n",
                "        for (int i = 0; i < M / ROWS; ++i)\n"
                "            ring.a[slot][y + i * ROWS][x] = A[(y + i * ROWS) * K + k0 + x];\n",
            ),
            (
                "        for (int k = y; k < BK; k += ROWS)\n"
                "            ring.b[slot][k][x] = B[(k0 + k) * N + x];\n",
                "        for (int i = 0; i < BK / ROWS; ++i)\n"
                "            ring.b[slot][y + i * ROWS][x] = B[(k0 + y + i * ROWS) * N + x];\n",
            ),
        ),
    ),
}
"""Name -> a kernel's file, and what stands in it and in the control instead. *Rows* are those of
C that a thread multiplies."""


def source(name: str) -> str:
    """The text of a control, or of a kernel by its file's name without ``.cu``.

    Raises ``ValueError`` when a file does not say once what the control says otherwise.
    """
    kernel, edits = CONTROLS.get(name, (name, ()))
    return replace_each(files.kernel(f"double_buffering/{kernel}"), edits, f"{kernel}.cu")


def changes(name: str) -> str:
    """A control's changes: ``-`` what the kernel says, ``+`` what the control says instead."""
    kernel, _ = CONTROLS[name]
    texts = (files.kernel(f"double_buffering/{kernel}").splitlines(), source(name).splitlines())
    lines = list(unified_diff(*texts, lineterm="", n=0))[2:]
    return "\n".join(line for line in lines if not line.startswith("@@"))
