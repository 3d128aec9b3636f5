"""The machine code of a kernel's source: compiled by nvcc, listed by nvdisasm; no GPU is needed."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from phasebit import build_cache, process, toolchain

_SECONDS = 300.0


def cubin(source: str, target: str, options: Sequence[str] = ()) -> tuple[bytes, str]:
    """The machine code of a CUDA source, and what nvcc said while it compiled.

    ``-Xptxas -v`` among the options makes it tell registers and spills. Messages call the source
    ``kernel.cu``. Raises :class:`toolchain.CompileError` with the line,
    :class:`toolchain.ToolMissing`.
    """
    with build_cache.Scratch() as scratch:
        folder = Path(scratch)
        (folder / "source.cu").write_text(f'#line 1 "kernel.cu"\n{source}\n', encoding="utf-8")
        command = toolchain.nvcc_command("cubin", target, options=options)
        command += ["source.cu", "-o", "kernel.cubin"]
        done = process.run(command, timeout=_SECONDS, cwd=folder)
        if not done.ok:
            raise toolchain.explain(done.stdout + done.stderr, "kernel.cu")
        return (folder / "kernel.cubin").read_bytes(), done.stdout + done.stderr


def listing(code: bytes, *options: str) -> str:
    """What ``nvdisasm -c`` prints of machine code, with further options.

    Raises :class:`toolchain.ToolMissing` without nvdisasm, which is part of the CUDA toolkit.
    """
    tool = toolchain.tool("nvdisasm")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(code)
        done = process.run([tool, "-c", *options, file.name], timeout=_SECONDS)
    if not done.ok:
        raise toolchain.CudaError(f"nvdisasm failed: {done.stderr}")
    return done.stdout
