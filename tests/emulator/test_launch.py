"""Launching: arguments in, results out, and one clear sentence for what cannot run."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.api.arguments import check_elements
from phasebit.emulator.errors import LaunchError
from phasebit.launching.devices import DeviceError
from phasebit.launching.launch import Module

PTX = """
.version 9.0
.target sm_90a
.address_size 64
.global .align 4 .u32 seen = 5;
.visible .entry _Z4fillPjjf4Pair(.param .u64 out, .param .u32 n, .param .f32 x,
                            .param .align 8 .b8 pair[16]) .maxntid 256
{
    .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<6>; .reg .f32 %f<4>;
    ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n]; ld.param.f32 %f1, [x];
    ld.param.u32 %r5, [pair+4];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x;
    mad.lo.s32 %r2, %r3, %r4, %r2;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 ret;
    cvt.rzi.u32.f32 %r6, %f1;
    add.s32 %r6, %r6, %r5; add.s32 %r6, %r6, %r2;
    mul.wide.u32 %rd3, %r2, 4; add.s64 %rd3, %rd2, %rd3;
    st.global.u32 [%rd3], %r6;
    ret;
}
"""
PAIR = np.array((0, 100, 0), [("a", "i4"), ("b", "i4"), ("c", "f8")])[()]


@pytest.fixture(scope="module")
def module() -> Module:
    return Module(PTX)


def args(out: Any = None) -> list[Any]:
    return [np.zeros(64, np.uint32) if out is None else out, 60, 7.0, PAIR]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_results_come_back_in_place(module: Module, check: bool, schedule: str) -> None:
    out = np.zeros(64, np.uint32)
    run = module["fill"].launch(2, 32, args(out), check=check, schedule=schedule)
    assert np.array_equal(out, np.where(np.arange(64) < 60, np.arange(64) + 107, 0))
    assert run.device == "emulator" and run.milliseconds is None and not run.findings
    assert run.counters["smsp__thread_inst_executed.sum"] > 64


def test_many_shapes_of_one_grid(module: Module) -> None:
    for grid, block in (((64,), (1,)), ((1,), (64,)), ((7,), (10,)), ((3,), (33,))):
        out = np.zeros(64, np.uint32)
        module["fill"].launch(grid, block, args(out))
        assert np.array_equal(out[:60], np.arange(60) + 107), (grid, block)


def test_names(module: Module) -> None:
    assert module["_Z4fillPjjf4Pair"] is module["fill"]
    with pytest.raises(LaunchError, match=r"no kernel called 'full'; it has: fill"):
        module["full"]
    assert module.variable("seen").view(np.uint32)[0] == 5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"args": []}, "takes 4 arguments, not 0"),
        ({"args": [np.zeros(4, np.uint32), 1.5, 7.0, PAIR]}, "argument 1 of fill is an integer"),
        ({"args": [5.0, 60, 7.0, PAIR]}, "argument 0 of fill is an integer"),
        (
            {"args": [np.zeros(4, np.uint32), np.int64(3), 7.0, PAIR]},
            "has 4 bytes, but a int64 of 8",
        ),
        ({"args": [np.zeros(4, np.uint32), 1 << 40, 7.0, PAIR]}, "does not fit"),
        ({"args": [np.zeros(4, np.uint32), 60, 7.0, b"123"]}, "has 16 bytes, but 3 were given"),
        ({"args": [np.zeros(4, np.uint32), 60, 7.0, 5]}, "is a struct of 16 bytes"),
        ({"args": [np.zeros((4, 4), np.uint32)[:, ::2], 60, 7.0, PAIR]}, "not contiguous"),
        ({"args": ["text", 60, 7.0, PAIR]}, "a str cannot be passed"),
        ({"args": [np.zeros(4, np.uint32), np.zeros(2), 7.0, PAIR]}, "an array was given"),
        ({"block": (1024, 2)}, "2048 threads is too large"),
        ({"block": 512}, "compiled for at most 256 threads"),
        ({"block": (1, 1, 65)}, "z extent"),
        ({"block": 0}, "positive numbers"),
        ({"grid": (1, 2, 3, 4)}, "one to three"),
        ({"shared": 1 << 20}, "shared memory"),
        ({"shared": -1}, "makes no sense"),
        ({"cluster": 3, "grid": 4}, "no multiple of the cluster"),
        ({"schedule": "soon"}, "choose one of eager, late, random"),
    ],
)
def test_what_cannot_run_is_refused_in_a_sentence(
    module: Module, change: dict[str, Any], words: str
) -> None:
    options: dict[str, Any] = {"grid": 2, "block": 32, "args": args(), **change}
    before = len(module.memory.allocations)
    with pytest.raises(LaunchError) as caught:
        module["fill"].launch(**options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(module.memory.allocations) == before, "nothing stays allocated"


def test_a_device_that_there_is_not_is_refused_in_a_sentence(module: Module) -> None:
    with pytest.raises(DeviceError) as caught:
        module["fill"].launch(2, 32, args(), device="moon")
    assert str(caught.value) == "device is 'moon': choose one of auto, gpu, emulator"


def test_a_read_only_array_that_is_written_is_refused_and_stays_as_it_is(module: Module) -> None:
    out = np.zeros(64, np.uint32)
    out.flags.writeable = False
    with pytest.raises(LaunchError, match="wrote argument 0, an array that is read-only") as caught:
        module["fill"].launch(2, 32, args(out))
    assert not out.any() and "\n" not in str(caught.value)
    module["fill"].launch(2, 32, [out, 0, 7.0, PAIR])  # nothing is written: nothing to refuse


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(64), "argument 0 of fill is unsigned int*, but an array of float64 was given"),
        (np.zeros(64, np.float32), "pass array.astype(np.uint32)"),
        (np.zeros(64, np.int64), "an array of int64 was given"),
        (np.zeros(64, ">u4"), "array of >u4, whose bytes are in the other order"),
        (np.array(["a"] * 64), "array of <U1, which a kernel cannot read"),
        (np.zeros(64, "M8[s]"), "array of datetime64[s], which a kernel cannot read"),
    ],
    ids=lambda value: str(value.dtype) if isinstance(value, np.ndarray) else "",
)
def test_an_array_of_other_numbers_than_the_parameters(
    module: Module, array: Any, words: str
) -> None:
    with pytest.raises(LaunchError) as caught:
        module["fill"].launch(2, 32, args(array))
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["u4", "i4", "u1", "V4"])
def test_numbers_that_may_stand_for_the_parameters(module: Module, kind: str) -> None:
    module["fill"].launch(2, 32, args(np.zeros(256 if kind == "u1" else 64, kind)))


@pytest.mark.parametrize(
    ("declared", "kinds"),
    [
        ("float const*", ("f4", "u4", "u1", "c8")), ("double*", ("f8", "u8", "u1", "c16")),
        ("long long*", ("i8", "u8", "u1")), ("signed char*", ("i1", "u1", "b1")),
        ("unsigned short*", ("i2", "u2", "u1")),
    ],
)  # fmt: skip
def test_which_numbers_fit_a_pointer_of_c_plus_plus(declared: str, kinds: tuple[str, ...]) -> None:
    every = ("f2", "f4", "f8", "c8", "c16", "b1", *(f"{k}{n}" for k in "iu" for n in (1, 2, 4, 8)))
    taken = set()
    for kind in every:
        with suppress(LaunchError):
            check_elements(np.dtype(kind), declared, "x")
            taken.add(kind)
    assert taken == set(kinds)


@pytest.mark.parametrize("declared", ["char*", "unsigned char const*", "void*", "float4*", "", "f"])
def test_bytes_and_types_of_ones_own_take_any_numbers(declared: str) -> None:
    check_elements(np.dtype("f8"), declared, "x")


def test_the_generated_text_shows_the_ptx_beside_the_python(module: Module) -> None:
    text = module["fill"].python()
    assert "def block_0(g):" in text
    assert "mad.lo.s32 %r2, %r3, %r4, %r2" in text
