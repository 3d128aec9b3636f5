"""Device memory: addresses, holes, limits."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from phasebit.runtime.mapped_memory import BASE, PAGE, DeviceMemory, OutOfMemory
from phasebit.runtime.protocol import Space


@pytest.fixture
def memory():
    made = DeviceMemory(total=1 << 20, span=1 << 22)
    yield made
    made.close()


def test_an_allocation_is_found_from_its_first_to_its_last_byte(memory):
    at = memory.allocate(100)
    assert memory.find(at).size == 100
    assert memory.find(at + 99) is not None
    assert memory.find(at, 100) is not None
    assert memory.find(at + 100) is None
    assert memory.find(at - 1) is None
    assert memory.find(at, 101) is None
    assert memory.find(at + 50, 51) is None


def test_no_two_touch_and_all_are_aligned(memory):
    items = [memory.allocate(size) for size in (1, 4096, 4097, 256)]
    assert all(at % PAGE == 0 for at in items)
    for at in items:
        item = memory.find(at)
        assert memory.find(item.end) is None and memory.find(at - 1) is None


def test_freed_memory_is_gone_and_its_address_is_not_used_again_soon(memory):
    at = memory.allocate(8)
    memory.view(at, 8)[:] = 7
    memory.free(at)
    assert memory.find(at) is None
    assert memory.allocate(8) != at
    with pytest.raises(KeyError):
        memory.free(at)


def test_more_than_there_is(memory):
    memory.allocate(1 << 19)
    with pytest.raises(OutOfMemory):
        memory.allocate((1 << 19) + 1)
    assert memory.used == 1 << 19


def test_addresses_are_used_again_after_a_while(memory, monkeypatch):
    """Against a naive model: live allocations never overlap, whatever is freed."""
    monkeypatch.setattr("phasebit.runtime.mapped_memory.FRESH", 1 << 18)
    kept = [memory.reserve(5000) for _ in range(3)]
    rng = random.Random(1)
    live = {}
    for _ in range(2000):
        if live and (rng.random() < 0.5 or len(live) > 20):
            memory.free(live.pop(rng.choice(list(live)))[0])
            continue
        size = rng.randrange(1, 40000)
        try:
            at = memory.allocate(size)
        except OutOfMemory:
            continue
        for start, length in [*live.values(), *((r, 5000) for r in kept)]:
            assert at >= start + length or at + size <= start
        assert at >= BASE and at + size <= BASE + memory.span
        assert memory.find(at - 1) is None and memory.find(-(-(at + size) // PAGE) * PAGE) is None
        memory.view(at, size)[:] = 1
        live[at] = (at, size)
    assert max(live) < BASE + (1 << 20) + (1 << 18)
    assert memory.used == sum(-(-size // PAGE) * PAGE for _, size in live.values())


def test_reset_forgets_all(memory):
    at = memory.allocate(64, Space.MANAGED)
    memory.view(at, 64)[:] = 9
    memory.finished = 5
    memory.reset()
    assert memory.find(at) is None and memory.used == 0 and memory.finished == 0
    assert not memory.view(at, 64).any()


def test_the_program_sees_the_same_bytes(memory):
    import mmap

    at = memory.allocate(4)
    other = mmap.mmap(memory.fd, memory.span)
    other[at - BASE] = 42
    assert memory.view(at, 1)[0] == 42
    memory.view(at, 4)[3] = 7
    assert other[at - BASE + 3] == 7


def test_a_limit_on_addresses_is_a_sentence():
    """Under `ulimit -v`, of 4 GB."""
    code = (
        "import resource; from phasebit.runtime import run_program\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))\n"
        "try: run_program.device_memory(1 << 20)\n"
        "except run_program.ProgramError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert said.stdout.endswith("this process may have 4: lift the limit, ulimit -v unlimited\n"), (
        said
    )
