"""Kernels of CuTe DSL on the emulator, with the host code that there is.

    import phasebit.cute

    with phasebit.cute.emulated("sm_100a", schedules="all") as runs:
        gemm(a, b, c)
    assert not runs.findings

`pip install nvidia-cutlass-dsl`; it needs no GPU. CuTe DSL compiles as for a GPU of the target, and
its compiled host code is linked with a runtime library of ours (`doors/cute_runtime.c`), which
leads to the stand-ins for CUDA's (`phasebit.runtime.in_process`); the PTX of each kernel, which the
compiler keeps, is executed in place of its machine code. Tensors are what `from_dlpack` takes:
PyTorch's, of `device="cuda"` or on the CPU, NumPy arrays, `phasebit.doors.device_arrays`; what lies
outside of device memory is copied there before each call of a function and back after it.

Kernels are compiled within the block: a function that was compiled before it keeps the library with
which it was linked.

    python -m phasebit.cute --target sm_90a program.py its arguments

runs a whole program within such a block, and ends with the program's status; what was found is
printed on standard error, or goes to `--report FILE`.
"""

from __future__ import annotations

import ctypes
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from phasebit.doors import cuda_tensors, cute_library, whole_programs
from phasebit.doors.borrowed import Loans
from phasebit.doors.patched import patched
from phasebit.runtime import fatbin, in_process
from phasebit.runtime.in_process import Runs


def _packages() -> tuple[Any, Any, Any, Any, Any]:
    """CuTe DSL's back end, compiler, functions and tensors, and NVIDIA's runtime for Python."""
    try:
        from cuda.bindings import runtime as cuda
        from cutlass.base_dsl import compile_backend, compiler, jit_executor
        from cutlass.cute import runtime
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"phasebit.cute needs CuTe DSL, and {error.name} is not installed: "
            "pip install nvidia-cutlass-dsl"
        ) from error
    return compile_backend, compiler, jit_executor, runtime, cuda


@contextmanager
def emulated(
    target: str = "sm_100a", *, schedules: str | Sequence[tuple[str, int]] = "late",
    check: bool = True,
) -> Iterator[Runs]:  # fmt: skip
    """Within the block, kernels of CuTe DSL run on the emulator as on a GPU of `target`.

    `schedules`: under which of them each launch runs, from the same memory: eager, late, random,
    "all", or pairs of a name and a seed. `check=False` looks for no races. Yields what the
    launches did: `runs.findings`, `runs.launches`. Raises ModuleNotFoundError without CuTe DSL,
    and what `in_process.emulated` raises.
    """
    backend, compiler, executor, tensors, runtime = _packages()
    with ExitStack() as stack:
        enter = stack.enter_context
        runs = enter(in_process.emulated(target, schedules=schedules, check=check))
        enter(cuda_tensors.emulated(in_process.capability(target)))
        values = {
            "shared_libs": str(cute_library.build()), "_arch": target,
            "keep_ptx": True, "lineinfo": True, "disable_file_caching": True,
            "dump_dir": enter(tempfile.TemporaryDirectory(prefix="phasebit-")),
        }  # fmt: skip
        for language in _languages():
            for name, value in values.items():
                enter(patched(language.envar, name, value))
        legacy = backend.LegacyCompilerBackend
        build = legacy._build_compiled_function
        enter(patched(legacy, "_build_compiled_function", _noting(build)))
        enter(patched(compiler.Compiler, "jit", _linking(compiler.Compiler.jit)))
        for name, value in _runtime_calls().items():
            enter(patched(runtime, name, value))
        loans = Loans()
        enter(patched(tensors._Tensor, "__init__", _lending(tensors._Tensor.__init__, loans)))
        call = executor.JitExecutor.run_compiled_program
        enter(patched(executor.JitExecutor, "run_compiled_program", _calling(call, loans)))
        yield runs


def _languages() -> Iterator[Any]:
    """CuTe DSL, and beside it `cute.experimental`: each has settings of its own."""
    from cutlass import cutlass_dsl

    for name in "CuTeDSL", "CuteExperimentalDSL":
        if kind := getattr(cutlass_dsl, name, None):
            yield kind._get_dsl()


