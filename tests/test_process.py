"""A command ends: by itself, at its time limit, or at its output limit."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from phasebit import process


def python(code: str, timeout: float = 30, **more: object) -> process.Finished:
    return process.run([sys.executable, "-c", code], timeout=timeout, **more)  # type: ignore[arg-type]


def test_output_and_status() -> None:
    done = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (done.stdout, done.stderr, done.status) == ("out\n", "err\n", 3)
    assert not done.ok and not done.stopped and python("").ok


def test_time_limit_keeps_what_was_printed() -> None:
    begin = time.monotonic()
    done = python("print('so far', flush=True)\nwhile True: pass", timeout=1)
    assert done.stopped == "time" and done.stdout == "so far\n"
    assert time.monotonic() - begin < 5


def test_a_limit_of_silence_begins_anew_with_each_word() -> None:
    words = "import time\nfor i in range(8): print(i, flush=True); time.sleep(0.2)\n"
    done = python(words, silence=1.2)
    assert done.ok and done.stdout.split() == [*"01234567"] and done.seconds > 1.2
    done = python(f"{words}time.sleep(60)", silence=1.2)
    assert done.stopped == "time" and done.stdout.endswith("7\n") and done.seconds < 20


def test_time_limit_ends_the_children_too(tmp_path: Path) -> None:
    # The child would keep the pipe open, and write the file later.
    late = tmp_path / "late"
    child = f"import time; time.sleep(2); open({str(late)!r}, 'w')"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    done = python(code, timeout=1)
    assert done.stopped == "time"
    time.sleep(2)
    assert not late.exists()


def test_a_command_may_answer_the_signal() -> None:
    code = """
import os, signal, time
def say(*_):
    print('here', flush=True)
    os._exit(0)
signal.signal(signal.SIGUSR1, say)
time.sleep(60)
"""
    for seconds in (2, 8, 32):  # a busy machine may take longer to come to the handler
        done = python(code, timeout=seconds, ask=signal.SIGUSR1)
        assert done.stopped == "time" and not done.ok
        if done.stdout:
            break
    assert done.stdout == "here\n"


def test_a_command_that_ignores_the_signal_is_killed() -> None:
    code = "import signal, time; signal.signal(signal.SIGUSR1, signal.SIG_IGN); time.sleep(60)"
    done = python(code, timeout=1, ask=signal.SIGUSR1)
    assert done.stopped == "time" and done.seconds < 1 + process.GRACE_SECONDS + 2


def test_endless_output_is_stopped() -> None:
    done = python("while True: print('x' * 1000)")
    assert done.stopped == "output" and len(done.stdout) < 2 * process.OUTPUT_LIMIT


def test_a_command_that_closed_its_output_still_has_a_limit() -> None:
    done = python("import os, time; os.close(1); os.close(2); time.sleep(60)", timeout=1)
    assert done.stopped == "time" and done.seconds < 5


def test_standard_input_is_empty() -> None:
    assert python("import sys; print(repr(sys.stdin.read()))").stdout == "''\n"


def test_a_missing_command_is_an_error() -> None:
    with pytest.raises(OSError):
        process.run([os.fspath(Path("no", "such", "command"))], timeout=1)
