"""C++ functions of the book, called from Python with NumPy arrays, checked and timed.

The CPU chapters' kernels are plain functions in ``kernels/``::

    extern "C" void gemm(int64_t m, const float* a, float* c)   // a (m, m), c (m, m)

:func:`load` compiles such a file with the machine's C++ compiler and reads the declarations; a
call compares every argument with them, so that an array of another type is an error and no
crash. What a reader wrote may run out of its arrays or never end: :meth:`Function.guarded` calls
a function in a process of its own, which may.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import re
import select
import signal
import struct
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasebit import files, keeper, toolchain
from phasebit.emulator import demangle

Argument = NDArray[Any] | int | float

GUARD_SECONDS = 60.0
"""How long a guarded call may take."""

_TYPES: dict[str, type[Any]] = {
    "float": np.float32,
    "double": np.float64,
    "uint8_t": np.uint8,
    "int32_t": np.int32,
    "int64_t": np.int64,
    "uint64_t": np.uint64,
}
"""C++ type -> NumPy's, for elements of arrays and for numbers."""

_DECLARATION = re.compile(r'extern\s+"C"\s+(?P<result>\w+)\s+(?P<name>\w+)\s*\((?P<list>[^)]*)\)')
_PARAMETER = re.compile(
    r"(?P<const>const\s+)?(?P<type>\w+)"
    r"(?:\s*(?P<pointer>\*)\s*(?:__restrict(?:__)?\s+)?|\s+)(?P<name>\w+)"
)


class CallError(toolchain.CudaError):
    """A call of a C++ function with the wrong arguments, or one that did not come back."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a C++ function."""

    name: str
    dtype: np.dtype[Any]
    array: bool  # a pointer to elements, else one number
    written: bool  # the function may write the array

    def convert(self, value: Argument) -> Any:
        """The value for :mod:`ctypes`; raises :class:`CallError` where it does not fit."""
        if not self.array:
            if isinstance(value, np.ndarray) or (
                self.dtype.kind in "iu" and not isinstance(value, int | np.integer)
            ):
                raise CallError(f"{self.name} is one {self.dtype}: give a number, not {value!r}")
            return np.ctypeslib.as_ctypes_type(self.dtype)(value)
        if not isinstance(value, np.ndarray):
            raise CallError(f"{self.name} is an array of {self.dtype}: give one, not {value!r}")
        if value.dtype != self.dtype:
            raise CallError(
                f"{self.name} is an array of {self.dtype}, not of {value.dtype}: "
                f"convert it with .astype(numpy.{self.dtype})"
            )
        if self.written and not value.flags.writeable:
            raise CallError(f"{self.name} is written, and this array is read-only: give a copy")
        return ctypes.c_void_p(value.ctypes.data)


class Function:
    """A C++ function. Arrays are passed as the address of their first element."""

    def __init__(
        self, name: str, symbol: Any, parameters: Sequence[Parameter], result: np.dtype[Any] | None
    ) -> None:
        self.name = name
        self.parameters = tuple(parameters)
        self._symbol = symbol
        self._symbol.argtypes = None
        self._symbol.restype = result and np.ctypeslib.as_ctypes_type(result)

    def __call__(self, *arguments: Argument) -> Any:
        """Call it; raises :class:`CallError` for arguments that do not fit the declaration."""
        return self._symbol(*self.convert(arguments))

    def convert(self, arguments: Sequence[Argument]) -> list[Any]:
        """The arguments as :mod:`ctypes` passes them."""
        if len(arguments) != len(self.parameters):
            names = ", ".join(parameter.name for parameter in self.parameters)
            raise CallError(
                f"{self.name} takes {len(self.parameters)} arguments ({names}), "
                f"not {len(arguments)}"
            )
        pairs = zip(self.parameters, arguments, strict=True)
        return [parameter.convert(value) for parameter, value in pairs]

    def times(self, arguments: Sequence[Argument], repeats: int, warm: int = 1) -> list[float]:
        """Seconds of each of ``repeats`` calls, after ``warm`` calls that nobody times."""
        given = self.convert(arguments)
        for _ in range(warm):
            self._symbol(*given)
        seconds = []
        for _ in range(repeats):
            begin = time.perf_counter_ns()
            self._symbol(*given)
            seconds.append((time.perf_counter_ns() - begin) * 1e-9)
        return seconds

    def guarded(self, *arguments: Argument, timeout: float = GUARD_SECONDS) -> float:
        """Call it in a process of its own; returns the seconds that the call took.

        The process works on copies; the arrays that the function may write are copied back when
        it comes back. What the function started ends with it, and all of it when this process
        does. Raises :class:`CallError` when it crashes or does not end.
        """
        self.convert(arguments)
        pairs = list(zip(self.parameters, arguments, strict=True))
        for parameter, value in pairs:
            if isinstance(value, np.ndarray) and not value.flags.c_contiguous:
                raise CallError(f"{parameter.name} has gaps: give a copy, numpy.ascontiguousarray")
        reader, writer = os.pipe()
        caller = os.getpid()

        def call() -> None:
            os.close(reader)
            faulthandler.disable()  # the caller says what happened
            copies = [np.array(v) if isinstance(v, np.ndarray) else v for _, v in pairs]
            given = self.convert(copies)
            begin = time.perf_counter_ns()
            self._symbol(*given)
            took = time.perf_counter_ns() - begin
            with open(writer, "wb", closefd=True) as pipe:
                pipe.write(struct.pack("q", took))
                for (parameter, _), copy in zip(pairs, copies, strict=True):
                    if parameter.written and isinstance(copy, np.ndarray):
                        pipe.write(copy.tobytes())
            os._exit(0)

        with warnings.catch_warnings():
            # The child calls one C++ function and exits: no lock of another thread is taken.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:  # pragma: no cover - measured nowhere, it ends in _exit
            keeper.keep(call, caller)
        os.close(writer)
        written = [v for parameter, v in pairs if parameter.written and isinstance(v, np.ndarray)]
        try:
            data = _receive(reader, timeout)
        finally:
            os.close(reader)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
            _, status = os.waitpid(child, 0)
        if data is None:
            raise CallError(
                f"{self.name} did not come back within {timeout:g} s and was stopped: "
                "an endless loop, or too much work"
            )
        if len(data) != 8 + sum(array.nbytes for array in written):
            number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            cause = f"ended by {signal.Signals(number).name}" if number else "ended early"
            raise CallError(
                f"{self.name} was {cause}: it read or wrote outside its arrays, "
                "or divided by zero"
            )
        at = 8
        for array in written:
            piece = np.frombuffer(data, array.dtype, array.size, at)
            array[...] = piece.reshape(array.shape)
            at += array.nbytes
        (took,) = struct.unpack_from("q", data)
        return float(took * 1e-9)

    def __repr__(self) -> str:
        names = ", ".join(parameter.name for parameter in self.parameters)
        return f"{self.name}({names})"


