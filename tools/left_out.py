"""Leave each call of chapter 16's ring out in turn, and keep what the emulator finds.

    python tools/left_out.py

Writes records/left_out_findings.json. No GPU is needed; it takes a minute.
"""

from __future__ import annotations

import json

from phasebit import blackwell, files, leave_one_out


def main() -> None:
    rows = leave_one_out.findings()
    record = {
        "what": "the emulator over a kernel without one of its calls",
        "kernel": blackwell.RING,
        "source": blackwell.fingerprint(blackwell.RING),
        "shape": leave_one_out.SHAPE,
        "rows": rows,
    }
    path = files.records() / leave_one_out.RECORD
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    silent = [row["call"] for row in rows if not row["kind"]]
    print(f"{path.name}: {len(rows)} calls, nothing found for {len(silent)} of them")


if __name__ == "__main__":
    main()
