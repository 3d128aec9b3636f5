"""Run a command with a time limit, and end everything it started when the limit is reached."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phasebit import keeper

OUTPUT_LIMIT = 1 << 20
"""Bytes of output after which a command is stopped: a loop that prints fills no memory."""

GRACE_SECONDS = 2.0
"""How long a command may answer the signal that its time is up."""


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

    stdout: str
    stderr: str
    status: int  # exit status; negative: ended by that signal
    seconds: float
    stopped: str = ""  # why we ended it: "time", "output", or "" when it ended by itself

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with status 0."""
        return not self.stopped and self.status == 0


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    timeout: float,
    silence: float | None = None,
    ask: signal.Signals | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Finished:
    """Run ``command`` for at most ``timeout`` seconds.

    ``silence``: it also ends when so many seconds have passed since it last wrote anything.

    At the limit the command is sent the signal ``ask``, if given, and has
    :data:`GRACE_SECONDS` to say where it stands.

    Everything that it started ends with it: when it ends by itself, at the limit, after
    :data:`OUTPUT_LIMIT` bytes of output, and when the caller is interrupted or killed (see
    :mod:`phasebit.keeper`). Raises ``OSError`` when the command cannot be started.
    """
    start = time.monotonic()
    last = start + timeout
    end = last if silence is None else min(last, start + silence)
    process = keeper.start(
        [os.fspath(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=env,
    )
    assert process.stdout is not None and process.stderr is not None
    output = {process.stdout: bytearray(), process.stderr: bytearray()}
    stopped = ""
    try:
        with selectors.DefaultSelector() as selector:
            for pipe in output:
                selector.register(pipe, selectors.EVENT_READ)
            # The pipes stay open until the command has ended, and all that it started.
            while selector.get_map():
                left = end - time.monotonic()
                if left <= 0 and (stopped or ask is None):
                    stopped = stopped or "time"
                    break
                if left <= 0:
                    stopped, end = "time", time.monotonic() + GRACE_SECONDS
                    process.send_signal(ask or signal.SIGTERM)
                    continue
                for key, _ in selector.select(left):
                    chunk = os.read(key.fd, 1 << 16)
                    if silence is not None and not stopped:
                        end = min(last, time.monotonic() + silence)
                    output[key.fileobj] += chunk  # type: ignore[index]
                    if not chunk:
                        selector.unregister(key.fileobj)
                if sum(map(len, output.values())) > OUTPUT_LIMIT:
                    stopped = "output"
                    break
        if not stopped:
            try:
                process.wait(max(end - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                stopped = "time"
    finally:
        keeper.end(process)
        process.stdout.close()
        process.stderr.close()
    texts = [bytes(data).decode("utf-8", "replace") for data in output.values()]
    return Finished(texts[0], texts[1], process.returncode, time.monotonic() - start, stopped)
