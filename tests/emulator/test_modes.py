"""What a launch is by itself, and how far its numbers may go."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np
import pytest

from phasebit.emulator import Counters, LaunchError, Module, Run
from phasebit.emulator.api import module
from phasebit.emulator.api.arguments import _contiguous, _number, marshal
from phasebit.emulator.api.execution import MAX_STEPS, Execution, Mode
from phasebit.emulator.api.extents import Extents, three
from phasebit.emulator.api.kernel import Kernel
from phasebit.emulator.capabilities import MOST_MULTIPROCESSORS, limits
from phasebit.emulator.copy_engine.tensormap import TensorMap
from phasebit.emulator.errors import Defect, EmulatorError, Fault, PtxError
from phasebit.emulator.machine.launch_state import MAX_STACK, STACKED, STACKED_OBSERVED
from phasebit.emulator.machine.trace import Trace
from phasebit.emulator.ptx.placement import FUNCTION_BASE
from phasebit.emulator.ptx.syntax import Variable
from tests.emulator.machines import HEAD, kernel, machine

BY_ITSELF = {
    "schedule": "late", "seed": 0, "check": True, "exact": True, "max_steps": 2_000_000,
    "accesses": False, "resident": 1, "on_fault": "raise",
}  # fmt: skip


def test_a_launch_by_itself_is_late_checked_and_exact() -> None:
    assert dataclasses.asdict(Mode()) == {**BY_ITSELF, "trace": True} and MAX_STEPS == 2_000_000
    given = inspect.signature(Kernel.launch).parameters
    assert {name: given[name].default for name in BY_ITSELF} == BY_ITSELF
    assert [given[name].default for name in ("grid", "block", "args", "shared", "cluster")] == [
        1, 1, (), 0, None,
    ]  # fmt: skip
    assert given["cooperative"].default is False
    made = kernel("ret;").extents()
    assert made == Extents((1, 1, 1), (1, 1, 1), (1, 1, 1), False, False, 0)


def test_kernels_and_modules_say_what_they_are() -> None:
    made_of = Module(f"{HEAD}ret;\n}}")
    assert made_of.target == "sm_90a" and made_of.kernels == ["k"]
    two = HEAD.replace(".param .u64 out", ".param .u32 n, .param .u64 out, .param .u8 last")
    assert Module(f"{two}ret;\n}}")["k"].offsets == [0, 8, 16]
    run = Run(Counters(), [], "", Trace(), 7)
    assert repr(run) == "<Run on the emulator: 0 findings, 7 cycles>"
    assert run.hazards is run.findings and run.accesses == []
    assert Run(Counters(), [], "", Trace()).cycles == 0
    made = made_of["k"]
    assert made.program() is made.program(False, True, False, None)
    assert made.program() is not made.program(check=True) and made_of["k"] is made
    stores = kernel("st.global.u32 [%rd1], %r1; ret;")
    assert stores.python() == stores.program(False).source != stores.python(True)
    assert not made.program().checked and made.program(True).checked and made.program().exact


@pytest.mark.parametrize(("change", "words"), [
    ({"seed": 0}, ""), ({"seed": -1}, "seed=-1: seeds count from 0"), ({"seed": 1.0}, "seed is an"),
    ({"max_steps": 1}, ""), ({"max_steps": 0}, "max_steps=0: a kernel needs at least one"),
    ({"max_steps": "1"}, "max_steps is an integer, not '1'"), ({"resident": 32}, ""),
    ({"resident": 33}, "resident=33: a multiprocessor has 1 to 32"), ({"resident": 0}, "1 to 32"),
    ({"resident": None}, "resident is an integer"), ({"on_fault": "report"}, ""),
    ({"on_fault": "stop"}, "on_fault 'stop': choose one of raise, report"),
    ({"accesses": True}, ""), ({"accesses": True, "check": False}, "accesses=True needs check"),
    ({"check": False}, ""), ({"schedule": "eager"}, ""), ({"seed": np.int64(3)}, ""),
])  # fmt: skip
def test_how_far_a_mode_goes(change: dict[str, Any], words: str) -> None:
    if not words:
        assert getattr(Mode(**change), next(iter(change))) == next(iter(change.values()))
        return
    with pytest.raises(LaunchError, match=words):
        Mode(**change)


# -- extents --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "numbers"), [
    (5, (5, 1, 1)), ((2, 3), (2, 3, 1)), ([2, 3, 4], (2, 3, 4)), (np.array([7]), (7, 1, 1)),
    (np.int32(9), (9, 1, 1)), ((1,), (1, 1, 1)),
])  # fmt: skip
def test_one_to_three_numbers(value: Any, numbers: tuple[int, int, int]) -> None:
    assert three(value, "grid") == numbers and all(type(n) is int for n in three(value, "grid"))


@pytest.mark.parametrize("value", [0, (1, 0), (), (1, 2, 3, 4), 1.0, "1", None, (1, None)])
def test_what_is_no_extent(value: Any) -> None:
    with pytest.raises(LaunchError, match="grid is one to three positive numbers, not"):
        three(value, "grid")


MOST = limits(90).block_shared


@pytest.mark.parametrize(("fits", "beyond", "words"), [
    ({"grid": 2**31 - 1}, {"grid": 2**31}, "the x extent of a grid is at most 2147483647, not"),
    ({"grid": (1, 65535)}, {"grid": (1, 65536)}, "the y extent of a grid is at most 65535, not"),
    ({"grid": (1, 1, 65535)}, {"grid": (1, 1, 65536)}, "the z extent of a grid is at most 65535"),
    ({"block": 1024}, {"block": 1025}, "a block of 1025 threads is too large; at most 1024 fit"),
    ({"block": (8, 4, 32)}, {"block": (11, 3, 32)}, "a block of 1056 threads"),
    ({"block": (1, 1, 64)}, {"block": (1, 1, 65)}, "the z extent of a block is at most 64, not 65"),
    ({"shared": 0}, {"shared": -1}, "shared=-1 bytes makes no sense"),
    ({"shared": MOST - 16}, {"shared": MOST - 15}, "(16 static, "),
    ({"grid": 16, "cluster": 16}, {"grid": 17, "cluster": 17}, "a cluster has at most 16 blocks"),
    ({"grid": (4, 4), "cluster": (4, 4)}, {"grid": (3, 6), "cluster": (3, 6)}, "at most 16 blocks"),
    ({"grid": (6, 4, 2), "cluster": (3, 2, 2)}, {"grid": (6, 5, 2), "cluster": (3, 2, 2)},
     "the grid's y extent 5 is no multiple of the cluster's 2"),
    ({"grid": MOST_MULTIPROCESSORS * 2, "block": 1024, "cooperative": True},
     {"grid": MOST_MULTIPROCESSORS * 2 + 1, "block": 1024, "cooperative": True}, "run at once"),
])  # fmt: skip
def test_the_last_extent_that_fits_and_the_first_that_does_not(
    fits: dict[str, Any], beyond: dict[str, Any], words: str
) -> None:
    made = kernel("mov.u32 %r3, bar; mov.u32 %r3, more; ret;")
    made.extents(**fits)
    with pytest.raises(LaunchError) as caught:
        made.extents(**beyond)
    assert words in str(caught.value) and str(caught.value).startswith("k: ")


@pytest.mark.parametrize(("directive", "most"), [
    (".maxntid 256", 256), (".maxntid 16, 4", 64), (".reqntid 8, 4, 2", 64),
])  # fmt: skip
def test_a_kernel_has_the_threads_that_it_was_compiled_for(directive: str, most: int) -> None:
    text = HEAD.replace(".param .u64 out)", f".param .u64 out) {directive}")
    made = Module(f"{text}ret;\n}}")["k"]
    assert made.extents(1, most).block == (most, 1, 1)
    with pytest.raises(LaunchError, match=f"compiled for at most {most} threads a block"):
        made.extents(1, most + 1)


def test_a_cluster_is_that_of_the_launch_or_of_the_kernel() -> None:
    text = HEAD.replace(".param .u64 out)", ".param .u64 out) .reqnctapercluster 2, 1, 1")
    made = Module(f"{text}ret;\n}}")["k"]
    assert made.extents(4).cluster == (2, 1, 1) and not made.extents(4).explicit_cluster
    assert made.extents(4, cluster=4).cluster == (4, 1, 1) and made.extents(
        4, cluster=4
    ).explicit_cluster
    assert kernel("ret;").extents(4).cluster == (1, 1, 1)


# -- arguments ------------------------------------------------------------------------------------


def number(value: Any, kind: str, size: int, elements: int | None = None) -> bytes:
    return _number(value, Variable("n", "param", kind, size, size, 1, elements), "it")


@pytest.mark.parametrize("kind", ["u", "s", "b"])
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_whole_numbers_fit_as_signed_or_unsigned(kind: str, size: int) -> None:
    bits = 8 * size
    for value in (0, 1, -1, -(1 << bits - 1), (1 << bits) - 1):
        raw = number(value, f"{kind}{bits}", size)
        assert len(raw) == size and int.from_bytes(raw, "little") == value % (1 << bits)
    for value in (1 << bits, -(1 << bits - 1) - 1):
        with pytest.raises(LaunchError, match=f"it has {size} bytes; {value} does not fit"):
            number(value, f"{kind}{bits}", size)
    assert number(True, f"{kind}{bits}", size) == (1).to_bytes(size, "little")


@pytest.mark.parametrize(("kind", "size"), [("f16", 2), ("f32", 4), ("f64", 8), ("b32", 4)])
def test_floating_point_numbers_are_written_in_their_size(kind: str, size: int) -> None:
    expected = np.array(1.5, f"f{size}").tobytes()
    assert number(1.5, kind, size) == expected
    assert number(np.float64(1.5).astype(f"f{size}"), kind, size) == expected
    three = number(3, kind, size)
    assert three == (np.array(3.0, f"f{size}").tobytes() if kind[0] == "f" else b"\3\0\0\0")


@pytest.mark.parametrize(("value", "kind", "size", "words"), [
    (1.5, "u32", 4, "it is an integer, but 1.5 was given"), (1.5, "s64", 8, "is an integer"),
    (np.float32(1), "u32", 4, "it is an integer, but a float32 was given"),
    (np.float32(1), "s32", 4, "is an integer"),
    (np.int32(1), "f32", 4, "it is a floating-point number, but a int32 was given"),
    (np.int64(1), "f64", 8, "is a floating-point number"),
    (np.int64(1), "u32", 4, "it has 4 bytes, but a int64 of 8 was given"),
    (5, "b8", 16, "it is a struct of 16 bytes; pass bytes or a NumPy structured scalar"),
    (5, "b8", 3, "is a struct of 3 bytes"),
])  # fmt: skip
def test_numbers_of_another_kind_are_refused(value: Any, kind: str, size: int, words: str) -> None:
    with pytest.raises(LaunchError, match=words):
        number(value, kind, size)


def test_an_array_of_bytes_is_a_struct_of_any_size() -> None:
    with pytest.raises(LaunchError, match="struct of 4 bytes"):
        number(5, "b8", 4, 4)
    assert number(np.float16(1), "b16", 2) == b"\x00\x3c"
    assert number(np.int32(-1), "b32", 4) == b"\xff" * 4


@pytest.mark.parametrize(("shape", "strides", "dense"), [
    ((3, 4), None, True), ((3, 4), (32, 8), True), ((3, 4), (8, 24), False),
    ((3, 4), (40, 8), False), ((3, 1), (8, 999), True), ((1, 4), (999, 8), True),
    ((4,), (16,), False), ((), None, True), ((2, 1, 3), (24, 5, 8), True),
])  # fmt: skip
def test_rows_without_gaps(shape: Any, strides: Any, dense: bool) -> None:
    assert _contiguous({"typestr": "<f8", "shape": shape, "strides": strides}) is dense
    if strides is None:
        assert _contiguous({"typestr": "<f8", "shape": shape})


class OnDevice:
    def __init__(self, strides: Any = None) -> None:
        self.__cuda_array_interface__ = {
            "typestr": "<f4", "shape": (4,), "strides": strides, "data": (0x1234, False),
        }  # fmt: skip


class Arrays:
    """Where arrays go: numbers them."""

    def __init__(self) -> None:
        self.placed: list[str] = []

    def place(self, array: Any, name: str) -> int:
        self.placed.append(name)
        return 0x100 * len(self.placed)

    def adopt(self, array: Any, what: str) -> int:
        return 0x1234

    def tensor_map(self, made: Any) -> bytes:
        return made.address.to_bytes(128, "little")

    def give_back(self) -> list[str]:
        return []


def test_an_array_given_twice_is_placed_once() -> None:
    text = HEAD.replace(".param .u64 out", ".param .u64 out, .param .u64 b, .param .u64 c, "
                                           ".param .u32 n, .param .u64 d")  # fmt: skip
    made = Module(f"{text}ret;\n}}")["k"]
    one, arrays = np.zeros(4), Arrays()
    args: list[Any] = [one, one[:2], one, 7, OnDevice()]
    raw = marshal("k", made.function, made.layout, args, arrays)
    assert np.frombuffer(raw, np.uint64).tolist() == [0x100, 0x100, 0x100, 7, 0x1234]
    assert arrays.placed == ["arguments 0 and 1 and 2"]  # the second lies in the first
    args[1:3] = np.zeros(4), one
    raw = marshal("k", made.function, made.layout, args, arrays := Arrays())
    assert np.frombuffer(raw, np.uint64)[:3].tolist() == [0x100, 0x200, 0x100]
    for wrong, words in (
        ([one, one, one, one, one], "argument 3 of k is a number of 4 bytes, but an array was"),
        ([one, one, one, OnDevice(), one], "argument 3 of k is a number of 4 bytes"),
        ([one, OnDevice((8,)), one, 7, one], "argument 1 of k is not contiguous; pass cupy.asc"),
        ([one, one, b"1234567", 7, one], "argument 2 of k has 8 bytes, but 7 were given"),
    ):  # fmt: skip
        with pytest.raises(LaunchError, match=words):
            made.marshal(wrong, Arrays())
    with pytest.raises(LaunchError, match="argument 0 of k lies on a GPU"):
        made.launch(1, 1, [OnDevice(), one, one, 7, one])


def test_a_tensor_map_lies_in_its_parameter_and_its_array_on_the_device() -> None:
    text = HEAD.replace(".param .u64 out", ".param .align 64 .b8 a[128], .param .u64 b, "
                                           ".param .align 64 .b8 c[128]")  # fmt: skip
    made = Module(f"{text}ret;\n}}".replace("ld.param.u64 %rd1, [out];", ""))["k"]
    array = np.zeros((8, 64), np.float16)
    there = TensorMap(0x5000, (16, 2), data_type="u8", dims=(64, 8))
    args: list[Any] = [TensorMap(array, (64, 2)), array, there]
    raw = made.marshal(args, arrays := Arrays())
    words = np.frombuffer(raw, np.uint64)
    assert [int(words[0]), int(words[16]), int(words[24])] == [0x100, 0x100, 0x5000]
    assert arrays.placed == ["argument 0"]
    with pytest.raises(LaunchError, match="argument 1 of k has 8 bytes, but a tensor map of 128"):
        made.marshal([args[0], args[0], args[2]], Arrays())


def test_arrays_come_back_with_what_was_written_and_leave_no_memory() -> None:
    made = kernel("st.global.u32 [%rd1+4], 9; ret;")
    out = np.zeros((1, 2), np.uint32)
    count = len(made.memory.allocations)
    made.launch(1, 1, [out])
    assert out.tolist() == [[0, 9]] and len(made.memory.allocations) == count
    out.flags.writeable = False
    made.launch(1, 1, [out]), "it wrote what was there"
    for before in (10, 3):
        fixed = np.full(2, before, np.uint32)
        fixed.flags.writeable = False
        with pytest.raises(LaunchError, match="the kernel wrote argument 0, an array that is read"):
            made.launch(1, 1, [fixed])
        assert fixed.tolist() == [before] * 2


# -- an execution ---------------------------------------------------------------------------------


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("trace", [True, False])
def test_a_checked_launch_stacks_fewer_threads_and_has_a_trace(check: bool, trace: bool) -> None:
    made = machine(check=check, trace=trace)
    assert made.stacked == (STACKED_OBSERVED if check else STACKED) and (STACKED, MAX_STACK) == (
        4096, 64 << 10,
    ) and STACKED_OBSERVED == 1024  # fmt: skip
    assert made.keep_apart is (check and trace)
    assert any(isinstance(each, Trace) for each in made.told.observers) is (check and trace)


def test_an_execution_asks_for_what_it_is_given() -> None:
    made = kernel("ret;")

    def prepared(mode: Mode, **more: Any) -> Execution:
        return made.prepare(made.extents(2, 32), b"12345678", mode, **more)

    one = prepared(Mode(), workspace=5, stack=MAX_STACK + 1, dependent=True)
    assert (one.machine.workspace, one.machine.stack, one.machine.dependent) == (
        5, MAX_STACK + 1, True,
    )  # fmt: skip
    small = prepared(Mode(accesses=True), stack=16)
    assert small.machine.stack == MAX_STACK and small.trace.accesses == []
    assert prepared(Mode()).trace.accesses is None and prepared(Mode()).machine.stack == MAX_STACK
    assert prepared(Mode()).machine.workspace == 0 and not prepared(Mode()).machine.dependent
    allocation = small._parameters
    assert made.memory.bytes(allocation).tobytes() == b"12345678"
    assert small.machine.parameter_start == allocation.start and allocation.kind == "param"
    assert made.program(True).checked and small.output == "" and small.cycles == 0
    small.machine.printed += ["a", "b"]
    small.machine.clock = 7
    assert small.output == "ab" and small.result().output == "ab" and small.result().cycles == 7
    assert str(small.standing()) == "no thread has begun"
    small.run()
    assert allocation not in made.memory.allocations
    none = "not enough memory for this launch: none"
    with pytest.raises(LaunchError, match=none), small.attempt():
        raise MemoryError("none")
    for kind in (ZeroDivisionError, AttributeError, KeyError, TypeError, ValueError):
        failed = r"the emulator failed in PTX lines \d+ to \d+ .*please report it"
        with pytest.raises(Defect, match=failed), small.attempt():
            raise kind("x")
    small.findings.append("found")  # type: ignore[arg-type]
    with pytest.raises(Fault) as caught, small.attempt():
        raise Fault("it ends")
    assert caught.value.findings == ["found"]


@pytest.mark.parametrize(("body", "rule"), [
    ("trap;", "trap"), ("bar.sync 0, 64; ret;", "deadlock"),
    ("mov.u32 %r3, 0; L: add.u32 %r3, %r3, 1; setp.ne.u32 %p1, %r3, 0; @%p1 bra L; ret;",
     "step-limit"),
])  # fmt: skip
def test_what_ends_a_kernel_is_raised_or_reported(body: str, rule: str) -> None:
    out = np.zeros(1, np.uint32)
    made = kernel(f"st.global.u32 [%rd1], 5; {body}")
    run = made.launch(1, 1, [out], on_fault="report", max_steps=50)
    assert [each.rule for each in run.findings] == [rule] and out[0] == 5
    with pytest.raises(EmulatorError) as caught:
        made.launch(1, 1, [out], max_steps=50, on_fault="".join("raise"))
    assert caught.value.finding.rule == rule


def test_arguments_for_which_there_is_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> None:
        raise MemoryError("Unable to allocate 3 TiB")

    made, out = kernel("ret;"), np.zeros(1, np.uint32)
    monkeypatch.setattr(made.memory, "allocate", none_left)
    with pytest.raises(LaunchError) as caught:
        made.launch(1, 1, [out])
    assert str(caught.value) == (
        "k: there is not enough memory for this launch: Unable to allocate 3 TiB"
    )


# -- variables ------------------------------------------------------------------------------------


def variables(text: str) -> Module:
    return Module(f".version 9.0\n.target sm_90a\n.address_size 64\n{text}\n")


def test_variables_hold_what_they_are_given() -> None:
    made = variables("""
        .global .u8 small[4] = {1, 300, 255}; .global .s32 minus = -5; .const .u64 wide = 7;
        .global .f32 real[2] = {0f3F800000, 2.5}; .global .f64 more = 1.25; .global .u32 none;
        .global .u64 to = real; .global .u64 beyond = real+4; .global .u16 half = 0x12345;
    """)
    assert made.variable("small").tolist() == [1, 44, 255, 0]
    assert made.variable("minus").view(np.int32).tolist() == [-5]
    assert made.variable("wide").view(np.uint64).tolist() == [7]
    assert made.variable("real").view(np.float32).tolist() == [1.0, 2.5]
    assert made.variable("more").view(np.float64).tolist() == [1.25]
    assert made.variable("none").tolist() == [0, 0, 0, 0]
    assert made.variable("half").view(np.uint16).tolist() == [0x2345]
    at = made.symbols["real"]
    assert made.variable("to").view(np.uint64).tolist() == [at]
    assert made.variable("beyond").view(np.uint64).tolist() == [at + 4]
    assert made.allocations["wide"].kind == "const" and made.allocations["to"].kind == "global"
    with pytest.raises(LaunchError, match="no variable 'nothing'; it has: small, minus, wide"):
        made.variable("nothing")
    with pytest.raises(LaunchError, match="no variable 'x'; it has: none"):
        variables("").variable("x")


def test_a_variable_may_hold_the_address_of_a_function() -> None:
    """PTX ISA 6.4.1: whatever it is, each function has its own."""
    made = variables("""
        .func one () { ret; } .func two () { ret; } .func three () { ret; }
        .global .u64 table[3] = {three, one, two};
    """)
    found = made.variable("table").view(np.uint64).tolist()
    assert found == [FUNCTION_BASE + 32, FUNCTION_BASE, FUNCTION_BASE + 16]


@pytest.mark.parametrize(("text", "words"), [
    (".global .u8 x[64];", ""), (".global .u8 x[65];", "x has 65 bytes; the emulator has room for"),
    (".global .u8 x[2] = {1, 2};", ""), (".global .u32 x = nobody;", "unknown nobody"),
    (".global .b128 x = 1;", r"x: \.b128 takes no values"),
])  # fmt: skip
def test_variables_that_cannot_be(text: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.MAX_VARIABLE == 1 << 30
    monkeypatch.setattr(module, "MAX_VARIABLE", 64)
    if not words:
        variables(text)
        return
    with pytest.raises(PtxError, match=words) as caught:
        variables(text)
    assert caught.value.line == 4
