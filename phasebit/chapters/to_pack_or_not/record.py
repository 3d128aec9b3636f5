"""*To pack or not to pack*: predicted, simulated and timed, and what real compilers make of it.

Every nest of :mod:`phasebit.nests.examples` with every choice of packs: what the analysis
estimates, what the simulator counts, and the seconds, compiled in three ways. Then the same nests
given to clang, to clang with Polly, and to MLIR's affine passes: tiled, and tiled with copies.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from typing import Any

from phasebit import caches, measure, native, nests, process, toolchain
from phasebit.nests import examples, misses, mlir, packing
from phasebit.nests.compiled import AS_WRITTEN, FREELY

NAME = "to_pack_or_not"

REPEATS = 7
ANY_ORDER = ("-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math")
"""Sums may be added up in another order: without that, a sum in the innermost loop is a chain."""

MODES = {"as written": AS_WRITTEN, "-O3": FREELY, "any order": ANY_ORDER}
TILES = (16, 32)
JAM = 4  # rounds of an outer loop that MLIR joins
COPY_KIB = 32  # what MLIR's copies may fill: the first level of caches.TYPICAL
POLLY = ("-mllvm", "-polly")
CLANGS = ("clang++-16", "clang++-17", "clang++-18", "clang++-19", "clang++-15", "clang++")
_SECONDS = 60.0

Times = dict[str, list[float]]


def record() -> dict[str, Any]:
    """Measure; returns the record."""
    plain = nests.build(worked_example()["plain"])
    levels = [[each.name, each.line, each.sets, each.ways] for each in caches.TYPICAL]
    return {
        "benchmark": NAME,
        **measure.cpu_facts(plain.library.build),
        "protocol": {
            "times": f"one thread, {REPEATS} runs after one that does not count, the programs of "
            "one nest in turn",
            "inputs": "normal random numbers; every program is checked against f64",
            "modes": "what gcc is told beyond the flags",
            "compilers": "all with -O3, and sums in any order",
            "misses": "simulated with the levels named, each array at the start of a page",
            "whole": "the decision that may copy whole arrays; 'part' may not",
        },
        "levels": levels,
        "cycles": misses.CYCLES,
        "modes": {name: " ".join(options) for name, options in MODES.items()},
        "example": {
            name: timed({n: nests.build(x, mode) for n, x in worked_example().items()})
            for name, mode in MODES.items()
        },
        "nests": {name: searched(name, nest) for name, nest in examples.EXAMPLES.items()},
        "tools": tools(),
        "compilers": {name: compiled(name, nest) for name, nest in examples.EXAMPLES.items()},
    }


def worked_example() -> dict[str, nests.Nest]:
    """The contraction of the chapter as it is taken step by step."""
    plain = examples.EXAMPLES["contraction"]
    inside = plain.interchange("l", "k", "i", "j")
    return {
        "plain": plain,
        "A packed": plain.pack("A", 1),
        "B packed": plain.pack("B", 0),
        "both packed": plain.pack("A", 1).pack("B", 0),
        "interchanged": inside,
        "interchanged, both packed": inside.pack("A", 0).pack("B", 0),
    }


def timed(programs: Mapping[str, nests.Program]) -> Times:
    """Seconds of each program, all of one problem, in turn; each is checked before."""
    for name, program in programs.items():
        verdict = program.check()
        if verdict != "OK":
            raise toolchain.CudaError(f"{name}: {program.nest}: {verdict}")
    arrays = next(iter(programs.values())).arrays()
    times: Times = {name: program.times(arrays, 1) for name, program in programs.items()}
    for _ in range(REPEATS - 1):
        for name, program in programs.items():
            times[name] += program.times(arrays, 1, warm=0)
    return times


def label(nest: nests.Nest) -> str:
    """The packs of a nest: ``"A 1, B 0"``, or ``"none"``."""
    return ", ".join(sorted(f"{pack.array} {pack.depth}" for pack in nest.packs)) or "none"


def searched(name: str, nest: nests.Nest) -> dict[str, Any]:
    """All choices of packs: estimated cycles, simulated misses, seconds; and what was decided."""
    print(f"⏱ {name}: all choices", flush=True)
    variants = {label(each): each for each in packing.every(nest)}
    built = {
        mode: {name: nests.build(each, options) for name, each in variants.items()}
        for mode, options in MODES.items()
    }
    counts = {name: program.watch() for name, program in built["as written"].items()}
    return {
        "nest": str(nest),
        "extents": list(map(list, nest.extents)),
        "part": label(packing.analyse(nest).chosen),
        "whole": label(packing.analyse(nest, whole=True).chosen),
        "estimated": {name: misses.estimate(each).cycles for name, each in variants.items()},
        "misses": {name: [each.accesses, *each.misses.values()] for name, each in counts.items()},
        "simulated": {name: misses.counted(each).cycles for name, each in counts.items()},
        **{mode: timed(programs) for mode, programs in built.items()},
    }


def compiled(name: str, nest: nests.Nest) -> Times:
    """Seconds of one nest as several compilers translate it; only those that are there."""
    print(f"⏱ {name}: compilers", flush=True)
    decided = packing.analyse(nest, whole=True).chosen
    programs = {
        "gcc": nests.build(nest, ANY_ORDER),
        "gcc, packed": nests.build(decided, ANY_ORDER),
    }
    clang = _clang()
    if clang:
        programs["clang"] = nests.build(nest, ANY_ORDER, clang)
        programs["clang, packed"] = nests.build(decided, ANY_ORDER, clang)
        if _has_polly(clang):
            programs["Polly"] = nests.build(nest, (*ANY_ORDER, *POLLY), clang)
    if mlir.tools() and all(level.step == 1 for level in nest.order):
        programs["MLIR"] = mlir.build(nest)
        programs["MLIR, jammed"] = mlir.build(nest, [mlir.jam(JAM)])
        for size in TILES:
            tile = mlir.tile(*[size] * len(nest.order))
            programs[f"MLIR, tiled {size}"] = mlir.build(nest, [tile])
            passes = [tile, mlir.copy(COPY_KIB)]
            programs[f"MLIR, tiled {size}, copied"] = mlir.build(nest, passes)
            programs[f"MLIR, tiled {size}, copied, jammed"] = mlir.build(
                nest, [*passes, mlir.jam(JAM)]
            )
    return timed(programs)


def tools() -> dict[str, str]:
    """The versions of the optional compilers; none that is not there."""
    found = {}
    clang = _clang()
    if clang:
        found["clang"] = toolchain.host_compiler(clang).version
        if _has_polly(clang):
            found["Polly"] = f"{found['clang']} {' '.join(POLLY)}"
    names = mlir.tools()
    if names:
        said = process.run([names[0], "--version"], timeout=_SECONDS).stdout
        version = re.search(r"\d+\.\d+\.\d+", said)
        found["MLIR"] = f"{names[0]} {version[0] if version else ''}".strip()
    return found


def _clang() -> str:
    return next((name for name in CLANGS if shutil.which(name)), "")


def _has_polly(clang: str) -> bool:
    """Whether this clang was built with Polly inside, as Debian's is."""
    try:
        native.compile('extern "C" void nothing() {}', options=POLLY, compiler=clang)
    except toolchain.CompileError:
        return False
    return True
