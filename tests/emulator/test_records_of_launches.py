"""What a launch notes: records that nobody changes, and objects that are only themselves."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

from phasebit.emulator import api, copy_engine, interleavings, machine
from phasebit.emulator.machine.running_launch import RunningLaunch
from phasebit.emulator.machine.scheduler import Machine
from tests.emulator.machines import use_every_part

FIXED = {
    "Accesses", "Seat", "Deciding", "Event", "Signal", "Failing", "Interleavings", "Taken",
    "Descriptor", "Mode", "Extents",
}  # fmt: skip
"""Records: alike where all they say is, and nobody changes them."""
THEMSELVES = {
    "Allocation", "LaunchState", "Move", "Blocked", "Trace", "Waiting", "Step", "_Node",
}  # fmt: skip
"""Two of these are two, whatever they say."""
OTHERS = {"Access": (True, False), "Image": (False, True)}
"""An access has arrays, which are not compared; an image is taken apart and changed."""


def records() -> dict[str, Any]:
    found = {}
    for package in (machine, interleavings, copy_engine, api):
        for each in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{each.name}")
            for name, thing in vars(module).items():
                if inspect.isclass(thing) and thing.__module__ == module.__name__ and (
                    "__dataclass_params__" in vars(thing)
                ):  # fmt: skip
                    found[name] = vars(thing)["__dataclass_params__"]
    return found


def test_which_may_be_changed_and_which_are_compared() -> None:
    use_every_part()
    found = {name: (how.frozen, how.eq) for name, how in records().items()}
    assert found == {
        **dict.fromkeys(FIXED, (True, True)), **dict.fromkeys(THEMSELVES, (False, False)),
        **OTHERS,
    }  # fmt: skip


def test_a_launch_leaves_to_the_scheduler_what_only_it_can_answer() -> None:
    asked = {"make_ready", "park", "wake", "sleep", "catch_up", "gather", "exit_threads",
             "executing_access", "executing", "where", "source_line", "place"}  # fmt: skip
    assert RunningLaunch.__abstractmethods__ == asked
    assert Machine.__abstractmethods__ == frozenset()
    waits: Any = object()
    assert RunningLaunch.may_wait(waits, waits, lambda: False, [], waits) is True


