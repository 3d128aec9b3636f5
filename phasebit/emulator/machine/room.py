"""Memory that the machine has left: who goes on without any is killed, and says nothing."""

from __future__ import annotations

from pathlib import Path

LEAST = 400 << 20
"""Bytes that must be left before more blocks start."""
MEMINFO = Path("/proc/meminfo")
"""Where Linux says it."""


def available() -> int | None:
    """Bytes that may still be used; None where nobody says."""
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    kib = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if kib is None else int(kib) << 10


def ask() -> None:
    """Raises MemoryError where too little is left for more blocks."""
    left = available()
    if left is not None and left < LEAST:
        raise MemoryError(
            f"this machine has {left >> 20} MB left. The checks keep up to 65 bytes for each word "
            "of global memory that is used: make the program's sizes smaller"
        )


__all__ = ["LEAST", "MEMINFO", "ask", "available"]
