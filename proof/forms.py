"""One instruction a program, for every form of every instruction that computes a value.

A form is an opcode and a signature, ``"s32 s32 -> s32"``; its program loads the
operands, executes the instruction once in each of 256 threads, and stores the
result.  Each function below lists one chapter of the PTX ISA's instruction set
(9.7.1 to 9.7.9), as the ISA's own syntax diagrams do: types times modifiers.

Only forms for sm_90a are listed.  What the ISA reserves for other targets
(fp4 and fp6, three-operand ``min``, ``add.f32.f16``, ``f32x2``) cannot be
proved on a Hopper GPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from proof.dice import Dice, Words
from proof.program import Program, Writer, register
from proof.values import edges


@dataclass(frozen=True)
class Form:
    """One opcode with the types of its operands.

    In the signature ``imm:0..255`` is a constant, ``4*b32`` a vector, ``a|b``
    a pair of destinations; a domain after a colon limits what is drawn.
    ``text`` holds the instruction where it is not ``opcode d, a, b, c;``.
    """

    opcode: str
    signature: str
    bound: str = ""
    text: str = ""

    @property
    def operands(self) -> tuple[list[str], list[str]]:
        """The signature's two sides: sources and destinations."""
        left, _, right = self.signature.partition("->")
        return left.split(), right.split()


def _opt(*choices: str) -> list[str]:
    """The empty modifier and each given one."""
    return ["", *choices]


def _join(*words: str) -> str:
    return ".".join(w.strip(".") for w in words if w)


INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
WORDS = ("u32", "s32", "u64", "s64")
ROUNDINGS = ("rn", "rz", "rm", "rp")


