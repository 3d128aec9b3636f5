"""Explorers: what a reader may choose the numbers of, worked out in the page.

A box ``<div class="phasebit-explorer" data-explorer="KIND">`` becomes one; the kinds are those of
:data:`SCRIPTS`, and tests compare what each works out with the package. The tables that they need
are the emulator's, written as a script at every build.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from phasebit import measure, palette
from phasebit.emulator import (
    capabilities,
    descriptor_words,
    fragments,
    instruction_descriptors,
    matrix_descriptors,
    scaled_descriptors,
)

from .written import write_script

SCRIPTS = {
    "explorers.js": ("banks", "descriptor", "tensor"),
    "explorer_layouts.js": ("layout", "divide", "tiles"),
    "explorer_machine.js": ("law", "occupancy", "thread", "sets", "roof"),
    "explorer_engines.js": ("fragment", "box", "barrier", "cluster", "scales"),
    "explorer_order.js": ("order", "loops"),
    "explorer_mesh.js": ("mesh",),
}
"""Which script draws which kinds."""
KINDS = tuple(kind for kinds in SCRIPTS.values() for kind in kinds)
PARTS, TABLES = "explorer_parts.js", "explorer_tables.js"
"""What all of them need."""

_BOX = re.compile(r'<div[^>]*\bclass="phasebit-explorer"[^>]*>')
_KIND = re.compile(r'\bdata-explorer="([^"]*)"')


def add_script(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give a page with explorers the script. Refuses a kind that there is not."""
    kinds: set[str] = set()
    for box in (boxes := _BOX.findall(context.get("body", ""))):
        kind = found[1] if (found := _KIND.search(box)) else ""
        if kind not in KINDS:
            raise ExtensionError(f"{page}: no explorer is called {kind!r}: choose from {KINDS}")
        kinds.add(kind)
    needed = [script for script, drawn in SCRIPTS.items() if kinds & {*drawn}]
    for script in (*((TABLES, PARTS) if boxes else ()), *needed):
        app.add_js_file(script, loading_method="defer")


def descriptors() -> dict[str, dict[str, Any]]:
    """Kind of descriptor -> its ``bits``, and ``fields``: low bit, width, name, meaning.

    The meaning is a factor for what is written divided by it, or a table from numbers to words.
    """
    found: dict[str, dict[str, Any]] = {}
    for family, modes in matrix_descriptors.SWIZZLES.items():
        swizzles = {number: swizzle.name for number, swizzle in modes.items()}
        low, version = (62, 0) if family == "wgmma" else (61, 1)
        found[f"matrix, {family}"] = {
            "bits": 64,
            "fields": [
                (0, 14, "address", 16), (16, 14, "leading offset", 16),
                (32, 14, "stride offset", 16), (46, 3, "version", {version: f"{family}'s"}),
                (49, 3, "base offset", 1), (low, 64 - low, "swizzle", swizzles),
            ],
        }  # fmt: skip
    flags = {0: "no", 1: "yes"}
    both = [(low, width, name, flags) for low, width, name in descriptor_words.BOTH if width == 1]
    for kind, types in instruction_descriptors.TYPES.items():
        results = instruction_descriptors.RESULTS[kind]
        found[f"instruction, kind::{kind}"] = {
            "bits": 32,
            "fields": sorted(
                [*both, (3, 1, "saturate", flags), (4, 2, "type of D", results),
                 (7, 3, "type of A", types), (10, 3, "type of B", types),
                 (17, 6, "N", 8), (24, 5, "M", 16)],
                key=lambda field: field[0],
            ),
            "rules": rules(kind),
        }  # fmt: skip
    return found


def rules(kind: str) -> dict[str, Any]:
    """What ``tcgen05.mma`` of a kind takes, as the emulator's decoder says when it is asked.

    ``k``: elements along k; ``shapes``: cta_group -> M -> the values of N; ``zero``: fields that
    must be 0; ``bytes``: types of operands for whose N-major B the step of N is 16 for each block.
    """
    operand = next(iter(instruction_descriptors.TYPES[kind].values()))
    result = next(iter(instruction_descriptors.RESULTS[kind].values()))

    def takes(m: int, n: int, group: int, extra: int = 0, operand: str = operand) -> bool:
        bits = instruction_descriptors.encode(kind, m, n, operand, operand, result) | extra
        try:
            instruction_descriptors.decode(bits, kind, group)
        except instruction_descriptors.InstructionDescriptorError:
            return False
        return True

    low = {name: at for at, _, name in descriptor_words.BOTH} | {"saturate": 3}
    flags = ("sparse A", "saturate", "negate A", "negate B")
    types = instruction_descriptors.TYPES[kind].values()
    return {
        "k": instruction_descriptors.DEPTH[kind],
        "shapes": {
            group: {m: [n for n in range(8, 257, 8) if takes(m, n, group)]
                    for m in range(16, 257, 16) if takes(m, 32 * group, group)}
            for group in (1, 2)
        },
        "zero": [name for name in flags if not takes(128, 64, 1, 1 << low[name])],
        "bytes": [name for name in types if not takes(64, 8, 1, 1 << 16, name)],
    }  # fmt: skip


