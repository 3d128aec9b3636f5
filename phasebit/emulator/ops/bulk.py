"""cp.async.bulk (PTX ISA 9.7.9.25.4) and its groups (9.7.9.27.2): copies by the copy engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from phasebit.emulator.copy_engine.bulk_copies import BulkCopy, Reduced, Side, Stretch, bulk_groups
from phasebit.emulator.copy_engine.copy_observer import BulkCopyObserver
from phasebit.emulator.errors import Fault
from phasebit.emulator.machine.barrier_sites import BarrierSite, sites
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ptx.placement import RANK_SHIFT
from phasebit.emulator.ptx.table import effect
from phasebit.emulator.ptx.types import Value
from phasebit.emulator.tensor_core.cta_pairs import pair_of

LOAD = "cp.async.bulk.shared::{}.global.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.global.shared::cta.bulk_group"
OPERATIONS = [{op: ("op", op) for op in ("add", "min", "max", "inc", "dec", "and", "or", "xor")}]
NUMBERS = frozenset({"f16", "bf16", "b32", "u32", "s32", "b64", "u64", "s64", "f32", "f64"})


# -- what all bulk copies share -------------------------------------------------------


def each(
    g: Group, *operands: Value | None, same: bool = False
) -> list[tuple[Group, list[int]]]:
    """For each thread a group of its own, and its operands.

    CuTe DSL lets whole warps store boxes: ptxas makes one instruction of the copy engine for the
    warp (seen in the SASS), so there it is one thread, if all of the warp say the same.  So do
    CUTLASS's epilogues by inline assembly.  ``same``: copies that write the same bytes however
    often they are done, for which that holds in any program.
    """
    columns = [g.spread(x) for x in operands if x is not None]
    threads: Iterable[int] = range(g.n)
    machine = g.batch.machine
    instruction = machine.executing() if g.n > 1 else None
    if instruction is not None and (same or (
        instruction.generated and machine.program.traits(instruction).engine == "copies"
    )):  # fmt: skip
        said = np.stack([g.lanes // 32, *(c.astype(np.int64) for c in columns)])
        threads = sorted(np.unique(said, axis=1, return_index=True)[1].tolist())
    return [
        (g if g.n == 1 else g.part(np.array([i]), g.pc), [int(c[i]) for c in columns])
        for i in threads
    ]


def fault(g: Group, why: str) -> Fault:
    """The error for a copy that one thread asks for."""
    where = g.batch.machine.where(g)
    return Fault("cp.async.bulk by {}: {}; {}", g.batch.describe(g.lanes), why, where)


def access_of(g: Group) -> int:
    """The number of the instruction."""
    return g.batch.machine.executing_access()


def stretch(g: Group, space: str, address: int, size: int, access: int) -> Stretch:
    """``size`` bytes at an address of one thread; both must be multiples of 16."""
    if address % 16:
        raise fault(g, f"the {space} address {address:#x} is no multiple of 16 bytes")
    kind = np.uint32 if space == "shared" and address < 1 << 32 else np.uint64
    position = g.spread(getattr(g, f"{space}_index")(kind(address), kind(0), size, 0, 16, access))
    return Stretch(g.memory, int(position[0]), size, space)


def check_size(g: Group, size: int) -> None:
    if size % 16:
        raise fault(g, f"the size, {size} bytes, is no multiple of 16")


def site_of(g: Group, address: int) -> BarrierSite:
    """The mbarrier at a thread's operand."""
    kind = np.uint32 if address < 1 << 32 else np.uint64
    return sites(g, kind(address), "shared")[0][0]


def begin(
    g: Group, source: Side, target: Side, size: int, access: int, site: BarrierSite | None
) -> None:
    """Put one thread's copy under way."""
    begin_together(g, [(g, asked(g, source, target, size, access, site))])


def begin_together(g: Group, copies: Sequence[tuple[Group, BulkCopy]]) -> None:
    """Put copies under way for which threads of ``g`` ask at once, in this order."""
    machine = g.batch.machine
    for told in machine.told[BulkCopyObserver.starts_copies]:
        told(g, copies)
    for _, copy in copies:
        copy.start()


