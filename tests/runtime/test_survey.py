"""Each synchronisation is left out once, and somebody notices or not: runs are made up here."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from phasebit.emulator.findings import Finding, Place, say
from phasebit.runtime import mutation
from phasebit.runtime.backend import Launch, Outcome
from phasebit.runtime.deletions import deletions
from phasebit.runtime.mapped_memory import DeviceMemory
from phasebit.runtime.report import End
from phasebit.runtime.run_program import ProgramError

TEXT = """.entry k() {
bar.sync 0;
membar.gl;
}
.entry unused() {
bar.sync 1;
}
.func helper() {
bar.warp.sync -1;
}
"""
Run = Callable[[str, str, Any, int | None], int]


class Loaded:
    def __init__(self) -> None:
        self.kernels, self.symbols = {"k": "facts"}, {"s": "symbol"}

    def launch(self, launch: Launch) -> Outcome:
        return Outcome(clocks=7)


class Emulator:
    """Stands for the emulator: what it was made with, and which text it was given."""

    def __init__(self, **how: Any) -> None:
        self.how = how
        self.texts: list[str] = []

    def load(self, ptx: str, memory: DeviceMemory) -> Loaded:
        self.texts.append(ptx)
        return Loaded()


def found(rule: str, line: int = 1) -> Finding:
    return Finding(rule, say("x"), Place(line, "ld"), kernel="k")


@pytest.fixture
def survey(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[mutation.Verdict]]:
    """survey(program, *schedules): verdicts on a program, a function of the text it runs, of the
    schedule, of the reporter and of where it prints; it returns its exit status."""
    monkeypatch.setattr(mutation, "EmulatorBackend", Emulator)

    def ask(program: Run, *schedules: str, limit: float | None = None) -> list[mutation.Verdict]:
        def run_program(
            command: Sequence[str], backend: Any, *, limit: float | None, reporter: Any, stdout: int
        ) -> int:
            assert command == ["p", "a"] and limit == asked and reporter.apart
            how = backend.backend.how
            assert (how["seed"], how["keep"]) == (1, False)
            module = backend.load(TEXT, None)
            assert (module.kernels, module.symbols) == ({"k": "facts"}, {"s": "symbol"})
            launch = Launch("k", (1, 1, 1), (1, 1, 1), b"")
            assert module.launch(launch).clocks == 7
            (text,) = backend.backend.texts
            status = program(text, how["schedule"], reporter, stdout)
            reporter.ended(End(status), None)
            return status

        asked = limit
        monkeypatch.setattr(mutation, "run_program", run_program)
        return [*mutation.survey(["p", "a"], schedules, limit)]

    return ask


def test_each_deletion_of_what_is_launched_is_tried_until_somebody_notices(survey: Any) -> None:
    ran: list[tuple[str, str]] = []

    def program(text: str, schedule: str, reporter: Any, stdout: int) -> int:
        ran.append((schedule, text))
        if "bar.sync 0" not in text:
            reporter.found([found("race"), found("deadlock", 3)])
        if "membar.gl" not in text and schedule == "eager":
            os.write(stdout, b"other")
        return 0

    verdicts = survey(program, "late", "eager", limit=3.0)
    assert [str(each) for each in verdicts] == [
        "deadlock, race (late)",
        "other output (eager)",
        "silent",
    ]
    assert [each.deletion.instruction for each in verdicts] == [
        "bar.sync 0;", "membar.gl;", "bar.warp.sync -1;"
    ]  # fmt: skip
    schedules = [schedule for schedule, _ in ran]
    assert schedules == ["late", "eager", "late", "late", "eager", "late", "eager"]
    whole = [text for _, text in ran[:2]]
    assert whole == [TEXT, TEXT] and ran[2][1] == deletions(TEXT)[0].applied(TEXT)


def test_what_a_program_prints_is_compared_from_its_first_letter(survey: Any) -> None:
    def program(text: str, schedule: str, reporter: Any, stdout: int) -> int:
        os.write(stdout, b"ab" if "membar.gl" in text else b"bb")
        return 0

    said = [each.otherwise for each in survey(program, "late")]
    assert said == ["", "other output", ""]


def test_what_is_found_no_more_is_no_sign(survey: Any) -> None:
    def program(text: str, schedule: str, reporter: Any, stdout: int) -> int:
        reporter.found([found("race")] if "bar.sync 0" in text else [])
        return 0

    assert all(each.silent for each in survey(program, "late"))


def test_what_was_found_before_is_nothing_new_unless_it_is_elsewhere(survey: Any) -> None:
    def program(text: str, schedule: str, reporter: Any, stdout: int) -> int:
        reporter.found([found("race", 1 if "bar.sync 0" in text else 2)])
        return 0

    first, *others = survey(program, "late")
    assert first.rules == ("race",) and all(each.silent for each in others)


@pytest.mark.parametrize("how", ["status", "never", "standing"])
def test_a_program_that_ends_otherwise(how: str, survey: Any) -> None:
    def program(text: str, schedule: str, reporter: Any, stdout: int) -> int:
        if "membar.gl" in text:
            return 0
        if how == "standing":
            reporter.ended(End(0), found("time-limit"))
        return 3 if how == "status" else 0 if how == "standing" else 124

    verdicts = survey(program, "late")
    assert verdicts[1].otherwise == ("" if how == "standing" else "the program ends otherwise")
    assert verdicts[1].rules == (("time-limit",) if how == "standing" else ())
    assert verdicts[0].silent and not verdicts[1].silent


def test_a_program_that_does_not_end_well_as_it_is(survey: Any) -> None:
    def program(text: str, schedule: str, reporter: Any, stdout: int) -> int:
        return 3 if schedule == "eager" else 0

    with pytest.raises(ProgramError) as raised:
        survey(program, "late", "eager")
    assert str(raised.value) == (
        "p does not end well as it is (eager): mend that first, `python -m phasebit run --schedule "
        "eager` says what it is"
    )
    assert survey(program, "late")
