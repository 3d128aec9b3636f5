"""The device's clock: what CUDA events read when there is no GPU.

It is a picture of order and overlap, never a time. A clock lasts one nanosecond. A kernel lasts
as long as the emulator says, and the device runs one kernel after another. A copy costs
`COPY_START` plus one clock for 16 bytes (as fast as a good PCIe link), and there is one copy
engine a direction, so copies in two streams overlap with kernels and with each other as they do
on a GPU. The legacy default stream waits for every blocking stream and they for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

LAUNCH_START = 2000
COPY_START = 1000
COPY_BYTES = 16  # a clock
DEVICE_BYTES = 1024  # a clock, device to device
LEGACY = 0  # the default stream


class Engine(Enum):
    """What can be busy."""

    COMPUTE = "compute"
    TO_DEVICE = "host to device"
    TO_HOST = "device to host"


@dataclass
class _Stream:
    ready: int = 0
    blocking: bool = True


class Clock:
    """When each stream, engine and event was ready, in clocks since the program began."""

    def __init__(self) -> None:
        self.now = 0  # the host's: moves only when the host waits
        self._streams: dict[int, _Stream] = {LEGACY: _Stream()}
        self._engines = dict.fromkeys(Engine, 0)
        self._events: dict[int, int] = {}

    def open(self, stream: int, blocking: bool) -> None:
        """Make a stream; `blocking` streams order themselves with the legacy stream."""
        self._streams[stream] = _Stream(self.now, blocking)

    def _stream(self, stream: int) -> _Stream:
        """A stream by number. One made before cudaDeviceReset begins anew, blocking."""
        return self._streams.setdefault(stream, _Stream())

    def ready(self, stream: int) -> int:
        """When all work now in `stream`, and what it must wait for, is done."""
        own = self._stream(stream)
        if not own.blocking:
            return own.ready
        if stream == LEGACY:
            return max(item.ready for item in self._streams.values() if item.blocking)
        return max(own.ready, self._streams[LEGACY].ready)

    def run(self, stream: int, engine: Engine, clocks: int) -> None:
        """Put work of a known length into a stream."""
        start = max(self.now, self.ready(stream), self._engines[engine])
        self._stream(stream).ready = self._engines[engine] = start + clocks

    def launch(self, stream: int, clocks: int) -> None:
        """A kernel of `clocks` clocks."""
        self.run(stream, Engine.COMPUTE, LAUNCH_START + clocks)

    def copy(self, stream: int, size: int, to_device: bool, to_host: bool) -> None:
        """A copy of `size` bytes; neither direction set means inside the device."""
        if to_device or to_host:
            engine = Engine.TO_DEVICE if to_device else Engine.TO_HOST
            self.run(stream, engine, COPY_START + size // COPY_BYTES)
        else:
            self.run(stream, Engine.COMPUTE, COPY_START + size // DEVICE_BYTES)

    def record(self, event: int, stream: int) -> None:
        """The event takes the time at which the stream's work so far is done."""
        self._events[event] = max(self.now, self.ready(stream))

    def wait(self, stream: int, event: int) -> None:
        """Work put into `stream` from now on starts after the event."""
        own = self._stream(stream)
        own.ready = max(own.ready, self._events.get(event, 0))

    def synchronize(self, stream: int | None = None) -> None:
        """The host waits for one stream, or for all."""
        streams = list(self._streams) if stream is None else [stream]
        self.now = max(self.now, *map(self.ready, streams))

    def elapsed(self, start: int, end: int) -> int:
        """Clocks between two recorded events; KeyError names one that was not."""
        return self._events[end] - self._events[start]
