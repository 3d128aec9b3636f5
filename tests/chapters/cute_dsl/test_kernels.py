"""The kernels of *The same in CuTe DSL*: right by their kept PTX, every slip found or silent.

No GPU that they are for was at hand. With CuTe DSL installed, what is kept is compiled again.
"""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest

from phasebit import process
from phasebit.chapters.cute_dsl import (
    constructs,
    counts,
    cute_ptx,
    drawn,
    lines,
    objects,
    pipeline_slips,
    ptx_runs,
)
from phasebit.chapters.low_precision import nvfp4
from tests.book.notebooks import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import compiled_cute

GEMM, RINGS = cute_ptx.source(cute_ptx.GEMM), cute_ptx.source(cute_ptx.RINGS)
foreign = pytest.mark.skipif(
    not cute_ptx.installed(), reason="CuTe DSL is not installed: NOT asked"
)


def kept(text: str, entry: str = "matmul") -> str:
    return cute_ptx.record()[1][cute_ptx.key(text, entry)]


@pytest.mark.parametrize(
    "name", [cute_ptx.GEMM, cute_ptx.RINGS, cute_ptx.LAYOUTS, cute_ptx.SCALED, "doubled"]
)
def test_a_file_is_short(name: str) -> None:
    text = cute_ptx.source(name).splitlines()
    assert len(text) <= 300 and max(map(len, text)) <= 100


def test_the_record_has_these_texts_and_no_other() -> None:
    """Red after a change of a kernel or a slip, until `python tools/compiled_cute.py` has run."""
    made = cute_ptx.record()[1]
    wanted = {*compiled_cute.texts(), cute_ptx.key(cute_ptx.source(cute_ptx.LAYOUTS), "show")}
    assert made.keys() == wanted
    assert not any("/" in path for text in made.values()
                   for path in re.findall(r"\.file\s+\d+\s+\"(.*?)\"", text))  # fmt: skip


def test_a_text_that_nobody_has_compiled_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cute_ptx, "installed", lambda: False)
    with pytest.raises(cute_ptx.NotCompiled, match="has nothing of this text: pip install"):
        cute_ptx.ptx(GEMM + "\n")


@pytest.mark.drawn
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize(
    ("shape", "workers"), [((300, 260, 72), 1), ((128, 516, 200), 2), ((1, 4, 8), 1)]
)
def test_the_product_is_right(shape: tuple[int, int, int], workers: int, schedule: str) -> None:
    run, exact = ptx_runs.multiply(kept(GEMM), *shape, workers=workers, schedule=schedule)
    assert exact and run.findings == []


@pytest.mark.drawn
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("entry", ["by_hand", "copied", "multiplied", "said"])
def test_the_rings_are_right(entry: str, schedule: str) -> None:
    run, exact = ptx_runs.ring(entry, kept(RINGS, entry), schedule=schedule)
    assert exact and run.findings == []


@pytest.mark.drawn
@pytest.mark.parametrize("name", pipeline_slips.SLIPS)
def test_every_slip_is_found_or_silent(name: str) -> None:
    slip = pipeline_slips.SLIPS[name]
    said = pipeline_slips.verdict(slip)
    assert re.search(slip.says, said) if slip.says else said == "", said


def test_lines_of_python_and_their_instructions() -> None:
    ptx = kept(GEMM)
    release = lines.special(lines.of_line(ptx, GEMM, "            slot.release()"))
    assert release == {"tcgen05.commit": 1}
    assert lines.special(lines.of_line(ptx, GEMM, "cute.zipped_divide(c, PIECE)")) == {}
    with pytest.raises(ValueError, match="no line of the kernel"):
        lines.of_line(ptx, GEMM, "nowhere()")


def test_each_instruction_of_the_product_has_a_line() -> None:
    """What the tables leave out has the line at which a function begins."""
    text = GEMM.splitlines()
    for line, instruction in lines.instructions(kept(GEMM)):
        if not lines.plain(lines.opcode(instruction)):
            assert text[line - 1].strip(), instruction


