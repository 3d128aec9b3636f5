"""The kernels of *One thread multiplies*: right on the emulator, each mistake found."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from phasebit import files, process, toolchain
from phasebit.chapters.one_thread_multiplies import described
from phasebit.edits import replace_once
from phasebit.emulator import EmulatorError, formats, instruction_descriptors
from tests.book.notebooks import ROOT, code, source

CHAPTER = next(ROOT.glob("book/*/??_one_thread_multiplies.ipynb"))
KERNELS = ["described", "queue"]
PLAIN = instruction_descriptors.encode("f16", 128, 64, "bf16", "bf16", "f32")


def kernel(name: str) -> str:
    return files.kernel(f"one_thread_multiplies/{name}")


def test_the_page_shows_the_lines_that_issue_the_product() -> None:
    (cell,) = [cell for cell in code(CHAPTER) if 'excerpt("described"' in source(cell)]
    shown = described.excerpt("described", "a += ptx::shared_address", "tcgen05_commit(&done)")
    assert shown in kernel("described") and "tcgen05.mma.cta_group::1" in shown
    assert shown in "".join(cell["outputs"][0]["text"])


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_file_holds_one_idea(name: str) -> None:
    lines = kernel(name).splitlines()
    assert lines[0].startswith("// ")
    assert len(lines) <= 100 and max(map(len, lines)) <= 100


@pytest.mark.nvcc
@pytest.mark.parametrize("name", KERNELS)
def test_ptxas_takes_it_without_a_warning(name: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(kernel(name))
    strict = ["-Xptxas", "-warn-spills,-Werror", "-Werror", "all-warnings"]
    command = toolchain.nvcc_command("cubin", "sm_100a", options=strict)
    done = process.run([*command, path, "-o", tmp_path / "kernel.cubin"], timeout=120)
    assert done.ok and not done.stderr, done.stderr


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("bits", range(0, 16, 3))
def test_majors_and_signs_do_what_the_bits_say(bits: int, schedule: str) -> None:
    draw = np.random.default_rng(bits)
    a, b = (draw.integers(-4, 5, (rows, 16)).astype(float) for rows in (128, 64))
    tiles = [described.tile(x, mn_major=bool(bits >> i & 1)) for i, x in ((2, a), (3, b))]
    out, run = described.product(*tiles, PLAIN | bits << 13, schedule=schedule)
    sign = (-1) ** (bits.bit_count() - (bits >> 2).bit_count())
    assert np.array_equal(out.view(np.float32), sign * (a @ b.T)) and not run.findings


@pytest.mark.nvcc
def test_a_sum_in_f16_stops_where_one_more_is_lost() -> None:
    ones = np.zeros((128, 16))
    ones[:, 0] = 1
    tiles = described.tile(ones, "f16"), described.tile(ones[:64], "f16")
    for kind, right in (("f16", 2048), ("f32", 2100)):
        bits = instruction_descriptors.encode("f16", 128, 64, "f16", "f16", kind)
        out, _ = described.product(*tiles, bits, times=2100)
        assert formats.decode(kind, out.ravel()[:1]) == right


def test_words_say_what_is_wrong() -> None:
    assert described.words(PLAIN).startswith("D f32 (128 × 64) = A bf16, K-major")
    assert "N = 320; with M = 128 it is a multiple of 8 up to 256" in described.words(
        PLAIN & ~(63 << 17) | 320 // 8 << 17
    )


@pytest.mark.nvcc
def test_rows_lie_in_lanes() -> None:
    drawn = described.rows_in_lanes().alt.splitlines()[1:]
    lines = [line.split("|")[1].split("rows") for line in drawn]
    assert [line[1].split()[0] for line in lines] == [f"{n}–{n + 15}" for n in range(0, 128, 16)]
    assert [line[-1].split()[-1] for line in lines[1::2]] == ["nothing"] * 4
    assert [line[2].strip() for line in lines[::2]] == [f"{n}–{n + 15}" for n in range(0, 64, 16)]


def test_a_stretch_of_numbers() -> None:
    assert described.stretch([3]) == "3"
    assert described.stretch([16, 17, 18]) == "16–18"
    assert described.stretch([0, 1, 3, 2]) == "0–1, 3, 2"


@pytest.mark.nvcc
def test_rows_of_a_pair() -> None:
    """Layouts A and B of the PTX ISA, 9.7.16.10.5."""
    drawn = described.rows_of_a_pair().alt.splitlines()[1:]
    lines = [" ".join(line.split("|")[1].split()) for line in drawn]
    assert lines[4] == "rows 128–159, columns 0–31 rows 64–95, columns 0–31"
    assert lines[7] == "rows 224–255, columns 0–31 rows 96–127, columns 32–63"


def test_shapes_are_those_of_the_decoder() -> None:
    """Kinds that take the same stand in one row."""
    one, two = ("1", "64, 128", "8 to 256 by 8"), ("2", "128, 256", "16 to 256 by 16")
    assert described.shapes().rows == (
        ("f16, tf32, f8f6f4", "16, 8, 32", *one),
        ("", "", *two),
        ("i8", "32", "1", "64, 128", "8, 16, 24, 32 to 256 by 16"),
        ("", "", "2", "128, 256", "32 to 256 by 32"),
        ("mxf8f6f4, mxf4, mxf4nvf4", "32, 64, 64", "1", "128", one[2]),
        ("", "", *two),
    )


@pytest.mark.nvcc
def test_two_sums_of_64_rows_share_their_columns() -> None:
    """Only with the second at lane 16: where both begin at lane 0 the second takes its place."""
    apart = kernel("described").replace(
        '"r"(instruction), "r"(i)', '"r"(instruction | i << 13), "r"(0)'
    )
    run, picture = described.rows_of_two(apart.replace('"r"(sum)', '"r"(sum + (i << 20))'))
    assert not run.findings
    lines = [line.split("rows ")[1] for line in picture.alt.splitlines()[1:]]
    assert lines == [f"{n}–{n + 15}" for n in range(0, 64, 16) for _ in range(2)]
    assert described.rows_of_two(apart)[1].alt != picture.alt


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_the_queue_is_right(schedule: str) -> None:
    for seed in (1, 2):
        run, right = described.queued(kernel("queue"), schedule=schedule, seed=seed)
        assert right and not run.findings and run.counters["tcgen05.mma"] == 2


WAITED = (
    "        ptx::tcgen05_commit(&first);\n"
    "        ptx::mbarrier_wait(&first, 0);  // copy before shift: no pair that is ordered\n"
    "        ptx::tcgen05_fence_after_thread_sync();\n"
)
OTHER = """    }
    if (t == 32) {
        const unsigned long long right = ptx::tcgen05_descriptor_none(b, N * 16, 128);
        constexpr unsigned INSTRUCTION = ptx::tcgen05_bf16_f32(M, N);
        ptx::tcgen05_mma_f16_from_tensor_memory(base + SUM, """
MISTAKES = {
    "a shift behind a copy without a wait": (
        WAITED, "", "puts the two in order", "tcgen05_shift_down"),
    "another thread multiplies": (
        "        ptx::tcgen05_mma_f16_from_tensor_memory(base + SUM, ", OTHER,
        "a tensor operation of thread 0", "base \\+ SUM"),
    "a whole warp issues": (
        "    if (t == 0) {\n        const", "    if (t < 32) {\n        const",
        "each of them once more", "tcgen05_cp|from_tensor_memory|tcgen05_commit"),
    "nobody waits for the last commit": (
        "    ptx::mbarrier_wait(&done, 0);\n", "", "has not waited|waited", "tcgen05_ld_32x32b"),
    "nobody commits": (
        "        ptx::tcgen05_commit(&done);\n", "", "deadlock", "mbarrier_wait\\(&done"),
    "the commit comes before the product": (
        "        ptx::tcgen05_commit(&done);\n    }\n    ptx",
        "    }\n    ptx", "deadlock", "mbarrier_wait\\(&done"),
    "no proxy fence": (
        "    ptx::fence_proxy_async_shared();  // copy and product see the tiles\n", "",
        "async proxy", "tcgen05_cp_128x256b"),
    "one quarter of four is moved": ("quarter < 4", "quarter < 1", "WRONG", ""),
    "a shift that begins in a quarter's middle": (
        "(quarter * 32 << 16)", "(quarter * 32 + 8 << 16)", "a multiple of 32", "shift_down"),
    "the leading offset of one core matrix": ("(a, M * 16, 128)", "(a, 16, 128)", "WRONG", ""),
    "the sums overlap": ("MOVED = N,", "MOVED = N / 2,", "WRONG|writes", ""),
    "both products read A where the sum is": (
        "A_AT = 2 * N;", "A_AT = N / 2;", "over its own A", "from_tensor_memory"),
}  # fmt: skip
"""What is replaced by what in ``queue``, what must be said, what stands in the line named."""


@pytest.mark.nvcc
@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_is_found(name: str) -> None:
    old, new, words, place = MISTAKES[name]
    text = replace_once(kernel("queue"), old, new)
    try:
        run, right = described.queued(text)
        said = "\n".join([*map(str, run.findings), "" if right else "WRONG"])
    except EmulatorError as error:
        said = "\n".join([str(error), *map(str, error.findings)])
    assert re.search(words, said), said
    there = {i for i, line in enumerate(text.splitlines(), 1) if place and re.search(place, line)}
    named = {int(number) for number in re.findall(r"(?:\.cu:|\bline )(\d+)", said)}
    assert not place or there & named, f"lines {sorted(there)} are not named:\n{said}"


def test_pieces_are_where_the_descriptor_leads() -> None:
    along_k, along_n = (
        [
            line.split("|")[1].split()
            for line in described.pieces(mn_major=major).alt.splitlines()[1:]
        ]
        for major in (False, True)
    )
    assert along_k[0] == [f"0,{8 * piece}" for piece in range(8)]
    assert along_k[1] == [f"1,{8 * (piece ^ 1)}" for piece in range(8)]
    assert along_k[4][0] == "8,0" and along_k[6][7] == "127,0"
    assert along_n[0] == [f"{8 * piece},0" for piece in range(8)]
    assert along_n[1][1] == "0,1" and along_n[6][0] == "64,0"


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("high", [256, 128])
def test_9_7_16_5_1_rows_of_a_pair(high: int, schedule: str) -> None:
    """256 rows: 128 in each block's lanes. 128 rows: 64, and the right half of the columns lies in
    the upper 64 lanes."""
    import numpy as np

    run, held = described.pair_rows(high, schedule=schedule)
    assert not run.findings
    block, lane, column = np.indices((2, 128, 32))
    in_block = high // 2
    assert np.array_equal(held[..., 0], block * in_block + lane % in_block)
    assert np.array_equal(held[..., 1], lane // in_block * 32 + column)
