"""What the hint alone is worth: the same instructions, with another policy for the L2 cache.

In ``hints.cu`` a copy without a hint is another instruction than one with it. Here every copy
carries a policy, and only what it says differs. A fourth kernel reads the table alone.
"""

from __future__ import annotations

import re
from typing import Any

from phasebit import files, measure, toolchain
from phasebit.edits import replace_each
from phasebit.instruments import programs

NAME = "copy_engine_hints"
KERNEL = "copy_engine/hints"
NORMAL, STREAM_FIRST, TABLE_LAST, ALONE = (
    "both normal", "stream first", "stream first, table last", "no stream",
)  # fmt: skip

EDITS = (
    ("HINTS };\nconst char* const NAMES[] = {\"none\", \"stream first\", \"and table last\"};",
     "HINTS, ALONE };\nconst char* const NAMES[] = {"
     f'"{NORMAL}", "{STREAM_FIRST}", "{TABLE_LAST}", "", "{ALONE}"}};'),
    ("__device__ inline unsigned long long evict_last() {",
     "__device__ inline unsigned long long evict_normal() {\n"
     "    unsigned long long policy;\n"
     '    asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0;" : "=l"(policy));\n'
     "    return policy;\n}\n"
     "__device__ inline unsigned long long evict_last() {"),
    ("first = HINT == NONE ? 0 : evict_first();",
     "first = HINT == NONE || HINT == ALONE ? evict_normal() : evict_first();"),
    ("last = HINT == TABLE_LAST ? evict_last() : 0;",
     "last = HINT == TABLE_LAST ? evict_last() : evict_normal();"),
    ("        const int piece = copy / 2 * gridDim.x + blockIdx.x;\n"
     "        const bool streamed = copy % 2 == 0;\n",
     "        const int piece = (HINT == ALONE ? copy : copy / 2) * gridDim.x + blockIdx.x;\n"
     "        const bool streamed = HINT != ALONE && copy % 2 == 0;\n"),
    ("        if (streamed && HINT != NONE) load(memory + s * BYTES, from, &full[s], first);\n"
     "        else if (!streamed && HINT == TABLE_LAST) load(memory + s * BYTES, from, &full[s], "
     "last);\n"
     "        else ptx::cp_async_bulk_load(memory + s * BYTES, from, BYTES, &full[s]);\n",
     "        load(memory + s * BYTES, from, &full[s], streamed ? first : last);\n"),
    ("for (int mib : {4, 8, 16, 24, 32, 48}) {",
     "for (int mib : {8, 16, 24, 28, 32, 40, 48, 56}) {"),
    ("            run<TABLE_LAST>(b, around, 5);\n        }",
     "            run<TABLE_LAST>(b, around, 5);\n            run<ALONE>(b, around, 5);\n"
     "        }"),
)  # fmt: skip
"""What stands in the chapter's program, and what stands there here."""


def text() -> str:
    """The program; raises ``ValueError`` where an edit does not fit."""
    return replace_each(files.kernel(KERNEL), EDITS, KERNEL)


def build() -> toolchain.Build:
    """Compiled for this machine's GPU."""
    return toolchain.build(text(), name=NAME)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU; raises :class:`toolchain.CudaError` when there is none."""
    facts = measure.facts()
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "policies": "hints.cu, every copy by the instruction with a policy for the L2 cache; "
            f"{NORMAL}: evict_normal for stream and table; {STREAM_FIRST}: evict_first for the "
            f"stream; {TABLE_LAST}: evict_last for the table as well; {ALONE}: as many bytes, all "
            "from the table, evict_normal",
            "memory": "1 GiB of pseudo-random bits as a stream, and as many bytes read from a "
            "table, around; 132 blocks, 64 KiB under way in each; a launch that does not count, "
            "then 5 that do, in 3 rounds; GB/s of each, of stream and table together",
        },
        "hints": read(programs.output(build().program, "time")),
    }


def read(said: str) -> dict[str, dict[str, list[float]]]:
    """MiB of the table -> policy -> GB/s of each launch."""
    rates: dict[str, dict[str, list[float]]] = {}
    for mib, hint, rate in re.findall(r"^⏱ table=(\d+) ([^:]+): (\S+)$", said, re.MULTILINE):
        rates.setdefault(mib, {}).setdefault(hint, []).append(float(rate))
    return rates
