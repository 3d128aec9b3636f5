"""What happens in a launch is told to those who subscribed, and to nobody else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phasebit import emulator
from phasebit.emulator import AccessObserver, LaunchObserver, Module, observing
from phasebit.emulator.machine.events import Told

ROOMS = Path(emulator.__path__[0])
STORE = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r1;
    ret;
}
"""


class Log(LaunchObserver, AccessObserver):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []

    def starts(self, batch: Any) -> None:
        self.heard.append(("starts", batch.lanes))

    def leaves(self, g: Any) -> None:
        self.heard.append(("leaves", g.n))

    def stores(self, g: Any, index: Any, accesses: Any) -> bool:
        self.heard.append(("stores", g.n))
        return False


def test_only_those_who_override_an_event_hear_of_it() -> None:
    log = Log()
    told = Told([log, LaunchObserver()])
    assert told[LaunchObserver.leaves] == (log.leaves,)
    assert told[LaunchObserver.shuffles] == ()
    other = Log()
    told.subscribe(other)
    assert told[LaunchObserver.leaves] == (log.leaves, other.leaves)


@pytest.mark.parametrize("check", [True, False])
def test_who_observes_hears_of_the_launches_meanwhile(check: bool) -> None:
    log, out = Log(), np.zeros(64, np.uint32)
    kernel = Module(STORE)["k"]
    with observing(log):
        kernel.launch(1, 64, [out], check=check)
    kernel.launch(1, 64, [out], check=check)
    stored = [("stores", 64)] if check else []  # the text for unchecked runs asks nobody
    assert log.heard == [("starts", 64), *stored, ("leaves", 64)]
    assert out.tolist() == list(range(64))


@pytest.mark.parametrize("room", ["machine", "copy_engine", "tensor_core", "ops"])
def test_what_an_instruction_means_does_not_know_who_listens(room: str) -> None:
    asks = re.compile(r"machine\.(?:checked|checker|counters|trace)\b")
    found = {
        path.name: asks.findall(path.read_text(encoding="utf-8"))
        for path in (ROOMS / room).glob("*.py")
    }
    assert {name: words for name, words in found.items() if words} == {}


def test_blocks_of_the_program_are_told_before_they_run() -> None:
    """So many instructions of so many threads as the launch counts."""
    told: list[tuple[int, int]] = []

    class Steps(LaunchObserver):
        def enters(self, g: Any) -> None:
            told.append((g.batch.machine.program.sizes[g.pc], g.n))

    with observing(Steps()):
        run = Module(STORE)["k"].launch(1, 64, [np.zeros(64, np.uint32)])
    executed = sum(size * threads for size, threads in told)
    assert executed == run.counters["smsp__thread_inst_executed.sum"]


def test_a_finding_is_told_when_it_is_found() -> None:
    heard: list[int] = []

    class Finds(LaunchObserver):
        def finds(self) -> None:
            heard.append(1)

    racing = STORE.replace("add.u64 %rd1, %rd1, %rd2;", "")
    with observing(Finds()):
        run = Module(racing)["k"].launch(1, 64, [np.zeros(64, np.uint32)])
    assert len(heard) == len(run.findings) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_the_end_of_a_launch_is_told_once(fails: bool) -> None:
    heard: list[str] = []

    class Ends(LaunchObserver):
        def gone(self) -> None:
            heard.append("gone")

        def ends(self, batch: Any) -> None:
            heard.append("ends")

    text = STORE.replace("ret;", "trap;") if fails else STORE
    with observing(Ends()):
        Module(text)["k"].launch(1, 32, [np.zeros(32, np.uint32)], on_fault="report")
    assert heard == (["gone"] if fails else ["ends", "gone"])
