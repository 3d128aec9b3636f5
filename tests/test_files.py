"""Texts that a reader names: a pipe is read to its end, and one that is silent is a sentence."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from phasebit import files


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipe whose writer may be silent for a moment only."""
    monkeypatch.setattr(files, "PATIENCE", 0.2)
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.mark.parametrize("words", [["one"], ["one", " and ", "two" * 100_000]])
def test_a_pipe_is_read_to_its_end(
    words: list[str], pipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PATIENCE", 60)

    def write() -> None:
        with open(pipe, "w") as file:
            for word in words:
                file.write(word)
                file.flush()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    assert files.read_text(pipe) == "".join(words)
    writer.join()


def test_a_pipe_into_which_nobody_writes_is_refused(pipe: Path) -> None:
    with pytest.raises(ValueError, match=r"^nobody wrote into \S+pipe for 0.2 s: give a file$"):
        files.read_text(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY)
    with pytest.raises(ValueError, match="nobody wrote"):  # there is a writer, who is silent
        files.read_text(pipe)
    os.close(reader)
    os.close(writer)


def test_more_than_a_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_TEXT", 1 << 20)
    (tmp_path / "long").write_text("x" * (1 << 20))
    assert len(files.read_text(tmp_path / "long")) == 1 << 20
    (tmp_path / "long").write_text("x" * ((1 << 20) + 1))
    with pytest.raises(ValueError, match="more than 1 MiB"):
        files.read_text(tmp_path / "long")
    (tmp_path / "late").write_bytes(b"x" * 100_000 + b"\0" + b"x" * 100_000)
    with pytest.raises(ValueError, match="is no text"):
        files.read_text(tmp_path / "late")
    with pytest.raises(ValueError, match=r"cannot read .*Is a directory"):
        files.read_text(tmp_path)


def test_a_file_is_written_anew_and_a_pipe_with_a_reader_too(
    pipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old").write_text("much longer than what comes")
    with files.for_writing(tmp_path / "old") as file:
        file.write("new\n")
    assert (tmp_path / "old").read_text() == "new\n"
    with pytest.raises(OSError, match="No such device"):
        files.for_writing(pipe)
    monkeypatch.setattr(files, "PATIENCE", 60)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(files.read_text(pipe)), daemon=True)
    reader.start()
    while True:
        try:
            file = files.for_writing(pipe)
            break
        except OSError:  # the reader has not come yet
            continue
    with file:
        file.write("x" * 300_000)  # more than a pipe holds: the writer waits for the reader
    reader.join()
    assert read == ["x" * 300_000]


def test_the_mark_that_an_editor_puts_first_is_not_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbfrace\r\n")
    assert files.read_text(tmp_path / "marked") == "race\r\n"
    (tmp_path / "wide").write_bytes("race".encode("utf-16"))
    with pytest.raises(ValueError, match="is no text"):
        files.read_text(tmp_path / "wide")


def test_a_file_is_renewed_as_a_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "record.json"
    files.renew(file, "old")

    def stopped(self: Path, text: str, **_: object) -> None:
        with self.open("w") as half:
            half.write(text[:2])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", stopped)
    with pytest.raises(KeyboardInterrupt):
        files.renew(file, "newer")
    assert file.read_text() == "old" and [*tmp_path.iterdir()] == [file]
