"""Leave each call of the kernel chain.cu out in turn, and keep what the emulator finds.

    python tools/left_out.py

Writes records/left_out_findings.json. No GPU is needed; it takes a minute.
"""

from __future__ import annotations

import json

from phasebit import files, replay
from phasebit.chapters.chain import kernels, left_out_calls


def main() -> None:
    rows = left_out_calls.findings()
    record = {
        "what": "the emulator over a kernel without one of its calls",
        "kernel": kernels.CHAIN,
        "source": replay.key(kernels.source(kernels.CHAIN)),
        "shape": left_out_calls.SHAPE,
        "rows": rows,
    }
    path = files.records() / left_out_calls.RECORD
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    silent = [row["call"] for row in rows if not row["kind"]]
    print(f"{path.name}: {len(rows)} calls, nothing found for {len(silent)} of them")


if __name__ == "__main__":
    main()
