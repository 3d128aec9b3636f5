"""CUDA source to PTX, by nvcc; cached by content."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from phasebit import process, toolchain

DEFAULT_ARCH = "sm_90a"
_OPTIONS = ("-std=c++17", "-O3", "-lineinfo", "-Wno-deprecated-gpu-targets")


def ptx(
    source: str | Path,
    arch: str | None = None,
    options: Sequence[str] = (),
    name: str | None = None,
) -> str:
    """The PTX of a CUDA source: a path to a ``.cu`` file, or its text.

    Raises :class:`phasebit.toolchain.CompileError` with file and line,
    :class:`phasebit.toolchain.ToolMissing` without an nvcc, and
    :class:`phasebit.toolchain.CudaError` for a target that it cannot build.
    """
    if not isinstance(source, str | Path):
        raise toolchain.CudaError(
            f"give the path of a .cu file, or CUDA source, not {type(source).__name__}"
        )
    if isinstance(source, Path) or ("\n" not in source and source.endswith(".cu")):
        path = Path(source)
        if not path.is_file():
            raise toolchain.CudaError(
                f"there is no file {path}: give the path of a .cu file, or CUDA source"
            )
        name = name or path.name
        source = path.read_text(encoding="utf-8")
    name = name or "source.cu"
    compiler = toolchain.nvcc()
    arch = arch or DEFAULT_ARCH
    if arch not in compiler.targets:
        raise toolchain.CudaError(
            f"nvcc {compiler.version} cannot build {arch}: it builds {', '.join(compiler.targets)}"
        )
    number = arch.removeprefix("sm_")
    flags = [*_OPTIONS, "-gencode", f"arch=compute_{number},code=compute_{number}", *options]
    text = f'#line 1 "{name}"\n{source}\n'
    facts = ["ptx", text, toolchain.headers(source), flags, compiler.version]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]
    cached = toolchain.cache_folder() / f"{key}.ptx"
    if cached.is_file():
        return cached.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="phasebit-") as scratch:
        Path(scratch, "source.cu").write_text(text, encoding="utf-8")
        include = [f"-I{folder}" for folder in toolchain.include_folders()]
        command: list[str | Path] = [
            compiler.path,
            *flags,
            *include,
            "-ptx",
            "source.cu",
            "-o",
            "kernel.ptx",
        ]
        done = process.run(command, timeout=toolchain.BUILD_SECONDS, cwd=scratch)
        if not done.ok:
            raise toolchain.explain(done.stdout + done.stderr, name)
        result = Path(scratch, "kernel.ptx").read_text(encoding="utf-8")
    cached.parent.mkdir(parents=True, exist_ok=True)
    temporary = cached.with_suffix(f".{key[:6]}.new")
    temporary.write_text(result, encoding="utf-8")
    temporary.replace(cached)
    return result
