"""Programs that others wrote: what is kept of their runs, each finding with a reason.

``python tools/foreign.py`` runs them; this looks at what it kept, and needs nothing.
"""

from __future__ import annotations

import json
import sys
import tomllib

import pytest

from phasebit import files, process
from tests.book.notebooks import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import foreign

RECORD = json.loads((files.records() / foreign.RECORD).read_text(encoding="utf-8"))
PROGRAMS = RECORD["programs"]
JUDGED = tomllib.loads((ROOT / "tests/foreign/judged.toml").read_text(encoding="utf-8"))
WRONG = {
    "cutlass: experimental/primitives/reduction/cluster_tmem_reduce.py",
    "llm.c: fused_residual_forward.cu 2",
    "cutlass: cute/blackwell/kernel/blockwise_gemm/masked_grouped_gemm.py --mnkl 256,256,256,2",
    "triton: 13-conv-im2col.py ::test_conv2d_tma_im2col[0-1-3-3-64-64-16-16-1] "
    "::test_conv2d_tma_im2col[1-2-3-3-64-64-16-16-1]",
}
"""Wrong under the schedule late, or ended, by the mistake that is found in it."""


def test_the_record_is_of_this_catalogue() -> None:
    wanted = {one.name: one for one in foreign.catalogue()}
    assert PROGRAMS.keys() <= wanted.keys()
    for name, made in PROGRAMS.items():
        assert (made["commit"], made["arch"]) == (wanted[name].commit, wanted[name].arch), name
        # One run holds a few programs, so each says with which packages.
        assert made["packages"].keys() == set(foreign.PACKAGES[made["door"]]), name


def test_every_finding_has_a_reason_and_every_reason_a_finding() -> None:
    found = {name: {one["rule"] for one in made.get("findings", [])}
             for name, made in PROGRAMS.items()}  # fmt: skip
    assert {name: rules for name, rules in found.items() if rules} == {
        name: set(reasons) for name, reasons in JUDGED.items()
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_came_to_its_end(name: str) -> None:
    verdict = PROGRAMS[name]["verdict"]
    assert verdict in ("right", "ran") or name in WRONG, verdict


@pytest.mark.parametrize(("printed", "verdict"), [
    ("PASS", "ended"), ("0 FAILURES", "ended"), ("one\nFAIL at 3\ntwo", "not right: FAIL at 3"),
    ("Test failed", "not right: Test failed"), ("  Torch: ❌", "not right: Torch: ❌"),
])  # fmt: skip
def test_a_program_that_ends_well_and_says_that_it_is_wrong(printed: str, verdict: str) -> None:
    assert foreign._ended(process.Finished(printed, "", 0, 0.0)) == verdict


def test_there_are_many() -> None:
    assert len(PROGRAMS) >= 240
    assert sum(made["verdict"] == "right" for made in PROGRAMS.values()) >= 220


def test_the_page_is_that_of_the_record() -> None:
    assert foreign.PAGE.read_text(encoding="utf-8") == foreign.page(RECORD)
