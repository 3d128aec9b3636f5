"""Keep what Triton and TileLang make of the kernels of *The same in other languages*.

    python tools/compiled_languages.py

Writes records/languages_compiled.json, for machines without them. Needs no GPU. A kernel whose
compiler is not installed stays as it was kept, unless its text has changed.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import sys
from dataclasses import replace

from phasebit import files
from phasebit.chapters.in_other_languages import languages


def fingerprint(name: str) -> str:
    """What a kernel's text is."""
    return hashlib.sha256(languages.source(name).encode()).hexdigest()[:16]


def main() -> None:
    before = languages.record()
    made = languages.unpacked(before["made"])
    packages = dict(before["packages"])
    for name, package in languages.PACKAGES.items():
        version = languages.installed(package)
        if version:
            made[name] = replace(languages.now(name), origin="")
            packages[package] = f"{package} {version}"
        elif before["sources"].get(name) != fingerprint(name):
            sys.exit(f"{name}'s kernel has changed, and {package} is not installed: pip install it")
    record = {
        "date": datetime.date.today().isoformat(), "target": "sm_100a", "packages": packages,
        "sources": {name: fingerprint(name) for name in languages.NAMES},
        "made": languages.packed(made),
    }  # fmt: skip
    path = files.records() / languages.RECORD
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
