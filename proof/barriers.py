"""Barriers: named ones with counts, reductions, and the mbarrier in every form.

A barrier's own answer is order: data that one side wrote is there when the
other side reads it.  The mbarrier's count can be asked for, so single threads
walk random sequences of its operations, kept legal by a model of three lines.

PTX ISA 9.7.13.1 (bar), 9.7.13.15 (mbarrier).
"""

from __future__ import annotations

from collections.abc import Iterator

from proof.dice import Dice
from proof.memory import finish
from proof.program import Program, Writer


def _stage(w: Writer, threads: int) -> tuple[str, str]:
    """A word of shared memory a thread: its address register, and the base's."""
    mine, base = w.reg("b32"), w.reg("b32")
    w.put(f".shared .align 16 .b8 stage[{4 * threads}];", f"mov.u32 {base}, stage;")
    w.put(f"mad.lo.u32 {mine}, %i, 4, {base};")
    return mine, base


def exchange(name: str, sync: str, opcode: str, rounds: int, threads: int) -> Program:
    """Rounds of: write my word, wait, read another's, wait."""
    dice = Dice(name + "/text")
    w = Writer()
    x = w.input("b32")
    mine, base = _stage(w, threads)
    at, got = w.reg("b32"), w.reg("b32")
    for _ in range(rounds):
        turn = dice.between(1, threads - 1)
        w.put(f"st.shared.b32 [{mine}], {x};", sync)
        w.put(f"add.u32 {at}, %i, {turn};", f"rem.u32 {at}, {at}, {threads};")
        w.put(f"mad.lo.u32 {at}, {at}, 4, {base};", f"ld.shared.b32 {got}, [{at}];", sync)
        w.put(f"xor.b32 {x}, {x}, {got};", f"mad.lo.u32 {x}, {x}, 69069, 1;")
    w.output("b32", x)
    return finish(w, name, "barrier", [opcode], threads)


def handed_on(name: str, arrive: str, sync: str, ident: int) -> Program:
    """Two warps write and arrive; two others wait for them and read."""
    w = Writer()
    x = w.input("b32")
    mine, base = _stage(w, 128)
    role, at = w.reg("pred"), w.reg("b32")
    w.put(f"setp.ge.u32 {role}, %i, 64;", f"@{role} bra CONSUMER;", f"st.shared.b32 [{mine}], {x};")
    w.put(f"{arrive} {ident}, 128;", "bra DONE;", "CONSUMER:", f"{sync} {ident}, 128;")
    w.put(f"sub.u32 {at}, %i, 64;", f"mad.lo.u32 {at}, {at}, 4, {base};")
    w.put(f"ld.shared.b32 {at}, [{at}];", f"xor.b32 {x}, {x}, {at};", "DONE:")
    w.output("b32", x)
    return finish(w, name, "barrier", [arrive, sync], 128)


def reduced(name: str, opcode: str, negate: bool, half: bool) -> Program:
    """``bar.red``: the number of predicates, or their conjunction, over all or two warps."""
    w = Writer()
    p = w.input("pred")
    kind = "pred" if opcode.endswith("pred") else "b32"
    d = w.reg(kind)
    bang = "!" if negate else ""
    count = ", 64" if half else ""
    ident = "3"
    if half:
        r = w.reg("b32")
        w.put(f"shr.u32 {r}, %i, 6;", f"add.u32 {r}, {r}, 3;")
        ident = r
    w.put(f"{opcode} {d}, {ident}{count}, {bang}{p};")
    w.output(kind, d)
    return finish(w, name, "barrier", [opcode], 128)


def split_warp(name: str, opcode: str) -> Program:
    """Halves of a warp meet at one barrier from two places of the program."""
    w = Writer()
    x = w.input("b32")
    mine, base = _stage(w, 64)
    odd, at = w.reg("pred"), w.reg("b32")
    w.put(f"st.shared.b32 [{mine}], {x};", f"and.b32 {at}, %i, 1;", f"setp.ne.u32 {odd}, {at}, 0;")
    w.put(f"@{odd} bra ODD;", f"add.u32 {x}, {x}, 5;", f"{opcode} 2, 64;", "bra DONE;")
    w.put("ODD:", f"mul.lo.u32 {x}, {x}, 7;", f"{opcode} 2, 64;", "DONE:")
    w.put(f"xor.b32 {at}, %i, 63;", f"mad.lo.u32 {at}, {at}, 4, {base};")
    w.put(f"ld.shared.b32 {at}, [{at}];", f"add.u32 {x}, {x}, {at};")
    w.output("b32", x)
    return finish(w, name, "barrier", [opcode], 64)


