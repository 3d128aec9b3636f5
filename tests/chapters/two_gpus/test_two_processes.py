"""The two processes that measure: both get the plan, rank 0 writes, and a failure is a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasebit import toolchain
from phasebit.chapters.two_gpus import ranks

WRITES = """
import json, sys
plan = json.load(open(sys.argv[2]))
if sys.argv[1] == "0":
    open(plan["result"], "w").write(json.dumps([{"port": plan["port"], "said": plan["said"]}]))
"""


def program(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return name


def test_rank_0_writes_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = ranks.measured(program(tmp_path, "writes", WRITES, monkeypatch), {"said": 7}, 60)
    assert found["said"] == 7 and 0 < found["port"] < 1 << 16


def test_who_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails = program(tmp_path, "fails", "import sys\nif sys.argv[1] == '1': sys.exit('hot')\n",
                    monkeypatch)  # fmt: skip
    with pytest.raises(toolchain.CudaError, match="of GPU 1 failed, status 1: hot"):
        ranks.measured(fails, {}, 60)


def test_who_does_not_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = program(tmp_path, "waits", "import time; time.sleep(50)\n", monkeypatch)
    with pytest.raises(toolchain.CudaError, match="did not end in time"):
        ranks.measured(waits, {}, 1)
