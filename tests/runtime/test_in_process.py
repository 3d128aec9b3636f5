"""The stand-in inside a Python process: one of its own, so that pytest's stays without a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

import pytest

from phasebit.runtime import library

BEGIN = '''
import ctypes, numpy as np
from phasebit.doors import device_arrays
from phasebit.emulator import LaunchError
from phasebit.runtime.in_process import emulated, process, holds

TEXT = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 p)
{
    .reg .b32 %r<4>; .reg .b64 %d<4>;
    mov.u32 %r1, %tid.x;
    ld.param.u64 %d1, [p];
    cvta.to.global.u64 %d1, %d1;
    mul.wide.u32 %d2, %r1, 4;
    add.u64 %d2, %d1, %d2;
    ld.global.u32 %r2, [%d2];
    add.u32 %r2, %r2, 1;
    st.global.u32 [%d2], %r2;
    ret;
}
"""

def launch(address, threads):
    cuda = ctypes.CDLL("libcuda.so.1")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), TEXT) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"add") == 0
    given = ctypes.c_uint64(address)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(given))
    error = cuda.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, None, arguments, None)
    return error or cuda.cuCtxSynchronize()
'''


LOOP = """
import contextlib, io, json, sys
for line in sys.stdin:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(json.loads(line), {})
    print(json.dumps(said.getvalue()), flush=True)
"""


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[[str], str]]:
    """run(script): what a script prints, after `BEGIN`. All run in one process, in turn."""
    try:
        library.build()
    except library.BuildError as error:
        pytest.skip(str(error))
    with subprocess.Popen(
        [sys.executable, "-c", LOOP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        stdin, stdout = process.stdin, process.stdout

        def ask(script: str) -> str:
            stdin.write(json.dumps(BEGIN + textwrap.dedent(script)) + "\n")
            stdin.flush()
            answer = stdout.readline()
            assert answer, "the process ended"
            return str(json.loads(answer))

        yield ask
        stdin.close()


def test_a_launch_through_libcuda_changes_an_array_and_is_told(run):
    script = """
        with emulated("sm_80", schedules="all") as runs:
            a = device_arrays.array(np.arange(32, dtype=np.int32))
            print(launch(a.data_ptr(), 32), holds(a.data_ptr()))
        print(np.array_equal(a, np.arange(32) + 1), runs.findings)
        print([(one.kernel, one.block) for one in runs.launches])
    """
    assert run(script) == "0 True\nTrue []\n[('add', (32, 1, 1))]\n"


def test_a_mistake_is_found_named_and_over_when_the_block_is(run):
    script = """
        with emulated("sm_80") as runs:
            a = device_arrays.empty(16, np.int32)
            print(launch(a.data_ptr(), 64))
        print(runs)
        with emulated("sm_80") as runs:
            print(launch(a.data_ptr(), 16), runs)
    """
    lines = run(script).splitlines()
    assert lines[0] == "700"
    assert "array [16] of int32 (64 bytes)" in lines[1] and "PTX line" in lines[1]
    assert lines[2] == "0 1 launches, no finding"


def test_memory_is_given_back_and_may_not_be_used_after(run):
    script = """
        with emulated("sm_80") as runs:
            a = device_arrays.empty(16, np.int32)
            address, view = a.data_ptr(), a[2:]
            del a
            print(holds(address))
            del view
            print(holds(address), launch(address, 1))
    """
    assert run(script) == "True\nFalse 700\n"


def test_what_packages_ask_of_an_array(run):
    script = """
        import gc
        a = device_arrays.array(np.arange(6, dtype=np.float32).reshape(2, 3))
        print(a.stride(), a.stride(0), a.numel(), a.element_size(), a.is_contiguous(), a.dim())
        print(a.T.stride(), a.__dlpack_device__(), a.__cuda_array_interface__["shape"])
        capsule = a.__dlpack__(stream=-1)
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        at = get(capsule, b"dltensor")
        print(ctypes.c_uint64.from_address(at).value == a.data_ptr(),
              ctypes.c_int32.from_address(at + 8).value)
    """
    assert run(script) == ("(3, 1) 3 6 4 True 2\n(1, 3) (2, 0) (2, 3)\nTrue 2\n")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ('emulated("hopper")', "name it as nvcc does"),
        ('emulated(schedules="some")', "choose one of eager, late, random, all"),
        ("emulated(schedules=[])", "give a word, or pairs of a name and a seed, one at least"),
        ('emulated(schedules=("late", "eager"))', "give a word, or pairs of a name and a seed"),
        ("emulated(schedules=3)", "schedules=3: give a word, or pairs"),
        ('emulated(schedules=[("soon", 0)])', "schedule 'soon': choose one of eager"),
        ('emulated(schedules=[("random", -1)])', "seed=-1: seeds count from 0"),
    ],
)
def test_bad_input_is_a_sentence(asked, words, run):
    script = f"""
        try:
            with {asked}: pass
        except LaunchError as error:
            print(error)
    """
    assert words in run(script)


def test_one_block_does_not_stand_in_another(run):
    script = """
        try:
            with emulated("sm_80"):
                with emulated("sm_90a"): pass
        except LaunchError as error:
            print(error)
        with emulated("sm_90a"): print("fine")
    """
    assert run(script).splitlines() == [
        "one emulated block stands in another: leave the first one before", "fine",
    ]  # fmt: skip


OTHER = """
import ctypes, sys
from phasebit.emulator import LaunchError
from phasebit.runtime.in_process import emulated
ctypes.CDLL(sys.argv[1])
try:
    with emulated("sm_80"): pass
except LaunchError as error:
    print(error)
"""


@pytest.mark.parametrize("name", ["libcuda.so.1", "libcudart.so.13"])
def test_another_library_of_cuda_that_is_open_already_is_not_replaced(name, tmp_path):
    """PyTorch opens a libcudart.so.13 of its own; ours would call into it."""
    other = tmp_path / name
    (tmp_path / "empty.c").write_text("int cuInit(unsigned flags) { return (int)flags; }\n")
    try:
        library.link(library.compiler(), tmp_path / "empty.c", "-o", other)
    except library.BuildError as error:
        pytest.skip(str(error))
    done = subprocess.run([sys.executable, "-c", OTHER, other], capture_output=True, text=True)
    assert f"this process has opened another {name}" in done.stdout, done.stderr


def test_an_interrupt_ends_the_block_and_not_only_the_launch(run):
    script = """
        from phasebit.runtime.server import Device
        def interrupted(self, op, words, blob): raise KeyboardInterrupt
        with emulated("sm_80") as runs:
            a = device_arrays.empty(16, np.int32)
        try:
            with emulated("sm_80"):
                before, Device.handle = Device.handle, interrupted
                print(ctypes.CDLL("libcuda.so.1").cuCtxSynchronize())
                Device.handle = before
        except KeyboardInterrupt:
            print("interrupted")
    """
    assert run(script) == "719\ninterrupted\n"


def test_lent_memory_is_seen_by_kernels_and_comes_back(run):
    script = """
        from phasebit.doors.borrowed import Loans
        host = np.arange(40, dtype=np.int32)
        frozen = np.arange(4, dtype=np.int32); frozen.flags.writeable = False
        with emulated("sm_80") as runs:
            loans = Loans()
            one, other = loans.lend(host[8:16]), loans.lend(host[12:20])
            print(one.data_ptr() + 16 == other.data_ptr(), loans.lend(7), loans.lend(one) is one)
            with loans.current():
                launch(one.data_ptr(), 8)
            print(host[7:17])
            loans = Loans()
            kept = loans.lend(frozen)
            try:
                with loans.current():
                    launch(kept.data_ptr(), 4)
            except LaunchError as error:
                print(error)
    """
    lines = run(script).splitlines()
    assert lines[:2] == ["True 7 True", "[ 7  9 10 11 12 13 14 15 16 16]"]
    assert "a kernel changed an array of shape (4,) that may not be written" in lines[2]
