"""Streams, events and graphs of `torch.cuda`: what stands in their place.

Every launch has ended when the next statement runs, so there is nothing to wait for. A graph is
one of the runtime's: launches in its stream go into it, and run when it is replayed. PyTorch's own
operations run at once, within a capture too, and not again.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from phasebit.runtime import in_process


class Stream:
    """A stream of the device, which it gets when somebody asks for its handle."""

    device_index = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        self._handle: int | None = None
        self._within: list[Stream] = []

    @property
    def cuda_stream(self) -> int:
        """Its handle."""
        if self._handle is None:
            self._handle = _made("cudaStreamCreate")
        return self._handle

    def __enter__(self) -> Stream:
        global _current
        self._within.append(_current)
        _current = self
        return self

    def __exit__(self, *_: object) -> None:
        global _current
        _current = self._within.pop()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_, **__: True  # query, synchronize, wait_stream, wait_event, record_event


class Event:
    """Its times are this machine's, of the emulator at work: they say nothing of a GPU."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.seconds = 0.0
        self._handle: int | None = None

    @property
    def cuda_event(self) -> int:
        """Its handle."""
        if self._handle is None:
            self._handle = _made("cudaEventCreate")
        return self._handle

    def record(self, stream: Any = None) -> None:
        """Now."""
        self.seconds = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds between two events."""
        return (end.seconds - self.seconds) * 1e3

    def synchronize(self) -> None:
        """Nothing: every launch has ended."""

    def query(self) -> bool:
        """Yes."""
        return True

    def wait(self, stream: Any = None) -> None:
        """Nothing."""


class Graph:
    """`torch.cuda.CUDAGraph`."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._stream: Stream | None = None
        self._made = ctypes.c_void_p()

    def capture_begin(self, *_: Any, **__: Any) -> None:
        """What comes in the current stream goes into the graph."""
        self._stream = _current
        _ask("cudaStreamBeginCapture", ctypes.c_void_p(_current.cuda_stream), 0)

    def capture_end(self) -> None:
        """It is whole, and can be replayed."""
        if self._stream is None:
            raise RuntimeError("capture_end() without capture_begin()")
        graph = ctypes.c_void_p()
        handle = ctypes.c_void_p(self._stream.cuda_stream)
        self._stream = None
        _ask("cudaStreamEndCapture", handle, ctypes.byref(graph))
        _ask("cudaGraphInstantiate", ctypes.byref(self._made), graph, 0)

    def replay(self) -> None:
        """Run what is in it."""
        if not self._made:
            raise RuntimeError("replay() of a graph that has not been captured")
        _ask("cudaGraphLaunch", self._made, ctypes.c_void_p(_current.cuda_stream))

    def reset(self) -> None:
        """Forget what is in it."""
        self._made = ctypes.c_void_p()

    def pool(self) -> tuple[int, int]:
        """One for all: what was allocated stays."""
        return (0, 0)


@contextmanager
def capture(graph: Graph, pool: Any = None, stream: Any = None, **_: Any) -> Iterator[None]:
    """`torch.cuda.graph`."""
    with stream or Stream():
        graph.capture_begin()
        try:
            yield
        finally:
            graph.capture_end()


@contextmanager
def within(stream: Any) -> Iterator[None]:
    """`torch.cuda.stream`."""
    if stream is None:
        yield
        return
    with stream:
        yield


def current(*_: Any) -> Stream:
    """The stream of this statement."""
    return _current


def names() -> dict[str, Any]:
    """What `torch.cuda` calls them."""
    return {
        "Stream": Stream, "Event": Event, "CUDAGraph": Graph, "graph": capture, "stream": within,
        "current_stream": current, "default_stream": lambda *_: _DEFAULT,
        "is_current_stream_capturing": _captures,
    }  # fmt: skip


def _captures() -> bool:
    status = ctypes.c_int()
    _ask("cudaStreamIsCapturing", ctypes.c_void_p(_current.cuda_stream), ctypes.byref(status))
    return bool(status.value)


def _made(name: str) -> int:
    made = ctypes.c_void_p()
    _ask(name, ctypes.byref(made))
    return made.value or 0


def _ask(name: str, *args: Any) -> None:
    error = getattr(in_process.process().runtime, name)(*args)
    if error:
        raise RuntimeError(f"{name} ends with cudaError {error}")


_DEFAULT = _current = Stream()
_DEFAULT._handle = 0
