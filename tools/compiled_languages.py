"""Keep what Triton makes of the kernels of *In other languages*, for machines without it.

    python tools/compiled_languages.py

Writes records/languages_compiled.json. Needs Triton, no GPU.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import sys
from dataclasses import replace
from importlib.metadata import version

from phasebit import files
from phasebit.chapters.in_other_languages import languages


def fingerprint(name: str) -> str:
    """What a kernel's text is."""
    return hashlib.sha256(languages.source(name).encode()).hexdigest()[:16]


def main() -> None:
    if not languages.installed():
        sys.exit("Triton is not installed: pip install triton")
    made = {name: replace(languages.now(name), origin="") for name in languages.NAMES}
    record = {
        "date": datetime.date.today().isoformat(), "target": "sm_100a",
        "package": f"triton {version('triton')}",
        "sources": {name: fingerprint(name) for name in languages.NAMES},
        "made": languages.packed(made),
    }  # fmt: skip
    path = files.records() / languages.RECORD
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