def integer() -> Iterator[Form]:
    """Integer arithmetic, PTX ISA 9.7.1."""
    for t in INTEGERS:
        for name in ("add", "sub", "mul.lo", "mul.hi", "min", "max"):
            yield Form(f"{name}.{t}", f"{t} {t} -> {t}")
        yield Form(f"div.{t}", f"{t} {t}:nonzero -> {t}")
        yield Form(f"rem.{t}", f"{t} {t}:nonzero -> {t}")
        for name in ("mad.lo", "mad.hi", "sad"):
            yield Form(f"{name}.{t}", f"{t} {t} {t} -> {t}")
        if t[0] == "s":
            yield Form(f"abs.{t}", f"{t} -> {t}")
            yield Form(f"neg.{t}", f"{t} -> {t}")
    for t, wide in (("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64")):
        yield Form(f"mul.wide.{t}", f"{t} {t} -> {wide}")
        yield Form(f"mad.wide.{t}", f"{t} {t} {wide} -> {wide}")
    yield Form("add.sat.s32", "s32 s32 -> s32")
    yield Form("sub.sat.s32", "s32 s32 -> s32")
    yield Form("mad.hi.sat.s32", "s32 s32 s32 -> s32")
    for t in ("u32", "s32"):
        for half in ("lo", "hi"):
            yield Form(f"mul24.{half}.{t}", f"{t} {t} -> {t}")
            yield Form(f"mad24.{half}.{t}", f"{t} {t} {t} -> {t}")
    yield Form("mad24.hi.sat.s32", "s32 s32 s32 -> s32")
    for t in ("u16x2", "s16x2"):
        for name in ("add", "min", "max"):
            yield Form(f"{name}.{t}", f"{t} {t} -> {t}")
    for name, t in itertools.product(("min", "max"), ("s32", "s16x2")):
        yield Form(f"{name}.relu.{t}", f"{t} {t} -> {t}")
    for t in WORDS:
        c = t
        yield Form(
            f"add.cc.{t}",
            f"{c} {c} {c} {c} -> {c} {c}",
            text=f"add.cc.{t} {{d0}}, {{s0}}, {{s1}}; addc.{t} {{d1}}, {{s2}}, {{s3}};",
        )
        yield Form(
            f"addc.cc.{t}",
            f"{c} {c} {c} {c} -> {c} {c} {c}",
            text=f"add.cc.{t} {{d0}}, {{s0}}, {{s1}}; addc.cc.{t} {{d1}}, {{s2}}, {{s3}}; "
            f"addc.{t} {{d2}}, {{s0}}, {{s3}};",
        )
        yield Form(
            f"addc.{t}",
            f"{c} {c} {c} {c} -> {c} {c}",
            text=f"add.cc.{t} {{d0}}, {{s0}}, {{s1}}; addc.{t} {{d1}}, {{s2}}, {{s3}};",
        )
        yield Form(
            f"sub.cc.{t}",
            f"{c} {c} {c} {c} -> {c} {c}",
            text=f"sub.cc.{t} {{d0}}, {{s0}}, {{s1}}; subc.{t} {{d1}}, {{s2}}, {{s3}};",
        )
        yield Form(
            f"subc.cc.{t}",
            f"{c} {c} {c} {c} -> {c} {c} {c}",
            text=f"sub.cc.{t} {{d0}}, {{s0}}, {{s1}}; subc.cc.{t} {{d1}}, {{s2}}, {{s3}}; "
            f"subc.{t} {{d2}}, {{s0}}, {{s3}};",
        )
        yield Form(
            f"subc.{t}",
            f"{c} {c} {c} {c} -> {c} {c}",
            text=f"sub.cc.{t} {{d0}}, {{s0}}, {{s1}}; subc.{t} {{d1}}, {{s2}}, {{s3}};",
        )
        for half in ("lo", "hi"):
            yield Form(
                f"mad.{half}.cc.{t}",
                f"{c} {c} {c} {c} -> {c} {c}",
                text=f"mad.{half}.cc.{t} {{d0}}, {{s0}}, {{s1}}, {{s2}}; "
                f"addc.{t} {{d1}}, {{s3}}, {{s3}};",
            )
            yield Form(
                f"madc.{half}.{t}",
                f"{c} {c} {c} {c} -> {c} {c}",
                text=f"mad.lo.cc.{t} {{d0}}, {{s0}}, {{s1}}, {{s2}}; "
                f"madc.{half}.{t} {{d1}}, {{s0}}, {{s1}}, {{s3}};",
            )
            yield Form(
                f"madc.{half}.cc.{t}",
                f"{c} {c} {c} {c} -> {c} {c} {c}",
                text=f"mad.lo.cc.{t} {{d0}}, {{s0}}, {{s1}}, {{s2}}; "
                f"madc.{half}.cc.{t} {{d1}}, {{s0}}, {{s1}}, {{s3}}; "
                f"addc.{t} {{d2}}, {{s2}}, {{s3}};",
            )
    for a, b in itertools.product(("u32", "s32"), repeat=2):
        result = "s32" if "s32" in (a, b) else "u32"
        yield Form(f"dp4a.{a}.{b}", f"b32 b32 {result} -> {result}")
        for half in ("lo", "hi"):
            yield Form(f"dp2a.{half}.{a}.{b}", f"b32 b32 {result} -> {result}")


def logic() -> Iterator[Form]:
    """Logic, shifts and bit fields, PTX ISA 9.7.1.14–25, 9.7.8."""
    for t in ("pred", "b16", "b32", "b64"):
        for name in ("and", "or", "xor"):
            yield Form(f"{name}.{t}", f"{t} {t} -> {t}")
        yield Form(f"not.{t}", f"{t} -> {t}")
    for t in ("b16", "b32", "b64"):
        yield Form(f"cnot.{t}", f"{t} -> {t}")
        yield Form(f"shl.{t}", f"{t} u32:0..70 -> {t}")
        yield Form(f"shl.{t}", f"{t} u32 -> {t}")
    for t in ("b16", "b32", "b64", *INTEGERS):
        yield Form(f"shr.{t}", f"{t} u32:0..70 -> {t}")
        yield Form(f"shr.{t}", f"{t} u32 -> {t}")
    for t in ("b32", "b64"):
        for name in ("popc", "clz"):
            yield Form(f"{name}.{t}", f"{t} -> u32")
        yield Form(f"brev.{t}", f"{t} -> {t}")
        yield Form(f"bfi.{t}", f"{t} {t} u32:0..80 u32:0..80 -> {t}")
        yield Form(f"bfi.{t}", f"{t} {t} u32:0..255 u32:0..255 -> {t}")
    for t in WORDS:
        yield Form(f"bfe.{t}", f"{t} u32:0..80 u32:0..80 -> {t}")
        yield Form(f"bfe.{t}", f"{t} u32:0..255 u32:0..255 -> {t}")
        yield Form(f"bfind.{t}", f"{t} -> u32")
        yield Form(f"bfind.shiftamt.{t}", f"{t} -> u32")
    yield Form("fns.b32", "b32 u32:0..31 s32:-33..33 -> b32")
    for mode, t in itertools.product(("clamp", "wrap"), ("u32", "s32")):
        yield Form(f"szext.{mode}.{t}", f"{t} u32:0..40 -> {t}")
    for mode in ("clamp", "wrap"):
        yield Form(f"bmsk.{mode}.b32", "b32:0..40 b32:0..40 -> b32")
        for way in "lr":
            yield Form(f"shf.{way}.{mode}.b32", "b32 b32 u32:0..70 -> b32")
            yield Form(f"shf.{way}.{mode}.b32", "b32 b32 u32 -> b32")
    for table in (0x00, 0x01, 0x1B, 0x80, 0x96, 0xCA, 0xE8, 0xF8, 0xFE, 0xFF):
        yield Form("lop3.b32", f"b32 b32 b32 imm:{table}..{table} -> b32")
    for op in ("and", "or"):
        yield Form(
            f"lop3.{op}.b32",
            "b32 b32 b32 pred -> b32 pred",
            text=f"lop3.{op}.b32 {{d0}}|{{d1}}, {{s0}}, {{s1}}, {{s2}}, 0x96, {{s3}};",
        )
    yield Form("prmt.b32", "b32 b32 b32 -> b32")
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        yield Form(f"prmt.b32.{mode}", "b32 b32 b32 -> b32")


