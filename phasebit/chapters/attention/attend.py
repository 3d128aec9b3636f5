"""The kernels of *Attention* on the emulator: run with every check, and compared in double."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasebit import files
from phasebit.emulator import Schedule

if TYPE_CHECKING:
    from phasebit.emulator import Run

ONE_GROUP, PING_PONG, OVERLAPPED, PERSISTENT, LEAN, DYNAMIC, NEXT = KERNELS = (
    "a_one_group", "b_ping_pong", "c_overlapped", "d_persistent_blocks", "e_lean_softmax",
    "f_dynamic", "g_next_scores",
)  # fmt: skip
LOG2_E = np.float32(1.4426950408889634)
PATTERN = 1024
"""Bytes of the swizzle's pattern, to which shared memory is rounded up."""

STAYS, DEALT = "struct Work", "struct Task"
"""What the text of a kernel has whose blocks make several tiles, by a rule or by a counter."""

Array = NDArray[Any]


def source(name: str) -> str:
    """The source of one of :data:`KERNELS`."""
    return (files.kernels() / "attention" / f"{name}.cu").read_text(encoding="utf-8")


def flat(name: str) -> str:
    """A kernel with the chapter's header in it, so that both may be changed."""
    return _inlined(source(name))


def _inlined(text: str) -> str:
    folder = files.kernels() / "attention"
    for header in ("lean_softmax.cuh", "attention.cuh", "heads.cuh", "wgmma.cuh"):
        line = f'#include "attention/{header}"\n'
        if header != "wgmma.cuh" and line in text:
            whole = (folder / header).read_text(encoding="utf-8")
            text = text.replace(line, whole.replace("#pragma once\n", ""))
    return text


def alone(text: str, *instances: tuple[int, bool], long: bool = False) -> str:
    """The kernel for some head dimensions, full or causal, without a program around it.

    ``long``: with the tiles of long sequences, where it has such.
    """
    end = text.index("template <int D, bool CAUSAL", text.index("__global__"))
    begin = text.rindex("attention(const __grid_constant__", 0, end)
    head = text[begin + len("attention") : text.index("{", begin)].strip()
    made = "\n".join(
        f"template __global__ void {_name(text, d, causal, long)}{head};" for d, causal in instances
    )
    return f"{text[:end]}{made}\n"


def _name(text: str, d: int, causal: bool, long: bool) -> str:
    arguments = [
        str(d),
        *(str(each).lower() for each in (causal, long)[: 1 + ("bool LONG" in text)]),
    ]
    return f"attention<{', '.join(arguments)}>"


def number(text: str, name: str, d: int, long: bool = False) -> int:
    """A constant of a kernel for a head dimension; raises ``ValueError`` where it has none."""
    choice = r"(?:D == (\d+)( && LONG)? \? (\d+) : )?"
    found = re.search(rf"constexpr int {name} = {choice}(\d+);", text)
    if found is None:
        raise ValueError(f"the kernel has no line `constexpr int {name} = …;`")
    here = found[1] is not None and int(found[1]) == d and (long or not found[2])
    return int(found[3] if here else found[4])


def groups(text: str, d: int, long: bool = False) -> int:
    """How many warp groups of a block multiply."""
    return number(text, "GROUPS", d, long) if "int GROUPS" in text else 1


def shared_bytes(text: str, d: int, long: bool = False) -> int:
    """``sizeof(Shared<d>)``; barriers need less than one pattern."""
    rows = 64 * groups(text, d, long) * (number(text, "TASKS", d) if DEALT in text else 1)
    keys, slots = number(text, "KEYS", d, long), number(text, "SLOTS", d)
    return rows * d * 2 + 2 * slots * keys * d * 2 + PATTERN


class Heads(NamedTuple):
    """Numbers of bf16, as float64: q (layers, queries, d), k and v (kv_layers, keys, d)."""

    q: Array
    k: Array
    v: Array

    @property
    def sharing(self) -> int:
        """Query heads for each head of K and V."""
        return len(self.q) // len(self.k)


