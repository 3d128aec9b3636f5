"""Slips that people make in the kernels of *Four producers, four consumers*: a change each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from phasebit.chapters.chain import kernels
from phasebit.edits import replace_once

if TYPE_CHECKING:
    from phasebit.measure import Table

SHAPES = {
    kernels.RING: (257, 232, 456),
    kernels.ROLES: (257, 232, 456),
    kernels.PIECES: (257, 232, 456),
    kernels.ONE_BOX: (257, 232, 456),
    kernels.CHAIN: (257, 232, 72),
    kernels.PAIR: (300, 260, 72),
    kernels.LAUNCH_CONTROL: (600, 232, 72),
    kernels.MULTICAST: (300, 260, 328),
    kernels.TWO_PRODUCTS: (600, 232, 328),
    kernels.PAIR_CONTROL: (1100, 232, 72),
}
"""Ragged on every side: a ring goes round twice, or a block gets several tiles."""


class Slip(NamedTuple):
    """What somebody wrote in place of what is right."""

    kernel: str
    right: str
    wrong: str
    says: str
    """What the emulator must say, as a regular expression; ``WRONG`` for a wrong result."""

    @property
    def source(self) -> str:
        """The kernel with the slip."""
        text = kernels.source(self.kernel)
        return replace_once(text, self.right, self.wrong)


_C, _P, _L = kernels.KERNELS
_M, _T, _PL = kernels.BESIDE
_R, _O, _S, _B = kernels.RUNGS
_READ = (
    "        if (t == 0) ptx::cp_async_bulk_wait_group_read<0>();  // the piece before has left\n"
)
_FENCE = "        ptx::fence_proxy_async_shared();\n"
_MEET = (
    "        ptx::bar_sync(1, 32 * EPILOGUE);  // all rows are there; the other slot is empty\n"
)

SLIPS = {
    "a slot is filled again while its products are made": Slip(
        _R, "ptx::mbarrier_wait(&s.empty[at.slot], at.phase ^ 1);", ";", "may still read it"),
    "no more slices are asked for than there are slots": Slip(
        _R, "        if (slice) load();  // into the slot before: the tensor core has this slice "
        "meanwhile\n", "", "deadlock"),
    "nobody says that the sum is full": Slip(
        _O, "    ptx::tcgen05_commit(&s.sum_full);\n}", "}", "deadlock"),
    "the sum is read before it is complete": Slip(
        _O, "    ptx::mbarrier_wait(&s.sum_full, 0);\n", "", "nobody has written all of it"),
    "a column more is stored than C has": Slip(
        _O, "col + first + j < n", "col + first + j <= n", "invalid global"),
    "a piece leaves before it is written": Slip(
        _S, "        ptx::fence_proxy_async_shared();\n        __syncwarp();\n", "", "race|proxy"),
    "the piece's place does not go on": Slip(
        _S, "first += PIECE, to.advance())", "first += PIECE)", "may still read it"),
    "all warps store the first warp's rows": Slip(
        _S, "col + first, row + 32 * warp, piece", "col + first, row, piece", "WRONG|race"),
    "the box leaves before the four warps have met": Slip(
        _B, _MEET, "", "race: .*nothing orders the two"),
    "each warp meets by itself": Slip(
        _B, "ptx::bar_sync(1, 32 * EPILOGUE)", "__syncwarp()", "race: .*nothing orders the two"),
    "the whole block is to meet": Slip(
        _B, "ptx::bar_sync(1, 32 * EPILOGUE)", "__syncthreads()",
        "all threads of the block must come to it"),
    "nobody fences what is in the box": Slip(_B, _FENCE, "", "proxy"),
    "a box is filled again before it is read": Slip(_B, _READ, "", "may still read it"),
    "the meeting comes before the wait for the read": Slip(
        _B, _READ + _MEET, _MEET + _READ, "race: .*nothing orders the two"),
    "the wait is for all boxes but the last": Slip(
        _B, _READ, _READ.replace("<0>", "<1>"), "may still read it"),
    "another thread waits than the one that stores": Slip(
        _B, _READ, _READ.replace("t == 0", "t == 32"), "may still read it"),
    "each warp stores the box of all": Slip(
        _B, "        if (t == 0) {\n", "        if (t % 32 == 0) {\n", "race|async"),
    "the box has the rows of one warp": Slip(
        _B, "t * PARTS + (p", "t % 32 * PARTS + (p", "race"),
    "the other block does not announce the answer": Slip(
        _PL, "        ptx::mbarrier_arrive_expect_tx(&s.answer_full",
        "        if (blockIdx.x % PAIR == 0) ptx::mbarrier_arrive_expect_tx(&s.answer_full",
        "deadlock"),
    "both blocks of a pair ask for tiles": Slip(
        _PL, "        if (blockIdx.x % PAIR == 0)\n            ptx::try", "        ptx::try",
        "deadlock|WRONG|none left|bytes|race|async"),
    "the answer comes to one block of two": Slip(
        _PL, "ptx::try_cancel_for_cluster", "ptx::try_cancel", "deadlock"),
    "the other block's readers of an answer are not counted": Slip(
        _PL, "READERS = 2 * EPILOGUE + 5", "READERS = EPILOGUE + 3",
        "nobody has seen|deadlock|race|async"),
    "who reads an answer in the other block tells its own": Slip(
        _PL, "if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive_at_after_reads("
        "&s.answer_empty[at.slot], 0);",
        "if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.answer_empty[at.slot]);",
        "a barrier that is not initialised"),
    "readers of both blocks do not fence": Slip(
        _PL, "ptx::fence_proxy_async_shared();  // the next answer", "// the next answer",
        "the answer of .*no fence.proxy.async lies between"),
    "a tile is taken by the number of its block": Slip(
        _PL, "const int tile = block / PAIR;", "const int tile = block;", "WRONG"),
    "the loader never waits for an empty slot": Slip(
        _C, "ptx::mbarrier_wait(&s.empty[at.slot], at.phase ^ 1);", ";", "with 0 of 1 pending"),
    "the loader waits for the wrong phase": Slip(
        _C, "&s.empty[at.slot], at.phase ^ 1", "&s.empty[at.slot], at.phase", "deadlock"),
    "the multiplier does not wait for an empty sum": Slip(
        _C, "ptx::mbarrier_wait(&s.sum_empty[to.slot], to.phase ^ 1);", ";",
        "race: .*nothing orders the two"),
    "a sum is said to be full after each slice": Slip(
        _C, "            ptx::tcgen05_commit(&s.empty[from.slot]);",
        "            ptx::tcgen05_commit(&s.empty[from.slot]);\n"
        "            ptx::tcgen05_commit(&s.sum_full[to.slot]);", "async: .*reads tensor memory"),
    "both sums lie in the same columns": Slip(
        _C, "s.tensor_memory + to.slot * TILE_N", "s.tensor_memory",
        "async: .*reads tensor memory"),
    "a sum is given back before it has been fetched": Slip(
        _C, "first + PIECE == TILE_N", "first == 0", "race: .*nothing orders the two"),
    "one warp gives the sum back for all four": Slip(
        _C, "ptx::mbarrier_init(&s.sum_empty[slot], EPILOGUE)",
        "ptx::mbarrier_init(&s.sum_empty[slot], 1)", "deadlock"),
    "every thread gives the sum back": Slip(
        _C, "if (lane == 0) ptx::mbarrier_arrive(&s.sum_empty",
        "ptx::mbarrier_arrive(&s.sum_empty", "deadlock"),
    "a piece is overwritten while it leaves": Slip(
        _C, "wait_group_read<0>();  // the piece", "wait_group_read<1>();  // the piece",
        "may still read it"),
    "the block ends while pieces leave": Slip(
        _C, "    if (t == 0) ptx::cp_async_bulk_wait_group_read<0>();  // shared", "    ;  //",
        "leaves the kernel while"),
    "the sums' place does not go on": Slip(
        _C, "        ptx::tcgen05_commit(&s.sum_full[to.slot]);\n        to.advance();",
        "        ptx::tcgen05_commit(&s.sum_full[to.slot]);", "deadlock"),
    "B's descriptor says no swizzle": Slip(
        _C, "a + 2 * step, b + 2 * step, INSTRUCTION",
        "a + 2 * step, (b & ~(7ull << 61)) + 2 * step, INSTRUCTION",
        "it says swizzle none, but the tensor map .* says 128B"),
    "only the bytes of A are announced": Slip(
        _C, "sizeof s.a[0] + sizeof s.b[0])", "sizeof s.a[0])", "a bulk copy writes it"),
    "the bytes of a ragged box are counted": Slip(
        _C, "sizeof s.a[0] + sizeof s.b[0])",
        "sizeof s.a[0] + sizeof s.b[0] - (row + TILE_M > m ? TILE_K * 2 : 0))", "deadlock"),
    "the products go to the sum beside": Slip(
        _C, "s.tensor_memory + to.slot * TILE_N;", "s.tensor_memory + (to.slot + 1) * TILE_N;",
        "reaches beyond tensor memory"),
    "a piece is not swizzled": Slip(_C, "(p ^ t * PARTS / 8 % PARTS)", "p", "WRONG"),
    "both blocks of a pair announce": Slip(
        _P, "if (rank == 0)  // for both blocks\n", "\n", "with 0 of 1 pending"),
    "a pair's bytes are announced for one block": Slip(
        _P, "PAIR * (sizeof s.a[0] + sizeof s.b[0])", "sizeof s.a[0] + sizeof s.b[0]",
        "a bulk copy writes it"),
    "a pair's slots are given back in one block": Slip(
        _P, "&s.empty[from.slot], BOTH", "&s.empty[from.slot], 1", "deadlock"),
    "a pair's sum is given back to the wrong block": Slip(
        _P, "ptx::mbarrier_arrive_at_after_reads(&s.sum_empty[from.slot], 0)",
        "ptx::mbarrier_arrive(&s.sum_empty[from.slot])", "deadlock"),
    "both blocks of a pair issue": Slip(
        _P, " && blockIdx.x % PAIR == 0", "", "deadlock"),
    "the second block of a pair is not told of the sum": Slip(
        _P, "&s.sum_full[to.slot], BOTH", "&s.sum_full[to.slot], 1", "deadlock"),
    "a pair waits for the first block's epilogue only": Slip(
        _P, "PAIR * EPILOGUE);  // warps", "EPILOGUE);  // warps",
        r"nobody has seen phase \d complete"),
    "a pair allocates before its blocks have met": Slip(
        _P, "    ptx::cluster_arrive();\n    ptx::cluster_wait();  // both blocks run, as an "
        "allocation for a pair wants, and have barriers\n"
        "    if (warp == 0) ptx::tcgen05_alloc<SUMS * TILE_N, PAIR>(&s.tensor_memory);\n",
        "    if (warp == 0) ptx::tcgen05_alloc<SUMS * TILE_N, PAIR>(&s.tensor_memory);\n"
        "    ptx::cluster_arrive();\n    ptx::cluster_wait();\n",
        "nothing says that the other block runs"),
    "one block of a pair allocates": Slip(
        _P, "if (warp == 0) ptx::tcgen05_alloc",
        "if (warp == 0 && blockIdx.x % PAIR == 0) ptx::tcgen05_alloc", "deadlock|alloc"),
    "a pair's instruction says 128 rows": Slip(
        _P, "ptx::tcgen05_bf16_f32(TILE_M, TILE_N)", "ptx::tcgen05_bf16_f32(ROWS, TILE_N)",
        "nobody has written all of it"),
    "both blocks of a pair bring the same rows of B": Slip(
        _P, "col + rank * ROWS, full", "col, full", "WRONG"),
    "the answer is read before it has come": Slip(
        _L, "        work(tile % rows * TILE_M, tile / rows * TILE_N);\n"
        "        ptx::mbarrier_wait(&s.answer_full[at.slot], at.phase);\n",
        "        work(tile % rows * TILE_M, tile / rows * TILE_N);\n", "deadlock"),
    "the answer's bytes are not announced": Slip(
        _L, "ptx::mbarrier_arrive_expect_tx(&s.answer_full[at.slot], sizeof s.answers[0]);",
        "ptx::mbarrier_arrive(&s.answer_full[at.slot]);", "deadlock"),
    "a reader of answers is not counted": Slip(
        _L, "READERS = EPILOGUE + 3", "READERS = EPILOGUE + 2", "nobody has seen phase 0 complete"),
    "a role does not say that it has read": Slip(
        _L, "if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.answer_empty[at.slot]);",
        "if (threadIdx.x == 0) ptx::mbarrier_arrive(&s.answer_empty[at.slot]);", "deadlock"),
    "the asker goes on after a no": Slip(
        _L, "for (int tile = 0; tile >= 0; at.advance())",
        "for (int tile = 0, no = 0; no < 2; at.advance(), no += tile < 0)", "none left"),
    "a block makes its own tile twice": Slip(
        _L, "tile = ptx::cancelled(&s.answers[at.slot]);\n        ptx::fence_proxy_async_shared();"
        "  // the next", "tile = ptx::cancelled(&s.answers[at.slot]) < 0 ? -1 : int(blockIdx.x);\n"
        "        ptx::fence_proxy_async_shared();  // the next", "WRONG"),
    "who reads an answer does not fence": Slip(
        _L, "ptx::fence_proxy_async_shared();  // the next answer", "// the next answer",
        "the answer of .*no fence.proxy.async lies between"),
    "who asks does not fence after reading": Slip(
        _L, "ptx::fence_proxy_async_shared();\n        ptx::mbarrier_arrive(&s.answer_empty",
        "ptx::mbarrier_arrive(&s.answer_empty",
        "the answer of .*no fence.proxy.async lies between"),
    "the other block's reading is not waited for": Slip(
        _M, "mbarrier_init(&s.empty[slot], BLOCKS)", "mbarrier_init(&s.empty[slot], 1)",
        "async|race|pending|nobody has seen"),
    "a slot is given back in one's own block only": Slip(
        _M, "(&s.empty[from.slot], ALL)", "(&s.empty[from.slot], 1 << blockIdx.x % BLOCKS)",
        "deadlock"),
    "both blocks copy the same half of B": Slip(
        _M, "first = blockIdx.x % BLOCKS * part", "first = 0 * part",
        "nobody has written|deadlock|WRONG|race|async"),
    "each block keeps its half of B": Slip(
        _M, "col + first, full, ALL)", "col + first, full, 1 << blockIdx.x % BLOCKS)", "deadlock"),
    "a slot is empty when one of two products has read it": Slip(
        _T, "mbarrier_init(&s.empty[slot], PRODUCTS)", "mbarrier_init(&s.empty[slot], 1)",
        "with 0 of 1 pending|nobody has seen"),
    "both products add to one sum": Slip(_T, " + product * TILE_N;", ";", "tensor|race"),
    "both products take the same rows of A": Slip(
        _T, "s.a[from.slot][product]", "s.a[from.slot][0]", "WRONG"),
    "the second product's rows of A are not announced": Slip(
        _T, "(sizeof s.a[0] + sizeof s.b[0])", "(sizeof s.a[0][0] + sizeof s.b[0])",
        "a bulk copy writes it"),
    "the second product's rows of C are the first one's": Slip(
        _T, "row + product * HIGH + rank", "row + rank", "race|WRONG"),
    "both products wait for the first sum": Slip(
        _T, "&s.sum_empty[product], to.phase ^ 1);\n        ptx",
        "&s.sum_empty[0], to.phase ^ 1);\n        ptx", "race: .*nothing orders the two"),
    "a product takes its sum for a ring of two slots": Slip(
        _T, "Place<1> to;", "Place<2> to;", "race|deadlock|nobody has seen"),
}  # fmt: skip
"""What the slip is -> the slip."""


def verdict(slip: Slip, schedule: str = "late") -> str:
    """All that the emulator says of it, and ``WRONG`` where the result is."""
    return judge(slip.source, SHAPES[slip.kernel], schedule)


def judge(source: str, shape: tuple[int, int, int], schedule: str = "late") -> str:
    """All that the emulator says of a kernel's product; ``WRONG`` where the result is."""
    from phasebit.emulator import EmulatorError

    try:
        run, exact = kernels.multiply(source, *shape, schedule=schedule)
    except EmulatorError as error:
        return "\n".join([str(error), *map(str, error.findings)])
    return "\n".join([*map(str, run.findings), *["WRONG"] * (not exact)])