def _runtime_calls() -> dict[str, Any]:
    """The calls of NVIDIA's runtime for Python that CuTe DSL makes: that runtime has its library
    within, which asks a driver for more than is documented."""
    from cuda.bindings.runtime import cudaError_t

    library = in_process.process().runtime

    def asking(name: str, kinds: Sequence[Any]) -> Any:
        def asked(*given: Any) -> tuple[Any]:
            words = (kind(int(word)) for kind, word in zip(kinds, given, strict=True))
            return (cudaError_t(getattr(library, name)(*words)),)

        return asked

    def making(name: str, kinds: Sequence[Any]) -> Any:
        def made(*given: Any) -> tuple[Any, int]:
            out = ctypes.c_void_p()
            (error,) = asking(name, (ctypes.c_size_t, *kinds))(ctypes.addressof(out), *given)
            return error, out.value or 0

        return made

    def end(stream: Any) -> tuple[Any, int]:
        graph = ctypes.c_void_p()
        error = library.cudaStreamEndCapture(_WORD(int(stream)), ctypes.byref(graph))
        return cudaError_t(error), graph.value or 0

    def nodes(graph: int, most: int = 0) -> tuple[Any, list[Any], int]:
        count = ctypes.c_size_t()
        error = library.cudaGraphGetNodes(_WORD(int(graph)), None, ctypes.byref(count))
        return cudaError_t(error), [], count.value

    return {
        "cudaGetDeviceCount": lambda: (cudaError_t.cudaSuccess, 1),
        "cudaGetDevice": lambda: (cudaError_t.cudaSuccess, 0),
        "cudaSetDevice": lambda device: (cudaError_t.cudaSuccess,),
        # without its cache, which `keep_ptx` takes from it, it unloads what a graph has captured
        "cudaLibraryUnload": lambda handle: (cudaError_t.cudaSuccess,),
        "cudaStreamEndCapture": end, "cudaGraphGetNodes": nodes,
        **{name: asking(name, kinds) for name, kinds in _ASKED.items()},
        **{name: making(name, kinds) for name, kinds in _MADE.items()},
    }


_WORD, _INT = ctypes.c_size_t, ctypes.c_int
_ASKED: dict[str, tuple[Any, ...]] = {
    "cudaDeviceSynchronize": (),
    # a graph of the launches that its `testing.benchmark` measures
    "cudaStreamBeginCapture": (_WORD, _INT), "cudaGraphLaunch": (_WORD, _WORD),
    "cudaGraphExecDestroy": (_WORD,),
    # what host code of others asks for: memory, streams and events
    "cudaFree": (_WORD,), "cudaMemset": (_WORD, _INT, _WORD),
    "cudaMemsetAsync": (_WORD, _INT, _WORD, _WORD), "cudaMemcpy": (_WORD, _WORD, _WORD, _INT),
    "cudaMemcpyAsync": (_WORD, _WORD, _WORD, _INT, _WORD), "cudaStreamSynchronize": (_WORD,),
    "cudaStreamDestroy": (_WORD,), "cudaEventRecord": (_WORD, _WORD),
    "cudaEventSynchronize": (_WORD,), "cudaEventDestroy": (_WORD,),
}  # fmt: skip
"""Calls that give an error alone, and the types of their words."""
_MADE: dict[str, tuple[Any, ...]] = {
    "cudaMalloc": (_WORD,), "cudaStreamCreate": (), "cudaEventCreate": (),
    "cudaEventCreateWithFlags": (ctypes.c_uint,), "cudaGraphInstantiate": (_WORD, _WORD),
}  # fmt: skip
"""Calls that give a pointer or a handle, too: its place comes first in C."""


def _linking(jit: Any) -> Any:
    """Host code whose calls of the runtime library are ours.

    The loader would give it the library that this process opened first: CuTe DSL's own, where a
    kernel has been compiled before the block.
    """

    def wrapped(self: Any, *args: Any, **more: Any) -> Any:
        engine = jit(self, *args, **more)
        for name, address in cute_library.entries().items():
            engine.raw_register_runtime(name, ctypes.c_void_p(address))
        return engine

    return wrapped


def _noting(build: Any) -> Any:
    """A compilation after which the device knows the PTX of the machine code that was made."""

    def wrapped(self: Any, *args: Any, **more: Any) -> Any:
        made = build(self, *args, **more)
        path = self._dsl.compile_options.full_ptx_path
        if path and Path(path).exists() and made.ir_module is not None:
            text = Path(path).read_text()
            for code in _BINARY.findall(str(made.ir_module)):
                key = fatbin.digest(_unescaped(code))
                in_process.process().device.texts[key] = text
        return made

    return wrapped


_BINARY = re.compile(r'@\w*_binary\("((?:[^"\\]|\\.)*)"\)')
_ESCAPE = re.compile(r"\\([0-9A-F]{2}|.)", re.DOTALL)


def _unescaped(text: str) -> bytes:
    """The bytes of a string as MLIR prints it."""

    def one(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code, 16)) if len(code) == 2 else code

    return _ESCAPE.sub(one, text).encode("latin-1")


def _calling(call: Any, loans: Loans) -> Any:
    """A call of a compiled function: its host code, too, sees what was lent, and may change it."""

    def wrapped(self: Any, exe_args: Any) -> Any:
        with loans.current():
            return call(self, exe_args)

    return wrapped


def _lending(init: Any, loans: Loans) -> Any:
    """A tensor of CuTe's whose memory kernels may see."""

    def wrapped(self: Any, tensor: Any, *args: Any, **more: Any) -> None:
        init(self, loans.lend(tensor), *args, **more)

    return wrapped


def main(words: Sequence[str]) -> int:
    """Run a program of CuTe DSL, as the module says; the program's exit status."""
    return whole_programs.run("phasebit.cute", emulated, "sm_100a", words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
