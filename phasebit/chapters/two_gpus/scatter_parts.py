"""What a reduce-scatter costs beside its product where the link does not bind, part by part.

The kernel whose parts the copy engine takes over, without what might cost it: parts are copied or
stay, what came is added or not, nothing is copied or awaited, nothing is stored for the peer. All
but the first contender are wrong on purpose; the untouched kernel is checked before.

    python -m phasebit.chapters.two_gpus.scatter_parts RANK PLAN

is one of the two processes, as in :mod:`.ranks`.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from phasebit import files, measure, toolchain
from phasebit.chapters.two_gpus import ranks
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch
from phasebit.instruments.beside_torch import Launch

NAME = "two_gpus_parts"
GPUS = 2
KERNEL, PLAIN = "two_gpus/h_copied_scatter", "our product"
ROWS = COLUMNS = 8192
DEPTHS = (2048, 4096)
"""K of each GPU."""
ROUNDS = 10
SECONDS = 150.0
"""How long the two processes may take."""

Edits = tuple[tuple[str, str], ...]

_SEES = "    __syncwarp();  // the other lanes, too, see what the flag tells\n"
_NOT_ADDED: Edits = ((_SEES, _SEES + "    if (turn) return;  // always\n"),)
_STAY: Edits = (
    ("            CHECK(cudaMemcpyAsync(p.there + from, p.leaving + from, count * sizeof(bf16),\n"
     "                                  cudaMemcpyDefault, stream));\n",
     "            (void)from, (void)count;\n"),
)  # fmt: skip
_NO_COPIES: Edits = (
    ("    beside[p.device]->copy(p, tiles.count(), blocks);\n", ""),
    ("    if (threadIdx.x % 32 == 0)\n        while (ptx::load_acquire_sys(full) < turn) {}\n", ""),
)
_NOT_LAID: Edits = (("                lay(way.leaving + strip, sums);\n", ""),)

PARTS: dict[str, Edits] = {
    "whole": (),
    "parts stay": _STAY,
    "not added": _NOT_ADDED,
    "parts stay, not added": (*_STAY, *_NOT_ADDED),
    "no copies": _NO_COPIES,
    "no copies, not added": (*_NO_COPIES, *_NOT_ADDED),
    "no copies, not added, not stored": (*_NO_COPIES, *_NOT_ADDED, *_NOT_LAID),
}
"""Contender -> what is replaced by what. Where parts stay, flags are still copied and awaited;
without copies nothing is awaited."""


def text(name: str) -> str:
    """A contender; raises ``ValueError`` where an edit does not fit."""
    if name == PLAIN:
        return files.kernel("hopper_ring/d_boxes_of_c")
    return replace_each(files.kernel(KERNEL), PARTS[name], KERNEL)


def build(name: str) -> toolchain.Build:
    """The same as a library."""
    return toolchain.build(text(name), name=NAME, target="sm_90a", library=True)


def record() -> dict[str, Any]:
    """Measure on this machine's two GPUs.

    Raises :class:`toolchain.CudaError` when there are no two GPUs or no torch, or when a kernel
    fails, or the untouched one is wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    if torch.cuda.device_count() < GPUS:
        raise toolchain.CudaError(f"{NAME} is measured on two GPUs, and this machine has one")
    names = (*PARTS, PLAIN)
    with ThreadPoolExecutor(len(names)) as pool:
        built = dict(zip(names, pool.map(build, names), strict=True))
    libraries = {name: str(each.program) for name, each in built.items()}
    found = ranks.measured(__name__, {"libraries": libraries}, SECONDS)
    for case in found:
        middle = {name: statistics.median(each) for name, each in case["times_us"].items()}
        for name, each in middle.items():
            print(f"⏱ K = {case['shape'][2]}, {name}: {each:.1f} µs, "
                  f"{each - middle[PLAIN]:+.1f}")  # fmt: skip
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events before and after a row of launches, on each GPU; of the two "
            "the longer time by launch",
            "order": f"in each of {ROUNDS} rounds the contenders in a new random order, the same "
            f"on both GPUs: {ranks.REST:g} s without work, {ranks.WARM} launches that do not "
            f"count, both GPUs meet, then {ranks.EACH} that do",
            "processes": "one for each GPU; memory of the peer by torch's symmetric memory",
            "inputs": "normal random bf16 numbers, K innermost; no flush between launches",
            "check": "the untouched kernel before timing, as in two_gpus; all others but the "
            "product are wrong on purpose",
            "parts": "parts stay: flags alone are copied; not added: the consumers wait for what "
            "has come and do not read it; no copies: nothing is copied, and nobody waits; not "
            "stored: the peer's sums are computed and go nowhere",
        },
        "cases": found,
    }


def _times(
    pair: ranks.Pair, libraries: dict[str, ctypes.CDLL], depth: int
) -> dict[str, list[float]]:
    torch, shape = pair.torch, (ROWS, COLUMNS, depth)
    checked = {"scatter": libraries["whole"], "plain": libraries[PLAIN]}
    ranks.scatter(pair, checked, shape, 0, False)  # ends the process where it is wrong
    a, b = pair.random(ROWS, depth), pair.random(COLUMNS, depth)
    part, c = (torch.empty(x, COLUMNS, device=pair.device, dtype=torch.bfloat16)
               for x in (ROWS, ROWS // 2))  # fmt: skip
    strips = ROWS // 2 // 128 * (COLUMNS // 256) * 8
    launches: dict[str, Launch] = {}

    def launcher(name: str) -> Launch:
        link = ranks.Ours(pair, strips * 16 * 256, [1] * strips)
        return lambda: link.launch(libraries[name], (a, b, c), shape)

    for name in PARTS:
        launches[name] = launcher(name)
        pair.meet()
        launches[name]()  # loads the program, and makes its first copy
        pair.meet()
    launches[PLAIN] = lambda: libraries[PLAIN].product(
        *beside_torch.pointers((a, b, part)), *shape, pair.units, pair.stream
    )
    return pair.times(launches, ROUNDS)


def main(rank: int, plan: dict[str, Any]) -> None:
    """Measure what the plan asks for, as one of the two processes."""
    pair = ranks.Pair(rank, plan["port"])
    libraries = {name: ctypes.CDLL(path) for name, path in plan["libraries"].items()}
    found = []
    for depth in DEPTHS:
        times = _times(pair, libraries, depth)
        found.append({"kind": "scatter", "shape": [ROWS, COLUMNS, depth], "times_us": times})
        if rank == 0:
            Path(plan["result"]).write_text(json.dumps(found), "utf-8")
        pair.torch.cuda.empty_cache()
    pair.meet()
    pair.dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text("utf-8")))
