"""Which of the chapter's programs must be clean under compute-sanitizer: all of them.

All are but for one report. synccheck says "Missing wait" where a thread's copies arrive at a
barrier beside the thread itself, in ``mbarrier`` and in NVIDIA's own ``cuda::pipeline``
(``pipeline``): it seems to see one thread that arrives twice and does not wait in between.
Where the thread waits for its copies and then arrives, as in :func:`one_arrival`, it is content.
"""

from __future__ import annotations

from phasebit import files
from phasebit.edits import replace_once
from phasebit.instruments.sanitizer import Program

KERNELS = ("loads", "groups", "pipeline", "mbarrier", "latency")


def programs() -> dict[str, Program]:
    """Name -> program."""
    return {
        **{name: Program(files.kernel(f"asynchronous_copies/{name}")) for name in KERNELS},
        "mbarrier, one arrival": Program(one_arrival()),
    }


def one_arrival() -> str:
    """``mbarrier`` whose producers wait for their copies, so that only threads arrive."""
    text = files.kernel("asynchronous_copies/mbarrier")
    line = "__pipeline_arrive_on(&ring.full[slot]);"
    waited = "__pipeline_commit(); __pipeline_wait_prior(0);"
    return replace_once(text, line, waited, "asynchronous_copies/mbarrier.cu")
