"""The PTX of a program whose steps are known: :mod:`proof.meetings`.

Each warp has a part of the text of its own, in a random order; where some lanes of a warp do
something alone, the others branch around it.
"""

from __future__ import annotations

import re

from proof.dice import Dice, shuffled
from proof.happens_before import ALL, BLEND, FACTOR, TILE, Shape, Step
from proof.program import Program, Writer

_LABEL = re.compile(r"^L\d+:|@!?%p ")
SLOTS = 4
"""Inputs of a thread, 64 bits each."""
FLAGS = ("flag", "count", "spin")



class Text:
    """Writes the steps as PTX."""

    def __init__(self, name: str, shape: Shape, steps: list[Step], patience: int = 0) -> None:
        self.name, self.shape, self.steps, self.patience = name, shape, steps, patience
        self.w = Writer()
        self.labels = 0
        self.flags = 1 + max((s.at[0] for s in steps if s.op in FLAGS), default=0)
        self.near_flags = any(s.op in FLAGS and "shared" in s.how for s in steps)

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def address(self, step: Step, lane: str = "%lane", size: int = 1) -> str:
        """Compute where a lane's word is; the operand."""
        w, tile = self.w, step.at[0]
        if step.how.endswith("all"):
            w.put(f"mov.u32 %a, {step.at[1]};")
        elif step.op == "copy":
            w.put("mov.u32 %a, %lane;")
        else:
            w.put(f"xor.b32 %a, %lane, {step.at[1]};")
        if "global" in step.how:
            w.put(f"mad.wide.u32 %g, %a, {4 * size}, %far;")
            return f"[%g+{4 * TILE * tile}]"
        base = "%peer" if "remote" in step.how else "%room"
        w.put(f"mad.lo.u32 %a, %a, {4 * size}, {base};")
        return f"[%a+{4 * TILE * tile}]"

    def space(self, step: Step) -> str:
        if "global" in step.how:
            return "global"
        return "shared::cluster" if "remote" in step.how else "shared"

    def blend(self) -> None:
        self.w.put(f"mad.lo.u32 %x, %x, {BLEND}, %t;")

    def again(self, test: str, wanted: str) -> None:
        """Repeat ``test`` until the predicate %p holds."""
        label = self.label()
        w = self.w
        if self.patience:
            w.put("mov.u32 %tries, 0;")
        w.put(f"{label}: {test} {wanted}")
        if self.patience:
            w.put("add.u32 %tries, %tries, 1;",
                  f"setp.gt.or.u32 %p, %tries, {self.patience}, %p;")  # fmt: skip
        w.put(f"@!%p bra {label};")

    def store(self, s: Step) -> None:
        self.w.put(f"mad.lo.u32 %x, %x, {FACTOR}, {s.at[1]};")
        if s.how.endswith("wide"):
            where = self.address(s, size=2)
            self.w.put(f"st.{self.space(s)}.v2.b32 {where}, {{%x, %x}};")
            return
        where = self.address(s)
        self.w.put(f"st.{self.space(s)}.b32 {where}, %x;")

    def load(self, s: Step) -> None:
        if s.how.endswith("wide"):
            where = self.address(s, size=2)
            self.w.put(f"ld.{self.space(s)}.v2.b32 {{%t, %a}}, {where};", "add.u32 %t, %t, %a;")
        else:
            where = self.address(s)
            self.w.put(f"ld.{self.space(s)}.b32 %t, {where};")
        self.blend()

    def send(self, s: Step) -> None:
        where = self.address(s)
        self.w.put("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 "
                   f"{where}, %x, [%peerbars+{8 * s.at[2]}];")  # fmt: skip

    def push(self, s: Step) -> None:
        tile, to, words, site = s.at
        self.w.put("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                   f"[%peer+{4 * TILE * to}], [%room+{4 * TILE * tile}], {4 * words}, "
                   f"[%peerbars+{8 * site}];")  # fmt: skip

    def add(self, s: Step) -> None:
        where = self.address(s)
        self.w.put(f"red.{self.space(s)}.add.u32 {where}, %x;")

    def shuffle(self, s: Step) -> None:
        mask = f"{s.lanes:#x}"
        if s.how in ("bfly", "idx"):
            self.w.put(f"shfl.sync.{s.how}.b32 %t, %x, {s.at[0]}, 31, {mask};")
        elif s.how == "ballot":
            self.odd()
            self.w.put(f"vote.sync.ballot.b32 %t, %p, {mask};")
        else:
            self.w.put(f"redux.sync.add.u32 %t, %x, {mask};")
        self.blend()

    def odd(self) -> None:
        self.w.put("and.b32 %t, %x, 1;", "setp.ne.u32 %p, %t, 0;")

    def warpsync(self, s: Step) -> None:
        self.w.put(f"bar.warp.sync {s.lanes:#x};")

    def bar(self, s: Step) -> None:
        number, count = s.at
        if s.how == "red":
            self.odd()
            self.w.put(f"bar.red.popc.u32 %t, {number}, {count}, %p;")
            self.blend()
        else:
            self.w.put(f"bar.{s.how} {number}, {count};")

    def site(self, number: int, warp: int) -> tuple[str, str]:
        """The address of an mbarrier, and its space as an arrival names it."""
        if self.shape.mbarriers[number][0] == warp // self.shape.warps:
            return f"[%bars+{8 * number}]", "shared::cta"
        return f"[%peerbars+{8 * number}]", "shared::cluster"

    def arrive(self, s: Step) -> None:
        where, space = self.site(s.at[0], s.warp)
        more = f", {s.at[1]}" if s.at[1] != 1 else ""
        how = s.how.replace(" ", ".")
        self.w.put(f"mbarrier.arrive.{how}.{space}.b64 _, {where}{more};")

    def expect(self, s: Step) -> None:
        where, space = self.site(s.at[0], s.warp)
        how = s.how.replace(" ", ".")
        self.w.put(f"mbarrier.arrive.expect_tx.{how}.{space}.b64 _, {where}, {s.at[1]};")

    def wait(self, s: Step) -> None:
        kind, sem, scope = s.how.split()
        self.again(f"mbarrier.{kind}_wait.parity.{sem}.{scope}.shared::cta.b64 %p, "
                   f"[%bars+{8 * s.at[0]}], {s.at[1] & 1};", "")  # fmt: skip

    def copy(self, s: Step) -> None:
        size = 4 * s.at[2]
        where = self.address(s, size=s.at[2])
        kind = "cg" if size == 16 else "ca"
        base, start = "given", 4 * s.at[1]
        if start < 0:
            base, start = "far", 4 * TILE * (-1 - s.at[1])
        self.w.put(f"mad.wide.u32 %g, %lane, {size}, %{base};")
        self.w.put(f"cp.async.{kind}.shared.global {where}, [%g+{start}], {size};")

    def commit(self, s: Step) -> None:
        self.w.put("cp.async.commit_group;")

    def copywait(self, s: Step) -> None:
        self.w.put(f"cp.async.wait_group {s.at[0]};")

    def copyarrive(self, s: Step) -> None:
        where, space = self.site(s.at[0], s.warp)
        self.w.put(f"cp.async.mbarrier.arrive.noinc.{space}.b64 {where};")

    def bulk_load(self, s: Step) -> None:
        tile, start, words, site = s.at
        source = f"%given+{4 * start}" if start >= 0 else f"%far+{4 * TILE * (-1 - start)}"
        self.w.put("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                   f"[%room+{4 * TILE * tile}], [{source}], {4 * words}, "
                   f"[%bars+{8 * site}];")  # fmt: skip

    def bulk_store(self, s: Step) -> None:
        tile, far, words = s.at
        self.w.put("cp.async.bulk.global.shared::cta.bulk_group "
                   f"[%far+{4 * TILE * far}], [%room+{4 * TILE * tile}], {4 * words};")  # fmt: skip

    def bulk_commit(self, s: Step) -> None:
        self.w.put("cp.async.bulk.commit_group;")

    def bulk_wait(self, s: Step) -> None:
        self.w.put(f"cp.async.bulk.wait_group{'.read' if s.how else ''} {s.at[0]};")

    def proxy(self, s: Step) -> None:
        self.w.put("fence.proxy.async;")

    def word(self, s: Step) -> tuple[str, str]:
        """The order, scope and space of a flag's access as modifiers, and its address."""
        base = "%near" if s.how.endswith("shared") else "%flags"
        return s.how.replace(" ", "."), f"[{base}+{4 * s.at[0]}]"

    def flag(self, s: Step) -> None:
        how, where = self.word(s)
        self.w.put(f"st.{how}.u32 {where}, {s.at[1]};")

    def count(self, s: Step) -> None:
        how, where = self.word(s)
        self.w.put(f"red.{how}.add.u32 {where}, 1;")

    def spin(self, s: Step) -> None:
        how, where = self.word(s)
        self.again(f"ld.{how}.u32 %t, {where};", f"setp.ge.u32 %p, %t, {s.at[1]};")

    def fence(self, s: Step) -> None:
        self.w.put(f"fence.acq_rel.{s.how};")

    def cluster_arrive(self, s: Step) -> None:
        self.w.put(f"barrier.cluster.arrive{'.' + s.how if s.how else ''};")

    def cluster_wait(self, s: Step) -> None:
        self.w.put("barrier.cluster.wait;")

    def warp(self, number: int) -> None:
        """What one warp does."""
        w, end = self.w, self.label()
        w.put(f"setp.ne.u32 %p, %warp, {number};", f"@%p bra {end};")
        lanes, skip = ALL, ""
        for step in (s for s in self.steps if s.warp == number):
            if step.lanes != lanes:
                if skip:
                    w.put(f"{skip}:")
                lanes, skip = step.lanes, ""
                if lanes != ALL:
                    skip = self.label()
                    w.put(f"shr.u32 %t, {lanes:#x}, %lane;", "and.b32 %t, %t, 1;",
                          "setp.eq.u32 %p, %t, 0;", f"@%p bra {skip};")  # fmt: skip
            getattr(self, step.op)(step)
        if skip:
            w.put(f"{skip}:")
        w.put(f"{end}:")

    def program(self) -> Program:
        """The whole program."""
        w, shape, name = self.w, self.shape, self.name
        x = w.input("b32")
        w.inputs += ["b64"] * (SLOTS - 1)
        count = max(1, len(shape.mbarriers))
        w.put(
            f".shared .align 128 .b8 room[{4 * TILE * shape.tiles}];",
            f".shared .align 8 .b8 bars[{8 * count}];",
            f".shared .align 4 .b8 near[{4 * self.flags}];",
            ".reg .b32 %x, %t, %a, %lane, %warp, %room, %bars, %near, %peer, %peerbars, %tries;",
            ".reg .b64 %g, %given, %far, %flags; .reg .pred %p;",
            f"mov.b32 %x, {x};", "mov.u32 %t, %tid.x;", "and.b32 %lane, %t, 31;",
            "shr.u32 %warp, %t, 5;", "mov.u32 %room, room;", "mov.u32 %bars, bars;",
            "mov.u32 %near, near;",
            "mul.wide.u32 %g, %i, 8;", "sub.s64 %given, %in, %g;",
            f"mov.u64 %far, {name}_far;", f"mov.u64 %flags, {name}_flags;",
            "setp.ne.u32 %p, %t, 0;",
        )  # fmt: skip
        if shape.blocks > 1:
            w.put(
                "mov.u32 %a, %cluster_ctarank;", f"mad.lo.u32 %warp, %a, {shape.warps}, %warp;",
                "xor.b32 %a, %a, 1;", "mapa.shared::cluster.u32 %peer, %room, %a;",
                "mapa.shared::cluster.u32 %peerbars, %bars, %a;",
            )  # fmt: skip
            w.directives = f".reqnctapercluster {shape.blocks}, 1, 1"
        end = self.label()
        w.put(f"@%p bra {end};")
        for i, (_, expected) in enumerate(shape.mbarriers):
            w.put(f"mbarrier.init.shared::cta.b64 [%bars+{8 * i}], {expected};")
        for i in range(self.flags if self.near_flags else 0):
            w.put(f"st.shared.u32 [%near+{4 * i}], 0;")
        if shape.blocks > 1:
            w.put("fence.mbarrier_init.release.cluster;")
        w.put("fence.proxy.async;")
        w.put(f"{end}:")
        w.put("bar.sync 0;" if shape.blocks == 1
              else "barrier.cluster.arrive; barrier.cluster.wait;")  # fmt: skip
        dice = Dice(name + "/order")
        for number in shuffled(dice, list(range(shape.blocks * shape.warps))):
            self.warp(number)
        w.output("b32", "%x")
        outside = (
            f".global .align 128 .b8 {name}_far[{4 * TILE * shape.far}];\n"
            f".global .align 128 .b8 {name}_flags[{4 * self.flags}];\n"
        )
        opcodes = sorted({
            word for line in w.lines for part in _LABEL.sub("", line).split(";")
            if (word := part.strip().partition(" ")[0]) and word[0].islower()
        })  # fmt: skip
        return Program(
            name, w.entry(name, shape.threads, outside), tuple(w.inputs), tuple(w.outputs),
            tuple(opcodes), "meeting", shape.blocks, 32 * shape.warps,
        )  # fmt: skip
