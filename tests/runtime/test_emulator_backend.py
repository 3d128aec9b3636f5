"""The emulator on the runtime's memory: PTX by hand, no program and no nvcc."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from phasebit.emulator import (
    Deadlock,
    EmulatorError,
    Fault,
    Kernel,
    Livelock,
    Module,
    StepLimit,
    Together,
    findings,
)
from phasebit.runtime import emulated
from phasebit.runtime.backend import Launch, ModuleError, Outcome, Stop
from phasebit.runtime.emulated import ArenaMemory, EmulatorBackend, error_of
from phasebit.runtime.mapped_memory import BASE, DeviceMemory
from phasebit.runtime.protocol import Space, Status

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
PTX = HEAD + """
.global .align 4 .u32 counter = 5;
.const .align 8 .b8 table[24];
.global .attribute(.managed) .align 4 .u32 both;
.visible .entry copy(.param .u64 to, .param .align 4 .b8 two[8], .param .u8 last)
    .maxntid 8, 4, 1
{
    .shared .align 4 .b8 tile[48];
    .local .align 4 .b8 mine[20];
    .reg .b64 %d<2>; .reg .b32 %r<2>;
    ld.param.u64 %d1, [to]; ld.param.u32 %r1, [two+4];
    st.global.u32 [%d1], %r1;
    ret;
}
.visible .entry bare() { ret; }
.visible .entry fixed() .reqnctapercluster 2 .reqntid 64 { ret; }
.visible .entry load(.param .u64 from, .param .u64 to)
{
    .reg .b64 %d<3>; .reg .b32 %r<2>;
    ld.param.u64 %d1, [from]; ld.param.u64 %d2, [to];
    ld.global.u32 %r1, [%d1]; st.global.u32 [%d2], %r1;
    ret;
}
.visible .entry spin(.param .u64 p)
{
    .reg .b64 %d<2>; .reg .b32 %r<2>; .reg .pred %p;
    ld.param.u64 %d1, [p];
again:
    ld.volatile.global.u32 %r1, [%d1];
    setp.eq.u32 %p, %r1, 0;
    @%p bra again;
    ret;
}
.visible .entry stops() { trap; }
"""  # fmt: skip


@pytest.fixture
def memory() -> Iterator[DeviceMemory]:
    made = DeviceMemory(1 << 24)
    yield made
    made.close()


def launch(kernel: str, *parameters: int, **more: Any) -> Launch:
    data = b"".join(struct.pack("<Q", each) for each in parameters)
    return Launch(kernel, (1, 1, 1), (1, 1, 1), data, **more)


def loaded(memory: DeviceMemory, ptx: str = PTX, **options: Any) -> Any:
    return EmulatorBackend(keep=False, **options).load(ptx, memory)


def test_what_is_known_of_a_kernel(memory: DeviceMemory) -> None:
    kernels = loaded(memory).kernels
    assert [*kernels] == ["copy", "bare", "fixed", "load", "spin", "stops"] and len(kernels) == 6
    copy, bare, fixed = (kernels[name] for name in ("copy", "bare", "fixed"))
    assert [(each.offset, each.size) for each in copy.parameters] == [(0, 8), (8, 8), (16, 1)]
    assert (copy.name, copy.parameter_bytes, copy.shared, copy.local) == ("copy", 17, 48, 32)
    assert (copy.max_threads, copy.cluster) == (32, None)
    assert (bare.parameters, bare.shared, bare.local, bare.max_threads) == ((), 0, 0, 1024)
    assert (fixed.max_threads, fixed.cluster) == (64, (2, 1, 1))
    with pytest.raises(KeyError, match="none"):
        kernels["none"]
    assert "none" not in kernels


def test_a_module_s_variables_are_in_the_program_s_memory(memory: DeviceMemory) -> None:
    symbols = loaded(memory).symbols
    spaces = {name: memory.find(each.address).space for name, each in symbols.items()}
    assert spaces == {
        "counter": Space.SYMBOL, "table": Space.SYMBOL, "both": Space.MANAGED,
    }  # fmt: skip
    assert [each.size for each in symbols.values()] == [4, 24, 4]
    assert memory.view(symbols["counter"].address, 4).view("<u4")[0] == 5


def test_text_that_is_no_ptx_and_a_kernel_that_cannot_be_executed(memory: DeviceMemory) -> None:
    with pytest.raises(ModuleError, match="line 4"):
        loaded(memory, HEAD + "nonsense")
    kernels = loaded(memory, HEAD + ".visible .entry k() { frobnicate.b32 1; }").kernels
    with pytest.raises(ModuleError, match="frobnicate"):
        kernels["k"]


@pytest.mark.parametrize("keep", [False, True])
def test_what_is_translated_is_kept_where_that_is_asked_for(
    keep: bool, memory: DeviceMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Kept(Module):
        """As `KeptModule`, but nothing is written."""

    monkeypatch.setattr(emulated, "KeptModule", Kept)
    module: Any = EmulatorBackend(keep=keep).load(PTX, memory)
    assert type(module.module) is (Kept if keep else Module)


def test_other_text_may_be_executed_in_a_program_s_place(memory: DeviceMemory) -> None:
    module = EmulatorBackend(keep=False, ptx=PTX).load("nonsense", memory)
    assert len(module.kernels) == 6


def test_a_launch_does_what_it_says(memory: DeviceMemory) -> None:
    at = memory.allocate(4)
    module = loaded(memory)
    given = struct.pack("<QIIB", at, 1, 77, 0)
    outcome = module.launch(Launch("copy", (1, 1, 1), (1, 1, 1), given))
    assert memory.view(at, 4).view("<u4")[0] == 77
    assert (outcome.error, outcome.findings, outcome.printed, outcome.counters) == (0, [], b"", {})
    assert outcome.clocks > 0
    counted = loaded(memory, counters=True).launch(Launch("copy", (1, 1, 1), (1, 1, 1), given))
    assert counted.counters["bytes.global.store"] == 4


@pytest.mark.parametrize(("where", "rule", "error"), [
    (0, None, 0), (8, "out-of-bounds", 700), (2, "misaligned-access", 716),
    (-4096, "out-of-bounds", 700),
])  # fmt: skip
def test_a_launch_that_goes_wrong_has_a_gpu_s_error(
    where: int, rule: str | None, error: int, memory: DeviceMemory
) -> None:
    at, to = memory.allocate(8), memory.allocate(4)
    module = loaded(memory)
    memory.written(at, 8)
    outcome = module.launch(launch("load", at + where, to))
    assert outcome.error == error
    assert [(each.rule, each.kernel) for each in outcome.findings] == [(rule, "load")] * bool(rule)


def test_what_nobody_wrote_is_found_and_what_the_host_wrote_is_not(memory: DeviceMemory) -> None:
    early, at, to = (memory.allocate(8) for _ in range(3))
    memory.written(early, 4)
    module = loaded(memory)

    def rules(address: int) -> list[str]:
        return [each.kind for each in module.launch(launch("load", address, to)).findings]

    assert rules(early) == [] and rules(early + 4) == ["uninitialised"]
    assert rules(at) == ["uninitialised"]
    memory.written(at, 4)
    assert rules(at) == [] and rules(at + 4) == ["uninitialised"]


def test_memory_that_the_host_shares_is_taken_to_be_written(memory: DeviceMemory) -> None:
    to = memory.allocate(4)
    module = loaded(memory)
    for space in (Space.HOST, Space.MANAGED):
        assert module.launch(launch("load", memory.allocate(4, space), to)).findings == []


def test_freed_memory_is_told_of_as_such(memory: DeviceMemory) -> None:
    before, to = memory.allocate(4, name="cudaMalloc #1"), memory.allocate(4)
    memory.free(before)
    module = loaded(memory)
    after = memory.allocate(4, name="cudaMalloc #2")
    memory.free(after)
    for address, name in ((before, "#1"), (after, "#2")):
        (finding,) = module.launch(launch("load", address, to)).findings
        assert f"cudaMalloc {name}" in finding.message and "freed by the host" in finding.message


def test_a_kernel_that_waits_for_nobody_is_a_livelock_and_says_in_which_order(
    memory: DeviceMemory,
) -> None:
    at = memory.allocate(4)
    memory.written(at, 4)
    outcome = loaded(memory).launch(launch("spin", at))
    assert outcome.error == Status.LAUNCH_TIMEOUT
    assert outcome.findings[-1].message.endswith(
        "\n  work that is issued later runs later here, in whatever stream"
    )


def test_a_kernel_that_is_stopped_says_where_it_was(
    memory: DeviceMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = loaded(memory)

    def stop(self: object) -> None:
        raise Stop

    monkeypatch.setattr(emulated.Execution, "run", stop)
    monkeypatch.setattr(emulated.Execution, "standing", lambda self: "at 3")
    with pytest.raises(Stop) as raised:
        module.launch(launch("bare"))
    standing = raised.value.standing
    assert standing is not None
    assert (standing.rule, standing.kernel, standing.message) == (
        "time-limit", "bare", "was running: at 3"
    )  # fmt: skip


def test_every_order_is_searched_and_told_of(memory: DeviceMemory) -> None:
    backend = EmulatorBackend(keep=False, schedule="every", counters=True, seconds=50.0)
    module = backend.load(PTX, memory)
    at = memory.allocate(4)
    outcome = module.launch(Launch("copy", (1, 1, 1), (1, 1, 1), struct.pack("<QIIB", at, 1, 7, 0)))
    assert memory.view(at, 4).view("<u4")[0] == 7
    ((kernel, found),) = backend.searches
    assert kernel == "copy" and str(found).startswith("complete: 1 order run")
    assert (outcome.error, outcome.findings) == (0, [])
    assert outcome.counters["bytes.global.store"] == 4 and 0 < backend.seconds < 50.0
    assert module.launch(launch("stops")).error == Status.LAUNCH_FAILURE
    assert len(backend.searches) == 2


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_one_order_is_no_search(schedule: str, memory: DeviceMemory) -> None:
    backend = EmulatorBackend(keep=False, schedule="".join([*schedule]))
    module = backend.load(PTX, memory)
    assert module.launch(launch("bare")).error == 0
    assert backend.searches == [] and backend.executions == []


def test_a_search_has_the_orders_and_the_seconds_that_are_left(
    memory: DeviceMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    search = emulated.search

    def searched(*given: Any, **named: Any) -> Any:
        asked.append(named)
        return search(*given, **named)

    monkeypatch.setattr(emulated, "search", searched)
    modes: list[dict[str, Any]] = []
    mode = emulated.Mode
    monkeypatch.setattr(emulated, "Mode", lambda **given: modes.append(given) or mode(**given))
    schedule = "".join(["ev", "ery"])
    backend = EmulatorBackend(keep=False, schedule=schedule, most_runs=3, seconds=40.0)
    module = backend.load(PTX, memory)
    module.launch(launch("bare"))
    backend.seconds = -5.0
    assert module.launch(launch("bare")).counters == {}
    assert asked == [{"most_runs": 3, "seconds": 40.0}, {"most_runs": 3, "seconds": 0.0}]
    assert modes == 2 * [{"max_steps": emulated.search_limits.TURNS, "trace": False}]


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("trace", [False, True])
def test_how_a_launch_is_executed(
    beside: bool, trace: bool, memory: DeviceMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[dict[str, Any]] = []
    shapes: list[tuple[Any, ...]] = []
    mode, extents = emulated.Mode, emulated.Extents
    monkeypatch.setattr(emulated, "Mode", lambda **given: modes.append(given) or mode(**given))
    monkeypatch.setattr(emulated, "Extents", lambda *given: shapes.append(given) or extents(*given))
    backend = EmulatorBackend(
        keep=False, check=False, schedule="random", seed=4, steps=999, trace=trace
    )
    module = backend.load(PTX, memory)
    seat = Together().seat(0, 0) if beside else None
    for cluster in ((1, 1, 1), (2, 1, 1)):
        shape = Launch("bare", (4, 2, 1), (32, 1, 1), b"", cluster=cluster, shared=16, heap=77)
        execution = module.prepare(shape, seat)
        assert module.module["bare"].memory.heap_size == 77
    assert shapes == [
        ((4, 2, 1), (32, 1, 1), (1, 1, 1), False, False, 16),
        ((4, 2, 1), (32, 1, 1), (2, 1, 1), True, False, 16),
    ]
    assert modes[0] == {
        "schedule": "random", "seed": 4, "check": False, "max_steps": 999,
        "trace": beside and trace,
    }  # fmt: skip
    module.outcome("bare", execution, None)
    assert backend.executions == ([execution] if trace else [])


@pytest.mark.parametrize("check", [False, True])
def test_what_is_translated_for_a_kernel_is_what_its_launch_will_need(
    check: bool, memory: DeviceMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []
    program = Kernel.program
    monkeypatch.setattr(
        Kernel, "program", lambda self, *how: asked.append((self.name, *how)) or program(self, *how)
    )
    one = ".visible .entry one() .reqnctapercluster 1, 1, 1 { ret; }\n"
    kernels = loaded(memory, PTX + one, check=check).kernels
    facts = [kernels[name] for name in ("bare", "one", "fixed")]
    assert asked == [
        ("bare", check, True, False), ("one", check, True, False), ("fixed", check, True, True),
    ]  # fmt: skip
    assert [each.cluster for each in facts] == [None, (1, 1, 1), (2, 1, 1)]


def named(cause: str) -> Fault:
    made = Fault("x")
    made.cause = cause
    return made


def test_the_error_of_each_end() -> None:
    sentence = findings.say("x")
    for error, status in (
        (Livelock(sentence), Status.LAUNCH_TIMEOUT), (EmulatorError("x"), Status.LAUNCH_FAILURE),
        (StepLimit.__new__(StepLimit), Status.LAUNCH_TIMEOUT),
        (Deadlock.__new__(Deadlock), Status.LAUNCH_TIMEOUT),
        (named("assertion"), Status.ASSERT), (named("misaligned"), Status.MISALIGNED_ADDRESS),
        (named("trap"), Status.LAUNCH_FAILURE), (named("anything"), Status.ILLEGAL_ADDRESS),
    ):  # fmt: skip
        assert error_of(error) == status


# -- memory --------------------------------------------------------------------------------


def test_both_sides_know_of_each_allocation(memory: DeviceMemory) -> None:
    first = memory.allocate(100, name="first", device=1)
    arena = ArenaMemory(memory)
    second = memory.allocate(4, Space.MANAGED, "second")
    found = {each.name: (each.start, each.size, each.device) for each in arena.allocations}
    assert found["first"] == (first - BASE, 100, 1)
    assert found["second"][:2] == (second - BASE, 4) and found["second"][2] != 1
    variable = arena.allocate(8, "v", "global")
    assert variable.device == 0
    assert memory.find(variable.start + BASE).space == Space.SYMBOL
    own = arena.allocate(8, "own", "shared")
    assert memory.find(own.start + BASE) is None and own in arena.allocations
    memory.free(first)
    assert "first" not in {each.name for each in arena.allocations}
    assert not arena.owners[(first - BASE) // emulated.GRANULE]
    assert arena.owners[(second - BASE) // emulated.GRANULE]


def test_the_emulator_sees_as_much_of_memory_as_is_in_use(memory: DeviceMemory) -> None:
    arena = ArenaMemory(memory)
    assert len(arena.u1) == 1 << 20
    for more in (0, 1):  # behind the first page, and with a granule behind it
        at = memory.allocate((1 << 20) - 4096 - emulated.GRANULE + more)
        assert at == BASE + 4096 and len(arena.u1) == 1 << (20 + more)
        memory.reset()
        memory.listener = arena = ArenaMemory(memory)
    memory.allocate((1 << 20) + 1)
    assert len(arena.u1) == 1 << 21
    memory.allocate(1 << 21)
    assert len(arena.u1) == 1 << 22


@pytest.mark.parametrize(("size", "granules"), [(0, 1), (1, 1), (256, 1), (257, 2), (512, 2)])
def test_what_is_allocated_owns_the_granules_that_it_touches(
    size: int, granules: int, memory: DeviceMemory
) -> None:
    arena = ArenaMemory(memory)
    at = memory.allocate(size)
    own = arena.allocate(size, "own", "shared")
    for start in (at - BASE, own.start):
        first = start // emulated.GRANULE
        assert start % emulated.GRANULE == 0
        assert arena.owners[first - 1 : first + 4].tolist() == [0, *[1] * granules, 0, 0, 0][:5]
    memory.free(at)
    arena.free(own)
    assert not arena.owners.any()


def test_the_emulator_s_own_memory_is_used_again_and_clean(
    memory: DeviceMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    arena, rooms = ArenaMemory(memory), []
    reserve = memory.reserve
    monkeypatch.setattr(memory, "reserve", lambda size: rooms.append(size) or reserve(size))
    made = [arena.allocate(size, "tile", "shared") for size in (0, 1, 256, 257)]
    assert rooms == [512, 512, 512, 768]  # a granule lies between
    assert (made[3].size, made[3].name, made[3].kind) == (257, "tile", "shared")
    arena.u1[made[3].start : made[3].start + 1024] = 7
    arena.free(made[3])
    assert arena.allocate(256, "other", "local").start not in [each.start for each in made]
    again = arena.allocate(500, "again", "shared")
    assert again.start == made[3].start and again in arena.allocations
    assert arena.u1[again.start + 767 : again.start + 769].tolist() == [0, 7]
    assert not arena.u1[again.start : again.start + 768].any()


@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.parametrize("kind", ["global", "const"])
def test_a_variable_has_a_byte_at_least(kind: str, size: int, memory: DeviceMemory) -> None:
    arena = ArenaMemory(memory)
    arena.managed = {"m"}
    for name, space in (("v", Space.SYMBOL), ("m", Space.MANAGED)):
        item = memory.find(arena.allocate(size, name, kind).start + BASE)
        assert item is not None
        assert (item.size, item.space, item.name) == (max(1, size), space, name)


@pytest.mark.parametrize(("kind", "lost"), [
    ("u2", True), ("u4", True), ("u8", True), ("c16", False),
])  # fmt: skip
def test_only_what_the_program_could_write_at_once_is_compared(
    kind: str, lost: bool, memory: DeviceMemory
) -> None:
    arena = ArenaMemory(memory)
    view = memory.view(memory.allocate(64), 64).view(kind)
    view[2] = 5
    before, after = view[:1].copy(), view[:1] + 9
    assert arena.exchange(view, np.array([2], np.int32), before, after).tolist() == [lost]
    assert view[2] == (5 if lost else 9)
    assert arena.exchange(view, np.array([3]), before, after).tolist() == [False]
    assert view[3] == 9 and not before.any()


@pytest.mark.parametrize("by", [4096, -4096])
def test_a_memory_that_begins_elsewhere_is_refused(by: int, memory: DeviceMemory) -> None:
    memory.base += by
    with pytest.raises(ValueError, match="disagree on where memory begins"):
        ArenaMemory(memory)


def test_who_else_writes_to_an_address(memory: DeviceMemory) -> None:
    arena = ArenaMemory(memory)
    own, host = memory.allocate(16), memory.allocate(16, Space.HOST)
    managed = memory.allocate(16, Space.MANAGED)

    def asked(*addresses: int, span: int = 4) -> bool:
        return arena.others_write(np.array(addresses, np.uint64), span)

    assert not asked(own) and asked(host) and asked(own, managed)
    assert not asked(host - 4) and asked(host - 3) and asked(host + 15) and not asked(host + 16)
    assert not asked(managed + 16) and not asked(managed + 100) and not asked(own - 100)


def test_memory_from_malloc_is_the_kernels_own(memory: DeviceMemory) -> None:
    arena = ArenaMemory(memory)
    made = arena._from_heap(0)
    assert made is not None and memory.find(made.address).space == Space.SYMBOL
    assert made.size == 1
    arena._to_heap(made, lambda: findings.say("by a kernel"))
    assert memory.find(made.address) is None
    assert arena._from_heap(1 << 30) is None


def test_another_memory_is_another_arena(memory: DeviceMemory) -> None:
    backend = EmulatorBackend(keep=False)
    backend.load(PTX, memory)
    first = memory.listener
    backend.load(PTX, memory, 1)
    assert memory.listener is first and first.loads_for == 1
    memory.reset()
    backend.load(PTX, memory)
    assert memory.listener is not first and memory.listener.loads_for == 0


def test_what_a_backend_is_if_nothing_is_said() -> None:
    made = vars(EmulatorBackend())
    assert (made["check"], made["schedule"], made["seed"], made["counters"]) == (
        True, "late", 0, False
    )  # fmt: skip
    assert (made["keep"], made["trace"], made["ptx"]) == (True, False, None)
    assert made["steps"] == emulated.MAX_STEPS == 200_000_000
    assert (made["most_runs"], made["seconds"]) == (
        emulated.search_limits.MOST_RUNS, emulated.search_limits.SECONDS
    )  # fmt: skip
    assert Outcome().clocks == 0
