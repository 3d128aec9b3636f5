"""The C half: which names mean which function, and what the compiler is told. Nothing is built."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from phasebit import process
from phasebit.runtime import driver_library, library, protocol
from phasebit.runtime.driver_library import SOURCES as DRIVER
from phasebit.runtime.library import EXCHANGE, SOURCES, BuildError


def finished(status: int = 0, out: str = "", err: str = "", stopped: str = "") -> process.Finished:
    return process.Finished(out, err, status, 0.1, stopped)


def test_names_that_are_other_names() -> None:
    found = library.aliases()
    for name, base in (
        ("cudaEventRecord_ptsz", "cudaEventRecord"), ("cudaMemcpy_ptds", "cudaMemcpy"),
        ("cudaMemAdvise_v2", "cudaMemAdvise"), ("cudaThreadExit", "cudaDeviceReset"),
        ("cudaStreamGetCaptureInfo_v3", "cudaStreamGetCaptureInfo"),
        ("cudaThreadSetLimit", "cudaDeviceSetLimit"),
        ("cudaThreadSynchronize", "cudaDeviceSynchronize"),
    ):  # fmt: skip
        assert found[name] == base
    assert not found.keys() & library.defined() and set(found.values()) <= library.defined()
    assert not found.keys() & {*library.lacking()}
    assert library.lacking() == sorted(library.lacking())
    assert "cudaLaunchHostFunc_v2" in library.lacking()  # new in 13, and not what the first is


def test_names_that_programs_of_cuda_12_mean_otherwise() -> None:
    means = library.of_cuda_12()
    for name, function in (
        ("cudaGetDeviceProperties", "cudaGetDeviceProperties_12"),
        ("cudaMemPrefetchAsync_ptsz", "cudaMemPrefetchAsync_12"),
        ("cudaMemPrefetchAsync_v2", "cudaMemPrefetchAsync"), ("cudaMalloc", "cudaMalloc"),
        ("cudaMemcpy_ptds", "cudaMemcpy"), ("cudaStreamGetCaptureInfo_v2",
                                            "cudaStreamGetCaptureInfo_v2"),
    ):  # fmt: skip
        assert means[name] == function
    assert [*means] == library.exported()
    assert {each for each in library.only_12() if not each.endswith("_12")} == {
        "cudaStreamGetCaptureInfo_v2"
    }


def test_each_function_is_bound_to_its_names_in_its_own_file() -> None:
    units = library.units()
    assert {*units} == {f"unit_{path.name}" for path in SOURCES.glob("*.c")} | {"unit_stubs.c"}
    text = units["unit_memory.c"]
    assert text.startswith('#include "own.h"\n#include "memory.c"\n__asm__(')
    for version, name in (("13", "cudaMalloc@@libcudart.so.13"),
                          ("12", "cudaMalloc@libcudart.so.12")):  # fmt: skip
        alias = f"of_{version}_cudaMalloc"
        line = f".globl {alias}\\n.set {alias}, own_cudaMalloc\\n.symver {alias}, {name}"
        assert text.count(f'__asm__("{line}");\n') == 1
    older = units["unit_of_cuda_12.c"]
    assert (
        ".set of_12_cudaMemAdvise, cudaMemAdvise_12\\n"
        ".symver of_12_cudaMemAdvise, cudaMemAdvise@libcudart.so.12" in older
    )
    assert "of_13_cudaMemAdvise, " not in older
    stubs = units["unit_stubs.c"]
    assert stubs.startswith('#include "own.h"\n#include "stubs.c"\n')
    whole = "".join(units.values())
    assert whole.count("__asm__") == 2 * len(library.exported())
    assert stubs.count("__asm__") == 2 * len(library.lacking())


def test_what_is_lacking_names_itself() -> None:
    lines = library._generated()["stubs.c"].splitlines()
    name = library.lacking()[0]
    assert lines[:2] == [
        '#include "runtime.h"', f'API cudaError_t {name}(void) {{ return missing("{name}"); }}',
    ]  # fmt: skip
    assert len(lines) == 1 + len(library.lacking())


def test_what_is_generated() -> None:
    made, names = library._generated(), library.exported()
    assert made["protocol.h"] == protocol.header()
    assert made["own.h"].splitlines() == [f"#define {name} own_{name}" for name in names]
    assert made["names_12.c"].splitlines() == [f"void {name}(void) {{}}" for name in names]
    assert made["names_12.map"] == "libcudart.so.12 {\n  global: *;\n};\n"
    listed = "".join(f"    {name};\n" for name in [*names, "phasebit_*"])
    assert made["version.map"] == (
        f"libcudart.so.12 {{\n}};\nlibcudart.so.13 {{\n  global:\n{listed}  local: *;\n}};\n"
    )
    assert made["driver.map"] == "{\n  global: cu*;\n  local: *;\n};\n"


def test_the_names_of_the_driver() -> None:
    exported, defined = driver_library.exported(), driver_library.defined()
    assert {"cuInit", "cuMemcpyHtoD_v2", "cuMemcpyHtoDAsync_v2", "cuMemsetD8_v2",
            "cuMemsetD8Async", "cuMemsetD2D32_v2", "cuMemsetD2D16Async"} <= defined  # fmt: skip
    assert defined <= {*exported}
    aliases = driver_library.aliases()
    assert aliases["cuEventRecord_ptsz"] == "cuEventRecord"
    assert not aliases.keys() & defined and {*aliases.values()} <= defined
    lacking = driver_library.lacking()
    assert lacking == sorted(lacking) and "cuArray3DCreate_v2" in lacking
    assert len(exported) == len({*exported}) == len(defined) + len(aliases) + len(lacking)
    stubs = driver_library.generated()["driver_stubs.c"].splitlines()
    assert stubs == ['#include "driver.h"', *(
        f'API CUresult {name}(void) {{ return missing("{name}"); }}' for name in lacking
    )]  # fmt: skip


Commands = list[list[str]]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Iterator[Commands]:
    """The command lines that a compiler would have got."""
    made: Commands = []

    def run(command: list[str]) -> process.Finished:
        made.append(command)
        Path(command[-1]).parent.mkdir(parents=True, exist_ok=True)
        Path(command[-1]).touch()
        return finished()

    monkeypatch.setattr(library, "_run", run)
    yield made


def test_what_the_compiler_is_told(commands: Commands, tmp_path: Path) -> None:
    built, scratch = tmp_path / "built", str(tmp_path)
    library._compile(["cc", "-x"], built)
    flags = ["cc", "-x", "-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-shared"]
    exchange, runtime, driver, names = commands
    assert exchange == [
        *flags, str(EXCHANGE), "-fvisibility=default", "-o", f"{built}/libexchange.so",
    ]  # fmt: skip
    units = sorted(f"{scratch}/{name}" for name in library.units())
    assert runtime == [
        *flags, f"-I{scratch}", f"-I{SOURCES}", *units, "-pthread", "-Wl,-soname,libcudart.so.13",
        f"-Wl,--version-script={scratch}/version.map", "-o", f"{built}/libcudart.so.13",
    ]  # fmt: skip
    aliases = sorted(driver_library.aliases().items())
    assert driver == [
        *flags, f"-I{DRIVER}", *map(str, sorted(DRIVER.glob("*.c"))), f"{scratch}/driver_stubs.c",
        "-ldl", "-Wl,-soname,libcuda.so.1", "-Wl,-rpath,$ORIGIN",
        f"-Wl,--version-script={scratch}/driver.map",
        *(f"-Wl,--defsym={name}={base}" for name, base in aliases),
        f"{built}/libcudart.so.13", "-o", f"{built}/libcuda.so.1",
    ]  # fmt: skip
    assert names == [
        *flags, "-fvisibility=default", "-fno-builtin", f"{scratch}/names_12.c",
        "-Wl,-soname,libcudart.so.12", f"-Wl,--version-script={scratch}/names_12.map", "-o",
        f"{built}/12/libcudart.so",
    ]  # fmt: skip
    for name, text in library._generated().items():
        assert (tmp_path / name).read_text() == text
    links = {
        str(path.relative_to(built)): str(path.readlink())
        for path in built.rglob("*.so*") if path.is_symlink()
    }  # fmt: skip
    assert links == {
        "libcudart.so": "libcudart.so.13", "libcudart.so.12": "libcudart.so.13",
        "libcuda.so": "libcuda.so.1", "12/libcuda.so": "../libcuda.so.1",
    }  # fmt: skip


@pytest.mark.parametrize(("found", "says"), [
    (finished(1, err="a.c:1: error: no\nwarning: x\nundefined reference to y\n"),
     "a.c:1: error: no\nundefined reference to y"),
    (finished(1, out="said here"), "said here"), (finished(-9, err=" killed \n"), "killed"),
    (finished(0, stopped="time"), "it took too long"),
    (finished(1, err="x" * 5000), "x" * 2000),
    (finished(1, err="\n".join(f"error: {i}" for i in range(20))),
     "\n".join(f"error: {i}" for i in range(10))),
])  # fmt: skip
def test_why_it_does_not_compile(
    found: process.Finished, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "_run", lambda command: found)
    with pytest.raises(BuildError) as raised:
        library.link(["cc", "-x"], "a.c")
    assert str(raised.value) == f"the stand-in runtime does not compile with cc: {says}"


def test_a_compiler_has_two_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def run(command: list[str], timeout: float) -> process.Finished:
        asked.append((command, timeout))
        return finished()

    monkeypatch.setattr(library.process, "run", run)
    assert library._run(["cc"]).ok and asked == [(["cc"], 120.0)]


@pytest.mark.parametrize(("chosen", "there", "words"), [
    (None, {"gcc", "cc", "clang"}, ["/bin/gcc"]), (None, {"cc", "clang"}, ["/bin/cc"]),
    (None, {"clang"}, ["/bin/clang"]), ("gcc-14 -g 'a b'", {"gcc"}, ["gcc-14", "-g", "a b"]),
    ("", {"gcc"}, ["/bin/gcc"]),
])  # fmt: skip
def test_which_compiler(
    chosen: str | None, there: set[str], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    if chosen is not None:
        monkeypatch.setenv("CC", chosen)
    monkeypatch.setattr(
        library.shutil, "which", lambda name: f"/bin/{name}" if name in there else None
    )
    assert library.compiler() == words


def test_a_compiler_is_known_by_its_file_or_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cc"
    file.write_text("12345")
    (tmp_path / "link").symlink_to(file)
    monkeypatch.setattr(library.shutil, "which", {"cc": str(tmp_path / "link")}.get)
    facts = file.stat()
    assert library._identity(["cc", "-x"]) == f"['cc', '-x'] {file} 5 {facts.st_mtime_ns}"
    monkeypatch.setattr(library, "_run", lambda command: finished(out=" ".join(command)))
    assert library._identity(["other", "-x"]) == "other -x --version"


@pytest.mark.parametrize(("major", "folder"), [(11, "b/12"), (12, "b/12"), (13, "b"), (14, "b")])
def test_what_a_program_is_linked_with(
    major: int, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "build", lambda: Path("b"))
    assert library.for_linking(major) == Path(folder)


def test_a_build_is_kept_under_a_name_made_from_all_that_goes_into_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[str] = []

    def keep(name: str, make: object, holds: object) -> Path:
        kept.append(name)
        return Path(name)

    monkeypatch.setattr(library.build_cache, "keep", keep)
    identity, header = [""], protocol.header()
    monkeypatch.setattr(library, "_identity", lambda command: identity[0])
    build = library.build.__wrapped__
    build()
    identity[0] = "another compiler"
    build()
    monkeypatch.setattr(library.protocol, "header", lambda: header + " ")
    build()
    read = Path.read_bytes
    for changed in (EXCHANGE, SOURCES / "wire.c", SOURCES / "runtime.h", DRIVER / "driver.h",
                    library.HERE / "symbols_12.txt", Path(library.__file__),
                    Path(driver_library.__file__)):  # fmt: skip
        monkeypatch.setattr(
            Path, "read_bytes", lambda path, c=changed: read(path) + b" " * (path == c)
        )
        build()
    assert len({*kept}) == len(kept) == 10
    assert all(name.startswith("runtime/") and len(name) == 24 for name in kept)


def test_compare_and_swap_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    class Opened:
        exchange = SimpleNamespace()

        def __init__(self, name: str) -> None:
            opened.append(name)

    monkeypatch.setattr(library, "build", lambda: Path("/b"))
    monkeypatch.setattr(library.ctypes, "CDLL", Opened)
    library.exchange.cache_clear()
    try:
        function = library.exchange()
        assert library.exchange() is function and opened == ["/b/libexchange.so"]
        number, pointer = ctypes.c_size_t, ctypes.c_void_p
        assert function.argtypes == [number, pointer, pointer, number, pointer, pointer, pointer]
        assert function.restype is None
    finally:
        library.exchange.cache_clear()


def test_the_stand_in_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    monkeypatch.setattr(library, "_identity", lambda command: "some compiler")
    monkeypatch.setattr(
        library.build_cache, "keep", lambda name, make, holds: built.append(name) or Path(name)
    )
    library.build.cache_clear()
    try:
        assert library.build() is library.build() and len(built) == 1
    finally:
        library.build.cache_clear()
