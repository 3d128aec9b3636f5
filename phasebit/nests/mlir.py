"""A loop nest in MLIR's affine dialect, tiled and packed by MLIR's own passes.

The nest becomes one function of plain pointers; ``mlir-opt`` transforms and lowers it,
``mlir-translate`` writes LLVM's language, and clang compiles that. What comes out is a
:class:`~phasebit.nests.Program` like any other: same arrays, same check, same clock. The three
programs are optional; Debian has them as ``mlir-16-tools`` and ``clang-16``.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Sequence
from pathlib import Path

from phasebit import build_cache, native, process, toolchain
from phasebit.nests.compiled import Program
from phasebit.nests.loops import Affine, Nest

VERSIONS = (16, 17, 18, 19)
"""Of LLVM, in the order in which they are looked for."""

LOWER = (
    "--lower-affine",
    "--convert-scf-to-cf",
    "--convert-arith-to-llvm",
    "--convert-cf-to-llvm",
    "--{memref}-memref-to-llvm",
    "--convert-func-to-llvm=use-bare-ptr-memref-call-conv=1",
    "--reconcile-unrealized-casts",
)
_SECONDS = 120.0
_used: list[build_cache.Scratch] = []  # libraries are used from there as long as Python runs


def tile(*sizes: int) -> str:
    """The pass that cuts the loops into blocks, one size a loop; 1 leaves a loop alone."""
    return f"--affine-loop-tile=tile-sizes={','.join(map(str, sizes))}"


def jam(factor: int) -> str:
    """The pass that unrolls the outermost loop, and joins the copies of the loops inside."""
    return f"--affine-loop-unroll-jam=unroll-jam-factor={factor}"


def copy(kib: int) -> str:
    """The pass that copies what a loop touches, where that is at most ``kib`` KiB."""
    return (
        "--affine-data-copy-generate=generate-dma=false fast-mem-space=0 "
        f"skip-non-unit-stride-loops fast-mem-capacity={kib}"
    )


def write(nest: Nest) -> str:
    """The nest in the affine dialect: a function ``run`` of its arrays, as they are declared.

    The sum may be added up in any order, as with GCC's ``-fassociative-math``.
    Raises ``ValueError`` for a nest with packs or loops over blocks: those are the passes' work.
    """
    if nest.packs or any(level.step > 1 for level in nest.order):
        raise ValueError(f"MLIR is to tile and pack by itself: {nest}")
    types = {
        each.array: f"memref<{''.join(f'{n}x' for n in nest.shape(each.array))}f32>"
        for each in nest.references
    }
    arguments = ", ".join(f"%{name}: {kind} {{llvm.noalias}}" for name, kind in types.items())
    extents = dict(nest.extents)
    lines = [f"func.func @run({arguments}) {{"]
    for depth, level in enumerate(nest.order):
        lines.append(
            "  " * (depth + 1) + f"affine.for %{level.variable} = 0 to {extents[level.variable]} {{"
        )
    body = []
    for i, each in enumerate(nest.references):
        index = ", ".join(map(_index, each.index))
        body.append(f"%v{i} = affine.load %{each.array}[{index}] : {types[each.array]}")
    product = "%v1"
    for i in range(2, len(nest.references)):
        body.append(f"%p{i} = arith.mulf {product}, %v{i} : f32")
        product = f"%p{i}"
    index = ", ".join(map(_index, nest.target.index))
    array = nest.target.array
    body.append(f"%sum = arith.addf %v0, {product} fastmath<reassoc,nsz> : f32")
    body.append(f"affine.store %sum, %{array}[{index}] : {types[array]}")
    lines += ["  " * (len(nest.order) + 1) + line for line in body]
    lines += ["  " * (depth + 1) + "}" for depth in reversed(range(len(nest.order)))]
    return "\n".join([*lines, "  return", "}", ""])


def _index(index: Affine) -> str:
    terms = [f"%{name}" if n == 1 else f"{n} * %{name}" for name, n in index.terms]
    return " + ".join([*terms, *([str(index.constant)] if index.constant or not terms else [])])


@functools.cache
def tools() -> tuple[str, str, str] | None:
    """mlir-opt, mlir-translate and clang of one version of LLVM, or ``None``."""
    for version in VERSIONS:
        names = (f"mlir-opt-{version}", f"mlir-translate-{version}", f"clang++-{version}")
        if all(map(shutil.which, names)):
            return names
    return None


def transform(nest: Nest, passes: Sequence[str] = ()) -> str:
    """What MLIR's passes make of a nest, still in the affine dialect.

    Raises :class:`toolchain.ToolMissing` without the tools, :class:`toolchain.CudaError` when
    they refuse.
    """
    with build_cache.Scratch() as scratch:
        given = Path(scratch, "nest.mlir")
        given.write_text(write(nest), encoding="utf-8")
        return _run([_tools()[0], *passes, str(given)])


def build(nest: Nest, passes: Sequence[str] = ()) -> Program:
    """Transform, lower and compile a nest; raises as :func:`transform` does."""
    opt, translate, clang = _tools()
    version = int(opt.rpartition("-")[2])
    lower = [each.format(memref="convert" if version < 17 else "finalize") for each in LOWER]
    flags = ("-O3", "-march=native", "-ffp-contract=fast", "-Wno-override-module")
    _used.append(build_cache.Scratch())
    folder = Path(_used[-1].name)
    names = ("nest.mlir", "lowered.mlir", "nest.ll", "library.so")
    given, lowered, llvm, library = (folder / name for name in names)
    given.write_text(write(nest), encoding="utf-8")
    _run([opt, *passes, *lower, str(given), "-o", str(lowered)])
    _run([translate, "--mlir-to-llvmir", str(lowered), "-o", str(llvm)])
    _run([clang, *flags, "-fPIC", "-shared", str(llvm), "-o", str(library)])
    chosen = toolchain.host_compiler(clang)
    made = toolchain.HostBuild(library, chosen.version, flags, "", cached=False)
    return Program(
        nest, native.Library(made, _declaration(nest), "nest.ll"), llvm.read_text("utf-8")
    )


def _declaration(nest: Nest) -> str:
    factors = [f"const float* {each.array}" for each in nest.factors]
    return f'extern "C" void run({", ".join([f"float* {nest.target.array}", *factors])})'


def _tools() -> tuple[str, str, str]:
    found = tools()
    if found is None:
        raise toolchain.ToolMissing(
            "no mlir-opt, mlir-translate and clang++ of one version on PATH: "
            "install mlir-16-tools and clang-16"
        )
    return found


def _run(command: Sequence[str]) -> str:
    done = process.run(command, timeout=_SECONDS)
    if not done.ok:
        raise toolchain.CudaError(f"{command[0]} failed: {done.stderr.strip()[-800:]}")
    return done.stdout
