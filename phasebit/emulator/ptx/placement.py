"""Where everything lies: shared variables, stack frames, parameters, globals.

Shared memory of a block: the static variables of the kernel and of all it
calls, then the dynamic part (``extern .shared``).  Local memory of a thread:
one fixed frame for each function, after those of its callers, so every local
address is known in advance.  A call that may be recursive moves the callee's
frame, and all after it, on by a *step*: there addresses are relative to a base
that the group keeps.  The address windows make a generic 64-bit address say
which space it means.

Source: PTX ISA 5.1 (state spaces), 7 (calls), 6.4.1.1 (generic addressing).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from phasebit.emulator.errors import PtxError
from phasebit.emulator.ptx.mangling import readable
from phasebit.emulator.ptx.syntax import (
    Address,
    Function,
    Instruction,
    Module,
    Operand,
    Pair,
    Symbol,
    Tuple,
    Variable,
    Vector,
)

GLOBAL_BASE = 0x7000_0000_0000
SHARED_BASE = 0x7800_0000_0000
LOCAL_BASE = 0x7900_0000_0000
PARAM_BASE = 0x7A00_0000_0000
FUNCTION_BASE = 0x7B00_0000_0000
MAX_FRAME = 512 << 10
"""Bytes of local memory that a thread may have (CUDA C++ Programming Guide, table of limits)."""

RANK_SHIFT = 24
"""``address >> RANK_SHIFT`` of a 32-bit shared address is the rank of its block in the cluster."""

WINDOW_SHIFT = 40
"""``address >> WINDOW_SHIFT`` tells the window of a generic address."""


def align_up(value: int, alignment: int) -> int:
    """The next multiple of ``alignment``.

    >>> align_up(5, 4), align_up(8, 4)
    (8, 8)
    """
    return -(-value // alignment) * alignment


def parameter_offsets(parameters: Iterable[Variable]) -> tuple[dict[str, int], int]:
    """The offset of each kernel parameter, and the size of them all."""
    offsets: dict[str, int] = {}
    at = 0
    for parameter in parameters:
        at = align_up(at, max(1, parameter.align))
        offsets[parameter.name] = at
        at += parameter.size
    return offsets, at


class Layout:
    """The memory layout of one kernel of a module.

    ``globals`` maps the names of global and constant variables to addresses,
    ``externals`` those of functions that the emulator itself provides.
    """

    def __init__(
        self,
        module: Module,
        kernel: Function,
        globals_: dict[str, int],
        externals: dict[str, Callable[..., Any]],
    ) -> None:
        self.module = module
        self.kernel = kernel
        self.globals = globals_
        self.externals = externals
        self.parameters, self.parameter_size = parameter_offsets(kernel.parameters)
        self.function_ids = {name: i for i, name in enumerate(module.functions)}
        self.functions = self._reachable()
        self._place_shared()
        self._place_frames()

    # -- which functions ------------------------------------------------------

    def _reachable(self) -> list[Function]:
        order: list[Function] = []
        wanted = [self.kernel]
        while wanted:
            function = wanted.pop(0)
            if function in order:
                continue
            order.append(function)
            if any(_through_pointer(item) for item in function.body):
                # whose address another kernel has left in memory, as it does with objects
                wanted += [self.module.functions[name] for name in sorted(self._address_taken())]
            for name in self._mentioned(function):
                other = self.module.functions.get(name)
                if other is not None and not other.is_entry and name not in self.externals:
                    if "GetParameterBuffer" in name or "LaunchDevice" in name:
                        raise PtxError(
                            f"{readable(function.name)} launches a kernel; the emulator runs "
                            "kernels that the host launches (no dynamic parallelism)",
                            function.line,
                        )
                    if not other.has_body:
                        raise PtxError(
                            f"{function.name} calls {name}, which has no body here: link it in, "
                            "or compile everything in one file",
                            function.line,
                        )
                    wanted.append(other)
        return order

    def _mentioned(self, function: Function) -> list[str]:
        found: list[str] = []

        def visit(operand: Operand) -> None:
            if isinstance(operand, Symbol):
                found.append(operand.name)
            elif isinstance(operand, Vector | Tuple):
                for item in operand.items:
                    visit(item)
            elif isinstance(operand, Pair):
                visit(operand.first)
                visit(operand.second)
            elif isinstance(operand, Address):
                visit(operand.base)

        for item in function.body:
            if isinstance(item, Instruction):
                for operand in item.operands:
                    visit(operand)
        for name in list(found):  # function addresses in tables
            variable = self.module.variables.get(name)
            for value in (variable.initial or []) if variable else []:
                if isinstance(value, Symbol):
                    found.append(value.name)
        return list(dict.fromkeys(found))

    # -- shared memory --------------------------------------------------------

    def _place_shared(self) -> None:
        self.shared: dict[str, int] = {}
        self.shared_sizes: dict[str, int] = {}
        used = {name for f in self.functions for name in self._mentioned(f)}
        variables = [v for v in self.module.variables.values() if v.name in used]
        variables += [v for f in self.functions for v in f.variables]
        at = 0
        dynamic: list[Variable] = []
        self.shared_align = 16
        for variable in variables:
            if variable.space != "shared":
                continue
            self.shared_align = max(self.shared_align, variable.align)
            if variable.elements == 0:
                dynamic.append(variable)
                continue
            at = align_up(at, variable.align)
            self.shared[variable.name] = at
            self.shared_sizes[variable.name] = variable.size
            at += variable.size
        for variable in dynamic:
            at = align_up(at, max(16, variable.align))
        for variable in dynamic:
            self.shared[variable.name] = at
        self.static_shared = at
        self.has_dynamic = bool(dynamic)

    # -- stack frames ---------------------------------------------------------

    def _place_frames(self) -> None:
        """Callers first: a frame begins after the deepest frame of its callers."""
        self.frames: dict[tuple[str, str], int] = {}
        calls = self._calls()
        start = dict.fromkeys(calls, 0)
        size: dict[str, int] = {}
        for function in self.functions:
            at = 0
            frame = [*function.variables]
            if not function.is_entry:
                frame += [*function.parameters, *function.results]
            for variable in frame:
                if variable.space in ("local", "param"):
                    at = align_up(at, max(8, variable.align))
                    self.frames[function.name, variable.name] = at
                    at += variable.size
            size[function.name] = align_up(max(at, 1), 16)  # so that each call takes some
            if at > MAX_FRAME:
                raise PtxError(
                    f"{readable(function.name)} needs {at} bytes of local memory a thread; "
                    f"a GPU gives at most {MAX_FRAME}", function.line,
                )  # fmt: skip
        order, again = _callers_first(self.kernel.name, calls)
        for name in order:
            for target in calls[name] - again.get(name, set()):
                start[target] = max(start[target], start[name] + size[name])
        for key in self.frames:
            self.frames[key] += start[key[0]]
        self.frame_start = start
        self.frame_end = {name: start[name] + size[name] for name in calls}
        self.local_size = max(self.frame_end.values())
        self.recursive = bool(again)
        self.moving: set[str] = set()
        """Functions whose frames may be elsewhere than ``frames`` says, by the group's base."""
        wanted = [target for targets in again.values() for target in targets]
        while wanted:
            name = wanted.pop()
            if name not in self.moving:
                self.moving.add(name)
                wanted += calls[name]

    def step(self, caller: str, callee: str) -> int:
        """How far a call moves the base, so that the callee's frame is after the caller's."""
        if callee not in self.moving:
            return 0
        return max(0, self.frame_end[caller] - self.frame_start[callee])

    def _calls(self) -> dict[str, set[str]]:
        """Whom each function may call; through a pointer, whoever has its address taken."""
        names = {f.name for f in self.functions}
        taken = self._address_taken() & names
        calls: dict[str, set[str]] = {}
        for function in self.functions:
            targets: set[str] = set()
            for item in function.body:
                if isinstance(item, Instruction) and item.mnemonic == "call":
                    target = _called(item)
                    targets |= {target} & names if target else taken
            calls[function.name] = targets
        return calls

    def _address_taken(self) -> set[str]:
        """Functions whose address is used for more than a call, anywhere in the module."""
        taken: set[str] = set()
        functions = self.module.functions.values()
        names = {f.name for f in functions if f.has_body and not f.is_entry}
        for function in functions:
            for item in function.body:
                if isinstance(item, Instruction) and item.mnemonic != "call":
                    taken |= {
                        o.name for o in item.operands if isinstance(o, Symbol) and o.name in names
                    }
        for variable in self.module.variables.values():
            taken |= {v.name for v in variable.initial or [] if isinstance(v, Symbol)} & names
        return taken

    # -- questions the translator asks ---------------------------------------

    def place(
        self, symbol: Symbol, function: Function, instruction: Instruction
    ) -> tuple[str, int]:
        """The space and the place in it of a variable used as an address."""
        name = symbol.name
        if name in self.shared:
            return "shared", self.shared[name]
        if (function.name, name) in self.frames:
            return "local", self.frames[function.name, name]
        if name in self.globals:
            return "global", self.globals[name]
        if name in self.parameters and function.is_entry:
            return "param", self.parameters[name]
        raise PtxError(f"there is no variable {name!r}: {instruction.text}", instruction.line)

    def moves(self, symbol: Symbol, function: Function) -> bool:
        """Whether a symbol's address is relative to the group's base."""
        return function.name in self.moving and (function.name, symbol.name) in self.frames

    def address(self, symbol: Symbol, function: Function, instruction: Instruction) -> int:
        """The address of a symbol as a number, in its own space."""
        name = symbol.name
        if name in self.function_ids:
            return FUNCTION_BASE + 16 * self.function_ids[name]
        _, where = self.place(symbol, function, instruction)
        return where + symbol.offset

    def frame_place(
        self, operand: Operand, function: Function, instruction: Instruction
    ) -> tuple[int, int]:
        """Frame address and size of a call's argument."""
        if not isinstance(operand, Symbol) or (function.name, operand.name) not in self.frames:
            raise PtxError(
                f"a call passes .param variables, not {operand}: {instruction.text}",
                instruction.line,
            )
        everything = [*function.variables, *function.parameters, *function.results]
        size = next(v.size for v in everything if v.name == operand.name)
        return self.frames[function.name, operand.name], size

    def shared_place(self, offset: int) -> tuple[str, int]:
        """The variable that a shared address lies in, and how many bytes from its beginning."""
        best = "shared", offset
        for name, start in sorted(self.shared.items(), key=lambda item: item[1]):
            if start <= offset:
                best = readable(name), offset - start
        return best

    def shared_name(self, offset: int) -> str:
        """``As+64``: the variable that a shared address lies in."""
        name, rest = self.shared_place(offset)
        return f"{name}+{rest}"


def _called(call: Instruction) -> str | None:
    """The function that a call names; None where it is in a register."""
    target = next((o for o in call.operands if not isinstance(o, Tuple)), None)
    return target.name if isinstance(target, Symbol) else None


def _through_pointer(item: object) -> bool:
    """Whether this is a call of a function that only the run knows."""
    return isinstance(item, Instruction) and item.mnemonic == "call" and _called(item) is None


def _callers_first(root: str, calls: dict[str, set[str]]) -> tuple[list[str], dict[str, set[str]]]:
    """All functions with callers before callees, and the calls for which that cannot be.

    Depth first: a call back to a function that is being visited closes a cycle.
    """
    order: list[str] = []
    again: dict[str, set[str]] = {}
    seen, open_ = {root}, {root}
    stack = [(root, iter(sorted(calls[root])))]
    while stack:
        name, rest = stack[-1]
        target = next(rest, None)
        if target is None:
            stack.pop()
            open_.discard(name)
            order.append(name)
        elif target in open_:
            again.setdefault(name, set()).add(target)
        elif target not in seen:
            seen.add(target)
            open_.add(target)
            stack.append((target, iter(sorted(calls[target]))))
    order.reverse()
    return order + sorted(set(calls) - seen), again
