"""What the generated text calls objects: the functions of instructions, constants, shapes.

All functions of a program are compiled with one dictionary of globals; here each object gets its
name in it.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from phasebit.emulator.ptx.types import BOOL, Form


class GlobalNames:
    """``things`` is the dictionary: name -> object."""

    def __init__(self, things: dict[str, Any]) -> None:
        self.things = things
        self._bound: dict[str, dict[object, str]] = {}
        """The name asked for -> object -> its own name."""

    def __contains__(self, name: str) -> bool:
        return name in self.things

    def bind(self, wanted: str, thing: Any) -> str:
        """The name of an object; equal tuples share one.

        A number at its end keeps it apart from others; no register's name ends in ``_``.
        """
        name = plain = "".join(c if c.isalnum() else "_" for c in wanted)
        known = self._bound.setdefault(plain, {})
        key = thing if isinstance(thing, tuple) else id(thing)
        if key not in known:
            if self.things.setdefault(name, thing) is not thing:
                name = f"{plain}_{len(known) + 2}_"
                self.things[name] = thing
            known[key] = name
        return known[key]

    def constant(self, value: int | float, form: Form, bits: int | None = None) -> str:
        """The name of a number as a NumPy scalar; ``bits``: the pattern that PTX gives for it."""
        if bits is not None and form.kind == "f" and form.itemsize == 8 and bits < 1 << 32:
            bits = None
        if bits is not None:
            if form.itemsize == 4 and bits >= 1 << 32:  # 0d literal for a 32-bit operand
                bits = struct.unpack("<I", struct.pack("<f", value))[0]
            raw = (bits & ((1 << 8 * form.itemsize) - 1)).to_bytes(form.itemsize, "little")
            scalar = np.frombuffer(raw, form)[0]
            name = f"k{bits:x}_{form.str[1:]}"
        elif form == BOOL:
            scalar, name = np.bool_(bool(value)), "true" if value else "false"
        elif form.kind == "f":
            scalar = form.type(value)
            name = f"k{scalar.view(f'u{form.itemsize}'):x}_{form.str[1:]}"
        else:
            number = int(value) & ((1 << 8 * form.itemsize) - 1)
            scalar = np.frombuffer(number.to_bytes(form.itemsize, "little"), form)[0]
            name = f"k{number}_{form.str[1:]}"
        self.things.setdefault(name, scalar)
        return name


__all__ = ["GlobalNames"]
