"""Mangled names of C++, as far as people want to read them, and as they write them themselves.

Source: Itanium C++ ABI, section 5.1; ``__cxa_demangle`` is its section 3.4.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any


def demangle(symbol: str) -> str:
    """The name in a mangled symbol, without its parameters; the symbol itself if it has none.

    >>> demangle("_Z6matmulPKfS0_Pf"), demangle("_ZN4ring6matmulEv")
    ('matmul', 'ring::matmul')
    """
    match = re.match(r"_ZN?", symbol)
    names, rest = [], symbol[match.end() :] if match else ""
    while rest[:1].isdigit():
        digits = re.match(r"\d+", rest)
        assert digits
        end = digits.end() + int(digits[0])
        names.append(rest[digits.end() : end])
        rest = rest[end:] if symbol.startswith("_ZN") else ""
    return "::".join(names) or symbol


# What has digits and is no name: a number given to a template, a repetition, an array's extent.
_NO_NAME = re.compile(r"L[a-z]n?\d+E|[ST][0-9A-Z]*_|A\d+_")


def readable(name: str) -> str:
    """The last part of a mangled name: ``_ZZ5tiledPKfE2As`` is ``As``.

    >>> readable("_ZZ5tiledPKfS0_PfiE2As"), readable("_Z5tiledILi3EEvPA10_f"), readable("tile")
    ('As', 'tiled', 'tile')
    """
    if not name.startswith("_Z"):
        return name
    best, at = name, 2
    while at < len(name):
        length = re.compile(r"\d+").match(name, at)
        if length is None:
            skipped = _NO_NAME.match(name, at)
            at = skipped.end() if skipped else at + 1
            continue
        at = length.end() + int(length[0])
        word = name[length.end() : at]
        if len(word) == int(length[0]) and word.isidentifier():
            best = word
    return best


@functools.cache
def _runtime() -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """``__cxa_demangle`` and ``free`` of the C++ runtime that NumPy has brought along, or None."""
    for name in ("libstdc++.so.6", "libc++abi.so.1", None):
        try:
            library = ctypes.CDLL(name)
            demangler = library.__cxa_demangle
        except (OSError, AttributeError):
            continue
        demangler.argtypes = [ctypes.c_char_p, *[ctypes.c_void_p] * 3]
        demangler.restype = ctypes.c_void_p
        release = ctypes.CDLL(None).free
        release.argtypes, release.restype = [ctypes.c_void_p], None
        return demangler, release
    return None


@functools.cache
def declaration(symbol: str) -> str:
    """A function as C++ declares it, without what it returns; the symbol itself if it is no C++.

    Names of unnamed namespaces are left out. So is all but the symbol where no C++ runtime is.

    >>> declaration("_Z3addIfLi4EEvPT_i"), declaration("saxpy")
    ('add<float, 4>(float*, int)', 'saxpy')
    """
    found = _runtime()
    if not symbol.startswith("_Z") or found is None:
        return symbol
    demangler, release = found
    address = demangler(symbol.encode(), None, None, None)
    if not address:
        return symbol
    text = ctypes.string_at(address).decode()
    release(address)
    text = text.replace("(anonymous namespace)::", "")
    return text[_name_start(text) :]


def parameter_types(symbol: str) -> list[str]:
    """The types of a function's parameters, as C++ writes them; none where it is no C++.

    >>> parameter_types("_Z3addIfLi4EEvPKT_St4pairIiiE"), parameter_types("saxpy")
    (['float const*', 'std::pair<int, int>'], [])
    """
    whole = declaration(symbol)
    inside = whole[_parameters_start(whole) + 1 : -1]
    found, depth, start = [], 0, 0
    for i, letter in enumerate(inside):
        depth += (letter in "<({[") - (letter in ">)}]")
        if letter == "," and not depth:
            found.append(inside[start:i].strip())
            start = i + 1
    last = inside[start:].strip()
    return [*found, last] if last else found


def _name_start(text: str) -> int:
    """Where the name in a declaration begins: after the last space outside brackets before it."""
    depth, start = 0, 0
    for i, letter in enumerate(text[: _parameters_start(text)]):
        depth += (letter in "<({") - (letter in ">)}")
        if letter == " " and not depth:
            start = i + 1
    return start


def _parameters_start(text: str) -> int:
    """Where the parameters of a declaration begin: at the bracket that its last one closes."""
    depth = 0
    for i in range(len(text) - 1, -1, -1):
        depth += (text[i] == ")") - (text[i] == "(")
        if not depth:
            return i if text.endswith(")") else len(text)
    return len(text)


def spellings(symbol: str) -> list[str]:
    """What a function may be called, shortest first.

    >>> spellings("_ZN4ring3addIfLi4EEEvPT_i")
    ['ring::add', 'ring::add<float, 4>', 'ring::add<float, 4>(float*, int)', \
'_ZN4ring3addIfLi4EEEvPT_i']
    """
    whole = declaration(symbol)
    name = whole[: _parameters_start(whole)]
    simple = name[: _template_start(name)]
    return list(dict.fromkeys([simple, demangle(symbol), name, whole, symbol]))


def _template_start(name: str) -> int:
    """Where the template arguments begin that end a name; its length where none do."""
    if not name.endswith(">"):
        return len(name)
    depth = 0
    for i in range(len(name) - 1, -1, -1):
        depth += (name[i] == ">") - (name[i] == "<")
        if not depth:
            return i
    return len(name)


def plain(spelling: str) -> str:
    """A spelling without what C++ does not ask for: blanks, suffixes of numbers, ``int``.

    >>> plain("f< unsigned int ,4u >"), plain("f<unsigned, 4>")
    ('f<unsigned,4>', 'f<unsigned,4>')
    """
    text = re.sub(r"\s+", " ", spelling.strip())
    text = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text)
    text = re.sub(r"\b(unsigned|long|short) int\b", r"\1", text)
    return re.sub(r"\s*(\W)\s*", r"\1", text)


def find(name: str, symbols: Iterable[str]) -> list[str]:
    """The symbols that this name may mean: the symbol itself, or what C++ calls it.

    >>> find("f<float,4>", ["_Z1fIfLi4EEvPT_", "_Z1fIfLi8EEvPT_"])
    ['_Z1fIfLi4EEvPT_']
    """
    symbols = list(symbols)
    if name in symbols:
        return [name]
    wanted = plain(str(name))  # of another type it is no name, and is refused as one
    return [each for each in symbols if wanted in map(plain, spellings(each))]


def apart(symbols: Iterable[str]) -> list[str]:
    """For each symbol the shortest spelling that it shares with no other.

    >>> apart(["_Z1fIfLi4EEvPT_", "_Z1fIfLi8EEvPT_", "_Z1gPf"])
    ['f<float, 4>', 'f<float, 8>', 'g']
    """
    every = [spellings(symbol) for symbol in symbols]
    uses = Counter(spelling for each in every for spelling in each)
    return [next((one for one in each if uses[one] == 1), each[-1]) for each in every]
