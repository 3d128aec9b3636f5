"""Kernels of Triton and Gluon on the emulator, with the host code that there is.

    import phasebit.triton

    with phasebit.triton.emulated("sm_90a", schedules="all") as runs:
        add[(2,)](a, b, c, 100, BLOCK=64)
    assert not runs.findings

`pip install triton`; it needs no GPU. Triton compiles as for a GPU of the target, and launches by
its own driver, which finds the stand-in for libcuda (`phasebit.runtime.in_process`). PTX is
executed, so its assembler is not asked. Arguments are PyTorch's tensors, of `device="cuda"` or on
the CPU, or `phasebit.doors.device_arrays`; what lies outside of device memory is copied there
before each launch and back after it. `triton.autotune` takes the first configuration that runs, and
`triton.testing.do_bench` runs once, since times here say nothing of a GPU. The products of cuBLAS
that Triton's tutorials compare with are PyTorch's.

`install` does the same for the rest of the process: two lines at the head of a script. Or the
program stays as it is:

    python -m phasebit.triton --target sm_100a program.py its arguments
    python -m phasebit.triton --target sm_100a -m pytest test_kernels.py
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from phasebit.doors import cuda_tensors, library_products, whole_programs
from phasebit.doors.borrowed import Loans
from phasebit.doors.patched import patched
from phasebit.runtime import in_process
from phasebit.runtime.in_process import Runs

_installed = ExitStack()


def _packages() -> tuple[Any, Any, Any]:
    """Triton's module, its backend's compiler and driver."""
    try:
        import triton
        from triton.backends.nvidia import compiler, driver
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"phasebit.triton needs Triton, and {error.name} is not installed: pip install triton"
        ) from error
    return triton, compiler, driver


@contextmanager
def emulated(
    target: str = "sm_90a", *, schedules: str | Sequence[tuple[str, int]] = "late",
    check: bool = True,
) -> Iterator[Runs]:  # fmt: skip
    """Within the block, kernels of Triton and Gluon run on the emulator as on a GPU of `target`.

    `schedules`: under which of them each launch runs, from the same memory: eager, late, random,
    "all", or pairs of a name and a seed. `check=False` looks for no races. Yields what the
    launches did: `runs.findings`, `runs.launches`. Raises ModuleNotFoundError without Triton,
    and what `in_process.emulated` raises.
    """
    triton, compiler, driver = _packages()
    with ExitStack() as stack:
        runs = stack.enter_context(in_process.emulated(target, schedules=schedules, check=check))
        folder = str(in_process.process().folder)
        backend = compiler.CUDABackend
        stack.enter_context(patched(os.environ, "TRITON_LIBCUDA_PATH", folder))
        stack.enter_context(patched(backend, "__init__", _reads_ptx(backend.__init__)))
        stack.enter_context(patched(backend, "add_stages", _without_cubin(backend.add_stages)))
        stack.enter_context(patched(backend, "hash", _apart(backend.hash)))
        function = triton.JITFunction
        stack.enter_context(patched(function, "run", _kept_by_target(function.run, target)))
        launcher = driver.CudaLauncher
        stack.enter_context(patched(launcher, "__call__", _borrowing(launcher.__call__)))
        stack.enter_context(cuda_tensors.emulated(in_process.capability(target)))
        for name in ("do_bench", "do_bench_cudagraph"):
            stack.enter_context(patched(triton.testing, name, _measured_once))
        cublas = getattr(triton._C.libtriton.nvidia, "cublas", None)
        if cublas is not None:
            stack.enter_context(patched(cublas, "CublasLt", library_products.Products))
        config = triton.runtime.driver
        before = config._active
        stack.callback(setattr, config, "_active", before)
        active = driver.CudaDriver()
        active.get_benchmarker = lambda: _once
        config.set_active(active)
        yield runs


def install(
    target: str = "sm_90a", *, schedules: str | Sequence[tuple[str, int]] = "late",
    check: bool = True,
) -> Runs:  # fmt: skip
    """The same as `emulated` until the process ends, where the findings are said."""
    runs = _installed.enter_context(emulated(target, schedules=schedules, check=check))
    atexit.register(_close, runs)
    return runs


def _close(runs: Runs) -> None:
    _installed.close()
    for line in str(runs).splitlines():
        print(f"phasebit: {line}")


def _reads_ptx(init: Any) -> Any:
    def wrapped(self: Any, target: Any) -> None:
        init(self, target)
        self.binary_ext = "ptx"

    return wrapped


def _apart(hashed: Any) -> Any:
    """What is compiled here has no machine code: Triton keeps it apart from what has."""

    def wrapped(self: Any) -> str:
        return f"{hashed(self)}-phasebit"

    return wrapped


def _kept_by_target(run: Any, target: str) -> Any:
    """A function's call that finds what was compiled for this target here, and nothing else."""

    def wrapped(self: Any, *args: Any, **more: Any) -> Any:
        before, kept = self.device_caches, vars(self).setdefault("_phasebit_caches", {})
        self.device_caches = kept.setdefault(target, defaultdict(self.create_binder))
        try:
            return run(self, *args, **more)
        finally:
            self.device_caches = before

    return wrapped


def _once(run: Any, quantiles: Sequence[float] = (), **_: Any) -> Any:
    """For `triton.autotune`, which takes the first configuration: times here say nothing."""
    run()
    return [0.0] * len(quantiles or ()) or 0.0


def _measured_once(
    run: Any, *_: Any, quantiles: Sequence[float] = (), return_mode: str = "mean", **__: Any
) -> Any:
    """For scripts that measure: one run, and this machine's milliseconds."""
    begun = time.perf_counter()
    run()
    taken = 1000 * (time.perf_counter() - begun)
    if quantiles and len(quantiles) > 1:
        return [taken] * len(quantiles)
    return [taken] if return_mode == "all" and not quantiles else taken


def _without_cubin(add_stages: Any) -> Any:
    def wrapped(self: Any, stages: dict[str, Any], *rest: Any) -> None:
        add_stages(self, stages, *rest)
        stages.pop("cubin", None)

    return wrapped


def _borrowing(call: Any) -> Any:
    """A launch whose arguments may lie in memory of the host."""

    def wrapped(self: Any, *args: Any, **more: Any) -> None:
        loans = Loans()
        given = loans.lend(args)
        with loans.current():
            call(self, *given, **more)

    return wrapped


def main(words: Sequence[str]) -> int:
    """Run a program of Triton or Gluon, as the module says; the program's exit status."""
    return whole_programs.run("phasebit.triton", emulated, "sm_90a", words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
