"""`python -m phasebit run`, hundreds of times, without a start of Python for each.

Most of a short run is Python that starts and imports NumPy and this package: a third of a second.
So a process waits here that has imported them, and each run is a fork of it, below a keeper as
any other. It gets what a process that is started gets: arguments, environment, folder, streams.
:func:`install` puts this in place of :func:`phasebit.keeper.start` for that one command; tests of
the command itself start it with :mod:`subprocess`, as a reader does.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from phasebit import keeper

ROOT = Path(__file__).resolve().parent.parent
COMMAND = ["-m", "phasebit", "run"]
PIPES = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
MOST = 1 << 17
"""Bytes of a request."""

GRACE = 0.5
"""Seconds for runs that are at their end when nobody can ask any more."""

_started = keeper.start


def install() -> None:
    """From now on this process has these runs forked. It needs what Linux has."""
    if sys.platform == "linux":
        keeper.start = start


def start(command: Sequence[str], **options: Any) -> Any:
    """See :func:`phasebit.keeper.start`."""
    words = [word for word in command[1:4] if word != "-P"]
    mine = command[0] == sys.executable and [*words, *command[4:5]][:3] == COMMAND
    rest = {key: value for key, value in options.items() if key not in ("cwd", "env")}
    if not mine or rest != PIPES:
        return _started(command, **options)
    env = dict(os.environ if options.get("env") is None else options["env"])
    folder = os.path.abspath(options.get("cwd") or os.getcwd())
    arguments = list(command[command.index("run") :])
    request = json.dumps({"arguments": arguments, "environment": env, "folder": folder}).encode()
    return _started(command, **options) if len(request) > MOST else Forked(command, request)


class Forked:
    """What :class:`subprocess.Popen` is to a process, as far as it is used."""

    def __init__(self, command: Sequence[str], request: bytes) -> None:
        self.args = command
        self.returncode: int | None = None
        heard, output = os.pipe()
        read, errors = os.pipe()
        self.stdout, self.stderr = (os.fdopen(each, "rb", 0) for each in (heard, read))
        self._says, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            socket.send_fds(_waiting(), [request], [output, errors, theirs.fileno()])
        finally:
            theirs.close()
            os.close(output)
            os.close(errors)
        self.pid = int(self._says.recv(16))

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._says.settimeout(timeout)
            try:
                said = self._says.recv(16)
            except (BlockingIOError, TimeoutError) as error:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0) from error
            self.returncode = int(said or -signal.SIGKILL)
            self._says.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


_asking: dict[int, socket.socket] = {}
"""The one that waits, by the process that it waits for: a fork of that one has none."""


def _waiting() -> socket.socket:
    """A socket to the process that waits, started first where there is none."""
    if os.getpid() not in _asking:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt is ours alone: it ends when we do
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": os.fspath(ROOT)},
        )
        theirs.close()
        _asking[os.getpid()] = ours
        atexit.register(process.wait)
        atexit.register(ours.close)  # called first
    return _asking[os.getpid()]


def _serve(asked: socket.socket) -> None:
    """Be the process that waits, until nobody can ask any more; then its runs end, too."""
    import numpy.ma  # noqa: F401  (numpy.unique asks for it)

    from phasebit import __main__, kept_programs  # noqa: F401
    from phasebit.runtime import command, emulated  # noqa: F401

    while True:
        request, fds, _, _ = socket.recv_fds(asked, MOST, 3)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not request:
            break
        if os.fork() == 0:
            asked.close()
            _run(json.loads(request), *fds)
        for each in fds:
            os.close(each)
    late = time.monotonic() + GRACE
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < late:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                time.sleep(0.01)


def _run(request: dict[str, Any], output: int, errors: int, says: int) -> NoReturn:
    """Start a keeper with the run, say its number, wait, and say how it ended."""
    keeper._prctl(keeper._PR_SET_PDEATHSIG, signal.SIGKILL)
    own, wait = os.getpid(), os.fork()
    if wait == 0:
        try:
            os.setsid()
            for each, stream in ((output, 1), (errors, 2)):
                os.dup2(each, stream)
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            keeper.keep(lambda: _phasebit(request), own)
        finally:
            os._exit(1)
    try:
        answer = socket.socket(fileno=says)
        os.close(output)
        os.close(errors)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            answer.send(str(wait).encode())
            status = os.waitstatus_to_exitcode(os.waitpid(wait, 0)[1])
            answer.send(str(status).encode())
    finally:
        os._exit(0)


def _phasebit(request: dict[str, Any]) -> NoReturn:
    """What ``python -m phasebit`` does, and what Python does before and after."""
    status = 1
    try:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        random.seed()
        from phasebit import __main__

        status = __main__.main(request["arguments"])
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
