"""The Python side of the in-page lab: parameters in, what the page shows out.

Runs in the reader's browser, under Pyodide, on the book's own simulator.
"""

from __future__ import annotations

from fractions import Fraction

from phasebit.pipeline import Pipeline, bounds, exact, simulate

MOST = {"producers": 32, "consumers": 32, "slots": 32, "jobs": 200}
"""More would not be legible in a page."""


def show(jobs: object, **parameters: object) -> dict[str, str]:
    """The timeline of one run and the numbers beside it, or the sentence of refusal.

    The keys are ``svg``, ``text``, ``numbers`` and ``law``, or only ``error``.
    """
    try:
        for name, value in {**parameters, "jobs": jobs}.items():
            if isinstance(value, int) and value > MOST.get(name, 100):
                raise ValueError(f"{name} is {value}: the lab draws at most {MOST.get(name, 100)}")
        pipeline = Pipeline(**parameters)  # type: ignore[arg-type]
        run = simulate(pipeline, jobs)  # type: ignore[arg-type]
    except (TypeError, ValueError) as refusal:
        return {"error": str(refusal)}
    limit = bounds(pipeline)
    rate = Fraction(len(run.jobs), run.clocks)
    settles = "settles to" if exact(pipeline) else "stays below"
    return {
        "svg": run.timeline._repr_mimebundle_()["image/svg+xml"],
        "text": str(run.timeline),
        "numbers": f"{run}: {fraction(rate)} jobs a clock.",
        "law": f"By the law the rate {settles} {fraction(limit.rate)}, "
        f"set by the {' and the '.join(limit.limits)}.",
    }


def fraction(x: Fraction) -> str:
    """``2/3 = 0.667``, or the whole number."""
    return str(x) if x.denominator == 1 else f"{x} = {float(x):.3f}"
