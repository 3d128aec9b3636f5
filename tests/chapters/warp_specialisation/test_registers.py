"""What ptxas allocates, and what machine code names."""

from __future__ import annotations

import re

import pytest

from phasebit import toolchain
from phasebit.chapters.warp_specialisation import clinic, registers, view
from phasebit.chapters.warp_specialisation import record as benchmark

SASS = """\
        //## File "kernel.cu", line 3
        /*0010*/                   MOV R1, c[0x0][0x28] ;
        //## File "ring.cuh", line 9 inlined at "kernel.cu", line 12
        //## File "kernel.cu", line 12
        /*0020*/              @!P0 LDS.128 R44, [R7] ;
        /*0030*/                   STL [R1+0x4], R45 ;
        //## File "kernel.cu", line 22
        /*0040*/                   FFMA R165, R3, R4, R165 ;
        /*0050*/                   BRA `(.L_x_1) ;
"""


def test_parts() -> None:
    found = registers.parts(SASS, {"produce": range(10, 20), "consume": range(20, 30)})
    assert found["produce"] == registers.Part(instructions=2, highest=45, local=1)
    assert found["consume"] == registers.Part(instructions=2, highest=165, local=0)
    assert registers.parts(SASS, {"none": range(90, 99)})["none"] == registers.Part(0, -1, 0)


def test_lines_of() -> None:
    text = "__device__ int f(int x) {\n    return x;\n}\n__device__ inline void g() {\n}\n"
    assert registers.lines_of(text, ("f", "g")) == {"f": range(1, 4), "g": range(4, 6)}


def test_a_warp_more_in_one_file_costs_all() -> None:
    said = view.spread_over_files(0, 1, 4, 5).alt.splitlines()[1:]
    assert [line.split()[-1] for line in said] == ["255", "168", "168", "128"]
    held = [line.split("|")[1].split() for line in said]
    assert [one.count("L") for one in held] == [0, 1, 4, 5]
    assert all(one.count("M") == 8 for one in held)


@pytest.mark.parametrize("asked", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_a_pool_neither_makes_registers_nor_loses_them(asked: tuple[int, ...]) -> None:
    """The picture: a group that asks before another has given waits, and all end alike."""
    rows = [list(map(int, re.findall(r"\d+", line.rpartition("|")[2])))
            for line in view.pool(168, (24, 240, 240), asked).alt.splitlines()[1:]]  # fmt: skip
    assert {sum(row) for row in rows} == {3 * 168}
    assert rows[-1] == [24, 240, 240, 0]
    assert (rows[1] == rows[0]) == (asked[0] != 0)

@pytest.mark.nvcc
class TestPtxas:
    def test_one_number_for_all_roles(self) -> None:
        for name in benchmark.VARIANTS:
            _, found = registers.cubin(benchmark.variant(name))
            assert found.registers == 168, "65,536 for 384 threads, rounded down to eights"
            assert bool(found.spill_stores) == (name != "setmaxnreg")

    def test_setmaxnreg_is_ignored_without_a_promise(self) -> None:
        _, found = registers.cubin(benchmark.ignored())
        assert found.spill_stores and any("ignored" in note for note in found.notes)

    def test_one_warp_that_loads_costs_as_much_as_four(self) -> None:
        """Warps lie in four register files of 16,384: of nine to twelve, three lie in one."""
        alone, one, four, five = (registers.cubin(view.loaders(warps))[1] for warps in (0, 1, 4, 5))
        assert alone.registers > 192 and not alone.spill_stores
        assert one == four and one.registers == 16384 // (3 * 32) // 8 * 8
        assert five.registers == 16384 // (4 * 32) and five.spill_stores > one.spill_stores

    @pytest.mark.parametrize("warps", [1, 3, 4])
    def test_a_kernel_with_fewer_loaders_is_right(self, warps: int) -> None:
        text = view.loaders(warps).replace("K = 1024", "K = 16")
        assert clinic.examine(text).healthy

    def test_fewer_sums_fit_and_are_right(self) -> None:
        spilled = [registers.cubin(view.fewer_sums(rows))[1].spill_stores for rows in (16, 12, 10)]
        assert spilled[0] > spilled[1] > spilled[2] == 0
        assert clinic.examine(view.fewer_sums(10).replace("K = 1024", "K = 16")).healthy

    def test_a_mistake_names_its_line(self) -> None:
        with pytest.raises(toolchain.CompileError, match=r"line 2 of kernel\.cu"):
            registers.cubin("__global__ void f() {\n    nonsense;\n}\n")
