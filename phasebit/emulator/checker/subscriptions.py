"""Who listens to a launch: the counts, and all that looks for mistakes."""

from __future__ import annotations

from collections.abc import Callable

from phasebit.emulator.checker.access_checks import AccessChecks
from phasebit.emulator.checker.barrier_order import BarrierOrder
from phasebit.emulator.checker.block_ends import BlockEnds
from phasebit.emulator.checker.bounds import Bounds
from phasebit.emulator.checker.convergence import Convergence
from phasebit.emulator.checker.dependent_launches import DependentLaunches
from phasebit.emulator.checker.event_counts import EventCounts
from phasebit.emulator.checker.mbarrier_order import MbarrierOrder
from phasebit.emulator.checker.peer_access import PeerAccess
from phasebit.emulator.checker.proxies import Engine
from phasebit.emulator.checker.races import Races
from phasebit.emulator.checker.register_counts import RegisterCounts
from phasebit.emulator.checker.reports import Findings
from phasebit.emulator.checker.tensor_cells import TensorCells
from phasebit.emulator.checker.tensor_checks import TensorChecks
from phasebit.emulator.checker.tensor_columns import TensorColumns
from phasebit.emulator.checker.traffic import Traffic
from phasebit.emulator.checker.wgmma_checks import WarpGroupChecks
from phasebit.emulator.findings import Finding
from phasebit.emulator.machine.accesses import Access
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.counters import Counters
from phasebit.emulator.machine.scheduler import Machine
from phasebit.emulator.ptx.types import Array


def watch(
    machine: Machine, counters: Counters, found: list[Finding] | None = None,
    accesses: list[Access] | None = None,
) -> None:  # fmt: skip
    """Count what a launch does, and where ``found`` is given look for mistakes.

    ``accesses``: a list for its loads and stores, which needs ``found``.
    """
    machine.told.subscribe(EventCounts(counters))
    if found is None:
        machine.memory.unwritten.clear()  # nobody notes what the kernel writes
    else:
        machine.told.subscribe(*checker(machine, counters, found, accesses))


def checker(
    machine: Machine, counters: Counters, found: list[Finding], accesses: list[Access] | None
) -> list[object]:
    """Those who look for mistakes, in the order in which they are told."""
    findings = Findings(machine, found)
    races = Races(machine, findings)
    mbarriers = MbarrierOrder(races, findings)
    engine = Engine(races, findings, mbarriers)
    cells = TensorCells(races, findings)
    tensor, columns = TensorChecks(cells, engine, mbarriers), TensorColumns(cells)
    warp_groups = WarpGroupChecks(races, findings, engine)
    left: list[Callable[[Batch, int, Array], None]] = [columns.block_ends]
    races.before_store.append(tensor.against_readers)
    if races.facts.bulk:
        left.append(engine.block_ends)
        races.before_store[:0] = [engine.against_readers, warp_groups.against_readers]
        races.global_memory.before_access.append(engine.against_writers)
    return [
        Bounds(machine, findings),
        *([PeerAccess(machine, findings)] if machine.seat is not None else []),
        findings,
        races,
        DependentLaunches(races, findings),
        BlockEnds(races, findings, left),
        AccessChecks(races, findings, Traffic(machine.program, counters), accesses),
        Convergence(machine, findings),
        BarrierOrder(races, findings),
        mbarriers,
        engine,
        engine.world,
        columns,
        tensor,
        warp_groups,
        RegisterCounts(machine, findings),
    ]


__all__ = ["watch"]
