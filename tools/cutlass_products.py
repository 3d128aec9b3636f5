"""Count what CUTLASS's products for Blackwell execute, beside those of *Four producers, four
consumers*.

    python tools/cutlass_products.py CHECKOUT

CHECKOUT is one of github.com/NVIDIA/cutlass. Writes records/chain_cutlass.json. Needs
nvidia-cutlass-dsl, no GPU; it takes some minutes.
"""

from __future__ import annotations

import datetime
import json
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from phasebit import files, toolchain
from phasebit.chapters.chain import beside_cutlass, kernels
from phasebit.instruments import cutlass_examples


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    checkout = Path(sys.argv[1])
    counts: dict[str, dict[str, dict[str, object]]] = {}
    for out in kernels.OUT_BYTES:
        for name, (mine, file, pair) in beside_cutlass.COMPARED.items():
            counts.setdefault(out, {})[name] = {
                "ours": asdict(beside_cutlass.ours(mine, out)),
                "cutlass": asdict(beside_cutlass.cutlass(checkout, file, pair, out)),
            }
    record = {
        "date": datetime.date.today().isoformat(), "target": "sm_100a",
        "package": f"nvidia-cutlass-dsl {version('nvidia-cutlass-dsl')}",
        "source": [f"github.com/NVIDIA/cutlass, {cutlass_examples.EXAMPLES}/{file}"
                   for file in beside_cutlass.FILES.values()],
        "commit": cutlass_examples.commit(checkout),
        "nvcc": toolchain.nvcc().version,
        "shape": beside_cutlass.SHAPE,
        "counts": counts,
    }  # fmt: skip
    path = files.records() / beside_cutlass.RECORD
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
