"""Kernels of these tests as they were compiled once, so that no nvcc is needed to run them.

    python -m tests.emulator.saved        compiles all of them anew

Each ``compiled/NAME.ptx`` begins with the digest of its source.
"""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path

from phasebit.launching.launch import Module, compile

HERE = Path(__file__).parent
TARGET = "sm_90a"
SOURCES: dict[str, tuple[str, str, list[str]]] = {
    "orders": ("interleavings/orders.cu", TARGET, []),
    "features": ("cuda/features.cu", TARGET, []),
    "heap": ("cuda/heap.cu", TARGET, []),
    "recursion": ("cuda/recursion.cu", TARGET, []),
}
"""Name -> source, target, options."""


def path(name: str) -> Path:
    """Where the text is."""
    return HERE / "compiled" / f"{name}.ptx"


def beginning(name: str) -> str:
    """How it begins: with its source as that is now."""
    source, target, options = SOURCES[name]
    digest = hashlib.sha256((HERE / source).read_bytes()).hexdigest()[:16]
    return f"// {' '.join([source, *options])} ({digest}) for {target}\n"


@functools.cache
def module(name: str) -> Module:
    """The module, from its text."""
    return Module(path(name).read_text(encoding="utf-8"))


def write(name: str) -> None:
    """Compile it anew."""
    source, target, options = SOURCES[name]
    text = compile(HERE / source, target, options).ptx
    text = re.sub(r'(\.file\s+\d+ ")[^"]*/([^"/]+")', r"\1\2", text)  # of this machine's folders
    path(name).write_text(beginning(name) + text.strip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    for each in SOURCES:
        write(each)
