"""What assemblers make of kernels, kept for machines without their tools: the machine's code.

``tools/compiled.py`` writes the record. A kernel's name in it is its file's, below ``kernels/`` and
without the ending.
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

from phasebit import files

RECORD = "blackwell_compiled.json"


def record() -> dict[str, Any]:
    """The whole record: nvcc's version, cuobjdump's, the target, the date, and each kernel's."""
    path = files.records() / RECORD
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def packed(text: str) -> str:
    """A text, compressed; the same text gives the same characters."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def unpacked(text: str) -> str:
    """What :func:`packed` was given.

    >>> unpacked(packed("UTCHMMA"))
    'UTCHMMA'
    """
    return gzip.decompress(base64.b64decode(text)).decode()


def sass(kernel: str) -> list[str]:
    """The instructions that ptxas made of a kernel, in their order.

    Raises ``KeyError`` for a kernel that is not in the record.
    """
    return unpacked(record()["kernels"][kernel]["sass"]).splitlines()
