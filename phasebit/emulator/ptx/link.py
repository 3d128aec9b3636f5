"""From several translation units to one module: what ``nvlink`` does, for PTX.

Device code that is compiled apart (``nvcc -rdc=true``) leaves a PTX text for each
unit.  They arrive here one after another; each begins with its ``.version``.  A
name declared in one is defined in another; of weak definitions (templates,
inline functions) the first counts.

Source: PTX ISA 10 (``.extern``, ``.visible``, ``.weak``, ``.common``).
"""

from __future__ import annotations

import re

from phasebit.emulator.errors import PtxError
from phasebit.emulator.ptx.mangling import readable
from phasebit.emulator.ptx.reader import read
from phasebit.emulator.ptx.syntax import Module

_BEGIN = re.compile(r"(?:^[ \t]*(?://.*)?\n)*+^[ \t]*\.version\b", re.MULTILINE)
"""Where a unit begins: with the comments before its ``.version``, which say who wrote it."""


def link(text: str) -> Module:
    """Read PTX of one or more units; lines are counted through all of it.

    Raises :class:`PtxError` for what is not PTX, for two definitions of a name,
    and for a variable that no unit defines.
    """
    starts = [found.start() for found in _BEGIN.finditer(text)]
    if len(starts) < 2:
        whole = read(text)
    else:
        ends = [*starts[1:], len(text)]
        before = [text.count("\n", 0, start) for start in starts]
        units = [read("\n" * n + text[a:b])
                 for n, a, b in zip(before, starts, ends, strict=True)]  # fmt: skip
        whole = units[0]
        for unit in units[1:]:
            _join(whole, unit)
    for variable in whole.variables.values():
        if variable.extern and variable.space in ("global", "const"):
            raise PtxError(
                f"{readable(variable.name)} is declared .extern, and no unit defines it",
                variable.line,
            )
    return whole


def _join(whole: Module, unit: Module) -> None:
    """Add a unit's names to those before it."""
    if unit.target != whole.target:
        raise PtxError(f"units for {whole.target} and {unit.target} cannot be one program")
    for name, function in unit.functions.items():
        known = whole.functions.get(name)
        if known is None or _replaces(function.has_body, function.weak, known.has_body, known.weak):
            whole.functions[name] = function
        elif function.has_body and known.has_body and not function.weak:
            raise PtxError(f"{readable(name)} is defined in two units", function.line)
    for name, variable in unit.variables.items():
        other = whole.variables.get(name)
        if other is None or _replaces(
            not variable.extern, variable.weak, not other.extern, other.weak
        ):
            whole.variables[name] = variable
        elif not (variable.extern or variable.weak or other.extern or variable.space == "shared"):
            raise PtxError(f"{readable(name)} is defined in two units", variable.line)


def _replaces(defined: bool, weak: bool, defined_before: bool, weak_before: bool) -> bool:
    """Whether a definition takes the place of what was there: a declaration, or a weaker one."""
    return defined and (not defined_before or (weak_before and not weak))


__all__ = ["link"]