OF_A_BOX = (
    "the box leaves before the four warps have met",
    "each warp meets by itself",
    "the meeting comes before the wait for the read",
    "a box is filled again before it is read",
    "another thread waits than the one that stores",
    "the whole block is to meet",
)
"""Those of :data:`SLIPS` that the page shows with the rung of one box."""


def of_a_box() -> Table:
    """What is found of :data:`OF_A_BOX`, and whether the result is right all the same."""
    from phasebit.emulator import EmulatorError
    from phasebit.measure import Table

    rows = []
    for name in OF_A_BOX:
        try:
            run, exact = kernels.multiply(SLIPS[name].source, *SHAPES[kernels.ONE_BOX])
            rows.append((name, run.findings[0].kind, "right" if exact else "wrong"))
        except EmulatorError as error:
            rows.append((name, error.kind, "none"))
    return Table(("slip", "found", "result"), tuple(rows), "late copies and products")


_WHOLE = "sizeof s.a[0] + sizeof s.b[0]);"
TOO_FEW_BYTES = {
    "the rows that exist": _WHOLE.replace(
        ");", " - (row + TILE_M > m ? (row + TILE_M - m) * TILE_K * 2 : 0));"),
    "only A": "sizeof s.a[0]);",
}  # fmt: skip
"""What is announced of a slice, whose last rows lie outside of A -> in the kernel's words."""


