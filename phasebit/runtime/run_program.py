"""Run a CUDA program without a GPU.

The program is a child process with four things in its environment: the stand-in's folder first
on LD_LIBRARY_PATH, one end of a socket pair, the file that is device memory, and one for what the
stand-in has to say (standard error, unless the run is reported elsewhere). This process
keeps the other ends and is the device until the child is gone. Two processes, because the
program's host code may do anything: crash, exit, spin, fork. None of that can hurt the emulator
here, and a time limit here can end all of it, as the end of this process does: between the two
stands a keeper (`phasebit.keeper`). Nothing is copied between them to launch a kernel.
"""

from __future__ import annotations

import errno
import os
import resource
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

from phasebit import keeper
from phasebit.emulator import Finding
from phasebit.runtime import elf, library
from phasebit.runtime.backend import Backend, Stop
from phasebit.runtime.connection import serve
from phasebit.runtime.mapped_memory import SPAN, DeviceMemory
from phasebit.runtime.protocol import ENVIRONMENT, NOTE
from phasebit.runtime.report import End, ForPeople, Reporter, of_program
from phasebit.runtime.server import Device

TIMED_OUT = 124
STANDARD_ERROR = 2
GRACE = 2.0  # seconds between asking a program to end and ending it, or between its end and that of
# kernels that it did not wait for


class ProgramError(Exception):
    """A program that cannot be run here; the text says why and what to do."""


