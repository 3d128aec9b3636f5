"""Kernels of these tests as they were compiled once, so that no nvcc is needed to run them.

    python -m tests.emulator.saved        compiles all of them anew

Each ``compiled/NAME.ptx`` begins with the digest of its source.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
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
    "alike_copies": ("test_alike_copies:KERNEL", TARGET, []),
    "convert_scales": ("test_convert_scales:TO_ZERO", "sm_100a", []),
    "gather": ("test_gather:SOURCE", "sm_100a", []),
    "im2col": ("test_im2col:SOURCE", TARGET, []),
}
"""Name -> source, a file or the text that a test has; target, options."""


def source_of(source: str) -> Path | str:
    """What is given to the compiler."""
    file, _, name = source.partition(":")
    if not name:
        return HERE / file
    return str(getattr(importlib.import_module(f"tests.emulator.{file}"), name))


def path(name: str) -> Path:
    """Where the text is."""
    return HERE / "compiled" / f"{name}.ptx"


def beginning(name: str) -> str:
    """How it begins: with its source as that is now."""
    source, target, options = SOURCES[name]
    given = source_of(source)
    text = given if isinstance(given, str) else given.read_text(encoding="utf-8")
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"// {' '.join([source, *options])} ({digest}) for {target}\n"


@functools.cache
def module(name: str) -> Module:
    """The module, from its text."""
    return Module(path(name).read_text(encoding="utf-8"))


def write(name: str) -> None:
    """Compile it anew."""
    source, target, options = SOURCES[name]
    text = compile(source_of(source), target, options).ptx
    text = re.sub(r'(\.file\s+\d+ ")[^"]*/([^"/]+")', r"\1\2", text)  # of this machine's folders
    path(name).write_text(beginning(name) + text.strip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    for each in SOURCES:
        write(each)
