"""What each line of Python became: PTX by the lines that its ``.loc`` directives name."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from phasebit.chapters.cute_dsl import ptx_runs

if TYPE_CHECKING:
    from phasebit.measure import Table

ORDINARY = {
    "add", "and", "bra", "cvta", "div", "ld.param", "mad", "max", "min", "mov", "mul",
    "neg", "not", "or", "rem", "selp", "setp", "shf", "shl", "shr", "sub", "xor", "ret", "cvt",
    "bar.warp", "lop3", "prmt",
}  # fmt: skip
"""Arithmetic, moves and branches, which every kernel has."""

SHORT = (
    (r"^mbarrier\.try_wait.*", "mbarrier.try_wait"),
    (r"^mbarrier\.arrive\.expect_tx.*", "mbarrier.arrive.expect_tx"),
    (r"^mbarrier\.arrive\b(?!\.expect).*", "mbarrier.arrive"),
    (r"^mbarrier\.init.*", "mbarrier.init"),
    (r"^cp\.async\.bulk\.tensor\.\dd\.shared.*", "cp.async.bulk.tensor, in"),
    (r"^cp\.async\.bulk\.tensor\.\dd\.global.*", "cp.async.bulk.tensor, out"),
    (r"^cp\.async\.bulk\.(commit_group|wait_group)(\.read)?.*", r"cp.async.bulk.\1\2"),
    (r"^cp\.async\.bulk\.shared.*", "cp.async.bulk, in"),
    (r"^tcgen05\.(mma|cp|ld|commit|alloc|dealloc|relinquish_alloc_permit)\b.*", r"tcgen05.\1"),
    (r"^tcgen05\.(wait|fence)::(\w+).*", r"tcgen05.\1::\2"),
    (r"^fence\.proxy\.async.*", "fence.proxy.async"),
    (r"^fence\.mbarrier_init.*", "fence.mbarrier_init"),
    (r"^barrier\.cta\.sync.*|^bar\.sync.*|^barrier\.sync.*", "bar.sync"),
    (r"^(ld|st)\.(shared|global)\b.*", r"\1.\2"),
    (r"^setmaxnreg\.(inc|dec).*", r"setmaxnreg.\1"),
    (r"^shfl\.sync.*", "shfl.sync"),
    (r"^elect\.sync.*", "elect.sync"),
)


def short(opcode: str) -> str:
    """An opcode without the modifiers that the page does not speak of."""
    for pattern, name in SHORT:
        if re.match(pattern, opcode):
            return re.sub(pattern, name, opcode)
    return opcode


def plain(opcode: str) -> bool:
    """Whether it is one of :data:`ORDINARY`."""
    return opcode.split(".")[0] in ORDINARY or ".".join(opcode.split(".")[:2]) in ORDINARY


def of_line(ptx: str, python: str, piece: str) -> list[str]:
    """The PTX that came of the lines of ``python`` that hold ``piece``.

    Raises ``ValueError`` where none does.
    """
    numbers = {i for i, line in enumerate(python.splitlines(), 1) if piece in line}
    if not numbers:
        raise ValueError(f"no line of the kernel holds {piece!r}")
    return [text for line, text in instructions(ptx) if line in numbers]


class Written(NamedTuple):
    """An instruction of PTX, and the line of Python that it came of."""

    line: int
    text: str


def instructions(ptx: str) -> list[Written]:
    """The instructions of a kernel in the order of the text."""
    from phasebit.emulator import Instruction

    body = ptx_runs.loaded(ptx).function.body
    return [Written(i.location.line if i.location else 0, i.text)
            for i in body if isinstance(i, Instruction)]  # fmt: skip


def opcode(text: str) -> str:
    """The opcode of an instruction's text."""
    return re.sub(r"^@!?\S+\s+", "", text.strip()).split()[0].rstrip(";")


def special(texts: list[str]) -> Counter[str]:
    """How often each instruction stands there that is not :func:`plain`."""
    names = map(opcode, texts)
    return Counter(short(name) for name in names if not plain(name))


def beside(ptx: str, python: str, pieces: list[str], source: str) -> Table:
    """Lines of Python, each with the instructions that it became."""
    from phasebit.measure import Table

    rows = []
    for piece in pieces:
        texts = of_line(ptx, python, piece)
        named = [f"{n} × {name}" if n > 1 else name for name, n in special(texts).items()]
        rest = sum(plain(opcode(text)) for text in texts)
        rows.append((piece.strip(), ", ".join(named) or "none", str(rest)))
    return Table(("Python", "PTX", "ordinary"), tuple(rows), source)
