"""FlashAttention-3 is a rival where it is built, and its absence is no error."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from phasebit import toolchain
from phasebit.chapters.attention import flash_3
from phasebit.instruments import rivals


def put(folder: Path, name: str, text: str) -> None:
    path = folder / flash_3.FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_nobody_built_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(rivals.FOLDER, raising=False)
    assert flash_3.here() is None
    monkeypatch.setenv(rivals.FOLDER, str(tmp_path))
    assert flash_3.here() is None
    with pytest.raises(toolchain.CudaError, match="clone https"):
        flash_3.build()


def test_a_library_is_loaded_behind_the_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name, **_: loaded.append(name))
    monkeypatch.setenv(rivals.FOLDER, str(tmp_path))
    put(tmp_path, flash_3.LIBRARY, "")
    flash_3.here()
    assert loaded == ["libcuda.so.1", str(tmp_path / flash_3.FOLDER / flash_3.LIBRARY)]


def test_the_record_says_what_was_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(rivals.FOLDER, str(tmp_path))
    put(tmp_path, "hopper/__init__.py", '__version__ = "3.0.0"\n')
    put(tmp_path, "hopper/mainloop_fwd_sm90_tma_gmma_ws.hpp", "loop")
    assert flash_3.version().startswith("FlashAttention-3 3.0.0, hopper/mainloop_fwd")
    put(tmp_path, "hopper/__init__.py", "")
    with pytest.raises(toolchain.CudaError, match="names no version"):
        flash_3.version()
