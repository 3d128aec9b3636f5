"""Random programs of whole blocks against a model that knows every step: ``proof.meetings``.

A program as it was made is right: no finding under any schedule, and always the answer that the
model computes. Then one synchronisation of it is made weaker. Where the model is certain that
nothing orders two accesses any more, or the answers come to differ, the checker must find it; where
the model sees nothing amiss, it must be silent.

    pytest tests/emulator/test_meetings.py                     # a few seconds
    PHASEBIT_MEETINGS_SECONDS=600 PHASEBIT_MEETINGS_SEED=7 pytest -s tests/emulator/test_meetings.py
"""

from __future__ import annotations

import itertools
import os
import random
import re
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest

from phasebit.emulator import Finding, Module
from phasebit.emulator.checker.barrier_order import BarrierOrder
from phasebit.emulator.checker.order import Order
from phasebit.emulator.checker.proxies import Engine
from phasebit.emulator.checker.races import Races
from proof.happens_before import Model, Shape, Step
from proof.meeting_ptx import Text
from proof.meetings import steps_of
from proof.program import module
from proof.weakening import weakened

SECONDS = float(os.environ.get("PHASEBIT_MEETINGS_SECONDS", "0"))
SEED = int(os.environ.get("PHASEBIT_MEETINGS_SEED", "0"))

CHECKED = [("eager", 0), ("late", 0), ("random", 1)]
PLAIN = [*CHECKED, ("random", 2), ("random", 3)]
MORE = [("random", seed) for seed in range(4, 12)]
"""For a race that a flag hides, or not, by what it holds when it is read."""
PROGRAMS, OF_EACH = 6, 4
"""At least so many programs, and so many weaker versions of each."""


class Case:
    """A program that can be launched again and again."""

    def __init__(self, name: str, shape: Shape, steps: list[Step]) -> None:
        self.program = Text(name, shape, steps).program()
        self.module = Module(module([self.program]))
        self.kernel = self.module[name]
        self.inputs = np.ascontiguousarray(self.program.draw())
        self.model = Model(shape, self.inputs.view(np.uint32).ravel())
        self.model.run(steps)

    def launch(self, schedule: Any, seed: int, check: bool) -> tuple[list[Finding], Any]:
        """What was found, and every thread's answer."""
        p, answers = self.program, self.program.blank()
        for variable in (f"{p.name}_far", f"{p.name}_flags"):
            self.module.variable(variable)[:] = 0
        run = self.kernel.launch(
            p.blocks, p.threads, [self.inputs, answers], check=check, on_fault="report",
            max_steps=20_000, schedule=schedule, seed=seed,
        )  # fmt: skip
        return run.findings, answers[0].astype(np.uint32)


def wrong_as_made(name: str, seed: int = 5) -> list[str]:
    """What is amiss with a program as it was made."""
    case = Case(name, *steps_of(name))
    amiss = [*case.model.problems, *case.model.doubts]
    for schedule, number in (*CHECKED, ("random", seed)):
        found, answers = case.launch(schedule, number, True)
        amiss += [f"{schedule} {number}: {each}" for each in found]
        if not found and not np.array_equal(answers, case.model.x):
            amiss.append(f"{schedule} {number}: another answer")
    return amiss


def judged(name: str, shape: Shape, steps: list[Step], right: Any) -> tuple[list[str], Case]:
    """What is amiss with what the checker says of a weaker program, and the case.

    ``right``: the answers that it should have; None where the change itself may change them.
    """
    case = Case(name, shape, steps)
    model = case.model
    if not model.problems and not model.doubts:
        right = model.x
    rules = sorted({each.rule for how in CHECKED for each in case.launch(*how, True)[0]})
    amiss = []
    if not rules:
        flags = any(step.op in ("flag", "count") for step in steps)
        luck = flags and any(case.launch(*how, True)[0] for how in MORE)
        if model.certain and not luck:
            amiss.append(f"missed: {model.problems[0]}")
        for how in PLAIN:
            found, answers = case.launch(*how, False)
            if found:
                amiss.append(f"missed: {how} ends with {found[0]}")
            elif not np.array_equal(answers, answers if right is None else right):
                amiss.append(f"missed: {how} has another answer")
            right = answers if right is None else right
    elif not model.problems and not model.doubts:
        amiss.append(f"false alarm: {rules}")
    return amiss, case


