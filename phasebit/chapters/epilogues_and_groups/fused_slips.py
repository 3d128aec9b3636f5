"""Slips that people make in epilogues and in grouped products: a change each, and what finds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from phasebit.chapters.epilogues_and_groups import epilogues
from phasebit.chapters.epilogues_and_groups.epilogues import (
    FETCHED,
    FUSED,
    GROUPS,
    Made,
    Numbers,
    Programs,
)
from phasebit.edits import replace_once

SILENT = "right"
"""What is said of a slip that nothing finds."""

SHAPE = 130, 40, 72
"""Ragged; two tiles of two slots for one block."""
WIDE = 40, 136, 72
"""The same with fewer rows than columns."""
SQUARE = 130, 136, 16
"""Two tiles of one slot for each warp group of one block, and two boxes of columns."""
SIZES = 3, 0, 130, 0, 1
"""Rows of groups: fewer than a tile has, none, and more."""


class Slip(NamedTuple):
    """What somebody wrote in place of what is right."""

    kernel: str
    edits: tuple[tuple[str, str], ...]
    says: str
    """The rule that the emulator names; ``WRONG`` for a wrong result, :data:`SILENT` for none."""
    steps: tuple[str, ...] = ("Alpha",)
    """Of a fused kernel: those that its result is compared with."""
    in_place: bool = False
    beta: float = 0.5
    of: tuple[str, ...] = ()
    """The steps in the kernel, where they are others."""
    shape: tuple[int, int, int] = SHAPE

    @property
    def source(self) -> str:
        """The kernel with the slip, and as few slots as show it."""
        text = epilogues.with_constants(epilogues.source(self.kernel), SLOTS=3)
        if self.kernel != GROUPS:
            text = epilogues.with_steps(text, self.of or self.steps)
            text = epilogues.without_apart(text)
        for right, wrong in self.edits:
            text = replace_once(text, right, wrong)
        return text


def _fused(
    right: str, wrong: str, says: str, *steps: str, in_place: bool = False, beta: float = 0.5,
    shape: tuple[int, int, int] = SHAPE,
) -> Slip:  # fmt: skip
    edits = ((right, wrong),)
    return Slip(FUSED, edits, says, steps or ("Alpha",), in_place, beta, shape=shape)


def _fetched(right: str, wrong: str, says: str, *steps: str) -> Slip:
    steps = steps or ("Alpha", "Residual")
    return Slip(FETCHED, ((right, wrong),), says, steps, shape=SQUARE)


def _groups(says: str, *edits: tuple[str, str]) -> Slip:
    return Slip(GROUPS, edits, says)


_PLAIN_COPY = (
    "reinterpret_cast<int*>(&to->{0})[threadIdx.x % 32] =\n"
    "        reinterpret_cast<int*>(&s.draft.{0})[threadIdx.x % 32];"
)

SLIPS: Mapping[str, Slip] = {
    # -- epilogues --------------------------------------------------------------
    "bias by row": _fused(
        "int, int col, G& g) {\n        const float2 bias = g.bias_of(col);",
        "int row, int, G& g) {\n        const float2 bias{g.bias[row], g.bias[row]};",
        "WRONG", "Alpha", "Bias", shape=WIDE),
    "activation before alpha": Slip(
        FUSED, (), "WRONG", ("Alpha", "Gelu"), of=("Gelu", "Alpha")),
    "amax of the rounded value": _fused(
        "max(__float_as_uint(fabsf(x.x)), __float_as_uint(fabsf(x.y)))",
        "max(__float_as_uint(fabsf(__bfloat162float(__float2bfloat16(x.x)))),\n"
        "                         __float_as_uint(fabsf(__bfloat162float(__float2bfloat16(x.y)))))",
        "WRONG", "Alpha", "Bias", "Amax"),
    "amax without the magnitude": _fused(
        "max(__float_as_uint(fabsf(x.x)), __float_as_uint(fabsf(x.y)))",
        "max(__float_as_uint(x.x), __float_as_uint(x.y))", "WRONG", "Alpha", "Amax"),
    "a NaN is read where beta is 0": _fused(
        "        if (beta == 0) return {};\n", "", "WRONG", "Alpha", "Residual", beta=0),
    "the last tile is moved back, in place": _fused(
        "{ return number % rows() * BM; }", "{ return min(number % rows() * BM, M - BM); }",
        "missing-bulk-wait", "Alpha", "Residual", in_place=True),
    "what lies outside of C goes through the epilogue": _fused(
        "if (row >= tiles.M || col >= tiles.N) return x;  // it is not stored\n", "\n",
        "out-of-bounds", "Alpha", "Bias"),
    "the warp groups do not wait for their turn": _fused(
        "    if (TURNS == 2) ptx::mbarrier_wait(&ring.turn[group], (tile / 2 + group + 1) % 2);\n",
        "", "mbarrier-phase-unseen", shape=(130, 136, 72)),
    "a box is filled while it is stored": _fused(
        "wait_group_read<COLS / BOX_COLS - 1>()", "wait_group_read<COLS / BOX_COLS>()",
        "bulk-source-overwritten"),
    # -- what is fetched --------------------------------------------------------
    "what is fetched is not waited for": _fetched(
        "        ptx::mbarrier_wait(&s.fetched[warp], phase);\n", "", "missing-mbarrier-wait"),
    "the same phase is waited for again": _fetched("        phase = !phase;\n", "",
                                                   "missing-mbarrier-wait"),
    "the residual comes before the last tile has left": _fetched(
        "            ptx::cp_async_bulk_wait_group_read<0>();  // the last tile has left the "
        "boxes\n", "", "bulk-source-overwritten"),
    "the residual is not announced": _fetched(
        "BN * sizeof(float) + boxes_too * sizeof(Boxes));", "BN * sizeof(float));",
        "missing-mbarrier-wait"),
    "every box has the first box's bias": _fetched(
        "s.bias[warp] + box % PARTS * BOX_COLS, f,", "s.bias[warp], f,", "WRONG", "Alpha", "Bias"),
    "both rows have the upper one's scale": _fetched(
        "f.scale = scale[p % 2];", "f.scale = scale[0];", "WRONG", "RowScale"),
    "a box leaves before all lanes have filled it": _fetched(
        "            __syncwarp();                     // and the others\n", "", "race"),
    "the engine does not see what lanes have stored": _fetched(
        "            ptx::fence_proxy_async_shared();  // the engine sees what this lane has "
        "stored,\n", "", "missing-proxy-fence"),
    # -- groups -----------------------------------------------------------------
    "the copies do not acquire the map": _groups(
        "missing-tensormap-fence",
        ("            ptx::tensormap_acquire(&maps[seen % MAPS].a);\n", "")),
    "the stores do not acquire the map": _groups(
        "missing-tensormap-fence",
        ("        if (acquired != seen) ptx::tensormap_acquire(&C);\n", "")),
    "the map is published by plain stores": _groups(
        "missing-tensormap-fence",
        ("ptx::tensormap_publish(&to->a, &s.draft.a);", _PLAIN_COPY.format("a")),
        ("ptx::tensormap_publish(&to->c, &s.draft.c);",
         _PLAIN_COPY.format("c") + "\n    __syncwarp();")),
    "a map is rewritten while copies go by it": _groups(
        "tensor-map-changed-in-use",
        ("            ptx::mbarrier_wait(&s.map_empty[seen % MAPS], !(seen / MAPS % 2));\n", "")),
    "a map is given back before the stores have read it": _groups(
        "tensor-map-changed-in-use",
        ("                ptx::cp_async_bulk_wait_group_read<0>();\n", "")),
    "a group without rows is counted": _groups(
        "race",
        ("            }\n            group = walk.group, ++seen;\n",
         "            }\n            seen = group = walk.group;\n")),
    "the first row is a sum of whole tiles": _groups(
        "invalid-operation", ("first_row += size();", "first_row += over(size(), BM) * BM;")),
    "the first row counts the group itself": _groups(
        "invalid-operation",
        ("A + size_t(walk.first_row) * walk.all.K",
         "A + size_t(walk.first_row + walk.size()) * walk.all.K")),
    "rows past the group's end are stored": _groups(
        "race-equal-stores",
        ("        ptx::tensormap_replace_address(&s.draft.c, C + size_t(walk.first_row) * "
         "walk.all.N);\n        ptx::tensormap_replace_rows(&s.draft.c, walk.size());\n", ""),
        ("walk.row(n) + row_of(warp, h), walk.col(n),",
         "walk.first_row + walk.row(n) + row_of(warp, h), walk.col(n),"),
        ("return row < given.M ? Chain<RowScale>::apply(x, row, col, given) : x;",
         "return row < walk.first_row + given.M\n"
         "            ? Chain<RowScale>::apply(x, row - walk.first_row, col, given) : x;")),
    "every group has the first one's weights": _groups(
        "WRONG", ("group * walk.all.N + walk.col(n), full", "walk.col(n), full")),
    "the map of A stays that of all rows": _groups(
        SILENT,
        ("        ptx::tensormap_replace_address(&s.draft.a, A + size_t(walk.first_row) * "
         "walk.all.K);\n        ptx::tensormap_replace_rows(&s.draft.a, walk.size());\n", ""),
        ("k, walk.row(n), full);", "k, walk.first_row + walk.row(n), full);")),
}  # fmt: skip


def programs(names: Sequence[str] = tuple(SLIPS)) -> Programs:
    """These slips, compiled together."""
    return Programs({name: SLIPS[name].source for name in names})


def run(built: Programs, name: str, slip: Slip, schedule: str = "late", seed: int = 7) -> Made:
    """A small launch of a kernel like a slip's; raises what ends it."""
    if slip.kernel == GROUPS:
        return epilogues.grouped(
            built, name, SIZES, 40, 40, workers=1, schedule=schedule, seed=seed
        )
    given = Numbers.draw(*slip.shape, seed, beta=slip.beta)
    if slip.beta == 0:
        given.residual.view("u2")[:] = 0x7FC0
    return epilogues.fused(built, name, given, slip.steps, in_place=slip.in_place, workers=1,
                         schedule=schedule)  # fmt: skip


def verdict(built: Programs, name: str, schedule: str = "late") -> str:
    """The rule that a slip breaks; ``WRONG`` where only its result is, :data:`SILENT` else."""
    from phasebit.emulator import EmulatorError

    try:
        made = run(built, name, SLIPS[name], schedule)
    except EmulatorError as error:
        first = error.findings[0].rule if error.findings else error.rule
        return first or error.kind
    if made.run.findings:
        return made.run.findings[0].rule
    return "WRONG" if made.wrong else SILENT
