"""The numbers that both halves of the runtime know: Python's are those of the C half."""

from __future__ import annotations

import importlib
import pkgutil
import re
from dataclasses import is_dataclass
from pathlib import Path

import pytest

import phasebit.runtime
from phasebit.runtime.backend import KernelFacts, Launch, Outcome, Parameter, failure
from phasebit.runtime.protocol import REPLY, REQUEST, Copy, Kind, Op, Space, Status, header

C = Path(phasebit.runtime.__file__).parent / "c"


def test_the_kinds_of_copies() -> None:
    names = re.findall(r"cudaMemcpy(\w+)", (C / "abi.h").read_text())
    ours = [each.name.title().replace("_", "") for each in Copy]
    assert names[: len(ours)] == ours and [*Copy] == [*range(5)]


@pytest.mark.parametrize("named", Status.__members__)
def test_the_error_of_a_status(named: str) -> None:
    status = Status[named]
    errors = dict(re.findall(r"X\((\w+), (\d+),", (C / "errors.h").read_text()))
    (name,) = [name for name, number in errors.items() if int(number) == status]
    assert status.name.replace("_", "").lower() in name.lower()
    assert len(Status) == len(Status.__members__)  # none is another name of another


def test_a_launch_of_which_nothing_is_said_went_well() -> None:
    assert Outcome() == Outcome(clocks=0, printed=b"", error=Status.SUCCESS, findings=())


def test_a_kernels_parameters_end_where_the_last_one_does() -> None:
    facts = KernelFacts("k", (Parameter(8, 4), Parameter(0, 8), Parameter(16, 1)))
    assert facts.parameter_bytes == 17 and KernelFacts("k", ()).parameter_bytes == 0
    assert facts == KernelFacts("k", facts.parameters, 0, 0, 0, 32, 1024, None)


def test_a_launch_of_which_nothing_more_is_said() -> None:
    usual = Launch("k", (1, 1, 1), (1, 1, 1), b"")
    assert usual == Launch("k", (1, 1, 1), (1, 1, 1), b"", shared=0, cluster=(1, 1, 1),
                           cooperative=False, workspace=0, stack=0, heap=8 << 20,
                           dependent=False)  # fmt: skip


def test_a_defect_names_the_line_that_raised_it() -> None:
    def inner() -> None:
        raise IndexError("oh")

    def outer() -> None:
        inner()

    try:
        outer()
    except IndexError as error:
        outcome = failure("k", error)
    at = inner.__code__.co_firstlineno + 1
    (finding,) = outcome.findings
    assert (outcome.error, finding.rule, finding.kernel) == (Status.LAUNCH_FAILURE, "defect", "k")
    defect = r"; this is a defect of phasebit, please report it"
    assert re.fullmatch(rf"IndexError: oh \(.*test_numbers\.py:{at}\){defect}", finding.message)


def test_what_is_told_is_not_changed_afterwards() -> None:
    """Of all that has fields, only this much has fields that change."""
    changing = set()
    for module in pkgutil.iter_modules(phasebit.runtime.__path__, "phasebit.runtime."):
        for name, each in vars(importlib.import_module(module.name)).items():
            if is_dataclass(each) and each.__module__ == module.name:
                changing |= set() if each.__dataclass_params__.frozen else {name}
    assert changing == {
        "_Call", "_Kernel", "_Loaded", "_Piece", "_Stream", "Ran", "Runs", "Work",
    }  # fmt: skip


def test_the_messages_are_numbered_those_that_are_answered_below_the_others() -> None:
    assert [*Op] == [*range(1, 19), *range(64, 75)] and Op.CALLS == 64
    assert [*Space] == [0, 1, 2, 3] and [*Kind] == [0, 1]


def test_the_header_says_every_number() -> None:
    text = header()
    for line in ("    OP_HELLO = 1,", "    OP_CALLS = 64,", "    OP_PEER = 74,",
                 "    KIND_TEXT = 1,",
                 "    SPACE_MANAGED = 2,", "    MAX_BLOCK_EXTENTS_X = 1024,",
                 "    MAX_BLOCK_EXTENTS_Z = 64,", "    MAX_GRID_Y = 65535,",
                 "    PORTABLE_CLUSTER = 8,", "    MAX_CLUSTER = 16,", "    USUAL_SHARED = 49152,",
                 "    USUAL_HEAP = 8388608,", '#define ENVIRONMENT "PHASEBIT_SERVER"',
                 '#define NOTE "note: "', "#define CONTROL_BYTES 4096", "#define MOST_DEVICES 8",
                 "#define DEVICE_STREAMS 18446744073709551614u"):  # fmt: skip
        assert f"{line}\n" in text
    assert text.startswith("/* Written from protocol.py by library.py. */\n#pragma once\n")
    assert (REQUEST.size, REPLY.size) == (16, 16)
