"""Several units of PTX as one module."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator.errors import PtxError
from phasebit.launching.launch import Module

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
USER = (
    HEAD
    + """
.extern .global .align 4 .u32 shared_by_units;
.extern .func (.param .b32 back) one ();
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<4>; .reg .b64 %rd<3>;
    { .param .b32 back; call (back), one, (); ld.param.b32 %r1, [back]; }
    ld.global.u32 %r2, [shared_by_units]; add.u32 %r1, %r1, %r2;
    ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd1, %rd1; st.global.u32 [%rd1], %r1; ret;
}
"""
)
VARIABLE = ".visible .global .align 4 .u32 shared_by_units = 40;\n"


def one(value: int, linkage: str = ".visible") -> str:
    body = f"{{ .reg .b32 %r<2>; mov.b32 %r1, {value}; st.param.b32 [back], %r1; ret; }}\n"
    return f"{linkage} .func (.param .b32 back) one ()\n{body}"


def answer(*units: str) -> int:
    out = np.zeros(1, np.uint32)
    Module("".join(units))["k"].launch(1, 1, [out])
    return int(out[0])


@pytest.mark.parametrize("turned", [False, True])
def test_a_definition_takes_the_place_of_a_declaration(turned: bool) -> None:
    units = [USER, HEAD + VARIABLE + one(2)]
    assert answer(*(units[::-1] if turned else units)) == 42


def test_of_weak_definitions_the_first_counts_and_a_strong_one_beats_them() -> None:
    weak = [HEAD + VARIABLE + one(2, ".weak"), HEAD + one(3, ".weak")]
    assert answer(USER, *weak) == 42
    assert answer(USER, *weak, HEAD + one(5)) == 45


@pytest.mark.parametrize(
    ("units", "message"),
    [
        ((USER, HEAD + VARIABLE + one(2), HEAD + one(3)), r"line \d+: one is defined in two units"),
        ((USER, HEAD + VARIABLE, HEAD + VARIABLE), "shared_by_units is defined in two units"),
        ((USER, HEAD + one(2)), "shared_by_units is declared .extern, and no unit defines it"),
        ((USER, (HEAD + one(2)).replace("90a", "80")), "units for sm_90a and sm_80"),
        ((USER, HEAD + VARIABLE), "k calls one, which has no body here"),
        ((USER, HEAD + "nonsense"), "line 17: 'nonsense' cannot stand"),
    ],
)
def test_what_does_not_fit_is_an_error_with_its_line(units: tuple[str, ...], message: str) -> None:
    with pytest.raises(PtxError, match=message):
        answer(*units)
