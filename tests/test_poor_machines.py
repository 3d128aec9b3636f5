"""Streams that are closed or full, few files, few addresses: a sentence each, and no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from phasebit.runtime.command import REFUSED

PHASEBIT = f"{sys.executable} -m phasebit"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")

# The command, in which RUN is `python -m phasebit run` -> how its only line ends.
POOR = {
    "phasebit rules >&-": "standard output is closed: send it somewhere, as with >/dev/null",
    "phasebit rules >/dev/full": "No space left on device: make room there",
    "phasebit doctor >/dev/full": "No space left on device: make room there",
    "phasebit run ./loud >&-": "standard output is closed: send it somewhere, as with >/dev/null",
    "phasebit run --report /dev/full ./loud":
        "cannot write the report to /dev/full: No space left on device",
    "phasebit run --report /dev/full --report-format sarif ./loud":
        "cannot write the report to /dev/full: No space left on device",
    "phasebit run --report /dev/full --report-format junit ./loud":
        "cannot write the report to /dev/full: No space left on device",
    "phasebit run --json ./loud >/dev/full":
        "cannot write the report to standard output: No space left on device",
    "phasebit run --write-baseline /dev/full ./loud":
        "cannot write /dev/full: No space left on device",
    "phasebit run --ptx /dev/zero ./loud":
        "/dev/zero is no text: --ptx takes PTX, not machine code",
    "phasebit run --suppressions /dev/zero ./loud": "/dev/zero is no text",
    "mkfifo unread; phasebit run --report unread ./loud":
        "cannot write unread: No such device or address",
    "mkfifo baseline; phasebit run --write-baseline baseline ./loud":
        "cannot write baseline: No such device or address",
    "PHASEBIT_CACHE=/proc/none phasebit run ./loud": "set PHASEBIT_CACHE to a folder of your own",
    "ulimit -f 0; PHASEBIT_CACHE=new phasebit run ./loud":
        "no folder for temporary files can be written: set TMPDIR to one, and lift this process's "
        "limits, ulimit -f unlimited",
    "ulimit -n 5; phasebit run ./loud":
        "Too many open files: raise this process's limit, ulimit -n 256",
    "ulimit -n 8; phasebit run ./loud":
        "Too many open files: raise this process's limit, ulimit -n 256",
    "ulimit -n 9; phasebit run ./loud":
        "Too many open files: raise this process's limit, ulimit -n 256",
    "ulimit -v 60000; phasebit run ./loud":
        "lift this process's limit, ulimit -v unlimited",
    "ulimit -v 120000000; phasebit run ./loud":
        "a program needs 129 GiB of addresses, and this process may have 114: lift the limit, "
        "ulimit -v unlimited",
}  # fmt: skip


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        ["bash", "-c", command.replace("phasebit ", f"{PHASEBIT} ")],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a program, whose last launch is refused."""
    made = tmp_path_factory.mktemp("poor")
    text = "__global__ void k() {}\nint main() { k<<<1, 2000>>>(); }\n"
    (made / "loud.cu").write_text(text)
    done = shell("phasebit nvcc loud.cu -o loud", made)
    assert done.returncode == 0, done.stderr
    return made


@pytest.mark.nvcc
@pytest.mark.parametrize("command", POOR)
def test_what_the_machine_lacks_is_a_sentence(command: str, folder: Path) -> None:
    done = shell(command, folder)
    lines = [line for line in done.stderr.splitlines() if "kernel k: the launch" not in line]
    assert len(lines) == 1 and lines[0].startswith("phasebit: ") and lines[0].endswith(
        POOR[command]
    ), done.stderr
    assert done.returncode == REFUSED


@pytest.mark.nvcc
@pytest.mark.parametrize("stream", ["2>&-", "2>/dev/full"])
def test_nobody_is_told_and_the_status_says_it(stream: str, folder: Path) -> None:
    done = shell(f"phasebit run ./loud {stream}", folder)
    assert done.returncode == (REFUSED if "full" in stream else 99)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.nvcc
def test_a_terminal_of_ascii_and_names_that_are_no_text(folder: Path) -> None:
    done = shell("PYTHONIOENCODING=ascii phasebit ptx", folder)
    assert (done.returncode, done.stderr) == (0, "") and "\\u2026" in done.stdout
    named = "./$'\\xff'"
    command = f"PYTHONIOENCODING=ascii phasebit run --json --report said {named}"
    done = shell(f"cp loud {named}; {command} '…'", folder)
    assert done.returncode == 99 and not done.stderr
    for text in (done.stdout, (folder / "said").read_text()):
        assert json.loads(text.splitlines()[0])["finding"]["rule"] == "refused-launch"
    for form in ("sarif", "junit"):
        done = shell(f"phasebit run --report-format {form} --report said {named}", folder)
        assert done.returncode == 99 and "Traceback" not in done.stderr
        assert "refused-launch" in (folder / "said").read_text()