def asked(
    g: Group, source: Side, target: Side, size: int, access: int, site: BarrierSite | None
) -> BulkCopy:
    """A copy that one thread asks for, not yet under way."""
    machine = g.batch.machine

    def tell() -> None:
        if site is not None:
            site.carrier = access
            for lands in machine.told[BulkCopyObserver.lands]:
                lands(copy)
            site.operate(g, "complete_tx", size, access=access)

    copy = BulkCopy(g.batch, g.lanes, source, target, size, access, site, tell)
    if site is None:
        state = bulk_groups(g.batch)
        state.copies.append((int(state.closed[g.lanes[0]]), copy))
    return copy


def ranks(g: Group, mask: int) -> list[int]:
    """The ranks in a multicast's mask, each a block of the cluster."""
    size = g.batch.machine.cluster_size
    if mask >> size or not mask:
        raise fault(g, f"the mask {mask:#b} must name blocks of a cluster of {size}")
    return [rank for rank in range(size) if mask >> rank & 1]


def at_rank(address: int, rank: int) -> int:
    """The same shared address in another block of the cluster."""
    return rank << RANK_SHIFT | address & ((1 << RANK_SHIFT) - 1)


def counting(barrier: int, rank: int, group: int) -> int:
    """The rank of the block whose mbarrier counts what a multicast brings to the block ``rank``.

    With ``cta_group::2`` the one of the pair that is even or odd as the operand's own.
    """
    return rank if group == 1 else rank & ~1 | barrier >> RANK_SHIFT & 1


def same_block(g: Group, target: Side, site: BarrierSite, group: int = 1) -> None:
    """A copy's mbarrier lies in the block that it copies to, or in the ``group`` of that."""
    batch = g.batch
    start = getattr(target, "start", 0)
    slot = (start - batch.shared_base) // batch.shared_stride
    allowed = (slot,) if group == 1 else pair_of(batch, slot)
    if site.slot not in allowed:
        unit = "the block" if group == 1 else "the pair of blocks"
        raise fault(g, f"mbarrier {site.name} is not in {unit} that is copied to")


# -- the instructions -----------------------------------------------------------------


@effect(f"{LOAD.format('cta')} {LOAD.format('cluster')}", "a a u32 a u64", section="9.7.9.25.4.1",
        optional=1)  # fmt: skip
def bulk_load(
    g: Group, target: Value, address: Value, size: Value, barrier: Value, policy: Value = None
) -> None:
    """cp.async.bulk from global to shared memory; a barrier counts the bytes that have come.

    Addresses and size are multiples of 16; size and barrier as for each thread that asks.
    """
    access, copies = access_of(g), []
    for one, (to, origin, count, bar) in each(g, target, address, size, barrier):
        check_size(one, count)
        source = stretch(one, "global", origin, count, access)
        there, site = stretch(one, "shared", to, count, access), site_of(one, bar)
        same_block(one, there, site)
        copies.append((one, asked(one, source, there, count, access, site)))
    begin_together(g, copies)


@effect(f"{LOAD.format('cluster')}.multicast::cluster", "a a u32 a u16 u64",
        section="9.7.9.25.4.1", optional=1)  # fmt: skip
def bulk_multicast(
    g: Group, target: Value, address: Value, size: Value, barrier: Value, mask: Value,
    policy: Value = None,
) -> None:  # fmt: skip
    """cp.async.bulk.multicast: to the same place in each block of a mask; all barriers count."""
    access = access_of(g)
    for one, (to, origin, count, bar, bits) in each(g, target, address, size, barrier, mask):
        check_size(one, count)
        source = stretch(one, "global", origin, count, access)
        for rank in ranks(one, bits):
            there = stretch(one, "shared", at_rank(to, rank), count, access)
            begin(one, source, there, count, access, site_of(one, at_rank(bar, rank)))


@effect("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes", "a a u32 a",
        section="9.7.9.25.4.1")  # fmt: skip
def bulk_to_peer(g: Group, target: Value, address: Value, size: Value, barrier: Value) -> None:
    """cp.async.bulk from the block's own shared memory to that of another one of the cluster."""
    access = access_of(g)
    for one, (to, origin, count, bar) in each(g, target, address, size, barrier):
        check_size(one, count)
        source = stretch(one, "shared", origin, count, access)
        there, site = stretch(one, "shared", to, count, access), site_of(one, bar)
        same_block(one, there, site)
        begin(one, source, there, count, access, site)


