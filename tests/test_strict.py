"""Findings as an error: of one launch, or of all."""

from __future__ import annotations

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
