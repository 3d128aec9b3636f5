"""PTX that was read and translated is kept on disk, so that another process need not do it again.

What a process used last it has at hand: a page runs one kernel under several schedules. The name of
an entry is made from the text, the emulator's sources, Python, NumPy, and what else a translation
depends on; what is in it, from its own digest: an entry that was damaged is made anew. Where no
cache can be had, everything is translated each time, which is all that a cache saves.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from phasebit import build_cache, emulator
from phasebit.emulator import saved_program

SHORTEST = 8192
"""Characters of PTX below which to translate takes no longer than to look."""

MOST_BYTES = 1 << 30
"""What all entries may take together; the ones that were not used for longest go first.

As much as CUDA's own cache of assembled PTX takes by itself. To load an entry takes a tenth of
what reading and translating its text takes.
"""

AT_HAND = 16
"""Entries of which a process keeps what it has made or loaded; each launch may use it again."""

_FOLDER = "translated"
_DIGEST = hashlib.sha256().digest_size
_at_hand: OrderedDict[str, Any] = OrderedDict()


class KeptKernel(emulator.Kernel):
    """A kernel whose translation is kept."""

    def translated(
        self, check: bool, exact: bool, clustered: bool, stepwise: frozenset[int] | None
    ) -> Any:
        """See :meth:`phasebit.emulator.Kernel.translated`."""
        how = (check, exact, clustered, stepwise)
        make = super().translated
        if stepwise:  # a search has asked for these lines, and nobody will again
            return make(*how)
        return _kept(self.ptx, (self.function.name, self.layout.globals, how), lambda: make(*how))


class KeptModule(emulator.Module):
    """A module whose reading and translations are kept."""

    kernel_type: type[emulator.Kernel] = KeptKernel

    def read(self, ptx: str) -> Any:
        """See :meth:`phasebit.emulator.Module.read`."""
        make = super().read
        return _kept(ptx, (), lambda: make(ptx))


@contextlib.contextmanager
def _nothing_collected() -> Iterator[None]:
    """A hundred thousand objects are made, and all stay: to look for garbage doubles the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _kept(ptx: str, facts: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """What ``make`` makes of the text, or made once; it may raise, and nothing is kept then."""
    maker = saved_program.maker() if len(ptx) >= SHORTEST else None
    if maker is None:
        return make()
    key = hashlib.sha256(repr((maker, facts, ptx)).encode()).hexdigest()[:32]
    found = _at_hand.pop(key, None) or _entered(key, make)
    _at_hand[key] = found  # used last
    while len(_at_hand) > AT_HAND:
        _at_hand.popitem(last=False)
    return found


@_nothing_collected()
def _entered(key: str, make: Callable[[], Any]) -> Any:
    """What the entry of this name holds, made and entered where there is none."""
    made: list[Any] = []

    def write(path: Path) -> None:
        made.append(make())
        data = saved_program.save(made[0])
        path.write_bytes(hashlib.sha256(data).digest() + zlib.compress(data, 1))

    with contextlib.suppress(build_cache.CacheError):
        entry = build_cache.keep(f"{_FOLDER}/{key}", write)
        if not made:
            data = _whole(entry)
            if data is not None:
                return saved_program.load(data)
            entry.unlink(missing_ok=True)
            build_cache.keep(f"{_FOLDER}/{key}", write)
        if made:
            build_cache.shrink(entry.parent, MOST_BYTES)
    return made[0] if made else make()


def _whole(entry: Path) -> bytes | None:
    """What an entry holds, or ``None`` where it is not what was written."""
    try:
        kept = entry.read_bytes()
        data = zlib.decompress(kept[_DIGEST:])
        entry.touch()  # used last
    except (OSError, zlib.error):  # another process has removed it, or it is damaged
        return None
    return data if hashlib.sha256(data).digest() == kept[:_DIGEST] else None
