"""What is kept is whole, one's own, and nobody's leavings."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from phasebit import build_cache
from phasebit.build_cache import CacheError, Scratch

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PHASEBIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    build_cache._opened.cache_clear()
    return tmp_path / "cache"


def test_an_entry_is_made_once(cache: Path) -> None:
    for text in ("first", "second"):
        entry = build_cache.keep("a.ptx", lambda path, text=text: path.write_text(text) and None)
    assert entry.read_text() == "first" and [*cache.iterdir()] == [entry]


def test_only_its_owner_may_look_into_it(cache: Path) -> None:
    before = os.umask(0o002)
    try:
        entry = build_cache.keep("runtime/a", Path.mkdir)
        again = build_cache.keep("runtime/a", Path.mkdir)
    finally:
        os.umask(before)
    assert entry == again
    for path in (cache, entry.parent, entry):
        assert path.stat().st_mode & 0o777 == 0o700


def test_what_fails_leaves_nothing(cache: Path) -> None:
    def fail(path: Path) -> None:
        path.mkdir()
        raise ValueError("the compiler refuses")

    with pytest.raises(ValueError, match="the compiler refuses"):
        build_cache.keep("a", fail)
    assert [*cache.iterdir()] == []


def _write(barrier: object, folder: bool) -> None:
    def make(path: Path) -> None:
        if folder:
            path.mkdir()
        target = path / "log" if folder else path
        target.write_text("whole")
        barrier.wait()  # type: ignore[attr-defined]

    build_cache.keep("entry", make)


@pytest.mark.parametrize("folder", [True, False])
def test_many_processes_make_one_entry_at_once(cache: Path, folder: bool) -> None:
    """Each has its own temporary name: with one for all, the second to move it finds nothing."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(3)
    writers = [context.Process(target=_write, args=(barrier, folder)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    entry = cache / "entry"
    assert (entry / "log" if folder else entry).read_text() == "whole"
    assert [*cache.iterdir()] == [entry]


# -- whose it is ----------------------------------------------------------------


def test_a_cache_of_another_user_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: cache.stat().st_uid + 1)
    with pytest.raises(CacheError, match=r"belongs to another user.*set PHASEBIT_CACHE"):
        build_cache.folder()


def test_a_library_of_another_user_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = build_cache.keep("a", Path.mkdir)
    monkeypatch.setattr(os, "geteuid", lambda: cache.stat().st_uid + 1)
    with pytest.raises(CacheError, match=f"{entry} belongs to another user"):
        build_cache.keep("a", Path.mkdir)


def test_a_cache_that_others_may_write_is_refused(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.raises(CacheError, match=rf"others may write to {cache}.*chmod go-w"):
        build_cache.folder()


@pytest.mark.parametrize("home", ["/dev/null", "/proc"])
def test_a_home_that_cannot_be_written_is_a_sentence(home: str) -> None:
    environment = {**os.environ, "HOME": home, "PYTHONPATH": str(ROOT)}
    for name in ("PHASEBIT_CACHE", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    kernel = ROOT / "tests" / "emulator" / "runner.cu"
    command = [sys.executable, "-m", "phasebit", "nvcc", kernel, "-o", "/dev/null"]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert answer.returncode == 1
    assert answer.stderr.startswith(f"phasebit: {home}/.cache/phasebit, where builds are kept, can")
    assert "set PHASEBIT_CACHE" in answer.stderr and len(answer.stderr.splitlines()) == 1


@pytest.mark.parametrize("variables", [
    {"HOME": "somewhere"}, {"HOME": "./", "XDG_CACHE_HOME": "somewhere"},
])  # fmt: skip
def test_no_home_is_a_sentence(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And nothing is left in the folder that happens to be the current one."""
    monkeypatch.chdir(tmp_path)
    for name in ("PHASEBIT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(CacheError, match=r"no home folder.*set PHASEBIT_CACHE"):
        build_cache.folder()
    assert not [*tmp_path.iterdir()]


def test_a_relative_folder_is_where_it_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PHASEBIT_CACHE", "kept")
    entry = build_cache.keep("a", Path.mkdir)
    assert entry == tmp_path / "kept" / "a" and entry.is_dir()
    monkeypatch.delenv("PHASEBIT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "kept")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert build_cache.folder() == tmp_path / "home" / ".cache" / "phasebit"


def test_a_folder_that_has_lost_its_files_is_made_anew(cache: Path) -> None:
    def make(path: Path) -> None:
        path.mkdir()
        for name in ("program", "log"):
            (path / name).write_text(name)

    for lost in ("program", "log", ""):
        entry = build_cache.keep("a", make, holds=("program", "log"))
        (entry / "mark").touch()
        assert build_cache.keep("a", make, holds=("program", "log")) == entry
        assert (entry / "mark").exists()
        (entry / lost).unlink() if lost else shutil.rmtree(entry)
        assert build_cache.keep("a", make, holds=("program", "log")) == entry
        assert {each.name for each in entry.iterdir()} == {"program", "log"}
    assert [*cache.iterdir()] == [entry]


def test_a_full_disk_is_a_sentence(cache: Path) -> None:
    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(CacheError, match=r"cannot be written.*No space left.*PHASEBIT_CACHE"):
        build_cache.keep("a", full)


# -- what killed processes leave --------------------------------------------------


def killed(parent: Path, prefix: str) -> Path:
    """The scratch folder of a process that was killed."""
    command = (
        "import sys, time; from pathlib import Path; from phasebit.build_cache import Scratch\n"
        f"scratch = Scratch(Path({str(parent)!r}), {prefix!r})\n"
        "print(scratch.name, flush=True); time.sleep(600)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", command], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout
        name = process.stdout.readline().strip()
        os.kill(process.pid, signal.SIGKILL)
    return Path(name)


def age(folder: Path) -> None:
    hour_ago = time.time() - 3600
    os.utime(folder / build_cache._OWNER, (hour_ago, hour_ago))


def test_what_a_killed_process_left_is_swept_at_the_next_start(cache: Path) -> None:
    cache.mkdir(mode=0o700)
    left = [killed(cache, ".new-"), killed(cache.parent, "phasebit-")]
    young = killed(cache, ".new-")
    for each in left:
        age(each)
    build_cache.folder()
    assert [each.exists() for each in left] == [False, False]
    assert young.exists()


def test_what_is_in_use_or_not_ours_stays(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = cache.parent / "phasebit-notebook"
    notes.mkdir()
    with Scratch() as used:
        age(Path(used))
        build_cache.folder()
        assert Path(used).exists() and notes.exists()
    foreign = killed(cache.parent, "phasebit-")
    age(foreign)
    monkeypatch.setattr(os, "geteuid", lambda: foreign.stat().st_uid + 1)
    build_cache.sweep(cache.parent, "phasebit-")
    assert foreign.exists()
