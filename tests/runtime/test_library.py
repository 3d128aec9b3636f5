"""The C library: every name is there; the parts that need no program, tested in C."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest

from phasebit.runtime import library

from .conftest import PROGRAMS

C_TESTS = PROGRAMS.parent / "c"


@pytest.fixture(scope="module")
def built():
    try:
        return library.build()
    except library.BuildError as error:
        pytest.skip(str(error))


def test_every_name_of_the_list_is_exported_with_both_versions(built):
    handle = ctypes.CDLL(str(built / library.SONAME))
    libc = ctypes.CDLL(None)
    libc.dlvsym.restype = ctypes.c_void_p
    libc.dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    for name in library.exported():
        for version in (library.SONAME, library.SONAME_12):
            assert libc.dlvsym(handle._handle, name.encode(), version.encode()), (name, version)


def test_every_name_is_defined_an_alias_or_lacking_and_only_one_of_them():
    defined, aliases, lacking = library.defined(), library.aliases(), library.lacking()
    everything = [*defined, *aliases, *lacking]
    assert len(everything) == len(set(everything))
    older = {name for name in defined if name.endswith("_12")}
    assert set(everything) - older == set(library.exported())
    assert {name.removesuffix("_12") for name in older} <= set(library.exported())
    assert older <= set(library.of_cuda_12().values())


def test_errors_have_names_and_texts(built):
    handle = ctypes.CDLL(str(built / library.SONAME))
    for function in (handle.cudaGetErrorName, handle.cudaGetErrorString):
        function.restype = ctypes.c_char_p
    assert handle.cudaGetErrorName(700) == b"cudaErrorIllegalAddress"
    assert handle.cudaGetErrorString(2) == b"out of memory"
    assert handle.cudaGetErrorString(-1) == b"unrecognized error code"


def test_a_build_is_used_again(built):
    library.build.cache_clear()
    before = (built / library.SONAME).stat().st_mtime_ns
    assert library.build() == built
    assert (built / library.SONAME).stat().st_mtime_ns == before


def test_no_compiler(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(library.shutil, "which", lambda name: None)
    with pytest.raises(library.BuildError, match="install gcc"):
        library.compiler()


def test_compiler_that_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASEBIT_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", "false")
    library.build.cache_clear()
    with pytest.raises(library.BuildError, match="does not compile with false"):
        library.build()
    library.build.cache_clear()
    assert not list((tmp_path / "runtime").iterdir())


@pytest.mark.parametrize(("given", "says"), [
    ("true", "true made no libexchange.so of the stand-in runtime: set CC to a C compiler"),
    ("gcc \"x", "CC=gcc \"x: No closing quotation: set CC to a C compiler, or unset it"),
    ("false", "does not compile with false: it does not say why"),
])  # fmt: skip
def test_what_is_no_compiler(given, says, tmp_path, monkeypatch):
    monkeypatch.setenv("PHASEBIT_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", given)
    library.build.cache_clear()
    with pytest.raises(library.BuildError) as raised:
        library.build()
    library.build.cache_clear()
    assert says in str(raised.value)
    assert not [*tmp_path.glob("runtime/*")]


def test_an_empty_name_of_a_compiler_counts_for_nothing(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    usual = library.compiler()
    monkeypatch.setenv("CC", "  ")
    assert library.compiler() == usual


@pytest.mark.parametrize("name", ["a:b", "a;b", "$ORIGIN", "a,b", 'a"b'])
def test_a_folder_that_no_program_can_search(name, tmp_path, monkeypatch):
    monkeypatch.setenv("PHASEBIT_CACHE", str(tmp_path / name))
    library.build.cache_clear()
    with pytest.raises(library.BuildError, match=r"find nothing in .*: set PHASEBIT_CACHE to"):
        library.build()
    library.build.cache_clear()


def test_no_warning(tmp_path, monkeypatch):
    """What one gcc warns of, the next may refuse: gcc 14 did with pointers of another type."""
    monkeypatch.setenv("PHASEBIT_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", "gcc -Werror")
    library.build.cache_clear()
    library.build()
    library.build.cache_clear()


def test_an_error_is_said_without_the_warnings_around_it(tmp_path):
    source = tmp_path / "broken.c"
    warned = [f"int f{i}(struct unknown *a);\n" for i in range(200)]
    broken = "int g(void) { return nothing; }\n"
    source.write_text("".join([*warned[:100], broken, *warned[100:]]))
    with pytest.raises(library.BuildError) as raised:
        library.link(["gcc"], source, "-o", tmp_path / "broken.so")
    assert "broken.c:101" in str(raised.value) and "warning" not in str(raised.value)


def test_compiler_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASEBIT_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-gcc -O2")
    library.build.cache_clear()
    with pytest.raises(library.BuildError, match=r"C compiler no-such-gcc, No such file .* set CC"):
        library.build()
    library.build.cache_clear()


@pytest.fixture(scope="module")
def checked_objects(built, tmp_path_factory):
    """The library's sources as objects that check themselves, and how to compile more."""
    from phasebit.runtime import protocol

    folder = tmp_path_factory.mktemp("objects")
    (folder / "protocol.h").write_text(protocol.header())
    command = [
        *library.compiler(), "-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror",
        "-fsanitize=undefined", "-fno-sanitize-recover", f"-I{folder}", f"-I{library.SOURCES}",
    ]  # fmt: skip
    sources = sorted(library.SOURCES.glob("*.c"))
    done = subprocess.run([*command, "-c", *sources], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return command, sorted(folder.glob("*.o"))


@pytest.mark.parametrize("path", sorted(C_TESTS.glob("test_*.c")), ids=lambda path: path.stem)
def test_in_c(path, checked_objects, tmp_path):
    """Each C test is a program of its own, linked with the library's sources."""
    command, objects = checked_objects
    program = tmp_path / path.stem
    done = subprocess.run(
        [*command, path, *objects, "-pthread", "-o", program], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    done = subprocess.run([program], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("width", [2, 4, 8])
def test_exchange_leaves_what_changed_meanwhile(built, width):
    memory = np.arange(10, dtype=f"u{width}")
    places = np.array([7, 2, 5])
    before, after = memory[places], memory[places] + 100
    memory[2] = 77
    lost = np.zeros(3, bool)
    pointers = [item.ctypes.data for item in (memory, places, before, after, lost)]
    library.exchange()(width, pointers[0], pointers[1], 3, *pointers[2:])
    assert lost.tolist() == [False, True, False]
    assert memory.tolist() == [0, 1, 77, 3, 4, 105, 6, 107, 8, 9]
