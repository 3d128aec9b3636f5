"""Tensor cores and the loads that feed them.

Fragments are given to ``mma`` as registers straight from the inputs, so a
layout read wrong shows at once.  On whole numbers small enough every order of
summation gives the same answer, which must then be equal bit for bit; on random
floats the PTX ISA leaves order and rounding open, and answers are compared
within what a sum of that length may lose.

PTX ISA 9.7.14.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from proof.dice import Dice, Words
from proof.memory import finish
from proof.program import Program, Writer
from proof.values import moderate

# shape, types of D A B C, registers of D A B C
MMA: list[tuple[str, str, tuple[int, int, int, int]]] = [
    ("m16n8k8", "f32.f16.f16.f32", (4, 2, 1, 4)),
    ("m16n8k8", "f16.f16.f16.f16", (2, 2, 1, 2)),
    ("m16n8k8", "f32.bf16.bf16.f32", (4, 2, 1, 4)),
    ("m16n8k16", "f32.f16.f16.f32", (4, 4, 2, 4)),
    ("m16n8k16", "f16.f16.f16.f16", (2, 4, 2, 2)),
    ("m16n8k16", "f32.bf16.bf16.f32", (4, 4, 2, 4)),
    ("m16n8k4", "f32.tf32.tf32.f32", (4, 2, 1, 4)),
    ("m16n8k8", "f32.tf32.tf32.f32", (4, 4, 2, 4)),
    ("m8n8k4", "f64.f64.f64.f64", (2, 1, 1, 2)),
    ("m16n8k4", "f64.f64.f64.f64", (4, 2, 1, 4)),
    ("m16n8k8", "f64.f64.f64.f64", (4, 4, 2, 4)),
    ("m16n8k16", "f64.f64.f64.f64", (4, 8, 4, 4)),
    *(
        (shape, f"s32.{a}.{b}.s32", registers)
        for shape, registers, width in (
            ("m8n8k16", (2, 1, 1, 2), "8"), ("m16n8k16", (4, 2, 1, 4), "8"),
            ("m16n8k32", (4, 4, 2, 4), "8"), ("m8n8k32", (2, 1, 1, 2), "4"),
            ("m16n8k32", (4, 2, 1, 4), "4"), ("m16n8k64", (4, 4, 2, 4), "4"),
        )
        for a in ("s" + width, "u" + width)
        for b in ("s" + width, "u" + width)
    ),
    *(
        (shape, f"{d}.{a}.{b}.{d}", (2 if d == "f16" else 4, r[1], r[2], 2 if d == "f16" else 4))
        for shape, r in (("m16n8k32", (4, 4, 2, 4)), ("m16n8k16", (4, 2, 1, 4)))
        for d in ("f32", "f16")
        for a in ("e4m3", "e5m2")
        for b in ("e4m3", "e5m2")
    ),
]  # fmt: skip
"""Dense ``mma.sync`` shapes of sm_90a with row.col operands."""


def _whole(kind: str, count: int, limit: int, dice: Dice) -> Words:
    """Registers that hold small whole numbers in a format."""
    packed = {"f16": 2, "bf16": 2, "e4m3": 4, "e5m2": 4}.get(kind, 1)
    out = np.zeros(count, np.uint64)
    for i in range(packed):
        n = (dice.words(count) % np.uint64(2 * limit + 1)).astype(np.int64) - limit
        f = n.astype(np.float32).view(np.uint32)
        if kind == "f16":
            bits = n.astype(np.float16).view(np.uint16).astype(np.uint64)
        elif kind == "bf16":
            bits = (f >> np.uint32(16)).astype(np.uint64)
        elif kind == "f64":
            bits = n.astype(np.float64).view(np.uint64)
        elif kind == "e5m2":
            bits = (n.astype(np.float16).view(np.uint16) >> np.uint16(8)).astype(np.uint64)
        elif kind == "e4m3":
            table = np.array([0, 0x38, 0x40, 0x44, 0x48], np.uint64)
            bits = table[np.abs(n)] | (np.uint64(0x80) * (n < 0).astype(np.uint64))
        else:
            bits = f.astype(np.uint64)
        out |= bits << np.uint64(i * (32 // packed if kind != "f64" else 0))
    return out


def _random(kind: str, count: int, dice: Dice) -> Words:
    """Registers that hold random floats of moderate size in a format."""
    words = dice.words(count)
    if kind in ("f16", "bf16"):
        return moderate(kind, words, 3) | moderate(kind, dice.words(count), 3) << np.uint64(16)
    if kind in ("tf32", "f32"):
        return moderate("f32", words, 3)
    if kind == "f64":
        return moderate("f64", words, 3)
    if kind == "e4m3":
        return (words & np.uint64(0x8F8F8F8F)) | np.uint64(0x30303030)
    if kind == "e5m2":
        return (words & np.uint64(0x87878787)) | np.uint64(0x38383838)
    return words & np.uint64(0xFFFFFFFF)


def _fill(lanes: int, dice: Dice, kinds: str, counts: tuple[int, ...], exact: bool) -> list[Words]:
    """The fragments A, B and C."""
    _, a, b, c = kinds.split(".")
    rows: list[Words] = []
    for kind, n in zip((a, b, c), counts[1:], strict=True):
        for _ in range(n):
            integer = kind[0] in "su" or kind == "b1"
            if integer or not exact:
                rows.append(_random(kind, lanes, dice))
            else:
                rows.append(_whole(kind, lanes, 4, dice))
    return rows


def mma(
    name: str, opcode: str, kinds: str, counts: tuple[int, int, int, int], exact: bool
) -> Program:
    """One ``mma.sync`` by each of two warps."""
    w = Writer()
    wide = "b64" if kinds.startswith("f64") else "b32"
    groups = [[w.input(wide) for _ in range(n)] for n in counts[1:]]
    d = [w.reg(wide) for _ in range(counts[0])]
    operands = ["{" + ", ".join(g) + "}" for g in (d, *groups)]
    w.put(f"{opcode} {', '.join(operands)};")
    result = kinds.split(".")[0]
    for r in d:
        w.output({"f16": "f16x2", "s32": "b32"}.get(result, result), r)
    bound = "" if exact or result in ("s32",) else "mma"
    fill = functools.partial(_fill, kinds=kinds, counts=counts, exact=exact)
    return finish(w, name, "matrix", [opcode], 64, fill=fill, bound=bound)


def products() -> Iterator[Program]:
    """Every shape and type, on whole numbers and on random ones."""
    for shape, kinds, counts in MMA:
        opcode = f"mma.sync.aligned.{shape}.row.col.{kinds}"
        integer = kinds.startswith("s32")
        for turn in range(6):
            if integer and turn % 2:
                spelled = opcode.replace("s32.", "satfinite.s32.", 1)
            else:
                spelled = opcode
            name = f"mma_{shape}_{kinds.replace('.', '_')}_{turn}"
            yield mma(name, spelled, kinds, counts, turn < 3)
    for shape, counts in (("m8n8k128", (2, 1, 1, 2)), ("m16n8k128", (4, 2, 1, 4)),
                          ("m16n8k256", (4, 4, 2, 4))):  # fmt: skip
        for op in ("xor.popc", "and.popc"):
            opcode = f"mma.sync.aligned.{shape}.row.col.s32.b1.b1.s32.{op}"
            yield mma(f"mma_{shape}_b1_{op[:3]}", opcode, "s32.b1.b1.s32", counts, True)


def moves(turn: int) -> Iterator[Program]:
    """``ldmatrix``, ``stmatrix`` and ``movmatrix``: rows at addresses of the lanes' choosing."""
    for n in (1, 2, 4):
        for trans in ("", ".trans"):
            for opcode in (f"ldmatrix.sync.aligned.m8n8.x{n}{trans}.shared.b16",
                           f"stmatrix.sync.aligned.m8n8.x{n}{trans}.shared.b16"):  # fmt: skip
                name = f"{opcode[:8]}_x{n}{trans.replace('.', '_')}_{turn}"
                dice, w = Dice(name + "/text"), Writer()
                words = [w.input("b32") for _ in range(4)]
                w.put(
                    ".shared .align 16 .b8 tile[512]; .reg .b32 %mine, %row;",
                    "mov.u32 %mine, tile;",
                )
                w.put("mad.lo.u32 %mine, %i, 16, %mine;")
                w.put(f"st.shared.v4.b32 [%mine], {{{', '.join(words)}}};", "bar.sync 0;")
                odd, shift = 2 * dice.below(16) + 1, dice.below(32)
                w.put(f"mad.lo.u32 %row, %i, {odd}, {shift};", "and.b32 %row, %row, 31;")
                w.put("mov.u32 %mine, tile;", "mad.lo.u32 %row, %row, 16, %mine;")
                got = [w.reg("b32") for _ in range(n)]
                if opcode.startswith("ld"):
                    w.put(f"{opcode} {{{', '.join(got)}}}, [%row];")
                else:
                    w.put(f"{opcode} [%row], {{{', '.join(words[:n])}}};", "bar.sync 0;")
                    got = [w.reg("b32") for _ in range(4)]
                    w.put("mad.lo.u32 %mine, %i, 16, %mine;")
                    w.put(f"ld.shared.v4.b32 {{{', '.join(got)}}}, [%mine];")
                for r in got:
                    w.output("b32", r)
                yield finish(w, name, "matrix", [opcode], 32)
    w = Writer()
    x, y = w.input("b32"), w.reg("b32")
    w.put(f"movmatrix.sync.aligned.m8n8.trans.b16 {y}, {x};")
    w.output("b32", y)
    yield finish(w, f"movmatrix_{turn}", "matrix", ["movmatrix.sync.aligned.m8n8.trans.b16"], 64)


