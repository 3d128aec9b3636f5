"""A program of the book on the emulator, in a process of its own, as a reader's cell runs it."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from phasebit import process, toolchain
from phasebit.emulator import build
from phasebit.runtime import library


def emulate(
    text: str,
    *args: str,
    target: str = "sm_90a",
    schedule: str = "late",
    timeout: float = 120,
    right: str = "",
) -> process.Finished:
    """Compile a whole program and run it; its findings are in ``stderr``.

    ``right`` is the same program without the mistake that is planted in ``text``. Where the two
    differ in nothing but the bodies of GPU functions, it lends its host half, and ``text`` is
    compiled to PTX only: three quarters of the time to compile go into the host half. A harness
    that the last line includes is left out then; its GPU functions are for timing.
    """
    lent = host_half(text) == host_half(right)
    built = toolchain.build(right if lent else text, target=target, runtime=library.build())
    assert built.warnings == "" or (right and not lent)  # a mistake may be worth a warning
    command = [sys.executable, "-m", "phasebit", "run", "--schedule", schedule]
    if not lent:
        return process.run([*command, built.program, *args], timeout=timeout)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernels.ptx")
        path.write_text(build.ptx(_HARNESS.sub("", text), target), encoding="utf-8")
        return process.run([*command, "--ptx", path, built.program, *args], timeout=timeout)


_HARNESS = re.compile(r'^#include "[^"]+"\s*\Z', re.MULTILINE)
_GPU_FUNCTION = re.compile(r"[^\n]*__(?:global|device)__[^;{}=]*\([^;{}=]*\)[^;{}=()]*\{")


def host_half(text: str) -> str:
    """A program without the bodies of its GPU functions.

    >>> host_half("__device__ int f(int i) { if (i) { i = 1; } return i; } int g() { return 0; }")
    '__device__ int f(int i) {} int g() { return 0; }'
    """
    kept, at = [], 0
    for found in _GPU_FUNCTION.finditer(text):
        if found.start() < at or "__host__" in found[0]:
            continue
        end, depth = found.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        kept.append(text[at : found.end()] + "}")
        at = end
    return "".join([*kept, text[at:]])
