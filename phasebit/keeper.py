"""Keepers: whatever a program started ends when the program does, or when we do.

A keeper is a small process between us and a program. Whoever loses its parent below a keeper
becomes the keeper's child (``PR_SET_CHILD_SUBREAPER``), so a program that forks, leaves its
session or forks twice gets out of nobody's sight. When the program has ended, when the keeper
is asked to (SIGTERM), and when the thread that started it is gone, whatever ended that one, the
keeper kills all that is below it, until nothing is left.

A program, or a lack of memory, may kill its keeper. So there are two, one below the other. Either
ends everything when the other is gone: the upper one inherits what was below the lower one, the
lower one is told that its parent is gone (``PR_SET_PDEATHSIG``).

All of that is Linux's. Elsewhere only the program's own process group ends.

This file is also the keeper's program, and needs the standard library alone: of that as little as
it can, since there is a keeper for every program, and what it imports is most of what it costs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

ENDING_SECONDS = 10.0
"""How long a keeper tries to end what is below it: a process of another user stays."""

_PASSED_ON = {signal.SIGUSR1}
_ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_HEARD = {signal.SIGCHLD, *_PASSED_ON, *_ENDING}
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a command below a keeper, in a session of its own; ``options`` are Popen's.

    What is returned stands for the command: it has its status, and passes SIGUSR1 on to it. Give
    it to :func:`end` at last. Raises ``OSError`` when the command cannot be started.
    """
    import subprocess

    heard, said = os.pipe()
    try:
        options["pass_fds"] = (*options.get("pass_fds", ()), said)
        words = [sys.executable, "-I", "-S", os.path.abspath(__file__)]
        keeper = subprocess.Popen(
            [*words, str(os.getpid()), str(said), *command], start_new_session=True, **options
        )
    except BaseException:
        os.close(heard)
        raise
    finally:
        os.close(said)
    try:
        with open(heard, "rb") as answer:
            refused = int(answer.read() or 0)
        if refused:
            raise OSError(refused, os.strerror(refused), command[0])
    except BaseException:
        end(keeper)
        raise
    return keeper


def end(keeper: subprocess.Popen[bytes]) -> None:
    """End a command that was started here, and everything that it started."""
    from subprocess import TimeoutExpired

    late = time.monotonic() + 2 * ENDING_SECONDS
    try:
        while keeper.poll() is None:
            keeper.terminate()
            keeper.send_signal(signal.SIGCONT)  # a program may stop its keeper, whenever it likes
            try:
                keeper.wait(1)
            except TimeoutExpired:
                if time.monotonic() > late:
                    raise
    finally:  # an impatient reader interrupts once more: the keeper goes on without us
        if keeper.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(keeper.pid, signal.SIGTERM)


def keep(
    program: Callable[[], object], parent: int, started: Callable[[], object] = lambda: None
) -> NoReturn:
    """Be the upper keeper of ``program``, which is called below the lower one; end as it ends.

    For a process of its own, which ``parent`` has started: it never returns. ``started`` is
    called in either keeper once it has its child.
    """
    upper = os.getpid()
    _keep(lambda: _keep(program, upper, started), parent, started)


def _keep(
    program: Callable[[], object], parent: int, started: Callable[[], object]
) -> NoReturn:
    """Be one keeper of what is called in a child."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)  # it was gone before that
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()  # its group is not ours, nor can it become so
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            if os.getppid() == keeper:
                program()
        finally:
            os._exit(1)
    try:
        started()
        status = _wait(child)
        _end_all(child)
        _end_like(status)
    finally:
        os._exit(1)  # whatever goes wrong, the caller's frames are not ours to go back to


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _wait(child: int) -> int:
    """The status with which a child ended; SIGKILL's when we are asked to end it."""
    while True:
        number = signal.sigwait(_HEARD)
        if number in _ENDING:
            return int(signal.SIGKILL)
        if number in _PASSED_ON:
            os.kill(child, number)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == child:
                    return ended[1]


def _end_all(group: int) -> None:
    """Kill all that is below this process, until there is nothing; elsewhere kill a group."""
    if sys.platform != "linux":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        return
    pause, late = 0.001, time.monotonic() + ENDING_SECONDS
    with contextlib.suppress(ChildProcessError):  # raised when nobody is left
        while time.monotonic() < late:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            below = _below(os.getpid())
            # Whole groups first: no process of one can fork while its group is killed.
            for each in {*filter(None, map(_group, below))} - {os.getpgrp()}:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(each, signal.SIGKILL)
            for each in below:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(each, signal.SIGKILL)
            time.sleep(pause)
            pause = min(2 * pause, 0.1)


def _group(process: int) -> int:
    """The process group of a process; 0 when it is gone."""
    try:
        return os.getpgid(process)
    except ProcessLookupError:
        return 0


def _below(root: int) -> list[int]:
    """The processes that descend from ``root`` (proc(5), ``/proc/pid/stat``)."""
    children: dict[int, list[int]] = {}
    for number in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{number}/stat", "rb") as file:
            # After the name, which may hold anything: state, parent.
            parent = int(file.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(number))
    found = [root]
    for each in found:
        found += children.get(each, [])
    return found[1:]


def _end_like(status: int) -> NoReturn:
    """End this process as another one ended."""
    if os.WIFSIGNALED(status):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = os.WTERMSIG(status)
        with contextlib.suppress(OSError):  # SIGKILL has one handler only
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def _main(parent: int, said: int, command: list[str]) -> NoReturn:
    """The keepers' program: says to ``said`` why the command cannot be started, nothing if it can.

    The command waits until both keepers have closed their files: it may stop them at once.
    """
    heard, ours = os.pipe()
    os.set_inheritable(said, False)

    def execute() -> None:
        os.close(ours)
        os.read(heard, 1)
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(said, str(error.errno).encode())

    keep(execute, parent, lambda: os.closerange(3, os.sysconf("SC_OPEN_MAX")))


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
