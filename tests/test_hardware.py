"""GPUs and tiers."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from phasebit import hardware
from phasebit.hardware import Gpu, parse_smi


@pytest.mark.parametrize(
    ("capability", "target", "tier"),
    [
        ((7, 0), "sm_70", "cpu"),
        ((7, 5), "sm_75", "sm_75"),
        ((8, 0), "sm_80", "sm_80"),
        ((8, 9), "sm_89", "sm_80"),
        ((9, 0), "sm_90a", "sm_90a"),
        ((10, 0), "sm_100a", "sm_100a"),
        ((10, 3), "sm_103a", "sm_80"),  # another chip: no code for sm_100a runs on it
        ((12, 0), "sm_120a", "sm_80"),
    ],
)
def test_target_and_tier(capability: tuple[int, int], target: str, tier: str) -> None:
    gpu = Gpu("some GPU", capability, "580")
    assert gpu.target == target and gpu.tier == tier and gpu.executes(target)


def test_machine_code_runs_within_a_generation() -> None:
    ampere = Gpu("A10", (8, 6), "580")
    assert ampere.executes("sm_80") and ampere.executes("sm_86")
    assert not any(ampere.executes(other) for other in ("sm_75", "sm_89", "sm_90", "sm_90a"))
    assert not Gpu("B200", (10, 0), "580").executes("sm_90a")


def test_an_unknown_tier_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown tier 'sm_99': choose one of cpu, sm_75"):
        Gpu("some GPU", (9, 0), "580").runs("sm_99")


@pytest.mark.parametrize(("version", "known"), [(12040, (12, 4)), (13000, (13, 0)), (None, None)])
def test_which_cuda_the_driver_is_for(
    version: int | None, known: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Library:
        def __init__(self, name: str) -> None:
            if version is None:
                raise OSError(f"{name}: cannot open shared object file")

        def cuDriverGetVersion(self, found: Any) -> int:
            found._obj.value = version
            return 0

    monkeypatch.setattr(hardware.ctypes, "CDLL", Library)
    assert hardware.driver_cuda.__wrapped__() == known
    monkeypatch.setattr(hardware, "driver_cuda", lambda: known)
    old = {major: bool(hardware.too_old_for(major)) for major in (11, 12, 13)}
    assert old == {11: False, 12: False, 13: known == (12, 4)}


def test_what_the_driver_says() -> None:
    assert parse_smi("NVIDIA H200, 9.0, 580.159.04\n") == Gpu("NVIDIA H200", (9, 0), "580.159.04")
    two = "NVIDIA L4, 8.9, 550.54\nTesla T4, 7.5, 550.54\n"
    assert parse_smi(two) == Gpu("NVIDIA L4", (8, 9), "550.54")
    for nothing in ("", "No devices were found\n", "GPU, [Not Supported], 470"):
        assert parse_smi(nothing) is None


def test_an_empty_list_of_devices_hides_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert hardware.gpu.__wrapped__() is None and hardware.gpus.__wrapped__() == 0


def test_gpus_are_counted_by_the_lines_that_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    two = "NVIDIA L4, 8.9, 550.54\nTesla T4, 7.5, 550.54\n"
    for said, number in ((two, 2), ("No devices were found\n", 0)):
        monkeypatch.setattr(hardware, "_smi", lambda said=said: said)
        assert hardware.gpus.__wrapped__() == number


@pytest.mark.parametrize("said", ["9", "9.0.1", "²", "9.x", "[N/A]", "", "-9.0", "99999.0"])
def test_a_capability_that_is_none(said: str) -> None:
    assert parse_smi(f"NVIDIA H200, {said}, 580.159.04") is None


@pytest.mark.parametrize(("text", "name"), [
    (r"printf 'GPU \377\376, 9.0, 580\n'", "GPU \ufffd\ufffd"),
    ("echo 'GPU, 9.0, 580'; exit 1", None), ("kill -9 $$", None), ("sleep 600", None),
    ("yes | head -c 9999999", None),
])  # fmt: skip
def test_a_driver_that_does_not_answer_well(
    text: str, name: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is asked for a while, and what it started ends with it."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\n{text}\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(hardware, "_SMI_SECONDS", 2.0)
    began = time.monotonic()
    found = hardware.gpu.__wrapped__()
    assert (found.name if found else None) == name
    assert time.monotonic() - began < 60
