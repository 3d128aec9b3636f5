"""C++ for a loop nest: one template, run on plain arrays and on watched ones."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from phasebit.nests.loops import Affine, Level, Nest, Pack, strides


def write(nest: Nest) -> str:
    """The C++ source of a nest, with the functions ``run`` and ``watched``.

    ``run(C, A, B, …, buffers)`` takes the target, the factors in their order, and one buffer for
    each packed array; ``watched`` the same and what ``watch.h`` needs.
    """
    arrays = [reference.array for reference in nest.references]
    buffers = [f"packed_{pack.array}" for pack in nest.packs]
    names = [*arrays, *buffers]
    shapes = ", ".join(f"{name} {_shape(nest, name)}" for name in arrays)
    lines = [
        f"// {nest}",
        '#include <algorithm>\n\n#include "watch.h"\n',
        f"// {shapes}, f32, row by row.",
        "template <class Array>",
        f"static void nest({', '.join(f'Array {name}' for name in names)}) {{",
        *_body(nest),
        "}\n",
        f'extern "C" void run({_parameters(nest, buffers)}) {{',
        f"    nest<float* __restrict>({_passed(nest, buffers)});",
        "}\n",
        f'extern "C" void watched({_parameters(nest, buffers)}, const int64_t* at, int64_t count,',
        "                        const int64_t* levels, int64_t* counts) {",
        "    Memory memory(count, levels);",
        f"    nest({_watched(nest, buffers)});",
        "    memory.report(counts);",
        "}",
    ]
    return "\n".join(lines) + "\n"


def buffer_shape(nest: Nest, pack: Pack) -> tuple[int, ...]:
    """The extents of a pack's buffer: the box, its dimensions in the order of use."""
    box = nest.box(pack.array, pack.depth)
    return tuple(box[dimension] for dimension in nest.dimensions(pack.array))


def _shape(nest: Nest, array: str) -> str:
    return "(" + ", ".join(map(str, nest.shape(array))) + ")"


def _parameters(nest: Nest, buffers: Sequence[str]) -> str:
    factors = [f"const float* {factor.array}" for factor in nest.factors]
    return ", ".join([f"float* {nest.target.array}", *factors, *(f"float* {b}" for b in buffers)])


def _passed(nest: Nest, buffers: Sequence[str]) -> str:
    factors = [f"const_cast<float*>({factor.array})" for factor in nest.factors]
    return ", ".join([nest.target.array, *factors, *buffers])


def _watched(nest: Nest, buffers: Sequence[str]) -> str:
    passed = _passed(nest, buffers).split(", ")
    items = [f"Watched<float>(memory, {name}, at[{i}])" for i, name in enumerate(passed)]
    return (",\n         ").join(items)


def _body(nest: Nest) -> list[str]:
    """The loops, with the copies before the loops that use them."""
    lines: list[str] = []
    for depth in range(len(nest.order) + 1):
        for pack in nest.packs:
            if pack.depth == depth:
                lines += _copy(nest, pack)
        if depth < len(nest.order):
            lines.append("    " * (depth + 1) + _loop(nest, depth))
    lines.append("    " * (len(nest.order) + 1) + _statement(nest))
    for depth in reversed(range(len(nest.order))):
        lines.append("    " * (depth + 1) + "}")
    return lines


def _name(nest: Nest, depth: int) -> str:
    """The C++ variable of a loop: ``k``, or ``k_16`` for the one over blocks of 16."""
    level = nest.order[depth]
    return level.variable if level.step == 1 else f"{level.variable}_{level.step}"


