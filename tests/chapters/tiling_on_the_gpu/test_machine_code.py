"""What ptxas makes of the main loops: read from a disassembly, and as the chapter says."""

from __future__ import annotations

import shutil

import pytest

from phasebit import measure, toolchain
from phasebit.chapters.tiling_on_the_gpu import ladder, machine_code

SASS = """
.L_x_0:
        /*0010*/                   LDS R4, [R2] ;                 /* 0x00 */
        /*0020*/              @!P0 FFMA R1, R4.reuse, R5, R1 ;    /* 0x00 */
        /*0030*/                   FFMA R6, R4, R5, R6 ;          /* 0x00 */
.L_x_1:
        /*0040*/                   LDS.128 R8, [R2] ;             /* 0x00 */
        /*0050*/              @P1  BRA `(.L_x_1) ;                /* 0x00 */
        /*0060*/                   BAR.SYNC 0x0 ;                 /* 0x00 */
        /*0070*/              @P0  BRA `(.L_x_0) ;                /* 0x00 */
        /*0080*/                   EXIT ;                         /* 0x00 */
"""


def test_the_main_loop_has_most_multiply_adds() -> None:
    loop = machine_code.main_loop(SASS)
    assert len(loop) == 7 and "EXIT" not in loop
    found = machine_code.counts(loop)
    assert found["multiply-adds"] == 2 and found["with a reused operand"] == 1
    assert found["shared loads"] == 2 and found["barriers"] == 1


def test_code_without_a_loop_is_refused() -> None:
    with pytest.raises(ValueError, match="no loop"):
        machine_code.main_loop(SASS.replace("BRA", "NOP"))


def test_the_record_has_what_the_chapter_says() -> None:
    loops = machine_code.read()["loops"]
    assert set(loops) == set(machine_code.LOOPS)
    square, two, f = loops["square"], loops["two_resident"], loops["vectorised"]
    assert square["registers"] > 128 >= two["registers"] > f["registers"]
    assert square["registers"] - two["registers"] == 20
    assert abs(two["instructions"] / square["instructions"] - 1) < 0.01
    assert 0.3 < 1 - f["instructions"] / square["instructions"] < 0.36
    assert len({each["shared loads"] for each in (square, two, f)}) == 1
    h, i, through = (loops[name] for name in ("warp_tile", "double_buffered", "through_registers"))
    assert through["instructions"] < 1.05 * h["instructions"] < 0.85 * i["instructions"]
    assert (h["barriers"], i["barriers"], through["barriers"]) == (2, 1, 1)
    tuned, plain = loops["tuned"], loops["row_by_row"]
    differ = {kind for kind in tuned if tuned[kind] != plain[kind]}
    assert differ == {"registers", "with a reused operand"}
    assert tuned["with a reused operand"] > 1.2 * plain["with a reused operand"]


def test_what_is_executed_is_less_than_what_stands_in_the_code() -> None:
    """What the chapter says beside its table: a seventh of e's code, and f a quarter fewer."""
    loops, record = machine_code.read()["loops"], measure.read("tiling_on_the_gpu")

    def on_gpu(name: str) -> float:
        """Machine instructions of a thread for 512 multiply-adds."""
        return float(512 * 32 * record["counters"][name][ladder.EXECUTED] / 4096**3)

    square = loops["square"]["instructions"] * 512 / loops["square"]["multiply-adds"]
    assert 1 / 7.5 < 1 - on_gpu("square") / square < 1 / 6.5
    assert 0.24 < 1 - on_gpu("vectorised") / on_gpu("two_resident") < 0.27
    assert abs(on_gpu("tuned") - on_gpu("row_by_row")) < 0.1


@pytest.mark.nvcc
def test_ptx_of_wider_loads_executes_fewer_instructions() -> None:
    square, wider = (ladder.executed(name) for name in ("square", "vectorised"))
    assert 1 < wider < 0.7 * square, "each has one multiply-add, and some"


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvdisasm") is None, reason="no nvdisasm on PATH")
def test_the_compiler_here_says_the_same() -> None:
    if machine_code._version("nvcc") != machine_code.read()["nvcc"]:
        pytest.skip(f"another nvcc: {toolchain.tool('nvcc')}")
    assert machine_code.loops() == machine_code.read()["loops"]