def _terminated(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends the program too, on the way out."""
    raise SystemExit(128 + number)


class _Watch:
    """Stop serving when time is up, and kernels that nobody waits for when the program is gone.

    A program that ends by itself may have launched what it did not wait for: this has `GRACE`
    seconds. One that was killed has none; what was refused to either is still told.

    Both are signals, and their handlers raise only while `armed`.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self.deadline = time.monotonic() + limit if limit else None
        self.child: subprocess.Popen[bytes] | None = None
        self.device: Device | None = None
        self.left: float | None = None
        """When kernels of a program end that is gone."""
        self.cut = False
        """Whether they were ended."""
        self.armed = False
        self.standing: Finding | None = None  # where a kernel was when time was up

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
        if not self.armed or self.child is None or self.device is None:
            return
        if self.late():
            self.armed = False
            raise Stop
        if self.left is None and self.child.poll() is not None:
            self.left = time.monotonic() + (GRACE if self.child.returncode >= 0 else 0)
            signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
        if self.left is not None and time.monotonic() >= self.left and not self.device.left:
            self.device.left = True
            if self.device.busy:
                raise Stop

    def serve(self, child: subprocess.Popen[bytes], device: Device, ours: socket.socket) -> None:
        """Serve until the program closes its end, or is late."""
        self.child, self.device = child, device
        try:
            self.armed = True
            while True:
                try:
                    serve(device, ours)
                    device.finish()
                    return
                except Stop as stop:
                    if not self.armed:
                        self.standing = stop.standing
                        return
                    self.cut = child.returncode >= 0
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

    SIGUSR1 goes to the program alone: one that listens (`backtrace.c`) says where it is.
    """
    if child.poll() is None:
        child.send_signal(signal.SIGUSR1)
        with suppress(subprocess.TimeoutExpired):
            child.wait(GRACE)
    keeper.end(child)


def run_program(
    command: Sequence[str | os.PathLike[str]],
    backend: Backend,
    *,
    capability: int | None = None,
    memory_bytes: int | None = None,
    limit: float | None = None,
    reporter: Reporter | None = None,
    stdout: int | None = None,
    environment: Mapping[str, str] | None = None,
    devices: int = 1,
) -> int:
    """Run a program on `backend`; its exit status (128 + n for signal n, 124 past `limit` seconds).

    Call it in a main thread: the limit is a signal. Standard output is the program's own, or
    `stdout`. What is found, and how the program ended, is told to `reporter`: people on standard
    error, unless another is given. The program has `devices` devices, alike. Raises
    ProgramError for what can be seen before it starts.
    """
    if threading.current_thread() is not threading.main_thread():
        raise ProgramError(
            "a program is run from the main thread, since its time limit is a signal; "
            "elsewhere start `python -m phasebit run` as a command"
        )
    words = [os.fspath(word) for word in command]
    reporter = reporter or ForPeople(sys.stderr)
    elf.check(Path(words[0]))
    folder = library.build()
    memory = device_memory(memory_bytes or half_of_memory())
    device = Device(backend, memory, capability, reporter, Path(words[0]), devices)
    ours, theirs = socket.socketpair()
    heard = os.fdopen(os.memfd_create("words"), encoding="utf-8", errors="replace") \
        if reporter.apart else None  # fmt: skip
    spoken = heard.fileno() if heard else STANDARD_ERROR
    status: int | None = None
    try:
        with _Watch(limit) as watch:
            child = _start(words, folder, memory, theirs, spoken, environment, stdout)
            try:
                theirs.close()
                watch.serve(child, device, ours)
                status = watch.wait(child)
            finally:
                _end(child)
    except BaseException:
        if heard:
            heard.close()
        raise
    finally:
        ours.close()
        theirs.close()
        memory.close()
    device.program_left()
    if watch.cut:
        reporter.note(
            "the program ended without waiting for its kernels: what they had not done "
            f"{GRACE:g} s later is not checked; end it with cudaDeviceSynchronize()"
        )
    if heard:
        with heard as file:
            file.seek(0)
            for line in map(str.rstrip, file):
                if line.startswith(NOTE):
                    reporter.note(line.removeprefix(NOTE))
                else:
                    reporter.found([of_program(line)])
    if status is None:
        assert limit is not None  # without one nobody is late
        end = End(TIMED_OUT, limit=limit)
    elif status < 0:
        end = End(128 - status, signal.Signals(-status).name)
    else:
        end = End(status)
    reporter.ended(end, watch.standing if status is None else None)
    return end.status


def _start(
    words: Sequence[str],
    folder: Path,
    memory: DeviceMemory,
    theirs: socket.socket,
    spoken: int,
    environment: Mapping[str, str] | None,
    stdout: int | None,
) -> subprocess.Popen[bytes]:
    variables = dict(os.environ if environment is None else environment)
    paths = [str(folder), variables.get("LD_LIBRARY_PATH", "")]
    variables["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    variables[ENVIRONMENT] = f"{theirs.fileno()},{memory.fd},{spoken}"
    try:
        # Without a slash, exec would look along PATH; a program in this folder is meant.
        program = words[0] if os.sep in words[0] else os.path.join(os.curdir, words[0])
        return keeper.start(
            [program, *words[1:]],
            env=variables,
            pass_fds=(theirs.fileno(), memory.fd, spoken),
            stdout=stdout,
        )
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN):
            raise  # nothing is wrong with the program
        raise ProgramError(
            f"cannot start {words[0]}, {error.strerror}: give a program that may be executed, "
            "built with `python -m phasebit nvcc`"
        ) from error


ADDRESSES = 2 * SPAN + (1 << 30)
"""Bytes of addresses that a program needs: device memory as it sees it and as its runtime does."""


def device_memory(total: int) -> DeviceMemory:
    """Device memory of `total` bytes. Raises ProgramError where there are no addresses for it."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < ADDRESSES:
        raise ProgramError(
            f"a program needs {ADDRESSES >> 30} GiB of addresses, and this process may have "
            f"{limit / 2**30:.3g}: lift the limit, ulimit -v unlimited"
        )
    try:
        return DeviceMemory(total)
    except OSError as error:
        raise ProgramError(
            f"there are no {SPAN >> 30} GiB of addresses for device memory ({error.strerror}): "
            "lift the limit of this process, ulimit -v unlimited"
        ) from error


def half_of_memory() -> int:
    """What a program may allocate: half of this machine's memory, 16 GiB at most."""
    pages: int = os.sysconf("SC_PHYS_PAGES")
    return min(pages * os.sysconf("SC_PAGE_SIZE") // 2, 1 << 34)
