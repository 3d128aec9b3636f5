"""The GPU half of a program, assembled for one target or many."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from phasebit import process, toolchain

ALL = ("sm_75", "sm_80", "sm_90a", "sm_100a")


@dataclass(frozen=True)
class Assembled:
    """What the compiler says of a program's kernels."""

    resources: tuple[toolchain.Resources, ...]  # of every kernel, once for each target
    warnings: str


def assemble(text: str, *targets: str) -> Assembled:
    """Compile the GPU half of a program; :func:`tests.kernels.emulated.emulate` does the other.

    Raises :class:`toolchain.CompileError`.
    """
    numbers = [target.removeprefix("sm_") for target in targets]
    codes = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers]
    folders = [f"-I{folder}" for folder in toolchain.include_folders()]
    options = ["-std=c++17", "-lineinfo", "-Xptxas", "-v", "-fatbin", "-o", "code"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "source.cu").write_text(text, encoding="utf-8")
        command = [toolchain.nvcc().path, *options, *codes, *folders, "source.cu"]
        done = process.run(command, timeout=toolchain.BUILD_SECONDS, cwd=folder)
    log = done.stdout + done.stderr
    if not done.ok:
        raise toolchain.explain(log, "source.cu")
    return Assembled(toolchain.parse_resources(log), toolchain.warnings(log))
