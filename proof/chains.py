"""Random programs: 20 to 60 instructions, with control flow on which threads disagree.

A single instruction proved alone can still go wrong in company: a register
whose upper half is stale, a predicate evaluated too early, threads that meet
again one instruction late.  A chain therefore keeps small pools of registers,
all defined from the start, and every instruction reads and overwrites registers
of the pools at random.  Around the instructions grow nested ``if``s, loops with
a trip count of each thread's own, ``brx.idx`` switches, calls, thread-private
shared and local memory read back at other widths; where all threads are
together, shuffles, votes and exchanges through shared memory with barriers.

The answer is a hash of all pools.  Only instructions whose every result bit the
PTX ISA fixes take part; without a rounding modifier ``mul`` and ``add`` may be
fused by the assembler, so those stay out as well.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from proof.dice import Dice
from proof.forms import FAMILIES, MISCOMPILED, Form
from proof.program import Program, Writer, register

THREADS = 64
POOL = {"b32": 5, "f32": 4, "b64": 3, "f64": 3, "b16": 3, "pred": 3}
"""Registers of each type.

Floats have registers of their own, as in a compiler's PTX.  The PTX ISA allows one
untyped register for everything, but ptxas 13.0 then guesses: a shift by a register
last written by a float instruction shifts by 1 where it holds 1.0.
"""

_LONG = ("div", "rem", "sqrt", "rcp", "fns")
"""Instructions that the assembler expands into dozens: used sparingly."""

_COMMUTES = ("add", "sub", "mul", "fma", "mad", "min", "max")
"""Of two NaNs in f64 one is kept; which, depends on the order in which the assembler takes them."""

_FLOAT = ("f16", "bf16", "f16x2", "bf16x2", "f32", "f64")
_OPEN = tuple(
    f"{op}{ftz}.{kind}" for op in ("abs", "neg") for ftz in ("", ".ftz") for kind in _FLOAT
)
"""Not in chains: the assembler folds two signs into none, and so a NaN keeps its payload.

