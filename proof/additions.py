"""Programs that came after the first recording; their answers have a file of their own.

``red`` of vectors, ``ldu``, a load with a cache policy, a bulk copy, ``setmaxnreg.dec``, ``fns`` as
far as its offset goes.

PTX ISA 9.7.1.17 (fns), 9.7.9.8 (ld, ldu), 9.7.9.18 (createpolicy), 9.7.13.7 (red),
9.7.19.5 (setmaxnreg).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from proof.memory import finish, room
from proof.program import Program, Writer, register
from proof.values import SIZE

VECTORS = [("add", 2, "f32"), ("add", 4, "f32")] + [
    (op, n, kind)
    for n, kind in ((2, "f16"), (8, "f16"), (4, "bf16"), (4, "f16x2"), (2, "bf16x2"))
    for op in ("add", "min", "max")
]
"""Operations, lengths and types of ``red`` in global memory."""


def vector_red(op: str, n: int, kind: str) -> Program:
    """Each thread on 16 bytes of its own; what is there after."""
    name = f"red_{op}_v{n}_{kind}"
    opcode = f"red.global.{op}{'' if kind == 'f32' else '.noftz'}.v{n}.{kind}"
    w = Writer()
    address, outside = room(w, name, "global", 64, 16)
    before, value, after = ([make(kind) for _ in range(n)] for make in (w.input, w.input, w.reg))
    for i, r in enumerate(before):
        w.put(f"st.global.{register(kind)} [{address}+{i * SIZE[kind]}], {r};")
    w.put(f"{opcode} [{address}], {{{', '.join(value)}}};")
    for i, r in enumerate(after):
        w.put(f"ld.global.{register(kind)} {r}, [{address}+{i * SIZE[kind]}];")
        w.output(kind, r)
    return finish(w, name, "atomic", [opcode], 64, outside)


def hinted_load(name: str, opcode: str, kind: str, before: str = "", after: str = "") -> Program:
    """A load of the thread's own input in an unusual way."""
    w = Writer()
    w.input("b64")
    got = w.reg(kind)
    w.put(f"{before}{opcode} {got}, [%in]{after};")
    w.output(kind, got)
    return finish(w, name, "memory", [opcode], 64)


def bulk_copy(space: str) -> Program:
    """One thread has all inputs copied; each reads another thread's."""
    opcode = f"cp.async.bulk.{space}.global.mbarrier::complete_tx::bytes"
    w = Writer()
    w.input("b64")
    got = w.reg("b64")
    w.put(
        ".shared .align 128 .b8 stage[512]; .shared .align 8 .b8 full[8];",
        ".reg .b32 %stage, %full, %mine; .reg .b64 %token; .reg .pred %first, %done;",
        "mov.u32 %stage, stage; mov.u32 %full, full; setp.eq.u32 %first, %i, 0;",
        "@%first mbarrier.init.shared.b64 [%full], 1;",
        "bar.sync 0;",
        "@%first mbarrier.arrive.expect_tx.shared.b64 %token, [%full], 512;",
        f"@%first {opcode} [%stage], [%in], 512, [%full];",
        "AGAIN: mbarrier.try_wait.parity.shared.b64 %done, [%full], 0; @!%done bra AGAIN;",
        "xor.b32 %mine, %i, 37; shl.b32 %mine, %mine, 3; add.u32 %mine, %stage, %mine;",
        f"ld.shared.b64 {got}, [%mine];",
    )
    w.output("b64", got)
    return finish(w, f"bulk_{space.partition('::')[2]}", "memory", [opcode], 64)


def fewer_registers() -> Program:
    """A warpgroup gives registers back, and goes on computing."""
    w = Writer()
    x, y = w.input("b32"), w.reg("b32")
    opcode = "setmaxnreg.dec.sync.aligned.u32"
    w.put(f"{opcode} 32;", f"add.u32 {y}, {x}, 1;")
    w.output("b32", y)
    program = finish(w, "setmaxnreg_dec", "control", [opcode], 128)
    head = "(.param .u64 inputs, .param .u64 outputs)"
    text = program.text.replace(head, f"{head} .maxntid 128 .maxnreg 128")
    return dataclasses.replace(program, text=text)


def far_bits() -> Program:
    """``fns`` with any offset; the least one has no magnitude of 32 bits."""
    w = Writer()
    mask, base, offset, found = w.input("b32"), w.input("u32:0..63"), w.input("s32"), w.reg("u32")
    w.put(f"fns.b32 {found}, {mask}, {base}, {offset};")
    w.output("u32", found)
    return finish(w, "fns_far", "logic", ["fns.b32"], 512)


def programs() -> Iterator[Program]:
    """All programs of this module."""
    for op, n, kind in VECTORS:
        yield vector_red(op, n, kind)
    for kind in ("b32", "u32", "f32", "b64", "f64"):
        yield hinted_load(f"ldu_{kind}", f"ldu.global.{kind}", kind)
    for policy in ("evict_first", "evict_last", "evict_normal", "evict_unchanged"):
        yield hinted_load(
            f"createpolicy_{policy}", "ld.global.L2::cache_hint.b32", "b32",
            f".reg .b64 %policy; createpolicy.fractional.L2::{policy}.b64 %policy, 0.5; ",
            ", %policy",
        )  # fmt: skip
    for space in ("shared::cta", "shared::cluster"):
        yield bulk_copy(space)
    yield fewer_registers()
    yield far_bits()
