"""One kernel file, many targets."""

from __future__ import annotations

from phasebit import files, toolchain

ALL = ("sm_75", "sm_80", "sm_90a", "sm_100a")


def build(name: str, *targets: str) -> toolchain.Build:
    """A kernel file compiled for ``targets`` by one nvcc: its host code is the same for all.

    Its resources are those of every kernel, once for each target.
    """
    first, *others = targets
    numbers = [target.removeprefix("sm_") for target in others]
    more = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers]
    return toolchain.build(files.kernels() / f"{name}.cu", target=first, options=more)
