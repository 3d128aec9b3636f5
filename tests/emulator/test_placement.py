"""Where a kernel's parameters, variables and stack frames lie, and what is aligned to what."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phasebit.emulator.errors import PtxError
from phasebit.emulator.ptx import placement
from phasebit.emulator.ptx.placement import Layout, align_up, parameter_offsets
from phasebit.emulator.ptx.reader import read
from phasebit.emulator.ptx.syntax import Immediate, Instruction, Symbol


@pytest.mark.parametrize(("value", "alignment", "up"), [
    (0, 4, 0), (1, 4, 4), (4, 4, 4), (5, 4, 8), (7, 1, 7), (255, 256, 256), (257, 256, 512),
])  # fmt: skip
def test_the_next_multiple(value: int, alignment: int, up: int) -> None:
    assert align_up(value, alignment) == up


@pytest.mark.parametrize(("parameters", "offsets", "size"), [
    ([], [], 0), ([(1, 1), (1, 1), (1, 1)], [0, 1, 2], 3), ([(1, 1), (2, 2), (1, 1)], [0, 2, 4], 5),
    ([(1, 1), (8, 8)], [0, 8], 16), ([(4, 4), (8, 8), (4, 4), (1, 1)], [0, 8, 16, 20], 21),
    ([(3, 0), (3, 0)], [0, 3], 6), ([(4, 4), (128, 64), (8, 8)], [0, 64, 192], 200),
])  # fmt: skip
def test_parameters_lie_one_behind_the_other_each_aligned_to_its_own(
    parameters: list[tuple[int, int]], offsets: list[int], size: int
) -> None:
    given: list[Any] = [SimpleNamespace(name=f"p{i}", size=bytes_, align=align)
                        for i, (bytes_, align) in enumerate(parameters)]  # fmt: skip
    assert parameter_offsets(given) == ({f"p{i}": at for i, at in enumerate(offsets)}, size)


def test_the_windows_of_generic_addresses() -> None:
    """Each has 2**40 bytes; in that of shared memory each block of a cluster has 2**24."""
    windows = [placement.GLOBAL_BASE, placement.SHARED_BASE, placement.LOCAL_BASE,
               placement.PARAM_BASE, placement.FUNCTION_BASE]  # fmt: skip
    assert [base >> placement.WINDOW_SHIFT for base in windows] == [0x70, 0x78, 0x79, 0x7A, 0x7B]
    assert all(base % (1 << 40) == 0 for base in windows)
    assert 1 << placement.RANK_SHIFT == 0x0100_0000 and placement.MAX_FRAME == 524288


HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def laid_out(text: str, globals_: dict[str, int] | None = None, **externals: Any) -> Layout:
    module = read(HEAD + text)
    return Layout(module, module.functions["k"], globals_ or {}, externals)


def function(name: str, calls: str = "", bytes_: int = 8, parameters: str = "()") -> str:
    body = "".join(f"call {each}, (); " for each in calls.split())
    return f".func {name} {parameters} {{ .local .align 8 .b8 own[{bytes_}]; {body}ret; }}\n"


KERNEL = ".visible .entry k (.param .u32 n, .param .u64 out) {{ {} ret; }}\n"


def kernel(calls: str, more: str = "") -> str:
    return KERNEL.format("".join(f"call {each}, (); " for each in calls.split()) + more)


def test_frames_come_after_the_deepest_caller_each_a_multiple_of_16() -> None:
    layout = laid_out(
        function("a", "c", 20) + function("b", bytes_=40) + function("c") + function("unused")
        + kernel("a b", ".local .align 4 .b8 first[3]; .local .align 4 .b32 second; call c, (); ")
    )  # fmt: skip
    assert [each.name for each in layout.functions] == ["k", "a", "b", "c"]
    assert layout.frame_start == {"k": 0, "a": 16, "b": 16, "c": 48}
    assert layout.frame_end == {"k": 16, "a": 48, "b": 64, "c": 64}
    assert layout.frames == {
        ("k", "first"): 0, ("k", "second"): 8, ("a", "own"): 16, ("b", "own"): 16, ("c", "own"): 48,
    }  # fmt: skip
    assert layout.local_size == 64
    assert not layout.recursive and layout.moving == set() and layout.step("k", "a") == 0


def test_each_call_further_down_begins_where_the_caller_ends() -> None:
    layout = laid_out(function("a", "b") + function("b", "c") + function("c") + kernel("a"))
    assert layout.frame_start == {"k": 0, "a": 16, "b": 32, "c": 48} and layout.local_size == 64


def test_parameters_and_results_of_a_function_are_in_its_frame_those_of_a_kernel_are_not() -> None:
    given = ".func (.param .b32 back) f (.param .b64 x, .param .align 32 .b8 y[40]) { ret; }\n"
    layout = laid_out(given + kernel("f"))
    assert layout.frames == {("f", "x"): 16, ("f", "y"): 48, ("f", "back"): 104 - 16}
    assert layout.frame_start["f"] == 16, "a frame takes some bytes, that of a call of nothing too"
    assert layout.parameters == {"n": 0, "out": 8} and layout.parameter_size == 16


@pytest.mark.parametrize(("calls", "moving"), [
    ({"k": "a", "a": "a"}, {"a"}), ({"k": "a", "a": "b", "b": "a"}, {"a", "b"}),
    ({"k": "a b", "a": "b", "b": "c", "c": "b"}, {"b", "c"}),
    ({"k": "a", "a": "b c", "b": "b", "c": "d", "d": ""}, {"b"}),
    ({"k": "a", "a": "a d", "d": ""}, {"a", "d"}),
])  # fmt: skip
def test_frames_that_move(calls: dict[str, str], moving: set[str]) -> None:
    """Those of functions that are called again before they are done, and of all they call."""
    texts = [function(name, inner) for name, inner in calls.items() if name != "k"]
    layout = laid_out("".join(texts) + kernel(calls["k"]))
    assert layout.recursive and layout.moving == moving
    for name, inner in calls.items():
        for callee in inner.split():
            step = layout.step(name, callee)
            if callee not in moving:
                assert step == 0
            else:
                assert layout.frame_start[callee] + step >= layout.frame_end[name]
                assert step == 0 or layout.frame_start[callee] + step == layout.frame_end[name]
        for symbol in ("own", "n"):
            one = next(each for each in layout.functions if each.name == name)
            assert layout.moves(Symbol(symbol), one) == (symbol == "own" and name in moving)


@pytest.mark.parametrize(("bytes_", "fits"), [(512 << 10, True), ((512 << 10) + 1, False)])
def test_a_thread_has_512_kib_of_local_memory(bytes_: int, fits: bool) -> None:
    text = function("_Z1av", bytes_=bytes_) + kernel("_Z1av")
    if fits:
        assert laid_out(text).local_size == bytes_ + 16
        return
    with pytest.raises(PtxError) as refused:
        laid_out(text)
    assert str(refused.value) == (
        "PTX line 4: a needs 524289 bytes of local memory a thread; a GPU gives at most 524288"
    )


SHARED = """.shared .align 4 .b8 _Z5earlyv[6];
.shared .align 64 .b8 _Z5unusedv[6];
.extern .shared .align 8 .b8 dynamic[];
.func f () { .shared .align 32 .b32 inside; .local .b32 other; ret; }
"""


@pytest.mark.parametrize(("more", "where", "static"), [
    ("mov.u32 %r1, _Z5earlyv; mov.u32 %r1, dynamic; call f, (); ",
     {"_Z5earlyv": 0, "inside": 32, "dynamic": 48}, 48),
    ("mov.u32 %r1, _Z5earlyv; call f, (); ", {"_Z5earlyv": 0, "inside": 32}, 36),
    ("mov.u32 %r1, _Z5earlyv; ", {"_Z5earlyv": 0}, 6), ("", {}, 0),
    ("mov.u32 %r1, dynamic; ", {"dynamic": 0}, 0),
    ("ld.shared.u32 %r1, [_Z5earlyv+4]; ", {"_Z5earlyv": 0}, 6),
    ("mov.b64 {%r1, %r2}, {_Z5earlyv, 1}; ", {"_Z5earlyv": 0}, 6),
])  # fmt: skip
def test_shared_variables_that_are_used(more: str, where: dict[str, int], static: int) -> None:
    layout = laid_out(SHARED + KERNEL.format(".reg .b32 %r<3>; .reg .pred %p; " + more))
    assert layout.shared == where and layout.static_shared == static
    assert layout.has_dynamic == ("dynamic" in where)
    sizes = {"_Z5earlyv": 6, "inside": 4}
    assert layout.shared_sizes == {name: sizes[name] for name in where if name in sizes}
    assert layout.shared_align == (32 if "inside" in where else 16)


def test_dynamic_shared_memory_is_aligned_as_the_strictest_asks() -> None:
    text = ".extern .shared .align 128 .b8 d[];\n.extern .shared .align 4 .b8 e[];\n"
    body = ".shared .b8 own[3]; .reg .b32 %r<3>; mov.u32 %r1, e; mov.u32 %r1, d; "
    layout = laid_out(text + KERNEL.format(body))
    assert layout.shared == {"own": 0, "d": 128, "e": 128} and layout.shared_align == 128


def test_the_variable_that_a_shared_address_lies_in() -> None:
    body = ".shared .align 8 .b8 _ZZ1kvE2As[12]; .shared .align 16 .b8 Bs[4]; "
    layout = laid_out(KERNEL.format(body))
    assert [layout.shared_name(at) for at in (0, 11, 12, 15, 16, 40)] == [
        "As+0", "As+11", "As+12", "As+15", "Bs+0", "Bs+24",
    ]  # fmt: skip
    assert layout.shared_place(17) == ("Bs", 1)
    assert laid_out(KERNEL.format("")).shared_place(7) == ("shared", 7)


CALLER = """.global .align 8 .u64 table[2] = {g, generic(data)};
.global .u32 data;
.func f (.param .b32 n) { ret; }
.func g (.param .b64 x) { ret; }
.func h () { ret; }
.visible .entry other () { .reg .b64 %rd; mov.u64 %rd, h; ret; }
"""
POINTER = (
    ".reg .b64 %rd<2>; ld.global.u64 %rd1, [MEMORY]; call %rd1, (), P; P: .callprototype _(); "
)


@pytest.mark.parametrize(("body", "names"), [
    ("call f, (); ", ["f"]), (POINTER.replace("MEMORY", "out"), ["g", "h"]),
    (".reg .b64 %rd; mov.u64 %rd, table; ", ["g"]), (".reg .b64 %rd; mov.u64 %rd, f; ", ["f"]),
    ("", []),
])  # fmt: skip
def test_functions_that_may_run(body: str, names: list[str]) -> None:
    """Those that are named, also in tables; by a call through a pointer, all whose address is
    taken anywhere."""
    layout = laid_out(CALLER + KERNEL.format(body))
    assert [each.name for each in layout.functions] == ["k", *names]


def test_whom_a_call_through_a_pointer_may_reach() -> None:
    layout = laid_out(CALLER + KERNEL.format("call f, (); " + POINTER.replace("MEMORY", "out")))
    assert layout._calls() == {"k": {"f", "g", "h"}, "f": set(), "g": set(), "h": set()}


def test_addresses_of_symbols() -> None:
    layout = laid_out(
        CALLER + KERNEL.format(".shared .b8 a[9]; .shared .align 4 .b8 b[9]; .local .b32 c; "
                               "call f, (); "),
        {"data": 0x7000_0000_0100},
    )  # fmt: skip
    k, f = layout.functions
    jump = k.body[0]
    assert isinstance(jump, Instruction)
    places = {
        name: layout.place(Symbol(name), one, jump)
        for name, one in (("b", f), ("c", k), ("data", f), ("out", k))
    }
    assert places == {"b": ("shared", 12), "c": ("local", 0), "data": ("global", 0x7000_0000_0100),
                      "out": ("param", 8)}  # fmt: skip
    assert layout.place(Symbol("n"), f, jump) == ("local", 16), "f's own, not the kernel's"
    assert layout.address(Symbol("b", 4), k, jump) == 16
    ids = [layout.address(Symbol(name), k, jump) - 0x7B00_0000_0000 for name in ("f", "g", "k")]
    assert ids == [0, 16, 64]
    for name, one in (("out", f), ("nothing", k), ("c", f)):
        with pytest.raises(PtxError, match=rf"line 10: there is no variable '{name}': call f"):
            layout.place(Symbol(name), one, jump)


def test_what_a_call_passes() -> None:
    given = ".func (.param .b32 back) f (.param .b64 x, .param .align 4 .b8 y[12]) { ret; }\n"
    layout = laid_out(given + KERNEL.format("{ .param .b64 a; call f, (a); } .local .b8 c[7]; "))
    k, f = layout.functions
    jump = k.body[0]
    assert isinstance(jump, Instruction)
    local = next(each.name for each in k.variables if each.name.startswith("a"))
    assert layout.frame_place(Symbol(local), k, jump) == (0, 8)
    assert layout.frame_place(Symbol("c"), k, jump) == (8, 7)
    start = layout.frame_start["f"]
    assert start == 16
    found = [layout.frame_place(Symbol(name), f, jump) for name in ("x", "y", "back")]
    assert found == [(start, 8), (start + 8, 12), (start + 24, 4)]
    for operand in (Symbol("x"), Immediate(4)):
        with pytest.raises(PtxError, match=r"line 5: a call passes .param variables, not .*: call"):
            layout.frame_place(operand, k, jump)


@pytest.mark.parametrize(("name", "why"), [
    ("cudaGetParameterBufferV2", "k launches a kernel; the emulator runs kernels that the host"),
    ("cudaLaunchDeviceV2", "k launches a kernel"), ("absent", "k calls absent, which has no body"),
])  # fmt: skip
def test_functions_that_cannot_run(name: str, why: str) -> None:
    text = f".extern .func {name} ();\n" + KERNEL.replace(" k ", " k\n").format(
        f"call {name}, (); "
    )
    with pytest.raises(PtxError, match=f"PTX line 5: {why}"):
        laid_out(text)
    assert [each.name for each in laid_out(text, **{name: print}).functions] == ["k"]
