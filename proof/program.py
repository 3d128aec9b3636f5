"""A program: its text, its inputs, its answers.

Every program is one kernel with one shape, so that one runner runs them all::

    .entry name(.param .u64 inputs, .param .u64 outputs)

(and where it copies boxes, one more parameter for each tensor map).

Thread ``i`` of ``n`` finds its k-th input as the 64-bit word ``inputs[k*n + i]``
and leaves its k-th answer in ``outputs[k*n + i]``.  The answers start as zeros,
so a thread that stores nothing is seen as such.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasebit.emulator.copy_engine.tensormap import Descriptor, TensorMap
from proof.dice import Dice, Words
from proof.values import SIZE, draw

HEADER = ".version 8.8\n.target sm_90a\n.address_size 64\n"
"""PTX 8.8 knows everything that sm_90a can do, and drivers from CUDA 12.9 on read it."""

_OFFSET = re.compile(r"(?<=\+)\{(\d+)\}(?=\])")
"""The place of a slot's byte offset, filled in when the number of threads is known."""


@dataclass(frozen=True)
class Map:
    """A tensor map whose tensor is the program's memory of inputs, or that of its answers."""

    memory: str
    """``inputs`` or ``outputs``."""
    descriptor: Descriptor
    """With address 0, which stands for the beginning of that memory."""

    def of(self, array: Words) -> TensorMap:
        """The map, for the memory as an array."""
        d = self.descriptor
        more: dict[str, Any] = {
            name: getattr(d, name)
            for name in ("data_type", "dims", "strides", "element_strides", "interleave",
                         "swizzle", "l2_promotion", "oob_fill")
        }  # fmt: skip
        if d.mode == "im2col":
            return TensorMap.im2col(array, d.box[0], d.box[1], d.lower, d.upper, **more)
        return TensorMap(array, d.box, **more)


@dataclass(frozen=True)
class Program:
    """One kernel and how to run and judge it."""

    name: str
    text: str
    """The ``.entry`` with its body, and any module-scope variables before it."""
    inputs: tuple[str, ...]
    """The kind of each input (:func:`proof.values.draw`)."""
    outputs: tuple[str, ...]
    """The type of each answer."""
    opcodes: tuple[str, ...]
    """The instructions that this program is there to prove."""
    family: str
    blocks: int = 1
    threads: int = 256
    bound: str = ""
    """Empty: equal bit for bit.  Else a rule of :mod:`proof.compare`."""
    fill: Callable[[int, Dice], list[Words]] | None = field(default=None, compare=False)
    """Draws the inputs instead of the kinds, where they depend on one another."""
    maps: tuple[Map, ...] = ()
    """Tensor maps: further parameters of the kernel."""

    @property
    def lanes(self) -> int:
        """The number of threads."""
        return self.blocks * self.threads

    def draw(self) -> Words:
        """The inputs: uint64, one row an input, one column a thread."""
        dice = Dice(self.name)
        if self.fill is not None:
            rows = self.fill(self.lanes, dice)
        else:
            rows = [draw(kind, self.lanes, dice) for kind in self.inputs]
        return np.array(rows or [np.zeros(self.lanes, np.uint64)], np.uint64)

    def blank(self) -> Words:
        """Room for the answers, zeros: uint64[outputs, threads]."""
        return np.zeros((len(self.outputs), self.lanes), np.uint64)


def module(programs: Iterable[Program]) -> str:
    """The PTX module that holds some programs."""
    return HEADER + "\n".join(p.text for p in programs)


def register(kind: str) -> str:
    """The register type that holds a value: untyped bits of its size, or a predicate.

    >>> register("f32"), register("u8"), register("pred")
    ('b32', 'b16', 'pred')
    """
    kind = kind.partition(":")[0]
    return "pred" if kind == "pred" else f"b{8 * SIZE[kind]}"


class Writer:
    """Writes a kernel's body: hands out registers, loads inputs, stores answers."""

    def __init__(self, typed: bool = False) -> None:
        self.typed = typed
        """Whether floats have registers of their own types, as in a compiler's PTX."""
        self.lines: list[str] = []
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self._registers: dict[str, int] = {}
        self.maps: list[Map] = []
        self.directives = ""
        """Between the parameters and the body, such as the size of a cluster."""

    def kind_of_register(self, kind: str) -> str:
        """The type of the register that holds a value of a type."""
        plain = kind.partition(":")[0]
        return plain if self.typed and plain in ("f32", "f64") else register(kind)

    def reg(self, kind: str) -> str:
        """A fresh register for a type."""
        bits = self.kind_of_register(kind)
        number = self._registers.get(bits, 0)
        self._registers[bits] = number + 1
        return f"%{'p' if bits == 'pred' else bits}_{number}"

    def put(self, *lines: str) -> None:
        """Append lines of PTX."""
        self.lines.extend(lines)

    def input(self, kind: str) -> str:
        """Load the thread's next input; the register that holds it."""
        slot = len(self.inputs)
        self.inputs.append(kind)
        target = self.reg(kind)
        bits = register(kind)
        where = f"[%in+{{{slot}}}]"  # the offset is known when the number of threads is
        if bits == "pred":
            word = self.reg("b32")
            self.put(f"ld.global.b32 {word}, {where};", f"setp.ne.b32 {target}, {word}, 0;")
        else:
            self.put(f"ld.global.{bits} {target}, {where};")
        return target

    def output(self, kind: str, source: str) -> None:
        """Store a register as the thread's next answer."""
        slot = len(self.outputs)
        self.outputs.append(kind)
        bits = register(kind)
        if bits == "pred":
            word = self.reg("b32")
            self.put(f"selp.b32 {word}, 1, 0, {source};")
            source, bits = word, "b32"
        self.put(f"st.global.{bits} [%out+{{{slot}}}], {source};")

    def map(self, memory: str, descriptor: Descriptor) -> str:
        """A further parameter, a tensor map; the register that holds its address."""
        number = len(self.maps)
        self.maps.append(Map(memory, descriptor))
        target = self.reg("b64")
        function, arguments = descriptor.call()
        said = ", ".join(str(value) for _, value in arguments)
        self.put(f"// {function}({said})", f"mov.b64 {target}, map{number};",
                 f"cvta.param.u64 {target}, {target};")  # fmt: skip
        return target

    def entry(self, name: str, lanes: int, globals_: str = "") -> str:
        """The whole ``.entry``."""
        body = [
            "  .reg .b32 %i, %block, %threads; .reg .b64 %in, %out;",
            *(f"  .reg .{bits} %{'p' if bits == 'pred' else bits}_<{n}>;"
              for bits, n in self._registers.items()),
            "  ld.param.b64 %in, [inputs]; ld.param.b64 %out, [outputs];",
            "  cvta.to.global.u64 %in, %in; cvta.to.global.u64 %out, %out;",
            "  mov.u32 %i, %tid.x; mov.u32 %block, %ctaid.x; mov.u32 %threads, %ntid.x;",
            "  mad.lo.s32 %i, %block, %threads, %i;",
            "  mad.wide.u32 %in, %i, 8, %in; mad.wide.u32 %out, %i, 8, %out;",
        ]  # fmt: skip
        for line in self.lines:
            body.append("  " + _OFFSET.sub(lambda m: str(int(m[1]) * lanes * 8), line))
        return (
            f"{globals_}.visible .entry {name}(.param .u64 inputs, .param .u64 outputs"
            + "".join(f", .param .align 128 .b8 map{i}[128]" for i in range(len(self.maps)))
            + f"){' ' + self.directives if self.directives else ''}\n{{\n"
            + "\n".join(body)
            + "\n  ret;\n}\n"
        )
