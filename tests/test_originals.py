"""Others' programs: what is fetched is what was meant, and what is said of it is judged."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phasebit import bugs, build_cache, originals
from phasebit.__main__ import main
from phasebit.emulator import rulebook
from phasebit.originals import Original, Refused
from phasebit.runtime import apart
from phasebit.runtime.report import Report

BROKEN = """#include <cstdio>
__global__ void shift(int* out) {
    __shared__ int line[64];
    line[threadIdx.x] = threadIdx.x;
    // here
    out[threadIdx.x] = line[63 - threadIdx.x];
}
int main() {
    int* out;
    cudaMalloc(&out, 256);
    shift<<<1, 64>>>(out);
    std::puts(cudaDeviceSynchronize() == cudaSuccess ? "right" : "wrong");
}
"""
FIXED = BROKEN.replace("// here", "__syncthreads();")


def git(clone: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(
        ["git", "-C", str(clone), *who, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of two commits: one with a race, and one without."""
    folder = tmp_path_factory.mktemp("clone")
    git(folder, "init", "-q")
    (folder / "src").mkdir()
    for text in (BROKEN, FIXED):
        (folder / "src" / "shift.cu").write_text(text)
        (folder / "src" / "note.txt").write_text("no code")
        (folder / "other.txt").write_text("not asked for")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "a change")
    return folder


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urllib.request, "urlopen", offline)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of builds of its own."""
    monkeypatch.setenv("PHASEBIT_CACHE", str(tmp_path / "cache"))
    build_cache._opened.cache_clear()
    yield
    build_cache._opened.cache_clear()


def offline(*_: Any, **__: Any) -> Any:
    raise OSError("no route to host")


def commits(clone: Path) -> dict[str, str]:
    return {"broken": git(clone, "rev-parse", "HEAD~1"), "fixed": git(clone, "rev-parse", "HEAD")}


def an_original(clone: Path) -> Original:
    at = commits(clone)
    sums = {twin: originals.checksum(originals.from_clone(clone, at[twin], ["src"])) for twin in at}
    return Original(
        "shift", "A shift", "nobody/nothing", "https://example.org", "reuse", "fixed", "sm_80",
        ("src",), "src/shift.cu", (), "race", "shift.cu:6", at, sums, ("src",),
    )  # fmt: skip


def test_a_clone_gives_the_files_of_a_commit_and_no_others(clone: Path) -> None:
    found = originals.from_clone(clone, commits(clone)["broken"], ["src"])
    assert found == {"src/shift.cu": BROKEN.encode(), "src/note.txt": b"no code"}


def test_the_checksum_is_that_of_what_sha256sum_prints() -> None:
    lines = f"{hashlib.sha256(b'1').hexdigest()}  a\n{hashlib.sha256(b'2').hexdigest()}  b/c\n"
    wanted = hashlib.sha256(lines.encode()).hexdigest()
    assert originals.checksum({"b/c": b"2", "a": b"1"}) == wanted


@pytest.mark.usefixtures("empty")
def test_github_gives_the_same_as_a_clone(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = an_original(clone)
    asked = []

    def archive(address: str, timeout: float) -> Any:
        asked.append(address)
        data = subprocess.run(
            ["git", "-C", str(clone), "archive", "--prefix=nothing-1/", "--format=tar.gz",
             address.rpartition("/")[2]], check=True, capture_output=True,
        ).stdout  # fmt: skip
        return io.BytesIO(data)

    monkeypatch.setattr(urllib.request, "urlopen", archive)
    assert (one.tree("broken") / "src" / "shift.cu").read_text() == BROKEN
    assert asked == [f"https://codeload.github.com/nobody/nothing/tar.gz/{one.commits['broken']}"]
    monkeypatch.setattr(urllib.request, "urlopen", offline)
    assert (one.tree("broken") / "src" / "shift.cu").read_text() == BROKEN  # from the cache


@pytest.mark.usefixtures("empty")
def test_other_bytes_are_refused_and_not_kept(clone: Path) -> None:
    one = an_original(clone)
    other = replace(one, checksums={**one.checksums, "broken": "0" * 64})
    for _ in range(2):
        with pytest.raises(Refused, match=r"have the checksum .* nothing is compiled"):
            other.tree("broken", clone)


@pytest.mark.usefixtures("empty")
def test_what_cannot_be_had_is_said_in_a_sentence(clone: Path, tmp_path: Path) -> None:
    one = an_original(clone)
    with pytest.raises(Refused, match="no route to host; with a clone of nobody/nothing: --from"):
        one.tree("fixed")
    with pytest.raises(Refused, match="gives no files of"):
        one.tree("fixed", tmp_path)
    with pytest.raises(Refused, match="no original is called 'luck': choose from"):
        originals.named("luck")


def test_an_archive_cannot_name_a_file_outside() -> None:
    assert not originals._within("src/../../evil", ["src"])
    assert not originals._within("source/file", ["src"])
    assert originals._within("src/a/b", ["src"]) and originals._within("src", ["src"])


def test_an_archive_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: io.BytesIO(b"not found"))
    with pytest.raises(Refused, match="cannot fetch"):
        originals.from_github("nobody/nothing", "0", ["src"])
    assert issubclass(tarfile.ReadError, tarfile.TarError)


@pytest.mark.nvcc
def test_both_twins_are_compiled_run_and_judged(clone: Path) -> None:
    one = an_original(clone)
    record = originals.measure([one], clone, lambda line: None)
    row = record["originals"]["shift"]
    assert (row["broken"], row["fixed"]) == ("found", "clean")
    assert "shift.cu:6" in row["said"] and row["fixed ends"] == "right, status 0"


@pytest.mark.nvcc
def test_a_repair_of_ours_takes_the_place_of_one_line(clone: Path) -> None:
    at, one = commits(clone)["broken"], an_original(clone)
    sums = dict.fromkeys(bugs.TWINS, one.checksums["broken"])
    mended = replace(one, commits=dict.fromkeys(bugs.TWINS, at), checksums=sums,
                     repair=(("// here", "__syncthreads();"),))  # fmt: skip
    assert mended.verdict("fixed", mended.run("fixed", clone)) == "clean"
    with pytest.raises(Refused, match="has no single line 'there' to mend"):
        replace(mended, repair=(("there", ""),)).run("fixed", clone)


DRIVER = """import runpy, sys
print("right" if runpy.run_path(sys.argv[1])["value"] == 1 else "wrong: 1 of 1")
"""


def in_cute_dsl(clone: Path, folder: Path) -> Original:
    """An original whose program is a text that our driver runs."""
    (folder / "drive.py").write_text(DRIVER)
    at, one = commits(clone)["broken"], an_original(clone)
    return replace(
        one, commits=dict.fromkeys(bugs.TWINS, at), driver=str(folder / "drive.py"),
        checksums=dict.fromkeys(bugs.TWINS, one.checksums["broken"]), program="src/note.txt",
        repair=(("no code", "value = 1"),),
    )  # fmt: skip


def test_a_program_of_cute_dsl_is_left_out_where_there_is_none(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    one, told = in_cute_dsl(clone, tmp_path), list[str]()
    assert originals.measure([one], clone, told.append)["originals"] == {}
    assert told == ["shift: needs CuTe DSL: pip install nvidia-cutlass-dsl"]


def test_a_program_of_cute_dsl_is_mended_and_given_to_its_driver(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, asked = in_cute_dsl(clone, tmp_path), []

    def reported(words: Any, timeout: float, environment: Any) -> Any:
        asked.append(words("report"))
        assert str(one.tree("fixed", clone) / "src") in environment["PYTHONPATH"].split(os.pathsep)
        return SimpleNamespace(stdout="right\n", stderr="", status=0), Report()

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(apart, "reported", reported)
    assert one.run("fixed", clone).result == "right"
    *options, driver, program = asked[0]
    assert options == ["phasebit.cute", "--target", "sm_80", "--report", "report", "--schedule",
                       "late"]  # fmt: skip
    assert Path(driver).read_text() == DRIVER and Path(program).read_text() == "value = 1"


@pytest.mark.parametrize(("rule", "text", "word"), [
    ("race", "a race at shift.cu:6", "found"), ("race", "a race at shift.cu:7", "other"),
    ("deadlock", "shift.cu:6", "other"), ("", "", "silent"),
])  # fmt: skip
def test_found_is_the_rule_and_the_place(clone: Path, rule: str, text: str, word: str) -> None:
    class Said(SimpleNamespace):
        def __str__(self) -> str:
            return str(self.text)

    seen: Any = SimpleNamespace(findings=[Said(rule=rule, text=text)] if rule else [])
    one = an_original(clone)
    assert one.verdict("broken", seen) == word
    assert one.verdict("fixed", seen) == ("false alarm" if rule else "clean")


def test_the_list_is_whole() -> None:
    for one in originals.every():
        assert one.kind in bugs.KINDS and rulebook.describe(one.rule)
        assert all(len(one.commits[twin]) == 40 and len(one.checksums[twin]) == 64
                   for twin in bugs.TWINS)  # fmt: skip
        assert (one.commits["broken"] == one.commits["fixed"]) == bool(one.repair)


def test_the_record_has_each_found_and_each_repair_clean() -> None:
    rows = originals.read()["originals"]
    assert set(rows) == {one.name for one in originals.every()}
    for row in rows.values():
        assert (row["broken"], row["fixed"]) == ("found", "clean")


def test_the_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["originals", "--list"]) == 0
    printed = capsys.readouterr().out
    assert all(one.name in printed for one in originals.every())
    assert main(["originals", "--run", "luck"]) == 2


def test_without_git_a_clone_gives_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(originals.Refused, match="git cannot be started, No such file or directory"):
        originals.from_clone(tmp_path, "HEAD", ["src"])
