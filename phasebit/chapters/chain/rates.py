"""A matrix product as a chain of rings, with documented rates of a B200: arithmetic, no time.

Zadouri et al. (FlashAttention-4) give, for each multiprocessor and clock, 8192 operations of the
tensor core in bf16 and 128 bytes of shared memory, and count against the latter what products read
there of A and B. The model adds the other roles of a block: the epilogue writes pieces, and the
copy engine reads them. No document that we know says whether the copy engine takes of the same 128
bytes; what it writes for the copies is counted only where that is asked for. How many bytes a
clock copies bring, and how late they come, is not documented: these are for the reader to choose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from phasebit.chapters.chain.model import KINDS, Chain, Ring, Role

if TYPE_CHECKING:
    from phasebit.timeline import Timeline

OPERATIONS, SHARED_BYTES = 8192, 128
"""Of a multiprocessor in a clock: of its tensor core in bf16, and of its shared memory."""

ROWS, COLUMNS, SLICE = 128, 256, 64
"""Of C that a multiprocessor makes at a time, and along k of a slot."""

PIECES = 8
"""Of a sum: 32 columns each, by the four warps together."""


def gemm(
    k: int, *, bytes_a_clock: int = 128, latency: int = 1000, stages: int = 4, sums: int = 2,
    pieces: int = 2, pair: bool = False, shared: int = SHARED_BYTES, writes: bool = False,
    out_bytes: int = 4,
) -> Chain:  # fmt: skip
    """The chain of one multiprocessor, alone or one of a pair, for tiles of depth ``k``.

    ``bytes_a_clock``: that copies bring to it; ``latency``: clocks until they have come.
    ``shared``: bytes that its shared memory moves in a clock, 0 for as many as anybody wants: the
    epilogue and the stores take no less time for it. Products read their slices from there, one of
    a pair half of B's rows; the epilogue writes each piece there, and the copy engine reads it.
    ``writes``: copies' writes count too. ``out_bytes``: of an element of C, 4 as in the sums or 2
    for bf16; the epilogue and the stores move so many. Raises ``ValueError`` for a k that is no
    multiple of 64.
    """
    if k < SLICE or k % SLICE:
        raise ValueError(f"k is {k}: give a multiple of {SLICE}")
    slices = k // SLICE
    product = 2 * ROWS * COLUMNS * SLICE // OPERATIONS
    out = ROWS * COLUMNS // PIECES * out_bytes
    piece = out // SHARED_BYTES
    copied = 2 * SLICE * (ROWS + COLUMNS // (2 if pair else 1))
    moved = (copied * writes, copied, out, out) if shared else (0, 0, 0, 0)
    return Chain(
        [
            Role("copies", slices, -(-copied // bytes_a_clock), latency, moved[0]),
            Role("tensor core", slices, product, 0, moved[1]),
            Role("epilogue", PIECES, piece, 0, moved[2]),
            Role("stores", PIECES, piece, 0, moved[3]),
        ],
        [
            Ring("ring of slices", stages, slices),
            Ring("ring of sums", sums, 1),
            Ring("ring of pieces", pieces, PIECES),
        ],
        shared,
    )


def moved(chains: Mapping[str, Chain]) -> Timeline:
    """For how many clocks each role of these chains takes its shared memory in a tile.

    Under each chain stands what its products take of the tensor core. Raises ``ValueError`` for a
    memory that is as fast as anybody wants.
    """
    from phasebit.timeline import Span, Timeline

    kinds = dict(zip((role.name for role in next(iter(chains.values())).roles), KINDS, strict=True))
    spans, rows = [], []
    for name, chain in chains.items():
        if not chain.shared_a_clock:
            raise ValueError(f"{name}: its shared memory takes no time")
        memory, products = f"{name}: shared memory", f"{name}: products"
        rows += [memory, products]
        now = 0.0
        for role in chain.roles:
            clocks = role.jobs * role.shared / chain.shared_a_clock
            if clocks:
                spans.append(Span(memory, now, now + clocks, kinds[role.name], f"{clocks:.0f}"))
                now += clocks
            if role.name == "tensor core":
                whole = role.jobs * role.clocks
                spans.append(Span(products, 0, whole, "hand-off", f"{whole:.0f}"))
    used = {span.kind for span in spans}
    said = {"tensor core": "products read", "copies": "copies write", "epilogue": "epilogue writes",
            "stores": "stores read"}  # fmt: skip
    legend = {kind: said[name] for name, kind in kinds.items() if kind in used}
    return Timeline(
        rows, spans, unit="clock",
        title=f"What a tile takes; shared memory moves {SHARED_BYTES} bytes a clock: the model",
        legend=legend | {"hand-off": "products take"},
    )  # fmt: skip
