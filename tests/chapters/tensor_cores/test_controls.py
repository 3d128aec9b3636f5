"""What finds the small tiles' limit: each kernel leaves out what it says, and is right in the rest.

On the emulator each contender multiplies small matrices; what it should give follows from what its
loop leaves out.
"""

from __future__ import annotations

import pytest

from phasebit import files
from phasebit.chapters.tensor_cores import tensor_cores_controls as controls
from phasebit.edits import replace_once
from phasebit.launching.build import ptx
from tests.chapters.tensor_cores.operands import OPERANDS
from tests.kernels import targets
from tests.kernels.emulated import emulate

_SIZE, _SLOTS = 320, 4


def program(parts: controls.Parts, taken: list[int] | None) -> str:
    """A program that compares the small ring's product with one in double."""
    order = ", ".join(map(str, taken or [0]))
    return controls.source(parts) + f"""
#include <vector>
int main() {{
    const int n = {_SIZE};
    const std::vector<int> taken = {{{order}}};
{OPERANDS}
    CHECK(cudaMemset(c, 0xff, n * n * 4));
    small(a, b, c, n, 0);
    std::vector<float> C(n * n);
    CHECK(cudaMemcpy(C.data(), c, n * n * 4, cudaMemcpyDeviceToHost));
    for (int row = 0; row < n; ++row)
        for (int col = 0; col < n; ++col) {{
            float sum = 0;
            for (int k : taken)
                if ({"true" if taken else "false"})
                    sum += float(A[row * n + k]) * float(B[k * n + col]);
            if (C[row * n + col] != sum) return printf("wrong at %d, %d\\n", row, col), 2;
        }}
    printf("OK\\n");
}}
"""


@pytest.mark.nvcc
@pytest.mark.parametrize("name", controls.VARIANTS)
def test_each_contender_multiplies_what_it_should(name: str) -> None:
    parts = controls.VARIANTS[name]
    done = emulate(program(parts, controls.multiplied(parts, _SLOTS, _SIZE)), timeout=300)
    assert done.ok and done.stdout == "OK\n" and not done.stderr, done.stdout + done.stderr


@pytest.mark.nvcc
def test_a_contender_that_does_more_than_it_says_is_seen() -> None:
    parts = controls.VARIANTS["no copies"]
    done = emulate(program(parts, controls.multiplied(controls.Parts(), _SLOTS, _SIZE)))
    assert done.status == 2 and done.stdout.startswith("wrong at")


@pytest.mark.nvcc
def test_a_branch_too_early_is_seen() -> None:
    parts = controls.VARIANTS["a branch around the copies"]
    text = replace_once(
        program(parts, controls.multiplied(parts, _SLOTS, _SIZE)),
        "tile + SLOTS - 1 < tiles", "tile + SLOTS < tiles",
    )  # fmt: skip
    done = emulate(text)
    assert not done.ok or "race" in done.stderr, done.stdout + done.stderr


@pytest.mark.nvcc
def test_loads_and_products_are_there_where_they_should_be() -> None:
    def count(name: str) -> tuple[int, int]:
        text = ptx(controls.source(controls.VARIANTS[name]), "sm_80")
        return text.count("ldmatrix."), text.count("mma.sync.")

    loads, products = count("whole")
    assert count("no copies") == (loads, products)
    assert count("no products") == count("loads alone") == (loads, 0)
    fewer, multiplied = count("no loads")
    assert fewer < loads and multiplied == products
    assert count("copies alone") == (fewer, 0)
    alone = count("products alone")  # a loop that the compiler unrolls further
    assert alone[0] == fewer and alone[1] >= products


@pytest.mark.nvcc
@pytest.mark.parametrize("name", ["a branch that stays one", "no products"])
def test_contenders_spill_a_word_at_most(name: str) -> None:
    built = targets.assemble(controls.source(controls.VARIANTS[name]), "sm_90")
    assert built.warnings == "" and all(use.spill_stores <= 4 for use in built.resources)


SLIPS = {
    "a piece is read twice": ("at + 1 == pieces ? 0 : at + 1", "at + 1 == pieces ? at : at + 1"),
    "it does not wait": ("cp_async_wait_group<SLOTS - 2>", "cp_async_wait_group<SLOTS - 1>"),
    "a slot is not emptied": ("        empty = full;\n", ""),
    "a load too few": ("for (int i = 0; i < EACH; ++i) own += added(held[i]);",
                       "for (int i = 1; i < EACH; ++i) own += added(held[i]);"),
}  # fmt: skip


@pytest.mark.nvcc
def test_the_reads_are_right_on_the_emulator() -> None:
    done = emulate(files.kernel(controls.READS))
    assert done.ok and not done.stderr, done.stdout + done.stderr
    assert done.stdout.count(": OK") == 4
    built = targets.assemble(files.kernel(controls.READS), "sm_80")
    assert built.warnings == "" and not any(use.spills for use in built.resources)


@pytest.mark.nvcc
@pytest.mark.parametrize("slip", SLIPS)
def test_reads_that_are_wrong_are_seen(slip: str) -> None:
    text = files.kernel(controls.READS)
    done = emulate(replace_once(text, *SLIPS[slip]), right=text)
    assert not done.ok or "race" in done.stderr, done.stdout + done.stderr
