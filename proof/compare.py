"""Run the programs here and hold the answers against the GPU's.

Equal means equal in every bit, NaNs with their payload included: the PTX ISA
gives single precision one NaN (0x7fffffff) and half precision 0x7fff, and where
it leaves a payload open the GPU's choice is what there is to be right about.

Approximate functions are the exception.  The ISA bounds their error, so both
answers must lie within that bound of the true value, computed in double
precision; how many units in the last place apart the two are is reported.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phasebit.launching.launch import Module
from proof import records
from proof.dice import Words
from proof.program import Program, module
from proof.records import Answers

Reals = NDArray[np.float64]
Truths = NDArray[np.bool_]

MOST_STEPS = 200_000
"""Basic blocks that a program may take: all end long before."""


def emulate(program: Program, check: bool = False) -> Words:
    """The emulator's answers to a program: uint64[outputs, threads].

    With ``check`` a finding found is an error: no program of the proof has one.
    """
    inputs, answers = np.ascontiguousarray(program.draw()), program.blank()
    memory = {"inputs": inputs, "outputs": answers}
    maps = [made.of(memory[made.memory]) for made in program.maps]
    run = Module(module([program]))[program.name].launch(
        program.blocks, program.threads, [inputs, answers, *maps], check=check,
        max_steps=MOST_STEPS,
    )
    if run.findings:
        raise AssertionError(f"{program.name}: a false alarm: {run.findings[0]}")
    return answers


@dataclass(frozen=True)
class Bound:
    """The error that the PTX ISA allows an approximate function."""

    function: Callable[..., Reals]
    """The true value, in double precision, of the operands."""
    relative: float = 0.0
    absolute: float = 0.0
    ulps: float = 0.0
    domain: Callable[[Reals], Truths] | None = None
    """Where the bound holds; elsewhere the ISA says nothing."""
    section: str = ""


def _quiet(function: Callable[..., Reals]) -> Callable[..., Reals]:
    def evaluate(*x: Reals) -> Reals:
        with np.errstate(all="ignore"):
            return function(*x)

    return evaluate


def _div(a: Reals, b: Reals) -> Reals:
    return a / b


BOUNDS: dict[str, Bound] = {
    "rcp": Bound(np.reciprocal, ulps=1, section="9.7.3.13"),
    "sqrt": Bound(np.sqrt, relative=2**-23, section="9.7.3.15"),
    "rsqrt": Bound(lambda x: 1 / np.sqrt(x), relative=2**-22.9, section="9.7.3.16"),
    "sin": Bound(np.sin, absolute=2**-20.5, domain=lambda x: np.abs(x) <= 2 * np.pi,
                 section="9.7.3.18"),
    "cos": Bound(np.cos, absolute=2**-20.5, domain=lambda x: np.abs(x) <= 2 * np.pi,
                 section="9.7.3.19"),
    "lg2": Bound(np.log2, absolute=2**-22, relative=2**-22, section="9.7.3.20"),
    "ex2": Bound(np.exp2, ulps=2, section="9.7.3.21"),
    "tanh": Bound(np.tanh, relative=2**-11, section="9.7.3.22"),
    "div_approx": Bound(_div, ulps=2, section="9.7.3.8"),
    "div_full": Bound(_div, ulps=2, section="9.7.3.8"),
    "rcp64": Bound(np.reciprocal, relative=2**-20, section="9.7.3.14"),
    "rsqrt64": Bound(lambda x: 1 / np.sqrt(x), relative=2**-20, section="9.7.3.17"),
}  # fmt: skip

_HALF_BOUNDS = {
    ("tanh", "f16"): 2**-10.987, ("tanh", "bf16"): 2**-8,
    ("ex2", "f16"): 2**-9.9, ("ex2", "bf16"): 2**-7,
}  # fmt: skip
"""Relative errors of the 16-bit forms (9.7.4.8, 9.7.4.9)."""


def floats(kind: str, bits: Words) -> Reals:
    """The numbers that bits mean."""
    if kind == "f64":
        return bits.view(np.float64)
    with np.errstate(invalid="ignore"):  # NaNs that signal
        if kind == "f16":
            return bits.astype(np.uint16).view(np.float16).astype(np.float64)
        if kind == "bf16":
            return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        return bits.astype(np.uint32).view(np.float32).astype(np.float64)


def _ordered(kind: str, bits: Words) -> Reals:
    """Bits of a float as numbers in which neighbours differ by one."""
    width = {"f16": 16, "bf16": 16, "f64": 64}.get(kind, 32)
    top = np.uint64(1 << (width - 1))
    magnitude = (bits & (top - np.uint64(1))).astype(np.float64)
    return np.where(bits & top, -magnitude, magnitude)


def ulps(kind: str, a: Words, b: Words) -> Reals:
    """How many representable numbers apart two answers are; infinite where one is a NaN."""
    apart = np.abs(_ordered(kind, a) - _ordered(kind, b))
    nan_a, nan_b = np.isnan(floats(kind, a)), np.isnan(floats(kind, b))
    return np.where(nan_a != nan_b, np.inf, np.where(nan_a & nan_b, 0.0, apart))


def _halves(kind: str, bits: Words) -> list[Words]:
    if kind.endswith("x2"):
        return [bits & np.uint64(0xFFFF), bits >> np.uint64(16)]
    return [bits]


@dataclass
class Verdict:
    """What became of one program."""

    program: Program
    cases: int
    agreed: int
    """Cases equal, or within the bound."""
    apart: float = 0.0
    """The largest distance of an approximate answer, in units in the last place."""
    example: str = ""
    """The first disagreement, or why there is no answer."""
    error: bool = False

    @property
    def good(self) -> bool:
        """Whether all cases agreed."""
        return self.agreed == self.cases


def judge(program: Program, expected: Words, answer: Words) -> Verdict:
    """Compare the emulator's answers with the GPU's."""
    same = (expected == answer).all(axis=0)
    apart = 0.0
    if program.bound == "nan":
        same |= (ulps("f32", expected[0], answer[0]) == 0) & np.isnan(floats("f32", answer[0]))
    elif program.bound == "mma":
        same, apart = _judge_mma(program, expected, answer)
    elif program.bound:
        same, apart = _judge_bound(program, expected, answer)
    verdict = Verdict(program, program.lanes, int(same.sum()), apart)
    if not verdict.good:
        lane = int(np.argmin(same))
        numbers = [f"{int(x):#x}" for x in program.draw()[:, lane]]
        verdict.example = (
            f"{program.name}, thread {lane}: inputs {', '.join(numbers)}: GPU "
            f"{[f'{int(x):#x}' for x in expected[:, lane]]}, here "
            f"{[f'{int(x):#x}' for x in answer[:, lane]]}"
        )
    return verdict


def _judge_mma(program: Program, expected: Words, answer: Words) -> tuple[Truths, float]:
    """Sums of random products: the order of additions is open."""
    same = np.ones(program.lanes, bool)
    worst = 0.0
    for kind, e, a in zip(program.outputs, expected, answer, strict=True):
        half = kind.removesuffix("x2")
        for x, y in zip(_halves(kind, e), _halves(kind, a), strict=True):
            fx, fy = floats(half, x), floats(half, y)
            slack = {"f16": 2**-8, "f64": 2**-48}.get(half, 2**-16)
            same &= np.abs(fx - fy) <= slack * (np.abs(fx) + 8)
            worst = max(worst, float(ulps(half, x, y).max()))
    return same, worst


def _judge_bound(program: Program, expected: Words, answer: Words) -> tuple[Truths, float]:
    bound = BOUNDS[program.bound]
    words = program.opcodes[0].split(".")
    kind = words[-1]
    half, flush = kind.removesuffix("x2"), "ftz" in words
    operands = program.draw()
    guarded = len(operands) > 0 and program.inputs[0] == "pred"
    if guarded:  # the guard comes first, what the destination held last
        operands = operands[1:-1]
    if "immediate" in program.name:
        apart = ulps(half, expected[0], answer[0])
        return apart <= 2 * bound.ulps, float(apart[np.isfinite(apart)].max(initial=0.0))
    same = np.ones(program.lanes, bool)
    worst = 0.0
    for part in range(2 if kind != half else 1):
        e, a = _halves(kind, expected[0])[part], _halves(kind, answer[0])[part]
        x = [floats(half, _halves(kind, row)[part]) for row in operands]
        if flush and half == "f32":
            x = [np.where(np.abs(v) < 2.0**-126, np.copysign(0.0, v), v) for v in x]
        true = _quiet(bound.function)(*x)
        fa = floats(half, a)
        tiny, fraction = {
            "f16": (2.0**-14, 10),
            "bf16": (2.0**-126, 7),
            "f64": (2.0**-1022, 52),
        }.get(half, (2.0**-126, 23))
        with np.errstate(all="ignore"):
            ulp = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(true), tiny))) - fraction)
            relative = _HALF_BOUNDS.get((program.bound, half), bound.relative)
            room = bound.absolute + relative * np.abs(true) + bound.ulps * ulp
            if half != "f32":
                room = room + ulp
            close = np.abs(fa - true) <= room
        ok = (e == a) | close
        distance = ulps(half, e, a)
        if bound.domain is not None:
            outside = ~bound.domain(x[0])
            ok |= outside & np.isfinite(x[0])
            distance = np.where(outside, 0, distance)
        same &= ok
        worst = max(worst, float(distance[np.isfinite(distance)].max(initial=0.0)))
    return same, worst


def replay(program: Program, answers: Answers, check: bool = False) -> Verdict | None:
    """Judge a program by recorded answers; None when they hold none to this very program.

    Where only some threads' answers were kept, the digest of all of them decides
    about the others (not for approximate functions, which need not be equal).
    """
    if not answers.holds(program):
        return None
    try:
        found = emulate(program, check)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        why = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        return Verdict(program, program.lanes, 0, example=why, error=True)
    lanes = answers.lanes_of(program)
    expected = found.copy()
    expected[:, :lanes] = records.unpack(program, answers[program.name], lanes)
    verdict = judge(program, expected, found)
    whole = records.digest(records.pack(program, found))
    if verdict.good and not program.bound and whole != answers.digest_of(program):
        verdict.agreed = lanes
        verdict.example = f"{program.name}: not among the first {lanes} threads; run it on a GPU"
    return verdict
