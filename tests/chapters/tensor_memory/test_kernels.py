"""The kernels of *Tensor memory*: right on the emulator, each mistake found with its line.

No GPU that they are for was at hand, so nothing here asks one.
"""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

import pytest

from phasebit import files, process, toolchain
from phasebit.chapters.tensor_memory import blackwell
from phasebit.edits import replace_once
from phasebit.emulator import EmulatorError
from phasebit.runtime import library

ONE, RING, PAIR = (f"tensor_memory/{name}" for name in blackwell.KERNELS)
KERNELS = [ONE, RING, PAIR]
OK = "matmul: OK, exact on whole numbers, for whole tiles and ragged edges\n"

MISTAKES = {
    "a Hopper descriptor": (
        ONE, "ptx::tcgen05_descriptor_128B(a) + 2 * step", "ptx::descriptor_128B(a) + 2 * step",
        "version 0: this is a Hopper descriptor", "ptx::descriptor_128B(a)"),
    "no swizzle in the copy": (ONE, "(p ^ r % 8)", "p", "WRONG", ""),
    "no proxy fence": (
        ONE, "        ptx::fence_proxy_async_shared();", "        ",
        "no fence.proxy.async", "ptx::tcgen05_mma_f16(sum"),
    "the parity never changes": (
        ONE, ", parity ^= 1", "", "may still read it", "tile[r * PIECES"),
    "nobody commits": (
        ONE, "            ptx::tcgen05_commit(&done);\n", "", "deadlock", "mbarrier_wait(&done"),
    "the commit comes first": (
        ONE, "            for (int step = 0; step < TILE_K / STEP; ++step)",
        "            ptx::tcgen05_commit(&done);\n"
        "            for (int step = 0; step < TILE_K / STEP; ++step)",
        "has not waited for an mbarrier", "ptx::tcgen05_ld_32x32b_x32"),
    "nothing begins with zero": (
        ONE, "slice + step > 0", "true", "nobody has written", "ptx::tcgen05_mma_f16(sum"),
    "the address is used too early": (
        ONE, "    __syncthreads();  // the others see the address and the barrier\n", "",
        "race|uninitialised|not allocated|not initialised", "sum = address"),
    "every warp reads the first quarter": (
        ONE, "sum + (warp * 32 << 16) + first", "sum + first",
        r"reaches only lanes 32 \(w % 4\)", "ptx::tcgen05_ld_32x32b_x32"),
    "deallocated while others read": (
        ONE, "    __syncthreads();  // everybody has read\n", "",
        "deallocates|nothing orders", "ptx::tcgen05_dealloc"),
    "never deallocated": (
        ONE, "        ptx::tcgen05_dealloc<TILE_N>(sum);\n", "",
        "128 columns of tensor memory allocated", "ptx::tcgen05_alloc"),
    "the instruction's shape is another": (
        ONE, "ptx::tcgen05_bf16_f32(TILE_M, TILE_N)", "ptx::tcgen05_bf16_f32(TILE_M, TILE_N / 2)",
        "nobody has written", "ptx::tcgen05_ld_32x32b_x32"),
    "A is taken for f16": (
        ONE, "ptx::tcgen05_bf16_f32(TILE_M, TILE_N)",
        "(ptx::tcgen05_bf16_f32(TILE_M, TILE_N) & ~(7 << 7))", "WRONG", ""),
    "a descriptor without the swizzle": (
        RING, "a + 2 * step, b + 2 * step, INSTRUCTION",
        "a + 2 * step, (b & ~(7ull << 61)) + 2 * step, INSTRUCTION",
        "it says swizzle none, but the tensor map .* says 128B", "ptx::tcgen05_mma_f16(sum"),
    "too few bytes are announced": (
        RING, "sizeof s.a[0] + sizeof s.b[0])", "sizeof s.a[0])",
        "a bulk copy writes it", "ptx::tcgen05_mma_f16(sum"),
    "the bytes of a ragged box are counted": (
        RING, "sizeof s.a[0] + sizeof s.b[0])",
        "sizeof s.a[0] + sizeof s.b[0] - (row + TILE_M > m ? TILE_K * 2 : 0))",
        "deadlock", "mbarrier_wait(&s.full"),
    "the loader waits for the wrong phase": (
        RING, "&s.empty[at.slot], at.phase ^ 1", "&s.empty[at.slot], at.phase",
        "deadlock", "mbarrier_wait(&s.empty"),
    "the sum is given back after the first piece": (
        RING, "first + PIECE == TILE_N", "first == 0",
        "nothing orders the two", "ptx::tcgen05_ld_32x32b_x32"),
    "one sum too far": (
        RING, "to.slot * TILE_N;\n        ptx::mbarrier_wait(&s.sum_empty",
        "(to.slot + 1) * TILE_N;\n        ptx::mbarrier_wait(&s.sum_empty",
        "nobody has written all of it", "ptx::tcgen05_ld_32x32b_x32"),
    "the piece is overwritten while it is read": (
        RING, "ptx::cp_async_bulk_wait_group_read<1>()", "ptx::cp_async_bulk_wait_group_read<2>()",
        "may still be reading|may still read|bulk copy reads", "reinterpret_cast<uint4*>(piece"),
    "the piece is not swizzled": (RING, "(p ^ lane % 8)", "p", "WRONG", ""),
    "the other block's bytes are not announced": (
        PAIR, "PAIR * (sizeof s.a[0] + sizeof s.b[0])", "sizeof s.a[0] + sizeof s.b[0]",
        "a bulk copy writes it", "ptx::tcgen05_mma_f16<PAIR>(sum"),
    "both blocks announce": (
        PAIR, "if (rank == 0)  // for both blocks\n", "\n",
        "with 0 of 1 pending", "mbarrier_arrive_expect_tx"),
    "both blocks issue": (
        PAIR, " && blockIdx.x % PAIR == 0", "", "deadlock", "mbarrier_wait(&s.full"),
    "slots are given back to the first block only": (
        PAIR, "&s.empty[from.slot], BOTH", "&s.empty[from.slot], 1",
        "deadlock", "mbarrier_wait(&s.empty"),
    "the second block is not told of the sum": (
        PAIR, "&s.sum_full[to.slot], BOTH", "&s.sum_full[to.slot], 1",
        "deadlock", "mbarrier_wait(&s.sum_full"),
    "a sum is given back to the wrong block": (
        PAIR, "ptx::mbarrier_arrive_at_after_reads(&s.sum_empty[from.slot], 0)",
        "ptx::mbarrier_arrive(&s.sum_empty[from.slot])",
        "deadlock", "mbarrier_wait(&s.sum_empty"),
    "only the first block's epilogue is waited for": (
        PAIR, "PAIR * EPILOGUE);  // warps", "EPILOGUE);  // warps",
        "nobody has seen phase 0 complete", "ptx::mbarrier_arrive_at_after_reads"),
    "the same rows of B twice": (PAIR, "col + rank * ROWS, full", "col, full", "WRONG", ""),
    "a block leaves early": (
        PAIR, "    ptx::cluster_arrive();\n    ptx::cluster_wait();  // everybody has read",
        "    __syncthreads();  // everybody has read", "may leave|has left|deallocate", "ptx::"),
    "one block alone allocates": (
        PAIR, "if (warp == 0) ptx::tcgen05_alloc",
        "if (warp == 0 && blockIdx.x % PAIR == 0) ptx::tcgen05_alloc",
        "deadlock|alloc", "ptx::tcgen05_alloc"),
}  # fmt: skip
"""The kernel, what is replaced by what, what must be said, and what stands in the line named.

Calls of the ring that are only left out are in test_left_out_calls.py."""


