"""The pipeline runs where there is nothing but Python: in the reader's browser."""

from __future__ import annotations

import subprocess
import sys

from tests.book.notebooks import ROOT

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from phasebit.pipeline import Pipeline, bounds, simulate, steady_rate
pipeline = Pipeline(4, 6, 6, 5, 3)
run = simulate(pipeline, 20)
assert run.timeline.svg().startswith("<svg") and str(run.timeline)
assert bounds(pipeline).rate == steady_rate(pipeline)
print(*sorted({name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names))
"""


def test_pipeline_and_timeline_import_only_the_standard_library() -> None:
    # -I and -S: no site-packages, nothing from the environment.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROGRAM, str(ROOT)],
        capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() in (["phasebit"], ["__main__", "phasebit"])
