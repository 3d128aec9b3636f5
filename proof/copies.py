"""Bulk copies, and what the blocks of a cluster do to each other's shared memory.

Every wait is bounded: a GPU that counted other bytes than the emulator would answer "not
complete", and not hang.

PTX ISA 9.7.9.25.4 (cp.async.bulk), 9.7.9.27.2 (bulk groups), 9.7.9.12 (st.async), 9.7.13.7
(red.async), 9.7.13.15 (mbarrier), 5.1.7 and 9.7.9.22 (shared::cluster, mapa).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from proof.dice import Dice, Words
from proof.program import Program, Writer, register
from proof.values import SIZE, draw

THREADS = 64
BYTES = 8 * THREADS
"""What one word of every thread makes."""
COUNTED = "mbarrier::complete_tx::bytes"


def finish(
    w: Writer, name: str, family: str, opcodes: list[str], threads: int = THREADS,
    blocks: int = 1, outside: str = "", **more: Any,
) -> Program:  # fmt: skip
    """The program that a writer holds; more than one block is a cluster."""
    if blocks > 1:
        w.directives = f".reqnctapercluster {blocks}, 1, 1"
    return Program(
        name, w.entry(name, threads * blocks, outside), tuple(w.inputs), tuple(w.outputs),
        tuple(opcodes), family, blocks, threads, maps=tuple(w.maps), **more,
    )  # fmt: skip


def begin(w: Writer, size: int, arrivals: int = 1, blocks: int = 1) -> None:
    """Shared memory of ``size`` bytes that holds 0x5a everywhere, and an mbarrier."""
    w.put(
        f".shared .align 1024 .b8 room[{size}]; .shared .align 8 .b8 full[8];",
        ".reg .b32 %room, %full, %mine, %t, %tries, %rank; .reg .pred %first, %done, %more;",
        "mov.u32 %room, room; mov.u32 %full, full; mov.u32 %t, %tid.x;",
        "mad.lo.u32 %mine, %t, 8, %room; setp.eq.u32 %first, %t, 0;",
        "mov.u32 %rank, %cluster_ctarank;",
        f"@%first mbarrier.init.shared.b64 [%full], {arrivals};",
        "@%first fence.mbarrier_init.release.cluster;",
    )


def room_of(w: Writer, words: list[str], threads: int = THREADS) -> None:
    """Store a word of each thread after the other into the room, for the copy engine to see."""
    for i, word in enumerate(words):
        w.put(f"st.shared.b64 [%mine+{8 * threads * i}], {word};")
    w.put("fence.proxy.async;")


def blank(w: Writer, size: int, threads: int = THREADS) -> None:
    """Fill the room with 0x5a."""
    word = w.reg("b64")
    w.put(f"mov.b64 {word}, 0x5a5a5a5a5a5a5a5a;")
    room_of(w, [word] * (size // (8 * threads)), threads)


def meet(w: Writer, blocks: int) -> None:
    """All threads of the cluster."""
    w.put("bar.sync 0;" if blocks == 1 else "barrier.cluster.arrive; barrier.cluster.wait;")


def wait(w: Writer, parity: int = 0, label: str = "AGAIN") -> str:
    """Wait for the mbarrier's phase, not for ever; the predicate that says whether it came."""
    scope = ".acquire.cluster"
    w.put(
        "mov.u32 %tries, 0;",
        f"{label}: mbarrier.try_wait.parity{scope}.shared::cta.b64 %done, [%full], {parity};",
        f"@%done bra {label}_DONE; add.u32 %tries, %tries, 1; setp.lt.u32 %more, %tries, 20;",
        f"@%more bra {label}; {label}_DONE:",
    )
    kept = w.reg("pred")
    w.put(f"and.pred {kept}, %done, %done;")
    return kept


