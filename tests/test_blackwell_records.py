"""What ``record`` does on a B200 and on a B300, rehearsed.

Every kernel is assembled for that chip; the emulator stands for the GPU, and the times are made up.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from phasebit import chapters, hardware, measure, process, toolchain
from phasebit.launching import launch as launching
from tests.kernels import targets

GPUS = [
    hardware.Gpu("NVIDIA B200", (10, 0), "580.1"), hardware.Gpu("NVIDIA B300", (10, 3), "580.1"),
]  # fmt: skip
ALONE = "tensor_memory", "one_thread_multiplies", "other_forms", "low_precision", "cute_dsl"
"""Records that need no torch."""

pytestmark = pytest.mark.nvcc


def of_the_part() -> set[str]:
    """Chapters whose record is for Blackwell."""
    names = chapters.having("record")
    return {name for name in names
            if getattr(chapters.load(name, "record"), "TARGET", "") == "sm_100a"}  # fmt: skip


@pytest.fixture(params=GPUS, ids=lambda gpu: gpu.name.split()[1])
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """As if this GPU were here: its launches are the emulator's, once ptxas has taken the text."""
    here = request.param
    monkeypatch.setattr(hardware, "gpu", lambda: here)
    monkeypatch.setattr(measure, "gpu", lambda: here)
    emulate, taken, asked = launching.Kernel.launch, set[str](), itertools.count(1)

    def assemble(kernel: launching.Kernel) -> None:
        if kernel.ptx not in taken:
            text = tmp_path / "kernel.ptx"
            text.write_text(kernel.ptx)
            command = [toolchain.tool("ptxas"), f"-arch={here.target}", text, "-o", "/dev/null"]
            done = process.run(command, timeout=120)
            assert done.ok, done.stderr
            taken.add(kernel.ptx)

    def launch(self: launching.Kernel, *args: Any, device: str = "emulator", **options: Any) -> Any:
        if device == "gpu":
            assemble(self)
        return emulate(self, *args, **options)

    def times(self: launching.Kernel, *args: Any, count: int, **options: Any) -> list[float]:
        assemble(self)
        begin = next(asked)  # each time it is asked they are longer
        return [float(begin + i) for i in range(count)]

    monkeypatch.setattr(launching.Kernel, "launch", launch)
    monkeypatch.setattr(launching.Kernel, "times", times)
    return here


def test_the_part_has_these_records() -> None:
    assert of_the_part() == {*ALONE, "chain", "attention_again"}


@pytest.mark.parametrize("name", ALONE)
def test_a_record_from_its_first_line_to_its_last(
    name: str, gpu: hardware.Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = chapters.load(name, "record")
    if name == "low_precision":
        monkeypatch.setattr(module, "SIZES", (256,))
    if name == "cute_dsl":
        monkeypatch.setattr(module, "SHAPES", ((256, 256, 64),))
    monkeypatch.setattr("phasebit.instruments.programs.multiprocessors", lambda: 4)
    found = measure.check(module.record())
    assert found["gpu"] == gpu.name and found["target"] == gpu.target
    shown = module.table(found)
    assert gpu.name in shown.source and all(len(row) == len(shown.heading) for row in shown.rows)


def test_what_one_chip_has_not_is_left_out(gpu: hardware.Gpu) -> None:
    module: Any = chapters.load("one_thread_multiplies", "record")
    found = dict(module.possible(gpu))
    assert ("s8, sum s32" in found) == (gpu.name == "NVIDIA B200")
    assert found.keys() >= {*module.CASES} - {"s8, sum s32"}


def test_a_kernel_that_differs_ends_the_record(
    gpu: hardware.Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = chapters.load("one_thread_multiplies", "record")
    honest = module.repeat

    def wrong(case: str, n: int, times: int, device: str = "emulator") -> Any:
        return honest(case, n, times + (device == "gpu" and case.startswith("tf32")))

    monkeypatch.setattr(module, "repeat", wrong)
    with pytest.raises(toolchain.CudaError, match="tf32, sum f32: products of whole"):
        module.record()


def assembled(text: str, *, target: str, options: Sequence[str], **_: object) -> targets.Assembled:
    """What :func:`phasebit.toolchain.build` makes of a library, but for its host half."""
    target, feature = toolchain.for_this_gpu(target)
    macros = (option.removeprefix("-D").replace("=", " ") for option in [*feature, *options])
    return targets.assemble("".join(f"#define {macro}\n" for macro in macros) + text, target)


@pytest.mark.parametrize("name", ["chain", "attention_again"])
def test_the_libraries_of_the_others_build(
    name: str, gpu: hardware.Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their host half is the same for both chips: it is compiled for one of them."""
    if gpu is not GPUS[0]:
        monkeypatch.setattr(toolchain, "build", assembled)
    module: Any = chapters.load(name, "record")
    if name == "chain":
        builds = [(kernel, False) for kernel in module.KERNELS.values()]
        builds += [(module.KERNELS[name], True) for name in module.IN_BF16]
    else:
        builds = [(kernel, depth) for kernel in module.KERNELS for depth in (64, 128)]
    for each in builds:
        assert module.build(*each).resources
