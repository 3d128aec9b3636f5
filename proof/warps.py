"""What the threads of a warp do together, also when some are elsewhere.

Each program splits its warps by a random member mask: the members execute the
instruction in one branch, the others in another with the complementary mask, or
not at all.

PTX ISA 9.7.9.6 (shfl.sync) and 9.7.13.9 to 9.7.13.15.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from proof.dice import Dice, Words
from proof.memory import finish
from proof.program import Program, Writer

FULL = 0xFFFFFFFF


def _few(lanes: int, dice: Dice, kinds: tuple[str, ...]) -> list[Words]:
    """Inputs of few distinct values, so that matches and votes are not all alike."""
    few = dice.words(3)
    rows = []
    for kind in kinds:
        pick = dice.words(lanes)
        if kind == "pred":
            rows.append(pick % np.uint64(4) != 0)
        else:
            rows.append(few[pick % np.uint64(1 + dice.below(3))])
    return [np.asarray(r, np.uint64) for r in rows]


def split(
    name: str, line: str, sources: tuple[str, ...], dests: tuple[str, ...], few: bool
) -> Program:
    """``line`` executed by the members of a mask, and by the rest with theirs.

    ``{m}`` in the line is the mask, ``{s0}…`` and ``{d0}…`` its operands.
    """
    dice = Dice(name + "/text")
    w = Writer()
    mask = dice.choice((FULL, FULL, *(int(x) & FULL for x in dice.words(3)), 1 << dice.below(32),
                        0xFFFF, 0xFFFF0000, 0x55555555))  # fmt: skip
    names = {f"s{i}": w.input(k) for i, k in enumerate(sources)}
    targets = [w.reg(k) for k in dests]
    names |= {f"d{i}": r for i, r in enumerate(targets)}
    for k, r in zip(dests, targets, strict=True):
        w.put(f"setp.ne.b32 {r}, 0, 0;" if k == "pred" else f"mov.{w_bits(k)} {r}, 99;")
    inside, lane, bit = w.reg("pred"), w.reg("b32"), w.reg("b32")
    m, rest = w.reg("b32"), w.reg("b32")
    both = dice.chance(60) and mask != FULL
    w.put(
        f"mov.u32 {lane}, %laneid;", f"mov.b32 {m}, 0x{mask:x};", f"not.b32 {rest}, {m};",
        f"shr.u32 {bit}, {m}, {lane};", f"and.b32 {bit}, {bit}, 1;",
        f"setp.ne.b32 {inside}, {bit}, 0;",
        f"@!{inside} bra OTHERS;", line.format(m=m, **names), "bra.uni TOGETHER;", "OTHERS:",
    )  # fmt: skip
    if both:
        w.put(line.format(m=rest, **names))
    w.put("TOGETHER:")
    for k, r in zip(dests, targets, strict=True):
        w.output(k, r)
    fill = functools.partial(_few, kinds=sources) if few else None
    opcode = line.split()[0]
    return finish(w, name, "warp", [opcode, "bra", "bra.uni"], 64, fill=fill)


def meeting(name: str) -> Program:
    """The halves of a warp, in branches of their own, exchange words by ``bar.warp.sync``."""
    dice = Dice(name + "/text")
    w = Writer()
    x, mine, other, low = w.input("b32"), w.reg("b32"), w.reg("b32"), w.reg("pred")
    w.put(".shared .align 4 .b8 cells[256];", f"mov.u32 {mine}, cells;")
    w.put(
        f"xor.b32 {other}, %i, {dice.between(1, 15)};", f"mad.lo.u32 {other}, {other}, 4, {mine};"
    )
    w.put(f"mad.lo.u32 {mine}, %i, 4, {mine};")
    r = w.reg("b32")
    w.put(f"and.b32 {r}, %i, 16;", f"setp.eq.u32 {low}, {r}, 0;", f"@!{low} bra HIGH;")
    for mask in ("0x0000FFFF", "0xFFFF0000"):
        w.put("HIGH:" if mask[2] == "F" else "", f"st.shared.b32 [{mine}], {x};")
        w.put(f"bar.warp.sync {mask};", f"ld.shared.b32 {r}, [{other}];", f"bar.warp.sync {mask};")
        w.put(f"mad.lo.u32 {x}, {r}, 31, {x};", "bra MET;" if mask[2] == "0" else "MET:")
    w.output("b32", x)
    return finish(w, name, "warp", ["bar.warp.sync"], 64)


def w_bits(kind: str) -> str:
    """The move's type for a destination."""
    return {"b64": "b64"}.get(kind, "b32")