WMMA = [("m16n16k16", "f16", d, c) for d in ("f32", "f16") for c in ("f32", "f16")] + [
    ("m32n8k16", "f16", "f32", "f32"), ("m8n32k16", "f16", "f16", "f16"),
    ("m16n16k16", "bf16", "f32", "f32"), ("m16n16k8", "tf32", "f32", "f32"),
    ("m16n16k16", "s8", "s32", "s32"), ("m16n16k16", "u8", "s32", "s32"),
    ("m8n8k4", "f64", "f64", "f64"),
]  # fmt: skip


def wmma(
    name: str, shape: str, ab: str, d: str, c: str, rows: tuple[str, str, str, str]
) -> Program:
    """``wmma`` load, multiply and store; fragments' layouts are unspecified, the product is not."""
    m, n, k = (int(x) for x in shape[1:].replace("n", " ").replace("k", " ").split())
    la, lb, lc, ld = rows
    size = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "s32": 4, "s8": 1, "u8": 1, "f64": 8}
    w = Writer()
    regs = {"f16": 8, "bf16": 4, "tf32": 4, "s8": 2, "u8": 2, "f64": 1}[ab]
    ra = rb = regs
    if shape == "m32n8k16":
        ra, rb = (8, 8) if ab == "f16" else (8, 2)
    acc = {"f32": 8, "f16": 4, "s32": 8, "f64": 2}
    wide = "b64" if ab == "f64" else "b32"
    spaces = {"a": (m * k, ab), "b": (k * n, ab), "c": (m * n, c), "d": (m * n, d)}
    for space, (count, kind) in spaces.items():
        total = count * size[kind]
        w.put(f".shared .align 32 .b8 t{space}[{total}]; .reg .b32 %{space}, %o{space};")
        w.put(f"mov.u32 %{space}, t{space};", f"mad.lo.u32 %o{space}, %i, {total // 32}, %{space};")
        if space == "d":
            continue
        for at in range(0, total // 32, min((wide == "b64" and 8) or 4, total // 32)):
            x = w.input("b64" if wide == "b64" else "b32")
            w.put(f"st.shared.{'b64' if wide == 'b64' else 'b32'} [%o{space}+{at}], {x};")
    w.put("bar.sync 0;")
    frags = {s: [w.reg(wide) for _ in range(r)] for s, r in
             (("a", ra), ("b", rb), ("c", acc[c]), ("d", acc[d]))}  # fmt: skip
    text = {s: "{" + ", ".join(r) + "}" for s, r in frags.items()}
    lead = {"a": k if la == "row" else m, "b": n if lb == "row" else k,
            "c": n if lc == "row" else m, "d": n if ld == "row" else m}  # fmt: skip
    ops = []
    for s, layout, kind in (("a", la, ab), ("b", lb, ab), ("c", lc, c)):
        ops.append(f"wmma.load.{s}.sync.aligned.{layout}.{shape}.shared.{kind}")
        w.put(f"{ops[-1]} {text[s]}, [%{s}], {lead[s]};")
    kinds = f"{d}.{c}" if ab == "f16" else f"{d}.{ab}.{ab}.{c}"
    rn = ".rn" if ab == "f64" else ""
    ops.append(f"wmma.mma.sync.aligned.{la}.{lb}.{shape}{rn}.{kinds}")
    w.put(f"{ops[-1]} {text['d']}, {text['a']}, {text['b']}, {text['c']};")
    ops.append(f"wmma.store.d.sync.aligned.{ld}.{shape}.shared.{d}")
    w.put(f"{ops[-1]} [%d], {text['d']}, {lead['d']};", "bar.sync 0;")
    step = 8 if wide == "b64" else 4
    for at in range(0, m * n * size[d] // 32, step):
        got = w.reg(wide)
        w.put(f"ld.shared.{wide} {got}, [%od+{at}];")
        w.output(wide, got)
    kinds_in = [kind for s, (count, kind) in spaces.items() if s != "d"
                for _ in range(max(1, count * size[kind] // 32 // step))]  # fmt: skip
    fill = functools.partial(_fragments, kinds=tuple(kinds_in))
    return finish(w, name, "matrix", ops, 32, fill=fill)


def _fragments(lanes: int, dice: Dice, kinds: tuple[str, ...]) -> list[Words]:
    rows = []
    for kind in kinds:
        integer = kind in ("s8", "u8", "s32")
        rows.append(_random(kind, lanes, dice) if integer else _whole(kind, lanes, 4, dice))
    return rows


def wmmas() -> Iterator[Program]:
    """Each ``wmma`` shape with each combination of layouts."""
    for i, (shape, ab, d, c) in enumerate(WMMA):
        for turn, rows in enumerate((("row", "col", "row", "row"), ("col", "row", "row", "col"),
                                     ("row", "row", "col", "row"),
                                     ("col", "col", "col", "col"))):  # fmt: skip
            yield wmma(f"wmma_{i}_{turn}", shape, ab, d, c, rows)


def programs() -> Iterator[Program]:
    """All programs of this module."""
    yield from products()
    for turn in range(4):
        yield from moves(turn)
    yield from wmmas()