@effect(STORE, "a a u32 u64", section="9.7.9.25.4.1", optional=1)
def bulk_store(g: Group, target: Value, address: Value, size: Value, policy: Value = None) -> None:
    """cp.async.bulk from shared to global memory, as part of the thread's bulk group."""
    access = access_of(g)
    for one, (to, origin, count) in each(g, target, address, size, same=True):
        check_size(one, count)
        source = stretch(one, "shared", origin, count, access)
        begin(one, source, stretch(one, "global", to, count, access), count, access, None)


@effect("cp.reduce.async.bulk.global.shared::cta.bulk_group", "a a u32 u64", NUMBERS,
        section="9.7.9.25.4.2", optional=1,
        options=[*OPERATIONS, {"noftz": ("noftz", True)}])  # fmt: skip
def bulk_reduce(
    g: Group, target: Value, address: Value, size: Value, policy: Value = None, *, op: str,
    kind: str, noftz: bool = False,
) -> None:  # fmt: skip
    """cp.reduce.async.bulk: combine shared memory into global memory, element by element."""
    access = access_of(g)
    for one, (to, origin, count) in each(g, target, address, size):
        check_size(one, count)
        source = stretch(one, "shared", origin, count, access)
        into = Reduced(stretch(one, "global", to, count, access), op, kind)
        begin(one, source, into, count, access, None)


@effect("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes",
        "a a u32 a", {"b32", "u32", "s32", "b64", "u64"}, section="9.7.9.25.4.2",
        options=OPERATIONS)  # fmt: skip
def bulk_reduce_to_peer(
    g: Group, target: Value, address: Value, size: Value, barrier: Value, *, op: str, kind: str
) -> None:
    """cp.reduce.async.bulk into the shared memory of another block of the cluster."""
    access = access_of(g)
    for one, (to, origin, count, bar) in each(g, target, address, size, barrier):
        check_size(one, count)
        source = stretch(one, "shared", origin, count, access)
        there, site = stretch(one, "shared", to, count, access), site_of(one, bar)
        same_block(one, there, site)
        begin(one, source, Reduced(there, op, kind), count, access, site)


@effect("cp.async.bulk.prefetch.L2.global", "a u32 u64", section="9.7.9.25.4.3", optional=1)
def bulk_prefetch(g: Group, address: Value, size: Value, policy: Value = None) -> None:
    """cp.async.bulk.prefetch: a hint to the L2 cache; address and size are checked."""
    access = access_of(g)
    for one, (origin, count) in each(g, address, size):
        check_size(one, count)
        stretch(one, "global", origin, count, access)


# -- bulk groups ----------------------------------------------------------------------


@effect("cp.async.bulk.commit_group", "", section="9.7.9.27.2.1")
def bulk_commit_group(g: Group) -> None:
    """cp.async.bulk.commit_group: close the group of bulk copies since the last one."""
    bulk_groups(g.batch).closed[g.lanes] += 1
    for told in g.batch.machine.told[BulkCopyObserver.closes_group]:
        told(g)


@effect("cp.async.bulk.wait_group", "u32", section="9.7.9.27.2.2",
        options=[{"read": ("read", True)}])  # fmt: skip
def bulk_wait_group(g: Group, pending: Value, *, read: bool = False) -> None:
    """cp.async.bulk.wait_group N: all but the newest N groups of the thread are done.

    With ``.read``: they have read their sources, and may not have written yet.
    """
    state, machine = bulk_groups(g.batch), g.batch.machine
    limit = np.full(g.batch.lanes, -1, np.int64)
    limit[g.lanes] = state.closed[g.lanes] - int(np.max(pending))
    kept = []
    for number, copy in state.copies:
        if number >= limit[copy.lanes[0]]:
            kept.append((number, copy))
            continue
        copy.fetch()
        for free in machine.told[BulkCopyObserver.source_is_free] if not copy.freed else ():
            free(copy)
        copy.freed = True
        if read:
            kept.append((number, copy))
            continue
        copy.finish()
        for written in machine.told[BulkCopyObserver.target_is_written]:
            written(copy)
    state.copies = kept
    for told in machine.told[BulkCopyObserver.waits_for_groups] if not np.max(pending) else ():
        told(g)
    machine.now += 1
