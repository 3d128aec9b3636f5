"""Count what CUTLASS's products for Blackwell execute, beside those of *Four producers, four
consumers* and of *Low precision, block by block*.

    python tools/cutlass_products.py CHECKOUT [chain] [low_precision]

CHECKOUT is one of github.com/NVIDIA/cutlass. Writes records/chain_cutlass.json and
records/low_precision_cutlass.json, or the one that is named. Needs nvidia-cutlass-dsl, no GPU; it
takes some minutes.
"""

from __future__ import annotations

import datetime
import json
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from phasebit import files, toolchain
from phasebit.chapters.chain import beside_cutlass, kernels
from phasebit.chapters.low_precision import scaled_cutlass
from phasebit.instruments import cutlass_examples


def dense(checkout: Path) -> dict[str, Any]:
    """The counts of the chain's kernels, by the type of C."""
    return {out: {name: {"ours": asdict(beside_cutlass.ours(mine, out)),
                         "cutlass": asdict(beside_cutlass.cutlass(checkout, file, pair, out))}
                  for name, (mine, file, pair) in beside_cutlass.COMPARED.items()}
            for out in kernels.OUT_BYTES}  # fmt: skip


def scaled(checkout: Path) -> dict[str, Any]:
    """The counts of the products of NVFP4."""
    return {name: {"ours": asdict(scaled_cutlass.ours(mine, pair)),
                   "cutlass": asdict(scaled_cutlass.cutlass(checkout, pair))}
            for name, (mine, pair) in scaled_cutlass.COMPARED.items()}  # fmt: skip


RECORDS = {
    "chain": (beside_cutlass, list(beside_cutlass.FILES.values()), dense),
    "low_precision": (scaled_cutlass, [scaled_cutlass.FILE], scaled),
}
"""Chapter -> the module that shows its record, CUTLASS's files, what counts."""


def main() -> None:
    if len(sys.argv) < 2 or not RECORDS.keys() >= set(sys.argv[2:]):
        sys.exit(__doc__)
    checkout = Path(sys.argv[1])
    for name in sys.argv[2:] or RECORDS:
        shown, sources, count = RECORDS[name]
        record = {
            "date": datetime.date.today().isoformat(), "target": "sm_100a",
            "package": f"nvidia-cutlass-dsl {version('nvidia-cutlass-dsl')}",
            "source": [f"github.com/NVIDIA/cutlass, {cutlass_examples.EXAMPLES}/{file}"
                       for file in sources],
            "commit": cutlass_examples.commit(checkout),
            "nvcc": toolchain.nvcc().version,
            "shape": shown.SHAPE,
            "counts": count(checkout),
        }  # fmt: skip
        path = files.records() / shown.RECORD
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
