"""Modules, kernels, launches: what a program that uses the emulator touches.

mod = pb.Module(ptx_text)
run = mod["matmul"].launch(grid=(1,), block=(512,), args=[A, B, C, 4096])
run.counters, run.hazards, run.timeline
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit import devices
from phasebit.emulator import build
from phasebit.emulator.accesses import Access
from phasebit.emulator.counters import Counters
from phasebit.emulator.errors import Defect, EmulatorError, LaunchError, PtxError
from phasebit.emulator.hazards import Checker, Hazard
from phasebit.emulator.layout import FUNCTION_BASE, Layout, readable
from phasebit.emulator.link import link
from phasebit.emulator.machine import Machine
from phasebit.emulator.memory import Allocation, Memory, Parameters
from phasebit.emulator.syntax import Function, Immediate, Symbol, Variable
from phasebit.emulator.system import EXTERNALS
from phasebit.emulator.table import load_families
from phasebit.emulator.tensormap import SIZE as MAP_SIZE
from phasebit.emulator.tensormap import TensorMap
from phasebit.emulator.trace import Trace
from phasebit.emulator.translate import Program, translate
from phasebit.emulator.types import dtype

if TYPE_CHECKING:
    from phasebit.gpu import Gpu
    from phasebit.timeline import Timeline

MAX_THREADS = 1024
MAX_GRID = (2_147_483_647, 65_535, 65_535)
MAX_SHARED = {75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227,
              120: 99, 121: 99}  # fmt: skip
"""KiB of shared memory that a block may have, by compute capability."""

MAX_VARIABLE = 1 << 30
"""Bytes of one global or constant variable."""

MAX_STEPS = 2_000_000
"""Turns of loops that a launch may take unless it says more: threads that wait for a flag which
nobody sets are given up after ten seconds to two minutes, not after hours."""

_ROUND, _WARM_UP, _STALL = 40, 10, 40
"""Launches timed at a time, launches before them, and reads of 256 MiB before those."""

SCHEDULES = ("eager", "late", "random")


@dataclass(frozen=True)
class Shape:
    """Where a kernel is spread: threads, blocks, clusters, and dynamic shared memory."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    explicit_cluster: bool
    cooperative: bool
    shared: int


class Run:
    """What a launch did.

    ``counters``      a mapping from metric names to values
    ``hazards``       what the checker found, in order; empty for a correct kernel
    ``timeline``      a :class:`phasebit.timeline.Timeline` of the warps
    ``trace``         what it is drawn from: :class:`phasebit.emulator.trace.Trace`
    ``accesses``      who touched which bytes: :class:`phasebit.emulator.accesses.Access`
    ``output``        what the kernel printed
    ``device``        ``"emulator"``, or the name of the GPU
    ``milliseconds``  on a GPU, between events around the launch; None on the emulator,
                      whose clock is no time
    ``cycles``        the emulator's clock at the end

    A launch on a GPU has no counters, hazards, timeline or output: those come from
    the emulator.
    """

    def __init__(
        self, device: str, counters: Counters, hazards: list[Hazard], output: str, trace: Trace,
        *, cycles: int = 0, milliseconds: float | None = None,
    ) -> None:  # fmt: skip
        self.device = device
        self.counters = counters
        self.hazards = hazards
        self.output = output
        self.cycles = cycles
        self.milliseconds = milliseconds
        self.trace = trace

    @property
    def accesses(self) -> list[Access]:
        """Loads and stores, warp by warp; empty unless launched with ``accesses=True``."""
        return self.trace.accesses or []

    @property
    def timeline(self) -> Timeline:
        """The warps of block 0 against the emulator's clock; see ``Trace.timeline``."""
        return self.trace.timeline()

    def __repr__(self) -> str:
        return f"<Run on the {self.device}: {len(self.hazards)} hazards, {self.cycles} cycles>"


