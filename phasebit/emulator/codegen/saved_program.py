"""A translated program as bytes, or a module that was read: what a cache may keep.

The bytes are good for the package, Python, NumPy and machine that saved them: :func:`maker` names
these. They are a pickle, so load only what you have saved yourself.
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import io
import marshal
import pickle
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

import phasebit.emulator.ops  # noqa: F401, it fills the table
from phasebit.emulator.codegen.translated_program import TranslatedProgram
from phasebit.emulator.ptx.syntax import Function
from phasebit.emulator.ptx.table import TABLE, Entry, filled

_PACKAGE = Path(__file__).resolve().parents[1]
_OPS = "phasebit.emulator.ops."


def save(thing: Any) -> bytes:
    """A :class:`TranslatedProgram` or a :class:`~phasebit.emulator.ptx.syntax.Module` as bytes.

    Of functions that a program does not reach only the names are saved: a module may have a hundred
    kernels, and each of its programs would hold them all.
    """
    out = io.BytesIO()
    pickler = pickle.Pickler(out, 5)
    pickler.dispatch_table = _REDUCERS
    if isinstance(thing, TranslatedProgram):
        reached = {id(function) for function in thing.layout.functions}
        pickler.dispatch_table = {
            **_REDUCERS, Function: functools.partial(_reduce_function, reached)
        }  # fmt: skip
    pickler.dump(thing)
    return out.getvalue()


def load(saved: bytes) -> Any:
    """What :func:`save` was given."""
    return pickle.loads(saved)


def maker() -> str | None:
    """What else but its text determines how PTX is read and translated; one word.

    ``None`` where instructions were added to the table: what is made of those is known to nobody
    but this process.
    """
    entries = [entry for entries in TABLE.values() for entry in entries]
    if not all(entry.function.__module__.startswith(_OPS) for entry in entries):
        return None
    return f"{_package()}-{len(entries)}"


@functools.cache
def _package() -> str:
    """A digest of the emulator's sources and of what runs them."""
    digest = hashlib.sha256(f"{sys.version} {np.__version__} {platform.machine()}".encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


# What a pickle would copy and must be the one that is here, and code, which it cannot take.


def _entry(mnemonic: str, index: int) -> Entry:
    return TABLE[mnemonic][index]


def _reduce_entry(entry: Entry) -> tuple[Any, ...]:
    index = next(i for i, each in enumerate(TABLE[entry.mnemonic]) if each is entry)
    return _entry, (entry.mnemonic, index)


def _reduce_function(reached: set[int], function: Function) -> str | tuple[Any, ...]:
    if id(function) in reached:
        return function.__reduce_ex__(5)
    return Function, (function.name, function.is_entry, function.line)


def _filled(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    return filled(function, **options)


def _reduce_partial(partial: functools.partial[Any]) -> tuple[Any, ...]:
    assert not partial.args, "the table fills in options alone"
    return _filled, (partial.func, partial.keywords)


def _reduce_form(form: np.dtype[Any]) -> tuple[Any, ...]:
    return np.dtype, (form.str,)


def _reduce_code(code: CodeType) -> tuple[Any, ...]:
    return marshal.loads, (marshal.dumps(code),)


_REDUCERS: dict[type, Callable[[Any], Any]] = {
    **copyreg.dispatch_table,
    Entry: _reduce_entry,
    functools.partial: _reduce_partial,
    CodeType: _reduce_code,
    **{
        type(np.dtype(letter)): _reduce_form
        for letter in np.typecodes["All"]
        if letter not in "OSUV"
    },
}

__all__ = ["load", "maker", "save"]
