"""An example of CUTLASS's as a module.  PyTorch, which it imports and its kernel does not need, may
be absent."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from unittest.mock import MagicMock


def load(path: str) -> ModuleType:
    """The module at a path; what is under ``if __name__ == "__main__"`` in it is not executed."""
    if importlib.util.find_spec("torch") is None:
        sys.modules.update({name: MagicMock() for name in ("torch", "cutlass.torch")})
    spec = importlib.util.spec_from_file_location("original", path)
    assert spec is not None and spec.loader is not None
    made = sys.modules["original"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
