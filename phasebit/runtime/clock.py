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
LEGACY = 0  # the default stream of device 0; that of device d is 2 * d
OWN = 16  # below: the two default streams of each device


class Engine(Enum):
    """What can be busy."""

    COMPUTE = "compute"
    TO_DEVICE = "host to device"
    TO_HOST = "device to host"


@dataclass
class _Stream:
    ready: int = 0
    blocking: bool = True
    device: int = 0


class Clock:
    """When each stream, engine and event was ready, in clocks since the program began."""

    def __init__(self) -> None:
        self.now = 0  # the host's: moves only when the host waits
        self._streams: dict[int, _Stream] = {LEGACY: _Stream()}
        self._engines: dict[tuple[int, Engine], int] = {}
        self._events: dict[int, int] = {}

    def open(self, stream: int, blocking: bool, device: int = 0) -> None:
        """Make a stream; `blocking` streams order themselves with their device's legacy stream."""
        self._streams[stream] = _Stream(self.now, blocking, device)

    def _stream(self, stream: int) -> _Stream:
        """A stream by number. One made before cudaDeviceReset begins anew, blocking."""
        device = stream // 2 if stream < OWN else 0
        return self._streams.setdefault(stream, _Stream(device=device))

    def device_of(self, stream: int) -> int:
        """The device that a stream belongs to."""
        return self._stream(stream).device

    def tied(self, stream: int) -> list[int]:
        """The streams whose work so far comes before the next work of this one: itself first."""
        own = self._stream(stream)
        if not own.blocking:
            return [stream]
        legacy = 2 * own.device
        if stream != legacy:
            return [stream, legacy]
        others = [n for n, s in self._streams.items() if s.blocking and s.device == own.device]
        return [stream, *(n for n in others if n != stream)]

    def streams_of(self, device: int) -> list[int]:
        """All streams of a device."""
        return [number for number, s in self._streams.items() if s.device == device]

    def ready(self, stream: int) -> int:
        """When all work now in `stream`, and what it must wait for, is done."""
        return max(self._stream(number).ready for number in self.tied(stream))

    def run(self, stream: int, engine: Engine, clocks: int) -> None:
        """Put work of a known length into a stream."""
        own = self._stream(stream)
        start = max(self.now, self.ready(stream), self._engines.get((own.device, engine), 0))
        own.ready = self._engines[own.device, engine] = start + clocks

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
