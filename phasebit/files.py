"""Where the repository's kernels and records are, in a checkout and in an installed package."""

from __future__ import annotations

import os
import re
import select
from pathlib import Path
from typing import TextIO

PATIENCE = 30
"""Seconds for which a pipe that a reader names may be silent."""

MOST_TEXT = 1 << 28
"""Bytes of a text that a reader names: a device that never ends is none."""

_PART = 1 << 16

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parent


def _folder(name: str) -> Path:
    for folder in (_CHECKOUT / name, _PACKAGE / "_data" / name):
        if (_CHECKOUT / "pyproject.toml").exists() or folder.parent.name == "_data":
            return folder
    raise FileNotFoundError(
        f"phasebit is installed without its folder {name}/: "
        "install it from a checkout with 'pip install .'"
    )


def read_text(name: str | Path) -> str:
    """The text of a file that a reader names. Raises ``ValueError``, a sentence."""
    data = bytearray()
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK)  # a pipe may have no writer
        with open(descriptor, "rb", buffering=0):
            ready = select.poll()
            ready.register(descriptor, select.POLLIN)
            while len(data) <= MOST_TEXT and b"\0" not in data[-_PART:]:
                if not ready.poll(PATIENCE * 1000):
                    raise ValueError(f"nobody wrote into {name} for {PATIENCE} s: give a file")
                part = os.read(descriptor, _PART)
                if not part:
                    break
                data += part
    except OSError as error:
        raise ValueError(f"cannot read {name}: {error.strerror}") from error
    if len(data) > MOST_TEXT:
        raise ValueError(f"{name} has more than {MOST_TEXT >> 20} MiB: give a text")
    try:
        if b"\0" not in data:
            return data.decode("utf-8-sig")  # an editor may put a mark first
    except UnicodeDecodeError:
        pass
    raise ValueError(f"{name} is no text")


def for_writing(name: str | Path) -> TextIO:
    """A file that a reader names, opened and emptied; names in it may be no text.

    Raises ``OSError``, at once for a pipe that nobody reads.
    """

    def opened(path: str, flags: int) -> int:
        descriptor = os.open(path, flags | os.O_NONBLOCK, 0o666)
        os.set_blocking(descriptor, True)
        return descriptor

    return open(name, "w", encoding="utf-8", errors="backslashreplace", opener=opened)


def renew(path: Path, text: str) -> None:
    """Write a file as a whole: whoever is stopped half way leaves what was there before."""
    new = path.with_name(f".{path.name}.new")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def kernels() -> Path:
    """The folder with the kernels: a folder for each chapter, and ``include/`` for several."""
    return _folder("kernels")


def bugs() -> Path:
    """The folder with bugs that people had: a folder for each, and ``include/`` for several."""
    return _folder("bugs")


def book() -> Path:
    """The folder of the notebooks; an installed package has none, and it does not exist there."""
    return _CHECKOUT / "book"


def records() -> Path:
    """The folder with the measurements, one JSON a benchmark and GPU."""
    return _folder("records")


def kernel(name: str) -> str:
    """The source of a kernel, by its chapter and its file name: ``double_buffering/tiled``.

    Raises ``ValueError`` when there is no such kernel.
    """
    path = kernels() / f"{name}.cu"
    if not path.is_file():
        known = ", ".join(kernel_names(".cu"))
        raise ValueError(f"the book has no kernel {name!r}: choose from {known}")
    return path.read_text(encoding="utf-8")


def whole_kernel(name: str) -> str:
    """:func:`kernel`, with the headers of its own folder in place of their ``#include``."""
    folder, seen = name.rpartition("/")[0], set[str]()

    def inlined(text: str) -> str:
        return re.sub(rf'^#include "({folder}/\w+\.cuh)"\n', once, text, flags=re.MULTILINE)

    def once(found: re.Match[str]) -> str:
        if found[1] in seen:
            return ""
        seen.add(found[1])
        text = (kernels() / found[1]).read_text(encoding="utf-8")
        return inlined(text.replace("#pragma once\n", ""))

    return inlined(kernel(name))


def function(kernel_name: str, name: str) -> str:
    """The text of a ``__device__ void`` function of a kernel's file, from its head to its brace.

    Raises ``ValueError`` when the file has no such function.
    """
    text = kernel(kernel_name)
    begin = text.index(f"__device__ void {name}(")
    return text[begin : text.index("\n}\n", begin) + 2]


def kernel_names(suffix: str) -> list[str]:
    """The names of all kernels in files that end so, as :func:`kernel` takes them."""
    found = kernels().rglob(f"*{suffix}")
    return sorted(path.relative_to(kernels()).with_suffix("").as_posix() for path in found)
