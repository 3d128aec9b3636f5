"""The synchronisation instructions of a PTX text, and the text without one of them.

What is deleted leaves its line in place, so that all else keeps its line. A wait at an mbarrier is
a question whose answer the program goes by: in its place stands the answer "complete". An arrival
whose token the program keeps leaves a token of 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAMES = r"""
    (?:bar|barrier)(?:\.cta)?\.(?:sync|arrive)\b
  | bar\.warp\.sync\b
  | barrier\.cluster\.(?:arrive|wait)\b
  | membar\b | fence\b
  | mbarrier\.(?:arrive|arrive_drop|expect_tx|try_wait|test_wait)\b
  | cp\.async\.(?:wait_group|wait_all|commit_group|mbarrier)\b
  | cp\.async\.bulk\.(?:wait_group|commit_group)\b
  | wgmma\.(?:fence|commit_group|wait_group)\b
  | tcgen05\.(?:wait|fence|commit)\b
  | griddepcontrol\.wait\b
"""
_STATEMENT = re.compile(
    rf"(?<=[\s;:{{}}])(?P<guard>@!?[%\w$.]+\s+)?(?P<name>{_NAMES})(?P<rest>[^;]*);", re.VERBOSE
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENTRY = re.compile(r"\.(entry|func)\b[^({;]*?(?:\([^)]*\)\s*)?([\w$]+)\s*(?=[(\n{.])")


@dataclass(frozen=True)
class Deletion:
    """One instruction that can be left out.

    ``start`` and ``end``: where it is in the text. ``line`` counts from 1. ``instruction``: as it
    is written. ``instead``: what stands in its place. ``kernel``: the entry that it belongs to;
    empty within a function that kernels call.
    """

    start: int
    end: int
    line: int
    instruction: str
    instead: str
    kernel: str

    def applied(self, ptx: str) -> str:
        """The text without it."""
        kept_lines = "\n" * ptx.count("\n", self.start, self.end)
        return ptx[: self.start] + self.instead + kept_lines + ptx[self.end :]


def deletions(ptx: str) -> list[Deletion]:
    """Every synchronisation instruction of a text, in its order.

    >>> text = ".entry k() {\\nbar.sync 0;\\nW: mbarrier.try_wait.parity.b64 p, [%r1], 0; }"
    >>> [(d.line, d.instruction, d.instead) for d in deletions(text)]
    [(2, 'bar.sync 0;', ''), (3, 'mbarrier.try_wait.parity.b64 p, [%r1], 0;', \
'setp.eq.u32 p, 0, 0;')]
    """
    bare = _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), ptx)
    heads = [(found.start(), found[1], found[2]) for found in _ENTRY.finditer(bare)]
    made = []
    for found in _STATEMENT.finditer(bare):
        before = [head for head in heads if head[0] < found.start()]
        kernel = before[-1][2] if before and before[-1][1] == "entry" else ""
        text = " ".join(ptx[found.start() : found.end()].split())
        line = 1 + ptx.count("\n", 0, found.start())
        made.append(Deletion(found.start(), found.end(), line, text, _instead(found), kernel))
    return made


def _instead(found: re.Match[str]) -> str:
    """What a program without the instruction has in its place."""
    guard = found["guard"] or ""
    first = re.match(r"[^\[]*?\s([%\w$.]+)\s*(?:\|[^,]*)?,", found["rest"])
    if "_wait" in found["name"] and found["name"].startswith("mbarrier") and first:
        return f"{guard}setp.eq.u32 {first[1]}, 0, 0;"
    if found["name"].startswith("mbarrier.arrive") and first and first[1] != "_":
        return f"{guard}mov.b64 {first[1]}, 0;"
    return ""


__all__ = ["Deletion", "deletions"]
