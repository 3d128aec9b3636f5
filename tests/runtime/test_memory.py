"""Device memory: addresses, holes, limits."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys

import pytest

from phasebit.emulator.findings import say
from phasebit.runtime import mapped_memory
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


def test_the_first_page_is_nobodys_and_a_page_lies_between(memory):
    first, second, third = (memory.allocate(size) for size in (1, PAGE + 1, 0))
    assert (first - BASE, second - first, third - second) == (PAGE, 2 * PAGE, 3 * PAGE)
    assert [item.address for item in memory.allocations] == [first, second, third]
    assert memory.used == 3 * PAGE


def test_what_an_allocation_is_called_and_whose_it_is(memory):
    at = memory.allocate(5, Space.MANAGED, "name", 3)
    usual = memory.find(memory.allocate(5))
    item = memory.find(at)
    assert (item.address, item.size, item.space, item.name, item.device, item.end) == (
        at, 5, Space.MANAGED, "name", 3, at + 5
    )  # fmt: skip
    assert (usual.space, usual.name, usual.device) == (Space.DEVICE, "", 0)
    assert mapped_memory.Allocation(BASE, 5) == mapped_memory.Allocation(BASE, 5, 0, "", 0)


def test_an_empty_allocation_is_found_at_its_address_and_may_be_freed(memory):
    at = memory.allocate(0)
    assert memory.find(at).size == memory.find(at, 0).size == 0
    assert memory.find(at, 2) is None and memory.find(at + 1) is None
    assert memory.free(at).address == at and memory.used == 0


def test_all_of_memory_may_be_allocated_and_no_page_more(memory):
    memory.allocate(memory.total - PAGE)
    with pytest.raises(OutOfMemory, match=rf"^{PAGE + 1} bytes asked, {PAGE} left$"):
        memory.allocate(PAGE + 1)
    memory.allocate(PAGE)
    assert memory.used == memory.total == 1 << 20


def test_no_more_than_half_of_the_addresses_is_memory():
    made = DeviceMemory(total=1 << 22, span=1 << 22)
    assert made.total == 1 << 21 and len(made.bytes) == 1 << 22
    made.close()


def test_addresses_come_to_an_end(memory):
    with pytest.raises(
        OutOfMemory, match=rf"^no hole of {memory.span} bytes in the address space$"
    ):
        memory.reserve(memory.span)
    memory.reserve(memory.span - 2 * PAGE)
    with pytest.raises(OutOfMemory, match="no hole of 4096 bytes"):
        memory.reserve(1)


def test_a_hole_is_used_again_if_a_page_is_left_behind_it(memory, monkeypatch):
    monkeypatch.setattr("phasebit.runtime.mapped_memory.FRESH", 0)
    items = [memory.allocate(2 * PAGE) for _ in range(4)]
    memory.free(items[1])
    larger = memory.allocate(2 * PAGE + 1)
    assert larger == items[3] + 3 * PAGE
    assert memory.allocate(2 * PAGE) == items[1]
    memory.free(items[0])
    assert memory.allocate(1) == items[0]


def test_freed_addresses_wait_until_the_fresh_ones_are_handed_out(memory, monkeypatch):
    monkeypatch.setattr("phasebit.runtime.mapped_memory.FRESH", 5 * PAGE)
    first = memory.allocate(1)
    memory.free(first)
    second = memory.allocate(1)  # with the page behind it, the last of those
    memory.free(second)
    assert (first, second) == (BASE + PAGE, BASE + 3 * PAGE)
    assert memory.allocate(1) == first


def test_the_sizes_of_a_usual_memory():
    made = DeviceMemory()
    assert (made.base, made.span, made.total) == (0x7000_0000_0000, 1 << 36, 1 << 32)
    assert (mapped_memory.FRESH, PAGE) == (1 << 30, 4096)
    made.close()


@pytest.mark.parametrize("pages", [2, 3, 5])
def test_any_number_of_pages_has_the_count_of_launches_behind_it(pages):
    made = DeviceMemory(total=PAGE, span=pages * PAGE)
    made.finished = 7
    assert os.pread(made.fd, 8, pages * PAGE) == struct.pack("<Q", 7)
    assert os.fstat(made.fd).st_size == (pages + 1) * PAGE and not made.bytes.any()
    made.close()
    with pytest.raises(OSError):
        os.fstat(made.fd)


def test_only_what_begins_there_is_freed(memory):
    at = memory.allocate(64)
    for wrong in (at + 1, at - 1, at + 64, 0):
        with pytest.raises(KeyError):
            memory.free(wrong)
    assert memory.free(at).size == 64


def test_what_an_address_belonged_to(memory):
    one, two = memory.allocate(64, name="one"), memory.allocate(8, name="two")
    memory.free(one)
    memory.free(two, lambda: say("by a kernel"))
    assert str(memory.freed_at(one).by()) == "by the host"
    assert str(memory.freed_at(two + 7).by()) == "by a kernel"
    assert memory.freed_at(one + 63).item.name == "one"
    assert memory.freed_at(one + 64) is memory.freed_at(one - 1) is memory.freed_at(two + 8) is None


def test_freed_bytes_are_zero_and_those_beside_them_are_not(memory):
    at, other = memory.allocate(PAGE + 1), memory.allocate(8)
    memory.view(at, 2 * PAGE)[:] = 1
    memory.view(other, 8)[:] = 2
    memory.free(at)
    assert not memory.view(at, 2 * PAGE).any() and memory.view(other, 8).tolist() == [2] * 8


class Listener:
    def __init__(self) -> None:
        self.heard = []

    def added(self, item):
        self.heard.append(("added", item.address, item.size))

    def removed(self, item, by):
        self.heard.append(("removed", item.address, str(by())))

    def written(self, address, size):
        self.heard.append(("written", address, size))


def test_a_listener_hears_of_every_change_and_what_came_before_is_kept(memory):
    at = memory.allocate(8)
    memory.written(at, 3)
    assert memory.early == [(at, 3)]
    memory.listener = listener = Listener()
    more = memory.allocate(4)
    memory.written(more, 2)
    memory.free(at)
    assert listener.heard == [
        ("added", more, 4), ("written", more, 2), ("removed", at, "by the host"),
    ]  # fmt: skip
    assert memory.early == [(at, 3)]
    memory.reset()
    assert memory.listener is None and memory.early == [] and not memory.freed


def test_finished_launches_are_counted_behind_the_last_byte(memory):
    memory.finished += 2**40 + 1
    assert memory.finished == 2**40 + 1
    assert os.pread(memory.fd, 8, memory.span) == struct.pack("<Q", 2**40 + 1)
    assert os.fstat(memory.fd).st_size == memory.span + 4096
