"""The kernels of *Other forms of the product*: short, and nothing for ptxas to warn of."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasebit import files, process, toolchain

KERNELS = ["sparse", "stationary"]


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_file_holds_one_idea(name: str) -> None:
    lines = files.kernel(f"other_forms/{name}").splitlines()
    assert lines[0].startswith("// ")
    assert len(lines) <= 100 and max(map(len, lines)) <= 100


@pytest.mark.nvcc
@pytest.mark.parametrize("name", KERNELS)
def test_ptxas_takes_it_without_a_warning(name: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(files.kernel(f"other_forms/{name}"))
    strict = ["-Xptxas", "-warn-spills,-Werror", "-Werror", "all-warnings"]
    command = toolchain.nvcc_command("cubin", "sm_100a", options=strict)
    done = process.run([*command, path, "-o", tmp_path / "kernel.cubin"], timeout=120)
    assert done.ok and not done.stderr, done.stderr