def heads(
    d: int, queries: int, keys: int, *, layers: int = 1, sharing: int = 1, spread: float = 1.0,
    seed: int = 19,
) -> Heads:  # fmt: skip
    """Normal random numbers; ``spread`` multiplies the queries, and so the scores."""
    draw = np.random.default_rng(seed)
    shapes = (layers, queries, d), (layers // sharing, keys, d), (layers // sharing, keys, d)
    q, k, v = (draw.normal(size=shape) for shape in shapes)
    return Heads(bf16(q * spread), bf16(k), bf16(v))


def bf16(x: Array) -> Array:
    """Rounded to bf16, as float64."""
    from phasebit.emulator import formats

    return np.asarray(formats.decode("bf16", formats.encode("bf16", x)), np.float64)


def exact(h: Heads, causal: bool, window: int | None = None) -> tuple[Array, Array]:
    """O in double, and the error that is allowed; both (layers, queries, d).

    ``window``: how many keys a query of causal attention sees, its last ones; else all before it.
    A query that sees no key gets zeros. :func:`phasebit.chapters.attention.softmax.bound` says
    where the error comes from.
    """
    from phasebit.chapters.attention.softmax import bound

    _, queries, d = h.q.shape
    k, v = (np.repeat(x, h.sharing, axis=0) for x in (h.k, h.v))
    keys = k.shape[1]
    with np.errstate(invalid="ignore"):
        scores = h.q @ k.swapaxes(1, 2) / np.sqrt(d)
        sizes = np.abs(h.q) @ np.abs(k).swapaxes(1, 2) / np.sqrt(d)
    if causal:
        last = np.arange(queries)[:, None] + keys - queries
        hidden = np.arange(keys) > last
        if window is not None:
            hidden |= np.arange(keys) <= last - window
        scores = np.where(hidden, -np.inf, scores)
        sizes = np.where(hidden, 0, sizes)
    top = scores.max(axis=2, keepdims=True, initial=-np.inf)
    p = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = p.sum(axis=2, keepdims=True)
    p = p / np.where(total == 0, 1, total)
    o = p @ v
    return o, bound(d, keys, sizes.max(axis=2, keepdims=True, initial=0), p @ np.abs(v), np.abs(o))


class Attended(NamedTuple):
    """What a kernel made on the emulator."""

    run: Run
    o: Array
    """float64 (layers, queries, d)."""
    error: float
    """The largest error, as a part of what is allowed; infinite where something is not written."""


def together(texts: Mapping[str, str], *instances: tuple[int, bool], long: bool = False) -> str:
    """Kernels as one text, each in a namespace."""
    includes: dict[str, None] = {}
    parts = []
    for i, text in enumerate(texts.values()):
        body = []
        for line in _inlined(alone(text, *instances, long=long)).splitlines():
            if line.startswith("#include"):
                includes[line] = None
            else:
                body.append(line)
        parts.append(f"namespace kernel_{i} {{\n" + "\n".join(body) + "\n}\n")
    return "\n".join([*includes, *parts])


class Programs:
    """Kernels that the compiler sees at once, each in a namespace: one call of nvcc for many."""

    def __init__(
        self, texts: Mapping[str, str], *instances: tuple[int, bool], long: bool = False
    ) -> None:
        """``instances``: head dimensions, each full or causal. ``long``: as for :func:`alone`."""
        from phasebit.launching.launch import compile

        self._texts = dict(texts)
        self._long = long
        self._module = compile(together(self._texts, *instances, long=long))

    def attend(
        self, name: str, h: Heads, causal: bool = False, *, schedule: Schedule = "late",
        blocks: int = 2, window: int | None = None, batches: int = 1,
    ) -> Attended:  # fmt: skip
        """Attention by one of them, whose O is full of NaN before.

        ``blocks``: of a kernel whose blocks make several tiles. ``window``: as of :func:`exact`.
        ``batches``: of how many the layers are, for a kernel that asks a counter for its tiles.
        """
        return self._attend(name, [h], causal, schedule, blocks, packed=False, window=window,
                            batches=batches)  # fmt: skip

    def attend_packed(
        self, name: str, sequences: Sequence[Heads], causal: bool = False, *,
        schedule: Schedule = "late", blocks: int = 2,
    ) -> Attended:  # fmt: skip
        """The same of sequences of any lengths in one launch, packed one behind the other.

        Their heads are as many; ``o`` of the result is (all queries, layers, d).
        """
        return self._attend(name, sequences, causal, schedule, blocks, packed=True)

    def _attend(
        self, name: str, sequences: Sequence[Heads], causal: bool, schedule: Schedule, blocks: int,
        packed: bool, window: int | None = None, batches: int = 1,
    ) -> Attended:  # fmt: skip
        from phasebit.emulator import formats

        text = self._texts[name]
        layers, _, d = sequences[0].q.shape
        sharing, axis = sequences[0].sharing, 1
        whole = Heads(*(np.concatenate(each, axis) for each in zip(*sequences, strict=True)))
        queries, keys = whole.q.shape[1], whole.k.shape[1]
        rows = 64 * groups(text, d, self._long)
        stays, dealt = STAYS in text, DEALT in text
        boxes = (64 if stays or dealt else rows, *[number(text, "KEYS", d, self._long)] * 2)
        maps = [_map(x, box, packed) for x, box in zip(whole, boxes, strict=True)]
        shape = (queries, layers, d) if packed else (layers, queries, d)
        o = np.full(shape, 0x7FFF, np.uint16)
        counter = np.zeros(1, np.uint32)
        more: list[Any] = [layers] * stays
        if dealt:
            starts = [_starts([x.q for x in sequences]), _starts([x.k for x in sequences])]
            alike = [batches, layers // batches, 0, 0]
            more = [*([len(sequences), layers, *starts] if packed else alike), counter]
        kernel = f"kernel_{list(self._texts).index(name)}::{_name(text, d, causal, self._long)}"
        run = self._module[kernel].launch(
            (blocks,) if stays or dealt else (-(-queries // rows), layers),
            128 * groups(text, d, self._long) + (32 if "+ 32;" in text else 128),
            [*maps, o, _shape(queries, keys, sharing, d), *more],
            shared=shared_bytes(text, d, self._long), schedule=schedule,
        )  # fmt: skip
        made = np.asarray(formats.decode("bf16", o), np.float64)
        each = [exact(h, causal, window) for h in sequences]
        right, allowed = (np.concatenate([x[i] for x in each], axis) for i in (0, 1))
        if packed:
            right, allowed = right.swapaxes(0, 1), allowed.swapaxes(0, 1)
        ratio = np.abs(made - right) / np.maximum(allowed, 1e-30)
        error = float(np.where(np.isnan(ratio), np.inf, ratio).max())
        return Attended(run, made, np.inf if counter[0] else error)


def attend(
    text: str, h: Heads, causal: bool = False, *, schedule: Schedule = "late", blocks: int = 2
) -> Attended:
    """Attention by one kernel, as :meth:`Programs.attend` runs it."""
    program = Programs({"kernel": text}, (h.q.shape[2], causal))
    return program.attend("kernel", h, causal, schedule=schedule, blocks=blocks)


def _map(x: Array, box: int, packed: bool) -> Any:
    """What the copy engine must know of (layers, rows, d) to copy boxes of ``box`` rows."""
    from phasebit.emulator import TensorMap, formats

    layers, rows, d = x.shape
    bits = np.asarray(formats.encode("bf16", x.swapaxes(0, 1) if packed else x))
    line = 2 * d
    strides = (layers * line, line) if packed else (line, rows * line)
    return TensorMap(
        np.ascontiguousarray(bits), (64, box, 1), data_type="bf16", swizzle="128B",
        dims=(d, rows, layers), strides=strides,
    )  # fmt: skip


def _starts(parts: Sequence[Array]) -> Array:
    """Where each part of (layers, rows, d) begins when they are packed, and where the last ends."""
    return np.cumsum([0, *(part.shape[1] for part in parts)]).astype(np.int32)


def _shape(queries: int, keys: int, sharing: int, d: int) -> Any:
    """The kernels' ``Shape``."""
    factor = np.float32(1 / np.sqrt(d)) * LOG2_E
    kinds = [("queries", "i4"), ("keys", "i4"), ("sharing", "i4"), ("factor", "f4")]
    return np.array([(queries, keys, sharing, factor)], dtype=kinds)[0]
