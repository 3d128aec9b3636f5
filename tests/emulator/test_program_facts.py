"""What the checker knows of a program before it runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phasebit.emulator.checker.program_facts import ProgramFacts
from phasebit.launching.launch import Module

HEAD = ".version 8.7\n.target sm_100a\n.address_size 64\n"
FRAME = """.visible .entry k(.param .u64 p) {{
    .reg .b64 %d<9>; .reg .b32 %r<9>; .reg .b16 %h<9>; .shared .align 16 .b8 x[64]; .shared .b64 m;
    .local .align 8 .b8 y[16];
    ld.param.u64 %d1, [p]; {} ret; }}"""


def facts(body: str, cluster: int = 1) -> ProgramFacts:
    kernel = Module(HEAD + FRAME.format(body))["k"]
    program = kernel.program(True, True, False, None)
    machine: Any = SimpleNamespace(program=program, cluster_size=cluster)
    return ProgramFacts(machine)


@pytest.mark.parametrize(("body", "shift"), [
    ("", 2), ("ld.global.u32 %r1, [%d1];", 2), ("ld.global.u64 %d2, [%d1];", 2),
    ("ld.global.u8 %r1, [%d1];", 0), ("ld.global.u16 %h1, [%d1];", 1),
    ("ld.shared.u16 %h1, [x]; ld.global.u32 %r1, [%d1];", 1), ("st.u8 [%d1], %r1;", 0),
    ("ld.local.u8 %r1, [y];", 2), ("st.local.u16 [y], %h1;", 2), ("ld.param.u16 %h1, [p];", 2),
    ("cvt.u16.u32 %h1, %r1;", 2), ("ld.global.u16 %h1, [%d1]; ld.global.u8 %r1, [%d1];", 0),
    ("atom.global.add.u32 %r1, [%d1], 1;", 2), ("ld.global.v4.u8 {%r1, %r2, %r3, %r4}, [%d1];", 0),
])  # fmt: skip
def test_words_are_as_wide_as_the_narrowest_access_but_no_wider_than_four_bytes(
    body: str, shift: int
) -> None:
    assert facts(body).shift == shift


COPY = "cp.async.ca.shared.global [x], [%d1], 16;"
BULK = "cp.async.bulk.global.shared::cta.bulk_group [%d1], [x], 16;"
AFTER, BEFORE = "tcgen05.fence::after_thread_sync;", "tcgen05.fence::before_thread_sync;"


@pytest.mark.parametrize(("body", "bulk", "copies", "fences"), [
    ("", False, False, set()), (COPY, False, True, set()), (BULK, True, True, set()),
    (BULK + COPY, True, True, set()), (AFTER, True, True, {"after"}),
    (AFTER + BEFORE, True, True, {"after", "before"}),
    ("mbarrier.init.shared.b64 [m], 1;", False, False, set()),
])  # fmt: skip
def test_what_runs_beside_threads(body: str, bulk: bool, copies: bool, fences: set[str]) -> None:
    found = facts(body)
    assert (found.bulk, found.copies) == (bulk, copies)
    assert found.tensor_fences == fences and found.outsiders == bulk
    assert facts(body, 2).outsiders
