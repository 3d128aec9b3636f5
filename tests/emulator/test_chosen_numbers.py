"""Numbers that somebody chose: how long, how many, how large; what else depends on each is said."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from phasebit.emulator import capabilities
from phasebit.emulator.api import execution
from phasebit.emulator.capabilities import MAX_GRID
from phasebit.emulator.copy_engine import tensor_copy, tensormap
from phasebit.emulator.machine import (
    accesses,
    barrier_sites,
    cluster_launch,
    company,
    device_memory,
    livelock,
    room,
    scheduler,
    stepped,
    system,
)
from tests.emulator.machines import use_every_part

CHOSEN: list[tuple[ModuleType, dict[str, object]]] = [
    # The longer a group may run the fewer NumPy calls there are; the later a spinning one is seen.
    (scheduler, {"PATIENCE": 64, "POLLS": 256, "FALSE_ANSWERS": 512, "LONGEST": 4096}),
    (scheduler, {"STACKED_BYTES": 32 << 20}),
    (livelock, {"PAUSE": 512, "WATCHED": 8, "TURNS_EACH": 3, "NAMED": 4, "GLANCE": 16}),
    (livelock, {"MOST_PLACES": 64}),
    (stepped, {"ROUNDS": 16, "ANSWERS": 2}),
    (company, {"REST": 16}),
    (cluster_launch, {"RESIDENT": 2, "REFUSALS": 0.2, "YES": 0x57EA1ED}),
    (device_memory, {"GRANULE": 256, "WATCHED": 64 << 20, "REMEMBERED": 1000, "HEAP_UNIT": 16}),
    (device_memory, {"EVERY_DEVICE": -1, "POISON": 0x7FFF7FFF}),
    (accesses, {"ABSENT": -1}),
    (room, {"LEAST": 400 << 20}),
    (barrier_sites, {"IMAGE": 0xBA221E2BA221E2BA}),
    (tensor_copy, {"NAN": 0x7FF7, "PIECE": 16, "LINE": 128}),
    (execution, {"MAX_STEPS": 2_000_000, "ON_FAULT": ("raise", "report")}),
    (tensormap, {"SIZE": 128}),
    # Programs that size their grid by it have so many times more blocks.
    (capabilities, {"MULTIPROCESSORS": 8}),
]


def test_whoever_changes_one_changes_it_here() -> None:
    use_every_part()
    for module, numbers in CHOSEN:
        assert {name: getattr(module, name) for name in numbers} == numbers, module.__name__


def test_unwritten_memory_is_no_number() -> None:
    """A NaN as f16, bf16, f32 and f64."""
    use_every_part()
    words = np.full(2, device_memory.POISON, np.uint32)
    assert np.isnan(words.view(np.float16)).all() and np.isnan(words.view(np.float32)).all()
    assert np.isnan(words.view(np.float64)).all()
    assert np.isnan((words & np.uint32(0xFFFF) << np.uint32(16)).view(np.float32)).all()


def test_no_block_has_the_coordinates_of_an_answer_of_no() -> None:
    """And they are no negative numbers."""
    use_every_part()
    assert max(MAX_GRID) - 1 < cluster_launch.NOWHERE < 1 << 31


def test_nvcc_calls_four_functions_of_the_system() -> None:
    use_every_part()
    assert {*system.EXTERNALS} == {"vprintf", "__assertfail", "malloc", "free"}
    assert system.EXTERNALS["__assertfail"] is system.assert_fail
