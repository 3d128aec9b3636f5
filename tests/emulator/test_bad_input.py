"""What people get wrong with ``pb.compile``, ``pb.Module`` and a launch: one sentence each.

``test_launch`` has the arguments of one kernel; here is the rest.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phasebit as pb
from phasebit import toolchain
from phasebit.emulator.errors import (
    EmulatorError,
    Fault,
    LaunchError,
    Livelock,
    PtxError,
)
from phasebit.emulator.machine import room
from phasebit.emulator.machine.batch import Batch

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def kernel(body: str, parameters: str = ".param .u64 out", head: str = HEAD) -> str:
    return f"""{head}.visible .entry k({parameters})
{{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    {body}
}}
"""


STORE = """ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd1, %rd1; mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r1; ret;"""


def one_sentence(error: Exception) -> str:
    text = str(error)
    assert text and "\n" not in text and "Traceback" not in text
    return text


# -- the text ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "PTX begins with .version"),
        ("__global__ void k() {}", "is this a PTX file?"),
        ("\x7fELF\x02\x01\x01", "does not belong in PTX"),
        (kernel(STORE, head=HEAD.replace("sm_90a", "sm_52")), "sm_52"),
        (kernel(STORE, head=HEAD.replace("sm_90a", "sm_70")), "sm_70"),
        (kernel(STORE, head=HEAD.replace("sm_90a", "gfx942")), "gfx942"),
        (kernel(STORE, head=HEAD.replace("64\n", "32\n")), "64-bit"),
        (kernel(STORE)[:-3], "never closed"),
        (kernel(STORE)[:200], "cut short"),
        (HEAD + ".global .align 3 .u32 x;", "power of two"),
        (HEAD + f".global .u32 x[1] = {'{' * 50_000}", "nested too deeply"),
        (HEAD + f".global .u64 x = {'generic(' * 9_000}x{')' * 9_000};", "nested too deeply"),
        (kernel(f"mov.u32 %r1, {'9' * 5_000};"), "64 bits at most"),
        (HEAD + f".global .b8 x[{'9' * 5_000}];", "64 bits at most"),
        (kernel("mov.u64 %rd1, 0x10000000000000000;"), "64 bits at most"),
        (HEAD + f'.file {"9" * 5_000} "x.cu"', "64 bits at most"),
        (HEAD + ".global .b8 x[99999999999];", "no memory holds"),
        (HEAD + ".global .b8 x[2000000000];", "has room"),
        (HEAD + ".global .u32 x = 1.5;", "holds integers"),
        (HEAD + ".global .u64 x = {nothing};", "unknown nothing"),
    ],
)
def test_text_that_is_no_module(text: str, words: str) -> None:
    with pytest.raises(PtxError) as caught:
        pb.Module(text)
    assert words in one_sentence(caught.value)
    assert caught.value.line is not None


@pytest.mark.parametrize("ptx", [b".version 9.0", None, 7, Path("k.ptx")])
def test_a_module_is_made_of_text(ptx: Any) -> None:
    with pytest.raises(PtxError, match="takes PTX text, not"):
        pb.Module(ptx)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("frobnicate.u32 %r1, %r2; ret;", "does not know 'frobnicate.u32'"),
        ("add.u32 %r1; ret;", "does not know"),
        ("add.u32 %r1, %r2, %r3, %r4; ret;", "does not know"),
        ("setp.s32 %p1, %r1, %r2; ret;", "does not know"),
        ("ld.u32 %r1; ret;", "does not know"),
        ("ld.global.u32 %r1, %rd1; ret;", "in brackets"),
        ("ld.global.v2.u32 %r1, [%rd1]; ret;", "as many registers"),
        ("ld.global.v2.u32 {%r1, %r2, %r3}, [%rd1]; ret;", "as many registers"),
        ("ld.global.u32 %r1, [%p1]; ret;", "32 or 64 bits"),
        ("ld.global.pred %p1, [%rd1]; ret;", "what memory holds"),
        ("mov.u32 %r1; ret;", "does not know"),
        ("bra; ret;", "bra needs one label"),
        ("bra %r1; ret;", "bra needs one label"),
        ("brx.idx %r1, T; ret; T: .branchtargets A, B; A: ret;", "PTX line"),
        ("call; ret;", "name of a function"),
        ("call nobody; ret;", "nobody"),
        (".local .b8 big[1000000]; ret;", "local memory"),
        ("ld.param.u64 %rd1, [out+4096];", "8 bytes at 4096 of out reach beyond"),
        ("ld.param.u64 %rd1, [out+-8];", "8 bytes at -8 of out reach beyond the"),
        ("ld.param.v2.u64 {%rd1, %rd2}, [out];", "16 bytes at 0 of out reach beyond"),
        ("ld.param.u32 %r1, [out+2];", "or begin at no multiple of 4"),
    ],
)
def test_instructions_that_cannot_be(body: str, words: str) -> None:
    with pytest.raises(PtxError) as caught:
        pb.Module(kernel(body))["k"].launch(1, 1, [0])
    assert words in one_sentence(caught.value)
    assert caught.value.line is not None


# -- the source ----------------------------------------------------------------


def test_a_source_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(toolchain.CudaError, match=r"there is no file .*nothing\.cu: give"):
        pb.compile(tmp_path / "nothing.cu")
    with pytest.raises(toolchain.CudaError, match="CUDA source, not NoneType"):
        pb.compile(None)  # type: ignore[arg-type]
    with pytest.raises(toolchain.CudaError, match=r"there is no file x+\.cu: give"):
        pb.compile("x" * 5000 + ".cu")


@pytest.mark.parametrize("options", ["-O1", None, 3, [3], {"-O1"}])
def test_options_that_are_no_list(options: object) -> None:
    with pytest.raises(toolchain.CudaError, match=r"^options is a list of nvcc's, as \['-O1'\]"):
        pb.compile("__global__ void k() {}", options=options)  # type: ignore[arg-type]


def test_a_source_that_is_no_text() -> None:
    with pytest.raises(toolchain.CudaError, match=r"has '\\udcff', which is no letter"):
        pb.compile("// \udcff\n")


def test_a_seed_may_be_numpy_s() -> None:
    module = pb.Module(kernel("ret;"))
    assert not module["k"].launch(1, 1, [0], schedule="random", seed=np.int64(1)).findings  # type: ignore[arg-type]


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("source", "arch", "words"),
    [
        ("__global__ void k() { int x = }", "sm_90a", "expected an expression"),
        ("__global__ void k() {}", "sm_52", "sm_52"),
        ("__global__ void k() {}", "fermi", "fermi"),
    ],
)
def test_source_that_does_not_compile(source: str, arch: str, words: str) -> None:
    with pytest.raises((toolchain.CudaError, EmulatorError, ValueError)) as caught:
        pb.compile(source, arch=arch)
    assert words in str(caught.value)


# -- the launch ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"grid": 0}, "grid"),
        ({"grid": (1, 0)}, "grid"),
        ({"grid": -1}, "grid"),
        ({"grid": 1.5}, "grid"),
        ({"grid": "many"}, "grid"),
        ({"grid": ()}, "grid"),
        ({"grid": (1, 70_000)}, "65535"),
        ({"grid": 1 << 31}, "2147483647"),
        ({"block": (0, 1)}, "block"),
        ({"block": None}, "block"),
        ({"block": 1025}, "too large"),
        ({"shared": 1.5}, "shared"),
        ({"shared": "1k"}, "shared"),
        ({"shared": 228 << 10}, "shared memory"),
        ({"cluster": 0}, "cluster"),
        ({"cluster": 32, "grid": 32}, "16 blocks"),
        ({"seed": "x"}, "seed"),
        ({"max_steps": 0}, "max_steps"),
        ({"args": np.zeros(4)}, "args"),
        ({"args": None}, "args"),
        ({"args": 5}, "args"),
        ({"args": [None]}, "NoneType"),
        ({"args": [[1, 2]]}, "list"),
        ({"args": [1 << 64]}, "does not fit"),
        ({"grid": np.array(0)}, "grid"),
        ({"args": [np.str_("ab")]}, "a <U2 cannot be passed as a number"),
        ({"args": [np.datetime64(0, "s")]}, "cannot be passed as a number"),
        ({"args": [np.complex64(1)]}, "a complex64 cannot be passed as a number"),
        ({"args": [np.array(["a"], object)]}, "numeric"),
        ({"args": [np.zeros((4, 4)).T]}, "not contiguous"),
        ({"args": [np.zeros(8)[::2]]}, "not contiguous"),
    ],
)
def test_launches_that_cannot_begin(change: dict[str, Any], words: str) -> None:
    module = pb.Module(kernel(STORE))
    options: dict[str, Any] = {"grid": 1, "block": 4, "args": [np.zeros(4, np.uint32)], **change}
    before = len(module.memory.allocations)
    with pytest.raises(LaunchError) as caught:
        module["k"].launch(**options)
    assert words in one_sentence(caught.value)
    assert len(module.memory.allocations) == before, "nothing stays allocated"


def test_numbers_that_no_float_is() -> None:
    text = kernel("ret;").replace(".param .u64 out", ".param .f32 x")
    for number, words in ((10**400, "has 4 bytes: "), (np.int32(1), "floating-point")):
        with pytest.raises(LaunchError, match=words):
            pb.Module(text)["k"].launch(1, 1, [number])
    text = text.replace(".f32 x", ".b8 x")
    with pytest.raises(LaunchError, match=r"is an integer, but 1.0 was given"):
        pb.Module(text)["k"].launch(1, 1, [1.0])


def test_a_grid_of_an_array_without_dimensions() -> None:
    out = np.zeros(4, np.uint32)
    pb.Module(kernel(STORE))["k"].launch(np.array(1), np.array([4]), [out])
    assert out.any()


def test_names_of_kernels() -> None:
    module = pb.Module(kernel(STORE))
    for name in ("K", "", 0, None):
        with pytest.raises(LaunchError, match="no kernel called"):
            module[name]  # type: ignore[index]


def test_a_zero_dimensional_and_an_empty_array() -> None:
    module = pb.Module(kernel(STORE))
    one = np.zeros((), np.uint32)
    module["k"].launch(1, 1, [one])
    with pytest.raises(Fault, match="invalid global access"):
        module["k"].launch(1, 1, [np.zeros(0, np.uint32)])


# -- kernels that never end ------------------------------------------------------


SPINS = {
    "a loop": "LOOP: bra LOOP;",
    "a flag nobody sets": """ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd1, %rd1;
        SPIN: ld.volatile.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN; ret;""",
    "a sleeper": "LOOP: nanosleep.u32 1000; bra LOOP;",
}


@pytest.mark.parametrize("what", SPINS)
@pytest.mark.parametrize("check", [True, False])
def test_a_kernel_that_never_ends_is_ended(what: str, check: bool) -> None:
    start = time.monotonic()
    with pytest.raises(Livelock) as caught:
        pb.Module(kernel(SPINS[what]))["k"].launch(
            1, 32, [np.zeros(1, np.uint32)], check=check, max_steps=20_000
        )
    assert "PTX line" in str(caught.value)
    assert time.monotonic() - start < 20


def test_a_failure_leaves_the_module_usable() -> None:
    module = pb.Module(kernel(STORE))
    with pytest.raises(Fault):
        module["k"].launch(1, 32, [np.zeros(4, np.uint32)])
    out = np.zeros(32, np.uint32)
    module["k"].launch(1, 32, [out])
    assert np.array_equal(out, np.arange(32))


def test_a_launch_for_which_there_is_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> None:
        raise MemoryError("Unable to allocate 3 TiB")

    module = pb.Module(kernel(STORE))
    monkeypatch.setattr(Batch, "_make_memory", none_left)
    with pytest.raises(LaunchError, match="not enough memory for this launch: Unable to allocate"):
        module["k"].launch(1, 32, [np.zeros(32, np.uint32)])


def test_blocks_wait_for_no_memory_that_the_machine_has_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A launch of many blocks ends with a sentence before the machine kills the process."""
    module = pb.Module(kernel(STORE))
    file = tmp_path / "meminfo"
    monkeypatch.setattr(room, "MEMINFO", file)
    module["k"].launch(1, 32, [np.zeros(32, np.uint32)])  # nobody says how much is left
    file.write_text("MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n")
    module["k"].launch(1, 32, [np.zeros(32, np.uint32)])
    file.write_text("MemTotal: 9000000 kB\nMemAvailable: 102400 kB\n")
    with pytest.raises(
        LaunchError, match="not enough memory for this launch: this machine has 100 MB left"
    ):
        module["k"].launch(1, 32, [np.zeros(32, np.uint32)])
