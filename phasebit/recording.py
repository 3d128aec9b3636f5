"""What ``python -m phasebit record`` does: measure a chapter on this machine, write its record.

A chapter that has something to measure has a module ``record`` in its folder, with two names.
``NAME`` is what its record is called (``"double_buffering"``, so the file is
``records/double_buffering.nvidia-h200.json``). ``record()`` measures and returns the record, the
whole JSON: :func:`phasebit.measure.facts`, ``"benchmark"``, ``"protocol"`` and whatever was
measured. It may print lines that begin with ``⏱``. Where it saves other records, too,
``FURTHER`` names them; one whose module has a ``NAME`` and a ``record()`` as well can be measured
alone, by that name. Where it needs a certain GPU, ``TARGET`` says what that must run; where it
needs several of one machine, ``GPUS`` says how many.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Protocol, cast

from phasebit import chapters, clean_kernels, contents, files, hardware, measure


class Benchmark(Protocol):
    """What a chapter's module ``record`` holds."""

    NAME: str

    def record(self) -> dict[str, Any]:
        """Measure, and return the record."""


def measured() -> list[str]:
    """The chapters that have something to measure, in the order of the book; then the appendix."""
    numbers = _numbers()
    names = chapters.having("record")
    return sorted(names, key=lambda name: (numbers.get(name, 1 << 20), name))


def possible() -> tuple[list[str], list[str]]:
    """Of :func:`measured`, what this machine's GPU can measure, and what needs another GPU.

    Where there is none, what every GPU can measure is in the first list: it says what is missing.
    """
    here = hardware.gpu()

    def fits(name: str) -> bool:
        wanted = benchmark(name)
        target = getattr(wanted, "TARGET", None)
        enough = getattr(wanted, "GPUS", 1) <= max(hardware.gpus(), 1)
        return enough and (target is None or (here is not None and here.takes(target)))

    names = measured()
    return [name for name in names if fits(name)], [name for name in names if not fits(name)]


def chapter(word: str) -> str:
    """The chapter that a word names, by its folder (``"copy_engine"``) or its number (``"15"``).

    A record that is saved beside a chapter's is asked for by its own name
    (``"attention_controls"``). Raises ``LookupError`` when the word names none, or one with nothing
    to measure.
    """
    numbers = _numbers()
    asked = next((name for name, number in numbers.items() if word == str(number)), word)
    known = measured()
    if asked not in known and asked not in _beside():
        some = ", ".join(f"{name} ({numbers[name]})" if name in numbers else name for name in known)
        raise LookupError(f"chapter {word} has nothing to measure: choose from {some}")
    return asked


def _numbers() -> dict[str, int]:
    """Chapter -> its number, from the notebooks' names; an installed package has no notebooks."""
    pages = contents.notebooks(files.book())
    found = {contents.name(path): contents.number(path) for path in pages}
    return {name: number for name, number in found.items() if number is not None}


def _beside() -> dict[str, tuple[str, str]]:
    """Records of modules beside a chapter's ``record``: name -> the chapter and the module."""
    found = {}
    for path in sorted(Path(chapters.__path__[0]).glob("*/*.py")):
        text = path.read_text(encoding="utf-8")
        named = re.search(r'^NAME = "(\w+)"$', text, re.M)
        if named and path.stem != "record" and "\ndef record() ->" in text:
            found[named[1]] = path.parent.name, path.stem
    return found


def benchmark(name: str) -> Benchmark:
    """The benchmark of a chapter, by its folder's name; or of a record beside it, by its name."""
    alone = _beside().get(name) if name not in measured() else None
    return cast(Benchmark, chapters.load(*alone or (name, "record")))


def record(name: str) -> Path:
    """Measure a chapter on this machine and write the record; returns its file.

    Where the chapter has programs that must be clean, that record is renewed, too.

    Raises :class:`phasebit.toolchain.CudaError` when the chapter needs a GPU and there is none, or
    when a kernel fails.
    """
    path = measure.save(benchmark(name).record())
    if name in chapters.having("clean"):
        measure.save(clean_kernels.record())
    return path
