"""Whole programs. What they print is compared with what they printed on an H200 (`*.out`)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from phasebit.runtime import driver_library, library
from phasebit.runtime.protocol import ENVIRONMENT

from .conftest import PROGRAMS

pytestmark = pytest.mark.nvcc


@pytest.mark.parametrize("name", sorted(path.stem for path in PROGRAMS.glob("*.out")))
def test_prints_what_it_printed_on_an_h200(name, compiled, run):
    ran = run(compiled(name))
    assert ran.status == 0
    assert ran.output == (PROGRAMS / f"{name}.out").read_text()


def test_every_program_is_compared_or_tested_here():
    recorded = {path.stem for path in PROGRAMS.glob("*.out")}
    others = {path.stem for path in PROGRAMS.glob("*.cu")} - recorded
    assert others == {"missing", "peers", "queue", "trouble", "values"}


def test_every_call_that_the_stand_in_has_is_made_by_a_program(compiled):
    """What a program calls of other libraries is undefined in its table of symbols.

    The driver library is one such program: `test_driver.py` makes its calls. Those of CUDA 12
    alone are made in `test_cuda_12.py`."""
    programs = [compiled(path.stem) for path in sorted(PROGRAMS.glob("*.cu"))]
    programs.append(library.build() / driver_library.SONAME)
    listed = subprocess.run(["nm", "-Du", *programs], capture_output=True, text=True, check=True)
    made = set(re.findall(r"\b\w*cuda\w+", listed.stdout))
    assert library.defined() - library.only_12() - made == set()


@pytest.mark.parametrize(
    "options", [("--default-stream", "per-thread"), ("-O0", "-G"), ("-std=c++20",)]
)
def test_streams_however_compiled(options, compiled, run):
    assert run(compiled("streams", *options)).output == (PROGRAMS / "streams.out").read_text()


@pytest.mark.parametrize("target", ["75", "80", "90", "100a"])
def test_the_device_has_the_capability_that_the_program_was_compiled_for(target, compiled, run):
    ran = run(compiled("attributes", f"-arch=sm_{target}"))
    number = target.rstrip("a")
    assert ran.output.startswith(f"sm_{number}, attributes agree: 1")
    assert f"phasebit emulator (sm_{number})" in ran.said


def test_finding_is_said_once_and_the_program_goes_on(compiled, run):
    ran = run(compiled("errors"))
    assert ran.said.count("thread 3 of block 0 reads 4 bytes at 0x10") == 1
    assert "runs 1073741760 bytes past the end of an allocation of 64 bytes" in ran.said


def test_output_of_kernels_is_lost_without_a_wait_and_that_is_said(compiled, run):
    ran = run(compiled("printing"), "do not wait")
    assert ran.output.splitlines()[-1] == "after the wait"
    assert "26 bytes that kernels printed are lost" not in ran.said
    assert "24 bytes that kernels printed are lost" in ran.said


def test_launch_blocking_makes_errors_appear_at_once(compiled, run):
    environment = {**os.environ, "CUDA_LAUNCH_BLOCKING": "1"}
    ran = run(compiled("errors"), environment=environment)
    lines = ran.output.splitlines()
    at = lines.index("then a stray write")
    assert lines[at + 2] == "synchronize: cudaErrorIllegalAddress"


def test_missing_call_fails_with_its_name(compiled, run):
    ran = run(compiled("missing"))
    assert ran.status == 1
    assert ran.output == "cudaErrorNotSupported\ncudaErrorNotSupported\n1 1\n"
    assert "the program called cudaMallocArray, which the stand-in" in ran.said
    assert "the program called cuTensorMapEncodeIm2colWide, which the stand-in" in ran.said


class TestTrouble:
    def test_host_code_that_touches_device_memory_is_told(self, compiled, run):
        ran = run(compiled("trouble"), "touch")
        assert ran.status == 128 + signal.SIGSEGV
        assert "host code touched device memory at 0x7000" in ran.said

    def test_host_code_that_touches_freed_managed_memory_is_told(self, compiled, run):
        ran = run(compiled("trouble"), "freed")
        assert ran.status == 128 + signal.SIGSEGV
        assert "host code touched device memory" in ran.said

    def test_other_crashes_are_only_named(self, compiled, run):
        ran = run(compiled("trouble"), "segfault")
        assert (ran.status, ran.said) == (139, "phasebit: the program died of SIGSEGV\n")
        assert run(compiled("trouble"), "abort").status == 134

    def test_a_program_of_cuda_12_sees_its_own_structure(self, compiled, run):
        ran = run(compiled("trouble"), "twelve")
        assert ran.output == "phasebit emulator, 8 multiprocessors, behind\n"

    def test_exit_status_is_the_programs(self, compiled, run):
        assert run(compiled("trouble"), "status").status == 7

    @pytest.mark.parametrize("what", ["endless", "spin"])
    def test_time_limit_ends_kernels_and_host_code(self, what, compiled, run):
        start = time.monotonic()
        ran = run(compiled("trouble"), what, limit=0.7)
        assert ran.status == 124
        assert "ended after 0.7 s, the time limit" in ran.said
        assert time.monotonic() - start < 5

    def test_program_that_leaves_takes_its_kernel_along(self, compiled, run):
        start = time.monotonic()
        assert run(compiled("trouble"), "leave").status == 3
        assert time.monotonic() - start < 5

    def test_nothing_is_left_running(self, compiled, run):
        program = compiled("trouble")
        run(program, "orphan")
        _wait_until_nobody_runs(program)

    def test_a_fork_may_not_use_the_device(self, compiled, run):
        ran = run(compiled("trouble"), "fork")
        assert ran.output == "child: cudaErrorInitializationError\nparent: cudaSuccess\n"

    def test_the_device_is_for_one_process_at_a_time(self, compiled, run):
        ran = run(compiled("trouble"), "beside")
        assert sorted(ran.output.splitlines()) == [
            "first: cudaSuccess", "first: cudaSuccess",
            "second: cudaErrorDevicesUnavailable", "second: cudaSuccess",
        ]  # fmt: skip
        assert ran.said.count("\n") == 1
        assert "another process of this program has the device" in ran.said

    @pytest.mark.parametrize("when", ["closed before", "closed"])
    def test_a_program_that_closes_our_files_is_told(self, when, compiled, run):
        ran = run(compiled("trouble"), when)
        assert ran.status == 125
        assert ran.said == (
            "phasebit: the program has closed files that are not its own, and with them the "
            "device: let it close what it has opened\n"
        )

    def test_sizes_beyond_all_numbers_are_errors(self, compiled, run):
        ran = run(compiled("trouble"), "huge")
        memory, value = "cudaErrorMemoryAllocation", "cudaErrorInvalidValue"
        assert ran.status == 0 and ran.output.splitlines() == [memory] * 4 + [value] * 2

    def test_host_memory_that_cannot_be_registered(self, compiled, run):
        ran = run(compiled("trouble"), "registered")
        names = ["InvalidValue"] * 2 + ["", "HostMemoryAlreadyRegistered", "", ""]
        assert ran.status == 0 and ran.output.splitlines() == [
            f"cudaError{name}" if name else "cudaSuccess" for name in names
        ]

    def test_no_offset_leads_out_of_a_variable(self, compiled, run):
        ran = run(compiled("trouble"), "symbols")
        assert (ran.status, ran.output) == (0, "")

    def test_host_answers_a_kernel_that_runs(self, compiled, run):
        ran = run(compiled("trouble"), "flag")
        assert ran.output == "running: cudaErrorNotReady\nanswered 42\n"

    def test_program_started_by_itself_says_how_to_start_it(self, compiled):
        from phasebit.runtime import library

        environment = {**os.environ, "LD_LIBRARY_PATH": str(library.build())}
        environment.pop(ENVIRONMENT, None)
        done = subprocess.run([compiled("errors")], env=environment, capture_output=True, text=True)
        assert done.stdout.startswith("malloc: cudaErrorNoDevice")
        assert "start this program with `python -m phasebit run PROGRAM`" in done.stderr

    @pytest.mark.parametrize("what", ["endless", "spin"])
    @pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
    def test_ended_server_takes_the_program_along(self, how, what, compiled):
        script = (
            "import sys; from tests.runtime.fake import FakeBackend; "
            "from phasebit.runtime.run_program import run_program; "
            "run_program(sys.argv[1:], FakeBackend())"
        )
        program = compiled("trouble")
        server = subprocess.Popen(
            [sys.executable, "-c", script, program, what], cwd=PROGRAMS.parents[2]
        )
        while not any(_target(path) == program for path in Path("/proc").glob("[0-9]*/exe")):
            assert server.poll() is None
            time.sleep(0.05)
        time.sleep(0.3)
        server.send_signal(how)
        assert server.wait() == (143 if how is signal.SIGTERM else -9)
        _wait_until_nobody_runs(program)


def _wait_until_nobody_runs(program: Path) -> None:
    deadline = time.monotonic() + 5
    while any(_target(path) == program for path in Path("/proc").glob("[0-9]*/exe")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _target(link: Path) -> Path | None:
    try:
        return link.readlink()
    except OSError:
        return None


def test_defect_of_the_backend_is_a_failed_launch(compiled, run, monkeypatch):
    from . import fake

    monkeypatch.setitem(fake.KERNELS, "increment", lambda k: 1 // 0)
    ran = run(compiled("basics"))
    assert ran.status == 1
    assert "ZeroDivisionError" in ran.said and "defect of phasebit" in ran.said
    assert "cudaErrorLaunchFailure" in ran.output


def test_module_that_does_not_load_is_invalid_ptx(compiled, run):
    from phasebit.runtime.backend import ModuleError

    class Refuses:
        def load(self, ptx, memory):
            raise ModuleError("line 3: unknown instruction frobnicate.b32")

    ran = run(compiled("errors"), backend=Refuses())
    assert "no blocks: cudaErrorInvalidPtx" in ran.output
    assert ran.said.count("unknown instruction frobnicate.b32") == 1
