"""Slips that people make in attention with roles: a change each, and what the emulator says."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.chapters.attention_again.tensor_attention import Shape
from phasebit.edits import replace_each, replace_once

if TYPE_CHECKING:
    from phasebit.chapters.attention_again.tensor_attention import Data

SHAPE = Shape(150, 250, causal=True)
"""One block with two tiles, two steps: ragged, with a diagonal, both tiles in use."""

SPREAD = 12.0
"""Q so many times as large as K: then a row's maximum moves by more than the threshold."""


class Slip(NamedTuple):
    """What somebody wrote in place of what is right."""

    right: str
    wrong: str
    says: str
    """What must be said, as a regular expression: a rule, ``WRONG``, or nothing at all."""


SLIPS = {
    "P is announced before its stores are done": Slip(
        "    ptx::tcgen05_wait_st();\n    return sum;", "    return sum;", "async|tensor|race"),
    "no fence before P is announced": Slip(
        "row.reference);\n        ptx::tcgen05_fence_before_thread_sync();\n", "row.reference);\n",
        "tensor"),
    "no fence behind the wait for P": Slip(
        "            ptx::tcgen05_fence_after_thread_sync();\n            multiply_weights(",
        "            multiply_weights(", "tensor"),
    "the multiplier does not wait for P": Slip(
        "            ptx::mbarrier_wait(&s.ready[tile], step % 2);\n", "", "race|async|tensor"),
    "the multiplier waits for the softmax only": Slip(
        "begin(s, 2);", "begin(s, 1);", "race|async|tensor|deadlock"),
    "O is given free before it is rescaled": Slip(
        "            const float factor = s.factors[tile][t];\n            if (step &&",
        "            const float factor = s.factors[tile][t];\n"
        "            arrive(&s.ready[tile]);\n            if (step &&",
        "race|async|tensor|barrier"),
    "scores are not committed": Slip(
        "        ptx::tcgen05_commit(&s.s_full[tile]);\n", "", "deadlock"),
    "softmax waits for the wrong phase": Slip(
        "mbarrier_wait(&s.s_full[tile], step % 2)", "mbarrier_wait(&s.s_full[tile], step % 2 ^ 1)",
        "uninitialised|async|race|tensor|deadlock"),
    "the next scores before the weights": Slip(
        "            multiply_weights(o, s.tensor_memory + s_columns(tile), s.kv[v], step > 0);\n"
        "            if (last) ptx::tcgen05_commit(&s.o_full[tile]);\n"
        "            else scores(tile, at.slot);  // over P, which the product before it reads\n",
        "            if (!last) scores(tile, at.slot);\n"
        "            multiply_weights(o, s.tensor_memory + s_columns(tile), s.kv[v], step > 0);\n"
        "            if (last) ptx::tcgen05_commit(&s.o_full[tile]);\n", "WRONG|race|async"),
    "each row decides for itself whether O is rescaled": Slip(
        "__any_sync(~0u, factor < 1)", "factor < 1", "divergen|converge|aligned|convergence"),
    "the factor of another row": Slip(
        "const float factor = s.factors[tile][t];", "const float factor = s.factors[tile][t ^ 1];",
        "WRONG"),
    "the factor is written after it is announced": Slip(
        "        s.factors[tile][t] = factor;\n        arrive(&s.factor_full[tile]);"
        "  // O is corrected while the weights are made\n",
        "        arrive(&s.factor_full[tile]);\n        s.factors[tile][t] = factor;\n",
        "race|uninitialised"),
    "the reference moves though O is not rescaled": Slip(
        "    if (moved <= threshold) return 1;\n    row.reference = most;\n",
        "    row.reference = most;\n    if (moved <= threshold) return 1;\n", "WRONG"),
    "the sum is not rescaled": Slip(
        "row.sum = row.sum * factor +", "row.sum = row.sum +", "WRONG"),
    "the mask is one key late": Slip(
        "if (first + j >= seen)", "if (first + j > seen)", "WRONG"),
    "the last row decides whether a tile is masked": Slip(
        "if (p.seen(first) < key + ROWS) mask", "if (p.seen(first + ROWS - 1) < key + ROWS) mask",
        "WRONG"),
    "masked scores are 0": Slip("r[j] = 0xff800000;", "r[j] = 0;", "WRONG"),
    "the first step adds to what was there": Slip(
        "s.kv[v], step > 0);", "s.kv[v], true);", "uninitialised|WRONG"),
    "no fence before O leaves": Slip(
        "    ptx::fence_proxy_async_shared();  // the copy engine sees it\n", "", "proxy"),
    "the block ends while O leaves": Slip(
        "    ptx::cp_async_bulk_wait_group_read<0>();  // shared memory ends with the block\n", "",
        "async"),
    "tensor memory is given back before the others are done": Slip(
        "    __syncthreads();  // everybody has read\n", "", "tensor|race|async"),
}  # fmt: skip
"""What the slip is -> the slip. All are in `d_polynomial.cu`."""

