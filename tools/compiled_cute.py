"""Keep what CuTe DSL makes of the kernels of *The same in CuTe DSL*, for machines without it.

    python tools/compiled_cute.py

Writes records/cute_dsl_compiled.json: the PTX of kernels/cute_dsl and of the chapter's slips, and
what the compiler says of layouts. Needs nvidia-cutlass-dsl, no GPU.
"""

from __future__ import annotations

import datetime
import json
import sys
from importlib.metadata import version

from phasebit import files
from phasebit.chapters.cute_dsl import compiled, slips


def texts() -> dict[str, tuple[str, str]]:
    """Everything that is kept: its key -> the text, and what of it is compiled."""
    sources = {entry: compiled.source(compiled.file_of(entry)) for entry in compiled.ENTRIES}
    pairs = [(text, entry) for entry, text in sources.items()]
    pairs += [(slip.source, slip.entry) for slip in slips.SLIPS.values()]
    return {compiled.key(text, entry): (text, entry) for text, entry in pairs}


def main() -> None:
    if not compiled.installed():
        sys.exit("CuTe DSL is not installed: pip install nvidia-cutlass-dsl")
    made = {name: compiled.now(*pair) for name, pair in texts().items()}
    made[compiled.key(compiled.source(compiled.LAYOUTS), "show")] = json.dumps(
        compiled.layouts()[0]
    )
    record = {
        "date": datetime.date.today().isoformat(), "target": compiled.TARGET,
        "package": f"nvidia-cutlass-dsl {version('nvidia-cutlass-dsl')}",
        "made": compiled.packed(made),
    }  # fmt: skip
    path = files.records() / compiled.RECORD
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}: {len(made)} texts, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
