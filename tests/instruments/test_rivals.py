"""Open kernels of others: what is said where they are not, and what is compiled where they are."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from phasebit import toolchain
from phasebit.instruments import rivals

VERSION = "#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n#define CUTLASS_PATCH 1\n"
LAUNCH = "kernel<<<blocks, threads, sMemSize>>>(M, N, K, C);\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(rivals.FOLDER, str(tmp_path))
    return tmp_path


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the compiler is given; nothing is compiled or loaded."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(
        toolchain, "build", lambda text, **options: given.update(options, text=text)
    )
    monkeypatch.setattr(rivals, "_loaded", lambda build: None)
    return given


def put(folder: Path, path: str, text: str) -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("said", [None, ""])
def test_without_a_folder_the_variable_is_named(
    said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(rivals.FOLDER, raising=False)
    if said is not None:
        monkeypatch.setenv(rivals.FOLDER, said)
    with pytest.raises(toolchain.CudaError, match=f"set {rivals.FOLDER} to a folder"):
        rivals.checkout("cutlass")


@pytest.mark.parametrize("name", rivals.CHECKOUTS)
def test_a_missing_checkout_is_named_with_its_source(name: str, folder: Path) -> None:
    for other in set(rivals.CHECKOUTS) - {name}:
        (folder / other).mkdir()
        assert rivals.checkout(other) == folder / other
    with pytest.raises(toolchain.CudaError, match=re.escape(f"clone {rivals.CHECKOUTS[name]}")):
        rivals.checkout(name)


@pytest.mark.parametrize("read", [rivals.fast_cu, rivals.cutlass_version])
def test_a_checkout_without_the_file_is_said(read: Any, folder: Path) -> None:
    for name in rivals.CHECKOUTS:
        (folder / name).mkdir()
    with pytest.raises(toolchain.CudaError, match="cannot be read: No such file"):
        read()


def test_fast_cu_is_launched_on_the_stream_of_the_caller(
    folder: Path, built: dict[str, Any]
) -> None:
    put(folder, f"fast.cu/{rivals._FAST}", LAUNCH)
    _, made_of = rivals.fast_cu()
    assert "sMemSize, stream_of_rival>>>(M, N" in built["text"] and LAUNCH not in built["text"]
    put(folder, f"fast.cu/{rivals._FAST}", LAUNCH + "\n")
    assert rivals.fast_cu()[1] != made_of  # the digest is of the file


@pytest.mark.parametrize("other", ["", LAUNCH * 2, LAUNCH.replace("sMemSize", "bytes")])
def test_another_fast_cu_is_not_timed(
    other: str, folder: Path, built: dict[str, Any]
) -> None:
    put(folder, f"fast.cu/{rivals._FAST}", other)
    with pytest.raises(toolchain.CudaError, match="not the kernel that this was written for"):
        rivals.fast_cu()
    assert not built


def test_the_version_of_cutlass_is_its_headers(folder: Path) -> None:
    header = "cutlass/include/cutlass/version.h"
    put(folder, header, "".join(reversed(VERSION.splitlines(True))))
    assert rivals.cutlass_version() == "4.2.1"
    put(folder, header, VERSION.replace("CUTLASS_PATCH", "CUTLASS_BUILD"))
    with pytest.raises(toolchain.CudaError, match="names no version"):
        rivals.cutlass_version()


@pytest.mark.parametrize("pingpong, stream_k, exchanged", [(0, 0, 0), (1, 0, 0), (0, 1, 1)])
def test_a_kernel_of_cutlass_has_what_was_asked(
    pingpong: bool, stream_k: bool, exchanged: bool, folder: Path, built: dict[str, Any]
) -> None:
    (folder / "cutlass").mkdir()
    rivals.cutlass(64, 256, 32, pair=2, pingpong=bool(pingpong), stream_k=bool(stream_k),
                   exchanged=bool(exchanged))  # fmt: skip
    text, loop = built["text"], "Pingpong" if pingpong else "Cooperative"
    assert "Shape<Int<64>, Int<256>, Int<32>>" in text and "Shape<Int<2>, _1, _1>" in text
    assert f"KernelTmaWarpSpecialized{loop}>" in text
    assert f"epilogue::TmaWarpSpecialized{'' if pingpong else loop}>" in text
    assert f"gemm::{'StreamK' if stream_k else 'Persistent'}Scheduler>" in text
    assert f"if constexpr ({str(bool(exchanged)).lower()})" in text
    assert not re.search(r"##|\b(ROWS|COLUMNS|DEPTH|PAIR|EXCHANGED|SCHEDULER)\b", text)
    assert f"-isystem={folder / 'cutlass' / 'include'}" in built["options"]


def test_a_deep_gemm_that_does_not_load_is_no_traceback(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "deep_gemm", raising=False)
    put(folder, "DeepGEMM/deep_gemm/__init__.py", "import no_such_extension")
    with pytest.raises(toolchain.CudaError, match=r"does not load from .*no_such_extension"):
        rivals.deep_gemm()
