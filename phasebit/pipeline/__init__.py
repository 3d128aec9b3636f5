"""Producers, consumers and the slots between them: specification, simulator, law."""

from __future__ import annotations

from phasebit.pipeline.law import (
    Bounds,
    bounds,
    double_buffering_is_enough,
    exact,
    slots_enough,
    steady_rate,
)
from phasebit.pipeline.rules import INVARIANTS, RULES, InvariantBroken, Rule
from phasebit.pipeline.simulator import Event, Job, Simulation, by_clocks, by_events, simulate, step
from phasebit.pipeline.states import Doing, Pipeline, Slot, State, Worker

__all__ = [
    "INVARIANTS",
    "RULES",
    "Bounds",
    "Doing",
    "Event",
    "InvariantBroken",
    "Job",
    "Pipeline",
    "Rule",
    "Simulation",
    "Slot",
    "State",
    "Worker",
    "bounds",
    "by_clocks",
    "by_events",
    "double_buffering_is_enough",
    "exact",
    "simulate",
    "slots_enough",
    "steady_rate",
    "step",
]