def collectives() -> Iterator[Program]:
    """Shuffles, votes, matches, reductions."""
    for turn in range(40):
        for how in ("up", "down", "bfly", "idx"):
            name = f"shfl_{how}_{turn}"
            dice = Dice(name)
            clamp = 0 if how == "up" else 31
            clamp = (
                dice.choice((clamp, clamp, dice.below(32)))
                | dice.choice((0, 0x10, 0x18, 0x1C, 0x1E)) << 8
            )
            by = dice.choice(("{s1}", "{s1}", str(dice.below(32)), str(1 << dice.below(5))))
            clamps = f"0x{clamp:x}" if dice.chance(70) else "{s2}"
            line = f"shfl.sync.{how}.b32 {{d0}}|{{d1}}, {{s0}}, {by}, {clamps}, {{m}};"
            yield split(name, line, ("b32", "u32:0..40", "u32:0..8191"), ("b32", "pred"), False)
    for turn in range(24):
        for how in ("all", "any", "uni"):
            bang = "!" if turn % 3 == 2 else ""
            yield split(f"vote_{how}_{turn}", f"vote.sync.{how}.pred {{d0}}, {bang}{{s0}}, {{m}};",
                        ("pred",), ("pred",), True)  # fmt: skip
        yield split(f"vote_ballot_{turn}", "vote.sync.ballot.b32 {d0}, {s0}, {m};",
                    ("pred",), ("b32",), turn % 2 == 0)  # fmt: skip
        for kind in ("b32", "b64"):
            yield split(f"match_any_{kind}_{turn}", f"match.any.sync.{kind} {{d0}}, {{s0}}, {{m}};",
                        (kind,), ("b32",), turn % 4 != 0)  # fmt: skip
            yield split(f"match_all_{kind}_{turn}",
                        f"match.all.sync.{kind} {{d0}}|{{d1}}, {{s0}}, {{m}};",
                        (kind,), ("b32", "pred"), True)  # fmt: skip
        for op in ("add", "min", "max"):
            for kind in ("u32", "s32"):
                yield split(f"redux_{op}_{kind}_{turn}",
                            f"redux.sync.{op}.{kind} {{d0}}, {{s0}}, {{m}};",
                            (kind,), ("b32",), False)  # fmt: skip
        for op in ("and", "or", "xor"):
            yield split(f"redux_{op}_{turn}", f"redux.sync.{op}.b32 {{d0}}, {{s0}}, {{m}};",
                        ("b32",), ("b32",), False)  # fmt: skip
        yield split(f"elect_{turn}", "elect.sync {d0}|{d1}, {m};", (), ("b32", "pred"), False)
        yield meeting(f"warp_sync_{turn}")


SPECIAL = [
    *(f"{r}.{c}" for r in ("tid", "ntid", "ctaid", "nctaid") for c in "xyz"),
    "laneid", "nwarpid", "lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt",
    *(f"{r}.{c}" for r in ("cluster_ctaid", "cluster_nctaid") for c in "xyz"),
    *(f"{r}.{c}" for r in ("clusterid", "nclusterid") for c in "xyz"),
    "cluster_ctarank", "cluster_nctarank", "dynamic_smem_size",
]  # fmt: skip
"""Special registers whose value a launch and the GPU determine."""


