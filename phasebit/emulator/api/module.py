"""PTX text as a module: its kernels, and its global and constant variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator.api.kernel import Kernel
from phasebit.emulator.errors import LaunchError, PtxError
from phasebit.emulator.machine.device_memory import Allocation, Memory
from phasebit.emulator.ptx.link import link
from phasebit.emulator.ptx.mangling import apart, find, readable
from phasebit.emulator.ptx.placement import FUNCTION_BASE
from phasebit.emulator.ptx.syntax import Function, Immediate, Symbol, Variable
from phasebit.emulator.ptx.syntax import Module as Syntax
from phasebit.emulator.ptx.types import dtype

MAX_VARIABLE = 1 << 30
"""Bytes of one global or constant variable."""


class Module:
    """PTX text, read.  ``module["name"]`` is a kernel, by its name in the PTX or in C++:
    ``module["add"]``, ``module["add<float, 4>"]``.

    Raises :class:`PtxError` for text that is no PTX.
    """

    kernel_type = Kernel
    """What :meth:`__getitem__` makes of a kernel's text."""

    def __init__(self, ptx: str, memory: Memory | None = None) -> None:
        if not isinstance(ptx, str):
            raise PtxError(f"Module takes PTX text, not {type(ptx).__name__}; for a file, its text")
        self.ptx = ptx
        self.syntax = self.read(ptx)
        self.memory = memory or Memory()
        self.symbols: dict[str, int] = {}
        self.allocations: dict[str, Allocation] = {}
        self._kernels: dict[str, Kernel] = {}
        self._place_variables()

    def read(self, ptx: str) -> Syntax:
        """The text, read now: what a class with a cache asks only where it has none."""
        return link(ptx)

    @property
    def target(self) -> str:
        """What it was built for: ``"sm_90a"``."""
        return self.syntax.target

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels, as in the PTX."""
        return [name for name, f in self.syntax.functions.items() if f.is_entry and f.has_body]

    def __getitem__(self, name: str) -> Kernel:
        function = self.function(name)
        if function.name not in self._kernels:
            self._kernels[function.name] = self.kernel_type(
                self.ptx, self.syntax, function, self.memory, self.symbols
            )
        return self._kernels[function.name]

    def function(self, name: str) -> Function:
        """A kernel's text; raises :class:`LaunchError` for a name that is none, or of several.

        ``name``: of the PTX, or as C++ has it: ``add``, ``add<float, 4>``, ``add(float*)``.
        """
        matches = find(name, self.kernels)
        if len(matches) != 1:
            known = ", ".join(apart(self.kernels)) or "none"
            what = "no kernel" if not matches else "more than one kernel"
            remedy = ""
            if not matches and "<" in str(name):
                remedy = (
                    "; a template is there as the source names it: "
                    f"template __global__ void {name.split('<')[0]}<...>(...);"
                )
            raise LaunchError(f"this module has {what} called {name!r}; it has: {known}{remedy}")
        return self.syntax.functions[matches[0]]

    def _place_variables(self) -> None:
        """Allocate and initialise the module's global and constant variables."""
        variables = [v for v in self.syntax.variables.values() if v.space in ("global", "const")]
        for variable in variables:
            if variable.size > MAX_VARIABLE:
                raise PtxError(
                    f"{readable(variable.name)} has {variable.size} bytes; the emulator has room "
                    f"for {MAX_VARIABLE} in one variable", variable.line,
                )  # fmt: skip
            allocation = self.memory.allocate(
                variable.size, readable(variable.name),
                "const" if variable.space == "const" else "global",
            )  # fmt: skip
            self.allocations[variable.name] = allocation
            self.symbols[variable.name] = allocation.address
        for variable in variables:
            if variable.initial:
                self._initialise(variable)

    def _initialise(self, variable: Variable) -> None:
        if variable.type == "b128":
            raise PtxError(f"{readable(variable.name)}: .b128 takes no values", variable.line)
        form = dtype(variable.type)
        numbers = []
        for value in variable.initial or []:
            if isinstance(value, Symbol):
                number = self._symbol(value, variable)
                numbers.append(np.array([number], np.uint64).view(np.uint8)[: form.itemsize])
                continue
            bits = value.bits if isinstance(value, Immediate) else None
            if bits is not None:
                raw = bits.to_bytes(8, "little")[: form.itemsize]
            elif form.kind == "f":
                raw = bytes(form.type(value).tobytes())
            elif not isinstance(value, int):
                raise PtxError(
                    f"{readable(variable.name)} holds integers, and {value} is none", variable.line
                )
            else:
                number = int(value) & ((1 << 8 * form.itemsize) - 1)
                raw = number.to_bytes(form.itemsize, "little")
            numbers.append(np.frombuffer(raw, np.uint8))
        data = np.concatenate(numbers)
        start = self.allocations[variable.name].start
        if len(data) > variable.size:
            raise PtxError(
                f"{readable(variable.name)} has {variable.size} bytes, its values {len(data)}",
                variable.line,
            )
        self.memory.u1[start : start + len(data)] = data

    def _symbol(self, symbol: Symbol, variable: Variable) -> int:
        if symbol.name in self.symbols:
            return self.symbols[symbol.name] + symbol.offset
        names = list(self.syntax.functions)
        if symbol.name in names:
            return FUNCTION_BASE + 16 * names.index(symbol.name)
        raise PtxError(
            f"{variable.name} is initialised with the unknown {symbol.name}", variable.line
        )

    def variable(self, name: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The bytes of a global variable, as a view that may be written."""
        matches = [n for n in self.allocations if n == name or readable(n) == name]
        if len(matches) != 1:
            raise LaunchError(
                f"this module has no variable {name!r}; it has: "
                f"{', '.join(map(readable, self.allocations)) or 'none'}"
            )
        return self.memory.bytes(self.allocations[matches[0]])
