"""How a function is cut into basic blocks, where each goes on, and which registers live there.

A block ends where a thread may have to wait and begins where threads come together; a guarded
instruction that touches memory is a block that the one before it may skip.
"""

from __future__ import annotations

import pytest

import phasebit.emulator.ops  # noqa: F401  what instructions there are
from phasebit.emulator.errors import PtxError
from phasebit.emulator.ptx.control_flow import (
    Block,
    Graph,
    block_registers,
    build,
    loops,
    reads_and_writes,
    registers_in,
)
from phasebit.emulator.ptx.noticed_steps import is_own_step, is_step, is_wait, stands_alone
from phasebit.emulator.ptx.reader import read
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.table import PLAIN, select

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k()
{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;
"""
FIRST = 7
"""The line on which a body begins."""


def graph(body: str, stepwise: frozenset[int] | None = None) -> Graph:
    return build(read(f"{HEAD}{body}\n}}\n").functions["k"], stepwise)


def one(text: str) -> Instruction:
    found = read(f"{HEAD}{text}\n}}\n").functions["k"].body[-1]
    assert isinstance(found, Instruction)
    return found


def shown(block: Block) -> str:
    """``label: body | collective or end (what may be skipped) > successors``."""
    body = " ".join(each.mnemonic for each in block.body)
    closing = block.collective or block.end
    last = ("*" * (closing is block.collective) + closing.mnemonic) if closing else ""
    skips = f" ({block.skip.mnemonic})" if block.skip else ""
    return f"{block.label or ''}:{body}|{last}{skips}>{','.join(map(str, block.successors))}"


WAIT = "mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;"
SHUFFLE = "shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;"
CUTS = [
    ("mov.u32 %r1, 1; ret;", [":mov|ret>"]),
    ("mov.u32 %r1, 1;", [":mov|>"]),
    ("@%p1 add.u32 %r1, %r1, 2; ret;", [":add|ret>"]),
    ("mov.u32 %r1, 1; @%p1 ld.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, 1; ret;",
     [":mov| (ld)>1,2", ":ld|>2", ":add|ret>"]),
    ("ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd1], %r1; ret;", [":ld st|ret>"]),
    (f"mov.u32 %r1, 1; {WAIT} mov.u32 %r2, 1; ret;", [":mov|mbarrier>1", ":mov|ret>"]),
    (f"@%p2 {WAIT} ret;", [":| (mbarrier)>1,2", ":|mbarrier>2", ":|ret>"]),
    (f"mov.u32 %r1, 1; {SHUFFLE} mov.u32 %r2, 1; ret;", [":mov|>1", ":|*shfl>2", ":mov|ret>"]),
    (f"{SHUFFLE} {SHUFFLE} ret;", [":|*shfl>1", ":|*shfl>2", ":|ret>"]),
    (f"@%p1 {SHUFFLE} ret;", [":| (shfl)>1,2", ":|*shfl>2", ":|ret>"]),
    ("mov.u32 %r1, 1; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32; ret;",
     [":mov|>1", ":|tcgen05>2", ":|ret>"]),
    ("mov.u32 %r1, 1; alloca.u64 %rd1, 16; mov.u32 %r1, 2; ret;",
     [":mov|>1", ":alloca|>2", ":mov|ret>"]),
    ("L: mov.u32 %r1, 1; @%p1 bra L; bra.uni M; M: N: ret;",
     ["L:mov|bra>0,1", ":|bra>2", "M:|ret>"]),
    ("mov.u32 %r1, 1; L: ret;", [":mov|>1", "L:|ret>"]),
    (f"{SHUFFLE} L: ret;", [":|*shfl>1", "L:|ret>"]),
    ("@%p1 exit; trap; ret;", [":| (exit)>1,2", ":|exit>", ":|trap>", ":|ret>"]),
    ("@%p1 call nobody, (); ret;", [":| (call)>1,2", ":|call>2", ":|ret>"]),
    ("call nobody, (); call nobody, ();", [":|call>1", ":|call>"]),
    ("T: .branchtargets A, B; brx.idx %r1, T; A: mov.u32 %r1, 1; B: ret;",
     [":|brx>1,2", "A:mov|>2", "B:|ret>"]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "blocks"), CUTS, ids=[body for body, _ in CUTS])
def test_the_blocks_of_a_function(body: str, blocks: list[str]) -> None:
    made = graph(body)
    assert [shown(each) for each in made.blocks] == blocks
    assert [each.index for each in made.blocks] == [*range(len(blocks))]


STEPS = [
    ("st.global.u32 [%rd1], %r1; st.release.gpu.global.u32 [%rd1], %r1; mov.u32 %r2, %r1;",
     [":st|>1", ":st|>2", ":mov|>"]),
    (f"mov.u32 %r1, 1; {WAIT} mov.u32 %r1, 2;", [":mov|>1", ":|mbarrier>2", ":mov|>"]),
    ("mov.u32 %r1, 1; @%p1 st.release.gpu.global.u32 [%rd1], %r1; ret;",
     [":mov| (st)>1,2", ":st|>2", ":|ret>"]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "blocks"), STEPS)
def test_a_step_begins_a_block_and_ends_it(body: str, blocks: list[str]) -> None:
    assert [shown(each) for each in graph(body, frozenset()).blocks] == blocks


def test_what_stands_in_a_named_line_is_a_step() -> None:
    body = "mov.u32 %r1, 1;\nst.global.u32 [%rd1], %r1;\nst.global.u32 [%rd2], %r1;"
    assert [shown(each) for each in graph(body, frozenset({FIRST + 1})).blocks] == [
        ":mov|>1", ":st|>2", ":st|>",
    ]  # fmt: skip
    assert [shown(each) for each in graph(body).blocks] == [":mov st st|>"]


def test_blocks_know_their_instructions_and_labels() -> None:
    made = graph(f"mov.u32 %r1, 1; {SHUFFLE} @%p1 st.global.u32 [%rd1], %r1; L: M: ret;")
    assert [[i.mnemonic for i in each.instructions] for each in made.blocks] == [
        ["mov"], ["shfl"], [], ["st"], ["ret"],
    ]  # fmt: skip
    assert made.labels == {"L": 4, "M": 4} and made.multiplied == {}


def test_a_block_leaves_where_the_function_ends_or_nothing_does() -> None:
    made = graph(f"mov.u32 %r1, 1; {SHUFFLE} L: {WAIT} @%p1 bra L; @%p1 exit; trap; ret;")
    ends = {each.end.mnemonic if each.end else "": each.leaves for each in made.blocks}
    assert ends == {
        "": True, "mbarrier": False, "bra": False, "exit": True, "trap": False, "ret": True,
    }  # fmt: skip


def test_blocks_and_graphs_are_themselves() -> None:
    for kind in (Block, Graph):
        assert kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__


def test_only_jumps_say_where_in_the_function_to_go_on() -> None:
    texts = ["L: bra L;", "T: .branchtargets L; L: brx.idx %r1, T;", "ret;", "call f, ();"]
    assert [loops(one(text)) for text in texts] == [True, True, False, False]


def test_traits_are_the_table_s_and_control_instructions_have_none() -> None:
    made = graph(f"{SHUFFLE} ret;")
    assert made.traits(made.blocks[1].end) is PLAIN  # type: ignore[arg-type]
    shuffle = made.blocks[0].collective
    assert shuffle is not None
    assert made.traits(shuffle) is made.selected[shuffle].entry.traits is not PLAIN


REGISTERS = [
    ("add.u32 %r1, %r2, %r3;", "%r2 %r3", "%r1"),
    ("mov.u32 %r1, 5;", "", "%r1"),
    ("st.global.u32 [%rd1+4], %r1;", "%rd1 %r1", ""),
    ("ld.global.v2.u32 {%r1, %r2}, [%rd1];", "%rd1", "%r1 %r2"),
    ("setp.lt.and.u32 %p1|%p2, %r1, %r2, !%p3;", "%r1 %r2 %p3", "%p1 %p2"),
    ("@%p1 add.u32 %r1, %r2, 1;", "%p1 %r1 %r2", "%r1"),
    ("@!%p1 st.global.u32 [%rd1], %r1;", "%p1 %rd1 %r1", ""),
    ("mbarrier.arrive.shared.b64 _, [%r1];", "%r1", ""),
    ("mbarrier.arrive.shared.b64 %rd2, [%r1];", "%r1", "%rd2"),
    ("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];", "%r1", ""),
    ("atom.global.add.u32 %r1, [%rd1], %r2;", "%rd1 %r2", "%r1"),
    ("red.global.add.u32 [%rd1], %r2;", "%rd1 %r2", ""),
    ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
     "[%r1], [%rd1, {%r2, %r3}], [%r4];", "%r1 %rd1 %r2 %r3 %r4", ""),
    ("bar.sync 0;", "", ""),
    ("call (%r1), f, (%r2, %r3);", "%r1 %r2 %r3", ""),
    ("L: @%p1 bra L;", "%p1", ""),
    ("@%p1 ret;", "%p1", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reads", "writes"), REGISTERS)
def test_the_registers_that_an_instruction_reads_and_writes(
    text: str, reads: str, writes: str
) -> None:
    """A result whose guard is false keeps its old value: that is read, too."""
    instruction = one(text)
    control = instruction.mnemonic in ("bra", "call", "ret")
    found = reads_and_writes(instruction, None if control else select(instruction))
    assert [{register.name for register in each} for each in found] == [
        set(reads.split()), set(writes.split()),
    ]  # fmt: skip


def test_registers_of_operands_in_order() -> None:
    instruction = one("op {%r1, _, %r2}, %r3|%p1, !%p2, [%rd1, {%r4}, %r5], (%r6), 7, %tid.x, x;")
    found = [[r.name for r in registers_in(each)] for each in instruction.operands]
    assert found == [
        ["%r1", "%r2"], ["%r3", "%p1"], ["%p2"], ["%rd1", "%r4", "%r5"], ["%r6"], [], [], [],
    ]  # fmt: skip


def live(made: Graph) -> list[str]:
    names = {each.index: each.name for each in made.function.registers}
    return [" ".join(sorted(names[i] for i in each.live_in)) for each in made.blocks]


LIVE = [
    ("mov.u32 %r1, 1; L: add.u32 %r2, %r1, %r3; @%p1 bra L; ret;", ["%p1 %r3", "%p1 %r1 %r3", ""]),
    ("@%p1 bra L; mov.u32 %r1, 1; L: st.global.u32 [%rd1], %r1; ret;",
     ["%p1 %r1 %rd1", "%rd1", "%r1 %rd1"]),
    ("@%p1 ld.global.u32 %r1, [%rd1]; ret;", ["%p1 %r1 %rd1", "%p1 %r1 %rd1", ""]),
    ("setp.eq.u32 %p1, %r1, 0; @%p1 st.global.u32 [%rd1], %r2; ret;",
     ["%r1 %r2 %rd1", "%p1 %r2 %rd1", ""]),
    (f"mov.u32 %r1, 1; {SHUFFLE} st.global.u32 [%rd1], %r2; ret;", ["%rd1", "%r1 %rd1",
     "%r2 %rd1"]),
    ("add.u32 %r1, %r1, 1; mov.u32 %r1, %r2; ret;", ["%r1 %r2"]),
    # round a loop, what its first block reads is live in its last
    ("L: add.u32 %r2, %r1, 1; bra M; M: mov.u32 %r3, 1; @%p1 bra L; ret;",
     ["%p1 %r1", "%p1 %r1", ""]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "names"), LIVE)
def test_registers_live_that_are_read_before_they_are_written(body: str, names: list[str]) -> None:
    assert live(graph(body)) == names


def test_a_block_reads_only_what_it_has_not_written() -> None:
    made = graph("mov.u32 %r1, 1; add.u32 %r2, %r1, %r3; @%p1 bra L; L: ret;")
    names = {each.index: each.name for each in made.function.registers}
    uses, defines = block_registers(made, made.blocks[0])
    assert {names[i] for i in uses} == {"%r3", "%p1"}
    assert {names[i] for i in defines} == {"%r1", "%r2"}


@pytest.mark.parametrize(("body", "why"), [
    ("ret;\nbra L, M; L: M: ret;", "bra needs one label of its function: bra L, M$"),
    ("ret;\ncall (%r1), (%r2); ret;", r"call needs the name of a function: call \(%r1\)"),
    ("ret;\nld.global.u32 %r1, [%p1]; ret;", "has 32 or 64 bits, and %p1 has not"),
    ("ret;\n.reg .b16 %h; ld.global.u32 %r1, [%h]; ret;", "has 32 or 64 bits, and %h has not"),
    ("ret;\nld.global.u32 %r1, [1.5]; ret;", "an address is an integer"),
    ("ret;\nld.global.u32 %r1, [%tid.x]; ret;", "begins with a register, a variable or a number"),
    (f"ret;\nld.global.u32 %r1, [%rd1+{1 << 63}]; ret;", "an offset has at most 64 bits"),
    (f"ret;\nld.global.u32 %r1, [%rd1-{(1 << 63) + 1}]; ret;", "an offset has at most 64 bits"),
    ("ret;\nadd.u32 %r1, %r2, 1e999; ret;", "an integer instruction cannot take infinity"),
    ("ret;\nst.global.v2.u32 [%rd1], {%r1, -1e999}; ret;", "cannot take infinity"),
])  # fmt: skip
def test_operands_that_no_instruction_takes(body: str, why: str) -> None:
    with pytest.raises(PtxError, match=why) as refused:
        graph(body)
    assert refused.value.line == FIRST + 1


@pytest.mark.parametrize("text", [
    f"ld.global.u32 %r1, [%rd1+{(1 << 63) - 1}];", f"ld.global.u32 %r1, [%rd1-{1 << 63}];",
    "ld.shared.u32 %r1, [%r1];", "ld.global.u32 %r1, [64];",
    ".reg .f32 %f<3>; add.f32 %f1, %f1, 1e999;", ".reg .f32 %f<3>; add.f32 %f1, %f1, 0f7F800000;",
    "mov.b32 %r1, 0f7F800000;",
])  # fmt: skip
def test_operands_at_the_edge_of_what_is_taken(text: str) -> None:
    assert len(graph(f"{text} ret;").blocks) == 1


NOTICED = {
    "bar.sync 0;": True, "bar.arrive 0, 64;": True, "bar.warp.sync -1;": False,
    "barrier.sync 0;": True, "barrier.cluster.wait;": False, "barrier.cluster.arrive;": True,
    "mbarrier.init.shared.b64 [%r1], 1;": True, "mbarrier.arrive.shared.b64 _, [%r1];": True,
    "mbarrier.pending_count.b64 %r1, %rd1;": False, WAIT: False,
    "mbarrier.test_wait.shared.b64 %p1, [%r1], %rd1;": False,
    "cp.async.mbarrier.arrive.shared.b64 [%r1];": True,
    "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];": False,
    "cp.async.commit_group;": False, "cp.async.wait_group 0;": False,
    "atom.global.add.u32 %r1, [%rd1], %r2;": True, "red.global.add.u32 [%rd1], %r2;": True,
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1], %r2, "
    "[%r3];": False,
    "ld.global.u32 %r1, [%rd1];": False, "st.weak.global.u32 [%rd1], %r1;": False,
    "ld.acquire.gpu.global.u32 %r1, [%rd1];": True, "st.volatile.shared.u32 [%r1], %r2;": True,
    "ld.relaxed.sys.u32 %r1, [%rd1];": True, "st.volatile.local.u32 [%rd1], %r1;": False,
    "ld.volatile.const.u32 %r1, [%rd1];": False,
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;": True,
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;": True,
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;": False,
    "mov.u32 %r1, %r2;": False, "fence.acq_rel.gpu;": False,
}  # fmt: skip


@pytest.mark.parametrize("text", NOTICED)
def test_what_others_can_notice(text: str) -> None:
    instruction = one(text)
    chosen = select(instruction)
    waits = "_wait" in instruction.text and instruction.mnemonic == "mbarrier"
    assert is_step(instruction, chosen) is NOTICED[text]
    assert is_wait(instruction) is waits
    here, nowhere = frozenset({FIRST}), frozenset[int]()
    assert is_own_step(instruction, chosen, nowhere) is NOTICED[text]
    assert is_own_step(instruction, chosen, here) is not waits
    assert not is_own_step(instruction, chosen, None)
    assert stands_alone(instruction, chosen, nowhere) is (NOTICED[text] or waits)
    assert stands_alone(instruction, chosen, here)
    assert not stands_alone(instruction, chosen, None)
