"""CUTLASS's kernels in CuTe DSL, as they stand there: modules of a checkout of its repository.

Nothing of them is in this project. Fetch the repository, and install ``nvidia-cutlass-dsl``;
neither needs a GPU. The modules also import PyTorch, for comparisons of their own that are not made
here.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

EXAMPLES = "examples/python/CuTeDSL"
KERNELS = "cute/blackwell/kernel"


def module(repository: Path, file: str) -> Any:
    """A module of a checkout of github.com/NVIDIA/cutlass; ``file``: its path in the examples.

    Raises ``FileNotFoundError`` where it is none.
    """
    examples = repository / EXAMPLES
    if not (examples / file).exists():
        raise FileNotFoundError(f"{examples / file} is missing: give a checkout of NVIDIA/cutlass")
    spec = importlib.util.spec_from_file_location(f"cutlass_{Path(file).stem}", examples / file)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    stubs = {name: MagicMock() for name in ("torch", "cutlass.torch")
             if importlib.util.find_spec("torch") is None}  # fmt: skip
    sys.modules.update(stubs)
    sys.path.insert(0, str(examples))
    try:
        spec.loader.exec_module(made)
    finally:
        sys.path.remove(str(examples))
        for name in stubs:
            del sys.modules[name]
    return made


def commit(repository: Path) -> str:
    """Of the checkout."""
    said = subprocess.run(["git", "-C", str(repository), "rev-parse", "HEAD"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    return said.stdout.strip()