def named() -> Iterator[Program]:
    """``bar`` and ``barrier``, named and counted."""
    spellings = ("bar.sync", "bar.cta.sync", "barrier.sync", "barrier.cta.sync",
                 "barrier.sync.aligned", "barrier.cta.sync.aligned")  # fmt: skip
    for turn in range(24):
        opcode = spellings[turn % 6]
        threads = (64, 96, 128, 256)[turn % 4]
        ident = (0, 1, 7, 15)[turn // 6]
        count = f", {threads}" if turn % 3 else ""
        yield exchange(f"bar_{turn}", f"{opcode} {ident}{count};", opcode, 1 + turn % 4, threads)
    for i, (family, tail) in enumerate((("bar", ""), ("bar.cta", ""), ("barrier", ""),
                                        ("barrier", ".aligned"),
                                        ("barrier.cta", ".aligned"))):  # fmt: skip
        yield handed_on(
            f"bar_hand_{i}", f"{family}.arrive{tail}", f"{family}.sync{tail}", 1 + 3 * i
        )
        for op in ("popc.u32", "and.pred", "or.pred"):
            first, kind = op.split(".")
            for negate in (False, True):
                opcode = f"{family}.red.{first}{tail}.{kind}"
                yield reduced(f"bar_red_{i}_{first}_{int(negate)}", opcode,
                              negate, half=(i + negate) % 2 == 0)  # fmt: skip
    for opcode in ("barrier.sync", "barrier.cta.sync"):
        yield split_warp("bar_split_" + opcode.replace(".", "_"), opcode)


class Walk:
    """A legal sequence of operations on one mbarrier by one thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dice = Dice(name + "/text")
        self.w = Writer()
        self.expected = self.dice.between(1, 6)
        self.pending, self.tx, self.phase = self.expected, 0, 0
        self.opcodes: list[str] = []

    def op(self, opcode: str, operands: str) -> None:
        """Write one operation."""
        self.opcodes.append(opcode)
        self.w.put(f"{opcode} {operands};")

    def settle(self) -> None:
        """The model: a phase ends when nothing is pending, neither arrivals nor bytes."""
        if self.pending == 0 and self.tx == 0:
            self.phase, self.pending = self.phase + 1, self.expected

    def step(self) -> None:
        """One operation that is legal now."""
        d, w = self.dice, self.w
        kind = d.choice(
            ("arrive", "arrive", "count", "count", "keep", "expect", "arrive_tx", "tx", "drop")
        )
        sem = d.choice(("", "", ".release.cta", ".release.cluster", ".relaxed.cta"))
        space = d.choice((".shared", ".shared::cta"))
        token = w.reg("b64")
        n = 1
        if kind in ("count", "keep", "drop"):
            n = d.between(1, max(1, self.pending))
        if self.tx and self.pending <= n and kind in ("arrive", "count", "arrive_tx", "drop"):
            kind = "tx"  # the last arrival waits for the bytes
        if kind == "keep" and (n >= self.pending or self.pending < 2):
            kind = "arrive"
        if kind == "drop" and (n >= self.expected or self.pending <= n):
            kind = "arrive"
        if kind == "arrive" and self.tx and self.pending <= 1:
            kind = "tx"
        if kind == "arrive_tx" and self.pending <= 1:
            kind = "expect"
        if kind == "arrive":
            n = 1
            self.op(f"mbarrier.arrive{sem}{space}.b64", f"{token}, [%bar]")
            self.pending -= 1
        elif kind == "count":
            self.op(f"mbarrier.arrive{sem}{space}.b64", f"{token}, [%bar], {n}")
            self.pending -= n
        elif kind == "keep":
            sem = d.choice(("", ".release.cta"))
            self.op(f"mbarrier.arrive.noComplete{sem}{space}.b64", f"{token}, [%bar], {n}")
            self.pending -= n
        elif kind == "drop":
            self.op(f"mbarrier.arrive_drop{sem}{space}.b64", f"{token}, [%bar], {n}")
            self.pending -= n
            self.expected -= n
        elif kind in ("expect", "arrive_tx"):
            n = 16 * d.between(1, 8)
            self.tx += n
            if kind == "expect":
                relaxed = d.choice(("", ".relaxed.cta"))
                self.op(f"mbarrier.expect_tx{relaxed}{space}.b64", f"[%bar], {n}")
                token = ""
            else:
                self.op(f"mbarrier.arrive.expect_tx{sem}{space}.b64", f"{token}, [%bar], {n}")
                self.pending -= 1
        else:
            if self.tx:
                n = d.choice((self.tx, 16))
                self.op(
                    f"mbarrier.complete_tx{d.choice(('', '.relaxed.cta'))}{space}.b64",
                    f"[%bar], {n}",
                )
                self.tx -= n
            token = ""
        ended = self.phase
        self.settle()
        if token:
            count = w.reg("b32")
            self.op("mbarrier.pending_count.b64", f"{count}, {token}")
            w.output("b32", count)
            done = w.reg("pred")
            test = (
                d.choice(("mbarrier.test_wait", "mbarrier.try_wait"))
                if self.phase != ended
                else "mbarrier.test_wait"
            )
            wait = d.choice(("", ".acquire.cta", ".acquire.cluster"))
            self.op(f"{test}{wait}{space}.b64", f"{done}, [%bar], {token}")
            w.output("pred", done)
        for parity in (0, 1):
            done = w.reg("pred")
            wait = d.choice(("", ".acquire.cta", ".relaxed.cta"))
            self.op(f"mbarrier.test_wait.parity{wait}{space}.b64", f"{done}, [%bar], {parity}")
            w.output("pred", done)

    def program(self, steps: int) -> Program:
        """The whole walk: each thread has a barrier of its own."""
        self.w.put(".shared .align 8 .b64 bars[32]; .reg .b32 %bar;", "mov.u32 %bar, bars;")
        self.w.put("mad.lo.u32 %bar, %i, 8, %bar;")
        self.op("mbarrier.init.shared.b64", f"[%bar], {self.expected}")
        for _ in range(steps):
            self.step()
        self.op("mbarrier.inval.shared.b64", "[%bar]")
        return finish(self.w, self.name, "mbarrier", sorted(set(self.opcodes)), 32)


def ring(name: str, slots: int, steps: int, wait: str, token: bool) -> Program:
    """A ring of slots between a producer warp and a consumer warp, with full and empty barriers."""
    w = Writer()
    x, total = w.input("b32"), w.reg("b32")
    w.put(f".shared .align 8 .b64 full[{slots}]; .shared .align 8 .b64 empty[{slots}];")
    w.put(f".shared .align 4 .b8 ring[{slots * 128}];")
    w.put(".reg .b32 %full, %empty, %slot, %lane, %a; .reg .pred %p, %first; .reg .b64 %token;")
    w.put(f"mov.u32 {total}, 0;", "mov.u32 %lane, %laneid;", "setp.eq.u32 %first, %i, 0;")
    w.put("mov.u32 %full, full;", "mov.u32 %empty, empty;", "mov.u32 %slot, ring;")
    w.put("mad.lo.u32 %slot, %lane, 4, %slot;")
    for s in range(slots):
        w.put(f"@%first mbarrier.init.shared.b64 [%full+{8 * s}], 32;")
        w.put(f"@%first mbarrier.init.shared.b64 [%empty+{8 * s}], 32;")
    w.put("bar.sync 0;", "setp.ge.u32 %p, %i, 32;", "@%p bra CONSUMER;")
    hint = ", 1000" if "try" in wait and steps % 2 else ""
    for role in ("PRODUCER", "CONSUMER"):
        w.put(f"{role}:")
        for step in range(steps):
            s, phase = step % slots, step // slots % 2
            mine, theirs = ("full", "empty") if role == "PRODUCER" else ("empty", "full")
            parity = phase ^ 1 if role == "PRODUCER" else phase
            label = f"{role}_{step}"
            w.put(
                f"{label}:",
                f"{wait} %p, [%{theirs}+{8 * s}], {parity}{hint};",
                f"@!%p bra {label};",
            )
            if role == "PRODUCER":
                w.put(
                    f"mad.lo.u32 {x}, {x}, 69069, {step};", f"st.shared.b32 [%slot+{128 * s}], {x};"
                )
            else:
                w.put(
                    f"ld.shared.b32 %a, [%slot+{128 * s}];", f"mad.lo.u32 {total}, {total}, 31, %a;"
                )
            w.put(f"mbarrier.arrive.shared.b64 {'%token' if token else '_'}, [%{mine}+{8 * s}];")
        w.put("bra DONE;" if role == "PRODUCER" else "DONE:")
    w.output("b32", total)
    return finish(
        w, name, "mbarrier", [wait, "mbarrier.arrive.shared.b64", "mbarrier.init.shared.b64"], 64
    )


def mbarriers() -> Iterator[Program]:
    """Walks and rings."""
    for turn in range(240):
        yield Walk(f"mbar_walk_{turn}").program(4 + turn % 10)
    for turn in range(24):
        wait = ("mbarrier.test_wait.parity", "mbarrier.try_wait.parity")[turn % 2]
        sem = ("", ".acquire.cta", ".acquire.cluster")[turn % 3]
        space = (".shared", ".shared::cta")[turn // 2 % 2]
        yield ring(
            f"mbar_ring_{turn}", 1 + turn % 4, 3 + turn % 7, f"{wait}{sem}{space}.b64", turn % 5 < 3
        )


def programs() -> Iterator[Program]:
    """All programs of this module."""
    yield from named()
    yield from mbarriers()
