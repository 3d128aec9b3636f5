"""The commands: each explains itself, and refuses in a sentence what it cannot do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .notebooks import ROOT


def make(*words: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=cwd,
        env=plain(**environment),
        capture_output=True,
        text=True,
    )


def plain(**environment: str) -> dict[str, str]:
    """The environment without what a surrounding make hands down."""
    handed_down = ("PYTHON", "UNPINNED", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")
    kept = {key: word for key, word in os.environ.items() if key not in handed_down}
    return {**kept, **environment}


def test_help_lists_every_target_in_one_line() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert phony
    lines = make("help").stdout.splitlines()
    assert [line.split()[1] for line in lines] and all(len(line) < 100 for line in lines)
    assert {line.split()[1] for line in lines} == set(phony[1].split())


@pytest.mark.parametrize("port", ["abc", "99999", "-1", "0"])
def test_a_port_that_is_none_is_refused_in_a_sentence(port: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").touch()
    command = [sys.executable, ROOT / "tools" / "serve.py", tmp_path, port]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert (answer.returncode, answer.stderr) == (
        1, f"{port} is no port: name one of 1 to 65535\n"
    )  # fmt: skip


def test_a_reader_who_turns_away_is_not_spoken_of(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("x" * (8 << 20))
    command = [sys.executable, "-c", f"""
import socket, sys, threading
sys.path.insert(0, {str(ROOT / "tools")!r})
from pathlib import Path
from serve import server
pages = server(Path({str(tmp_path)!r}))
pages.daemon_threads = False
threading.Thread(target=pages.serve_forever).start()
client = socket.create_connection(pages.server_address)
client.sendall(b"GET /index.html HTTP/1.0\\r\\n\\r\\n")
client.recv(10)
client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))
client.close()
pages.shutdown()
pages.server_close()
"""]  # fmt: skip
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (answer.returncode, answer.stderr) == (0, "")


def test_record_without_a_gpu_is_refused_in_a_sentence() -> None:
    if not (ROOT / ".vendor" / ".done").exists():
        pytest.skip("not set up by make")
    answer = make("record", CUDA_VISIBLE_DEVICES="")
    assert answer.returncode != 0
    assert "needs an NVIDIA GPU" in answer.stderr + answer.stdout
    assert "Traceback" not in answer.stderr
