"""The kernels of two GPUs on the emulator, right and with mistakes that people make."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from phasebit import toolchain
from phasebit.edits import replace_once
from phasebit.runtime import library
from phasebit.runtime.emulated import EmulatorBackend
from phasebit.runtime.in_process import Runs
from phasebit.runtime.run_program import run_program

pytestmark = pytest.mark.nvcc

FOLDER = Path(__file__).with_name("two_gpus")
GATHER, MULTIPLY, REDUCE = "a_gather", "b_gather_multiply", "c_multiply_reduce"


def text(kernel: str) -> str:
    """A kernel's file with both headers in it."""
    header = (FOLDER / "peers.cuh").read_text("utf-8").replace("#pragma once", "")
    harness = (FOLDER / "harness.cuh").read_text("utf-8").replace("#pragma once", "")
    own = '#include "two_gpus/peers.cuh"'
    source = (FOLDER / f"{kernel}.cu").read_text("utf-8").replace(own, header)
    return source.replace('#include "two_gpus/harness.cuh"', harness.replace(own, ""))


@cache
def build(source: str) -> Path:
    """The program, for the emulator."""
    runtime = library.for_linking(toolchain.nvcc().major)
    return toolchain.build(source, name="two.cu", target="sm_90", runtime=runtime).program


def run(source: str, capfd: pytest.CaptureFixture[str], **options: Any) -> tuple[str, Runs]:
    """What the program prints, and what is found."""
    capfd.readouterr()
    runs = Runs()
    run_program([build(source)], EmulatorBackend(**options), limit=100, reporter=runs, devices=2)
    return capfd.readouterr().out, runs


@pytest.mark.parametrize("schedule", ["late", "random"])
@pytest.mark.parametrize("kernel", [GATHER, MULTIPLY, REDUCE])
def test_right_under_every_schedule(kernel, schedule, capfd):
    printed, runs = run(text(kernel), capfd, schedule=schedule)
    assert (printed, [str(each) for each in runs.findings]) == ("right\n", [])


RELEASE, ACQUIRE = "st.release.sys.global", "ld.acquire.sys.global"
SENDS = """    for (int i = threadIdx.x; i < TILE * K; i += blockDim.x) {
        link.there[slot + first + i] = own[first + i];
        all[device * OWN + first + i] = own[first + i];
    }
    raise(&link.there_full[tile], turn);

"""
WAITS = "    wait_for(&link.full[tile], turn);\n"
BARRIER = """    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("st.release"""

MISTAKES: dict[str, tuple[str, list[tuple[str, str]], set[str]]] = {
    "the release has .gpu scope": (
        REDUCE, [(RELEASE, RELEASE.replace("sys", "gpu"))], {"device-scope"}),
    "the acquire has .gpu scope": (
        REDUCE, [(ACQUIRE, ACQUIRE.replace("sys", "gpu"))], {"device-scope"}),
    "the flag is stored without a release": (
        REDUCE, [(RELEASE, "st.relaxed.sys.global")], {"race"}),
    "the flag is read without an acquire": (
        REDUCE, [(ACQUIRE, "ld.relaxed.sys.global")], {"race"}),
    "one thread raises the flag before the others have stored": (
        REDUCE, [(BARRIER, BARRIER.replace("    __syncthreads();\n", ""))], {"race"}),
    "the flag before the data": (
        REDUCE,
        [("        raise(&link.there_full[tile], turn);\n", ""),
         ("        for (int i = 0; i < 4; ++i) link.there",
          "        raise(&link.there_full[tile], turn);\n"
          "        for (int i = 0; i < 4; ++i) link.there")], {"race"}),
    "the flag is not new in the second launch": (
        REDUCE, [("raise(&link.there_full[tile], turn)", "raise(&link.there_full[tile], 1)"),
                 ("wait_for(&link.full[tile], turn)", "wait_for(&link.full[tile], 1)")], {"race"}),
    "waits for another tile": (
        MULTIPLY, [("wait_for(&link.full[tile], turn)", "wait_for(&link.full[0], turn)")],
        {"race"}),
    "the flag is raised on the wrong GPU": (
        REDUCE, [("raise(&link.there_full[tile], turn)",
                  "raise((unsigned*)&link.full[tile], turn)")], {"race"}),
    "one slot": (MULTIPLY, [("constexpr int SLOTS = 2;", "constexpr int SLOTS = 1;")], {"race"}),
    "both wait before they send": (
        GATHER, [(SENDS + WAITS, WAITS + SENDS)], {"livelock"}),
    "no peer access": (
        REDUCE, [("        CHECK(cudaDeviceEnablePeerAccess(1 - d, 0));\n", "")],
        {"no-peer-access"}),
}  # fmt: skip


def planted(name: str) -> tuple[str, set[str]]:
    """The source with that mistake in it, and the rules that it breaks."""
    kernel, edits, rules = MISTAKES[name]
    source = text(kernel)
    for right, wrong in edits:
        source = replace_once(source, right, wrong, kernel)
    return source, rules


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found_by_name(name, capfd):
    source, rules = planted(name)
    _, runs = run(source, capfd)
    assert {each.rule for each in runs.findings} == rules, [str(each) for each in runs.findings]


def test_a_sum_added_twice_is_silent_but_for_the_result(capfd):
    """It is arithmetic: every access is ordered, and only who knows the sum can see it."""
    once = "Y[at[i]] = part[i] + link.here[slot + at[i]];"
    twice = once.replace("part[i] +", "part[i] + link.here[slot + at[i]] +")
    printed, runs = run(replace_once(text(REDUCE), once, twice, REDUCE), capfd)
    assert printed.startswith("wrong: ") and runs.findings == []
