"""Loads, stores, atomics and asynchronous copies: each thread in its own place, or all in one.

What a data race leaves is nobody's to say, so every program here has one
answer: a thread works in memory of its own, or the operation commutes, or a
barrier stands between.

PTX ISA 9.7.9.8 (ld) to 9.7.9.25 (cp.async), 9.7.13.5 and 9.7.13.6 (atom, red).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import numpy as np

from proof.dice import Dice, Words
from proof.program import Program, Writer, register
from proof.values import SIZE, draw

BYTES = {"b8": 1, "u8": 1, "s8": 1}
"""Sizes in memory that differ from the register's."""

KINDS = (
    "b8",
    "u8",
    "s8",
    "b16",
    "u16",
    "s16",
    "b32",
    "u32",
    "s32",
    "f32",
    "b64",
    "u64",
    "s64",
    "f64",
)
SPACES = ("global", "shared", "shared::cta", "local", "")
"""``""`` stands for a generic address."""


def _bytes(kind: str) -> int:
    return BYTES.get(kind, SIZE.get(kind, 4))


def room(w: Writer, name: str, space: str, threads: int, size: int = 32) -> tuple[str, str]:
    """Declare ``size`` bytes a thread; the register with the thread's address, and declarations.

    A generic address is taken of shared memory.
    """
    variable = f"{name}_room"
    where = space.partition("::")[0] or "shared"
    address = w.reg("b64")
    declare = f".{where} .align 16 .b8 {variable}[{size * (1 if where == 'local' else threads)}];\n"
    outside = declare if where == "global" else ""
    if not outside:
        w.put(declare.strip())
    lane = w.reg("b32")
    w.put(f"mov.u32 {lane}, %tid.x;", f"mov.u64 {address}, {variable};")
    if not space:
        w.put(f"cvta.{where}.u64 {address}, {address};")
    if where != "local":
        w.put(f"mad.wide.u32 {address}, {lane}, {size}, {address};")
    return address, outside


