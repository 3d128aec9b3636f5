"""The doctor says what is there, what each chapter does, and how to mend what is missing."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from phasebit import __main__, contents, doctor, files, hardware, toolchain

H200 = hardware.Gpu("NVIDIA H200", (9, 0), "580.1")
T4 = hardware.Gpu("Tesla T4", (7, 5), "550.1")
ALL = toolchain.Nvcc(Path("/bin/nvcc"), "13.0.88", ("sm_75", "sm_80", "sm_90", "sm_90a"))


def write(folder: Path, name: str, tier: object, title: str = "# A title") -> Path:
    path = folder / f"{name}.ipynb"
    metadata = {} if tier is None else {"phasebit": {"needs": [], "tier": tier}}
    cells = [{"cell_type": "markdown", "source": [title + "\n", "text"]}]
    path.write_text(json.dumps({"metadata": metadata, "cells": cells}), encoding="utf-8")
    return path


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A book with a chapter of each kind, on a machine that has everything but a GPU."""
    part = tmp_path / "book" / "part1_x"
    part.mkdir(parents=True)
    for number, tier in enumerate(hardware.TIERS, start=1):
        write(part, f"{number:02}_x", tier)
    monkeypatch.setattr(files, "book", lambda: tmp_path / "book")
    monkeypatch.setattr(hardware, "gpu", lambda: None)
    monkeypatch.setattr(hardware, "driver_cuda", lambda: (13, 0))
    monkeypatch.setattr(toolchain, "nvcc", lambda: ALL)
    monkeypatch.setattr(doctor, "_requirements", lambda: ["numpy>=1.26"])
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/bin/{name}")
    return tmp_path


def does() -> list[str]:
    return [each.does.partition(" (")[0] for each in doctor.examine().abilities]


