"""Modules, kernels, launches: what a program that uses the emulator touches.

    mod = pb.Module(ptx_text)
    run = mod["matmul"].launch(grid=(1,), block=(512,), args=[A, B, C, 4096])
    run.counters, run.hazards, run.timeline
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit.emulator import build
from phasebit.emulator.counters import Counters
from phasebit.emulator.errors import EmulatorError, LaunchError, PtxError
from phasebit.emulator.hazards import Checker, Hazard
from phasebit.emulator.layout import FUNCTION_BASE, Layout, readable
from phasebit.emulator.machine import Machine
from phasebit.emulator.memory import Allocation, Memory, Parameters
from phasebit.emulator.reader import read
from phasebit.emulator.syntax import Function, Immediate, Symbol, Variable
from phasebit.emulator.system import EXTERNALS
from phasebit.emulator.table import load_families
from phasebit.emulator.trace import Trace
from phasebit.emulator.translate import Program, translate
from phasebit.emulator.types import dtype

if TYPE_CHECKING:
    from phasebit.timeline import Timeline

MAX_THREADS = 1024
MAX_SHARED = {75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227,
              120: 99, 121: 99}  # fmt: skip
"""KiB of shared memory that a block may have, by compute capability."""

MAX_STEPS = 200_000_000
SCHEDULES = ("eager", "late", "random")


class Run:
    """What a launch did.

    ``counters``      a mapping from metric names to values
    ``hazards``       what the checker found, in order; empty for a correct kernel
    ``timeline``      a :class:`phasebit.timeline.Timeline` of the warps
    ``output``        what the kernel printed
    ``device``        ``"emulator"``
    ``milliseconds``  None: the emulator's clock is no time
    """

    def __init__(self, machine: Machine, hazards: list[Hazard]) -> None:
        self.counters: Counters = machine.counters
        self.hazards = hazards
        self.output = "".join(machine.printed)
        self.device = "emulator"
        self.milliseconds: float | None = None
        self.cycles = machine.clock
        self._trace = machine.trace

    @property
    def timeline(self) -> Timeline:
        """The warps of block 0 against the emulator's clock; see ``Trace.timeline``."""
        return self._trace.timeline()

    def __repr__(self) -> str:
        return f"<Run on the {self.device}: {len(self.hazards)} hazards, {self.cycles} cycles>"