def finish(
    w: Writer, name: str, family: str, opcodes: list[str], threads: int,
    outside: str = "", **more: object,
) -> Program:  # fmt: skip
    """The program that a writer holds."""
    return Program(
        name, w.entry(name, threads, outside), tuple(w.inputs), tuple(w.outputs),
        tuple(opcodes), family, threads=threads, maps=tuple(w.maps),
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _braces(registers: list[str]) -> str:
    return registers[0] if len(registers) == 1 else "{" + ", ".join(registers) + "}"


def store_and_load(name: str, store: str, load: str, kind: str, n: int, space: str) -> Program:
    """Store ``n`` values, read them back; sub-word loads go to a wider register."""
    w = Writer()
    address, outside = room(w, name, space, 64)
    values = [w.input(kind) for _ in range(n)]
    wide = [w.reg("b32" if _bytes(kind) < 4 else kind) for _ in range(n)]
    offset = Dice(name).below(32 // (_bytes(kind) * n)) * _bytes(kind) * n
    w.put(f"{store} [{address}+{offset}], {_braces(values)};")
    w.put(f"{load} {_braces(wide)}, [{address}+{offset}];")
    for r in wide:
        w.output("b32" if _bytes(kind) < 4 else kind, r)
    return finish(w, name, "memory", [store, load], 64, outside)


def loads_and_stores() -> Iterator[Program]:
    """Every space, width and vector; every cache operator, ordering and hint."""
    for space, kind, n in itertools.product(SPACES, KINDS, (1, 2, 4)):
        if n * _bytes(kind) > 16:
            continue
        vec = f".v{n}" if n > 1 else ""
        dot = f".{space}" if space else ""
        name = f"mem_{space.replace('::', '_') or 'generic'}_{kind}_{n}"
        yield store_and_load(name, f"st{dot}{vec}.{kind}", f"ld{dot}{vec}.{kind}", kind, n, space)
    ways: list[tuple[str, str]] = [
        ("volatile", "volatile"), ("weak", "weak"),
        *((f"relaxed.{s}", f"relaxed.{s}") for s in ("cta", "cluster", "gpu", "sys")),
        *((f"release.{s}", f"acquire.{s}") for s in ("cta", "cluster", "gpu", "sys")),
    ]  # fmt: skip
    for (st, ld), space, kind in itertools.product(
        ways, ("global", "shared", ""), ("u8", "b32", "b64")
    ):
        dot = f".{space}" if space else ""
        name = f"mem_{st.replace('.', '_')}_{space or 'generic'}_{kind}"
        yield store_and_load(name, f"st.{st}{dot}.{kind}", f"ld.{ld}{dot}.{kind}", kind, 1, space)
    caches = [("wb", "ca"), ("cg", "cg"), ("cs", "cs"), ("wt", "cv"), ("wb", "lu"),
              ("L1::evict_last", "L1::evict_last"), ("L1::no_allocate", "L1::no_allocate"),
              ("L1::evict_first", "L1::evict_first"), ("wb", "L2::128B"),
              ("cg", "ca.L2::256B")]  # fmt: skip
    for i, (st, ld) in enumerate(caches):
        for kind, n in (("u16", 1), ("f32", 1), ("b32", 4), ("f64", 2)):
            vec = f".v{n}" if n > 1 else ""
            name = f"mem_cache{i}_{kind}_{n}"
            yield store_and_load(
                name,
                f"st.global.{st}{vec}.{kind}",
                f"ld.global.{ld}{vec}.{kind}",
                kind,
                n,
                "global",
            )


def constants() -> Iterator[Program]:
    """Initialised ``.const`` and ``.global`` arrays, read at each thread's own index."""
    for space, kind in itertools.product(("const", "global", "global.nc"), KINDS):
        name = f"init_{space.replace('.', '_')}_{kind}"
        dice, size = Dice(name), _bytes(kind)
        declared = {"b8": "u8", "b16": "u16", "b32": "u32", "b64": "u64"}.get(kind, kind)
        words = [int(x) for x in draw(kind, 32, dice)]
        if declared[0] == "s":
            words = [x - (1 << 8 * size) if x >> (8 * size - 1) else x for x in words]
        prefix = {"f32": "0f{:08X}", "f64": "0d{:016X}"}.get(kind, "{}")
        outside = (
            f".{space.partition('.')[0]} .align 8 .{declared} {name}_t[40] = "
            f"{{{', '.join(prefix.format(x) for x in words)}}};\n"
        )
        w = Writer()
        index, address, got = w.input("u32:0..39"), w.reg("b64"), w.reg("b32" if size < 4 else kind)
        w.put(
            f"mov.u64 {address}, {name}_t;", f"mad.wide.u32 {address}, {index}, {size}, {address};"
        )
        w.put(f"ld.{space}.{kind} {got}, [{address}];")
        w.output("b32" if size < 4 else kind, got)
        yield finish(w, name, "memory", [f"ld.{space}.{kind}"], 64, outside)


ATOMS = [
    *(("add", t) for t in ("u32", "s32", "u64", "f32", "f64")),
    *(("add.noftz", t) for t in ("f16", "bf16", "f16x2", "bf16x2")),
    *((op, t) for op in ("min", "max") for t in ("u32", "s32", "u64", "s64")),
    *((op, t) for op in ("and", "or", "xor") for t in ("b32", "b64")),
    ("inc", "u32"), ("dec", "u32"), ("exch", "b32"), ("exch", "b64"),
    ("cas", "b16"), ("cas", "b32"), ("cas", "b64"),
]  # fmt: skip
"""Operations and types of ``atom``; ``red`` has all but the last five."""


def own_cell(name: str, opcode: str, op: str, kind: str, space: str, red: bool) -> Program:
    """Each thread on a cell of its own: what was there, and what is there after."""
    w = Writer()
    address, outside = room(w, name, space, 64, 16)
    before, value = w.input(kind), w.input(kind)
    dot = f".{space}" if space else ""
    bits = register(kind)
    w.put(f"st{dot}.{bits} [{address}], {before};")
    old, after = w.reg(kind), w.reg(kind)
    if op == "cas":
        swap = w.input(kind)
        same = w.input("pred")
        w.put(f"@{same} mov.{bits} {value}, {before};")
        w.put(f"{opcode} {old}, [{address}], {value}, {swap};")
    elif red:
        w.put(f"{opcode} [{address}], {value};")
    else:
        w.put(f"{opcode} {old}, [{address}], {value};")
    w.put(f"ld{dot}.{bits} {after}, [{address}];")
    if not red:
        w.output(kind, old)
    w.output(kind, after)
    return finish(w, name, "atomic", [opcode], 64, outside)


def _whole_numbers(kind: str, lanes: int, dice: Dice) -> list[Words]:
    """Inputs on which the order of additions does not matter: small whole numbers."""
    small = (dice.words(lanes) % np.uint64(9)).astype(np.int64) - 4
    if kind == "f32":
        return [small.astype(np.float32).view(np.uint32).astype(np.uint64)]
    if kind == "f64":
        return [small.astype(np.float64).view(np.uint64)]
    half = small.astype(np.float16).view(np.uint16).astype(np.uint64)
    if kind.startswith("bf16"):
        half = (small.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint64)
    return [half | half << np.uint64(16) if kind.endswith("x2") else half]


def one_cell(name: str, opcode: str, op: str, kind: str, space: str, red: bool) -> Program:
    """96 threads of three warps on one cell, with an operation that commutes: the final value."""
    w = Writer()
    dot, bits, where = f".{space}" if space else "", register(kind), space or "shared"
    declare = f".{where} .align 16 .b8 {name}_cell[16];\n"
    outside = declare if where == "global" else ""
    w.put("" if outside else declare.strip())
    address, zero, old, after = w.reg("b64"), w.reg(kind), w.reg(kind), w.reg(kind)
    limited = op in ("inc", "dec")
    start = -1 if op == "and" or (op, kind[0]) == ("min", "u") else 5 if limited else 0
    value = w.input("u32:40..40" if limited else kind)
    w.put(f"mov.u64 {address}, {name}_cell;")
    if not space:
        w.put(f"cvta.shared.u64 {address}, {address};")
    first = w.reg("pred")
    w.put(f"mov.{bits} {zero}, {start};")
    w.put(f"setp.eq.u32 {first}, %i, 0;", f"@{first} st{dot}.{bits} [{address}], {zero};")
    w.put("bar.sync 0;")
    w.put(f"{opcode} {'' if red else old + ', '}[{address}], {value};", "bar.sync 0;")
    w.put(f"ld{dot}.{bits} {after}, [{address}];")
    w.output(kind, after)
    fill = functools.partial(_whole_numbers, kind) if "f" in kind else None
    return finish(w, name, "atomic", [opcode], 96, outside, fill=fill)


def atomics() -> Iterator[Program]:
    """``atom`` and ``red``, each operation and type, in each space, ordering and scope."""
    orders = ["", "relaxed.cta", "relaxed.gpu", "acquire.cta", "release.gpu", "acq_rel.gpu",
              "acq_rel.sys", "acq_rel.cluster", "gpu", "cta", "sys"]  # fmt: skip
    turn = 0
    for (op, kind), space, red in itertools.product(ATOMS, ("global", "shared", ""), (False, True)):
        if red and op in ("exch", "cas"):
            continue
        for _ in range(4):
            order = orders[turn % len(orders)]
            turn += 1
            if red and order[:3] == "acq":
                order = order.replace("acq_rel", "release").replace("acquire", "relaxed")
            opcode = ".".join(x for x in ("red" if red else "atom", order, space, op, kind) if x)
            if "." in order:
                pass
            elif order:  # an old spelling: the scope after the space
                opcode = ".".join(
                    x for x in ("red" if red else "atom", space, order, op, kind) if x
                )
            what = f"{op.replace('.', '_')}_{kind}_{space or 'generic'}"
            base = f"{'red' if red else 'atom'}_{turn}_{what}"
            yield own_cell(base, opcode, op, kind, space, red)
            if op not in ("exch", "cas"):
                yield one_cell(base + "_all", opcode, op, kind, space, red)
    for n, kind in ((2, "f32"), (4, "f32")):
        yield vector_atom(f"atom_v{n}_{kind}", f"atom.global.add.v{n}.{kind}", n, kind)
    for n, kind in ((2, "f16"), (4, "f16"), (8, "f16"), (2, "bf16"), (2, "f16x2"), (4, "bf16x2")):
        for op in ("add", "min", "max"):
            yield vector_atom(
                f"atom_v{n}_{kind}_{op}", f"atom.global.{op}.noftz.v{n}.{kind}", n, kind
            )
    for op in ("exch", "cas"):
        yield wide_atom(f"atom_{op}_b128", op)


def vector_atom(name: str, opcode: str, n: int, kind: str) -> Program:
    """A vector of floats, each thread on 16 bytes of its own."""
    w = Writer()
    address, outside = room(w, name, "global", 64, 16)
    before, value = ([w.input(kind) for _ in range(n)] for _ in range(2))
    size = SIZE[kind]
    for i, r in enumerate(before):
        w.put(f"st.global.{register(kind)} [{address}+{i * size}], {r};")
    old, after = ([w.reg(kind) for _ in range(n)] for _ in range(2))
    w.put(f"{opcode} {_braces(old)}, [{address}], {_braces(value)};")
    for i, r in enumerate(after):
        w.put(f"ld.global.{register(kind)} {r}, [{address}+{i * size}];")
    for r in old + after:
        w.output(kind, r)
    return finish(w, name, "atomic", [opcode], 64, outside)


def wide_atom(name: str, op: str) -> Program:
    """Exchange and compare-and-swap of 16 bytes."""
    w = Writer()
    address, outside = room(w, name, "global", 64, 16)
    before, value, swap = ([w.input("b64"), w.input("b64")] for _ in range(3))
    same, opcode = w.input("pred"), f"atom.global.{op}.b128"
    for b, v in zip(before, value, strict=True):
        w.put(f"@{same} mov.b64 {v}, {b};")
    w.put(f"st.global.v2.b64 [{address}], {_braces(before)};", ".reg .b128 %old, %new, %other;")
    w.put(f"mov.b128 %new, {_braces(value)};", f"mov.b128 %other, {_braces(swap)};")
    w.put(f"{opcode} %old, [{address}], %new{', %other' if op == 'cas' else ''};")
    old, after = ([w.reg("b64"), w.reg("b64")] for _ in range(2))
    w.put(f"mov.b128 {_braces(old)}, %old;", f"ld.global.v2.b64 {_braces(after)}, [{address}];")
    for r in old + after:
        w.output("b64", r)
    return finish(w, name, "atomic", [opcode], 64, outside)


def copies() -> Iterator[Program]:
    """``cp.async`` in all sizes, with a shorter source, in groups, with an mbarrier."""
    for turn in range(48):
        cache, size = (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16))[turn % 4]
        how = ("group", "all", "mbarrier", "noinc")[turn // 4 % 4]
        yield copy(f"cp_async_{turn}", cache, size, how, short=turn >= 16, ignore=turn >= 40)


def copy(name: str, cache: str, size: int, how: str, short: bool, ignore: bool) -> Program:
    """Each thread copies three cells; after the wait and a barrier its neighbour reads them."""
    threads = 64
    w = Writer()
    source, outside = room(w, name, "global", threads, 48)
    values = [w.input("b64") for _ in range(6)]
    for i, v in enumerate(values):
        w.put(f"st.global.b64 [{source}+{8 * i}], {v};")
    w.put("fence.acq_rel.gpu;", "bar.sync 0;")
    w.put(f".shared .align 16 .b8 {name}_stage[{48 * threads}]; .shared .align 8 .b64 {name}_bar;")
    stage, bar, lane = w.reg("b32"), w.reg("b32"), w.reg("b32")
    first, done = w.reg("pred"), w.reg("pred")
    w.put(
        f"mov.u32 {stage}, {name}_stage;", f"mov.u32 {bar}, {name}_bar;", f"mov.u32 {lane}, %tid.x;"
    )
    w.put(f"mad.lo.u32 {stage}, {lane}, 48, {stage};", f"setp.eq.u32 {first}, {lane}, 0;")
    for i in range(6):
        w.put(f"st.shared.b64 [{stage}+{8 * i}], 0x{0xABCDEF0123456789 + i:x};")
    w.put(f"@{first} mbarrier.init.shared.b64 [{bar}], {threads};", "bar.sync 0;")
    op = f"cp.async.{cache}.shared.global"
    opcodes = [op]
    for i in range(3):
        extra = ""
        if ignore:
            extra = f", {w.input('pred')}"
        elif short:
            extra = f", {w.input(f'u32:0..{size}')}"
        w.put(f"{op} [{stage}+{16 * i}], [{source}+{16 * i}], {size}{extra};")
        if how == "group":
            w.put("cp.async.commit_group;")
    if how == "group":
        opcodes += ["cp.async.commit_group", "cp.async.wait_group"]
        w.put("cp.async.wait_group 1;", "cp.async.wait_group 0;")
    elif how == "all":
        opcodes.append("cp.async.wait_all")
        w.put("cp.async.wait_all;")
    else:
        arrive = "cp.async.mbarrier.arrive" + (".noinc" if how == "noinc" else "") + ".shared.b64"
        opcodes += [arrive, "mbarrier.try_wait.parity.shared.b64"]
        w.put(f"{arrive} [{bar}];")
        if how == "mbarrier":
            w.put(f"{{ .reg .b64 %token; mbarrier.arrive.shared.b64 %token, [{bar}]; }}")
        w.put(
            "WAIT:",
            f"mbarrier.try_wait.parity.shared.b64 {done}, [{bar}], 0;",
            f"@!{done} bra WAIT;",
        )
    w.put("bar.sync 0;", f"xor.b32 {lane}, {lane}, 33;", f"mov.u32 {stage}, {name}_stage;")
    w.put(f"mad.lo.u32 {stage}, {lane}, 48, {stage};")
    for i in range(6):
        got = w.reg("b64")
        w.put(f"ld.shared.b64 {got}, [{stage}+{8 * i}];")
        w.output("b64", got)
    return finish(w, name, "cp_async", opcodes, threads, outside)


def programs() -> Iterator[Program]:
    """All programs of this module."""
    yield from loads_and_stores()
    yield from constants()
    yield from atomics()
    yield from copies()
