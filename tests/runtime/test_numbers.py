"""The numbers that both halves of the runtime know: Python's are those of the C half."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import phasebit.runtime
from phasebit.runtime.backend import Outcome
from phasebit.runtime.protocol import Copy, Status

C = Path(phasebit.runtime.__file__).parent / "c"


def test_the_kinds_of_copies() -> None:
    names = re.findall(r"cudaMemcpy(\w+)", (C / "abi.h").read_text())
    ours = [each.name.title().replace("_", "") for each in Copy]
    assert names[: len(ours)] == ours and [*Copy] == [*range(5)]


@pytest.mark.parametrize("status", [*Status], ids=lambda status: status.name)
def test_the_error_of_a_status(status: Status) -> None:
    errors = dict(re.findall(r"X\((\w+), (\d+),", (C / "errors.h").read_text()))
    (name,) = [name for name, number in errors.items() if int(number) == status]
    assert status.name.replace("_", "").lower() in name.lower()
    assert len(Status) == len(Status.__members__)  # none is another name of another


def test_a_launch_of_which_nothing_is_said_went_well() -> None:
    assert Outcome() == Outcome(clocks=0, printed=b"", error=Status.SUCCESS, findings=())
