"""Tensor maps that a kernel changes (PTX ISA 9.7.9.28, 9.7.13.16).

The emulator's tensor maps are as opaque as the driver's: these instructions, and copies of all
128 bytes, are the only way to make one from another.  One can begin with 128 zeros, as Triton
does: a map in which nothing is set yet.
"""

from __future__ import annotations

import numpy as np

from phasebit.emulator.copy_engine.copy_observer import BulkCopyObserver
from phasebit.emulator.copy_engine.tensormap import BLANK, SIZE, decode, replaced
from phasebit.emulator.errors import LaunchError
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.ops.bulk import access_of, each, fault
from phasebit.emulator.ptx.table import collective, effect
from phasebit.emulator.ptx.types import Value

MODE = {"tile": ("mode", "tile")}
WHOLE = ("global_address", "rank", "elemtype", "interleave_layout", "swizzle_mode",
         "swizzle_atomicity", "fill_mode")  # fmt: skip
ORDERED = ("box_dim", "global_dim", "global_stride", "element_stride")
WORDS = frozenset({"b32", "b64"})


@effect("tensormap.replace", "a y", {"b1024"}, WORDS, section="9.7.9.28",
        options=[MODE, {f: ("field", f) for f in WHOLE}])  # fmt: skip
def replace(
    g: Group, address: Value, value: Value, *, field: str, mode: str = "tile",
    space: str = "generic",
) -> None:  # fmt: skip
    """tensormap.replace: change one field of a tensor map in shared or global memory.

    The rank is given less one; element types are not numbered as in the driver.
    """
    _replace(g, address, np.uint32(0), value, field, space)


@effect("tensormap.replace", "a u32 y", {"b1024"}, WORDS, section="9.7.9.28",
        options=[MODE, {f: ("field", f) for f in ORDERED}])  # fmt: skip
def replace_one(
    g: Group, address: Value, ordinal: Value, value: Value, *, field: str, mode: str = "tile",
    space: str = "generic",
) -> None:  # fmt: skip
    """tensormap.replace of the extent or the stride of one dimension; strides in bytes."""
    _replace(g, address, ordinal, value, field, space)


def _replace(
    g: Group, address: Value, ordinal: Value, value: Value, field: str, space: str
) -> None:
    machine, access = g.batch.machine, access_of(g)
    for one, (_, which, number) in each(g, address, ordinal, value):
        mine = address if not isinstance(address, np.ndarray) else address[g.lanes == one.lanes[0]]
        where = int(one.spread(one.index(mine, space, SIZE, 0, access))[0])
        for told in machine.told[BulkCopyObserver.changes_map]:
            told(one, where, access)
        image = g.memory.u1[where : where + SIZE].tobytes()
        if not any(image):
            image = BLANK
        if decode(image) is None:
            raise fault(
                one,
                "there is no tensor map to change: copy one there, whole, or 128 zeros, first",
            )
        try:
            new = replaced(image, field, which, number)
        except LaunchError as error:
            raise fault(one, str(error)) from error
        g.memory.u1[where : where + SIZE] = np.frombuffer(new, np.uint8)


@collective("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic", "a a u32",
            section="9.7.13.16",
            options=[{"release": ("sem", "release"), "sync": ("sync", True)}])  # fmt: skip
def cp_fenceproxy(
    g: Group, target: Value, address: Value, size: Value, *, sem: str = "release", sync: bool = True
) -> None:
    """tensormap.cp_fenceproxy: copy a tensor map to global memory, for the copy engine to see."""
    machine, access = g.batch.machine, access_of(g)
    done: set[tuple[int, int]] = set()
    for one, (to, origin, count) in each(g, target, address, size):
        if count != SIZE:
            raise fault(one, f"a tensor map has {SIZE} bytes, not {count}")
        key = (to, int(one.lanes[0]) // g.batch.threads)
        if key in done:
            continue
        done.add(key)
        kind = np.uint32 if origin < 1 << 32 else np.uint64
        source_at = one.shared_index(kind(origin), kind(0), SIZE, 0, SIZE, access)
        at = int(one.spread(source_at)[0])
        where = int(
            one.spread(one.global_index(np.uint64(to), np.uint64(0), SIZE, 0, 64, access))[0]
        )
        for loads in machine.told[BulkCopyObserver.loads_map]:
            loads(one, at, access)
        for changes in machine.told[BulkCopyObserver.changes_map]:
            changes(one, where, access)
        for publishes in machine.told[BulkCopyObserver.publishes_map]:
            publishes(where)
        g.memory.u1[where : where + SIZE] = g.memory.u1[at : at + SIZE]
    for fences in machine.told[LaunchObserver.fences]:
        fences(g, "gpu", "acq_rel")
    machine.now += 1