def test_pipelines_are_told_by_what_their_agents_can() -> None:
    """The signal follows from the name: bytes, a commit, arrivals, a group."""
    can = {"copy engine": "bytes of copies", "tensor core": "commit", "threads": "arrivals"}
    rows = {row[0]: row[1:] for row in constructs.roles().rows}
    for name, (producer, consumer, _, full, empty, _) in rows.items():
        if name != "PipelineTmaStore":
            assert (full, empty) == (can[producer], can[consumer]), name
    assert rows["PipelineTmaStore"][3:5] == ("a request", "bulk group")
    assert len(rows) == 6
    drawing = constructs.picture("pipelines")
    assert "PipelineUmmaAsync: tensor core → a sum in tensor memory" in drawing.alt
    assert drawing.narrow and drawing.alt.count("→") == 12


def test_counts_are_those_of_the_text() -> None:
    """One tile of one slice: each role's work can be told in advance."""
    with counts.counting() as counted:
        run, exact = ptx_runs.multiply(kept(GEMM), 128, 256, 64)
    assert exact and run.counters["tcgen05.mma"] == counted.opcodes["tcgen05.mma"] == 4
    assert counted.opcodes["cp.async.bulk.tensor, in"] == 2
    assert counted.opcodes["cp.async.bulk.tensor, out"] == 8
    assert counted.opcodes["tcgen05.ld"] == 8 * 4
    assert counted.at_barriers["load", "arrivals"] == 1
    assert counted.at_barriers["store", "arrivals"] == counted.at_barriers["store", "waits"] == 4
    table = counts.compare({"gemm.py": counted}, {"gemm.py": run}, "one tile")
    assert ("products", "4") in table.rows and ("KiB that copies move", "176") in table.rows
    others = counts.rest({"gemm.py": counted})
    assert others.startswith("⏱ arithmetic, moves, branches: gemm.py "), "of each compiler its own"
    assert 500 < int(others.rpartition(" ")[2].replace(",", "")) < counted.opcodes.total()


def test_of_two_launches_what_is_equal_stands_in_the_caption() -> None:
    with counts.counting() as one:
        run, _ = ptx_runs.multiply(kept(GEMM), 128, 256, 64)
    with counts.counting() as two:
        other, _ = ptx_runs.multiply(kept(GEMM), 128, 256, 128)
    table = counts.compare({"64": one, "128": two}, {"64": run, "128": other}, "one tile")
    assert ("products", "4", "8") in table.rows
    assert all(len(set(row[1:])) == 2 for row in table.rows)
    assert table.source.startswith("one tile; equal: ") and "copies out" in table.source


def test_the_drawings_of_cute_dsl_are_read_whole() -> None:
    said = json.loads(kept(cute_ptx.source(cute_ptx.LAYOUTS), "show"))
    assert drawn.grid(said["print_latex"])[1] == [8, 24, 12, 28]
    assert drawn.holders(said["print_latex_tv"])[0][:3] == [(0, 0), (0, 1), (1, 0)]
    with pytest.raises(ValueError, match="cells do not make"):
        drawn.grid(said["print_latex"].replace("at (1,1)", "at (9,9)"))
    with pytest.raises(ValueError, match="0 cells"):
        drawn.holders("")


def test_the_drawings_are_drawn_cell_by_cell() -> None:
    said = json.loads(kept(cute_ptx.source(cute_ptx.LAYOUTS), "show"))
    one = drawn.picture(said["print_latex"], "a division")
    assert one.svg.count("<rect") == 32 and one.alt.splitlines()[2] == "8 24 12 28"
    two = drawn.picture(said["print_latex_tv"], "sums")
    assert two.svg.count("<rect") == 128 and "fill:rgb(95,95,255)" in two.svg
    with pytest.raises(ValueError, match="cells do not make"):
        drawn.picture(said["print_latex"].replace("at (1,1)", "at (9,9)"), "a cell is missing")
    both = drawn.divided(said["print_latex"], 4, 8, "a division")
    assert both.svg.count("<rect") == 64 and both.alt.splitlines()[2] == "8 24 12 28"
    with pytest.raises(ValueError, match="other offsets"):
        drawn.divided(said["print_latex"], 4, 4, "another matrix")


def test_what_each_construct_became() -> None:
    inventory = {row[0]: row[1:] for row in constructs.inventory().rows}
    assert inventory["tensor_memory.allocate("][1] == "tcgen05.alloc"
    copies = constructs.inventory("cute.copy(").rows
    assert " ".join(row[0].partition("(")[2] for row in copies) == "copy_a, fetch, write, copy_c,"
    assert inventory["cute.gemm(mma,"][1] == "4 × elect.sync, 4 × tcgen05.mma"