class Module:
    """PTX text, read.  ``module["name"]`` is a kernel; the name may be the unmangled one.

    Raises :class:`PtxError` for text that is no PTX.
    """

    def __init__(self, ptx: str, memory: Memory | None = None) -> None:
        load_families()
        self.ptx = ptx
        self.syntax = read(ptx)
        self.memory = memory or Memory()
        self.symbols: dict[str, int] = {}
        self.allocations: dict[str, Allocation] = {}
        self._kernels: dict[str, Kernel] = {}
        self._place_variables()

    @property
    def target(self) -> str:
        return self.syntax.target

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels, as in the PTX."""
        return [name for name, f in self.syntax.functions.items() if f.is_entry and f.has_body]

    def __getitem__(self, name: str) -> Kernel:
        matches = [k for k in self.kernels if k == name] or [
            k for k in self.kernels if readable_kernel(k) == name
        ]
        if len(matches) != 1:
            known = ", ".join(readable_kernel(k) for k in self.kernels) or "none"
            what = "no kernel" if not matches else "more than one kernel"
            raise LaunchError(f"this module has {what} called {name!r}; it has: {known}")
        if matches[0] not in self._kernels:
            self._kernels[matches[0]] = Kernel(self, self.syntax.functions[matches[0]])
        return self._kernels[matches[0]]

    def _place_variables(self) -> None:
        """Allocate and initialise the module's global and constant variables."""
        variables = [v for v in self.syntax.variables.values() if v.space in ("global", "const")]
        for variable in variables:
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
            else:
                number = int(value) & ((1 << 8 * form.itemsize) - 1)  # type: ignore[arg-type]
                raw = number.to_bytes(form.itemsize, "little")
            numbers.append(np.frombuffer(raw, np.uint8))
        data = np.concatenate(numbers)
        start = self.allocations[variable.name].start
        self.memory.u1[start : start + len(data)] = data[: variable.size]

    def _symbol(self, symbol: Symbol, variable: Variable) -> int:
        if symbol.name in self.symbols:
            return self.symbols[symbol.name] + symbol.offset
        names = list(self.syntax.functions)
        if symbol.name in names:
            return FUNCTION_BASE + 16 * names.index(symbol.name)
        raise PtxError(f"{variable.name} is initialised with the unknown {symbol.name}", variable.line)

    def variable(self, name: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The bytes of a global variable, as a view that may be written."""
        matches = [n for n in self.allocations if n == name or readable(n) == name]
        if len(matches) != 1:
            raise LaunchError(
                f"this module has no variable {name!r}; it has: "
                f"{', '.join(map(readable, self.allocations)) or 'none'}"
            )
        return self.memory.bytes(self.allocations[matches[0]])


def readable_kernel(name: str) -> str:
    """The name in a mangled kernel: ``_Z5tiledPKf`` is ``tiled``."""
    from phasebit.toolchain import demangle

    return demangle(name)


class Kernel:
    """A kernel of a module, translated on first use."""

    def __init__(self, module: Module, function: Function) -> None:
        self.module = module
        self.function = function
        self.name = readable_kernel(function.name)
        self.layout = Layout(module.syntax, function, module.symbols, dict(EXTERNALS))
        self._programs: dict[tuple[bool, bool], Program] = {}

    def program(self, check: bool = False, exact: bool = True) -> Program:
        """The translated kernel; raises :class:`PtxError` for an unknown instruction."""
        key = (check, exact)
        if key not in self._programs:
            self._programs[key] = translate(
                self.module.syntax, self.function, self.layout, check, exact
            )
        return self._programs[key]

    def python(self, check: bool = False) -> str:
        """The generated Python text, to read."""
        return self.program(check).source

    def launch(
        self,
        grid: int | Sequence[int] = 1,
        block: int | Sequence[int] = 1,
        args: Sequence[Any] = (),
        *,
        shared: int = 0,
        cluster: int | Sequence[int] | None = None,
        device: str = "emulator",
        schedule: str = "late",
        seed: int = 0,
        check: bool = True,
        exact: bool = True,
        cooperative: bool = False,
        max_steps: int = MAX_STEPS,
    ) -> Run:
        """Run the kernel and wait for its end.

        ``args``: NumPy arrays for pointers (changed in place), numbers by the
        parameter's type, ``bytes`` or structured scalars for structs, integers for
        addresses.  ``shared``: bytes of dynamic shared memory.  ``schedule``: when
        asynchronous copies finish.  ``exact=False`` rounds f32 multiply-adds twice.

        Raises :class:`LaunchError` before anything runs; :class:`Fault`,
        :class:`Deadlock` or :class:`StepLimit` when the kernel fails.
        """
        if device not in ("emulator", "auto"):
            raise LaunchError(f"device {device!r}: this launch knows only 'emulator' and 'auto'")
        if schedule not in SCHEDULES:
            raise LaunchError(f"schedule {schedule!r}: choose one of {', '.join(SCHEDULES)}")
        shape = _three(grid, "grid")
        threads = _three(block, "block")
        clusters = _three(cluster, "cluster") if cluster is not None else self._cluster()
        self._check_shape(shape, threads, clusters, shared)
        data, arrays = self._marshal(args)
        try:
            return self._run(
                shape, threads, clusters, shared, data, schedule, seed, check, exact,
                cooperative, max_steps, cluster is not None,
            )  # fmt: skip
        finally:
            for array, allocation in arrays:
                _copy_back(self.module.memory, array, allocation)
                self.module.memory.free(allocation)

    def _run(
        self, grid: tuple[int, int, int], block: tuple[int, int, int],
        cluster: tuple[int, int, int], shared: int, data: bytes, schedule: str, seed: int,
        check: bool, exact: bool, cooperative: bool, max_steps: int, explicit: bool,
    ) -> Run:  # fmt: skip
        program = self.program(check, exact)
        memory = self.module.memory
        parameters = memory.allocate(max(1, len(data)), "parameters", "param")
        memory.bytes(parameters)[: len(data)] = np.frombuffer(data, np.uint8)
        machine = Machine(
            program=program, memory=memory, parameters=Parameters(data),
            parameter_start=parameters.start, grid=grid, block=block, cluster=cluster,
            explicit_cluster=explicit, cooperative=cooperative, dynamic_shared=shared,
            shared_size=self.layout.static_shared + shared, schedule=schedule, seed=seed,
            steps=max_steps, exact=exact, checked=check,
            counters=Counters(len(program.blocks)), trace=Trace(check),
        )  # fmt: skip
        hazards: list[Hazard] = []
        if check:
            machine.checker = Checker(machine, hazards)
        try:
            machine.run()
        except EmulatorError as error:
            error.hazards = hazards
            raise
        finally:
            machine.counters.finish(program)
            memory.free(parameters)
        return Run(machine, hazards)

    # -- checks before the launch ---------------------------------------------

    def _cluster(self) -> tuple[int, int, int]:
        given = self.function.directives.get("reqnctapercluster")
        return _three(given, "cluster") if given else (1, 1, 1)

    def _check_shape(
        self, grid: tuple[int, int, int], block: tuple[int, int, int],
        cluster: tuple[int, int, int], shared: int,
    ) -> None:  # fmt: skip
        name = self.name
        threads = block[0] * block[1] * block[2]
        if threads > MAX_THREADS:
            raise LaunchError(
                f"{name}: a block of {threads} threads is too large; at most {MAX_THREADS} fit"
            )
        if block[2] > 64:
            raise LaunchError(f"{name}: the z extent of a block is at most 64, not {block[2]}")
        limit = self.function.directives.get("maxntid") or self.function.directives.get("reqntid")
        if limit:
            most = int(np.prod(limit))
            if threads > most:
                raise LaunchError(
                    f"{name} was compiled for at most {most} threads a block "
                    f"(__launch_bounds__), not {threads}"
                )
        if shared < 0:
            raise LaunchError(f"{name}: shared={shared} bytes makes no sense")
        capability = int("".join(c for c in self.module.target if c.isdigit()) or 90)
        room = 1024 * MAX_SHARED.get(capability, 227)
        total = self.layout.static_shared + shared
        if total > room:
            raise LaunchError(
                f"{name}: {total} bytes of shared memory ({self.layout.static_shared} static, "
                f"{shared} dynamic) are more than the {room} that {self.module.target} gives a block"
            )
        for g, c, axis in zip(grid, cluster, "xyz", strict=True):
            if g % c:
                raise LaunchError(f"{name}: the grid's {axis} extent {g} is no multiple of the cluster's {c}")
        if cluster[0] * cluster[1] * cluster[2] > 16:
            raise LaunchError(f"{name}: a cluster has at most 16 blocks")

    def _marshal(self, args: Sequence[Any]) -> tuple[bytes, list[tuple[Any, Allocation]]]:
        """The parameter bytes, and the arrays that were copied to device memory."""
        wanted = self.function.parameters
        if len(args) != len(wanted):
            raise LaunchError(f"{self.name} takes {len(wanted)} arguments, not {len(args)}")
        data = bytearray(self.layout.parameter_size)
        arrays: list[tuple[Any, Allocation]] = []
        known: dict[tuple[int, int], Allocation] = {}
        for i, (arg, parameter) in enumerate(zip(args, wanted, strict=True)):
            try:
                raw = self._argument(arg, parameter, f"argument {i} of {self.name}", arrays, known)
            except LaunchError:
                for _, allocation in arrays:
                    self.module.memory.free(allocation)
                raise
            offset = self.layout.parameters[parameter.name]
            data[offset : offset + len(raw)] = raw
        return bytes(data), arrays

    def _argument(
        self, arg: Any, parameter: Variable, what: str, arrays: list[tuple[Any, Allocation]],
        known: dict[tuple[int, int], Allocation],
    ) -> bytes:  # fmt: skip
        size = parameter.size
        if isinstance(arg, np.ndarray) and arg.ndim >= 0 and not isinstance(arg, np.generic):
            if size != 8:
                raise LaunchError(f"{what} is a number of {size} bytes, but an array was given")
            if not arg.flags.c_contiguous:
                raise LaunchError(f"{what} is not contiguous; pass np.ascontiguousarray(...)")
            if arg.dtype.hasobject:
                raise LaunchError(f"{what} is an array of Python objects; use a numeric dtype")
            key = (arg.__array_interface__["data"][0], arg.nbytes)
            if key not in known:
                allocation = self.module.memory.allocate(arg.nbytes, f"argument {i_of(what)}")
                self.module.memory.bytes(allocation)[:] = np.frombuffer(arg.tobytes(), np.uint8)
                known[key] = allocation
                arrays.append((arg, allocation))
            return known[key].address.to_bytes(8, "little")
        if isinstance(arg, bytes | bytearray | np.void):
            raw = bytes(arg) if not isinstance(arg, np.void) else arg.tobytes()
            if len(raw) != size:
                raise LaunchError(f"{what} has {size} bytes, but {len(raw)} were given")
            return raw
        if isinstance(arg, bool | int | float | np.generic):
            return _number(arg, parameter, what)
        raise LaunchError(
            f"{what}: a {type(arg).__name__} cannot be passed; give a NumPy array, a number or bytes"
        )


def i_of(what: str) -> str:
    return what.split()[1]


def _number(arg: Any, parameter: Variable, what: str) -> bytes:
    """A scalar by the parameter's type; ``.b`` parameters take what fits their size."""
    size = parameter.size
    kind = parameter.type
    if isinstance(arg, np.generic):
        if arg.dtype.itemsize != size:
            raise LaunchError(
                f"{what} has {size} bytes, but a {arg.dtype} of {arg.dtype.itemsize} was given"
            )
        if kind in ("f32", "f64") and arg.dtype.kind != "f":
            raise LaunchError(f"{what} is a floating-point number, but a {arg.dtype} was given")
        if kind[0] in "us" and arg.dtype.kind == "f":
            raise LaunchError(f"{what} is an integer, but a {arg.dtype} was given")
        return bytes(arg.tobytes())
    if size not in (1, 2, 4, 8) or parameter.elements is not None:
        raise LaunchError(f"{what} is a struct of {size} bytes; pass bytes or a NumPy structured scalar")
    if isinstance(arg, float):
        if kind not in ("f16", "f32", "f64") and kind[0] != "b":
            raise LaunchError(f"{what} is an integer, but {arg!r} was given")
        return bytes(np.dtype(f"f{size}").type(arg).tobytes())
    if kind in ("f16", "f32", "f64"):
        return bytes(np.dtype(f"f{size}").type(arg).tobytes())
    number = int(arg)
    if not -(1 << 8 * size - 1) <= number < 1 << 8 * size:
        raise LaunchError(f"{what} has {size} bytes; {number} does not fit")
    return (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _three(value: int | Sequence[int] | None, what: str) -> tuple[int, int, int]:
    numbers = [value] if isinstance(value, int | np.integer) else list(value or [])
    if not 1 <= len(numbers) <= 3 or any(int(n) != n or n < 1 for n in numbers):
        raise LaunchError(f"{what} is one to three positive numbers, not {value!r}")
    x, y, z = (*map(int, numbers), *[1] * (3 - len(numbers)))
    return x, y, z


def _copy_back(memory: Memory, array: Any, allocation: Allocation) -> None:
    if array.flags.writeable:
        array.reshape(-1).view(np.uint8)[:] = memory.bytes(allocation) if array.nbytes else []


def compile(
    source: str | os.PathLike[str], arch: str | None = None, options: Sequence[str] = ()
) -> Module:
    """Compile CUDA source with nvcc and read its PTX: a path to a ``.cu`` file, or the text."""
    text = Path(source) if isinstance(source, os.PathLike) else source
    return Module(build.ptx(text, arch, options))


__all__ = ["Kernel", "Module", "Run", "compile"]
