"""Ways to make one synchronisation of a program weaker: left out, narrower, too early, too late."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from proof.happens_before import Shape, Step

TELLS = ("arrive", "flag", "count", "copyarrive", "expect", "commit", "cluster_arrive", "proxy")
"""What tells of the steps before it."""
DATA = ("store", "load", "add", "copy", "shuffle", "bulk_load", "bulk_store", "send", "push")


def weakened(shape: Shape, steps: list[Step]) -> Iterator[tuple[str, Shape, list[Step]]]:
    """Every way to make one synchronisation weaker: what it is, and the program with it."""
    for what, changes, shape_ in _changes(shape, steps):
        changed = [changes.get(i, step) for i, step in enumerate(steps)]
        yield what, shape_, [step for step in changed if step is not None]
    for i, step in enumerate(steps):
        if step.op in TELLS:
            before = [j for j in range(i) if steps[j].warp == step.warp]
            if before and steps[before[-1]].op in DATA:
                swapped = list(steps)
                swapped[before[-1]], swapped[i] = step, steps[before[-1]]
                yield f"{i} {step.op}: before {steps[before[-1]].op}", shape, swapped


def generations(shape: Shape, steps: list[Step]) -> list[list[int]]:
    """The steps that meet in one generation of a named barrier, or of the cluster's."""
    found: list[list[int]] = []
    open_: dict[tuple[int, int], list[int]] = {}
    for i, step in enumerate(steps):
        if step.op == "bar":
            key = step.warp // shape.warps, step.at[0]
            open_.setdefault(key, []).append(i)
            if 32 * len(open_[key]) == step.at[1]:
                found.append(open_.pop(key))
        elif step.op in ("cluster_arrive", "cluster_wait"):
            open_.setdefault((-1, -1), []).append(i)
            if len(open_[-1, -1]) == 2 * shape.blocks * shape.warps:
                found.append(open_.pop((-1, -1)))
    return found


def _changes(
    shape: Shape, steps: list[Step]
) -> Iterator[tuple[str, dict[int, Step | None], Shape]]:
    """What is changed: a step's number -> what stands there instead, or nothing."""
    for group in generations(shape, steps):
        yield f"{group[0]} {steps[group[0]].op}: without {group}", dict.fromkeys(group), shape
        if steps[group[0]].op == "bar":
            for i in group:
                number, count = steps[i].at
                if len(group) > 1:
                    less = {j: replace(steps[j], at=(number, count - 32)) for j in group}
                    yield f"{i} bar: without this warp", {**less, i: None}, shape
                if steps[i].how == "sync" and [steps[j].how for j in group].count("sync") > 1:
                    yield f"{i} bar: only arrives", {i: replace(steps[i], how="arrive")}, shape
    for i, step in enumerate(steps):
        name = f"{i} {step.op}"
        if step.op in ("warpsync", "wait", "spin", "proxy", "fence", "copywait", "commit",
                       "bulk_wait", "bulk_commit"):  # fmt: skip
            yield f"{name}: without it", {i: None}, shape
        if step.op == "wait":
            other = replace(step, at=(step.at[0], step.at[1] + 1))
            yield f"{name}: other parity", {i: other}, shape
        if step.op in ("copywait", "bulk_wait"):
            yield f"{name}: one group less", {i: replace(step, at=(step.at[0] + 1,))}, shape
        if step.op == "bulk_wait" and not step.how:
            yield f"{name}: .read only", {i: replace(step, how="read")}, shape
        if step.op in ("wait", "spin", "arrive", "expect", "flag", "count", "cluster_arrive"):
            how = "relaxed" if step.op == "cluster_arrive" else (
                step.how.replace("acquire", "relaxed").replace("release", "relaxed"))  # fmt: skip
            if step.how != how:
                yield f"{name}: relaxed", {i: replace(step, how=how)}, shape
        if step.op == "copyarrive":
            plain = Step("arrive", step.warp, (step.at[0], 1), "release cta", step.lanes)
            yield f"{name}: arrives at once", {i: plain}, shape
        if step.op == "arrive" and sum(
            s.op in ("arrive", "expect", "copyarrive") and s.at[0] == step.at[0] for s in steps
        ) > 1:  # fmt: skip
            site = step.at[0]
            block, count = shape.mbarriers[site]
            fewer = count - step.at[1] * bin(step.lanes).count("1")
            phases = {s.at[1] for s in steps if s.op == "wait" and s.at[0] == site}
            if fewer > 0 and len(phases) == 1:
                made = list(shape.mbarriers)
                made[site] = block, fewer
                yield f"{name}: without it, and a smaller count", {i: None}, replace(
                    shape, mbarriers=tuple(made)
                )  # fmt: skip