def show(w: Writer, size: int, threads: int = THREADS) -> None:
    """The room as answers."""
    for i in range(size // (8 * threads)):
        got = w.reg("b64")
        w.put(f"ld.shared.b64 {got}, [%mine+{8 * threads * i}];")
        w.output("b64", got)


def base(w: Writer, of: str) -> str:
    """The beginning of the memory of inputs (``in``) or of answers (``out``)."""
    address, back = w.reg("b64"), w.reg("b64")
    w.put(f"mul.wide.u32 {back}, %i, 8; sub.s64 {address}, %{of}, {back};")
    return address


# -- one block ------------------------------------------------------------------------


def load(name: str, space: str) -> Program:
    """A few copies of random sizes into one room, counted together."""
    dice, w = Dice(name + "/text"), Writer()
    words = 4
    for _ in range(words):
        w.inputs.append("b64")
    size = words * BYTES
    begin(w, size)
    blank(w, size)
    meet(w, 1)
    start = base(w, "in")
    opcode = f"cp.async.bulk.{space}.global.{COUNTED}"
    at, lines, total = 0, [], 0
    while at < size:
        count = min(16 * dice.between(1, 40), size - at)
        origin = 16 * dice.below((size - count) // 16 + 1)
        if dice.chance(75):
            lines.append(f"@%first {opcode} [%room+{at}], [{start}+{origin}], {count}, [%full];")
            total += count
        at += count
    w.put(f"@%first mbarrier.arrive.expect_tx.shared.b64 _, [%full], {total};", *lines)
    w.output("pred", wait(w))
    show(w, size)
    return finish(w, name, "bulk", [opcode])


def store(name: str, read: bool) -> Program:
    """Copies to global memory in groups; the room is used anew after ``wait_group.read``."""
    dice, w = Dice(name + "/text"), Writer()
    words = [w.input("b64") for _ in range(4)]
    again = [w.input("b64") for _ in range(4)]
    size = 4 * BYTES
    begin(w, size)
    room_of(w, words)
    target = base(w, "out")
    opcode = "cp.async.bulk.global.shared::cta.bulk_group"
    place = 0
    for half in range(2):
        w.put("bar.sync 0;")
        while place < size * (half + 1):
            count = min(16 * dice.between(1, 48), size * (half + 1) - place)
            w.put(f"@%first {opcode} [{target}+{place}], [%room+{place % size}], {count};")
            place += count
            if dice.chance(60):
                w.put("@%first cp.async.bulk.commit_group;")
        w.put("@%first cp.async.bulk.commit_group;")
        if not half:
            how = "wait_group.read" if read else "wait_group"
            w.put(f"@%first cp.async.bulk.{how} 0;", "bar.sync 0;")
            room_of(w, again)
    w.put("@%first cp.async.bulk.wait_group 0;")
    w.outputs += ["b64"] * 8
    return finish(w, name, "bulk", [opcode, "cp.async.bulk.commit_group",
                                    "cp.async.bulk.wait_group"])  # fmt: skip


REDUCTIONS = [
    *(("add", t) for t in ("u32", "s32", "u64", "f32", "f64", "noftz.f16", "noftz.bf16")),
    *((op, t) for op in ("min", "max")
      for t in ("u32", "s32", "u64", "s64", "f16", "bf16")),
    *((op, t) for op in ("and", "or", "xor") for t in ("b32", "b64")),
    ("inc", "u32"), ("dec", "u32"),
]  # fmt: skip
"""Operations and types of ``cp.reduce.async.bulk`` in global memory."""

PEER_REDUCTIONS = [
    *(("add", t) for t in ("u32", "s32", "u64")),
    *((op, t) for op in ("min", "max") for t in ("u32", "s32")),
    *((op, "b32") for op in ("and", "or", "xor")), ("inc", "u32"), ("dec", "u32"),
]  # fmt: skip
"""The same in the shared memory of another block, and of ``red.async``."""


def elements(lanes: int, dice: Dice, kind: str, rows: int) -> list[Words]:
    """Words full of numbers of a type, its edges among them."""
    each = 8 // SIZE[kind]
    result = []
    for _ in range(rows):
        numbers = draw(kind, lanes * each, dice).astype(f"<u{SIZE[kind]}")
        result.append(numbers.view("<u8").astype(np.uint64))
    return result


def reduce(op: str, kind: str) -> Program:
    """Numbers in shared memory combined with numbers in global memory, twice."""
    name = f"bulk_reduce_{op}_{kind.replace('.', '_')}"
    w = Writer()
    before = [w.input("b64") for _ in range(4)]
    words = [w.input("b64") for _ in range(4)]
    begin(w, 4 * BYTES)
    w.put(*(f"st.global.b64 [%out+{BYTES * i}], {x};" for i, x in enumerate(before)))
    room_of(w, words)
    w.put("bar.sync 0;")
    target = base(w, "out")
    opcode = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{kind}"
    w.put(f"@%first {opcode} [{target}], [%room], {4 * BYTES};")
    w.put(f"@%first {opcode} [{target}+{BYTES}], [%room], {BYTES};" if op != "add" or kind[0] in
          "us" else "")  # fmt: skip
    w.put("@%first cp.async.bulk.commit_group;", "@%first cp.async.bulk.wait_group 0;")
    w.outputs += ["b64"] * 4
    plain = kind.removeprefix("noftz.")
    fill = functools.partial(elements, kind=plain, rows=8)
    return finish(w, name, "bulk", [opcode], fill=fill)


def prefetch(name: str) -> Program:
    """A hint that changes nothing."""
    w = Writer()
    x = w.input("b64")
    opcode = "cp.async.bulk.prefetch.L2.global"
    w.put(".reg .pred %first; setp.eq.u32 %first, %i, 0;")
    w.put(f"@%first {opcode} [%in], {BYTES};")
    w.output("b64", x)
    return finish(w, name, "bulk", [opcode])


# -- clusters -------------------------------------------------------------------------


def peer(w: Writer, source: str, rank: str) -> str:
    """``mapa``: an address of the own block, in the block of a rank."""
    target = w.reg("b32")
    w.put(f"mapa.shared::cluster.u32 {target}, {source}, {rank};")
    return target


def neighbour(w: Writer, blocks: int) -> str:
    """The rank of the next block."""
    rank = w.reg("b32")
    w.put(f"add.u32 {rank}, %rank, 1; and.b32 {rank}, {rank}, {blocks - 1};")
    return rank


def addresses(blocks: int) -> Program:
    """Which rank an address names: one's own, a peer's, in 32 and in 64 bits."""
    w = Writer()
    x = w.input("b32")
    begin(w, BYTES)
    next_rank = neighbour(w, blocks)
    found = peer(w, "%room", next_rank)
    high, rank, own = w.reg("b32"), w.reg("b32"), w.reg("b32")
    w.put(f"sub.u32 {high}, {found}, %room;")
    w.put(f"getctarank.shared::cluster.u32 {rank}, {found};")
    w.put(f"getctarank.shared::cluster.u32 {own}, %room;")
    wide, other, got = w.reg("b64"), w.reg("b64"), w.reg("b32")
    w.put(f"mov.u64 {wide}, room; cvta.shared.u64 {wide}, {wide}; cvt.u64.u32 {other}, {next_rank};"
          f" mapa.u64 {wide}, {wide}, {next_rank}; getctarank.u64 {got}, {wide};")  # fmt: skip
    flags = [w.reg("pred") for _ in range(3)]
    for flag, space in zip(flags, ("shared", "shared::cta", "shared::cluster"), strict=True):
        w.put(f"isspacep.{space} {flag}, {wide};")
    for r in (x, high, rank, own, got):
        w.output("b32", r)
    for flag in flags:
        w.output("pred", flag)
    meet(w, blocks)
    return finish(w, f"cluster_addresses_{blocks}", "cluster",
                  ["mapa.shared::cluster.u32", "getctarank.shared::cluster.u32"],
                  blocks=blocks)  # fmt: skip


def exchange(blocks: int, kind: str, generic: bool) -> Program:
    """Read the neighbour's word, write into another one's, and add to it."""
    name = f"cluster_exchange_{blocks}_{kind}{'_generic' * generic}"
    w = Writer()
    x, got = w.input(kind), w.reg(kind)
    bits = register(kind)
    begin(w, 4 * BYTES)
    w.put(f"st.shared.{bits} [%mine], {x};")
    meet(w, blocks)
    rank = neighbour(w, blocks)
    if generic:
        there = w.reg("b64")
        w.put(f"cvt.u64.u32 {there}, %mine; cvta.shared.u64 {there}, {there};",
              f"mapa.u64 {there}, {there}, {rank};")  # fmt: skip
        space = ""
    else:
        there, space = peer(w, "%mine", rank), ".shared::cluster"
    w.put(f"ld{space}.{bits} {got}, [{there}];")
    w.put(f"st{space}.{bits} [{there}+{BYTES}], {x};")
    meet(w, blocks)
    back, old = w.reg(kind), w.reg(kind)
    w.put(f"atom{space}.add.u{bits[1:]} {old}, [{there}+{BYTES}], {got};")
    meet(w, blocks)
    w.put(f"ld.shared.{bits} {back}, [%mine+{BYTES}];")
    for r in (got, old, back):
        w.output(kind, r)
    return finish(w, name, "cluster", [f"ld{space}.{bits}", f"st{space}.{bits}",
                                       f"atom{space}.add.u{bits[1:]}"], blocks=blocks)  # fmt: skip


def to_peer(blocks: int, op: str, kind: str) -> Program:
    """A copy, or a reduction, from the own room into the neighbour's."""
    name = f"cluster_copy_{blocks}_{op}_{kind}"
    w = Writer()
    here = [w.input("b64") for _ in range(2)]
    there = [w.input("b64") for _ in range(2)]
    begin(w, 4 * BYTES)
    room_of(w, here + there)
    w.put(f"@%first mbarrier.arrive.expect_tx.shared.b64 _, [%full], {2 * BYTES};")
    meet(w, blocks)
    rank = neighbour(w, blocks)
    target, bar = peer(w, "%room", rank), peer(w, "%full", rank)
    head = "cp.reduce.async.bulk" if op else "cp.async.bulk"
    opcode = f"{head}.shared::cluster.shared::cta.{COUNTED}{f'.{op}.{kind}' if op else ''}"
    w.put(f"@%first {opcode} [{target}+{2 * BYTES}], [%room], {2 * BYTES}, [{bar}];")
    w.output("pred", wait(w))
    show(w, 4 * BYTES)
    meet(w, blocks)
    fill = functools.partial(elements, kind=kind, rows=4)
    return finish(w, name, "cluster", [opcode], blocks=blocks, fill=fill)


def sent(blocks: int, head: str, kind: str, vector: int = 1) -> Program:
    """``st.async`` and ``red.async``: each thread sends to a place of its own."""
    name = f"cluster_{head}_{kind}_v{vector}".replace(".", "_")
    w = Writer()
    size = SIZE[kind]
    values = [w.input(kind) for _ in range(vector)]
    before = [w.input("b64") for _ in range(4)]
    begin(w, 4 * BYTES)
    for i, word in enumerate(before):
        w.put(f"st.shared.b64 [%mine+{BYTES * i}], {word};")
    total = THREADS * size * vector
    w.put(f"@%first mbarrier.arrive.expect_tx.shared.b64 _, [%full], {total};")
    meet(w, blocks)
    mine = w.reg("b32")
    w.put(f"mad.lo.u32 {mine}, %t, {size * vector}, %room;")
    rank = neighbour(w, blocks)
    target, bar = peer(w, mine, rank), peer(w, "%full", rank)
    if head == "st.async":
        opcode = f"st.async.weak.shared::cluster.{COUNTED}{f'.v{vector}' * (vector > 1)}.{kind}"
    else:
        op = head.rpartition(".")[2]
        opcode = f"red.async.relaxed.cluster.shared::cluster.{COUNTED}.{op}.{kind}"
    given = values[0] if vector == 1 else "{" + ", ".join(values) + "}"
    w.put(f"{opcode} [{target}], {given}, [{bar}];")
    w.output("pred", wait(w))
    show(w, 4 * BYTES)
    meet(w, blocks)
    return finish(w, name, "cluster", [opcode], blocks=blocks)


def multicast(name: str, blocks: int) -> Program:
    """Each block sends a part to the blocks of a mask; each expects what the masks give it."""
    dice, w = Dice(name + "/text"), Writer()
    for _ in range(2):
        w.inputs.append("b64")
    size = blocks * 256
    room = -(-size // BYTES) * BYTES
    begin(w, room)
    blank(w, room)
    masks = [dice.between(1, (1 << blocks) - 1) for _ in range(blocks)]
    expected = [256 * sum(m >> r & 1 for m in masks) for r in range(blocks)]
    bytes_, mask, origin, there, mine = (w.reg(k) for k in ("b32", "b16", "b64", "b32", "pred"))
    w.put(f"mov.u32 {bytes_}, {expected[0]}; mov.u16 {mask}, {masks[0]};")
    for rank in range(1, blocks):
        w.put(f"setp.eq.u32 {mine}, %rank, {rank}; @{mine} mov.u32 {bytes_}, {expected[rank]};",
              f"@{mine} mov.u16 {mask}, {masks[rank]};")  # fmt: skip
    w.put(f"@%first mbarrier.arrive.expect_tx.shared.b64 _, [%full], {bytes_};")
    meet(w, blocks)
    start = base(w, "in")
    w.put(f"mul.wide.u32 {origin}, %rank, 272; add.s64 {origin}, {origin}, {start};",
          f"mad.lo.u32 {there}, %rank, 256, %room;")  # fmt: skip
    opcode = f"cp.async.bulk.shared::cluster.global.{COUNTED}.multicast::cluster"
    w.put(f"@%first {opcode} [{there}], [{origin}], 256, [%full], {mask};")
    w.output("pred", wait(w))
    show(w, room)
    meet(w, blocks)
    return finish(w, name, "cluster", [opcode], blocks=blocks)


def remote_barriers(name: str, blocks: int) -> Program:
    """Arrivals, expected and completed bytes at the neighbour's mbarrier, in a random order.

    Each thread of a block arrives once at the neighbour's; phases follow one another.
    """
    dice, w = Dice(name + "/text"), Writer()
    x = w.input("b32")
    begin(w, BYTES, THREADS)
    meet(w, blocks)
    rank = neighbour(w, blocks)
    bar = peer(w, "%full", rank)
    opcodes = []
    flags = []
    there = "cluster.shared::cluster.b64"
    for phase in range(4):
        total = 16 * dice.between(1, 30)
        arrive = f"mbarrier.arrive.release.{there} _, [{bar}];"
        expect_and_arrive = f"mbarrier.arrive.expect_tx.release.{there} _, [{bar}], {total};"
        expect = f"mbarrier.expect_tx.relaxed.{there} [{bar}], {total};"
        complete = f"mbarrier.complete_tx.relaxed.{there} [{bar}], {total};"
        lines = dice.choice((
            [arrive], [expect, complete, arrive], [expect_and_arrive, complete],
            [complete, expect_and_arrive],
        ))  # fmt: skip
        w.put(*lines)
        opcodes += [line.split()[0] for line in lines]
        flags.append(wait(w, phase & 1, f"PHASE{phase}"))
        meet(w, blocks)
    w.output("b32", x)
    for flag in flags:
        w.output("pred", flag)
    return finish(w, name, "cluster", opcodes, blocks=blocks)


def fresh() -> Program:
    """What a new mbarrier says about the phase before its first, and about its first."""
    w = Writer()
    x = w.input("b32")
    begin(w, BYTES, 2)
    meet(w, 1)
    for parity in (0, 1):
        flag = w.reg("pred")
        w.put(f"mbarrier.test_wait.parity.shared.b64 {flag}, [%full], {parity};")
        w.output("pred", flag)
    w.put("bar.sync 0;", "@%first mbarrier.arrive.shared.b64 _, [%full], 2;", "bar.sync 0;")
    for parity in (0, 1):
        flag = w.reg("pred")
        w.put(f"mbarrier.test_wait.parity.shared.b64 {flag}, [%full], {parity};")
        w.output("pred", flag)
    w.output("b32", x)
    return finish(w, "mbarrier_fresh", "cluster", ["mbarrier.test_wait.parity.shared.b64"])


def programs() -> Iterator[Program]:
    """All programs of this module."""
    for turn in range(8):
        for space in ("shared::cta", "shared::cluster"):
            yield load(f"bulk_load_{space[8:]}_{turn}", space)
        yield store(f"bulk_store_{turn}", bool(turn % 2))
    for op, kind in REDUCTIONS:
        yield reduce(op, kind)
    yield prefetch("bulk_prefetch")
    for blocks in (2, 4, 8):
        yield addresses(blocks)
        for kind in ("b32", "b64"):
            for generic in (False, True):
                yield exchange(blocks, kind, generic)
        yield to_peer(blocks, "", "b64")
    for op, kind in PEER_REDUCTIONS:
        yield to_peer(2, op, kind)
        yield sent(2, f"red.async.{op}", kind)
    for kind in ("b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"):
        for vector in (1, 2, 4):
            if SIZE[kind] * vector <= 16:
                yield sent(4, "st.async", kind, vector)
    for turn in range(8):
        for blocks in (2, 4, 8):
            yield multicast(f"bulk_multicast_{blocks}_{turn}", blocks)
    for turn in range(12):
        yield remote_barriers(f"remote_barriers_{turn}", 2 << turn % 2)
    yield fresh()


