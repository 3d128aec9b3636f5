"""Which of the chapter's programs must be clean under compute-sanitizer: all of them.

Those without a ``main`` are launched from Python, on small arrays.
"""

from __future__ import annotations

import os
import sys

from phasebit import files
from phasebit.chapters.threads_and_memory import record
from phasebit.instruments.sanitizer import Program


def programs() -> dict[str, Program]:
    """Name -> program."""
    return {
        "counted": Program(
            "".join(files.kernel(f"threads_and_memory/{name}") for name in record.PROGRAMS),
            command=(sys.executable, "-m", record.__name__, "kernels"),
            inputs=f"{', '.join(record.PROGRAMS)}: launched from Python on small arrays, as for "
            "counting",
        ),
        "bandwidth": Program(files.kernel("threads_and_memory/bandwidth"), ("--json", os.devnull)),
        "divergence": Program(
            files.kernel("threads_and_memory/divergence"),
            command=(sys.executable, "-m", record.__name__, "deals"),
            inputs="divergence: launched from Python, as for counting",
        ),
        "latencies": Program(files.kernel("threads_and_memory/latencies"), ("--json", os.devnull)),
        "one_way": Program(files.kernel("threads_and_memory/one_way"), ()),
        "occupancy": Program(files.kernel("threads_and_memory/occupancy")),
    }