def floating() -> Iterator[Form]:
    """Floating point of 32 and 64 bits, PTX ISA 9.7.3."""
    for name in ("add", "sub", "mul"):
        for rounding, ftz, sat in itertools.product(_opt(*ROUNDINGS), _opt("ftz"), _opt("sat")):
            yield Form(_join(name, rounding, ftz, sat, "f32"), "f32 f32 -> f32")
        for rounding in _opt(*ROUNDINGS):
            yield Form(_join(name, rounding, "f64"), "f64 f64 -> f64")
    for name in ("fma", "mad"):
        for rounding, ftz, sat in itertools.product(ROUNDINGS, _opt("ftz"), _opt("sat")):
            yield Form(_join(name, rounding, ftz, sat, "f32"), "f32 f32 f32 -> f32")
        for rounding in ROUNDINGS:
            yield Form(_join(name, rounding, "f64"), "f64 f64 f64 -> f64")
    for rounding in ROUNDINGS:
        for ftz in _opt("ftz"):
            yield Form(_join("div", rounding, ftz, "f32"), "f32 f32 -> f32")
            yield Form(_join("rcp", rounding, ftz, "f32"), "f32 -> f32")
            yield Form(_join("sqrt", rounding, ftz, "f32"), "f32 -> f32")
        yield Form(f"div.{rounding}.f64", "f64 f64 -> f64")
        yield Form(f"rcp.{rounding}.f64", "f64 -> f64")
        yield Form(f"sqrt.{rounding}.f64", "f64 -> f64")
    for ftz in _opt("ftz"):
        for name in ("abs", "neg"):  # "NaN input yields unspecified NaN", says 9.7.3.9
            yield Form(_join(name, ftz, "f32"), "f32 -> f32", "nan")
        for name, nan, sign in itertools.product(("min", "max"), _opt("NaN"), _opt("xorsign.abs")):
            yield Form(_join(name, ftz, nan, sign, "f32"), "f32 f32 -> f32")
        for full in ("approx", "full"):
            yield Form(_join("div", full, ftz, "f32"), "f32 f32 -> f32", f"div_{full}")
        for name in ("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2"):
            for domain in ("f32", "f32:moderate"):
                yield Form(_join(name, "approx", ftz, "f32"), f"{domain} -> f32", name)
    for domain in ("f32", "f32:moderate"):
        yield Form("tanh.approx.f32", f"{domain} -> f32", "tanh")
    yield Form("rcp.approx.ftz.f64", "f64 -> f64", "rcp64")
    yield Form("rsqrt.approx.ftz.f64", "f64 -> f64", "rsqrt64")
    yield Form("rsqrt.approx.f64", "f64 -> f64", "rsqrt64")
    for name in ("abs", "neg"):
        yield Form(f"{name}.f64", "f64 -> f64")
    for name in ("min", "max"):
        yield Form(f"{name}.f64", "f64 f64 -> f64")
    for t in ("f32", "f64"):
        yield Form(f"copysign.{t}", f"{t} {t} -> {t}")
        for what in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            yield Form(f"testp.{what}.{t}", f"{t} -> pred")


