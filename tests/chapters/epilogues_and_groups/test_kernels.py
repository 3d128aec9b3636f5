"""The kernels of *Epilogues and groups*: right under every schedule, every slip found."""

from __future__ import annotations

import functools
import math
import re
from typing import Any

import numpy as np
import pytest

from phasebit import hardware
from phasebit.chapters.epilogues_and_groups import epilogues, fused_slips
from phasebit.chapters.epilogues_and_groups.epilogues import (
    FETCHED,
    FUSED,
    GATED,
    GROUPS,
    KERNELS,
    STEPS,
    Made,
    Numbers,
    Programs,
    with_constants,
    with_steps,
    without_apart,
)
from tests.kernels import targets

SCHEDULES = "eager", "late", "random"
BOTH, SHORT, SILU, WIDE = (
    "both groups make each tile", "a short chain", "another activation", "wide tiles",
)  # fmt: skip
SHORT_STEPS, SILU_STEPS = ("Alpha", "Residual", "Amax"), ("RowScale", "Silu")
BY_TAIL = epilogues.short(STEPS)


@functools.cache
def built() -> Programs:
    """The kernels and some variants, with few slots."""
    fused = without_apart(epilogues.source(FUSED))
    texts = {
        FUSED: epilogues.source(FUSED),
        GATED: epilogues.source(GATED),
        GROUPS: epilogues.source(GROUPS),
        BOTH: with_constants(with_steps(fused, SHORT_STEPS), TEAM=2),
        SHORT: with_steps(fused, SHORT_STEPS), SILU: with_steps(fused, SILU_STEPS),
        FETCHED: epilogues.source(FETCHED), WIDE: epilogues.together(epilogues.source(FETCHED)),
    }  # fmt: skip
    return Programs({name: with_constants(text, SLOTS=3) for name, text in texts.items()})


def clean(made: Made) -> None:
    assert not made.run.findings, made.run.findings[0]
    assert not made.wrong


def fresh() -> int:
    """Other numbers in each run."""
    return int(np.random.default_rng().integers(1 << 30))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_file_holds_one_idea(kernel: str) -> None:
    lines = epilogues.files.kernel(f"{epilogues.FOLDER}/{kernel}").splitlines()
    assert lines[0].startswith("// ") and len(lines) <= 200 and max(map(len, lines)) <= 100


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", KERNELS)
def test_compiles_without_spills_or_warnings(kernel: str) -> None:
    texts = {each: epilogues.source(each) for each in KERNELS}
    found = targets.assemble_each(texts, "sm_90a")[kernel]
    assert found.warnings == ""  # ptxas warns of multiplications that it must not overlap
    assert found.resources and not any(use.spills for use in found.resources)


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_an_epilogue_is_right_under_every_schedule(schedule: str) -> None:
    given = Numbers.draw(*fused_slips.SHAPE, fresh())
    clean(epilogues.fused(built(), SHORT, given, SHORT_STEPS, workers=1, schedule=schedule))
    made = epilogues.grouped(built(), GROUPS, (3, 0, 130, 0, 1), 40, 40, workers=1,
                           schedule=schedule, seed=fresh())  # fmt: skip
    clean(made)
    if schedule != "late":
        return
    clean(epilogues.fused(built(), FUSED, given, STEPS, workers=1))
    clean(epilogues.gated(built(), GATED, 130, 72, 72, workers=1, seed=fresh()))
    for variant, steps in ((BOTH, SHORT_STEPS), (SILU, SILU_STEPS), (FETCHED, BY_TAIL),
                           (WIDE, BY_TAIL)):  # fmt: skip
        clean(epilogues.fused(built(), variant, given, steps, workers=1))


@pytest.mark.nvcc
@pytest.mark.parametrize(("m", "n", "k"), [(1, 8, 8), (129, 8, 200)])
def test_tiny_and_thin(m: int, n: int, k: int) -> None:
    given = Numbers.draw(m, n, k, fresh())
    clean(epilogues.fused(built(), SHORT, given, SHORT_STEPS, in_place=True))
    clean(epilogues.fused(built(), FETCHED, given, BY_TAIL, in_place=True))


@pytest.mark.nvcc
def test_infinities_and_nan_go_where_arithmetic_sends_them() -> None:
    given = Numbers.draw(130, 40, 72, fresh())
    given.a[3, 5], given.b[7, 11] = np.inf, np.nan
    given.__post_init__()
    made = epilogues.fused(built(), SHORT, given, SHORT_STEPS, workers=1)
    clean(made)  # amax is a NaN
    given.b[7, 11] = 1
    given.b[:, 5] = np.where(given.b[:, 5] == 0, 1, given.b[:, 5])
    given.__post_init__()
    clean(epilogues.fused(built(), SHORT, given, SHORT_STEPS, workers=1))  # amax is infinite


