"""Launching: arguments in, results out, and one clear sentence for what cannot run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phasebit.devices import DeviceError
from phasebit.emulator.errors import LaunchError
from phasebit.emulator.launch import Module

PTX = """
.version 9.0
.target sm_90a
.address_size 64
.global .align 4 .u32 seen = 5;
.visible .entry _Z4fillPjjf(.param .u64 out, .param .u32 n, .param .f32 x,
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
    assert run.device == "emulator" and run.milliseconds is None and not run.hazards
    assert run.counters["smsp__thread_inst_executed.sum"] > 64


def test_many_shapes_of_one_grid(module: Module) -> None:
    for grid, block in (((64,), (1,)), ((1,), (64,)), ((7,), (10,)), ((3,), (33,))):
        out = np.zeros(64, np.uint32)
        module["fill"].launch(grid, block, args(out))
        assert np.array_equal(out[:60], np.arange(60) + 107), (grid, block)


def test_names(module: Module) -> None:
    assert module["_Z4fillPjjf"] is module["fill"]
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


def test_read_only_arrays_stay_as_they_are(module: Module) -> None:
    out = np.zeros(64, np.uint32)
    out.flags.writeable = False
    module["fill"].launch(2, 32, args(out))
    assert not out.any()


def test_the_generated_text_shows_the_ptx_beside_the_python(module: Module) -> None:
    text = module["fill"].python()
    assert "def block_0(g):" in text
    assert "mad.lo.s32 %r2, %r3, %r4, %r2" in text