Nor is ``abs.s16``, whose overflow the assembler keeps in a wider register, nor
``set`` with a float result, which ptxas 13.0 mixes up with integers.
"""


@functools.cache
def _usable() -> dict[str, list[Form]]:
    """Mnemonic -> the forms that a chain may use."""
    usable: dict[str, list[Form]] = {}
    for family in FAMILIES.values():
        for form in family():
            words = form.opcode.split(".")
            fusible = words[0] in ("add", "sub", "mul") and "f" in words[-1] and words[1] not in (
                "rn", "rz", "rm", "rp"
            )  # fmt: skip
            float_set = words[0] == "set" and "f" in form.operands[1][0]
            if form.opcode in (*_OPEN, "abs.s16") or float_set:
                continue
            if not form.bound and "*" not in form.signature and not fusible:
                usable.setdefault(words[0], []).append(form)
    return usable


class Chain:
    """Writes one random program."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dice = Dice(name + "/text")
        self.w = Writer(typed=True)
        self.opcodes: set[str] = set()
        self.functions: list[str] = []
        self._labels = 0
        self._depth = 0
        self.pool = {
            bits: [self.w.input(self._kind(bits)) for _ in range(n)] for bits, n in POOL.items()
        }

    def _kind(self, bits: str) -> str:
        kinds = {
            "b32": ("b32", "f16x2", "s32", "u16x2"),
            "f32": ("f32:moderate", "f32"),
            "b64": ("b64", "s64"),
            "f64": ("f64:moderate", "f64"),
            "b16": ("f16:moderate", "b16", "bf16"),
            "pred": ("pred",),
        }[bits]
        return self.dice.choice(kinds)

    def pick(self, kind: str) -> str:
        """A register of the pool that fits a type."""
        return self.dice.choice(self.pool[self.w.kind_of_register(kind)])

    def label(self) -> str:
        """A fresh label."""
        self._labels += 1
        return f"L{self._labels}"

    def use(self, opcode: str, operands: str) -> None:
        """Write an instruction and remember its opcode."""
        self.opcodes.add(opcode)
        self.w.put(f"{opcode} {operands};")

    def small(self, limit: int) -> str:
        """A fresh register with a number below ``limit`` (a power of two) out of the pool."""
        r = self.w.reg("b32")
        self.use("and.b32", f"{r}, {self.pick('b32')}, {limit - 1}")
        return r

    def operand(self, kind: str) -> str:
        """A source operand: a register of the pool, made to fit the kind's domain."""
        plain, _, domain = kind.partition(":")
        if plain == "imm":
            return domain.partition("..")[0]
        if ".." in domain:
            low, high = (int(x) for x in domain.split(".."))
            if self.dice.chance(30):
                return self.small(32)
            # past the width, ptxas treats two constants of bfe otherwise than two registers
            return str(self.dice.between(low, min(high, 31)))
        if domain == "nonzero":
            r = self.w.reg(plain)
            self.use(f"or.{register(plain)}", f"{r}, {self.pick(plain)}, 1")
            return r
        return self.pick(plain)

    def instruction(self) -> None:
        """One instruction, now and then under a predicate."""
        usable = _usable()
        mnemonic = self.dice.choice(list(usable))
        while mnemonic in _LONG and self.dice.chance(75):
            mnemonic = self.dice.choice(list(usable))
        form = self.dice.choice(usable[mnemonic])
        sources, dests = form.operands
        names: dict[str, str] = {}
        for i, kind in enumerate(sources):
            name = self.operand(kind)
            # min(a, a) and the like are folded to a, whose NaN then keeps its payload
            same = self.pool.get(self.w.kind_of_register(kind), []) if kind[:3] != "imm" else []
            while name in names.values() and not set(same) <= set(names.values()):
                name = self.pick(kind)
            names[f"s{i}"] = name
        targets: list[str] = []
        for kind in dests:
            left = [r for r in self.pool[self.w.kind_of_register(kind)] if r not in targets]
            targets.append(self.dice.choice(left))
        names |= {f"d{i}": r for i, r in enumerate(targets)}
        self.opcodes.add(form.opcode)
        if form.text:  # may be several statements: carry chains
            self.w.put(form.text.format(**names))
            return
        guard = ""
        if self.dice.chance(15) and mnemonic not in MISCOMPILED:
            guard = f"@{self.dice.choice(['', '!'])}{self.pick('pred')} "
        operands = [*targets, *(names[f"s{i}"] for i in range(len(sources)))]
        self.w.put(f"{guard}{form.opcode} {', '.join(operands)};")
        if form.opcode.endswith("f64") and mnemonic in _COMMUTES:
            nan = self.w.reg("pred")
            self.use("testp.notanumber.f64", f"{nan}, {targets[0]}")
            self.w.put(f"@{nan} mov.f64 {targets[0]}, 0d7FF8000000000000;")

    def instructions(self, n: int) -> None:
        """Several statements, of which some are control flow or memory."""
        while n > 0:
            roll = self.dice.below(100)
            if roll < 8 and self._depth < 3 and n >= 6:
                part = self.dice.between(3, min(n, 12))
                self._depth += 1
                shape = self.dice.choice(
                    (self.branch, self.branch, self.loop, self.switch, self.call)
                )
                shape(part)
                self._depth -= 1
                n -= part
            elif roll < 16:
                self.private_memory()
                n -= 2
            elif roll < 24:
                self.transfer()
                n -= 1
            elif roll < 30 and self._depth == 0:
                self.dice.choice((self.shuffle, self.vote, self.exchange))()
                n -= 2
            else:
                self.instruction()
                n -= 1

    def branch(self, n: int) -> None:
        """``if … else …`` on a predicate of each thread's own."""
        other, end = self.label(), self.label()
        self.opcodes.add("bra")
        self.w.put(f"@{self.dice.choice(['', '!'])}{self.pick('pred')} bra {other};")
        self.instructions(n // 2)
        self.w.put(f"bra {end};", f"{other}:")
        self.instructions(n - n // 2)
        self.w.put(f"{end}:")

    def loop(self, n: int) -> None:
        """A loop that each thread runs 1 to 4 times."""
        again, more = self.label(), self.w.reg("pred")
        count = self.small(4)
        self.w.put(f"{again}:")
        self.instructions(n)
        self.w.put(f"setp.ne.s32 {more}, {count}, 0;", f"sub.s32 {count}, {count}, 1;")
        self.w.put(f"@{more} bra {again};")
        self.opcodes |= {"bra", "setp.ne.s32", "sub.s32"}

    def switch(self, n: int) -> None:
        """``brx.idx`` over four arms."""
        index, arms, end = self.small(4), [self.label() for _ in range(4)], self.label()
        table = self.label()
        self.w.put(f"{table}: .branchtargets {', '.join(arms)};", f"brx.idx {index}, {table};")
        self.opcodes.add("brx.idx")
        for arm in arms:
            self.w.put(f"{arm}:")
            self.instructions(max(1, n // 4))
            self.w.put(f"bra {end};")
        self.w.put(f"{end}:")

    def call(self, n: int) -> None:
        """A call of a device function with two arguments and a result."""
        function = f"{self.name}_f{len(self.functions)}"
        op = self.dice.choice(("xor.b32", "add.s32", "mul.lo.s32", "min.u32", "max.s32"))
        turn = self.dice.between(1, 31)
        self.functions.append(
            f".func (.param .b32 r) {function}(.param .b32 a, .param .b64 b)\n{{\n"
            "  .reg .b32 %x, %y; .reg .b64 %z; .reg .pred %q;\n"
            "  ld.param.b32 %x, [a]; ld.param.b64 %z, [b]; cvt.u32.u64 %y, %z;\n"
            f"  setp.lt.s32 %q, %x, %y; @%q bra SKIP; {op} %x, %x, %y; SKIP:\n"
            f"  shf.l.wrap.b32 %x, %x, %y, {turn}; st.param.b32 [r], %x; ret;\n}}\n"
        )
        self.opcodes |= {"call.uni", "call", "ld.param.b32", "st.param.b32", "ret", op}
        how = "call.uni" if self._depth == 1 else "call"
        self.w.put(
            "{ .param .b32 a; .param .b64 b; .param .b32 r;",
            f"st.param.b32 [a], {self.pick('b32')}; st.param.b64 [b], {self.pick('b64')};",
            f"{how} (r), {function}, (a, b); ld.param.b32 {self.pick('b32')}, [r]; }}",
        )
        self.instructions(n - 2)

    def transfer(self) -> None:
        """The bits of a float into an integer's register, or back."""
        bits = self.dice.choice(("32", "64"))
        to, source = self.dice.choice((("b", "f"), ("f", "b")))
        self.use(f"mov.b{bits}", f"{self.pick(to + bits)}, {self.pick(source + bits)}")

    def private_memory(self) -> None:
        """Store into the thread's own 16 bytes, and read back at another width."""
        space = self.dice.choice(("shared", "local"))
        base = "%mine" if space == "shared" else "scratch"
        stored = self.dice.choice(("b16", "b32", "b64"))
        width = {"b16": 2, "b32": 4, "b64": 8}[stored]
        self.use(
            f"st.{space}.{stored}",
            f"[{base}+{self.dice.below(16 // width) * width}], {self.pick(stored)}",
        )
        kind = self.dice.choice(("u8", "s8", "u16", "s16", "b32", "s32", "f32", "b64"))
        size = {"u8": 1, "s8": 1, "u16": 2, "s16": 2, "b64": 8}.get(kind, 4)
        target = self.pick("f32" if kind == "f32" else "b32" if size < 8 else "b64")
        self.use(f"ld.{space}.{kind}", f"{target}, [{base}+{self.dice.below(16 // size) * size}]")

    def shuffle(self) -> None:
        """Another lane's register, and whether that lane was in range."""
        how = self.dice.choice(("up", "down", "bfly", "idx"))
        clamp = 0 if how == "up" else 31
        if self.dice.chance(30):
            clamp |= self.dice.choice((0x10, 0x18, 0x1C)) << 8
        by = self.small(32) if self.dice.chance(30) else str(self.dice.below(32))
        self.use(
            f"shfl.sync.{how}.b32",
            f"{self.pick('b32')}|{self.pick('pred')}, {self.pick('b32')}, {by}, {clamp}, -1",
        )

    def vote(self) -> None:
        """A vote, a match or a reduction of the whole warp."""
        kind = self.dice.choice(("any", "all", "uni", "ballot", "match", "redux"))
        if kind == "ballot":
            self.use("vote.sync.ballot.b32", f"{self.pick('b32')}, {self.pick('pred')}, -1")
        elif kind == "match":
            self.use("match.any.sync.b32", f"{self.pick('b32')}, {self.small(4)}, -1")
        elif kind == "redux":
            op = self.dice.choice(
                ("add.u32", "add.s32", "min.u32", "max.s32", "min.s32", "and.b32", "xor.b32")
            )
            self.use(f"redux.sync.{op}", f"{self.pick('b32')}, {self.pick('b32')}, -1")
        else:
            self.use(f"vote.sync.{kind}.pred", f"{self.pick('pred')}, {self.pick('pred')}, -1")

    def exchange(self) -> None:
        """Through shared memory to a thread of the other warp, with barriers around."""
        self.use("bar.sync", "0")
        self.w.put(f"st.shared.b64 [%mine], {self.pick('b64')};", "bar.sync 0;")
        self.w.put(f"ld.shared.b64 {self.pick('b64')}, [%other];", "bar.sync 0;")

    def program(self, length: int) -> Program:
        """The whole program."""
        w = self.w
        w.put(
            f".shared .align 16 .b8 stage[{THREADS * 16}]; .local .align 16 .b8 scratch[16];",
            ".reg .b32 %mine, %other, %base; .reg .b64 %hash, %wide;",
            "mov.u32 %mine, %tid.x; xor.b32 %other, %mine, 37; mov.u32 %base, stage;",
            "mad.lo.s32 %mine, %mine, 16, %base; mad.lo.s32 %other, %other, 16, %base;",
            "mov.b64 %wide, 0x123456789ABCDEF; st.shared.v2.b64 [%mine], {%wide, %wide};",
            "st.local.v2.b64 [scratch], {%wide, %wide};",
        )
        self.instructions(length)
        for bits, widen in (("b32", "cvt.u64.u32"), ("b64", "mov.b64"), ("b16", "cvt.u64.u16")):
            w.put("mov.b64 %hash, 0;")
            for r in self.pool[bits.replace("b", "f")] if bits != "b16" else ():
                plain = w.reg(bits)
                w.put(f"mov.{bits} {plain}, {r};", f"{widen} %wide, {plain};")
                w.put("mad.lo.s64 %hash, %hash, 0x100000001B3, %wide;")
            for r in self.pool[bits]:
                w.put(f"{widen} %wide, {r};", "mad.lo.s64 %hash, %hash, 0x100000001B3, %wide;")
            if bits == "b16":
                for r in self.pool["pred"]:
                    w.put(f"selp.b64 %wide, 1, 0, {r};", "mad.lo.s64 %hash, %hash, 3, %wide;")
            w.output("b64", "%hash")
        return Program(
            self.name, w.entry(self.name, THREADS, "".join(self.functions)), tuple(w.inputs),
            tuple(w.outputs), tuple(sorted(self.opcodes)), "chain", threads=THREADS,
        )  # fmt: skip


def programs(count: int, first: int = 0) -> Iterator[Program]:
    """``count`` random programs; number ``i`` is the same whoever asks for it."""
    for i in range(first, first + count):
        chain = Chain(f"chain_{i:05}")
        yield chain.program(chain.dice.between(20, 60))