def half() -> Iterator[Form]:
    """Floating point of 16 bits, single and in pairs, PTX ISA 9.7.4."""
    for t in ("f16", "f16x2", "bf16", "bf16x2"):
        brain = t.startswith("b")
        ftzs = _opt() if brain else _opt("ftz")
        for name in ("add", "sub", "mul"):
            for rn, ftz, sat in itertools.product(
                _opt("rn"), ftzs, _opt() if brain else _opt("sat")
            ):
                yield Form(_join(name, rn, ftz, sat, t), f"{t} {t} -> {t}")
        for ftz, extra in itertools.product(ftzs, _opt("relu") if brain else _opt("sat", "relu")):
            yield Form(_join("fma.rn", ftz, extra, t), f"{t} {t} {t} -> {t}")
        for extra in _opt("relu"):
            yield Form(_join("fma.rn.oob", extra, t), f"{t} {t} {t} -> {t}")
        for ftz in ftzs:
            for name in ("abs", "neg"):
                yield Form(_join(name, ftz, t), f"{t} -> {t}")
            for name, nan, sign in itertools.product(
                ("min", "max"), _opt("NaN"), _opt("xorsign.abs")
            ):
                yield Form(_join(name, ftz, nan, sign, t), f"{t} {t} -> {t}")
        yield Form(f"tanh.approx.{t}", f"{t} -> {t}", "tanh")
        yield Form(_join("ex2.approx", "ftz" if brain else "", t), f"{t} -> {t}", "ex2")


