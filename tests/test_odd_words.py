"""Whatever words a command is given, it answers or refuses in a sentence: no stack of frames.

`run` has tests of its own, with programs that it starts (tests/runtime/test_run_options.py).
"""

from __future__ import annotations

import contextlib
import io
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasebit import doctor, originals
from phasebit.__main__ import main
from phasebit.runtime import command

# What an operating system hands on: anything but NUL, and bytes that are no UTF-8 as surrogates.
TEXT = st.text(
    st.one_of(
        st.characters(exclude_characters="\0", exclude_categories=("Cs",)),
        st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF),
        st.sampled_from("-=,'\"\\@0xX{}%/"),
    ),
    max_size=12,
)
NUMBERS = st.one_of(
    st.integers(-2, 1 << 65).map(hex),
    st.integers(0, (1 << 64) - 1).map(hex),
    st.integers(0, (1 << 32) - 1).map(hex),
    st.integers(-2, 1 << 65).map(str),
    st.sampled_from(["0b1", "0o7", "1_0", " 7 ", "+3", "1e3", "9" * 5000]),
)
KNOWN = {
    "descriptor": ["--of", "wgmma", "tcgen05", "--kind", "f16", "mxf4nvf4", "i8", "--", "-h"],
    "doctor": ["--json", "-h", "--js"],
    "nvcc": ["-arch=sm_90a", "-arch", "sm_80", "-gencode", "arch=compute_90,code=sm_90", "-optf",
             "--options-file=", ".", "loop.txt", "-dlto", "-lcudadevrt", "x.cu", "-o", "quote.txt",
             "bytes.txt", "-code", "-gencode=arch=compute_90a,code=[sm_90a,compute_90a]"],
    "originals": ["--list", "--from", ".", "absent", "--write", "--", "-h"],
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory):
    """A folder with files of odd options; nothing is examined, compiled, fetched or written."""
    at = tmp_path_factory.mktemp("words")
    (at / "loop.txt").write_text("-optf loop.txt")
    (at / "quote.txt").write_text("-o 'x")
    (at / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    found = doctor.examine()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(at)
        done = SimpleNamespace(run=lambda *_, **__: SimpleNamespace(returncode=0))
        patch.setattr(command, "subprocess", done)
        patch.setattr(doctor, "examine", lambda: found)
        patch.setattr(originals, "measure", lambda *_: {})
        patch.setattr(originals, "write", lambda _: "nothing")
        yield


def answer(words: list[str]) -> tuple[object, str, str]:
    """Status, output and errors; whatever else is raised comes out."""
    out, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            status = main(words)
        except SystemExit as end:  # what argparse does
            status = end.code
    said = [each.buffer.getvalue().decode() for each in (out, errors)]  # type: ignore[attr-defined]
    return status, said[0], said[1]


@pytest.mark.nvcc
@pytest.mark.parametrize("name", KNOWN)
def test_it_answers_or_says_what_is_wrong(name: str) -> None:
    word = st.one_of(st.sampled_from(KNOWN[name]), NUMBERS, TEXT)

    @settings(max_examples=200, deadline=None, database=None, derandomize=True)
    @given(st.lists(word, max_size=5))
    def ask(words: list[str]) -> None:
        status, out, errors = answer([name, *words])
        assert status in (0, 1, 2)
        assert "Traceback" not in out + errors
        if status:
            assert errors.strip(), words

    ask()


@pytest.mark.nvcc
@pytest.mark.parametrize("file", ["loop.txt", "quote.txt", "bytes.txt", ".", "absent", ""])
def test_a_file_of_options_that_cannot_be_is_refused(file: str) -> None:
    status, out, errors = answer(["nvcc", "-optf", file])
    assert (status, out) == (2, "") and len(errors.splitlines()) == 1, errors
