"""The doors for other packages' kernels, where those packages are not."""

from __future__ import annotations

import sys

import pytest

import phasebit.cute
import phasebit.triton


@pytest.mark.parametrize(
    ("door", "module", "words"),
    [
        (phasebit.triton, "triton", "phasebit.triton needs Triton, .* pip install triton"),
        (phasebit.cute, "cuda.bindings", "phasebit.cute needs CuTe DSL, .* nvidia-cutlass-dsl"),
    ],
    ids=["triton", "cute"],
)
def test_a_package_that_is_missing_is_named_with_the_remedy(door, module, words, monkeypatch):
    for name in (module, module.partition(".")[0]):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=words), door.emulated():
        raise AssertionError("it was entered")
