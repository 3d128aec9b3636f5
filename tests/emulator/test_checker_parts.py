"""Small parts of the checker: what is kept once, who looks, registers that a load is filling."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.checker import reports
from phasebit.emulator.checker.beside import Beside
from phasebit.emulator.checker.footprint import Footprint
from phasebit.emulator.checker.register_waits import used_before_wait
from phasebit.emulator.checker.reports import Findings
from phasebit.emulator.checker.tensor_checks import TensorChecks
from phasebit.emulator.checker.tensor_shadow import Reading
from phasebit.emulator.findings import Finding, Place, Sentence, Threads, say
from phasebit.emulator.machine.events import Told
from phasebit.launching.launch import Module
from tests.emulator.tensor_ptx import frame
from tests.emulator.test_shared_shadow import shadow


def test_whoever_looks_at_launches_beside_does_all_of_it() -> None:
    assert Beside.__abstractmethods__ == {"publish", "hear", "fence", "scopes", "look", "written"}


def kept(count: int = 3) -> tuple[Findings, list[Finding]]:
    """Findings of a program with three instructions; the second one is being executed."""
    program = SimpleNamespace(
        instructions=[SimpleNamespace(where=Place(n), text=f"i{n}") for n in range(count)],
        traits=lambda instruction: SimpleNamespace(
            engine="copies" if instruction.text == "i2" else "threads"
        ),
    )
    machine: Any = SimpleNamespace(
        program=program, told=Told(), executing=lambda: program.instructions[1], after_block=[],
        where=lambda g: say("{}", Place(9)),
    )  # fmt: skip
    found: list[Finding] = []
    return Findings(machine, found), found


def test_each_mistake_is_kept_once_and_says_where_it_was_noticed() -> None:
    findings, found = kept()
    for key in ("a", "a", "b"):
        findings.report("race", say(key), 2, key)
    findings.report("divergent-barrier", say("c"), -1, "a", SimpleNamespace(where=Place(7)))
    findings.report("divergent-barrier", say("c"), -1, "c", SimpleNamespace(where=Place(7)))
    findings.report("divergent-barrier", say("d"), 3, "d")
    findings.report("divergent-barrier", say("e"), 0, "e")
    assert [(each.message, each.line) for each in found] == [
        ("a", 2), ("b", 2), ("c", 7), ("d", 1), ("e", 0)
    ]  # fmt: skip
    assert str(findings.place(2)) == "`i2` at PTX line 2"
    assert str(findings.place(-1)) == str(findings.place(3)) == "`i1` at PTX line 1"
    assert [findings.is_copy(access) for access in (-1, 0, 1, 2, 3)] == [False] * 3 + [True, False]
    findings.misused(None, "odd")  # type: ignore[arg-type]
    findings.misused(None, "odder")  # type: ignore[arg-type]
    assert [(each.rule, each.message) for each in found[5:]] == [
        ("barrier-misuse", "odd: PTX line 9")
    ]


def test_so_many_of_a_rule_are_kept() -> None:
    findings, found = kept()
    for number in range(reports.LIMIT + 3):
        findings.report("race", say("x"), 0, number)
    findings.report("narrow-scope", say("x"), 0, "other")
    assert len(found) == 1000 + 1 and found[-1].rule == "narrow-scope"


@pytest.mark.parametrize(("values", "rule"), [
    ([0, 0], "race-equal-stores"), ([0, 1], "race"), ([0, 0, 5, 5], "race-equal-stores"),
    ([0, 0, 5, 6], "race"), ([0, 1, 5, 5], "race"),
])  # fmt: skip
def test_stores_that_leave_what_was_there_are_of_another_grade(
    values: list[int], rule: str
) -> None:
    """What lies there is asked for before and after each pair of stores."""
    findings, found = kept()
    findings.report("race", say("x"), 0, "key")
    states = [np.array([value]) for value in values]
    findings.weigh("no such", lambda: np.zeros(1))
    assert findings.machine.after_block == []
    while states:
        findings.weigh("key", lambda: states.pop(0))
        findings.machine.after_block.pop()()
    assert [each.rule for each in found] == [rule]


LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r10}, [%r5];"
WAIT = "tcgen05.wait::ld.sync.aligned;"
USE, OTHER = "add.u32 %r11, %r10, 1;", "add.u32 %r11, %r12, 1;"


@pytest.mark.parametrize(("behind", "used"), [
    (WAIT + USE, False), (USE + WAIT, True), (OTHER + WAIT + USE, False), (OTHER + USE, True),
    ("mov.u32 %r10, 0;" + WAIT, True),  # overwritten
    ("mov.b32 %r13, %r10; add.u32 %r14, %r13, 1;" + WAIT, True),
    ("mov.b32 %r13, %r10;" + WAIT + "add.u32 %r14, %r13, 1;", False),
    ("mov.b32 %r13, %r10; mov.b32 %r14, %r13; " + OTHER + "add.u32 %r15, %r14, 1;" + WAIT, True),
    ("@%p1 mov.b32 %r13, %r10;" + WAIT, True), ("mov.b32 %r13, %r12; " + WAIT + USE, False),
    ("@%p1 bra ON; " + USE + " ON: " + WAIT, True), ("@%p1 bra ON; " + WAIT + " ON: " + USE, True),
    ("@%p1 bra ON; " + OTHER + " ON: " + WAIT + USE, False),
    ("TURN: " + OTHER + " @%p1 bra TURN; " + WAIT + USE, False),
    ("TURN: @%p3 bra OUT; " + USE + " OUT: @%p1 bra TURN; " + WAIT, True),
    # a use, and every way on comes to another load and then to a wait: that is none
    (USE + LOAD + WAIT, False), (USE + OTHER + LOAD + OTHER + WAIT, False),
    (USE + "@%p1 bra ON; " + LOAD + " ON: " + WAIT, True),
    (USE + "@%p1 bra ON; " + LOAD + " bra BOTH; ON: " + LOAD + " BOTH: " + WAIT, False),
    (USE + WAIT + LOAD + WAIT, True), (USE + LOAD, True), (USE + LOAD + "@%p1 bra ON; " + WAIT
     + " ON: " + OTHER, True),
    ("TURN: " + USE + LOAD + " @%p1 bra TURN; " + WAIT, False),
])  # fmt: skip
def test_registers_that_are_used_before_the_wait(behind: str, used: bool) -> None:
    kernel = Module(frame(f"{LOAD} {behind}"))["kernel"]
    graphs = [*kernel.program(True, True, False, None).graphs.values()]
    load = next(one for graph in graphs for one in graph.selected if one.text == LOAD[:-1])
    assert used_before_wait(graphs, load) is used


class Said(list[str]):
    def report(self, rule: str, sentence: Sentence, access: int, key: Any) -> None:
        self.append(f"{rule}: {sentence}")

    def place(self, access: int) -> Sentence:
        return say("{}", Place(access))


def test_each_operation_that_may_still_read_is_asked() -> None:
    """The first reads elsewhere, the second is known to be over, the third is another cluster's."""
    s, said = shadow(3), Said()
    readings = [
        Reading(np.array([2148, 2150]), 5, 1, 30, 1), Reading(np.array([2100, 2149]), 5, 1, 20, 2),
        Reading(np.array([2149]), 9, 1, 40, 3), Reading(np.array([2140, 2149]), 6, 2, 30, 4),
        Reading(np.array([2149, 2160]), 5, 1, 31, 5),
    ]  # fmt: skip
    checks = TensorChecks.__new__(TensorChecks)
    checks.findings = said  # type: ignore[assignment]
    checks.cells = SimpleNamespace(  # type: ignore[assignment]
        shadows={s.batch: SimpleNamespace(reading=readings)}
    )
    checks.races = SimpleNamespace(shared_name=lambda _, word: f"word {word}")  # type: ignore[assignment]
    s.batch.describe = lambda lanes: Threads.of(lanes[0] // 4, lanes % 4, 4)  # type: ignore[method-assign]
    s.clock[4:8, 1] = 25
    g: Any = SimpleNamespace(batch=s.batch, lanes=np.array([4, 7]), n=2)
    words = Footprint.plain(np.array([[48, 49]]))
    checks.against_readers(s, g, words, 2100, 9)
    assert [(one.split(": ")[1], one.rpartition(" ")[2]) for one in said] == [
        ("thread 0 of block 1 writes word 100", "1"), ("thread 3 of block 1 writes word 101", "4"),
        ("thread 3 of block 1 writes word 101", "5"),
    ]  # fmt: skip
    said.clear()
    checks.against_readers(s, g, words, 3000, 9)
    other: Any = SimpleNamespace(batch=object(), lanes=g.lanes, n=2)
    checks.against_readers(s, other, words, 2100, 9)
    assert said == []
