"""How long launches take on a GPU.

A launch is queued behind reads of other memory that keep the GPU busy meanwhile, or the time would
be that of Python, which queues slowly.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from phasebit.launching.driver import Driver

_ROUND, _WARM_UP, _STALL = 40, 10, 40
"""Launches timed at a time, launches before them, and reads of 256 MiB before those."""

_FLUSH_BYTES = 256 << 20

# Each thread reads 16 times 16 bytes, a grid apart. The store never happens, since all is zero;
# the loads happen because of it.
_FLUSH = """
.version 6.4
.target sm_75
.address_size 64
.visible .entry flush(.param .u64 memory)
{
    .reg .pred %p;
    .reg .u32 %i, %n, %t, %a, %b, %c, %d, %sum;
    .reg .u64 %at, %start, %step;
    ld.param.u64 %start, [memory];
    mov.u32 %i, %ctaid.x;
    mov.u32 %n, %ntid.x;
    mov.u32 %t, %tid.x;
    mad.lo.u32 %i, %i, %n, %t;
    mul.wide.u32 %at, %i, 16;
    add.u64 %at, %at, %start;
    mov.u32 %t, %nctaid.x;
    mul.lo.u32 %n, %n, %t;
    mul.wide.u32 %step, %n, 16;
    mov.u32 %sum, 0;
    mov.u32 %i, 0;
again:
    ld.global.v4.u32 {%a, %b, %c, %d}, [%at];
    or.b32 %sum, %sum, %a;
    or.b32 %sum, %sum, %b;
    or.b32 %sum, %sum, %c;
    or.b32 %sum, %sum, %d;
    add.u64 %at, %at, %step;
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, 16;
    @%p bra again;
    setp.eq.u32 %p, %sum, 0;
    @%p ret;
    st.global.u32 [%start], %sum;
    ret;
}
"""


def microseconds(
    driver: Driver, launches: Sequence[Callable[[], None]], count: int, flush: bool
) -> list[float]:
    """Between events around each of ``count`` launches, which are taken in turn.

    With ``flush`` a read of other memory comes before each, and no data is in the caches.
    """
    address = driver.reserve(_FLUSH_BYTES)
    try:
        driver.clear(address, _FLUSH_BYTES)
        read = flusher(driver, address)
        turns = itertools.cycle(launches)
        result: list[float] = []
        while len(result) < count:
            part = min(_ROUND, count - len(result))
            for _ in range(0 if flush else _STALL):
                read()
            for launch in itertools.islice(turns, max(_WARM_UP, len(launches))):
                launch()
            result += driver.events_around(
                itertools.islice(turns, part), read if flush else lambda: None
            )
    finally:
        driver.free(address)
    return [milliseconds * 1e3 for milliseconds in result]


def flusher(driver: Driver, address: int) -> Callable[[], None]:
    """A function that launches a kernel which fills the caches with 256 MiB of zeros.

    That is more than any L2 cache holds. Writing them would leave work behind: what is in the
    cache and was changed must go to memory while the next kernel runs.
    """
    grid = (_FLUSH_BYTES // 16 // 256 // 16, 1, 1)
    return driver.prepare(
        driver.module(_FLUSH), "flush", grid, (256, 1, 1), address.to_bytes(8, "little"), [0]
    )
