"""A block that leaves before its bulk stores have read shared memory: an H200 keeps it for them.

The PTX ISA does not promise that, so it is found. An H200 (driver 580.159, 2026-11-21, this very
program) begins the next block on a multiprocessor only when the stores are done: 0.2 microseconds
after a block that waited for them, 18 to 34 after one that did not, and 365 to 382 where 200 KiB go
to the host's memory; of ten times 81 million words none was wrong.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from phasebit import hardware, process, toolchain
from tests.emulator.test_bulk import launch, storing

PROGRAM = Path(__file__).with_name("cuda") / "leaving.cu"


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_a_store_outlives_its_block(schedule: str) -> None:
    run, given, out = launch(storing(after=""), schedule=schedule)
    assert {finding.kind for finding in run.findings} == {"async"}
    assert np.array_equal(out, given + 1)


@pytest.mark.gpu
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU here")
def test_a_gpu_keeps_the_memory_for_it() -> None:
    done = process.run([toolchain.build(PROGRAM.read_text("utf-8")).program], timeout=120)
    assert done.ok, done.stderr
    assert re.findall(r"(\d+) wrong words", done.stdout) == ["0"] * 20
