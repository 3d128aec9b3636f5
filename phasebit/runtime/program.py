"""Run a CUDA program without a GPU.

The program is a child process with three things in its environment: the stand-in's folder first
on LD_LIBRARY_PATH, one end of a socket pair, and the file that is device memory. This process
keeps the other ends and is the device until the child is gone. Two processes, because the
program's host code may do anything: crash, exit, spin, fork. None of that can hurt the emulator
here, and a time limit here can end all of it. Nothing is copied between them to launch a kernel.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TextIO

from phasebit.runtime import elf, library
from phasebit.runtime.backend import Backend
from phasebit.runtime.connection import serve
from phasebit.runtime.memory import DeviceMemory
from phasebit.runtime.protocol import ENVIRONMENT
from phasebit.runtime.server import Device

TIMED_OUT = 124
GRACE = 2.0  # seconds between asking a program to end and ending it


class ProgramError(Exception):
    """A program that cannot be run here; the text says why and what to do."""


class _Stop(BaseException):
    """Raised out of whatever the device is doing. No `except Exception` may catch it."""


def _terminated(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends the program too, on the way out."""
    raise SystemExit(128 + number)


class _Watch:
    """Stop serving when time is up or the program is gone.

    Both are signals, and their handlers raise only while `armed`, once.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self.deadline = time.monotonic() + limit if limit else None
        self.child: subprocess.Popen[bytes] | None = None
        self.armed = False
        self.notes: list[str] = []  # what was going on when time was up

    def __enter__(self) -> _Watch:
        self._before = {
            number: signal.signal(number, self._signalled)
            for number in (signal.SIGALRM, signal.SIGCHLD)
        }
        self._before[signal.SIGTERM] = signal.signal(signal.SIGTERM, _terminated)
        # Repeats: the first may come before there is anything to stop.
        signal.setitimer(signal.ITIMER_REAL, self.limit or 0, 0.1)
        return self

    def __exit__(self, *exception: object) -> None:
        self.armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        gone = self.child is not None and self.child.poll() is not None
        if self.armed and (gone or self.late()):
            self.armed = False
            raise _Stop

    def serve(self, child: subprocess.Popen[bytes], device: Device, ours: socket.socket) -> None:
        """Serve until the program closes its end, is gone, or is late."""
        self.child = child
        try:
            self.armed = True
            if child.poll() is None:
                serve(device, ours)
        except _Stop as stop:
            self.notes = getattr(stop, "__notes__", [])
        finally:
            self.armed = False

    def wait(self, child: subprocess.Popen[bytes]) -> int | None:
        """The program's status, or None if it is late. It may run on with its end closed."""
        left = None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
        try:
            return child.wait(left)
        except subprocess.TimeoutExpired:
            return None


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the program and everything it started.

    SIGUSR1 goes to the program alone: one that listens (`whereabouts.c`) says where it is.
    """
    with suppress(ProcessLookupError):
        if child.poll() is None:
            child.send_signal(signal.SIGUSR1)
            with suppress(subprocess.TimeoutExpired):
                child.wait(GRACE)
        os.killpg(child.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            child.wait(GRACE)
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def run_program(
    command: Sequence[str | os.PathLike[str]],
    backend: Backend,
    *,
    capability: int | None = None,
    memory_bytes: int | None = None,
    limit: float | None = None,
    log: TextIO | None = None,
    stdout: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run a program on `backend`; its exit status (128 + n for signal n, 124 past `limit` seconds).

    Call it in a main thread: the limit is a signal. Standard output is the program's own, or
    `stdout`. Raises ProgramError for what can be seen before it starts.
    """
    if threading.current_thread() is not threading.main_thread():
        raise ProgramError(
            "a program is run from the main thread, since its time limit is a signal; "
            "elsewhere start `python -m phasebit run` as a command"
        )
    words = [os.fspath(word) for word in command]
    log = log if log is not None else sys.stderr
    elf.check(Path(words[0]))
    folder = library.build()
    memory = DeviceMemory(memory_bytes or _half_of_memory())
    device = Device(backend, memory, capability, log)
    ours, theirs = socket.socketpair()
    status: int | None = None
    try:
        with _Watch(limit) as watch:
            child = _start(words, folder, memory, theirs, environment, stdout)
            try:
                theirs.close()
                watch.serve(child, device, ours)
                status = watch.wait(child)
            finally:
                _end(child)
    finally:
        ours.close()
        theirs.close()
        memory.close()
    if status is None:
        device.say(f"ended after {limit:g} s, the time limit")
        for note in watch.notes:
            device.say(note)
        return TIMED_OUT
    if status < 0:
        device.say(f"the program died of {signal.Signals(-status).name}")
        return 128 - status
    return status


def _start(
    words: Sequence[str],
    folder: Path,
    memory: DeviceMemory,
    theirs: socket.socket,
    environment: Mapping[str, str] | None,
    stdout: int | None,
) -> subprocess.Popen[bytes]:
    variables = dict(os.environ if environment is None else environment)
    paths = [str(folder), variables.get("LD_LIBRARY_PATH", "")]
    variables["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    variables[ENVIRONMENT] = f"{theirs.fileno()},{memory.fd},{os.getpid()}"
    try:
        # Without a slash, exec would look along PATH; a program in this folder is meant.
        program = words[0] if os.sep in words[0] else os.path.join(os.curdir, words[0])
        return subprocess.Popen(
            [program, *words[1:]],
            env=variables,
            pass_fds=(theirs.fileno(), memory.fd),
            start_new_session=True,
            stdout=stdout,
        )
    except OSError as error:
        raise ProgramError(
            f"cannot start {words[0]}, {error.strerror}: give a program that may be executed, "
            "built with `python -m phasebit nvcc`"
        ) from error


def _half_of_memory() -> int:
    """What a program may allocate: half of this machine's memory, 16 GiB at most."""
    pages: int = os.sysconf("SC_PHYS_PAGES")
    return min(pages * os.sysconf("SC_PAGE_SIZE") // 2, 1 << 34)
