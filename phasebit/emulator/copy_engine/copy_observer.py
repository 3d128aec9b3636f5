"""What asynchronous copies tell whoever listens; see ``machine.events``."""

from __future__ import annotations

from collections.abc import Sequence

from phasebit.emulator.copy_engine.bulk_copies import BulkCopy
from phasebit.emulator.machine.agents import ThreadCopy
from phasebit.emulator.machine.barrier_sites import BarrierSite
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ptx.types import Array


class ThreadCopyObserver:
    """Events of ``cp.async``."""

    def starts_thread_copy(self, g: Group, copy: ThreadCopy) -> None:
        """Threads have asked for copies."""

    def waited_for_thread_copy(self, g: Group, copy: ThreadCopy, lanes: Array) -> None:
        """These threads have waited for copies that they asked for."""

    def thread_copies_arrive(self, g: Group, lanes: Array, site: BarrierSite) -> None:
        """The copies of these threads will arrive at an mbarrier."""


class BulkCopyObserver:
    """Events of bulk copies: ``cp.async.bulk`` and whatever else the copy engine does."""

    def starts_copies(self, g: Group, copies: Sequence[tuple[Group, BulkCopy]]) -> None:
        """Threads of a group ask for copies: each with a group of the thread that asks for it."""

    def lands(self, copy: BulkCopy) -> None:
        """The bytes of a copy have come, and its mbarrier is about to be told."""

    def source_is_free(self, copy: BulkCopy) -> None:
        """The thread has waited until its copy has read."""

    def target_is_written(self, copy: BulkCopy) -> None:
        """The thread has waited until its copy has written."""

    def closes_group(self, g: Group) -> None:
        """Threads close their bulk groups."""

    # -- the proxies ----------------------------------------------------------

    def waits_for_groups(self, g: Group) -> None:
        """Threads have waited until no bulk group of theirs reads any more."""

    def fences_async(self, g: Group, space: str) -> None:
        """``fence.proxy.async``, of ``shared`` or ``global`` memory, or of both: ``""``."""

    def reads_map(self, g: Group, where: int, access: int) -> None:
        """The copy engine reads the tensor map at this byte of the buffer."""

    def loads_map(self, g: Group, where: int, access: int) -> None:
        """A thread reads the tensor map there."""

    def changes_map(self, g: Group, where: int, access: int) -> None:
        """A thread changes the tensor map there."""

    def publishes_map(self, where: int) -> None:
        """``tensormap.cp_fenceproxy`` has written the tensor map there, and released it."""

    def releases_maps(self, g: Group, scope: str) -> None:
        """``fence.proxy.tensormap::generic.release``."""

    def acquires_map(self, g: Group, where: int, scope: str) -> None:
        """``fence.proxy.tensormap::generic.acquire`` of the tensor map there."""


__all__ = ["BulkCopyObserver", "ThreadCopyObserver"]
