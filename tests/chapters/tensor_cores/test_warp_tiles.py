"""The warp's two tiles, with each other's loads: what each loop multiplies, and how it loads."""

from __future__ import annotations

import pytest

from phasebit.chapters.tensor_cores import warp_tiles
from phasebit.edits import replace_once
from phasebit.launching.build import ptx
from tests.chapters.tensor_cores.operands import OPERANDS
from tests.kernels import targets
from tests.kernels.emulated import emulate

_SIZE = 256


def program(loop: str, as_if: str) -> str:
    """A program that compares both tilings' products with those that ``as_if`` should give."""
    of_a, of_b = (", ".join(map(str, each)) for each in warp_tiles.multiplied(as_if, _SIZE))
    return warp_tiles.source(loop) + f"""
#include <vector>
int main() {{
    const int n = {_SIZE}, of_a[] = {{{of_a}}}, of_b[] = {{{of_b}}};
{OPERANDS}
    for (int large = 0; large < 2; ++large) {{
        CHECK(cudaMemset(c, 0xff, n * n * 4));
        (large ? ::large : small)(a, b, c, n, {warp_tiles.SLOTS} * 2 * 128 * 64 * 2, 0);
        std::vector<float> C(n * n);
        CHECK(cudaMemcpy(C.data(), c, n * n * 4, cudaMemcpyDeviceToHost));
        for (int row = 0; row < n; row += 7)
            for (int col = 0; col < n; ++col) {{
                float sum = 0;
                for (int k = 0; k < n; ++k)
                    sum += float(A[row * n + of_a[k]]) * float(B[of_b[k] * n + col]);
                if (C[row * n + col] != sum) return printf("wrong at %d, %d\\n", row, col), 2;
            }}
    }}
    printf("OK\\n");
}}
"""


@pytest.mark.nvcc
@pytest.mark.parametrize("loop", ["each load twice", "no loads of B"])
def test_each_loop_multiplies_what_it_should(loop: str) -> None:
    done = emulate(program(loop, loop), timeout=300)
    assert done.ok and done.stdout == "OK\n" and not done.stderr, done.stdout + done.stderr


@pytest.mark.nvcc
def test_a_loop_that_loads_more_than_it_says_is_seen() -> None:
    done = emulate(program("whole", "no loads of B"))
    assert done.status == 2 and done.stdout.startswith("wrong at")


@pytest.mark.nvcc
def test_loads_are_there_as_often_as_said() -> None:
    def count(loop: str) -> int:
        return ptx(warp_tiles.source(loop), "sm_80").count("ldmatrix.")

    # A small and a large tile: 2 and 4 loads of A in a step, as many of B; the first are outside.
    whole, steps = count("whole"), 4 * (4 + 8)
    assert whole == 12 + steps
    assert count("each load twice") == whole + steps
    assert count("no loads of B") == 2 * 12 + steps // 2
    assert count("no loads") == 2 * 12


@pytest.mark.nvcc
@pytest.mark.parametrize("loop", ["whole", "each load twice", "no loads of B"])
def test_loops_spill_two_words_at_most(loop: str) -> None:
    built = targets.assemble(warp_tiles.source(loop), "sm_90")
    assert built.warnings == "" and all(use.spill_stores <= 8 for use in built.resources)


def test_an_edit_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    given = warp_tiles.controls.ring
    monkeypatch.setattr(
        warp_tiles.controls, "ring",
        lambda parts: replace_once(given(parts), "if (LOADS) load(full, 0);", "load(full, 0);"),
    )  # fmt: skip
    with pytest.raises(ValueError, match="once to be changed there"):
        warp_tiles.source("whole")