def test_the_objects_of_a_run_are_those_that_the_text_makes() -> None:
    def go() -> None:
        ptx_runs.multiply(kept(GEMM), 300, 260, 200)

    rings = objects.seen(go)
    slices, sums = rings[""], rings["sum "]
    barrier = slices.barriers["full", 0]
    assert (barrier.at, barrier.arrivals, barrier.bytes) == (0, 1, 49_152)
    assert [slices.barriers["empty", i].at for i in range(4)] == [32, 40, 48, 56]
    assert [len(parts) for parts in slices.slots.values()] == [2, 2, 2, 2]
    assert sums.barriers["empty", 1].arrivals == 4
    assert sums.slots == {0: ["columns 0–255"], 1: ["columns 256–511"]}
    drawing = objects.picture(rings, "objects")
    assert "PipelineTmaUmma slices → full at 0: 1 arrival, 49,152 bytes" in drawing.alt


@pytest.mark.foreign
@foreign
@pytest.mark.parametrize("entry", cute_ptx.ENTRIES)
def test_what_is_kept_is_what_the_compiler_makes(entry: str) -> None:
    from importlib.metadata import version

    about, made = cute_ptx.record()
    package = f"nvidia-cutlass-dsl {version('nvidia-cutlass-dsl')}"
    if about["package"] != package:
        pytest.skip(f"the record is by {about['package']}, and here is {package}")
    text = cute_ptx.source(cute_ptx.file_of(entry))
    assert cute_ptx.now(text, entry) == made[cute_ptx.key(text, entry)]


HOST = """
import numpy as np, phasebit.cute
from phasebit.chapters.cute_dsl import cute_ptx
from phasebit.emulator import formats

matmul = cute_ptx._imported(cute_ptx.source("gemm"), "host", "gemm").matmul
import cutlass, cutlass.cute as cute
from cutlass.cute.runtime import from_dlpack

draw = np.random.default_rng(1)
a, b = draw.integers(-4, 5, (130, 72)), draw.integers(-4, 5, (260, 72))
c = np.full((130, 260), np.nan, np.float32)
bits = [np.asarray(formats.encode("bf16", x.astype(np.float64))) for x in (a, b)]
with phasebit.cute.emulated("sm_100a", schedules="all") as runs:
    given = [from_dlpack(x, assumed_align=16) for x in (*bits, c)]
    given[0].element_type = given[1].element_type = cutlass.BFloat16
    cute.compile(matmul, *given, cutlass.Int32(2))(*given, cutlass.Int32(2))
print(len(runs.launches), len(runs.findings), np.array_equal(c, a @ b.T))
"""
"""In a process of its own: what was compiled outside of the door keeps its library."""


@pytest.mark.foreign
@foreign
def test_the_product_runs_with_its_own_host_code() -> None:
    """The door for CuTe DSL: tensor maps and launch as the package makes them."""
    done = process.run([sys.executable, "-c", HOST], timeout=120)
    assert done.ok and done.stdout.split() == ["1", "0", "True"], done.stdout + done.stderr


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_the_product_with_block_scales_has_the_bits_of_nvfp4(schedule: str) -> None:
    a, b = (nvfp4.plain(256, 1280, seed) for seed in (1, 2))
    operands = [(nvfp4.packed(each.codes), nvfp4.atoms(each.scales)) for each in (a, b)]
    text = kept(cute_ptx.source(cute_ptx.SCALED), "scaled")
    with counts.counting() as theirs:
        run, c = ptx_runs.scaled(text, operands, schedule=schedule)
    with counts.counting() as ours:
        product = nvfp4.multiply(a, b, schedule=schedule)
    assert np.array_equal(c, product.c) and run.findings == []
    for opcode in "tcgen05.cp", "tcgen05.mma", "tcgen05.ld", "mbarrier.init":
        assert ours.opcodes[opcode] <= theirs.opcodes[opcode] > 0, opcode
    moved = [each.counters["cp_async_bulk.bytes"] for each in (run, product.run)]
    assert moved[0] == moved[1]
