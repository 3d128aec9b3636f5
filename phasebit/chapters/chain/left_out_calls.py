"""Is every line needed? The chain without one of its calls, and what is found.

Left out are the calls that wait, meet, tell, fence, commit, store or give back. Without the others
(a barrier's initialisation, a copy, a product) there is nothing that could go wrong in silence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from phasebit import files
from phasebit.chapters.chain import kernels

if TYPE_CHECKING:
    from phasebit.draw import Picture

RECORD = "left_out_findings.json"
SHAPE = (257, 232, 72)
"""Three tiles of two slices: the rings wrap around, every tile is ragged, all boxes reach C."""

_NEEDLESS_TO_SAY = ("mbarrier_init", "tcgen05_alloc", "cp_async_bulk_tensor_load", "tcgen05_mma",
                    "tcgen05_ld", "tcgen05_descriptor", "tcgen05_bf16")  # fmt: skip
_CALL = re.compile(r"\b(?:ptx::)?(mbarrier_\w+|tcgen05_\w+|fence_\w+|cp_async_\w+|bar_sync|tail|"
                   r"__sync\w+)(?:<[^;()]*>)?\([^;]*\);")  # fmt: skip
_ROLE = re.compile(r"^(?:__device__ void |)(\w+)\([^;]*?\) ?\{\n", re.MULTILINE)


class Call(NamedTuple):
    """A call that can be left out."""

    role: str
    """The function that it stands in: ``load``, ``multiply``, ``store`` or the kernel."""
    text: str
    """``ptx::mbarrier_wait(…);`` in one line."""
    begin: int
    end: int
    """Where it stands in the source."""


class Finding(NamedTuple):
    """How a run without a call ended."""

    kind: str
    """A finding's kind, ``deadlock``, ``fault``, or empty where the emulator found nothing."""
    where: str
    """The line that it names, or the barriers that are waited for."""
    exact: bool | None
    """Whether the result was right; ``None`` where there was none."""


def calls(source: str) -> list[Call]:
    """The calls of a kernel that can be left out, in their order."""
    kernel = source.partition('#include "exact_product.cuh"')[0]
    roles = [(found.start(), found[1]) for found in _ROLE.finditer(kernel)]
    result = []
    for found in _CALL.finditer(kernel):
        if not found[1].startswith(_NEEDLESS_TO_SAY):
            role = [name for start, name in roles if start < found.start()][-1]
            result.append(Call(role, " ".join(found[0].split()), found.start(), found.end()))
    return result


def without(source: str, call: Call) -> str:
    """The source with an empty statement in place of a call."""
    return f"{source[: call.begin]};{source[call.end :]}"


def judge(source: str) -> Finding:
    """Run the chain, or a variant, with every check, and say how it ended."""
    from phasebit.emulator import Deadlock, EmulatorError

    lines = source.splitlines()
    exact: bool | None = None
    kind = where = ""
    try:
        run, exact = kernels.multiply(source, *SHAPE)
        findings: Sequence[Any] = run.findings
    except EmulatorError as error:
        findings, kind = error.findings, error.kind
        if isinstance(error, Deadlock):
            names = kernels.Rings.of(source).barriers()
            waited = [names[wait.barrier] for wait in error.waits if wait.barrier in names]
            where = ", ".join(sorted({name.rpartition(" ")[0] for name in waited}))
        else:
            where = lines[error.finding.lines[-1] - 1].strip()
    if findings:
        kind, where = findings[0].kind, lines[findings[0].lines[0] - 1].strip()
    return Finding(kind, where, exact)


def findings() -> list[dict[str, Any]]:
    """Every call of the chain left out in turn: the rows of the record."""
    source = kernels.source(kernels.CHAIN)
    return [
        {"role": call.role, "call": call.text, **judge(without(source, call))._asdict()}
        for call in calls(source)
    ]


def recorded() -> dict[str, Any]:
    """The record of ``tools/left_out.py``."""
    path = files.records() / RECORD
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def picture() -> Picture:
    """The record by what was found: of so many calls, the result is right without so many."""
    from phasebit import draw

    kinds: dict[str, list[bool]] = {}
    for row in recorded()["rows"]:
        kinds.setdefault(row["kind"] or "nothing", []).append(row["exact"] is True)
    order = sorted(kinds.items(), key=lambda item: (item[0] == "nothing", -len(item[1])))
    return draw.bars(
        {kind: sum(right) for kind, right in order}, of={kind: len(some) for kind, some in order},
        hues={"nothing": "red"}, x_label="right all the same, of the calls left out",
        title="What the emulator finds",
    )  # fmt: skip
