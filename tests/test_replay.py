"""A recorded run belongs to one program: any other token, header, option or argument has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasebit import files, replay

RUN = replay.RecordedRun(
    "NVIDIA H200", "580", "13.0", "2026-11-21", "OK\n⏱ 1 µs\n", "", 0, "", None, 60.0
)
SOURCE = '#include "check.cuh"\nint main() { return 1 + 2; }  // three\n'


@pytest.mark.parametrize(
    "same",
    [
        SOURCE.replace("// three", "// drei"),
        SOURCE.replace("  // three", ""),
        SOURCE.replace("1 + 2", "1  /* and */  + 2"),
        "// a title\n\n" + SOURCE,
        SOURCE.replace("{ ", "{\n    "),
    ],
)
def test_comments_and_spacing_do_not_matter(same: str) -> None:
    assert replay.key(same) == replay.key(SOURCE)


@pytest.mark.parametrize(
    "other",
    [
        SOURCE.replace("1 +", "2 +"),
        SOURCE.replace("check.cuh", "harness.cuh"),
        SOURCE.replace("1 + 2", "1 +2"),
        SOURCE.replace('"\nint', '" int'),  # a line end closes a directive
    ],
)
def test_any_other_program_is_another(other: str) -> None:
    assert replay.key(other) != replay.key(SOURCE)


def test_options_and_arguments_count() -> None:
    keys = {
        replay.key(SOURCE),
        replay.key(SOURCE, ["-DX"]),
        replay.key(SOURCE, [], ["-DX"]),
        replay.key(SOURCE, [], ["1", "2"]),
        replay.key(SOURCE, [], ["1 2"]),
    }
    assert len(keys) == 5


def test_a_header_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    header = tmp_path / "include" / "check.cuh"
    monkeypatch.setattr(files, "kernels", lambda: tmp_path)
    header.write_text("int one = 1;\n")
    before = replay.key(SOURCE)
    header.write_text("int one = 1;  // the first\n")
    assert replay.key(SOURCE) == before
    header.write_text("int one = 2;\n")
    assert replay.key(SOURCE) != before


@pytest.mark.parametrize(
    ("source", "normal"),
    [
        ('puts("a  // b");', 'puts("a  // b");'),
        (r'puts("\"  /* b");', r'puts("\"  /* b");'),
        ('puts(R"(a  // b)");', 'puts(R"(a  // b)");'),
        ("char c = '\"';  // quoted", "char c = '\"';"),
        ("a / b  /  c", "a / b / c"),
    ],
)
def test_strings_are_left_alone(source: str, normal: str) -> None:
    assert replay.normal_form(source) == normal


def test_saved_and_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(files, "records", lambda: tmp_path)
    assert replay.find("abc") is None
    replay.save("abc", RUN)
    assert replay.find("abc") == RUN
