"""What was compiled once is of the sources that there are, and what this nvcc makes is alike."""

from __future__ import annotations

import pytest

from phasebit.launching.launch import compile
from tests.emulator import saved


@pytest.mark.parametrize("name", saved.SOURCES)
def test_what_is_saved_is_of_this_source(name: str) -> None:
    text = saved.path(name).read_text(encoding="utf-8")
    assert text.startswith(saved.beginning(name)), "python -m tests.emulator.saved"


@pytest.mark.nvcc
@pytest.mark.parametrize("name", saved.SOURCES)
def test_it_has_the_kernels_that_this_nvcc_makes(name: str) -> None:
    source, target, options = saved.SOURCES[name]
    made = compile(saved.source_of(source), target, options)
    assert [*made.kernels] == [*saved.module(name).kernels]