def _receive(reader: int, timeout: float) -> bytes | None:
    """Everything until the other end closes; ``None`` when that takes longer than allowed."""
    end = time.monotonic() + timeout
    data = bytearray()
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            return None
        chunk = os.read(reader, 1 << 20)
        if not chunk:
            return bytes(data)
        data += chunk


class Library:
    """The functions of one C++ source: ``library.gemm(…)``."""

    def __init__(self, build: toolchain.HostBuild, source: str, name: str) -> None:
        self.build = build
        self.name = name
        try:
            loaded = ctypes.CDLL(os.fspath(build.library))
        except OSError as error:
            missing = re.search(r"undefined symbol: (\S+)", str(error))
            why = f"nobody defines {demangle(missing[1])}" if missing else str(error)
            raise CallError(f"{name} cannot be loaded: {why}") from error
        self.functions = {
            each["name"]: Function(
                each["name"],
                _defined(loaded, each["name"], name),
                _parameters(each["list"], name),
                None if each["result"] == "void" else _dtype(each["result"], name),
            )
            for each in _DECLARATION.finditer(_plain(source))
        }
        if not self.functions:
            raise CallError(f'{name} declares no function: begin one with extern "C"')

    def __getattr__(self, name: str) -> Function:
        functions = self.__dict__.get("functions", {})
        if name in functions:
            function: Function = functions[name]
            return function
        raise AttributeError(f"{self.__dict__.get('name')} has no function {name!r}")


def _defined(loaded: ctypes.CDLL, function: str, source: str) -> Any:
    try:
        return getattr(loaded, function)
    except AttributeError as error:
        raise CallError(f"{source} declares {function} and does not define it") from error


def _plain(source: str) -> str:
    """A source without its comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.DOTALL)


def _dtype(name: str, source: str) -> np.dtype[Any]:
    if name not in _TYPES:
        known = ", ".join(_TYPES)
        raise CallError(f"{source}: Python passes no {name} to a function: use one of {known}")
    return np.dtype(_TYPES[name])


def _parameters(text: str, source: str) -> list[Parameter]:
    found: list[Parameter] = []
    if text.strip() == "void":
        return found
    for each in filter(None, map(str.strip, text.split(","))):
        match = _PARAMETER.fullmatch(each)
        if match is None:
            raise CallError(f"{source}: cannot read the parameter {each!r}: write TYPE* NAME")
        pointer = bool(match["pointer"])
        dtype = _dtype(match["type"], source)
        found.append(Parameter(match["name"], dtype, pointer, pointer and not match["const"]))
    return found


def load(name: str, *, options: Sequence[str] = (), compiler: str = "") -> Library:
    """The functions of ``kernels/NAME.cpp``: ``load("gemm/tile")``.

    Raises ``ValueError`` when there is no such file, and as :func:`toolchain.build_library` does.
    """
    path = files.kernels() / f"{name}.cpp"
    if not path.is_file():
        known = ", ".join(files.kernel_names(".cpp"))
        raise ValueError(f"the book has no {name!r} in C++: choose from {known}")
    return compile(path, options=options, compiler=compiler)


def compile(
    source: str | Path,
    *,
    name: str | None = None,
    first_line: int = 1,
    options: Sequence[str] = (),
    compiler: str = "",
) -> Library:
    """The functions of a C++ source, given as its text or its path.

    Raises as :func:`toolchain.build_library` does, and :class:`CallError` for a declaration that
    Python cannot call.
    """
    if sys.platform == "win32":  # pragma: no cover
        raise toolchain.ToolMissing("the CPU chapters need Linux or macOS: on Windows use WSL")
    build = toolchain.build_library(
        source, name=name, first_line=first_line, options=options, compiler=compiler
    )
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    called = name or (source.name if isinstance(source, Path) else "source.cpp")
    return Library(build, text, called)
