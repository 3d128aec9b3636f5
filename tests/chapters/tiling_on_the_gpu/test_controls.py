"""Controls of *Tiling on the GPU*: right on the emulator, and each changes what its name says."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

from phasebit import edits, rounding
from phasebit.chapters.tiling_on_the_gpu import ladder
from phasebit.chapters.tiling_on_the_gpu import tiling_controls as controls
from phasebit.edits import replace_each
from phasebit.instruments import disassembly

pytestmark = pytest.mark.nvcc

DEPTHS = {name: ladder.VARIANTS[controls._BY_DEPTH[depth]]
          for name, (depth, _) in controls.DEPTH.items()}  # fmt: skip
RUNGS = {
    **DEPTHS,
    **{name: square.rung for name, square in controls.SQUARES.items()},
    **{name: ladder.VARIANTS[rung] for name, (rung, _) in controls.TUNED.items()},
}


@pytest.mark.parametrize("name", RUNGS)
def test_multiplies(name: str) -> None:
    m, n, k = (128, 128, 64) if name in controls.TUNED else (37, 45, 70)
    draw = np.random.default_rng()
    a, b = draw.standard_normal((m, k), np.float32), draw.standard_normal((k, n), np.float32)
    c = np.full((m, n), np.nan, np.float32)
    run = ladder.launched(RUNGS[name], controls.text(name), a, b, c, 1.0, 0.0)
    assert not run.findings
    exact, size = rounding.reference(a, b)
    assert not rounding.wrong(c, exact, rounding.product_bound(k) * size).any()


def meetings(name: str, k: int) -> int:
    """How often a thread of a block comes to the barrier."""
    counted = replace_each(
        controls.text(name).replace("__syncthreads()", "__syncthreads(), ++met"),
        (("float sum[T][T] = {};", "float sum[T][T] = {}; int met = 0;"),
         ("col0 + x + j, sum[i][j])", "col0 + x + j, met)")),
    )  # fmt: skip
    a, b = np.ones((32, k), np.float32), np.ones((k, 32), np.float32)
    c = np.full((32, 32), np.nan, np.float32)
    ladder.launched(RUNGS[name], counted, a, b, c, 1.0, 0.0)
    (met,) = set(c.ravel().tolist())
    return int(met)


def test_meetings_are_as_many_as_a_name_says() -> None:
    found = {name: meetings(name, 64) for name in controls.DEPTH}
    assert found == {name: 2 * met for name, met in controls.MEETINGS.items()}


def test_the_last_rung_with_more_meetings_only_meets_more() -> None:
    changed = edits.difference(controls.text("tuned"), controls.text("tuned, meets every 8"))
    assert re.fullmatch(r"\+ +if \(\(k \+ 1\) % 8 .*__syncthreads\(\);", changed)


def test_tiles_follow_from_squares_and_threads() -> None:
    assert controls.SQUARES["2 × 2, 1024 threads"].tile == 64
    for name, square in controls.SQUARES.items():
        known = ladder.SQUARES.get((square.tile, square.each))
        if known:
            assert controls.text(name) == ladder.text(known)
            assert square.rung.block == ladder.VARIANTS[known].block


def test_without_marks_nothing_else_of_the_machine_code_changes() -> None:
    marked, symbol = controls.code("tuned")
    bare, _ = controls.code("tuned", marks=False)
    assert len(marked) == len(bare) and marked != bare
    changed = [i for i, (one, other) in enumerate(zip(marked, bare, strict=True)) if one != other]
    assert len(changed) > 400 and all((marked[i] ^ bare[i]) & ~0x3C == 0 for i in changed)
    assert controls.unmarked(bare, symbol) == bare
    with pytest.raises(LookupError, match="no other"):
        controls.unmarked(marked, "other")
    if shutil.which("nvdisasm") is None:
        pytest.skip("no nvdisasm here")

    def listed(code: bytes) -> str:
        parts = disassembly.listing(code).split("\n.text.")
        return next(part for part in parts if part.startswith(symbol))

    before, after = listed(marked), listed(bare)
    assert ".reuse" in before and before.replace(".reuse", "") == after
