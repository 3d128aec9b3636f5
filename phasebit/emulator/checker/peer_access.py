"""May a kernel touch the memory of another device?  Only after cudaDeviceEnablePeerAccess."""

from __future__ import annotations

import numpy as np

from phasebit.emulator.checker.reports import Findings
from phasebit.emulator.errors import NoPeerAccess
from phasebit.emulator.machine.company import Seat
from phasebit.emulator.machine.device_memory import EVERY_DEVICE, Allocation
from phasebit.emulator.machine.group import AccessObserver, Group
from phasebit.emulator.machine.scheduler import Machine
from phasebit.emulator.ptx.placement import GLOBAL_BASE
from phasebit.emulator.ptx.types import Value


class PeerAccess(AccessObserver):
    """Looks once for each instruction and allocation; :class:`Bounds` has looked before."""

    def __init__(self, machine: Machine, findings: Findings) -> None:
        self.machine = machine
        self.seat: Seat = machine.seat
        self.findings = findings
        self.allowed: dict[int, Allocation] = {}
        """Access -> the allocation that it reached last time."""

    def global_addresses(self, g: Group, first: Value, span: int, align: int, access: int) -> None:
        """Global addresses, valid ones: of a device that this one may reach?"""
        low, high = int(np.min(first)), int(np.max(first))
        known = self.allowed.get(access)
        if known is not None and known.address <= low and high < known.address + known.size:
            return
        for i, address in enumerate(g.spread(first).tolist()):
            owner = self.machine.memory.find(address - GLOBAL_BASE)
            if owner is None or owner.device in (EVERY_DEVICE, self.seat.device):
                continue
            if not self.seat.reaches(owner.device):
                raise NoPeerAccess(
                    "{} on device {} touches {}, memory of device {}, to which device {} has no "
                    "access: {}; call cudaDeviceEnablePeerAccess({}, 0) while device {} is current",
                    g.batch.describe(g.lanes[i : i + 1]), self.seat.device,
                    owner.name or "an array", owner.device, self.seat.device,
                    self.findings.place(access), owner.device, self.seat.device,
                )  # fmt: skip
        whole = self.machine.memory.find(low - GLOBAL_BASE)
        if whole is not None and high < whole.address + whole.size:
            self.allowed[access] = whole


__all__ = ["PeerAccess"]
