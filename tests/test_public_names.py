"""What `phasebit` offers: a list, help, and types that a user's own checker of types sees."""

from __future__ import annotations

import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import phasebit as pb

ROOT = Path(__file__).resolve().parents[1]

RIGHT = """\
from typing import assert_type

import numpy as np
import phasebit as pb

module = pb.compile("__global__ void add(float* x) { x[threadIdx.x] += 1; }\\n")
assert_type(module, pb.Module)
kernel = module["add"]
assert_type(kernel, pb.Kernel)
run = kernel.launch(grid=1, block=32, args=[np.zeros(32, np.float32)])
assert_type(run, pb.DeviceRun)
assert_type(run.counters["smsp__inst_executed.sum"], int)
assert_type(run.findings, list[pb.Finding])
assert_type(run.findings[0].lines, tuple[int, ...])
kernel.launch(schedule="every", raises=True)
pb.device = "emulator"
try:
    module["none"]
except pb.LaunchError as error:
    print(error)
"""

WRONG = {
    "pb.nothere": 'Module has no attribute "nothere"',
    "pb.compile(3)": 'Argument 1 to "compile" has incompatible type "int"',
    'pb.compile("x.cu")["f"].launch(blok=3)': 'Unexpected keyword argument "blok"',
    'pb.compile("x.cu")["f"].launch().counterz': '"DeviceRun" has no attribute "counterz"',
    'pb.compile("x.cu")["f"].launch(schedule="foo")': 'Argument "schedule" to "launch" of "Kernel"',
    'pb.compile("x.cu")["f"].launch(device="tpu")': 'Argument "device" to "launch" of "Kernel"',
    'pb.compile("x.cu")["f"].launch(raises="x")': 'Argument "raises" to "launch" of "Kernel"',
    'pb.device = "tpu"': "Incompatible types in assignment",
    "x: str = pb.Module(ptx)": "Incompatible types in assignment",
}


def test_every_public_name_is_listed_and_there() -> None:
    assert dir(pb) == sorted(pb.__all__)
    assert [name for name in pb.__all__ if not hasattr(pb, name)] == []
    assert {name for names in pb._NAMES.values() for name in names} <= {*pb.__all__}
    with pytest.raises(AttributeError, match="'phasebit' has no attribute 'nothere'"):
        getattr(pb, "".join(["not", "here"]))


def test_help_lists_the_public_names() -> None:
    text = pydoc.plain(pydoc.render_doc(pb))
    shown = {name for name in pb.__all__ if re.search(rf"^ +(class )?{name}\b", text, re.M)}
    data = {"__version__", "device", "strict"}
    assert shown >= {*pb.__all__} - data
    assert re.search(r"^ +device = ", text, re.M)


def test_a_users_checker_of_types_sees_what_is_right_and_what_is_wrong(tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(RIGHT)
    wrong.write_text("import phasebit as pb\n\nptx = str()\n" + "\n".join(WRONG) + "\n")
    command = [sys.executable, "-m", "mypy", "--strict", right, wrong]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    said = [line for line in answer.stdout.splitlines() if ": error: " in line]
    assert len(said) == len(WRONG), answer.stdout + answer.stderr
    for number, (line, what) in enumerate(zip(said, WRONG.values(), strict=True), start=4):
        assert f"wrong.py:{number}: error: " in line and what in line
