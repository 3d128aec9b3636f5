# mypy: ignore-errors
"""Compile the attention kernel for both targets and keep it.

    python -m tests.foreign.deleted.make

Needs Triton, no GPU.
"""

from __future__ import annotations

import datetime
import json
import lzma
import re
from importlib.metadata import version

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

from tests.foreign.deleted import FOLDER
from tests.foreign.triton_tools import SWIZZLES

KEYS = 160


def without_places(ptx):
    """The text without what it says of the folders of the machine that made it."""
    return re.sub(r"(\.file\s+\d+\s+)\"[^\"]*/", r'\1"', ptx.partition("\t.section\t.debug")[0])


@triton.jit
def attend(queries, keys, values, result, count, ROWS: tl.constexpr, TILE: tl.constexpr,
           DEPTH: tl.constexpr):  # fmt: skip
    """Softmax(Q Kᵀ) V for ROWS queries, a tile of keys at a time."""
    first = tl.program_id(0) * ROWS
    mine = queries.load([first, 0])
    largest = tl.full([ROWS], -1e9, tl.float32)
    weight = tl.zeros([ROWS], tl.float32)
    total = tl.zeros([ROWS, DEPTH], tl.float32)
    for at in tl.range(0, count, TILE):
        scores = tl.dot(mine, keys.load([at, 0]).T) * 1.44269504
        now = tl.maximum(largest, tl.max(scores, 1))
        shrink = tl.exp2(largest - now)
        parts = tl.exp2(scores - now[:, None])
        weight = weight * shrink + tl.sum(parts, 1)
        total = tl.dot(parts.to(tl.float16), values.load([at, 0]), total * shrink[:, None])
        largest = now
    result.store([first, 0], (total / weight[:, None]).to(tl.float16))


def save(capability, rows, tile, depth):
    boxes = {"queries": rows, "keys": tile, "values": tile, "result": rows}
    types = {name: f"tensordesc<fp16[{n},{depth}]>" for name, n in boxes.items()}
    sizes = {"ROWS": rows, "TILE": tile, "DEPTH": depth}
    source = triton.compiler.ASTSource(
        attend, signature=types | {"count": "i32"} | dict.fromkeys(sizes, "constexpr"),
        constexprs=sizes,
    )  # fmt: skip
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32),
                          options={"num_warps": 4, "num_stages": 2})  # fmt: skip
    args = []
    for about, array in zip(made.metadata.tensordesc_meta, ("q", "k", "v", "out"), strict=True):
        args.append({"array": array, "box": about["block_size"][::-1],
                     "swizzle": SWIZZLES[about["swizzle"]]})  # fmt: skip
        args += [rows if array in ("q", "out") else KEYS, depth, depth, 1]
    args += [KEYS, {"scratch": 256}, 0]
    ptx = without_places(made.asm["ptx"])
    head = ptx[: ptx.index("{\n", ptx.index(".entry"))]
    about = {
        "compiler": f"triton {version('triton')}", "target": f"sm_{capability}",
        "date": datetime.date.today().isoformat(), "shape": [rows, KEYS, depth],
        "threads": 32 * made.metadata.num_warps, "shared": made.metadata.shared,
        "args": args[: head.count(".param")], "ptx": ptx,
    }  # fmt: skip
    kept = lzma.compress(json.dumps(about).encode(), preset=9)
    (FOLDER / f"sm_{capability}.json.xz").write_bytes(kept)


if __name__ == "__main__":
    save(90, 64, 32, 32)
    save(100, 128, 32, 32)
