"""The emulator's memory: where allocations lie, what is known of them, how an address is named."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator.errors import EmulatorError
from phasebit.emulator.findings import say
from phasebit.emulator.machine import device_memory
from phasebit.emulator.machine.device_memory import EVERY_DEVICE, GRANULE, Memory, Parameters
from phasebit.emulator.ptx.placement import GLOBAL_BASE


def test_allocations_begin_at_granules_with_one_between() -> None:
    memory = Memory()
    sizes = [1, 256, 257, 0, 512]
    made = [memory.allocate(size, f"a{size}") for size in sizes]
    assert [each.start // GRANULE for each in made] == [1, 3, 5, 8, 10]
    assert [(each.size, each.name, each.kind, each.device) for each in made[:2]] == [
        (1, "a1", "global", EVERY_DEVICE), (256, "a256", "global", EVERY_DEVICE),
    ]  # fmt: skip
    assert made[0].address == GLOBAL_BASE + GRANULE
    owned = np.flatnonzero(memory.owners).tolist()
    assert owned == [1, 3, 5, 6, 8, 10, 11]


def test_the_buffer_grows_and_keeps_what_it_had() -> None:
    memory = Memory(2048)
    first = memory.allocate(16)
    memory.bytes(first)[:] = 7
    second = memory.allocate(5000)
    assert len(memory.u1) == 8192 and memory.bytes(first).tolist() == [7] * 16
    assert len(memory.bytes(second)) == 5000 and not memory.bytes(second).any()
    assert memory.owners[1] == 1 and len(memory.owners) == 8192 // GRANULE + 1
    assert memory.u4.size * 4 == memory.f8.size * 8 == memory.c16.size * 16 == 8192


def test_the_last_granule_stays_free() -> None:
    memory = Memory(4 * GRANULE)
    memory.allocate(GRANULE)
    assert len(memory.u1) == 4 * GRANULE
    memory.allocate(1)
    assert len(memory.u1) == 8 * GRANULE


def test_freed_room_is_used_again_and_cleared() -> None:
    memory = Memory()
    first = memory.allocate(300, "first")
    memory.bytes(first)[:] = 1
    memory.free(first)
    other = memory.allocate(600)
    assert other.start != first.start
    again = memory.allocate(257)
    assert again.start == first.start and not memory.u1[again.start : again.start + 768].any()
    with pytest.raises(EmulatorError, match=r"^first was freed already$"):
        memory.free(first)
    nameless = memory.allocate(1)
    memory.free(nameless)
    with pytest.raises(EmulatorError, match=r"^this memory was freed already$"):
        memory.free(nameless)
    with pytest.raises(EmulatorError, match=r"^cannot allocate -1 bytes$"):
        memory.allocate(-1)


def test_what_holds_an_address() -> None:
    memory = Memory()
    made = memory.allocate(300)
    assert memory.find(made.start) is memory.find(made.start + 299) is made
    assert memory.find(made.start - 1) is None and memory.find(made.start + 512) is None
    assert memory.find(-5) is None and memory.find(1 << 40) is None


def test_what_has_been_written_is_known_byte_by_byte() -> None:
    memory = Memory()
    one, two = memory.allocate(8), memory.allocate(8)
    for each in (one, two):
        memory.watch(each)
    memory.wrote(one.start - 4, 6)
    memory.wrote(one.start + 6, 1000)
    assert memory.unwritten[one.start].tolist() == [1, 1, 0, 0, 0, 0, 1, 1]
    assert two.start not in memory.unwritten  # all of it: nothing is left to know
    memory.settle(one.start, np.array([0, 0, 1, 1], bool))
    assert memory.unwritten[one.start].tolist() == [1, 1, 1, 1, 0, 0, 1, 1]
    memory.settle(one.start, np.array([0, 0, 0, 0, 1, 1], bool))
    assert not memory.unwritten
    memory.settle(one.start, np.array([1], bool))


def test_only_what_is_not_too_large_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_memory, "WATCHED", 64)
    memory = Memory()
    for size, watched in ((0, False), (1, True), (64, True), (65, False)):
        made = memory.allocate(size)
        memory.watch(made)
        assert (made.start in memory.unwritten) == watched
    memory.free(memory.find(GRANULE * 3))
    assert GRANULE * 3 not in memory.unwritten


def test_memory_from_malloc_is_counted_in_units_of_sixteen() -> None:
    memory = Memory()
    memory.heap_size = 48
    one, two = memory.malloc(1), memory.malloc(17)
    assert one and two and memory.heap_used == 48 and memory.malloc(0) == 0
    assert memory.heap[one].name == "memory from malloc"
    assert memory.release(two, say("by thread 3"))
    assert memory.heap_used == 16 and not memory.release(two, say("again"))
    third = memory.malloc(32)
    assert third not in (0, two) and memory.heap_used == 48
    assert memory.was_freed(two - GLOBAL_BASE) and not memory.was_freed(third - GLOBAL_BASE)
    assert str(memory.near(two - GLOBAL_BASE + 16)) == (
        "16 bytes into memory from malloc (17 bytes), which was freed by thread 3"
    )
    assert device_memory.USUAL_HEAP == 8 << 20


def test_an_address_in_words() -> None:
    memory = Memory()
    a, b = memory.allocate(100, "a"), memory.allocate(8)
    memory.allocate(4, "s", "shared")
    assert str(memory.near(a.start - 3)) == "3 bytes before a (100 bytes)"
    assert str(memory.near(a.start + 100)) == "0 bytes after the end of a (100 bytes)"
    assert str(memory.near(a.start + 111)) == "11 bytes after the end of a (100 bytes)"
    assert str(memory.near(b.start - 4)) == "4 bytes before an array (8 bytes)"
    end = b.start + b.size
    assert str(memory.near(end + (1 << 20))) == "1048576 bytes after the end of an array (8 bytes)"
    assert memory.near(end + (1 << 20) + 1) == "near no array"
    assert Memory().near(1000) == "near no array"
    memory.free(b)
    assert (
        str(memory.near(b.start)) == "0 bytes into an array (8 bytes), which was freed by the host"
    )
    assert str(memory.near(b.start + 7)).startswith("7 bytes into")
    assert "which was freed" not in str(memory.near(b.start + 8))
    assert memory.was_freed(b.start + 7) and not memory.was_freed(b.start + 8)


def test_so_many_freed_allocations_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_memory, "REMEMBERED", 2)
    memory = Memory()
    made = [memory.allocate(8, f"a{i}") for i in range(3)]
    for each in made:
        memory.free(each)
    assert [gone.name for gone in memory.freed.values()] == ["a1", "a2"]


def test_parameters_are_seen_as_every_type() -> None:
    given = Parameters(bytes(range(1, 10)))
    assert given.u1.tolist() == [*range(1, 10), *[0] * 7]
    assert given.u4[1] == 0x08070605 and given.i8.size == 2 and given.f2.size == 8
    assert Parameters(b"").u8.tolist() == [0]
    with pytest.raises(AttributeError, match="u3"):
        getattr(given, "u3")  # noqa: B009