class Module:
    """PTX text, read.  ``module["name"]`` is a kernel; the name may be the unmangled one.

    Raises :class:`PtxError` for text that is no PTX.
    """

    def __init__(self, ptx: str, memory: Memory | None = None) -> None:
        load_families()
        if not isinstance(ptx, str):
            raise PtxError(f"Module takes PTX text, not {type(ptx).__name__}; for a file, its text")
        self.ptx = ptx
        self.syntax = link(ptx)
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
        self._programs: dict[tuple[bool, bool, bool], Program] = {}

    def program(
        self, check: bool = False, exact: bool = True, clustered: bool = False
    ) -> Program:
        """The translated kernel; raises :class:`PtxError` for an unknown instruction."""
        key = (check, exact, clustered)
        if key not in self._programs:
            self._programs[key] = translate(
                self.module.syntax, self.function, self.layout, check, exact, clustered
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
        accesses: bool = False,
        resident: int = 1,
    ) -> Run:
        """Run the kernel and wait for its end.

        ``args``: NumPy arrays for pointers (changed in place; on a GPU also CuPy's, or any
        with ``__cuda_array_interface__``), numbers by the parameter's type, ``bytes`` or
        structured scalars for structs, integers for addresses.  ``shared``: bytes of dynamic
        shared memory.  ``schedule``: when asynchronous copies finish.  ``check`` and
        ``exact`` choose a mode: see the text of :mod:`phasebit.emulator`, which says what
        each does and costs.
        ``accesses=True`` keeps each load and store in ``run.accesses``; it needs ``check``.
        ``resident``: how many blocks share a multiprocessor of the emulator, and with it tensor
        memory.
        ``device``: ``auto`` is the GPU if there is one that the target runs on,
        unless ``phasebit.device`` says otherwise.

        Raises :class:`LaunchError` before anything runs, and
        :class:`phasebit.devices.DeviceError` where the device cannot be had;
        :class:`Fault`, :class:`Deadlock` or :class:`StepLimit` when the kernel fails.
        """
        if schedule not in SCHEDULES:
            raise LaunchError(f"schedule {schedule!r}: choose one of {', '.join(SCHEDULES)}")
        for number, what in ((shared, "shared"), (seed, "seed"), (max_steps, "max_steps"),
                             (resident, "resident")):  # fmt: skip
            if not isinstance(number, int | np.integer):
                raise LaunchError(f"{what} is an integer, not {number!r}")
        if accesses and not check:
            raise LaunchError("accesses=True needs check=True: the checker sees the addresses")
        if not 1 <= resident <= 32:
            raise LaunchError(f"resident={resident}: a multiprocessor has 1 to 32 blocks")
        if max_steps < 1:
            raise LaunchError(f"max_steps={max_steps}: a kernel needs at least one step")
        if not isinstance(args, list | tuple):
            raise LaunchError(f"args is a list of arguments, not {type(args).__name__}")
        shape = Shape(
            _three(grid, "grid"), _three(block, "block"),
            _three(cluster, "cluster") if cluster is not None else self._cluster(),
            cluster is not None, cooperative, shared,
        )  # fmt: skip
        self._check_shape(shape)
        if devices.choose(self.module.target, device, ptx=True).gpu:
            return self._run_on_gpu(shape, args)
        memory = self.module.memory
        arrays: list[tuple[Any, Allocation]] = []

        def place(array: Any, name: str) -> int:
            allocation = memory.allocate(array.nbytes, name)
            memory.bytes(allocation)[:] = np.frombuffer(array.tobytes(), np.uint8)
            arrays.append((array, allocation))
            return allocation.address

        try:
            data = self._marshal(args, place)
            trace = Trace(check, accesses=[] if accesses else None)
            return self._run(
                shape, data, schedule, seed, check, exact, max_steps, trace, resident
            )
        finally:
            for array, allocation in arrays:
                _copy_back(memory, array, allocation)
                memory.free(allocation)

    def _run_on_gpu(self, shape: Shape, args: Sequence[Any]) -> Run:
        """The same launch on this machine's GPU, through the driver."""
        device, launches, arrays = self._on_gpu(shape, [args])
        try:
            (milliseconds,) = device.events_around(launches)
        finally:
            for array, address in arrays:
                device.take_back(address, array)
        return Run(device.name, Counters(0), [], "", Trace(False), milliseconds=milliseconds)

    def _on_gpu(
        self, shape: Shape, sets: Sequence[Sequence[Any]]
    ) -> tuple[Gpu, list[Callable[[], None]], list[tuple[Any, int]]]:
        """The GPU, a launch for each set of arguments, and the arrays with their addresses."""
        from phasebit.gpu import gpu

        device = gpu()
        arrays: list[tuple[Any, int]] = []

        def place(array: Any, name: str) -> int:
            arrays.append((array, device.allocate(array)))
            return arrays[-1][1]

        offsets = [self.layout.parameters[p.name] for p in self.function.parameters]
        try:
            launches = [
                device.prepare(
                    self.module.ptx, self.function.name, shape.grid, shape.block,
                    shape.cluster if shape.explicit_cluster else None, shape.cooperative,
                    shape.shared, self._marshal(args, place, device.adopt), offsets,
                )
                for args in sets
            ]  # fmt: skip
        except BaseException:
            for array, address in arrays:
                device.take_back(address, array)
            raise
        return device, launches, arrays

    def times(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        sets: Sequence[Sequence[Any]],
        *,
        count: int = 200,
        flush: bool = False,
        shared: int = 0,
        cluster: int | Sequence[int] | None = None,
        cooperative: bool = False,
    ) -> list[float]:
        """Microseconds of ``count`` launches on this machine's GPU, between events around each.

        ``sets`` are argument lists as of :meth:`launch`, taken in turn. Launches that do not
        count come first. They are queued behind reads of other memory that keep the GPU busy
        meanwhile, or the time would be that of Python, which queues slowly; with ``flush`` such
        a read comes before each launch, and no data is in the caches. The arrays hold the
        results of the last launches afterwards. The kernel must bear being launched again and
        again. See :func:`phasebit.measure.summary` for what to do with the times.

        Raises :class:`phasebit.devices.DeviceError` where no GPU runs the target, and
        :class:`LaunchError` for arguments that do not fit.
        """
        if count < 1 or not sets:
            raise LaunchError(f"times of {count} launches of {len(sets)} sets: give one at least")
        shape = Shape(
            _three(grid, "grid"), _three(block, "block"),
            _three(cluster, "cluster") if cluster is not None else self._cluster(),
            cluster is not None, cooperative, shared,
        )  # fmt: skip
        self._check_shape(shape)
        devices.choose(self.module.target, "gpu", ptx=True)
        device, launches, arrays = self._on_gpu(shape, sets)
        try:
            flusher = device.flusher()
            turns = itertools.cycle(launches)
            result: list[float] = []
            while len(result) < count:
                part = min(_ROUND, count - len(result))
                for _ in range(0 if flush else _STALL):
                    flusher()
                for launch in itertools.islice(turns, max(_WARM_UP, len(launches))):
                    launch()
                result += device.events_around(
                    itertools.islice(turns, part), flusher if flush else lambda: None
                )
        finally:
            for array, address in arrays:
                device.take_back(address, array)
        return [milliseconds * 1e3 for milliseconds in result]

    def _run(
        self, shape: Shape, data: bytes, schedule: str, seed: int, check: bool, exact: bool,
        max_steps: int, trace: Trace, resident: int = 1,
    ) -> Run:  # fmt: skip
        program = self.program(check, exact, shape.cluster != (1, 1, 1))
        memory = self.module.memory
        parameters = memory.allocate(max(1, len(data)), "parameters", "param")
        memory.bytes(parameters)[: len(data)] = np.frombuffer(data, np.uint8)
        machine = Machine(
            program=program, memory=memory, parameters=Parameters(data),
            parameter_start=parameters.start, grid=shape.grid, block=shape.block,
            cluster=shape.cluster, explicit_cluster=shape.explicit_cluster,
            cooperative=shape.cooperative, dynamic_shared=shape.shared,
            shared_size=self.layout.static_shared + shape.shared, schedule=schedule, seed=seed,
            steps=max_steps, exact=exact, checked=check,
            counters=Counters(len(program.blocks)), trace=trace, resident=resident,
        )  # fmt: skip
        hazards: list[Hazard] = []
        if check:
            machine.checker = Checker(machine, hazards)
        try:
            machine.run()
        except EmulatorError as error:
            error.hazards = hazards
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise Defect(
                f"the emulator failed in {machine.position()}: {error!r}; if ptxas accepts this "
                "kernel, that is a defect of phasebit: please report it"
            ) from error
        finally:
            machine.counters.finish(program)
            memory.free(parameters)
        return Run(
            "emulator", machine.counters, hazards, "".join(machine.printed), machine.trace,
            cycles=machine.clock,
        )  # fmt: skip

    # -- checks before the launch ---------------------------------------------

    def _cluster(self) -> tuple[int, int, int]:
        given = self.function.directives.get("reqnctapercluster")
        return _three(given, "cluster") if given else (1, 1, 1)

    def _check_shape(self, shape: Shape) -> None:
        """Refuse what no GPU of the target could run."""
        grid, block, cluster, shared = shape.grid, shape.block, shape.cluster, shape.shared
        name = self.name
        for extent, most, axis in zip(grid, MAX_GRID, "xyz", strict=True):
            if extent > most:
                raise LaunchError(
                    f"{name}: the {axis} extent of a grid is at most {most}, not {extent}"
                )
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
                f"{shared} dynamic) are more than the {room} of {self.module.target}"
            )
        for g, c, axis in zip(grid, cluster, "xyz", strict=True):
            if g % c:
                raise LaunchError(
                    f"{name}: the grid's {axis} extent {g} is no multiple of the cluster's {c}"
                )
        if cluster[0] * cluster[1] * cluster[2] > 16:
            raise LaunchError(f"{name}: a cluster has at most 16 blocks")

    def _marshal(
        self, args: Sequence[Any], place: Callable[[Any, str], int],
        adopt: Callable[[Any], int] | None = None,
    ) -> bytes:  # fmt: skip
        """The parameter bytes; ``place`` brings an array to device memory, for its address.

        ``adopt`` gives the address of an array that is there already, on a GPU.
        """
        wanted = self.function.parameters
        if len(args) != len(wanted):
            raise LaunchError(f"{self.name} takes {len(wanted)} arguments, not {len(args)}")
        data = bytearray(self.layout.parameter_size)
        known: dict[tuple[int, int], int] = {}
        for i, (arg, parameter) in enumerate(zip(args, wanted, strict=True)):
            raw = self._argument(arg, parameter, i, place, known, adopt)
            offset = self.layout.parameters[parameter.name]
            data[offset : offset + len(raw)] = raw
        return bytes(data)

    def _argument(
        self, arg: Any, parameter: Variable, number: int, place: Callable[[Any, str], int],
        known: dict[tuple[int, int], int], adopt: Callable[[Any], int] | None,
    ) -> bytes:  # fmt: skip
        what = f"argument {number} of {self.name}"
        size = parameter.size
        if isinstance(arg, TensorMap):
            return self._tensor_map(arg, parameter, number, place, known, adopt)
        if isinstance(arg, np.ndarray):
            if size != 8:
                raise LaunchError(f"{what} is a number of {size} bytes, but an array was given")
            if not arg.flags.c_contiguous:
                raise LaunchError(f"{what} is not contiguous; pass np.ascontiguousarray(...)")
            if arg.dtype.hasobject:
                raise LaunchError(f"{what} is an array of Python objects; use a numeric dtype")
            key = (arg.__array_interface__["data"][0], arg.nbytes)
            if key not in known:
                known[key] = place(arg, f"argument {number}")
            return known[key].to_bytes(8, "little")
        if hasattr(arg, "__cuda_array_interface__"):
            if adopt is None:
                raise LaunchError(
                    f"{what} lies on a GPU, where the emulator cannot look: launch with "
                    "device='gpu', or pass a NumPy array (cupy.asnumpy)"
                )
            if size != 8:
                raise LaunchError(f"{what} is a number of {size} bytes, but an array was given")
            if not _contiguous(arg.__cuda_array_interface__):
                raise LaunchError(f"{what} is not contiguous; pass cupy.ascontiguousarray(...)")
            return adopt(arg).to_bytes(8, "little")
        if isinstance(arg, bytes | bytearray | np.void):
            raw = bytes(arg) if not isinstance(arg, np.void) else arg.tobytes()
            if len(raw) != size:
                raise LaunchError(f"{what} has {size} bytes, but {len(raw)} were given")
            return raw
        if isinstance(arg, bool | int | float | np.generic):
            return _number(arg, parameter, what)
        raise LaunchError(
            f"{what}: a {type(arg).__name__} cannot be passed; give an array, a number or bytes"
        )

    def _tensor_map(
        self, arg: TensorMap, parameter: Variable, number: int, place: Callable[[Any, str], int],
        known: dict[tuple[int, int], int], adopt: Callable[[Any], int] | None,
    ) -> bytes:  # fmt: skip
        """The 128 bytes of a tensor map, for the place that its array gets."""
        if parameter.size != MAP_SIZE:
            raise LaunchError(
                f"argument {number} of {self.name} has {parameter.size} bytes, but a tensor map "
                f"of {MAP_SIZE} was given: declare it const __grid_constant__ CUtensorMap"
            )
        address = arg.tensor
        if not isinstance(address, int):
            pointer = Variable(parameter.name, "param", "u64", 8, 8, parameter.line)
            raw = self._argument(address, pointer, number, place, known, adopt)
            address = int.from_bytes(raw, "little")
        made = arg.at(address)
        if adopt is None:
            return made.encode()
        from phasebit.gpu import gpu

        return gpu().tensor_map(*made.call())


def _contiguous(array: dict[str, Any]) -> bool:
    """Whether a ``__cuda_array_interface__`` describes rows without gaps, last axis fastest."""
    step = np.dtype(array["typestr"]).itemsize
    for extent, stride in zip(reversed(array["shape"]), reversed(array.get("strides") or ()),
                              strict=False):  # fmt: skip
        if extent > 1 and stride != step:
            return False
        step *= extent
    return True


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
        raise LaunchError(
            f"{what} is a struct of {size} bytes; pass bytes or a NumPy structured scalar"
        )
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
    numbers: list[Any] = list(value) if isinstance(value, Sequence | np.ndarray) else [value]
    if not 1 <= len(numbers) <= 3 or not all(
        isinstance(n, int | np.integer) and n >= 1 for n in numbers
    ):
        raise LaunchError(f"{what} is one to three positive numbers, not {value!r}")
    x, y, z = (*(int(n) for n in numbers), *[1] * (3 - len(numbers)))
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
