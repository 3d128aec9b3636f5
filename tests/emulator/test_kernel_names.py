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


@pytest.mark.parametrize(
    ("symbol", "types"),
    [
        ("_Z1fv", []),
        ("_Z1fi", ["int"]),
        ("_Z1fPFiifEi", ["int (*)(int, float)", "int"]),
        ("_Z1fSt4pairIiiEPS_IffE", ["std::pair<int, int>", "std::pair<float, float>*"]),
        ("_Z3addIfLi4EEvPT_i", ["float*", "int"]),
        ("_Z1gI1SIXadL_Z1fvEEEEvT_i", ["S<&(f())>", "int"]),
        (LAMBDA, ["foo(int*)::{lambda(int)#1}", "int*"]),
        ("saxpy", []),
    ],
)
def test_the_types_of_parameters(symbol: str, types: list[str]) -> None:
    """A comma within brackets parts none."""
    assert mangling.parameter_types(symbol) == types


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z6matmulPKfS0_Pf", "matmul"), ("_ZN4ring6matmulEv", "ring::matmul"),
        ("_ZN1a12long_name_ab1cEv", "a::long_name_ab::c"), ("saxpy", "saxpy"), ("_Z", "_Z"),
        ("_ZN", "_ZN"), ("_Z3f12v", "f12"), ("_ZTV1A", "_ZTV1A"), ("12ab", "12ab"),
    ],
)  # fmt: skip
def test_a_name_without_its_parameters(symbol: str, name: str) -> None:
    assert mangling.demangle(symbol) == name


@pytest.mark.parametrize(
    ("symbol", "spellings"),
    [
        ("_Z3addPii", ["add", "add(int*, int)", "_Z3addPii"]),
        ("_ZN1a1gIiEEvT_", ["a::g", "a::g<int>", "a::g<int>(int)", "_ZN1a1gIiEEvT_"]),
        (LAMBDA, ["run", "run<foo(int*)::{lambda(int)#1}>",
                  "run<foo(int*)::{lambda(int)#1}>(foo(int*)::{lambda(int)#1}, int*)", LAMBDA]),
        ("_ZN1AIiE1fEv", ["A<int>::f", "A", "A<int>::f()", "_ZN1AIiE1fEv"]),
        (HIDDEN, ["hidden", "_GLOBAL__N__9cfffa68_8_own_t_cu__Z1fPi::hidden", "hidden(int*)",
                  HIDDEN]),
        ("saxpy", ["saxpy"]), ("f", ["f"]),  # as a mangled type the letter is float
    ],
)  # fmt: skip
def test_what_a_function_may_be_called(symbol: str, spellings: list[str]) -> None:
    assert mangling.spellings(symbol) == spellings


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("f< 12u , 3UL >", "f<12,3>"), ("f<unsigned int>", "f<unsigned>"),
        ("f<long int, short  int>", "f<long,short>"), ("f<a1u>", "f<a1u>"), (" f ", "f"),
        ("f<unsigned  char>", "f<unsigned char>"), ("f<int>", "f<int>"),
    ],
)  # fmt: skip
def test_a_spelling_without_what_nobody_asks_for(text: str, plain: str) -> None:
    assert mangling.plain(text) == plain


def test_names_that_are_asked_for_and_told() -> None:
    assert mangling.find("add", ALL) == [FLOAT_4, FLOAT_8, PLAIN]
    assert mangling.find("saxpy", ["_Z5saxpyv", "saxpy"]) == ["saxpy"], "the symbol itself first"
    assert mangling.find(7, ALL) == []  # type: ignore[arg-type]
    assert mangling.apart([FLOAT_4, PLAIN]) == ["add<float, 4>", "add(int*, int)"]
    assert mangling.apart([PLAIN, "saxpy"]) == ["add", "saxpy"]
    assert mangling.apart([PLAIN, PLAIN]) == [PLAIN, PLAIN], "nothing tells them apart"
    assert mangling.readable("_Z") == "_Z" and mangling.readable("_Z1ab2cd") == "cd"
    assert mangling.readable("_Z3a-b") == "_Z3a-b" and mangling.readable("x2As") == "x2As"