def limits() -> dict[str, dict[str, int]]:
    """Architecture -> what one multiprocessor holds, for what fits on it."""
    return {
        f"sm_{arch}": {
            "warps": own.warps, "blocks": own.blocks, "registers": own.registers,
            "shared": own.shared, "block_shared": own.block_shared,
            "reserved_shared": own.reserved_shared, "shared_unit": own.shared_unit,
            "register_unit": capabilities.REGISTER_UNIT, "files": capabilities.REGISTER_FILES,
            "block_threads": capabilities.MAX_BLOCK,
        }
        for arch, own in capabilities.LIMITS.items() if arch in (90, 100, 80, 75)
    }  # fmt: skip


def held() -> dict[str, dict[str, Any]]:
    """Matrix of a product or of ``ldmatrix`` -> its shape, and where what a lane holds lies in it.

    Of a warp group's matrices, whose warps hold 16 rows each, there are 128 threads.
    """
    found = {}

    def add(name: str, part: fragments.Fragment, share: int, warps: int = 1) -> None:
        rows, columns = part.shape
        found[name] = {
            "shape": (warps * rows, columns), "packed": share,
            "row": [line for warp in range(warps) for line in (part.row + rows * warp).tolist()],
            "column": part.column.tolist() * warps,
        }  # fmt: skip

    for shape, m, n, k, types in (
        ("m16n8k16", 16, 8, 16, "f16, bf16"), ("m16n8k8", 16, 8, 8, "tf32"),
        ("m16n8k32", 16, 8, 32, "s8, e4m3"),
    ):  # fmt: skip
        packed = {"f16, bf16": 2, "tf32": 1, "s8, e4m3": 4}[types]
        for name, part, share in (
            ("A", fragments.operand_a(m, k, packed), packed),
            ("B", fragments.operand_b(n, k, packed), packed),
            ("C", fragments.accumulator(m, n), 1),
        ):
            add(f"{name} of {shape}, {types}", part, share)
    for count in (1, 2, 4):  # a register of each matrix of 8 × 8, one below the other
        plain, turned = fragments.operand_a(8, 8, 2), fragments.operand_b(8, 8, 2)
        for name, part in (("", plain), (".trans", turned)):
            below = 8 * np.repeat(np.arange(count), 2)
            stacked = fragments.Fragment(
                (8 * count, 8), np.tile(part.row, count) + below, np.tile(part.column, count)
            )
            add(f"ldmatrix.x{count}{name}, 16 bits", stacked, 2)
    add("D of wgmma m64n16, f32", fragments.accumulator(16, 16), 1, 4)
    add("A of wgmma m64k16, f16, bf16", fragments.operand_a(16, 16, 2), 2, 4)
    return found


def scales() -> dict[str, dict[str, Any]]:
    """Kind of a product with block scales -> what one instruction takes.

    ``depth``: elements along k; ``rows``: scales of a row; ``ids``: the bytes of a word at which
    the first of them can stand.
    """
    return {
        f"{kind}, {vector or 'block32'}": {
            "depth": scaled_descriptors.K[kind], "rows": per_row,
            "ids": scaled_descriptors.IDS[per_row],
        }
        for kind, vectors in scaled_descriptors.VECTORS.items()
        for vector, per_row in vectors.items() if vector.startswith("scale_vec")
    }  # fmt: skip


def roof() -> dict[str, Any]:
    """The roof that was measured: ``bandwidth`` in GB/s, ``rates`` by name in TFLOP/s."""
    found = measure.roofline()
    return {
        "bandwidth": round(1000 * found.bandwidth),
        "rates": {name: round(rate) for name, rate in found.rates.items()},
    }


def write_tables(app: Sphinx) -> None:
    """Write the emulator's tables, and the colours of what comes in eights."""
    write_script(
        app, TABLES, phasebitDescriptors=descriptors(), phasebitHues=palette.EIGHT,
        phasebitLimits=limits(), phasebitFragments=held(),
        phasebitScales=scales(), phasebitRoof=roof(),
    )  # fmt: skip


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", add_script)
    app.connect("builder-inited", write_tables)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