def special() -> Iterator[Program]:
    """Special registers, clocks that only go forward, fences and hints that do nothing."""
    for register in SPECIAL:
        name = "special_" + register.replace(".", "_")
        w = Writer()
        r = w.reg("b32")
        w.put(f"mov.u32 {r}, %{register};")
        w.output("b32", r)
        yield finish(w, name, "move", [f"mov.u32 %{register}"], 96, blocks=2)
    for clock, kind in (("clock", "u32"), ("clock64", "u64"), ("globaltimer", "u64"),
                        ("globaltimer_lo", "u32"), ("clock_hi", "u32")):  # fmt: skip
        w = Writer()
        a, b, p = w.reg(kind), w.reg(kind), w.reg("pred")
        w.put(f"mov.{kind} {a}, %{clock};", "nanosleep.u32 100;", f"mov.{kind} {b}, %{clock};")
        w.put(f"setp.ge.{kind} {p}, {b}, {a};")
        w.output("pred", p)
        yield finish(w, f"clock_{clock}", "move", [f"mov.{kind} %{clock}", "nanosleep.u32"], 64)
    hints = [
        *(f"fence.{s}.{c}" for s in ("sc", "acq_rel") for c in ("cta", "cluster", "gpu", "sys")),
        "membar.cta", "membar.gl", "membar.sys", "fence.proxy.async", "fence.proxy.alias",
        "fence.proxy.async.global", "fence.proxy.async.shared::cta", "griddepcontrol.wait",
        "griddepcontrol.launch_dependents", "fence.mbarrier_init.release.cluster",
        "barrier.cluster.arrive", "prefetch.global.L2 [%in]", "prefetch.global.L1 [%in]",
        "prefetchu.L1 [%in]", "pmevent 3", "discard.global.L2 [%spare], 128",
        "applypriority.global.L2::evict_normal [%spare], 128", "nanosleep.u32 20",
        "setmaxnreg.inc.sync.aligned.u32 32",
    ]  # fmt: skip
    for i, hint in enumerate(hints):
        w = Writer()
        x = w.input("b32")
        spare = ""
        name = f"hint_{i}"
        if "%spare" in hint:
            spare = f".global .align 128 .b8 {name}_spare[128];\n"
            w.put(".reg .b64 %spare;", f"mov.u64 %spare, {name}_spare;")
        w.put(f"{hint};")
        if hint.endswith("cluster.arrive"):
            w.put("barrier.cluster.wait;")
        w.output("b32", x)
        opcodes = [hint.split()[0]] + (["barrier.cluster.wait"] if "cluster.arrive" in hint else [])
        yield finish(w, name, "barrier", opcodes, 128, spare)
    yield from addresses()
    yield from leaving()


