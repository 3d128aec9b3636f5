"""Findings, places, threads and rules as data and as text, piece by piece."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from phasebit.emulator import errors, rulebook
from phasebit.emulator.errors import Deadlock, Fault, Found, PtxError
from phasebit.emulator.findings import (
    Address,
    BlockThreads,
    Call,
    Finding,
    Place,
    Sentence,
    Threads,
    Wait,
    blocks_text,
    joined,
    ranges,
    say,
)
from phasebit.emulator.rulebook import Rule

PLACE = Place(12, "ret", "k.cu", (Call(41), Call(7, 3, "wait"), Call(8)), "src/k.cu")
BARE = Place(5)
WHO = Threads.of(3, [0, 1, 40], 64)
WHERE = Address("shared", 40, "tile", 8, "tile[8 bytes in]")
WAIT = Wait(WHO, "mbarrier full", PLACE, "2 of 3", "full", -16)


def test_places_in_words() -> None:
    assert (BARE.line, BARE.column, BARE.function, BARE.source) == (0, 0, "", "")
    assert str(BARE) == "PTX line 5"
    assert (PLACE.line, PLACE.column, PLACE.function) == (8, 0, "")
    assert PLACE.source == "k.cu:41, in wait at line 7, in an inlined function at line 8"
    assert str(PLACE) == f"PTX line 12 ({PLACE.source})"
    inner = Place(1, calls=(Call(2, 4, "f"),))
    assert (inner.line, inner.column, inner.function) == (2, 4, "f")
    data = PLACE.to_json()
    assert (data["line"], data["column"], data["function"], data["path"]) == (8, 0, "", "src/k.cu")
    assert (data["ptx_line"], data["instruction"], data["file"]) == (12, "ret", "k.cu")
    assert Place.from_json(json.loads(json.dumps(data))) == PLACE


@pytest.mark.parametrize(("numbers", "total", "which", "warps"), [
    (range(64), 64, "all threads", (0, 1)), (range(32), 64, "warp 0", (0,)),
    (range(32, 64), 128, "warp 1", (1,)), (range(32, 96), 128, "warps 1-2", (1, 2)),
    ([*range(32), *range(64, 96)], 128, "warps 0, 2", (0, 2)), ([5], 64, "thread 5", (0,)),
    ([5, 6], 64, "threads 5-6", (0,)), (range(33), 64, "threads 0-32", (0, 1)),
    (range(31), 64, "threads 0-30", (0,)), ([31, 32], 64, "threads 31-32", (0, 1)),
    ([0], 1, "all threads", (0,)), (range(40), 40, "all threads", (0, 1)), ([63, 5, 5], 64,
     "threads 5, 63", (0, 1)),
])  # fmt: skip
def test_which_threads(numbers: Any, total: int, which: str, warps: tuple[int, ...]) -> None:
    (block,) = Threads.of(3, numbers, total).blocks
    assert (block.which, block.warps, str(block)) == (which, warps, f"{which} of block 3")


def test_blocks_with_the_same_threads_are_told_together() -> None:
    def of(block: int, *numbers: int) -> BlockThreads:
        return Threads.of(block, numbers, 64).blocks[0]

    assert str(Threads((of(0, 3), of(1, 3), of(2, 3), of(5, 3)))) == "thread 3 of blocks 0-2, 5"
    assert str(Threads((of(0, 3), of(1, 4), of(2, 3)))) == (
        "thread 3 of blocks 0, 2, thread 4 of block 1"
    )
    assert str(Threads((of(7, 3),))) == "thread 3 of block 7" and str(Threads(())) == ""
    assert blocks_text([4]) == "block 4" and blocks_text([5, 4]) == "blocks 4-5"
    assert ranges([]) == () and ranges([3, 1, 2, 2, 9]) == ((1, 3), (9, 9))
    data = WHO.to_json()
    assert data == [{"block": 3, "ranges": ((0, 1), (40, 40)), "total": 64, "warps": [0, 1]}]
    assert Threads.from_json(json.loads(json.dumps(data))) == WHO


def test_sentences_keep_what_they_name() -> None:
    inner = say("{} and {}", BARE, WHERE)
    made = say("{:>4}: {}; {} of {}{}", 7, inner, WHO, PLACE, "")
    assert str(made) == f"   7: PTX line 5 and tile[8 bytes in]; {WHO} of {PLACE}"
    assert made.places == (BARE, PLACE) and made.threads == (WHO,) and made.addresses == (WHERE,)
    assert made.words[0] == "   7" and "" not in made.words
    assert Sentence().words == () and str(Sentence()) == ""
    assert str(joined(", ", ["a{}", inner, "b"])) == f"a{{}}, {inner}, b"
    assert joined(", ", iter([inner])).places == (BARE,) and str(joined("; ", [])) == ""
    with pytest.raises(TypeError, match=r"more values than places for them in 'a {}'"):
        say("a {}", 1, 2)
    with pytest.raises(StopIteration):
        say("a {} {}", 1)
    assert str(say("{{}} {}", 0)) == "{} 0"


@pytest.mark.parametrize("made", [
    BARE, Call(3), WHO, WHO.blocks[0], WHERE, say("a {}", BARE), WAIT,
    Finding("race", say("x")), rulebook.RULES["race"],
])  # fmt: skip
def test_what_is_found_does_not_change_and_may_be_a_key(made: Any) -> None:
    assert made == dataclasses.replace(made) and len({made, dataclasses.replace(made)}) == 1
    field = dataclasses.fields(made)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, field, getattr(made, field))


def test_waits_of_a_deadlock() -> None:
    plain = Wait(WHO, "barrier 0", None, "")
    assert (plain.barrier, plain.missing) == ("", 0)
    for wait in (plain, WAIT):
        data = json.loads(json.dumps(wait.to_json()))
        assert Wait.from_json(data) == wait
        assert (data["what"], data["why"], data["barrier"], data["missing"]) == (
            wait.what, wait.why, wait.barrier, wait.missing
        )  # fmt: skip
    assert plain.to_json()["place"] is None and WAIT.to_json()["place"]["ptx_line"] == 12


def finding(sentence: Sentence | str = "x", **more: Any) -> Finding:
    made = say(sentence) if isinstance(sentence, str) else sentence
    return Finding(more.pop("rule", "race"), made, **more)


def test_a_finding_says_of_itself() -> None:
    two = Place(9, calls=(Call(30),), file="k.cu")
    made = finding(say("{}, {}; {} {} {}", WHO, WHERE, PLACE, two, BARE), at=two)
    assert (made.kind, made.grade, made.message) == ("race", "can corrupt", str(made.sentence))
    assert made.places == (PLACE, two, BARE) and made.threads == (WHO,)
    assert made.addresses == (WHERE,) and (made.line, made.source) == (9, "k.cu:30")
    assert made.lines == (8, 30) and not made.ends and str(made) == f"race: {made.message}"
    assert (made.waits, made.kernel, made.launch) == ((), "", 0)
    bare = finding()
    assert (bare.line, bare.source, bare.lines) == (0, "", ())
    assert finding(at=two).lines == (30,) and finding(at=BARE).lines == ()
    assert finding(say("{}", PLACE), waits=(Wait(WHO, "a", two, ""),)).lines == (30,)
    assert finding(say("{}", PLACE), waits=(Wait(WHO, "a", None, ""),)).lines == ()
    end = finding("it stops", rule="deadlock")
    assert end.ends and str(end) == "it stops" and finding(rule="race-equal-stores").grade == (
        "no promise"
    )
    with pytest.raises(ValueError, match=r"'no-rule' is no rule: `python -m phasebit rules` lists"):
        finding(rule="no-rule")


def test_a_finding_comes_back_from_json() -> None:
    other = Threads.of(1, [2], 64)
    elsewhere = Address("global", 7, "", 0, "?")
    made = finding(
        say("{} {} a {} {} {} {}", WHO, PLACE, other, WHERE, BARE, elsewhere), at=BARE,
        waits=(WAIT,), kernel="k", launch=4,
    )  # fmt: skip
    data = json.loads(json.dumps(made.to_json()))
    assert Finding.from_json(data) == made
    assert Finding.from_json(json.loads(json.dumps(finding().to_json()))) == finding()
    assert data["sentence"] == [
        {"threads": 0}, " ", {"places": 0}, " a ", {"threads": 1}, " ", {"addresses": 0}, " ",
        {"places": 1}, " ", {"addresses": 1},
    ]  # fmt: skip
    assert (data["rule"], data["kind"], data["grade"]) == ("race", "race", "can corrupt")
    assert (data["kernel"], data["launch"], data["message"]) == ("k", 4, made.message)
    assert data["addresses"][1] == {"space": "global", "number": 7, "allocation": "", "offset": 0,
                                    "text": "?"}  # fmt: skip
    assert finding().to_json()["at"] is None and data["at"]["ptx_line"] == 5
    assert len(data["waits"]) == 1 and finding().launch == 0


def test_rules_in_words() -> None:
    race = rulebook.RULES["race"]
    assert race.source == "PTX ISA 8.7, 8.9" and race.grade == rulebook.CAN_CORRUPT
    assert rulebook.RULES["assertion"].source == "CUDA C++, assert"
    assert Rule("a", "b", "c", "9.1").grade == rulebook.CAN_CORRUPT
    assert rulebook.rule("race") is race and [*rulebook.RULES][:2] == ["race", "race-equal-stores"]
    assert {each.grade for each in rulebook.RULES.values()} == {*rulebook.GRADES}
    lines = rulebook.listing().splitlines()
    assert len(lines) == 1 + len(rulebook.RULES)
    assert lines[0] == f"{'rule':<28} {'grade':<12} what is wrong"
    assert lines[2].startswith("race-equal-stores            no promise   Two threads store to one")
    assert rulebook.describe("assertion") == (
        "assertion (fault, can corrupt)\nAn assert of the kernel does not hold.\nCUDA C++, assert"
    )
    with pytest.raises(ValueError, match="is no rule"):
        rulebook.describe("nothing")


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_an_error_tells_what_was_found_before(count: int) -> None:
    error = Fault("it fails at {}", BARE)
    error.findings = [finding(f"number {each}") for each in range(count)]
    more = {0: "", 1: "\nbefore that the checker had found: race: number 0"}.get(
        count, f"\nbefore that the checker had found (and {count - 1} more): race: number 0"
    )
    assert str(error) == f"it fails at PTX line 5{more}"
    assert error.hazards is error.findings and error.args == (error.sentence,)
    assert (error.kind, error.finding.rule, error.finding.sentence) == (
        "fault", "invalid-operation", error.sentence
    )  # fmt: skip


def test_errors_say_where_and_which_rule() -> None:
    assert str(PtxError("odd")) == "odd" and str(PtxError("odd", 0)) == "PTX line 0: odd"
    error = PtxError("odd {}", 7, "k.cu:3")
    assert str(error) == "PTX line 7: odd {} (from k.cu:3)"
    assert (error.line, error.source, error.kind) == (7, "k.cu:3", "compile")
    assert PtxError("odd").line is None and PtxError("odd", source="").source == ""
    assert str(errors.EmulatorError()) == "" and list(errors.EmulatorError().findings) == []
    assert str(errors.EmulatorError("{} {}")) == "{} {}"
    ends = Deadlock("all wait", [WAIT])
    assert ends.waits == (WAIT,) and ends.finding.waits == (WAIT,) and Deadlock("x").waits == ()
    assert (ends.finding.rule, ends.finding.message) == ("deadlock", "all wait")
    first, second = finding("one", rule="out-of-bounds"), finding("two")
    found = Found([first, second], run=5)
    assert (found.rule, found.finding, found.run) == ("out-of-bounds", first, 5)
    assert found.findings == [first, second] and Found([first]).run is None
    assert str(found) == str(found.sentence) and "before that" not in str(found)
    assert "one" in str(found) and "two" in str(found)


RULES = {
    "PtxError": "invalid-ptx", "LaunchError": "refused-launch", "OutOfBounds": "out-of-bounds",
    "NoPeerAccess": "no-peer-access", "UseAfterFree": "use-after-free",
    "StackOverflow": "stack-overflow", "InvalidFree": "invalid-free",
    "IllegalMetadata": "illegal-metadata", "MbarrierFault": "mbarrier-fault",
    "TooManyArrivals": "too-many-arrivals", "UninitialisedMbarrier": "uninitialised-mbarrier",
    "Trap": "trap", "FailedAssertion": "assertion", "Misaligned": "misaligned-access",
    "Deadlock": "deadlock", "Defect": "defect", "StepLimit": "step-limit", "Livelock": "livelock",
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_each_error_is_of_a_rule(name: str) -> None:
    kind = getattr(errors, name)
    assert kind.rule == RULES[name] and kind("x").finding.rule == RULES[name]
    causes = {"Trap": "trap", "FailedAssertion": "assertion", "Misaligned": "misaligned"}
    assert getattr(kind, "cause", "") == causes.get(name, "")
