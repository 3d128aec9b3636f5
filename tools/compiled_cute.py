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
from phasebit.chapters.cute_dsl import cute_ptx, pipeline_slips, written_ring


def texts() -> dict[str, tuple[str, str]]:
    """Everything that is kept: its key -> the text, and what of it is compiled."""
    sources = {entry: cute_ptx.source(cute_ptx.file_of(entry)) for entry in cute_ptx.ENTRIES}
    pairs = [(text, entry) for entry, text in sources.items()]
    pairs += [(slip.source, slip.entry) for slip in pipeline_slips.SLIPS.values()]
    pairs += [
        (written_ring.whole(written_ring.changed(name)), written_ring.ENTRY)
        for name in written_ring.CHANGES
    ]
    return {cute_ptx.key(text, entry): (text, entry) for text, entry in pairs}


def main() -> None:
    if not cute_ptx.installed():
        sys.exit("CuTe DSL is not installed: pip install nvidia-cutlass-dsl")
    made = {name: cute_ptx.now(*pair) for name, pair in texts().items()}
    made[cute_ptx.key(cute_ptx.source(cute_ptx.LAYOUTS), "show")] = json.dumps(
        cute_ptx.layouts()[0]
    )
    record = {
        "date": datetime.date.today().isoformat(), "target": cute_ptx.TARGET,
        "package": f"nvidia-cutlass-dsl {version('nvidia-cutlass-dsl')}",
        "made": cute_ptx.packed(made),
    }  # fmt: skip
    path = files.records() / cute_ptx.RECORD
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}: {len(made)} texts, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