OURS = (
    ("    arrive(&s.sum_full[tile]);", "    arrive(&s.factor_full[tile]);"),
    ("ptx::mbarrier_wait(&s.sum_full[tile], 0);",
     "ptx::mbarrier_wait(&s.factor_full[tile], steps % 2);"),
)  # fmt: skip
"""What we had written first: a row's sum is announced at the barrier of its factors."""

HEADS = re.compile(r'^#include [<"].*[>"]\n', re.M)


def together(texts: Iterable[str]) -> str:
    """Many kernels as one program: ``attend`` of the first is ``n0::attend``. One call of nvcc."""
    heads: dict[str, None] = {}
    bodies = []
    for i, text in enumerate(texts):
        heads |= dict.fromkeys(HEADS.findall(text))
        bodies.append(f"namespace n{i} {{\n{HEADS.sub('', text)}\n}}\n")
    return "".join([*heads, *bodies])


def planted(slip: Slip) -> str:
    """`d_polynomial.cu` with the slip."""
    return replace_once(kernels.source(kernels.POLYNOMIAL), slip.right, slip.wrong)


def ours() -> str:
    """`d_polynomial.cu` as we had it first."""
    return replace_each(kernels.source(kernels.POLYNOMIAL), OURS)


class Said(NamedTuple):
    """What the emulator says of a kernel."""

    rule: str
    """Of the first finding or of the error that ended it; empty for none."""
    sentence: str
    line: str
    """The line of the kernel that it names; empty for none."""
    result: str
    """``right``, ``wrong``, or ``none`` where the kernel did not end."""
    normal: str = ""
    """The result on normal random numbers; empty where nobody asked."""

    @property
    def all(self) -> str:
        """Rule, sentence, and ``WRONG`` where a result is."""
        return f"{self.rule}: {self.sentence}" + " WRONG" * ("wrong" in (self.result, self.normal))


def verdicts(
    names: Iterable[str] = SLIPS, schedule: str = "late", normal: bool = False
) -> dict[str, Said]:
    """What the emulator says of each of these slips, compiled together.

    ``normal``: also whether the result is right on normal random numbers; that is asked anyhow
    where there is nothing to say.
    """
    from phasebit.launching.launch import compile

    names = list(names)
    texts = [planted(SLIPS[name]) for name in names]
    text = together(texts)
    module = compile(text, "sm_100a", [f"-DHEAD={SHAPE.depth}"])
    lines = text.splitlines()
    result = {}
    for i, name in enumerate(names):
        kernel = module[f"n{i}::attend"]
        result[name] = _said(kernel, texts[i], lines, kernels.draw(SHAPE, 1, SPREAD), schedule)
        if normal or (result[name].result == "right" and not result[name].rule):
            again = _said(kernel, texts[i], lines, kernels.draw(SHAPE, 1), schedule)
            result[name] = result[name]._replace(normal=again.result)
    return result


def _said(kernel: Any, text: str, lines: list[str], data: Data, schedule: str) -> Said:
    """A run of one kernel; ``lines``: of the program that it was compiled in."""
    from phasebit.emulator import EmulatorError

    try:
        got = kernels.launch(kernel, text, data, SHAPE.causal, schedule=schedule)
    except EmulatorError as error:
        first = error.findings[0] if error.findings else error.finding
        result = "none"
    else:
        result = "right" if kernels.off(SHAPE, data, got.out) <= 1 else "wrong"
        if not got.run.findings:
            return Said("", "", "", result)
        first = got.run.findings[0]
    where = lines[first.lines[0] - 1].strip() if first.lines and first.lines[0] else ""
    return Said(first.rule, str(first), where, result)


def ours_in_many_orders() -> str:
    """How :func:`ours` ends: eager, late, in four random orders, and the first finding of those."""
    from phasebit.emulator import EmulatorError

    first, shape = ours(), Shape(128, 128)
    data = kernels.draw(shape)
    lines, ends = [], []
    for schedule in ("eager", "late"):
        run, out = kernels.attend(first, data, schedule=schedule)
        lines.append(f"{schedule}: within the bound: {kernels.off(shape, data, out) <= 1}, "
                     f"findings: {len(run.findings)}")  # fmt: skip
    for seed in range(4):
        try:
            kernels.attend(first, data, schedule="random", seed=seed)
        except EmulatorError as error:
            ends.append(error)
    lines.append(f"four random orders: some do not end: {bool(ends)}")
    said = str(ends[0].findings[0]).partition(": mbarrier.arrive")[0]
    for address, name in kernels.Layout.of(first, 64).barriers.items():
        said = said.replace(address, name)
    return "\n".join([*lines, *textwrap.wrap(said, 90)])