def _range(nest: Nest, variable: str, depth: int) -> tuple[str, str]:
    """Where a variable starts and ends inside the ``depth`` outer loops."""
    outer = [d for d in range(depth) if nest.order[d].variable == variable]
    extent = dict(nest.extents)[variable]
    if not outer:
        return "0", str(extent)
    start, step = _name(nest, outer[-1]), nest.order[outer[-1]].step
    if step == 1:
        return start, f"{start} + 1"
    sizes = [extent, *(nest.order[d].step for d in outer)]
    whole = all(a % b == 0 for a, b in itertools.pairwise(sizes))
    end = f"{start} + {step}"
    if not whole:
        end = f"std::min<int64_t>({end}, {_range(nest, variable, outer[-1])[1]})"
    return start, end


def _loop(nest: Nest, depth: int) -> str:
    level: Level = nest.order[depth]
    name = _name(nest, depth)
    start, end = _range(nest, level.variable, depth)
    return f"for (int64_t {name} = {start}; {name} < {end}; {name} += {level.step}) {{"


def _element(index: Sequence[str], shape: Sequence[int]) -> str:
    """``index`` in an array of this shape, as one C++ expression."""
    parts = []
    for each, stride in zip(index, strides(shape), strict=True):
        if each == "0":
            continue
        part = f"({each})" if stride > 1 and " " in each else each
        parts.append(part if stride == 1 else f"{part} * {stride}")
    return " + ".join(parts) or "0"


def _start(nest: Nest, index: Affine, depth: int) -> str:
    """The least value of an index inside the ``depth`` outer loops."""
    parts = []
    for name, factor in index.terms:
        start, _ = _range(nest, name, depth)
        if start != "0":
            parts.append(start if factor == 1 else f"{factor} * {start}")
    return " + ".join([*parts, *([str(index.constant)] if index.constant else [])]) or "0"


def _statement(nest: Nest) -> str:
    packed = {pack.array: pack for pack in nest.packs}
    factors = []
    for factor in nest.factors:
        if factor.array not in packed:
            index = [str(each) for each in factor.index]
            factors.append(f"{factor.array}[{_element(index, nest.shape(factor.array))}]")
            continue
        pack = packed[factor.array]
        index = []
        for dimension in nest.dimensions(factor.array):
            start = _start(nest, factor.index[dimension], pack.depth)
            whole = str(factor.index[dimension])
            index.append(_minus(whole, start))
        name = f"packed_{factor.array}"
        factors.append(f"{name}[{_element(index, buffer_shape(nest, pack))}]")
    target = _element([str(each) for each in nest.target.index], nest.shape(nest.target.array))
    return f"{nest.target.array}[{target}] += {' * '.join(factors)};"


def _minus(whole: str, start: str) -> str:
    if start == "0":
        return whole
    if whole == start:
        return "0"
    return f"{whole} - ({start})" if " " in start else f"{whole} - {start}"


def _copy(nest: Nest, pack: Pack) -> list[str]:
    """The loops that copy a box into its buffer, in the order of the buffer."""
    index = nest.reference(pack.array).index
    starts = [_start(nest, each, pack.depth) for each in index]
    order, shape = nest.dimensions(pack.array), buffer_shape(nest, pack)
    lines: list[str] = []
    inside = ["0"] * len(index)  # the place in the box, in each dimension
    for dimension, extent in zip(order, shape, strict=True):
        if extent > 1:
            inside[dimension] = name = f"d{dimension}"
            end = str(extent)
            if starts[dimension] != "0":  # the last box may be cut off
                whole = nest.shape(pack.array)[dimension]
                end = f"std::min<int64_t>({extent}, {_minus(str(whole), starts[dimension])})"
            lines.append(f"for (int64_t {name} = 0; {name} < {end}; {name}++)")
    source = [
        " + ".join(each for each in pair if each != "0") or "0"
        for pair in zip(starts, inside, strict=True)
    ]
    to = _element([inside[dimension] for dimension in order], shape)
    at = _element(source, nest.shape(pack.array))
    lines.append(f"packed_{pack.array}[{to}] = {pack.array}[{at}];")
    return ["    " * (pack.depth + 1 + deeper) + line for deeper, line in enumerate(lines)]
