# mypy: ignore-errors
"""From a kernel in Triton to a launch in the emulator; Triton compiles without a GPU."""

from __future__ import annotations

import numpy as np
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource

from phasebit.emulator.launch import Module
from phasebit.emulator.tensormap import TensorMap

SWIZZLES = ("none", "32B", "64B", "128B")


class Built:
    """A kernel in Triton or Gluon for one target (90 or 100), as Triton compiles it."""

    def __init__(self, function, types, constants, capability, *, warps=4, stages=3, blocks=1):
        signature = types | dict.fromkeys(constants, "constexpr")
        whole = {(i,): [["tt.divisibility", 16]] for i, t in enumerate(types.values())
                 if not t.startswith("tensordesc")}  # fmt: skip
        made_of = GluonASTSource if function.is_gluon() else triton.compiler.ASTSource
        source = made_of(function, signature=signature, constexprs=constants, attrs=whole)
        options = {"num_warps": warps, "num_stages": stages, "num_ctas": blocks}
        target = GPUTarget("cuda", capability, 32)
        made = triton.compile(source, target=target, options=options)
        self.about = made.metadata
        module = Module(made.asm["ptx"])
        self.kernel = module[module.kernels[0]]

    def launch(self, grid, args, how):
        """Arrays are boxes where the kernel wants a tensor map, else pointers."""
        given, maps = [], list(self.about.tensordesc_meta or [])
        for arg in args:
            if isinstance(arg, Tiled):
                about = maps.pop(0)
                box = TensorMap(arg.array, box=about["block_size"][::-1],
                                swizzle=SWIZZLES[about["swizzle"]])  # fmt: skip
                given += [box, *arg.array.shape, arg.array.shape[1], 1]
            else:
                given.append(arg)
        scratch = np.zeros(self.about.global_scratch_size * int(np.prod(grid)) + 256, np.uint8)
        given += [scratch, 0][: len(self.kernel.function.parameters) - len(given)]
        blocks = self.about.num_ctas
        threads = int(np.prod(self.kernel.function.directives["reqntid"]))
        run = self.kernel.launch(
            (grid[0] * blocks, *grid[1:]), threads, given, shared=self.about.shared,
            schedule=how[0], seed=how[1], cluster=(blocks, 1, 1) if blocks > 1 else None,
        )  # fmt: skip
        assert run.hazards == [], [str(h) for h in run.hazards[:2]]


class Tiled:
    """An array that a kernel gets as a tensor descriptor."""

    def __init__(self, array):
        self.array = array
