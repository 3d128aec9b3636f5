"""CUDA source to PTX, by nvcc; cached by content."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from phasebit import build_cache, toolchain

DEFAULT_ARCH = "sm_90a"
_OPTIONS = ("-std=c++17", "-O3", "-lineinfo", "-Wno-deprecated-gpu-targets")


def ptx(
    source: str | Path,
    arch: str | None = None,
    options: Sequence[str] = (),
    name: str | None = None,
) -> str:
    """The PTX of a CUDA source: a path to a ``.cu`` file, or its text.

    A file finds headers beside it, and those in folders that ``options`` name (``-Iinclude``).

    Raises :class:`phasebit.toolchain.CompileError` with file and line,
    :class:`phasebit.toolchain.ToolMissing` without an nvcc, and
    :class:`phasebit.toolchain.CudaError` for a target that it cannot build.
    """
    if not isinstance(source, str | Path):
        raise toolchain.CudaError(
            f"give the path of a .cu file, or CUDA source, not {type(source).__name__}"
        )
    listed = isinstance(options, Sequence) and not isinstance(options, str)
    if not listed or not all(isinstance(each, str) for each in options):
        raise toolchain.CudaError(f"options is a list of nvcc's, as ['-O1'], not {options!r}")
    folders = list(_include_folders(options))
    beside = []
    if isinstance(source, Path) or ("\n" not in source and source.endswith(".cu")):
        path = Path(source)
        if not os.path.isfile(path):
            raise toolchain.CudaError(
                f"there is no file {path}: give the path of a .cu file, or CUDA source"
            )
        name = name or path.name
        beside = [f"-I{path.absolute().parent}"]
        folders.insert(0, path.parent)
        try:
            source = path.read_text(encoding="utf-8-sig")  # an editor may put a mark first
        except UnicodeDecodeError as error:
            raise toolchain.CudaError(f"{path} is no text of UTF-8: save it as one") from error
    name = name or "source.cu"
    try:
        source.encode()
    except UnicodeEncodeError as error:
        raise toolchain.CudaError(
            f"the source has {source[error.start]!r}, which is no letter: give text"
        ) from error
    compiler = toolchain.nvcc()
    arch, feature = toolchain.for_this_gpu(DEFAULT_ARCH if arch is None else arch)
    options = [*feature, *options]
    compiler.check(arch)
    flags = [*_OPTIONS, *options]
    text = f"{toolchain.line_mark(1, name)}\n{source}\n"
    facts: list[object] = ["ptx", arch, text, toolchain.headers(source), flags, compiler.version]
    if own := _own_headers(source, folders):
        facts.append(own)
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]

    def compile_(result: Path) -> None:
        folder = result.parent
        (folder / "source.cu").write_text(text, encoding="utf-8")
        command = toolchain.nvcc_command("ptx", arch, options=[*beside, *flags])
        done = toolchain.started(
            [*command, folder / "source.cu", "-o", result],
            timeout=toolchain.BUILD_SECONDS,
            env=toolchain.temporary_in(folder),
        )
        log = done.stdout + done.stderr
        if not done.ok:
            raise toolchain.explain(log, name)
        if not result.exists():  # as with --help
            message = f"nvcc made no PTX of {name}: see its options"
            raise toolchain.CompileError(message, name, None, log)

    return build_cache.keep(f"{key}.ptx", compile_).read_text(encoding="utf-8")


def _include_folders(options: Sequence[str]) -> Iterator[Path]:
    """The folders that options of nvcc name for headers."""
    words = iter(options)
    for word in words:
        if word in ("-I", "--include-path"):
            yield Path(next(words, ""))
        elif match := re.match(r"(?:-I=?|--include-path=)(.+)", word):
            yield Path(match[1])


def _own_headers(source: str, folders: Sequence[Path]) -> list[tuple[str, str]]:
    """The headers from these folders that a source includes, directly or not: name and text.

    Each is looked for beside the file that includes it first, as compilers do.
    """
    found: dict[Path, tuple[str, str]] = {}
    waiting = [(source, list(folders))]
    while waiting:
        text, places = waiting.pop()
        for name in re.findall(r'^\s*#\s*include\s*["<]([^">]+)[">]', text, re.MULTILINE):
            path = next((place / name for place in places if (place / name).is_file()), None)
            if path and path not in found:
                found[path] = name, path.read_text(encoding="utf-8", errors="replace")
                waiting.append((found[path][1], [path.parent, *folders]))
    return sorted(found.values())
