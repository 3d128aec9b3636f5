"""clusterlaunchcontrol (PTX ISA 9.7.13.17): a running block takes over one that has not started."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator.findings import say
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.cluster_launch import NOWHERE, YES, Answer, asks
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.ops.bulk import access_of, at_rank, begin, each, fault, site_of, stretch
from phasebit.emulator.ptx.table import Traits, effect
from phasebit.emulator.ptx.types import Array, Value

SIZE = 16
"""Bytes of an answer."""

ASK = "clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes"
B128 = frozenset({"b128"})
B32 = frozenset({"b32"})


class Refusals:
    """Blocks of a batch that have seen that there is no other cluster to take over."""

    def __init__(self, batch: Batch) -> None:
        self.slots: set[int] = set()
        """Their places in the batch."""


@effect(ASK, "a a", B128, section="9.7.13.17")
def try_cancel(
    g: Group, target: Value, barrier: Value, *, space: str = "generic", everywhere: bool = False
) -> None:
    """clusterlaunchcontrol.try_cancel: ask for a cluster that has not started, to do its work.

    The answer, 16 bytes, goes to shared memory like a bulk copy; an mbarrier counts them.
    """
    machine, access = g.batch.machine, access_of(g)
    for one, (to, bar) in each(g, target, barrier):
        slot = int(g.batch.slots(one.lanes)[0])
        again = slot in g.batch.of(Refusals).slots
        for told in machine.told[LaunchObserver.misused] if again else ():
            told(
                one,
                say(
                    "{} asks for another cluster, though its block has seen that there is "
                    "none left",
                    g.batch.describe(one.lanes),
                ),
            )  # fmt: skip
        answer = Answer(g.batch)
        targets = [(to, bar)]
        if everywhere:
            targets = [(at_rank(to, r), at_rank(bar, r)) for r in range(machine.cluster_size)]
        for place, counter in targets:
            there = stretch(one, "shared", place, SIZE, access)
            begin(one, answer, there, SIZE, access, site_of(one, counter))


@effect(f"{ASK}.multicast::cluster::all", "a a", B128, section="9.7.13.17")
def try_cancel_for_all(
    g: Group, target: Value, barrier: Value, *, space: str = "generic"
) -> None:
    """clusterlaunchcontrol.try_cancel.multicast: one answer, to each block of the cluster.

    It goes to the same place in each, and the barrier there counts it.
    """
    try_cancel(g, target, barrier, space=space, everywhere=True)


def _words(g: Group, answer: Value) -> Array:
    """The four words of each thread's answer: [threads, 4]."""
    return np.ascontiguousarray(g.spread(answer)).view(np.uint32).reshape(g.n, 4)


@effect("clusterlaunchcontrol.query_cancel.is_canceled", "b128 -> pred", {"pred"}, B128,
        section="9.7.13.18", traits=Traits(sees_refusal=True))  # fmt: skip
def is_canceled(g: Group, answer: Value) -> Value:
    """clusterlaunchcontrol.query_cancel.is_canceled: whether an answer names a cluster."""
    yes: Array = _words(g, answer)[:, 3] == YES
    g.batch.of(Refusals).slots.update(np.unique(g.batch.slots(g.lanes[~yes])).tolist())
    return yes


def _first(g: Group, answer: Value) -> Array:
    """The words of the answers; where no cluster is named, a place that is in no grid.

    PTX leaves open what those are.  Compilers ask for the block beside ``is_canceled`` and look
    at it afterwards, or not at all.
    """
    words = _words(g, answer)
    no = words[:, 3] != YES
    if no.any():
        if not asks(g.batch.machine.program):
            raise fault(
                g.part(np.flatnonzero(no)[:1], g.pc),
                "the answer of try_cancel names no block: ask is_canceled first",
            )
        words = np.where(no[:, None], np.uint32(NOWHERE), words)
    return words


@effect("clusterlaunchcontrol.query_cancel.get_first_ctaid.v4", "b128 -> *b32", B32, B128,
        section="9.7.13.18")  # fmt: skip
def get_first_ctaid(g: Group, answer: Value) -> tuple[Any, ...]:
    """clusterlaunchcontrol.query_cancel.get_first_ctaid: the first block of the cluster: x, y, z.

    The fourth word means nothing.
    """
    words = _first(g, answer)
    return tuple(np.ascontiguousarray(words[:, i]) for i in range(4))


@effect("clusterlaunchcontrol.query_cancel", "b128 -> b32", B32, B128, section="9.7.13.18",
        options=[{f"get_first_ctaid::{d}": ("dimension", i) for i, d in enumerate("xyz")}])
def get_one(g: Group, answer: Value, *, dimension: int) -> Value:
    """clusterlaunchcontrol.query_cancel.get_first_ctaid::x, ::y, ::z: one coordinate."""
    return np.ascontiguousarray(_first(g, answer)[:, dimension])