def verdict(model: Model) -> str:
    """What a model says of a program: it has a race, or none, or its barriers do not tell."""
    return "certain" if model.certain else "clean" if not model.doubts else "?"


def kind_of(what: str) -> str:
    """The kind of a change, without the numbers of steps."""
    return what.split(" ", 1)[1].split(" [")[0]


def chosen(name: str, count: int) -> list[tuple[str, Shape, list[Step]]]:
    """Some weaker versions of a program: of each kind of change about as many."""
    dice = random.Random(name)
    kinds: dict[str, list[tuple[str, Shape, list[Step]]]] = {}
    for way in weakened(*steps_of(name)):
        kinds.setdefault(kind_of(way[0]), []).append(way)
    some = dice.sample(sorted(kinds), min(count, len(kinds)))
    return [dice.choice(kinds[kind]) for kind in some]


def test_programs_as_made_and_weaker() -> None:
    """A few, or as many as there is time for."""
    until, seen = time.monotonic() + SECONDS, Counter[str]()
    amiss: list[str] = []
    for number in itertools.count(SEED * 100_000):
        done = number - SEED * 100_000
        if done >= PROGRAMS and time.monotonic() > until:
            break
        name = f"meeting_{number:05}"
        amiss += [f"{name}: {text}" for text in wrong_as_made(name)]
        right = Case(name, *steps_of(name)).model.x
        for what, shape, steps in chosen(name, OF_EACH):
            found, case = judged(name, shape, steps, None if "this warp" in what else right)
            seen[verdict(case.model)] += 1
            amiss += [f"{name}, {what}: {text}" for text in found]
    print(done, "programs", dict(seen))
    assert not amiss, "\n".join(amiss[:20])
    assert seen["certain"] and seen["clean"]


def nothing(*_: Any) -> None:
    """In place of a rule."""


def at_once(self: Order, g: Any, position: int, published: Any, home: Any) -> None:
    self.acquire(g, published)


def first_missed(kind: str, problem: str, candidates: int = 12) -> str:
    """The first change of a kind that leads to such a problem, and that the checker misses."""
    for number in range(200):
        name = f"meeting_{number:05}"
        for what, shape, steps in weakened(*steps_of(name)):
            if kind_of(what) != kind:
                continue
            model = Model(shape)
            model.run(steps)
            if not model.certain or not re.match(problem, model.problems[0]):
                continue
            right = Case(name, *steps_of(name)).model.x
            if any("missed" in text for text in judged(name, shape, steps, right)[0]):
                return f"{name}, {what}"
            candidates -= 1
            if not candidates:
                return ""
    return ""


@pytest.mark.parametrize(("where", "rule", "instead", "kind", "problem"), [
    (Races, "_against_writer", nothing, "warpsync: without it", "race at Step.op='load'.*shared"),
    (Races, "_against_readers", nothing, "warpsync: without it", "race at Step.op='store'.*shared"),
    (Engine, "look", nothing, "proxy: without it", "proxy at Step.op='bulk_store'"),
    (Engine, "_overwrites", nothing, "proxy: without it", "proxy at Step.op='bulk_load'"),
    (Order, "acquire_later", at_once, "wait: relaxed", "race"),
])  # fmt: skip
def test_a_rule_that_is_switched_off_is_missed(
    where: Any, rule: str, instead: Any, kind: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, rule, instead)
    assert first_missed(kind, problem)


def test_an_order_that_the_checker_forgets_is_a_false_alarm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(BarrierOrder, "syncs_warp", nothing)
    assert any("race" in text for n in range(5) for text in wrong_as_made(f"meeting_{n:05}"))
