"""The command line: what it cannot do it says in a sentence, and no stack of frames."""

from __future__ import annotations

import errno
import os
import shlex
from pathlib import Path

import pytest
import yaml

import phasebit
from phasebit import chapters, contents, doctor, files, hardware, recording
from phasebit.__main__ import main

ROOT = Path(__file__).resolve().parents[1]

BAD = {
    "": "arguments are required: COMMAND",
    "nope": "invalid choice: 'nope'",
    "doctor again": "unrecognized arguments: again",
    "record x": "chapter x has nothing to measure: choose from threads_and_memory (4), ",
    "ptx frob": "the emulator does not know frob",
    "descriptor": "arguments are required: value",
    "descriptor 0xzz": "0xzz is no number of 64 bits, as 0x",
    "descriptor 0x10000000000000000": "is no number of 64 bits",
    "descriptor 0x08200010 --kind fp4": "no kind fp4; it has f16, ",
    "descriptor 0x4000404000010040 --kind f16": "more than the 32 bits of an instruction",
    "descriptor 0x08200010 --kind f16 --of wgmma": "not allowed with argument",
    "nvcc -arch=volta x.cu": "write -arch=sm_90a",
    "run": "arguments are required: program",
    "run --limit soon true": "soon is no time: 0 to ",
    "run --limit -3 true": "-3 is no time",
    "run --limit nan true": "nan is no time",
    "run --limit inf true": "inf is no time",
    "run --memory 0 true": "0 is no amount of memory",
    "run --memory 1.5 true": "1.5 is no amount of memory",
    "run --memory 32769 true": "32769 is no amount of memory: 1 to 32768 MiB",
    "run --schedule soon true": "invalid choice: 'soon'",
    "run --ptx binary.ptx true": "binary.ptx is no text: --ptx takes PTX",
    "run --ptx absent.ptx true": "cannot read absent.ptx: No such file",
    **{f"run --{option} '' true": "a file has a name: give one" for option in (
        "ptx", "report", "suppressions", "baseline", "write-baseline"
    )},
    **{f"{command} {'x' * 300}": "File name too long: give a shorter name"
       for command in ("run", "mutate", "score")},
    "run absent": "no program absent: build it with `python -m phasebit nvcc",
    "run .": "no program .: build it",
    "run readme.txt": "cannot start readme.txt, Permission denied: give a program that may be",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_refused_in_one_sentence(
    words: str, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("readme.txt").write_text("not a program")
    Path("binary.ptx").write_bytes(b"\x7fELF\xd0\x00")
    try:
        status = main(shlex.split(words))
    except SystemExit as end:  # what argparse does
        status = int(end.code or 0)
    said = capfd.readouterr()
    assert (status, said.out) == (2, ""), said.err
    assert BAD[words] in said.err.splitlines()[-1]


def test_an_interrupt_is_a_status_and_no_stack_of_frames(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "examine", interrupted)
    assert main(["doctor"]) == 130 and capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("number", "says"), [
    (errno.EROFS, "x.json: Read-only file system: run this where it can be written"),
    (errno.EACCES, "x.json: Permission denied: run this as someone who may do that"),
    (errno.E2BIG, "x.json: Argument list too long: give fewer or shorter words"),
])  # fmt: skip
def test_what_the_machine_refuses_is_a_sentence(
    number: int, says: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> None:
        raise OSError(number, os.strerror(number), "x.json")

    monkeypatch.setattr(doctor, "examine", refused)
    assert main(["doctor"]) == 2 and capfd.readouterr() == ("", f"phasebit: {says}\n")


def test_a_folder_that_is_gone_is_a_sentence(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(doctor, "examine", os.getcwd)
    assert main(["doctor"]) == 2
    assert capfd.readouterr().err == (
        "phasebit: the folder that this was started in is gone: go to another one\n"
    )


@pytest.mark.parametrize("command", ["", "doctor", "record", "ptx", "descriptor", "run"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([*command.split(), "--help"])
    text = capsys.readouterr().out
    assert not end.value.code and text.startswith("usage: phasebit") and "``" not in text


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert not end.value.code and capsys.readouterr().out == f"phasebit {phasebit.__version__}\n"
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == phasebit.__version__


def test_a_wrong_chapter_is_said_before_the_first_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured: list[str] = []
    monkeypatch.setattr(recording, "record", measured.append)
    pages = contents.notebooks(files.book())
    number = {contents.name(page): str(contents.number(page)) for page in pages}
    buffering, without = number["double_buffering"], number["barriers"]
    assert main(["record", buffering, without, "copy_engine"]) == 2
    said = capsys.readouterr().err
    assert not measured and f"chapter {without} has nothing to measure" in said
    assert f"double_buffering ({buffering}), " in said and said.count("\n") == 1
    assert main(["record", buffering, "copy_engine"]) == 0
    assert measured == ["double_buffering", "copy_engine"]


def test_without_a_word_all_chapters_are_measured_in_their_order(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured: list[str] = []
    monkeypatch.setattr(recording, "record", measured.append)
    assert main(["record"]) == 0
    mine, others = recording.possible()
    assert measured == mine and {*mine, *others} == set(chapters.having("record"))
    assert not others or f"need another GPU: {', '.join(others)}" in capsys.readouterr().out
    numbers = {contents.name(p): contents.number(p) for p in contents.notebooks(files.book())}
    found = [numbers[name] for name in measured]
    with_number = [number for number in found if number is not None]
    assert with_number == sorted(with_number) == found[: len(with_number)]
    assert measured[0] == "threads_and_memory"


def test_what_needs_two_gpus_is_left_out_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = hardware.Gpu("NVIDIA H200", (9, 0), "580.95")
    monkeypatch.setattr(hardware, "gpu", lambda: one)
    for gpus, place in ((1, 1), (2, 0)):
        monkeypatch.setattr(hardware, "gpus", lambda gpus=gpus: gpus)
        assert "two_gpus" in recording.possible()[place]