def source(kernel: str) -> str:
    return (files.kernels() / f"{kernel}.cu").read_text("utf-8")


def emulate(text: str, *options: str, args: tuple[str, ...] = ("--seed", "1")) -> process.Finished:
    program = toolchain.build(
        text, target="sm_100a", runtime=library.for_linking(toolchain.nvcc().major)
    ).program
    command = [sys.executable, "-m", "phasebit", "run", *options, str(program), *args]
    return process.run(command, timeout=120)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_file_holds_one_idea(kernel: str) -> None:
    lines = source(kernel).splitlines()
    assert lines[0].startswith("// ") and '#include "tensor_memory/product.cuh"' in lines
    assert len(lines) <= 180 and max(map(len, lines)) <= 100


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("schedule", "seed"), [("eager", "1"), ("late", "2"), ("random", "3")])
def test_right_on_the_emulator(kernel: str, schedule: str, seed: str) -> None:
    done = emulate(source(kernel), "--schedule", schedule, args=("--seed", seed))
    assert done.ok and done.stdout == OK and not done.stderr, done.stdout + done.stderr


def verdict(text: str, shape: tuple[int, int, int]) -> str:
    """All that the emulator says about a product of whole numbers, ragged, of several tiles."""
    try:
        run, right = blackwell.multiply(text, *shape)
    except EmulatorError as error:
        return "\n".join([str(error), *map(str, error.findings)])
    return "\n".join([*map(str, run.findings), "" if right else "WRONG"])


@pytest.mark.nvcc
@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_is_found(name: str) -> None:
    kernel, old, new, words, place = MISTAKES[name]
    text = replace_once(source(kernel), old, new)
    said = verdict(text, (200, 132, 200) if kernel == ONE else (600, 300, 456))
    lines = [line for line in said.splitlines() if re.search(words, line)]
    assert lines, said
    if place:
        there = {i for i, line in enumerate(text.splitlines(), 1) if place in line}
        named = {int(number) for number in re.findall(r"(?:\.cu:|\bline )(\d+)", said)}
        assert there & named, f"lines {sorted(there)} are not named:\n{said}"


def seconds_of_children() -> float:
    """Of a processor, so that what else it does is not counted."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("options", "seconds"), [(("--fast",), 3), (("--schedule", "late"), 15)])
def test_the_emulator_is_quick(kernel: str, options: tuple[str, ...], seconds: float) -> None:
    shape = ("--shape", "256", "512", "256")
    emulate(source(kernel), "--fast", args=("--shape", "1", "4", "8"))  # compiled, imported
    start = seconds_of_children()
    done = emulate(source(kernel), *options, args=shape)
    taken = seconds_of_children() - start
    assert done.stdout == "matmul: OK, exact on 256 x 512 x 256\n", done.stdout + done.stderr
    assert taken < seconds


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", KERNELS)
def test_ptxas_takes_it_without_a_warning(kernel: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(source(kernel))
    strict = ["-Xptxas", "-warn-spills,-Werror", "-Werror", "all-warnings"]
    command = toolchain.nvcc_command("cubin", "sm_100a", options=strict)
    done = process.run([*command, path, "-o", tmp_path / "kernel.cubin"], timeout=120)
    assert done.ok and not done.stderr, done.stderr
