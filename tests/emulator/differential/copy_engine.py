"""The copy engine against the GPU: random tensor maps, and the kernels of the bulk copies' tests.

    python -m tests.emulator.differential.copy_engine [CASES] [FILE]

prints how many copies agree bit for bit, by what they have in common, and writes those that do
not to FILE (``.npz``: the case, the emulator's bytes, the GPU's).
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np

from tests.emulator import tensors, test_bulk, test_cluster

SEED = 5000


def traits(case: tensors.Case, kind: str) -> list[str]:
    """What may matter about a case."""
    inner = case.box[0] * case.size
    span = tensors.SPANS[case.swizzle]
    found = [kind, f"swizzle {case.swizzle}", case.data_type, f"rank {len(case.dims)}"]
    if case.swizzle != "none" and inner < span:
        found.append("box narrower than the swizzle")
    if case.fill == "nan":
        found.append("filled with NaN")
    if any(s > 1 for s in case.steps[1:]):
        found.append("element strides")
    return found


def tensor_copies(cases: int) -> tuple[Counter[str], Counter[str], dict[str, Any]]:
    """How many copies agree, how many do not, by trait; and the first that do not."""
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    kept: dict[str, Any] = {}
    for seed in range(cases):
        random = np.random.default_rng(SEED + seed)
        kind = ("load", "store", "add")[seed % 3]
        case = tensors.draw(random, tensors.HOPPER, kind != "load")
        if kind == "add" and case.data_type not in ("u32", "s32", "u64"):
            kind = "load"
        tile = random.integers(0, 256, tensors.shown(case), dtype=np.uint8)
        _, data, shown = tensors.run(case, kind, tile, check=False)
        _, gpu_data, gpu_shown = tensors.run(case, kind, tile, device="gpu")
        same = np.array_equal(data, gpu_data) and np.array_equal(shown, gpu_shown)
        (right if same else wrong).update(traits(case, kind))
        if not same and len(kept) < 60:
            kept |= {
                f"{seed}_case": repr(case), f"{seed}_mine": shown, f"{seed}_gpu": gpu_shown,
                f"{seed}_memory": data, f"{seed}_gpu_memory": gpu_data,
            }  # fmt: skip
    return right, wrong, kept


def kernels() -> dict[str, bool]:
    """The right kernels of the bulk copies' and the clusters' tests: do both give the same?"""
    both = "arrive(); cluster_wait();"
    bulk: dict[str, tuple[str, dict[str, Any]]] = {
        "bulk load": (test_bulk.loading(), {}),
        "bulk store": (test_bulk.storing(), {}),
        "bulk to a peer": (test_bulk.PEER.replace("LAST", both), {"size": 2}),
        "st.async": (
            test_bulk.sending(test_bulk.TestAsyncStores.STORE.format(".s32", "%1")), {"size": 2},
        ),
    }  # fmt: skip
    for op in ("add.s32", "add.u64", "min.s32", "max.u32", "min.s64", "and.b32", "or.b64",
               "xor.b32", "inc.u32", "dec.u32", "add.f32", "add.noftz.f16", "add.noftz.bf16",
               "max.f16", "min.bf16"):  # fmt: skip
        bulk[f"bulk reduce {op}"] = (test_bulk.REDUCE.replace("OP", op), {})
    for op in ("add.u32", "max.s32", "and.b32"):
        text = f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op}"
        bulk[f"red.async {op}"] = (test_bulk.sending(text + " [%0], %1, [%2];"), {"size": 2})
    found = {}
    for name, (body, options) in bulk.items():
        found[name] = all(
            np.array_equal(a, b)
            for a, b in zip(
                test_bulk.launch(body, **options)[1:],
                test_bulk.launch(body, **options, device="gpu")[1:],
                strict=True,
            )
        )
    for name, body in {
        "cluster barrier": test_cluster.EXCHANGE % (both, both),
        "remote arrive": test_cluster.REMOTE % ("fence_init();", both, both),
    }.items():
        mine, other = (test_cluster.launch(body, device=d)[1] for d in ("emulator", "gpu"))
        found[name] = bool(np.array_equal(mine, other))
    return found


def main() -> None:
    for name, same in kernels().items():
        print(f"{'agrees' if same else 'DIFFERS'}  {name}")
    right, wrong, kept = tensor_copies(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
    for trait in sorted(right | wrong):
        print(f"{right[trait]:5} agree, {wrong[trait]:5} differ  {trait}")
    if len(sys.argv) > 2:
        np.savez(sys.argv[2], **kept)


if __name__ == "__main__":
    main()