def test_the_shorter_gelu_is_near() -> None:
    """The polynomial of ``GeluByTail``, with the numbers that its text has, in f64."""
    text = epilogues.source(FETCHED)
    body = text[text.index("struct GeluByTail") : text.index("struct Silu")]
    inner, exponent, *factors = map(float, re.findall(r"-?\d\.\d{3,}(?=f?[,) *])", body))
    x = np.linspace(-8, 8, 4001)
    t, tail = 1 / (1 + inner * np.abs(x)), 0.0
    for factor in factors:
        tail = tail * t + factor
    tail = tail * t * np.exp2(exponent * x * x)
    right = np.array([math.erfc(abs(each) / 2**0.5) / 2 for each in x])
    assert len(factors) == 5 and abs(tail / right - 1).max() < 4e-5


@pytest.mark.nvcc
def test_where_beta_is_0_the_residual_is_not_read() -> None:
    given = Numbers.draw(20, 40, 72, fresh(), beta=0.0)
    given.residual.view(np.uint16)[:] = 0x7FC0
    clean(epilogues.fused(built(), SHORT, given, SHORT_STEPS, in_place=True, workers=1))
    clean(epilogues.fused(built(), FETCHED, given, BY_TAIL, in_place=True, workers=1))


@pytest.mark.nvcc
@pytest.mark.parametrize("sizes", [(0, 0, 5, 0), (1, 1, 1, 1, 129)])
def test_groups_of_every_kind(sizes: tuple[int, ...]) -> None:
    clean(epilogues.grouped(built(), GROUPS, sizes, 24, 72, seed=fresh()))


@pytest.mark.nvcc
def test_many_blocks_and_few_tiles() -> None:
    clean(epilogues.grouped(built(), GROUPS, (2, 0, 3), 136, 8, workers=3, seed=fresh()))


@pytest.mark.gpu
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU")
@pytest.mark.parametrize("workers", [1, 7])
def test_right_on_the_gpu(workers: int) -> None:
    on: dict[str, Any] = {"workers": workers, "device": "gpu"}
    for shape in ((130, 264, 712), (1, 8, 8), (129, 8, 200), (700, 520, 264)):
        given = Numbers.draw(*shape, fresh())
        clean(epilogues.fused(built(), FUSED, given, STEPS, **on))
        clean(epilogues.fused(built(), SHORT, given, SHORT_STEPS, in_place=True, **on))
        clean(epilogues.fused(built(), BOTH, given, SHORT_STEPS, **on))
        for kind in (FETCHED, WIDE):
            clean(epilogues.fused(built(), kind, given, BY_TAIL, **on))
        given.a[0, 1], given.b[3, 2] = np.inf, np.nan
        given.__post_init__()
        clean(epilogues.fused(built(), SHORT, given, SHORT_STEPS, **on))
    for m, h, k in ((130, 72, 72), (1, 8, 8), (300, 328, 520)):
        clean(epilogues.gated(built(), GATED, m, h, k, seed=fresh(), **on))
    for sizes in ((3, 0, 130, 0, 1), (0, 0, 5, 0), (1, 1, 1, 1, 129), (300, 0, 40, 129)):
        clean(epilogues.grouped(built(), GROUPS, sizes, 136, 520, seed=fresh(), **on))


@pytest.mark.nvcc
def test_steps_apart_move_more_bytes() -> None:
    given = Numbers.draw(128, 128, 64, fresh())
    runs = epilogues.separately(built(), FUSED, given, ("Bias", "Gelu"))
    assert not any(run.findings for run in runs)
    for run in runs[1:]:
        assert run.counters["bytes.global.store"] == 2 * 128 * 128


@functools.cache
def slipped() -> Programs:
    return fused_slips.programs()


@pytest.mark.nvcc
@pytest.mark.parametrize("name", fused_slips.SLIPS)
def test_every_slip_is_found_or_said_to_be_silent(name: str) -> None:
    said = fused_slips.verdict(slipped(), name)
    assert re.fullmatch(fused_slips.SLIPS[name].says, said), said


def test_what_is_no_step_is_refused() -> None:
    given: Any = Numbers.draw(1, 8, 8, 1)
    with pytest.raises(ValueError, match="no step Relu"):
        epilogues.expected(("Relu",), given)
