# mypy: ignore-errors
"""From a kernel in TileLang to a launch in the emulator.

TileLang lowers to CUDA C++ without a GPU, and says in its host's text which tensor maps it makes
and how it launches; nvcc compiles the CUDA C++ with the headers that TileLang and CUTLASS ship.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import tilelang
from tilelang import tvm

from phasebit import toolchain
from phasebit.emulator import TensorMap
from phasebit.launching.launch import Module

HOME = Path(tilelang.__file__).parent
INCLUDES = [HOME / "src", HOME / "3rdparty/cutlass/include"]
TYPES = {0: "u8", 1: "u16", 2: "u32", 3: "s32", 6: "f16", 7: "f32", 9: "bf16"}
SWIZZLES = ("none", "32B", "64B", "128B")


class Built:
    """A function of TileLang's for one target, as TileLang and nvcc compile it."""

    def __init__(self, function, target):
        with tvm.target.Target({"kind": "cuda", "arch": target}) as context:
            made = tilelang.lower(function, target=context)
        self.source = made.kernel_source
        host, device = str(made.host_mod), str(made.device_mod)
        self.maps = {}
        for text in re.findall(r'call_packed\("__tvm_tensormap_create_tiled", (.*)\)', host):
            name, *numbers = text.split(", ")
            self.maps[name] = numbers
        self.tags = re.findall(r'"((?:block|thread)Idx\.\w|tir\w*\.\w+)"', re.search(
            r'"tir\w*\.kernel_launch_params": \[(.*?)\]', device)[1])  # fmt: skip
        self.name, given = re.findall(r'call_packed\("(\w+)", (.*)\)', host)[-1]
        self.given = given.split(", ")
        with tempfile.TemporaryDirectory() as folder:
            source, made = Path(folder) / "k.cu", Path(folder) / "k.ptx"
            source.write_text(self.source)
            options = ["-std=c++17", "-w", "--expt-relaxed-constexpr",
                       *(f"-I{folder}" for folder in INCLUDES)]  # fmt: skip
            command = toolchain.nvcc_command("ptx", target, options=options, include=False)
            command += [source, "-o", made]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[-3000:]
            self.ptx = made.read_text()
        self.kernel = Module(self.ptx)[self.name]

    def launch(self, arrays, how):
        """``arrays`` by the names of the function's parameters."""
        count = len(self.given) - len(self.tags)
        shape = dict(zip(self.tags, map(int, self.given[count:]), strict=True))
        args = [self._map(self.maps[name], arrays) if name in self.maps else arrays[name]
                for name in self.given[:count]]  # fmt: skip
        size = [[shape.get(f"{what}Idx.{axis}", 1) for axis in "xyz"]
                for what in ("block", "thread")]  # fmt: skip
        shared = next((n for tag, n in shape.items() if "dyn" in tag), 0)
        run = self.kernel.launch(*size, args, shared=shared, schedule=how[0], seed=how[1])
        assert run.findings == [], [str(h) for h in run.findings[:2]]

    def _map(self, numbers, arrays):
        """``numbers``: type, rank, array, extents, strides with the innermost, box, steps, …"""
        kind, rank, array = int(numbers[0]), int(numbers[1]), arrays[numbers[2]]
        rest = [int(n) for n in numbers[3:]]
        dims, strides, box, steps = (rest[i * rank : (i + 1) * rank] for i in range(4))
        _, swizzle, _, _ = rest[4 * rank :]
        assert steps == [1] * rank
        return TensorMap(array.view(np.uint8).reshape(-1), box, data_type=TYPES[kind], dims=dims,
                         strides=strides[1:], swizzle=SWIZZLES[swizzle])  # fmt: skip
