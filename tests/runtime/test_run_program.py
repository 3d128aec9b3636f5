"""How a program is started, watched and ended: scripts stand for programs, so no nvcc is needed."""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from phasebit.emulator import Finding
from phasebit.runtime import run_program as module
from phasebit.runtime.backend import Stop
from phasebit.runtime.in_process import Runs
from phasebit.runtime.report import End, ForPeople, of_program
from phasebit.runtime.run_program import ProgramError, run_program

from .fake import FakeBackend


class Ear(Runs):
    """What a reporter is told, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[object] = []

    def found(self, findings: Sequence[Finding]) -> None:
        self.told += map(str, findings)

    def note(self, text: str) -> None:
        self.told.append(f"note {text}")

    def ended(self, end: End, standing: Finding | None) -> None:
        self.told.append((end, standing))


Script = Callable[..., Path]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """script(text): a program of that text, for the shell."""
    monkeypatch.setattr(module.library, "build", lambda: Path("/stand/in"))

    def make(text: str, name: str = "p") -> Path:
        file = tmp_path / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o700)
        return file

    return make


def python(text: str) -> str:
    """What a script says to be a program in Python, with the numbers of its files in `fds`."""
    begin = "import os, stat, time; fds = [*map(int, os.environ['PHASEBIT_SERVER'].split(','))]"
    return f'exec {sys.executable} -I -S -c "{begin}\n{text}"'


def ran(program: Path, *words: str, **options: Any) -> tuple[int, list[object]]:
    ear = Ear()
    return run_program([program, *words], FakeBackend(), reporter=ear, **options), ear.told


@pytest.mark.parametrize(("text", "end"), [
    ("exit 0", End(0)), ("exit 3", End(3)), ("kill -9 $$", End(137, "SIGKILL")),
    ("kill -11 $$", End(139, "SIGSEGV")), ("kill -12 $$", End(140, "SIGUSR2")),
])  # fmt: skip
def test_a_program_s_end_is_its_status_or_its_signal(text: str, end: End, script: Script) -> None:
    assert ran(script(text), limit=30.0) == (end.status, [(end, None)])


def test_a_program_that_is_late_is_ended(script: Script, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    program = script(f"trap 'echo yes > {asked}; exit 0' USR1\nwhile :; do sleep 0.01; done")
    assert ran(program, limit=0.3) == (124, [(End(124, limit=0.3), None)])
    assert asked.read_text() == "yes\n"  # it was asked where it is, before it was ended


def test_a_program_that_closes_its_end_and_runs_on_is_ended_too(script: Script) -> None:
    program = script(python("os.close(fds[0]); time.sleep(20)"))
    assert ran(program, limit=0.3) == (124, [(End(124, limit=0.3), None)])


def test_what_a_program_is_given(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    script('echo "$0 $1 $2|$LD_LIBRARY_PATH|$A"')
    monkeypatch.chdir(tmp_path)
    given = {"PATH": os.environ["PATH"], "A": "b", "LD_LIBRARY_PATH": "/else"}
    assert ran(Path("p"), "x y", "-z", environment=given)[0] == 0
    assert capfd.readouterr().out == "./p x y -z|/stand/in:/else|b\n"
    monkeypatch.setenv("A", "own")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    ran(tmp_path / "p")
    assert capfd.readouterr().out == f"{tmp_path}/p  |/stand/in|own\n"
    with open(tmp_path / "out", "wb") as out:
        ran(tmp_path / "p", stdout=out.fileno())
    assert capfd.readouterr().out == "" and (tmp_path / "out").read_text().endswith("|own\n")


@pytest.mark.parametrize("apart", [True, False])
def test_a_program_has_a_socket_the_memory_and_a_place_to_speak(
    apart: bool, script: Script, capfd: pytest.CaptureFixture
) -> None:
    kinds = "stat.S_ISSOCK(mode), stat.S_ISREG(mode), fd == 2"
    program = script(python(f"for fd in fds: mode = os.fstat(fd).st_mode; print({kinds})"))
    reporter = Ear() if apart else ForPeople(io.StringIO())
    assert run_program([program], FakeBackend(), reporter=reporter) == 0
    *ends, words = capfd.readouterr().out.splitlines()
    assert ends == ["True False False", "False True False"]
    assert words == "False True False" if apart else words.endswith(" True")


def test_what_the_program_s_half_says_is_told_in_a_run_that_is_reported_apart(
    script: Script,
) -> None:
    status, told = ran(script(python("os.write(fds[2], b'note: a\\n b \\nnote:\\n')")))
    assert (status, told) == (
        0, ["note a", str(of_program(" b")), str(of_program("note:")), (End(0), None)]
    )  # fmt: skip


def test_what_cannot_be_started_is_a_sentence(script: Script) -> None:
    program = script("exit 0")
    program.chmod(stat.S_IRUSR)
    with pytest.raises(ProgramError) as raised:
        ran(program, "word")
    assert str(raised.value) == (
        f"cannot start {program}, Permission denied: give a program that may be executed, built "
        "with `python -m phasebit nvcc`"
    )


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN])
def test_a_machine_that_is_at_its_limit_is_not_the_program_s_fault(
    number: int, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(number, "full")

    monkeypatch.setattr(module.keeper, "start", refused)
    with pytest.raises(OSError, match="full"):
        ran(script("exit 0"))


def test_a_program_is_run_from_the_main_thread(script: Script) -> None:
    raised: list[BaseException] = []

    def elsewhere() -> None:
        try:
            ran(script("exit 0"))
        except ProgramError as error:
            raised.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert str(raised[0]).startswith("a program is run from the main thread, since its time limit")


def test_the_device_is_as_it_was_asked_for(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[object, ...]] = []

    class Device(module.Device):
        def __init__(self, backend: Any, memory: Any, *given: Any) -> None:
            super().__init__(backend, memory, *given)
            made.append((memory.total, given[0], *given[2:]))

    monkeypatch.setattr(module, "Device", Device)
    program = script("exit 0")
    monkeypatch.setattr(module, "half_of_memory", lambda: 7 << 20)
    ran(program)
    ran(program, memory_bytes=3 << 20, devices=2, capability=80)
    assert made == [(7 << 20, None, program, 1), (3 << 20, 80, program, 2)]


def test_a_run_leaves_signals_and_files_as_they_were(script: Script) -> None:
    def signals() -> list[object]:
        return [*map(signal.getsignal, (signal.SIGALRM, signal.SIGCHLD, signal.SIGTERM))]

    def open_files() -> set[tuple[str, str]]:
        found = set()
        for number in os.listdir("/proc/self/fd"):
            with contextlib.suppress(FileNotFoundError):  # the list itself was open
                found.add((number, os.readlink(f"/proc/self/fd/{number}")))
        return found

    gc.disable()
    try:
        before, files = signals(), open_files()
        ran(script("exit 0"), limit=30.0)
        gc.collect(0)  # what this run made: the memory's mapping has a file of its own
        assert signals() == before
        assert open_files() <= files  # what earlier tests left may have been closed meanwhile
    finally:
        gc.enable()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_sigterm_ends_a_run_with_its_number() -> None:
    with pytest.raises(SystemExit) as raised:
        module._terminated(15, None)
    assert raised.value.code == 143


# -- the watch -----------------------------------------------------------------------------


class Watched:
    """A watch with a program and a device of which a test says how they are."""

    def __init__(self, limit: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, ...]] = []
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(module.signal, "setitimer", lambda _, *given: self.timers.append(given))
        self.watch = module._Watch(limit)
        self.status: int | None = None
        self.child = SimpleNamespace(poll=lambda: self.status, returncode=None)
        self.device = SimpleNamespace(left=False, busy=True)

    def begin(self) -> None:
        self.watch.child = cast("subprocess.Popen[bytes]", self.child)
        self.watch.device = cast(Any, self.device)
        self.watch.armed = True

    def gone(self, status: int) -> None:
        self.status = self.child.returncode = status

    def tick(self, seconds: float = 0.0) -> bool:
        """Whether a signal stops what is going on."""
        self.now += seconds
        try:
            self.watch._signalled(signal.SIGALRM, None)
        except Stop:
            return True
        return False


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Watched]:
    return lambda limit=None: Watched(limit, monkeypatch)


def test_a_signal_before_there_is_anything_to_stop_does_nothing(
    watched: Callable[..., Watched],
) -> None:
    one = watched(1.0)
    assert not one.tick(5.0) and not one.watch.armed
    one.begin()
    one.watch.armed = False
    assert not one.tick()
    for missing in ("child", "device"):
        one.begin()
        setattr(one.watch, missing, None)
        assert not one.tick() and one.watch.armed
    one.begin()
    assert one.tick() and not one.watch.armed and not one.tick()


def test_a_program_that_is_there_has_until_its_limit(watched: Callable[..., Watched]) -> None:
    one = watched(10.0)
    one.begin()
    assert not one.tick(9.9) and one.watch.left is None and one.timers == []
    assert one.tick(0.1) and not one.device.left


@pytest.mark.parametrize(("status", "grace"), [(0, 2.0), (3, 2.0), (-9, 0.0)])
def test_kernels_of_a_program_that_is_gone_have_some_time_unless_it_was_killed(
    status: int, grace: float, watched: Callable[..., Watched]
) -> None:
    one = watched()
    one.begin()
    one.gone(status)
    if grace:
        assert not one.tick() and one.watch.left == 102.0 and one.timers == [(0.1, 0.1)]
        assert not one.tick(grace - 0.1) and not one.device.left
        assert one.watch.left == 102.0 and one.timers == [(0.1, 0.1)]  # the first time counts
    assert one.tick(0.2 if grace else 0.0) and one.device.left and one.watch.armed
    assert not one.tick(0.1)  # once


def test_a_device_that_does_nothing_is_not_stopped(watched: Callable[..., Watched]) -> None:
    one = watched()
    one.begin()
    one.device.busy = False
    one.gone(-9)
    assert not one.tick() and one.device.left


@pytest.mark.parametrize(("limit", "timer"), [(2.5, (2.5, 0.1)), (None, (0, 0.1))])
def test_the_timer_goes_off_at_the_limit_and_again_soon(
    limit: float | None, timer: tuple[float, float], watched: Callable[..., Watched]
) -> None:
    one = watched(limit)
    with one.watch as same:
        assert same is one.watch
        one.begin()
        for number in (signal.SIGALRM, signal.SIGCHLD):
            assert signal.getsignal(number) == one.watch._signalled
        assert signal.getsignal(signal.SIGTERM) is module._terminated
    assert one.timers == [timer, (0,)] and not one.watch.armed


class Served:
    """`serve`, which is stopped as often as it is told to."""

    def __init__(self, watch: Any, plan: list[Stop | None], late: bool = False) -> None:
        self.watch, self.plan, self.late = watch, plan, late

    def __call__(self, device: object, ours: object) -> None:
        assert self.watch.armed
        stop = self.plan.pop(0)
        if stop:
            self.watch.armed = not self.late
            raise stop


@pytest.mark.parametrize(("plan", "late", "status", "cut", "finished"), [
    ([None], False, 0, False, 1), ([Stop(), None], False, 0, True, 1),
    ([Stop(), Stop(), None], False, 3, True, 1), ([Stop(), None], False, -9, False, 1),
    ([Stop()], True, 0, False, 0),
])  # fmt: skip
def test_a_program_is_served_until_it_is_gone_or_late(
    plan: list[Stop | None], late: bool, status: int, cut: bool, finished: int,
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    one, done = watched(), []
    one.gone(status)
    standing = of_program("was running")
    for stop in filter(None, plan):
        stop.standing = standing
    monkeypatch.setattr(module, "serve", Served(one.watch, plan, late))
    device = SimpleNamespace(finish=lambda: done.append(1))
    one.watch.serve(cast(Any, one.child), cast(Any, device), cast(Any, None))
    assert (one.watch.cut, len(done), plan) == (cut, finished, [])
    assert one.watch.standing is (standing if late else None) and not one.watch.armed
    assert one.watch.child is one.child and one.watch.device is device


@pytest.mark.parametrize(("limit", "passed", "left"), [
    (None, 1.0, None), (10.0, 4.0, 6.0), (10.0, 12.0, 0.0), (10.0, 10.0, 0.0),
])  # fmt: skip
def test_a_program_that_has_closed_its_end_has_the_rest_of_its_time(
    limit: float | None, passed: float, left: float | None, watched: Callable[..., Watched]
) -> None:
    one, asked = watched(limit), []
    one.now += passed

    def wait(seconds: float | None) -> int:
        asked.append(seconds)
        if seconds == 0.0:
            raise subprocess.TimeoutExpired("p", 0.0)
        return 5

    found = one.watch.wait(cast(Any, SimpleNamespace(wait=wait)))
    assert asked == [left] and found == (None if left == 0.0 else 5)


def test_what_was_cut_off_and_where_a_kernel_stood_are_told(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing = of_program("was running: k")

    def serve(self: Any, child: object, device: object, ours: object) -> None:
        self.cut, self.standing = True, standing

    monkeypatch.setattr(module._Watch, "serve", serve)
    assert ran(script("exit 0"), limit=30.0)[1] == [
        "note the program ended without waiting for its kernels: what they had not done 2 s later "
        "is not checked; end it with cudaDeviceSynchronize()",
        (End(0), None),
    ]
    monkeypatch.setattr(module._Watch, "wait", lambda self, child: None)
    assert ran(script("exit 0"), limit=9.0)[1][1:] == [(End(124, limit=9.0), standing)]


@pytest.mark.parametrize("there", [True, False])
def test_only_a_program_that_is_there_is_asked_where_it_is(
    there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []

    def wait(seconds: float) -> None:
        done.append(seconds)
        raise subprocess.TimeoutExpired("p", seconds)

    child = SimpleNamespace(poll=lambda: None if there else 0, send_signal=done.append, wait=wait)
    monkeypatch.setattr(module.keeper, "end", done.append)
    module._end(cast(Any, child))
    assert done == ([signal.SIGUSR1, 2.0, child] if there else [child])


# -- memory --------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "fits"), [
    (-1, True), (129 << 30, True), ((129 << 30) - 1, False), (3 << 29, False),
])  # fmt: skip
def test_a_device_needs_addresses_for_two_views_of_its_memory(
    limit: int, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not 0, which a soft limit need not share with the hard one.
    monkeypatch.setattr(module.resource, "getrlimit", lambda which: (limit, 5))
    monkeypatch.setattr(module, "DeviceMemory", lambda total: ("memory", total))
    if fits:
        assert module.device_memory(99) == ("memory", 99)
        return
    with pytest.raises(ProgramError) as raised:
        module.device_memory(99)
    share = {3 << 29: "1.5"}.get(limit, "129")
    assert str(raised.value) == (
        f"a program needs 129 GiB of addresses, and this process may have {share}: lift the "
        "limit, ulimit -v unlimited"
    )


def test_a_system_without_room_for_the_addresses_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(total: int) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(module.resource, "getrlimit", lambda which: (-1, -1))
    monkeypatch.setattr(module, "DeviceMemory", full)
    with pytest.raises(ProgramError) as raised:
        module.device_memory(99)
    assert str(raised.value) == (
        "there are no 64 GiB of addresses for device memory (Cannot allocate memory): lift the "
        "limit of this process, ulimit -v unlimited"
    )


@pytest.mark.parametrize(
    ("pages", "half"), [(1000, 1000 * 2048), (1 << 23, 16 << 30), (5, 10240), (1 << 24, 16 << 30)]
)
def test_a_program_has_half_of_the_machine_s_memory_and_16_gib_at_most(
    pages: int, half: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"SC_PHYS_PAGES": pages, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(module.os, "sysconf", known.__getitem__)
    assert module.half_of_memory() == half


def test_nothing_stays_open_where_the_program_cannot_be_started(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: object) -> None:
        raise OSError(errno.ENOEXEC, "cannot be started")

    monkeypatch.setattr(module, "_start", start)
    with pytest.raises(OSError, match="cannot be started"):
        run_program([script("exit 0")], FakeBackend(), reporter=Ear())
    files = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert not [each for each in files if "memfd:words" in os.readlink(each)]
