"""What a program started ends with it: however it hides, and however its parent ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from phasebit import process

MARK = "PHASEBIT_TEST_MARK"
BROOD = r"""
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

// Children of every kind, eight processes in all; none of them ever makes a CUDA call or ends.
static void brood(void) {
    fork();
    if (!fork())
        setsid();
    if (!fork()) {
        setsid();
        if (fork())
            _exit(0); /* twice: its child is nobody's */
    }
    int file = open(getenv("TOLD"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (write(file, ".", 1) == 1)
        for (;;)
            pause();
}
"""
MAIN = "int main(int count, char **words) { brood(); }\n"
GUARDED = 'extern "C" void spin(int64_t none) { brood(); }\n'
EIGHT = 8

# What stands between us and the program. argv: the program, or its source.
PARENTS = {
    "process": "import sys; from phasebit import process; process.run([sys.argv[1]], timeout=60)",
    "run": "from phasebit.__main__ import main; main(['run', sys.argv[1]])",
    "cpp": "from phasebit import native; native.compile(open(sys.argv[1]).read()).spin.guarded(0)",
    "cuda": "from phasebit import notebook as n; n.run(*n.build(open(sys.argv[1]).read()), '')",
}


@pytest.fixture(scope="module")
def brood(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """What each parent is given: the program, or its source."""
    folder = tmp_path_factory.mktemp("brood")
    program = folder / "brood"

    def made(parent: str) -> Path:
        if parent in ("cpp", "cuda"):
            source = folder / f"{parent}.source"
            source.write_text(BROOD + (GUARDED if parent == "cpp" else MAIN))
            return source
        if shutil.which("gcc") is None:
            pytest.skip("no gcc here")
        if not program.exists():
            (folder / "brood.c").write_text(BROOD + MAIN)
            subprocess.run(["gcc", folder / "brood.c", "-o", program], check=True)
        return program

    return made


class Marked:
    """The processes with a mark in their environment, which children inherit."""

    def __init__(self, told: Path) -> None:
        self.mark = uuid.uuid4().hex
        self.told = told
        self.environment = {**os.environ, MARK: self.mark, "TOLD": str(told)}

    def alive(self) -> list[int]:
        found = []
        for file in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if self.mark.encode() in file.read_bytes():
                    found.append(int(file.parent.name))
        return found

    def wait(self, what: Callable[[], bool], seconds: float = 60) -> bool:
        end = time.monotonic() + seconds
        while not what() and time.monotonic() < end:
            time.sleep(0.02)
        return what()

    def hatched(self) -> bool:
        return self.told.exists() and self.told.stat().st_size == EIGHT

    def gone(self) -> bool:
        return not self.alive()


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[Marked]:
    found = Marked(tmp_path / "told")
    yield found
    for each in found.alive():
        os.kill(each, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="a keeper sees all on Linux alone")
@pytest.mark.parametrize(
    "how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name
)
@pytest.mark.parametrize(
    "parent", [pytest.param(name, marks=pytest.mark.nvcc) if name == "cuda" else name
               for name in PARENTS],
)  # fmt: skip
def test_nothing_outlives_the_parent(
    parent: str, how: signal.Signals, brood: Callable[[str], Path], marked: Marked
) -> None:
    # Whoever runs the tests in the background of a shell has SIGINT ignored, and so its children.
    heed = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
    started = subprocess.Popen(
        [sys.executable, "-c", f"{heed}; {PARENTS[parent]}", brood(parent)],
        env=marked.environment, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert marked.wait(marked.hatched) and len(marked.alive()) >= EIGHT + 1
    started.send_signal(how)
    started.wait(20)
    assert marked.wait(marked.gone, 10), f"{len(marked.alive())} processes live on"


def test_nothing_outlives_the_time_limit(brood: Callable[[str], Path], marked: Marked) -> None:
    done = process.run([brood("process")], timeout=1, env=marked.environment)
    assert done.stopped == "time" and marked.hatched() and marked.gone()


def test_nothing_outlives_the_program(brood: Callable[[str], Path], marked: Marked) -> None:
    # A shell ends at once, and what it started in the background is no longer its own.
    begin = time.monotonic()
    script = f'{brood("process")} & while [ "$(cat $TOLD)" != ........ ]; do :; done; echo done'
    done = process.run(["sh", "-c", script], timeout=30, env=marked.environment)
    assert (done.stdout, done.ok) == ("done\n", True) and marked.gone()
    assert time.monotonic() - begin < 20


# $PPID is the lower keeper, its parent the upper one.
KEEPERS = {"lower": "$PPID", "upper": "$(ps -o ppid= -p $PPID)"}


@pytest.mark.parametrize("keeper", KEEPERS)
def test_a_killed_keeper_takes_everything_along(
    keeper: str, brood: Callable[[str], Path], marked: Marked
) -> None:
    hatched = f'{brood("process")} & while [ "$(cat $TOLD)" != ........ ]; do :; done'
    command = ["sh", "-c", f"{hatched}; kill -9 {KEEPERS[keeper]}; exec sleep 60"]
    done = process.run(command, timeout=30, env=marked.environment)
    assert done.status == -signal.SIGKILL and not done.stopped
    assert marked.hatched() and marked.wait(marked.gone, 10), commands(marked)


@pytest.mark.parametrize("keeper", KEEPERS)
def test_a_stopped_keeper_ends_at_the_time_limit(keeper: str, marked: Marked) -> None:
    command = ["sh", "-c", f"kill -STOP {KEEPERS[keeper]}; exec sleep 60"]
    begin = time.monotonic()
    done = process.run(command, timeout=1, env=marked.environment)
    assert done.stopped == "time" and marked.wait(marked.gone, 10), commands(marked)
    assert time.monotonic() - begin < 15


def commands(marked: Marked) -> bytes:
    """The command lines of what lives."""
    found = b""
    for each in marked.alive():
        with suppress(OSError):
            found += Path(f"/proc/{each}/cmdline").read_bytes()
    return found


def test_what_a_program_inherits_is_what_it_would_have_without_a_keeper() -> None:
    # Signals that are blocked and ignored, and open files.
    said = "grep -E '^Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd | wc -l"
    plain = subprocess.run(
        ["sh", "-c", said], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert process.run(["sh", "-c", said], timeout=30).stdout == plain.stdout != ""
