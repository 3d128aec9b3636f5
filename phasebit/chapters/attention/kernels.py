"""The kernels of *Attention* on the emulator: run with every check, and compared in double."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasebit import files

if TYPE_CHECKING:
    from phasebit.emulator import Run

ONE_GROUP, PING_PONG, OVERLAPPED, PERSISTENT = KERNELS = (
    "a_one_group", "b_ping_pong", "c_overlapped", "d_blocks_that_stay",
)  # fmt: skip
LOG2_E = np.float32(1.4426950408889634)
PATTERN = 1024
"""Bytes of the swizzle's pattern, to which shared memory is rounded up."""

Array = NDArray[Any]


def source(name: str) -> str:
    """The source of one of :data:`KERNELS`."""
    return (files.kernels() / "attention" / f"{name}.cu").read_text(encoding="utf-8")


def number(text: str, name: str) -> int:
    """A constant of a kernel; raises ``ValueError`` where it has none of this name."""
    found = re.search(rf"constexpr int {name} = (\d+);", text)
    if found is None:
        raise ValueError(f"the kernel has no line `constexpr int {name} = …;`")
    return int(found[1])


def groups(text: str) -> int:
    """How many warp groups of a block multiply."""
    return number(text, "GROUPS") if "int GROUPS = " in text else 1


def shared_bytes(text: str, d: int) -> int:
    """``sizeof(Shared<d>)``; barriers need less than one pattern."""
    rows = 64 * groups(text)
    keys, slots = number(text, "KEYS"), number(text, "SLOTS")
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


def exact(h: Heads, causal: bool) -> tuple[Array, Array]:
    """O in double, and the error that is allowed; both (layers, queries, d).

    A query that sees no key gets zeros. :func:`phasebit.chapters.attention.softmax.bound` says
    where the error comes from.
    """
    from phasebit.chapters.attention.softmax import bound

    layers, queries, d = h.q.shape
    k, v = (np.repeat(x, h.sharing, axis=0) for x in (h.k, h.v))
    keys = k.shape[1]
    with np.errstate(invalid="ignore"):
        scores = h.q @ k.swapaxes(1, 2) / np.sqrt(d)
        sizes = np.abs(h.q) @ np.abs(k).swapaxes(1, 2) / np.sqrt(d)
    if causal:
        hidden = np.arange(keys) > np.arange(queries)[:, None] + keys - queries
        scores = np.where(hidden, -np.inf, scores)
        sizes = np.where(hidden, 0, sizes)
    top = scores.max(axis=2, keepdims=True)
    p = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = p.sum(axis=2, keepdims=True)
    p = p / np.where(total == 0, 1, total)
    o = p @ v
    return o, bound(d, sizes.max(axis=2, keepdims=True), p @ np.abs(v), np.abs(o))


class Attended(NamedTuple):
    """What a kernel made on the emulator."""

    run: Run
    o: Array
    """float64 (layers, queries, d)."""
    error: float
    """The largest error, as a part of what is allowed; infinite where something is not written."""


def attend(
    text: str, h: Heads, causal: bool = False, *, schedule: str = "late", blocks: int = 2
) -> Attended:
    """Attention by a kernel whose O is full of NaN before.

    ``blocks``: of a kernel whose blocks stay.
    """
    from phasebit.emulator import TensorMap, formats
    from phasebit.launching.launch import compile

    layers, queries, d = h.q.shape
    keys, rows = h.k.shape[1], 64 * groups(text)
    boxes = (rows if "q_full," in text else 64), number(text, "KEYS"), number(text, "KEYS")
    maps = [
        TensorMap(np.asarray(formats.encode("bf16", x)), (64, box, 1), data_type="bf16",
                  swizzle="128B")
        for x, box in zip(h, boxes, strict=True)
    ]  # fmt: skip
    o = np.full((layers, queries, d), 0x7FFF, np.uint16)
    factor = np.float32(1 / np.sqrt(d)) * LOG2_E
    shape = np.array(
        [(queries, keys, h.sharing, factor)],
        dtype=[("queries", "i4"), ("keys", "i4"), ("sharing", "i4"), ("factor", "f4")],
    )
    stays = "Work" in text
    tiles = -(-queries // rows)
    run = compile(text)[f"attention<{d}, {str(causal).lower()}>"].launch(
        (blocks,) if stays else (tiles, layers), number_of_threads(text),
        [*maps, o, shape[0], *([work(queries, rows, layers)[0]] if stays else [])],
        shared=shared_bytes(text, d), schedule=schedule,
    )  # fmt: skip
    made = np.asarray(formats.decode("bf16", o), np.float64)
    right, allowed = exact(h, causal)
    ratio = np.abs(made - right) / np.maximum(allowed, 1e-30)
    return Attended(run, made, float(np.where(np.isnan(ratio), np.inf, ratio).max()))


def number_of_threads(text: str) -> int:
    """Of a block: the groups that multiply, and a warp or a whole group that produces."""
    return 128 * groups(text) + (32 if "+ 32;" in text else 128)


def work(queries: int, rows: int, layers: int, section: int = 2) -> Array:
    """What a kernel whose blocks stay knows of its tiles: its ``Work``."""
    return np.array(
        (-(-queries // rows), layers, min(section, layers)),
        dtype=[("rows", "i4"), ("layers", "i4"), ("section", "i4")],
    )