def addresses() -> Iterator[Program]:
    """``cvta`` there and back, ``isspacep``, and the cluster address of a block alone."""
    for space in ("global", "shared", "local", "shared::cta", "shared::cluster"):
        base = space.partition("::")[0]
        name = "cvta_" + space.replace("::", "_")
        w = Writer()
        x, got, a, b, same = w.input("b32"), w.reg("b32"), w.reg("b64"), w.reg("b64"), w.reg("pred")
        declare = f".{base} .align 8 .b32 {name}_v[64];\n"
        w.put("" if base == "global" else declare.strip())
        w.put(
            f"mov.u64 {a}, {name}_v;", f"mad.wide.u32 {a}, %i, 4, {a};" if base != "local" else ""
        )
        w.put(
            f"cvta.{space}.u64 {b}, {a};", f"st.b32 [{b}], {x};", f"cvta.to.{space}.u64 {b}, {b};"
        )
        w.put(f"setp.eq.u64 {same}, {a}, {b};", f"ld.{base}.b32 {got}, [{b}];")
        w.output("pred", same)
        w.output("b32", got)
        w.put(f"cvta.{space}.u64 {b}, {a};")
        tests = ("global", "shared", "local", "shared::cta", "shared::cluster")
        for test in tests:
            p = w.reg("pred")
            w.put(f"isspacep.{test} {p}, {b};")
            w.output("pred", p)
        opcodes = [f"cvta.{space}.u64", f"cvta.to.{space}.u64", *(f"isspacep.{t}" for t in tests)]
        yield finish(w, name, "move", opcodes, 64, declare if base == "global" else "")
    w = Writer()
    x, got, a, rank, zero = w.input("b32"), w.reg("b32"), w.reg("b32"), w.reg("b32"), w.reg("b32")
    w.put(
        ".shared .b32 cell[64];",
        f"mov.u32 {a}, cell;",
        f"mad.lo.u32 {a}, %i, 4, {a};",
        f"mov.u32 {zero}, 0;",
    )
    w.put(f"st.shared.b32 [{a}], {x};", f"mapa.shared::cluster.u32 {a}, {a}, {zero};")
    w.put(f"getctarank.shared::cluster.u32 {rank}, {a};", f"ld.shared::cluster.b32 {got}, [{a}];")
    w.output("b32", rank)
    w.output("b32", got)
    yield finish(w, "mapa_self", "move", ["mapa.shared::cluster.u32",
                                          "getctarank.shared::cluster.u32",
                                          "ld.shared::cluster.b32"], 64)  # fmt: skip


def leaving() -> Iterator[Program]:
    """Threads that exit early; the others go on, vote and count who is left."""
    for i, way in enumerate(("exit", "ret", "exit", "ret")):
        w = Writer()
        go, x, seen, all_ = w.input("pred"), w.input("b32"), w.reg("b32"), w.reg("b32")
        w.output("b32", x)
        w.put(
            f"@{go} {way};",
            f"activemask.b32 {seen};",
            f"vote.sync.ballot.b32 {all_}, {go}, {seen};",
        )
        w.put(f"redux.sync.add.u32 {x}, {x}, {seen};" if i > 1 else "")
        w.output("b32", seen)
        w.output("b32", all_)
        w.output("b32", x)
        yield finish(w, f"leave_{way}_{i}", "control", [way, "activemask.b32"], 64)
    for i in range(8):
        yield pointer_call(f"call_pointer_{i}")


def pointer_call(name: str) -> Program:
    """Calls through a table of functions, each thread choosing its own."""
    w = Writer()
    which, x = w.input("u32:0..2"), w.input("b32")
    address, function, got = w.reg("b64"), w.reg("b64"), w.reg("b32")
    bodies = ("add.s32 %x, %x, 17;", "mul.lo.s32 %x, %x, 2654435761;", "brev.b32 %x, %x;")
    outside = "".join(
        f".func (.param .b32 r) {name}_f{i}(.param .b32 a)\n{{\n  .reg .b32 %x;\n"
        f"  ld.param.b32 %x, [a]; {body} st.param.b32 [r], %x; ret;\n}}\n"
        for i, body in enumerate(bodies)
    )
    table = ", ".join(f"{name}_f{i}" for i in range(3))
    outside += f".global .align 8 .u64 {name}_table[3] = {{{table}}};\n"
    w.put(f"mov.u64 {address}, {name}_table;", f"mad.wide.u32 {address}, {which}, 8, {address};")
    w.put(f"ld.global.u64 {function}, [{address}];", "{ .param .b32 a; .param .b32 r;")
    w.put("proto: .callprototype (.param .b32 _) _ (.param .b32 _);", f"st.param.b32 [a], {x};")
    w.put(f"call (r), {function}, (a), proto;", f"ld.param.b32 {got}, [r]; }}")
    w.output("b32", got)
    return finish(w, name, "control", ["call"], 64, outside)


def programs() -> Iterator[Program]:
    """All programs of this module."""
    yield from collectives()
    yield from special()