def test_what_each_chapter_does(book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emulated = "runs on the emulator, with recorded times"
    assert does() == ["runs here", emulated, emulated, emulated, emulated]
    monkeypatch.setattr(hardware, "gpu", lambda: H200)
    on_gpu = "runs on your GPU"
    assert does() == ["runs here", on_gpu, on_gpu, on_gpu, emulated]
    monkeypatch.setattr(hardware, "gpu", lambda: T4)
    assert does() == ["runs here", on_gpu, emulated, emulated, emulated]


def test_a_driver_that_is_older_than_the_compiler(
    book: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(hardware, "gpu", lambda: T4)
    monkeypatch.setattr(hardware, "driver_cuda", lambda: (12, 4))
    assert set(does()) == {"runs here", "runs on the emulator, with recorded times"}
    assert __main__.main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "550.1; its driver is for CUDA 12.4, older than this nvcc, 13: CUDA cells run" in said


def test_a_machine_without_a_gpu_executes_the_book(book: Path, capsys: Any) -> None:
    assert __main__.main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "GPU            none" in said and said.endswith("can be executed on this machine.\n")


def test_json(book: Path, capsys: Any) -> None:
    assert __main__.main(["doctor", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["executable"] is True and len(data["abilities"]) == 5
    found = {each["what"]: each["found"] for each in data["findings"]}
    assert found["nvcc"].startswith("13.0.88") and found["GPU"] == ""


def test_without_a_compiler(book: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def missing() -> toolchain.Nvcc:
        raise toolchain.ToolMissing("no nvcc: install one with: pip install x")

    monkeypatch.setattr(toolchain, "nvcc", missing)
    assert __main__.main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "MISSING  no nvcc: install one with: pip install x" in said
    assert "can only be read" in said and said.endswith("cannot be executed on this machine.\n")


def test_an_installed_package_is_asked_for_the_emulator_alone(
    book: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """No notebooks, no nvcc, no g++, nothing of the extra: PTX runs all the same."""

    def missing() -> toolchain.Nvcc:
        raise toolchain.ToolMissing("no nvcc: install one with: pip install x")

    monkeypatch.setattr(files, "book", lambda: book / "absent")
    monkeypatch.setattr(toolchain, "nvcc", missing)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    asked = ["numpy>=1.26", "no-such-thing>=3; extra == 'notebook'"]
    monkeypatch.setattr(doctor, "_requirements", lambda: asked)
    assert __main__.main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert said.endswith("\n\nemulator: ready\n") and "MISSING" not in said
    assert "no-such-thing  none     only notebooks need it: pip install 'no-such-thing>=3'" in said
    assert "nvcc           none     no nvcc: install one with: pip install x" in said
    assert __main__.main(["doctor", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["healthy"], data["executable"], data["book"]) == (True, False, False)


@pytest.mark.parametrize("book_too", [True, False])
def test_an_emulator_that_computes_wrongly_is_not_ready(
    book: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, book_too: bool
) -> None:
    if not book_too:
        monkeypatch.setattr(files, "book", lambda: book / "absent")
    wrong = doctor._PROBE.replace("add.u32 %r2, %r2, 1;", "add.u32 %r2, %r2, 2;")
    for probe, why in ((wrong, "computes wrongly"), ("nonsense", "PTX line 1")):
        monkeypatch.setattr(doctor, "_PROBE", probe)
        assert __main__.main(["doctor"]) == 1
        said = capsys.readouterr().out
        assert "emulator: not ready" in said and why in said
        assert said.endswith("cannot be executed on this machine.\n") is book_too


def test_a_missing_package_has_a_remedy(book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_requirements", lambda: ["no-such-thing>=3; extra == 'x'"])
    (finding,) = (f for f in doctor.examine().findings if f.what == "no-such-thing")
    assert not finding.ok and finding.remedy == "install it: pip install 'no-such-thing>=3'"
    assert not doctor.examine().executable


def test_the_package_of_a_compiler_is_not_asked_for_where_there_is_one(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_requirements", lambda: [f"{doctor.COMPILER}[nvcc]==0.1"])
    assert doctor.examine().executable
    monkeypatch.undo()
    assert any(requirement.startswith(doctor.COMPILER) for requirement in doctor._requirements())


def test_requirements_come_from_the_package_where_there_is_no_checkout(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(files, "kernels", lambda: book / "kernels")
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: [f"{name}-needs-this"])
    assert doctor._requirements() == ["phasebit-needs-this"]
    (book / "pyproject.toml").write_text(
        '[project]\ndependencies = ["a"]\noptional-dependencies = {notebook = ["b"]}\n'
    )
    assert doctor._requirements() == ["a", "b"]


def test_record_without_a_gpu_fails_in_a_sentence(book: Path, capsys: Any) -> None:
    assert __main__.main(["record", "double_buffering"]) == 1
    assert capsys.readouterr().err == (
        "phasebit: there is no NVIDIA GPU here: records are made on one\n"
    )


# Chapters


def test_a_chapter_without_a_tier_is_refused(tmp_path: Path) -> None:
    for tier in (None, "sm_99"):
        with pytest.raises(ValueError, match=r"01_x\.ipynb names no tier"):
            contents.read(write(tmp_path, "01_x", tier))
    with pytest.raises(ValueError, match="has no title"):
        contents.read(write(tmp_path, "01_x", "cpu", title="text"))


def test_the_books_own_chapters() -> None:
    found = {one.number: one.tier for one in contents.chapters(files.book())}
    assert found[11] == "sm_75" and found[1] == found[2] == found[3] == "cpu"
    numbers = [number for number in found if number is not None]
    assert numbers == sorted(numbers)  # pages without a number stand where the book has them
    folders = [one.path.parent.name for one in contents.chapters(files.book())]
    assert folders == sorted(folders, key=lambda name: (name == "appendix", name))


def test_a_reader_who_stops_early_ends_the_command_quietly() -> None:
    """``python -m phasebit doctor --json | head -1``, with a reader that is gone at once."""
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [sys.executable, "-m", "phasebit", "doctor", "--json"],
        stdout=write, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(write)
    assert (ended.returncode, ended.stderr) == (1, "")