def too_few_bytes() -> str:
    """How the chain ends where too few bytes are announced: a line for each count."""
    from phasebit.emulator import EmulatorError

    lines = []
    for what, count in TOO_FEW_BYTES.items():
        text = replace_once(kernels.source(kernels.CHAIN), _WHOLE, count)
        try:
            run, exact = kernels.multiply(text, 200, 256, 64)
            lines.append(f"{what}: exact: {exact}; {run.findings[0].kind}")
        except EmulatorError as error:
            bytes_ = re.findall(r"\d+ bytes announced[^;]*", str(error))[0]
            lines.append(f"{what}: deadlock; {bytes_}")
    return "\n".join(lines)


_TAILS = "    tail(s.empty, at);\n", "    tail(s.sum_empty, to);\n"
_MEETING = "    __syncthreads();  // everybody has read\n"


def endings(name: str) -> str:
    """A kernel without its tails, without the meeting at its end, and without both: a line each."""
    text = kernels.source(name)
    without_tails = text
    for tail in _TAILS:  # where a block makes one tile there is no ring of sums
        without_tails = without_tails.replace(tail, "")

    def apart(text: str) -> str:
        return kernels.apart(text) if name == kernels.PAIR else replace_once(text, _MEETING, "")

    lines = []
    for what, changed in (("the tails", without_tails), ("the meeting", apart(text)),
                          ("both", apart(without_tails))):  # fmt: skip
        first = judge(changed, SHAPES[kernels.PAIR]).partition("\n")[0]
        short = re.sub(r", lanes [^;]*; ", "; ", first)
        said = re.split(r": `|\[", short)[0] or "nothing found"
        lines.append(f"without {what}: {said}")
    return "\n".join(lines)
