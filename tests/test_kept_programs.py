"""What is kept of PTX is loaded instead of made, and made again where it is not whole."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phasebit import build_cache, emulator, kept_programs
from phasebit.kept_programs import KeptModule

PTX = (
    """.version 8.0
.target sm_80
.address_size 64
.global .align 4 .b32 counter = 7;
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<4>; .reg .b64 %d<4>;
  ld.param.u64 %d1, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %d2, %r1, 4;
  add.s64 %d1, %d1, %d2;
  ld.global.u32 %r2, [counter];
  add.u32 %r1, %r1, %r2;
  st.global.u32 [%d1], %r1;
  ret;
}
"""
    + "// long enough\n" * 600
)


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process each time: nothing is at hand."""
    monkeypatch.setattr(kept_programs, "AT_HAND", 0)
    kept_programs._at_hand.clear()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PHASEBIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "translated"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was read and translated, in order."""
    done: list[str] = []

    def counted(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            done.append(what)
            return function(*args)

        return call

    monkeypatch.setattr(emulator.Module, "read", counted("read", emulator.Module.read))
    translated = emulator.Kernel.translated
    monkeypatch.setattr(emulator.Kernel, "translated", counted("translated", translated))
    return done


def right(ptx: str = PTX, check: bool = True) -> bool:
    out = np.zeros(32, np.int32)
    KeptModule(ptx)["k"].launch(1, 32, [out], check=check)
    return bool(np.array_equal(out, np.arange(32) + 7))


def test_the_second_time_it_is_loaded(cache: Path, made: list[str]) -> None:
    assert right() and made == ["read", "translated"]
    assert right() and made == ["read", "translated"]
    assert len([*cache.iterdir()]) == 2


def test_what_differs_is_made_apart(cache: Path, made: list[str]) -> None:
    assert right() and right(check=False)  # the text is the same
    assert made == ["read", "translated", "translated"]
    assert not right(PTX.replace("= 7", "= 8")) and made[3:] == ["read", "translated"]
    module = KeptModule(PTX, emulator.Memory())
    module.memory.allocate(1 << 12)
    moved = KeptModule(PTX, module.memory)  # its variable lies elsewhere
    moved["k"].program(True)
    assert made[5:] == ["translated"]


def test_another_maker_s_is_not_taken(
    cache: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert right()
    monkeypatch.setattr(emulator.saved_program, "maker", lambda: "another")
    assert right() and made == ["read", "translated"] * 2
    monkeypatch.setattr(emulator.saved_program, "maker", lambda: None)
    assert right() and right() and made == ["read", "translated"] * 4


@pytest.mark.parametrize("damage", [b"", b"x" * 40, None], ids=["empty", "noise", "one byte"])
def test_a_damaged_entry_is_made_again(cache: Path, made: list[str], damage: bytes | None) -> None:
    assert right()
    for entry in cache.iterdir():
        whole = entry.read_bytes()
        entry.write_bytes(bytes([whole[0] ^ 1]) + whole[1:] if damage is None else damage)
    assert right() and made == ["read", "translated"] * 2
    assert right() and len(made) == 4


def test_short_texts_are_not_kept(cache: Path, made: list[str]) -> None:
    short = PTX.partition("//")[0]
    assert right(short) and right(short) and made == ["read", "translated"] * 2
    assert not cache.exists()


def test_without_a_cache_it_is_translated(
    tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHASEBIT_CACHE", str(tmp_path / "open"))
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)  # others may write there: nothing is taken from it
    assert right() and right() and made == ["read", "translated"] * 2
    assert [*(tmp_path / "open").iterdir()] == []


def test_bad_ptx_is_refused_and_not_kept(cache: Path) -> None:
    for _ in range(2):
        with pytest.raises(emulator.PtxError):
            KeptModule(PTX.replace("mul.wide.u32", "mul.wide.f99"))["k"].program()
    assert len([*cache.iterdir()]) == 1  # the text alone, which can be read


def test_the_oldest_go_first(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert right()
    sizes = sorted(path.stat().st_size for path in cache.iterdir())
    monkeypatch.setattr(kept_programs, "MOST_BYTES", sum(sizes))
    before = {*cache.iterdir()}
    for path in before:
        os.utime(path, (1, 1))
    assert right(PTX.replace("long", "very long"))
    after = {*cache.iterdir()}
    assert sum(path.stat().st_size for path in after) <= sum(sizes)
    assert after - before and before - after


def test_what_is_used_stays(cache: Path) -> None:
    assert right()
    for path in cache.iterdir():
        os.utime(path, (1, 1))
    assert right()
    assert all(path.stat().st_mtime > 1 for path in cache.iterdir())


def test_shrink_stops_where_it_fits(tmp_path: Path) -> None:
    for age, name in enumerate(["new", "old", "oldest"]):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    build_cache.shrink(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]
    build_cache.shrink(tmp_path, 100)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize("text", [PTX, PTX.replace("mul.wide.u32", "mul.wide.f99")])
def test_the_collector_rests_while_objects_are_made_and_no_longer(
    cache: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    collected = []
    read = emulator.Module.read

    def asked(*args: Any) -> Any:
        collected.append(gc.isenabled())
        return read(*args)

    monkeypatch.setattr(emulator.Module, "read", asked)
    with contextlib.suppress(emulator.PtxError):
        KeptModule(text)["k"].program()
    assert collected == [False] and gc.isenabled()


def test_what_was_used_last_is_at_hand(
    cache: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_programs, "AT_HAND", 2)
    assert right() and made == ["read", "translated"]
    for entry in cache.iterdir():
        entry.unlink()
    assert right() and made == ["read", "translated"]
    assert right(PTX.replace("long", "very long")) and len(made) == 4  # two others are used last
    assert right() and len(made) == 6
