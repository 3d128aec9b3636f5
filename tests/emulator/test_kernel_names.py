"""A kernel is found by its name in the PTX, or as C++ calls it; what is not clear is refused."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from phasebit.emulator import LaunchError, Module
from phasebit.emulator.ptx import mangling

FLOAT_4, FLOAT_8, PLAIN = "_Z3addIfLi4EEvPT_", "_Z3addIfLi8EEvPT_", "_Z3addPii"
PACK = "_ZN1a1gIJNS_1SILb1EjEENS1_ILb0ExEEEEEviDpT_"
HIDDEN = "_ZN38_GLOBAL__N__9cfffa68_8_own_t_cu__Z1fPi6hiddenEPi"
LAMBDA = "_Z3runIZ3fooPiEUliE_EvT_S0_"
ALL = [FLOAT_4, FLOAT_8, PLAIN, PACK, HIDDEN, LAMBDA, "saxpy"]

PTX = ".version 8.0\n.target sm_80\n.address_size 64\n" + "".join(
    f".visible .entry {name}()\n{{\n    ret;\n}}\n" for name in ALL
)


@pytest.fixture(scope="module")
def module() -> Module:
    return Module(PTX)


@pytest.mark.parametrize(
    ("said", "symbol"),
    [
        ("add<float, 4>", FLOAT_4),
        (" add< float,8u > ", FLOAT_8),
        ("add<float, 4>(float*)", FLOAT_4),
        ("add(int *, int)", PLAIN),
        (FLOAT_8, FLOAT_8),
        ("a::g", PACK),
        ("a::g<a::S<true, unsigned>, a::S<false, long long>>", PACK),
        ("hidden", HIDDEN),
        ("run", LAMBDA),
        ("run<foo(int*)::{lambda(int)#1}>", LAMBDA),
        ("saxpy", "saxpy"),
    ],
)
def test_a_kernel_by_its_name(module: Module, said: str, symbol: str) -> None:
    assert module[said].function.name == symbol


@pytest.mark.parametrize("said", ["add", "add<float, 2>", "add<int, 4>", "g", "add<float", ""])
def test_a_name_that_is_none_or_of_several_is_refused_with_those_that_are(
    module: Module, said: str
) -> None:
    what = "more than one kernel" if said == "add" else "no kernel"
    names = "template __global__ void add<...>(...);"
    template = f"; a template is there as the source names it: {names}"
    with pytest.raises(LaunchError) as refused:
        module[said]
    assert str(refused.value) == (
        f"this module has {what} called {said!r}; it has: add<float, 4>, add<float, 8>, "
        "add(int*, int), a::g, hidden, run, saxpy"
        + template * ("<" in said)
    )


def test_without_a_runtime_of_cpp_the_names_of_the_ptx_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mangling, "_runtime", lambda: None)
    mangling.declaration.cache_clear()
    try:
        assert mangling.find("add", [PLAIN]) == mangling.find(PLAIN, [PLAIN]) == [PLAIN]
        assert mangling.find("add<float, 4>", [FLOAT_4]) == []
        assert mangling.apart([FLOAT_4, FLOAT_8]) == [FLOAT_4, FLOAT_8]
    finally:
        mangling.declaration.cache_clear()


def test_the_next_cpp_runtime_is_asked_where_one_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str | None] = []
    library = ctypes.CDLL

    def there(name: str | None) -> Any:
        asked.append(name)
        if name == "libstdc++.so.6":
            raise OSError("no such library")
        return library("libstdc++.so.6" if name else None)

    monkeypatch.setattr(mangling.ctypes, "CDLL", there)
    mangling._runtime.cache_clear()
    mangling.declaration.cache_clear()
    try:
        assert mangling.declaration(FLOAT_4) == "add<float, 4>(float*)"
        assert asked == ["libstdc++.so.6", "libc++abi.so.1", None]
        monkeypatch.setattr(mangling.ctypes, "CDLL", lambda name: object())
        mangling._runtime.cache_clear()
        mangling.declaration.cache_clear()
        assert mangling.declaration(FLOAT_4) == FLOAT_4, "no runtime says what it means"
    finally:
        monkeypatch.undo()
        mangling._runtime.cache_clear()
        mangling.declaration.cache_clear()
    assert mangling.declaration(FLOAT_4) == "add<float, 4>(float*)"
    assert mangling.declaration("_Zwrong") == "_Zwrong"


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZZ5tiledPKfS0_PfiE2As", "As"),
        ("_Z5tiledILi3EEvPKf", "tiled"),  # once "EEv": a number that a template was given
        ("_ZZ4gemmILi128ELin64ELb1EEvPfE4smem_0", "smem"),
        ("_Z3a2bv", "a2b"),
        ("_Z3sumPA10_fS1_", "sum"),
        ("_Z99cut", "_Z99cut"),
        ("tile", "tile"),
    ],
)
def test_the_last_name_of_a_symbol(symbol: str, name: str) -> None:
    assert mangling.readable(symbol) == name
