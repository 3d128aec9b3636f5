"""The book's kernels: they compile everywhere they must, and the harness sees every mistake."""

from __future__ import annotations

import functools
import re
import shutil
from pathlib import Path

import pytest

from phasebit import files, hardware, process, toolchain
from phasebit.instruments import sanitizer
from tests.kernels import targets
from tests.kernels.emulated import emulate
from tests.kernels.mistakes import MISTAKES, planted, source
from tests.kernels.targets import run

HARNESS = '#include "harness.cuh"'
KERNELS = [name for name in files.kernel_names(".cu")
           if name.startswith("double_buffering/") and HARNESS in files.kernel(name)]  # fmt: skip
"""The matrix products."""
DEEP = 832
"""26 tiles: more than any ring holds, and its last round is cut short."""
SINCE = {"double_buffering/h_tensor_cores": "sm_80"}
"""Kernels with instructions that came later than the book's first target."""
needs_gpu = pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU here")


def alone(kernel: str) -> str:
    """A kernel without its harness, most of which is for the host."""
    return source(kernel).replace(HARNESS, "")


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_fits_its_kernel(name: str) -> None:
    assert planted(name) != source(MISTAKES[name][0])


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_file_holds_one_idea(kernel: str) -> None:
    lines = source(kernel).splitlines()
    assert lines[0].startswith("// ") and lines[-1] == HARNESS
    assert len(lines) <= 150 and max(map(len, lines)) <= 100


def space(kernel: str) -> str:
    """What a kernel's namespace is called."""
    return f"kernel_{Path(kernel).name}"


@functools.cache
def assembled(since: str) -> dict[str, targets.Assembled]:
    """All kernels that have one first target, compiled for it and every later one."""
    texts = {space(each): alone(each) for each in KERNELS if first_target(each) == since}
    return targets.assemble_each(texts, *targets.ALL[targets.ALL.index(since) :])


def first_target(kernel: str) -> str:
    return SINCE.get(kernel, targets.ALL[0])


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", KERNELS)
def test_compiles_for_every_target_without_spills_or_warnings(kernel: str) -> None:
    since = first_target(kernel)
    build = assembled(since)[space(kernel)]
    assert build.warnings == ""
    count = len(targets.ALL) - targets.ALL.index(since)
    assert [use.kernel for use in build.resources] == ["matmul"] * count
    assert not any(use.spills for use in build.resources)


@pytest.mark.nvcc
def test_depth_must_be_whole_tiles() -> None:
    texts = {space(each): alone(each).replace("K = 4096", "K = 4095") for each in KERNELS}
    with pytest.raises(toolchain.CompileError, match="whole tiles") as refused:
        targets.assemble(targets.together(texts), "sm_90a")
    for kernel in KERNELS:
        said = rf"^{space(kernel)}.cu\(\d+\).*whole tiles"
        assert re.search(said, refused.value.log, re.MULTILINE)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("depth", [64, 128, 192, 1024, 4096])  # from one tile or two to 128
def test_right_at_every_depth(kernel: str, depth: int) -> None:
    done = run(source(kernel).replace("K = 4096", f"K = {depth}"), "warm", "--repeats", "50")
    assert done.ok, done.stdout + done.stderr
    plain = [line for line in done.stdout.splitlines() if not line.startswith("⏱")]
    assert len(plain) == 2 and all(line.startswith("matmul: OK") for line in plain)


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("depth", [64, DEEP])  # one tile or two; many
def test_right_on_the_emulator(kernel: str, depth: int) -> None:
    deep, text = (source(kernel).replace("K = 4096", f"K = {k}") for k in (DEEP, depth))
    done = emulate(text, "warm", right=deep if depth != DEEP else "")
    assert done.ok and not done.stderr, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and all(line.startswith("matmul: OK") for line in lines)


@pytest.mark.nvcc
@pytest.mark.parametrize("name", MISTAKES)
def test_the_emulator_sees_the_mistake(name: str) -> None:
    """By the harness's verdict, or, where the result is right by luck, by a finding."""
    text = planted(name).replace("K = 4096", f"K = {DEEP}")
    right = source(MISTAKES[name][0]).replace("K = 4096", f"K = {DEEP}")
    done = emulate(text, "--seed", "1", right=right)
    kinds = r"^phasebit: kernel matmul: (race|uninitialised|barrier|deadlock|livelock)"
    found = re.search(kinds, done.stderr, re.MULTILINE)
    assert not done.stopped
    assert found or (not done.ok and re.search(MISTAKES[name][3], done.stderr)), done.stderr


@pytest.mark.nvcc
def test_the_emulator_has_no_times(tmp_path: Path) -> None:
    text = source("double_buffering/tiled").replace("K = 4096", "K = 32")
    done = emulate(text, "--json", f"{tmp_path}/t")
    assert done.status == 1 and "the emulator has none" in done.stderr


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("name", MISTAKES)
def test_the_harness_sees_the_mistake(name: str) -> None:
    done = run(planted(name), "--seed", "1")
    assert not done.ok and not done.stopped
    assert re.search(MISTAKES[name][3], done.stderr)
    assert "OK, exact" not in done.stdout


ARRIVES_TWICE = "double_buffering/c_async_copies"
"""Its copies arrive beside the thread that began them. synccheck may then say, on one run and not
on the next, that the thread does not wait: see ``asynchronous_copies.clean``."""


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_clean_under_compute_sanitizer(kernel: str, tool: str) -> None:
    if shutil.which("compute-sanitizer") is None:
        pytest.skip("compute-sanitizer is not installed")
    # No more tiles than slots. When slots come round again, synccheck gives up on cuda::barrier:
    # its table overflows on a_wide_loads.
    program = toolchain.build(source(kernel).replace("K = 4096", "K = 128")).program
    command = [program, "warm", "--repeats", "50"]
    said = sanitizer.under(tool, command, "source.cu", seconds=300)
    if (tool, kernel) == ("synccheck", ARRIVES_TWICE) and said["verdict"] == "said":
        assert said["said"] == ["Barrier error detected. Missing wait."]
    else:
        assert said["verdict"] == "nothing", said
        assert process.run(command, timeout=60).ok
