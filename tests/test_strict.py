"""Findings as an error: of one launch, or of all."""

from __future__ import annotations

import runpy
from typing import Any

import numpy as np
import pytest

import phasebit as pb

RACE = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<4>;
    .shared .align 4 .b8 a[256];
    mov.u32 %r1, %tid.x;
    st.shared.u32 [a], %r1;
    ld.shared.u32 %r2, [a];
    ret;
}
"""
ARGUMENTS = (1, 64, [np.zeros(1, np.int32)])


def kernel() -> pb.Kernel:
    return pb.Module(RACE)["k"]


def test_findings_are_data_unless_it_is_said_otherwise() -> None:
    run = kernel().launch(*ARGUMENTS)
    assert run.findings
    with pytest.raises(pb.Found) as raised:
        kernel().launch(*ARGUMENTS, raises=True)
    error = raised.value
    assert error.findings == run.findings and error.run.counters == run.counters
    assert error.finding == run.findings[0] and error.rule == run.findings[0].rule
    assert str(error).splitlines()[0] == str(run.findings[0])


def test_strict_is_for_all_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pb, "strict", True)
    with pytest.raises(pb.EmulatorError):
        kernel().launch(*ARGUMENTS)
    assert kernel().launch(*ARGUMENTS, raises=False).findings
    assert kernel().launch(1, 1, [np.zeros(1, np.int32)]).findings == []


@pytest.mark.parametrize(("said", "meant"), [
    ("1", True), ("true", True), ("yes", True), ("0", False), ("", False), ("false", False),
    ("False", False), ("no", False), ("OFF", False), (None, False),
])  # fmt: skip
def test_what_the_environment_says(
    said: str | None, meant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PHASEBIT_STRICT", raising=False)
    if said is not None:
        monkeypatch.setenv("PHASEBIT_STRICT", said)
    found = runpy.run_path(pb.__file__)
    assert found["strict"] is meant


COUNTS = "mov.u32 %r1, 0;\nAGAIN: add.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, -1; @%p1 bra AGAIN;"
"""It goes on until the count has come round: whose count decides is in no livelock."""

FAULTS = {
    "out-of-bounds": "st.global.u32 [%rd1+4096], %r1;",
    "trap": "trap;",
    "deadlock": "@%p1 bra DONE;\n    barrier.sync 1, 64;",
    "step-limit": COUNTS,
}
FAULTY = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mad.wide.u32 %rd2, %r1, 4, %rd1;
    setp.ge.u32 %p1, %r1, 32;
    st.global.u32 [%rd2], %r1;
    FAULT
DONE: ret;
}
"""


@pytest.mark.parametrize("rule", FAULTS)
def test_what_ends_a_kernel_is_a_finding_where_that_is_asked_for(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = pb.Module(FAULTY.replace("FAULT", FAULTS[rule]))
    error = {"deadlock": pb.Deadlock, "step-limit": pb.StepLimit}.get(rule, pb.Fault)

    def launch(**options: Any) -> pb.DeviceRun:
        array = np.full(64, -1, np.int32)
        run = module["k"].launch(1, 64, [array], max_steps=1000, **options)
        assert array.tolist() == list(range(64))  # what was written stays
        return run

    with pytest.raises(error) as raised:
        launch()
    run = launch(on_fault="report")
    assert [each.rule for each in run.findings] == [rule]
    assert run.findings[0] == raised.value.finding
    assert run.counters["smsp__inst_executed.sum"] > 0
    with pytest.raises(pb.Found) as found:
        launch(on_fault="report", raises=True)
    assert found.value.rule == rule
    monkeypatch.setattr(pb, "strict", True)
    with pytest.raises(pb.Found):
        launch(on_fault="report")


def test_what_came_before_a_fault_is_found_before_it() -> None:
    text = RACE.replace("ret;", "trap;\n    ret;")
    run = pb.Module(text)["k"].launch(*ARGUMENTS, on_fault="report")
    assert [each.rule for each in run.findings][-1] == "trap" and len(run.findings) > 1


def test_a_refused_launch_is_an_error_in_any_case() -> None:
    with pytest.raises(pb.LaunchError):
        kernel().launch(1, 2000, [np.zeros(1, np.int32)], on_fault="report")
    with pytest.raises(pb.LaunchError, match="'foo': choose one of eager, late, random, every"):
        kernel().launch(*ARGUMENTS, schedule="foo")  # type: ignore[arg-type]
    with pytest.raises(pb.LaunchError, match="raises is True or False, not 'x'"):
        kernel().launch(*ARGUMENTS, raises="x")  # type: ignore[arg-type]
    with pytest.raises(pb.LaunchError, match="seed=-1: seeds count from 0"):
        kernel().launch(*ARGUMENTS, seed=-1)
    with pytest.raises(pb.LaunchError, match="on_fault 'ignore': choose one of raise, report"):
        kernel().launch(*ARGUMENTS, on_fault="ignore")  # type: ignore[arg-type]


def test_where_many_blocks_stand_is_one_line() -> None:
    text = FAULTY.replace("FAULT", COUNTS)
    with pytest.raises(pb.StepLimit) as raised:
        pb.Module(text)["k"].launch(8, 64, [np.zeros(512, np.int32)], max_steps=1000)
    assert "all threads of blocks 0-7 stand at @%p1 bra AGAIN at PTX line " in str(raised.value)
