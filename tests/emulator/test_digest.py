"""Each site is told once, with a count, and no rule is crowded out by another."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator import Deadlock, Finding, Module, StepLimit
from phasebit.emulator.digest import MOST, Digest, merged, sentence, site_of, told
from phasebit.emulator.findings import Call, Place, say

HEAD = '.version 8.7\n.target sm_90a\n.address_size 64\n.file 1 "/home/of/k.cu"\n'


def place(line: int, ptx: int, function: str = "") -> Place:
    return Place(ptx, "ld", "k.cu", (Call(line, 3, function),))


def found(line: int, ptx: int, rule: str = "race", other: int = 5, launch: int = 1) -> Finding:
    at = place(line, ptx)
    said = say("reads {}, written {}", at, place(other, 1))
    return Finding(rule, said, at, kernel="k", launch=launch)


def test_instructions_of_one_line_are_one_site() -> None:
    findings = [found(7, ptx) for ptx in range(20, 28)]
    assert told(findings) == [f"{sentence(findings[0])} (and 7 more there)"]
    (site,) = merged(findings)
    assert (site.first, site.count, site.where) == (findings[0], 8, "k.cu:7 and k.cu:5")
    assert told(findings, None) == [*map(sentence, findings)]


def test_another_line_rule_kernel_or_other_access_is_another_site() -> None:
    one = found(7, 20)
    others = [found(8, 20), found(7, 20, "missing-copy-wait"), found(7, 20, other=6),
              Finding("race", one.sentence, one.at, kernel="other", launch=1)]  # fmt: skip
    assert len({site_of(each) for each in [one, *others]}) == 5


def test_without_a_source_the_ptx_lines_are_the_site() -> None:
    bare = [Finding("race", say("{}", Place(ptx)), Place(ptx), kernel="k") for ptx in (4, 5)]
    assert [site.where for site in merged(bare)] == ["PTX line 4", "PTX line 5"]


def test_a_rule_with_many_sites_crowds_no_other_out() -> None:
    many = [found(line, 20) for line in range(10, 13 + MOST)]
    last = found(90, 20, "missing-proxy-fence")
    end = Finding("deadlock", say("deadlock: all wait"), kernel="k", launch=1)
    assert told([end, *many, last]) == [
        *map(sentence, [*many[:MOST], last]), "kernel k: deadlock: all wait",
        "kernel k: race at 3 more places",
    ]  # fmt: skip


def test_what_comes_again_in_later_launches_is_counted() -> None:
    digest = Digest()
    assert digest.tell([found(7, 20), found(7, 21)]) == [
        f"{sentence(found(7, 20))} (and 1 more there)"
    ]
    assert digest.tell([found(7, 20, launch=2)]) == []
    assert digest.tell([found(7, 20, launch=3), found(9, 30, launch=3)]) == [sentence(found(9, 30))]
    assert digest.rest() == ["kernel k: race at k.cu:7 and k.cu:5 again, in 2 more launches"]


def test_the_checker_keeps_every_rule_however_many_of_another_there_are(monkeypatch) -> None:
    monkeypatch.setattr("phasebit.emulator.checker.reports.LIMIT", 3)
    reads = "".join(f"ld.shared.u32 %r3, [word + {4 * i}]; bar.sync 0;\n" for i in range(8))
    text = (
        f"{HEAD}.visible .entry k(.param .u64 out) {{\n"
        ".reg .b32 %r<5>; .reg .pred %p; .shared .align 4 .b8 word[64];\n"
        f"mov.u32 %r1, %tid.x;\n{reads}st.shared.u32 [word], %r1;\nret;\n}}\n"
    )
    run = Module(text)["k"].launch(1, 64, [np.zeros(1, np.int32)])
    rules = [finding.rule for finding in run.findings]
    assert rules == ["uninitialised-read"] * 3 + ["race-in-one-store"]


DEAD = (
    f"{HEAD}.visible .entry k(.param .u64 out) {{\n.reg .b32 %r<5>; .reg .pred %p<3>;\n"
    "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;\nsetp.ge.u32 %p1, %r1, 32;\n"
    "LEAVE\n@%p1 bra DONE;\nbar.sync 1, 64;\nDONE: ret;\n}\n"
)


def deadlock(blocks: int, leave: str = "") -> Deadlock:
    try:
        Module(DEAD.replace("LEAVE", leave))["k"].launch(blocks, 64, [np.zeros(1, np.int32)])
    except Deadlock as error:
        return error
    raise AssertionError("it ended")


def test_blocks_that_wait_alike_are_told_once() -> None:
    one, many = str(deadlock(1)).splitlines(), str(deadlock(500)).splitlines()
    assert len(one) == 3 and many == [*one, "  so do those of blocks 1-499"]
    (wait,) = deadlock(500).waits
    assert [each.block for each in wait.threads.blocks] == [*range(500)]
    assert {each.ranges for each in wait.threads.blocks} == {((0, 31),)}


def test_where_a_kernel_stands_is_told_of_blocks_alike_once() -> None:
    turns = "@!%p1 bra END;\nLOOP: bra LOOP;\nEND: ret;"
    text = DEAD.replace("LEAVE", "").replace("ret;", turns)
    with pytest.raises(StepLimit) as raised:
        Module(text)["k"].launch(40, 64, [np.zeros(1, np.int32)], max_steps=100)
    assert str(raised.value).count("wait for barrier 1") == 1
    assert "; so do those of blocks " in str(raised.value)


def test_a_block_that_waits_otherwise_is_told_by_itself() -> None:
    leave = "setp.eq.u32 %p2, %r2, 3; @%p2 bra OTHER; bra HERE;\nOTHER: bar.sync 2, 128;\nHERE:"
    said = str(deadlock(6, leave)).splitlines()
    assert said[-1] == "  so do those of blocks 1-2, 4-5"
    assert [line.split(":")[0] for line in said if " wait for " in line] == [
        "  all threads of block 3 wait for barrier 2", "  warp 0 of block 0 wait for barrier 1"
    ]  # fmt: skip


@pytest.mark.parametrize(("rule", "text"), [
    ("time-limit", "kernel k x"), ("race", "kernel k: race: x"), ("deadlock", "kernel k: x"),
    ("uninitialised-read", "kernel k: uninitialised: x"), ("program", "kernel k: x"),
    ("missing-tcgen05-wait", "kernel k: async: x"), ("step-limit", "kernel k: x"),
])  # fmt: skip
def test_a_sentence_begins_with_its_kernel_and_its_kind(rule: str, text: str) -> None:
    finding = Finding(rule, say("x"), kernel="k")
    assert sentence(finding) == text and sentence(Finding(rule, say("x"))) == str(finding)
