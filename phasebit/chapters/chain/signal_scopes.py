"""What the scope of a wait becomes in machine code: instructions of the assembled kernels."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from phasebit import assembled
from phasebit.chapters.chain import kernels

if TYPE_CHECKING:
    from phasebit.measure import Table

MEANINGS = {
    "copies in": "UTMALDG",
    "products": "UTCHMMA",
    "commits": "UTCBAR",
    "fetches of a sum": "LDTM",
    "stores of a piece": "UTMASTG",
    "meetings of the cluster": "UCGABAR_WAIT",
    "invalidations": "CCTL.IVALL",
}
"""What an instruction does -> how its name begins."""


def counted(kernel: str) -> Counter[str]:
    """How often a kernel of the record has each of :data:`MEANINGS`, loops written out."""
    names = (re.sub(r"^@!?U?P\w+ ", "", line).split()[0] for line in assembled.sass(kernel))
    return Counter(
        what for name in names for what, begins in MEANINGS.items() if name.startswith(begins)
    )


def table() -> Table:
    """A block alone, the pair, and the pair with the scope of the cluster everywhere."""
    from phasebit.measure import Table

    which = {
        "a block": f"chain/{kernels.CHAIN}",
        "a pair": f"chain/{kernels.PAIR}",
        "a pair, scope of the cluster": kernels.SCOPED,
    }
    found = [counted(kernel) for kernel in which.values()]
    rows = tuple(
        (f"{what} ({name})", *(str(each[what]) for each in found))
        for what, name in MEANINGS.items()
    )
    return Table(("instructions", *which), rows, "as assembled; ptxas has written loops out")
