# mypy: ignore-errors
"""Programs of the catalogue that take seconds, run again: right, and found is what was recorded.

Their sources are not here: name checkouts in the variables below; ``pip install triton`` or
``nvidia-cutlass-dsl``, and PyTorch. None of it needs a GPU.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

from tests.foreign.test_catalogue import PROGRAMS, foreign

pytestmark = pytest.mark.foreign

CHECKOUTS = {
    "NVIDIA/cutlass": "CUTLASS_REPOSITORY", "triton-lang/triton": "TRITON_REPOSITORY",
    "facebookexperimental/triton": "META_TRITON_REPOSITORY",
}  # fmt: skip
NEEDS = {"triton": "triton", "cute": "cutlass"}
BEGINNINGS = (
    "triton: 12-cluster-launch-control.py", "triton: 14-multicta.py ::test_two_cta",
    "meta-triton: 06-tcgen05.py", "meta-triton: 04-tma.py", "meta-triton: 10-block-scaled",
    "cutlass: cute/hopper/kernel/cta_norm", "cutlass: cute/ampere/kernel/attention/hstu",
    "cutlass: cute/blackwell_geforce/kernel/blockscaled_gemm/",
)  # fmt: skip
QUICK = [one for one in foreign.catalogue() if one.name.startswith(BEGINNINGS)]
SECONDS = 240


@pytest.mark.parametrize("program", QUICK, ids=lambda one: one.name)
def test_as_it_is_recorded(program, tmp_path):
    for name in (NEEDS[program.door], "torch"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: NOT asked")
    where = os.environ.get(CHECKOUTS[program.repository])
    if not where:
        pytest.skip(f"{CHECKOUTS[program.repository]} names no checkout: NOT asked")
    for folder in program.folders:  # a copy: sizes in the text are made smaller
        shutil.copytree(Path(where) / folder, tmp_path / folder)
    made = foreign.run(program, tmp_path, SECONDS)
    before = PROGRAMS[program.name]
    rules = [{one["rule"] for one in each["findings"]} for each in (made, before)]
    assert (made["verdict"], rules[0]) == (before["verdict"], rules[1])


def test_each_beginning_names_some():
    for beginning in BEGINNINGS:
        assert any(one.name.startswith(beginning) for one in QUICK), beginning
