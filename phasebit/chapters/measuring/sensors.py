"""What the driver says of power and clock while something runs."""

from __future__ import annotations

import subprocess
import threading
import time

SETTLE = 0.4
"""Seconds of those asked for that do not count, at the beginning and at the end."""


class Sensors:
    """Power and clock of the GPU while something runs, from nvidia-smi, twenty times a second."""

    def __enter__(self) -> Sensors:
        self._read: list[tuple[float, float, float]] = []  # when, watt, mhz
        query = "--query-gpu=power.draw.instant,clocks.sm"
        command = ["nvidia-smi", "-i", "0", query, "--format=csv,noheader,nounits", "-lms", "50"]
        self._reader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        return self

    def _listen(self) -> None:
        for line in self._reader.stdout or ():
            try:
                watt, mhz = map(float, line.split(","))
            except ValueError:  # "[N/A]": this GPU has no such sensor
                continue
            self._read.append((time.monotonic(), watt, mhz))

    def last(self, seconds: float) -> tuple[list[float], list[float]]:
        """What was read in the last seconds, without their beginning and end: watts, MHz."""
        now = time.monotonic()
        first, end = now - seconds + SETTLE, now - SETTLE
        kept = [(watt, mhz) for when, watt, mhz in self._read if first <= when <= end]
        return [watt for watt, _ in kept], [mhz for _, mhz in kept]

    def __exit__(self, *_: object) -> None:
        self._reader.terminate()
        self._reader.wait()
        self._thread.join()