EQUAL = ("eq", "ne")
ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
UNSIGNED = (*ORDERED, "lo", "ls", "hi", "hs")
FLOAT = (*ORDERED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


def _comparisons() -> Iterator[tuple[str, str]]:
    """Each comparison with each type that has it."""
    for t in ("b16", "b32", "b64"):
        yield from ((c, t) for c in EQUAL)
    for t in INTEGERS:
        yield from ((c, t) for c in (UNSIGNED if t[0] == "u" else ORDERED))
    for t in ("f32", "f64"):
        yield from ((c, t) for c in FLOAT)


def compare() -> Iterator[Form]:
    """Comparison and selection, PTX ISA 9.7.6 and 9.7.7."""
    for c, t in _comparisons():
        for ftz in _opt("ftz") if t == "f32" else _opt():
            yield Form(_join("setp", c, ftz, t), f"{t} {t} -> pred")
    for (c, t), op in itertools.product(
        (("lt", "s32"), ("eq", "b64"), ("hi", "u16"), ("ltu", "f32"), ("num", "f64")),
        ("and", "or", "xor"),
    ):
        name = f"setp.{c}.{op}.{t}"
        yield Form(
            name,
            f"{t} {t} pred -> pred pred",
            text=f"{name} {{d0}}|{{d1}}, {{s0}}, {{s1}}, {{s2}};",
        )
        yield Form(name, f"{t} {t} pred -> pred", text=f"{name} {{d0}}, {{s0}}, {{s1}}, !{{s2}};")
    yield Form("setp.ge.s32", "s32 s32 -> pred pred", text="setp.ge.s32 {d0}|{d1}, {s0}, {s1};")
    for (c, t), d in itertools.product(_comparisons(), ("u32", "s32", "f32")):
        for ftz in _opt("ftz") if t == "f32" else _opt():
            yield Form(_join("set", c, ftz, d, t), f"{t} {t} -> {d}")
    for op in ("and", "or", "xor"):
        yield Form(f"set.lt.{op}.u32.s32", "s32 s32 pred -> u32")
        yield Form(f"set.gtu.{op}.f32.f32", "f32 f32 pred -> f32")
    for t in ("f16", "bf16"):
        for c, ftz in itertools.product(FLOAT, _opt("ftz") if t == "f16" else _opt()):
            yield Form(_join("setp", c, ftz, t), f"{t} {t} -> pred")
            name = _join("setp", c, ftz, f"{t}x2")
            yield Form(
                name, f"{t}x2 {t}x2 -> pred pred", text=f"{name} {{d0}}|{{d1}}, {{s0}}, {{s1}};"
            )
            for d in (t, "u16", "s16", "u32", "s32"):
                yield Form(_join("set", c, ftz, d, t), f"{t} {t} -> {d}")
            for d in (f"{t}x2", "u32", "s32"):
                yield Form(_join("set", c, ftz, d, f"{t}x2"), f"{t}x2 {t}x2 -> {d}")
        name = f"setp.lt.and.{t}x2"
        yield Form(
            name,
            f"{t}x2 {t}x2 pred -> pred pred",
            text=f"{name} {{d0}}|{{d1}}, {{s0}}, {{s1}}, {{s2}};",
        )
    for t in ("b16", "b32", "b64", *INTEGERS, "f32", "f64"):
        yield Form(f"selp.{t}", f"{t} {t} pred -> {t}")
        yield Form(f"slct.{t}.s32", f"{t} {t} s32 -> {t}")
        for ftz in _opt("ftz"):
            yield Form(_join("slct", ftz, t, "f32"), f"{t} {t} f32 -> {t}")


def _holds(wide: str, narrow: str) -> bool:
    """Whether an integer type holds every value of another, so that ``.sat`` is not allowed."""
    more = int(wide[1:]) - int(narrow[1:])
    return more >= 0 if wide[0] == narrow[0] else wide[0] == "s" and more > 0


def convert() -> Iterator[Form]:
    """Conversions, PTX ISA 9.7.9.21 and following."""
    every = ("u8", "s8", *INTEGERS)
    for d, s in itertools.product(every, every):
        for sat in _opt() if _holds(d, s) else _opt("sat"):
            yield Form(_join("cvt", sat, d, s), f"{s} -> {d if d[1:] != '8' else 'b32'}")
    for s in every:
        for d, rounding in itertools.product(("f16", "bf16", "f32", "f64"), ROUNDINGS):
            if d != "bf16" or s[1:] != "8":
                yield Form(f"cvt.{rounding}.{d}.{s}", f"{s} -> {d}")
        yield Form(f"cvt.rn.sat.f32.{s}", f"{s} -> f32")
    for d, s, rounding in itertools.product(
        every, ("f16", "bf16", "f32", "f64"), ("rni", "rzi", "rmi", "rpi")
    ):
        if s == "bf16" and d[1:] == "8":
            continue
        for ftz, sat in itertools.product(
            _opt("ftz") if s == "f32" else _opt(), _opt() if s == "bf16" else _opt("sat")
        ):
            yield Form(
                _join("cvt", rounding, ftz, sat, d, s), f"{s} -> {d if d[1:] != '8' else 'b32'}"
            )
    for t, rounding in itertools.product(
        ("f32", "f64", "f16", "bf16"), ("rni", "rzi", "rmi", "rpi")
    ):
        for ftz, sat in itertools.product(
            _opt("ftz") if t == "f32" else _opt(), _opt() if t == "bf16" else _opt("sat")
        ):
            yield Form(_join("cvt", rounding, ftz, sat, t, t), f"{t} -> {t}")
    for ftz in _opt("ftz"):
        yield Form(_join("cvt", ftz, "sat.f32.f32"), "f32 -> f32")
        yield Form(_join("cvt", ftz, "f32.f32"), "f32 -> f32")
        yield Form(_join("cvt", ftz, "f64.f32"), "f32 -> f64")
        yield Form(_join("cvt", ftz, "sat.f64.f32"), "f32 -> f64")
        yield Form(_join("cvt", ftz, "f32.f16"), "f16 -> f32")
        yield Form(_join("cvt", ftz, "sat.f32.f16"), "f16 -> f32")
        for rounding, sat in itertools.product(ROUNDINGS, _opt("sat")):
            yield Form(_join("cvt", rounding, ftz, sat, "f32.f64"), "f64 -> f32")
            yield Form(_join("cvt", rounding, ftz, sat, "f16.f32"), "f32 -> f16")
    yield Form("cvt.sat.f64.f64", "f64 -> f64")
    yield Form("cvt.f64.f16", "f16 -> f64")
    yield Form("cvt.f32.bf16", "bf16 -> f32")
    yield Form("cvt.f64.bf16", "bf16 -> f64")
    yield Form("cvt.rn.bf16.f16", "f16 -> bf16")
    for rounding in ROUNDINGS:
        yield Form(f"cvt.{rounding}.f16.f64", "f64 -> f16")
        yield Form(f"cvt.{rounding}.bf16.f64", "f64 -> bf16")
        yield Form(f"cvt.{rounding}.f16.bf16", "bf16 -> f16")
        yield Form(f"cvt.{rounding}.bf16.f32", "f32 -> bf16")
    for rounding, relu in itertools.product(("rn", "rz"), _opt("relu")):
        for sat in _opt("satfinite"):
            for t in ("f16", "bf16"):
                yield Form(_join("cvt", rounding, relu, sat, t, "f32"), "f32 -> " + t)
                yield Form(_join("cvt", rounding, relu, sat, f"{t}x2", "f32"), f"f32 f32 -> {t}x2")
        yield Form(_join("cvt", rounding, relu, "tf32.f32"), "f32 -> b32")
    yield Form("cvt.rna.tf32.f32", "f32 -> b32")
    yield Form("cvt.rna.satfinite.tf32.f32", "f32 -> b32")
    for t, relu in itertools.product(("e4m3x2", "e5m2x2"), _opt("relu")):
        yield Form(_join("cvt.rn.satfinite", relu, t, "f32"), "f32 f32 -> b16")
        yield Form(_join("cvt.rn.satfinite", relu, t, "f16x2"), "f16x2 -> b16")
        yield Form(_join("cvt.rn", relu, "f16x2", t), "b16 -> f16x2")
    for t in ("u16", "s16"):
        yield Form(f"cvt.pack.sat.{t}.s32", "s32 s32 -> b32")
    for t in ("u8", "s8", "u4", "s4", "u2", "s2"):
        yield Form(f"cvt.pack.sat.{t}.s32.b32", "s32 s32 b32 -> b32")


def move() -> Iterator[Form]:
    """Moves, packing and unpacking, PTX ISA 9.7.9.1–7."""
    for t in ("b16", "b32", "b64", *INTEGERS, "f32", "f64", "pred"):
        yield Form(f"mov.{t}", f"{t} -> {t}")
    for whole, part, n in (("b32", "b16", 2), ("b64", "b32", 2), ("b64", "b16", 4)):
        yield Form(f"mov.{whole}", f"{n}*{part} -> {whole}")
        yield Form(f"mov.{whole}", f"{whole} -> {n}*{part}")
    yield Form(
        "mov.b128",
        "2*b64 -> 2*b64",
        text="{{ .reg .b128 %q; mov.b128 %q, {s0}; mov.b128 {d0}, %q; }}",
    )


MISCOMPILED = ("set", "testp")
"""Instructions that the assembler gets wrong under a predicate."""

FAMILIES = {
    "integer": integer, "logic": logic, "floating": floating, "half": half,
    "compare": compare, "convert": convert, "move": move,
}  # fmt: skip


def _immediate(kind: str, dice: Dice) -> str:
    """A constant operand of a type, written as PTX writes it."""
    kind, _, domain = kind.partition(":")
    if ".." in domain:
        low, high = (int(x) for x in domain.split(".."))
        return str(dice.between(low, high))
    bits = dice.choice(edges(kind))
    if domain == "nonzero":
        bits = bits or 3
    if kind == "f32":
        return f"0f{bits:08X}"
    if kind == "f64":
        return f"0d{bits:016X}"
    return hex(bits)


def instruction(form: Form, w: Writer, dice: Dice, style: str) -> None:
    """Write a form's operands, the instruction and its answers.

    ``style`` is ``plain``, ``immediate`` (the last operand is a constant) or
    ``guarded`` (under a predicate; elsewhere the destinations keep what they held).

    """
    sources, dests = form.operands
    text, names = form.text, {}
    guard = w.input("pred") if style == "guarded" else ""
    last = max((i for i, s in enumerate(sources) if "*" not in s), default=-1)
    operands: list[str] = []
    for i, kind in enumerate(sources):
        count, star, part = kind.partition("*")
        if star:
            operands.append("{" + ", ".join(w.input(part) for _ in range(int(count))) + "}")
        elif kind.startswith("imm") or (style == "immediate" and i == last):
            operands.append(_immediate(kind, dice))
        else:
            operands.append(w.input(kind))
        names[f"s{i}"] = operands[-1]
    results: list[tuple[str, str]] = []
    targets: list[str] = []
    for i, kind in enumerate(dests):
        count, star, part = kind.partition("*")
        if star:
            parts = [(part, w.reg(part)) for _ in range(int(count))]
            results += parts
            targets.append("{" + ", ".join(r for _, r in parts) + "}")
        else:
            results.append((kind, w.reg(kind)))
            targets.append(results[-1][1])
        names[f"d{i}"] = targets[-1]
    line = text.format(**names) if text else f"{form.opcode} {', '.join(targets + operands)};"
    if guard:
        for kind, r in results:
            before = w.input(kind)
            bits = register(kind)
            w.put(f"mov.{bits} {r}, {before};")
        line = f"@{dice.choice(['', '!'])}{guard} {line}"
    w.put(line)
    for kind, r in results:
        w.output(kind, r)


def styles(form: Form) -> Iterator[str]:
    """The ways in which a form is tried.

    ``set`` and ``testp`` are not tried under a predicate: ptxas 13.0.88 gets them
    wrong.  ``@p set.f32.s32 d, a, b`` converts what d held to a float where p is
    false, and ``@p testp`` is executed whatever p says.
    """
    yield "plain"
    sources, _ = form.operands
    last = sources[-1] if sources else ""
    simple = not form.text and "*" not in form.signature and "imm" not in form.signature
    if simple:
        if form.opcode.partition(".")[0] not in MISCOMPILED:
            yield "guarded"
        kind = last.partition(":")[0]
        if last == "u32" and form.opcode[:3] in ("shl", "shr", "shf"):
            return  # the assembler cuts such a constant to 16 bits
        if len(sources) > 1 and kind in (*INTEGERS, "b16", "b32", "b64", "f32", "f64"):
            yield "immediate"


def exhaustive() -> Iterator[tuple[str, Form]]:
    """The forms with one operand of 16 bits: all 65,536 values can be tried."""
    done = set()
    for family, forms in FAMILIES.items():
        for form in forms():
            sources, _ = form.operands
            if len(sources) == 1 and form.opcode not in done and (
                sources[0] in ("f16", "bf16") or (form.opcode.startswith("cvt.rn")
                and form.opcode.endswith(("e4m3x2", "e5m2x2")))
            ):  # fmt: skip
                done.add(form.opcode)
                yield family, form


def _all_16_bits(lanes: int, dice: Dice) -> list[Words]:
    return [np.arange(lanes, dtype=np.uint64)]


def _first_operand_16_bits(lanes: int, dice: Dice) -> list[Words]:
    rest = [np.full(lanes, 0x3C00, np.uint64), np.full(lanes, 0x4200, np.uint64)]
    return [*_all_16_bits(lanes, dice), *rest]


def programs() -> Iterator[Program]:
    """Every form in every style, one program each; and the exhaustive ones."""
    for kind in ("f16", "bf16"):  # one NaN of 65,536 patterns marks what is out of bounds
        name, opcode = f"fma_oob_{kind}_all", f"fma.rn.oob.{kind}"
        w = Writer()
        instruction(Form(opcode, f"{kind} {kind} {kind} -> {kind}"), w, Dice(name), "plain")
        yield Program(
            name, w.entry(name, 1 << 16), tuple(w.inputs), tuple(w.outputs), (opcode,), "half",
            blocks=256, fill=_first_operand_16_bits,
        )  # fmt: skip
    for family, form in exhaustive():
        name = form.opcode.replace(".", "_") + "_all"
        w = Writer()
        instruction(form, w, Dice(name), "plain")
        yield Program(
            name, w.entry(name, 1 << 16), tuple(w.inputs), tuple(w.outputs), (form.opcode,),
            family, blocks=256, bound=form.bound, fill=_all_16_bits,
        )  # fmt: skip
    seen: dict[str, int] = {}
    for family, forms in FAMILIES.items():
        for form in forms():
            for style in styles(form):
                base = f"{form.opcode}.{style}".replace(".", "_")
                seen[base] = seen.get(base, 0) + 1
                name = f"{base}_{seen[base]}"
                w = Writer()
                instruction(form, w, Dice(name + "/text"), style)
                yield Program(
                    name, w.entry(name, 256), tuple(w.inputs), tuple(w.outputs),
                    (form.opcode,), family, bound=form.bound,
                )  # fmt: skip
