"""The kernels of *Epilogues and groups* on the emulator, and what their results must be."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from phasebit import files

if TYPE_CHECKING:
    from phasebit.emulator import Run

FOLDER = "epilogues_and_groups"
FUSED, GATED, GROUPS, FETCHED = KERNELS = "a_fused", "b_gated", "c_groups", "d_fetched"
HEADERS = ("steps", "ring")
STEPS = "Alpha", "RowScale", "Bias", "Gelu", "Residual", "Amax"
"""The fused kernel's epilogue, as its file has it."""

ROWS = COLUMNS = 128
"""Of a tile of C."""
DEPTH = 64
"""Of a slot, along K."""
CONSUMERS, THREADS = 256, 384
BOX = 8 * 2048
"""Bytes of a box of each consumer warp."""
MAPS = 2


def source(name: str) -> str:
    """The text of one of :data:`KERNELS`, the chapter's own headers in place of their includes."""
    text = files.kernel(f"{FOLDER}/{name}")
    for header in HEADERS:
        body = (files.kernels() / FOLDER / f"{header}.cuh").read_text("utf-8")
        include = f'#include "{FOLDER}/{header}.cuh"\n'
        text = text.replace(include, body.replace("#pragma once\n", ""))
    return text


def with_constants(text: str, **constants: int) -> str:
    """A kernel's text with other constants; ``ValueError`` for one that it does not have."""
    for name, value in constants.items():
        text, found = re.subn(rf"\bint {name} = \d+", f"int {name} = {value}", text, count=1)
        if not found:
            raise ValueError(f"the kernel has no constant {name}")
    return text


def together(text: str) -> str:
    """The fetching kernel whose warp groups share each tile, a wide one."""
    return with_constants(text, TEAM=2, BN=256, SLOTS=3, BAND=16)


def with_steps(text: str, steps: Iterable[str]) -> str:
    """The fused kernel with another chain of steps."""
    text, found = re.subn(r"#define STEPS .*", f"#define STEPS {', '.join(steps)}", text)
    if not found:
        raise ValueError("the kernel has no line #define STEPS …")
    return text


def short(steps: Iterable[str]) -> tuple[str, ...]:
    """The same chain with the shorter GELU."""
    return tuple("GeluByTail" if step == "Gelu" else step for step in steps)


def without_apart(text: str) -> str:
    """The fused kernel without the kernels of single steps."""
    return re.sub(r"^APART\(.*\n", "", text, flags=re.M)


def number(text: str, name: str) -> int:
    """A constant of a kernel's text; ``ValueError`` where it has none."""
    found = re.search(rf"\bint {name} = (\d+)", text)
    if found is None:
        raise ValueError(f"the kernel has no constant {name}")
    return int(found[1])


class Programs:
    """Kernels that nvcc compiles together, each in a namespace of its own; one alone as it is."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        from phasebit.launching.launch import compile

        self.texts = dict(texts)
        if len(texts) == 1:
            (alone,) = texts.values()
            self._module = compile(alone, "sm_90a")
            return
        includes: dict[str, None] = {}
        parts = []
        for i, text in enumerate(texts.values()):
            lines = text.splitlines()
            includes |= {line: None for line in lines if line.startswith("#include")}
            body = [line for line in lines if not line.startswith("#include")]
            parts += [f"namespace kernel_{i} {{", *body, "}", "#undef STEPS", "#undef APART"]
        self._module = compile("\n".join([*includes, *parts]), "sm_90a")

    def kernel(self, name: str, function: str = "matmul") -> Any:
        """A function of one of the texts; ``function`` may be ``apart<Step>``."""
        space = f"kernel_{list(self.texts).index(name)}::" if len(self.texts) > 1 else ""
        return self._module[space + function.replace("<", f"<{space}")]


class Made(NamedTuple):
    """A result that was made on the emulator."""

    run: Run
    wrong: str
    """Where the result is wrong, or nothing."""


# -- the numbers ---------------------------------------------------------------------


@dataclass
class Numbers:
    """What a product and its epilogue get: whole numbers A and B, so that sums are exact."""

    a: Any
    b: Any
    bias: Any
    row_scale: Any
    residual: Any
    """bf16 codes, (M, N)."""
    alpha: float = 0.0625
    beta: float = 0.5
    sums: Any = field(init=False)

    def __post_init__(self) -> None:
        import numpy as np

        with np.errstate(invalid="ignore"):
            self.sums = self.a @ self.b.T

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N, K."""
        (m, k), n = self.a.shape, len(self.b)
        return m, n, k

    @classmethod
    def draw(cls, m: int, n: int, k: int, seed: int, **given: float) -> Numbers:
        """Fresh numbers; n and k are multiples of 8."""
        import numpy as np

        from phasebit.emulator import formats

        draw = np.random.default_rng(seed)
        a, b = (draw.integers(-3, 4, size).astype(np.float64) for size in ((m, k), (n, k)))
        residual = np.asarray(formats.encode("bf16", draw.standard_normal((m, n))))
        return cls(a, b, draw.standard_normal(n).astype(np.float32),
                   draw.uniform(0.5, 2, m).astype(np.float32), residual, **given)  # fmt: skip


def _gelu(x: Any) -> Any:
    import numpy as np

    erf = np.vectorize(math.erf)
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def silu(x: Any) -> Any:
    """x / (1 + exp(-x))."""
    import numpy as np

    with np.errstate(over="ignore"):
        return x / (1 + np.exp(-x))


def bf16(x: Any) -> Any:
    """Codes of numbers rounded to bf16, as NumPy's uint16."""
    import numpy as np

    from phasebit.emulator import formats

    return np.asarray(formats.encode("bf16", x)).view(np.uint16)


def plain(codes: Any) -> Any:
    """The numbers of bf16 codes."""
    import numpy as np

    from phasebit.emulator import formats

    return np.asarray(formats.decode("bf16", codes), np.float64)


def expected(steps: Sequence[str], given: Numbers) -> tuple[Any, float]:
    """The result of a chain in double, and its amax; before anything is rounded."""
    import numpy as np

    x, amax = given.sums, 0.0
    with np.errstate(invalid="ignore"):
        for step in steps:
            if step == "Alpha":
                x = given.alpha * x
            elif step == "RowScale":
                x = given.row_scale[:, None] * x
            elif step == "Bias":
                x = x + given.bias
            elif step in ("Gelu", "GeluByTail"):
                x = _gelu(x)
            elif step == "Silu":
                x = silu(x)
            elif step == "Residual":
                x = x + given.beta * plain(given.residual) if given.beta else x
            elif step == "Amax":
                amax = float(np.abs(x).max())
            else:
                raise ValueError(f"no step {step}; there are {', '.join(STEPS)} and Silu")
    return x, amax


def differs(got: Any, right: Any) -> str:
    """Where bf16 codes are not ``right``, in double, rounded; NaN must be NaN."""
    import numpy as np

    made = plain(got)
    with np.errstate(invalid="ignore"):
        near = np.abs(made - right) <= 2.0**-8 * np.abs(right) + 2e-5
        same = near | (made == right) | (np.isnan(made) & np.isnan(right))
    if same.all():
        return ""
    row, col = (int(i) for i in np.argwhere(~same)[0])
    return (f"C[{row}][{col}] is {made[row, col]:.5g} and should be {right[row, col]:.5g}; "
            f"{int((~same).sum())} of {same.size} are wrong")  # fmt: skip


# -- launches ------------------------------------------------------------------------


def map_of(codes: Any, rows: int) -> Any:
    """A tensor map of a matrix of bf16 codes, in boxes of ``rows`` by 64."""
    from phasebit.emulator import TensorMap

    return TensorMap(codes, (64, rows), data_type="bf16", swizzle="128B")


def ring(text: str) -> int:
    """Bytes of slots and boxes, behind which the ring's barriers lie."""
    slots = number(text, "SLOTS") * 2 * DEPTH * (ROWS + number(text, "BN"))
    return slots + number(text, "BOXES") * BOX


def shared(text: str) -> int:
    """Bytes of shared memory: the ring, and what needs less than one pattern, each part."""
    bias = 8 * 4 * number(text, "BN") if "struct Fetched" in text else 0
    return ring(text) + bias + 1024 * (1 + ("struct Shared" in text))


def fused(
    programs: Programs, name: str, given: Numbers, steps: Sequence[str] = STEPS, *,
    in_place: bool = False, workers: int = 2, schedule: str = "late", device: str = "emulator",
) -> Made:  # fmt: skip
    """The fused kernel; before the launch the result is full of NaN, or it is the residual."""
    import numpy as np

    made, seen = launched(programs, name, given, in_place=in_place, workers=workers,
                          schedule=schedule, device=device)  # fmt: skip
    right, most = expected(steps, given)
    wrong = differs(made.c, right)
    if not wrong and "Amax" in steps and not (
        abs(seen - most) <= 1e-4 * most or seen == most or (np.isnan(seen) and np.isnan(most))
    ):
        wrong = f"amax is {seen:.6g} and should be {most:.6g}"
    return Made(made.run, wrong)


class Launched(NamedTuple):
    """A run of the fused kernel and its result, in bf16 codes."""

    run: Run
    c: Any


def launched(
    programs: Programs, name: str, given: Numbers, *, in_place: bool = False, workers: int = 2,
    schedule: str = "late", device: str = "emulator",
) -> tuple[Launched, float]:  # fmt: skip
    """The fused kernel's result, and amax; before, the result is full of NaN or the residual."""
    import numpy as np

    from phasebit.emulator import TensorMap

    m, n, k = given.shape
    c = given.residual.view(np.uint16).copy() if in_place else np.full((m, n), 0x7FC0, np.uint16)
    residual = c if in_place else given.residual
    amax = np.zeros(1, np.uint32)
    wide = number(programs.texts[name], "BN")
    maps = [map_of(bf16(given.a), ROWS), map_of(bf16(given.b), wide), map_of(c, 16)]
    tiles = np.array([m, n, k], np.int32).tobytes()
    if "struct Fetched" in programs.texts[name]:  # residual and bias come by maps, too
        bias = TensorMap(given.bias[None], (wide, 1))
        rest = [map_of(residual, 16), bias, tiles, given.row_scale, amax]
    else:
        rest = [tiles, given.bias, given.row_scale, residual, amax]
    run = programs.kernel(name).launch(
        (workers,), THREADS, [*maps, *rest, given.alpha, given.beta],
        shared=shared(programs.texts[name]), schedule=schedule, device=device,
    )  # fmt: skip
    return Launched(run, c), float(amax.view(np.float32)[0])


def separately(
    programs: Programs, name: str, given: Numbers, steps: Sequence[str] = STEPS,
    *, workers: int = 2,
) -> list[Run]:  # fmt: skip
    """A kernel for the product and one for each step, as a framework without fusion launches."""
    import numpy as np

    m, n, k = given.shape
    c, amax = np.full((m, n), 0x7FC0, np.uint16), np.zeros(1, np.uint32)
    rest = [np.array([m, n, k], np.int32).tobytes(), given.bias, given.row_scale, given.residual,
            amax, given.alpha, given.beta]  # fmt: skip
    runs = [programs.kernel(name).launch(
        (workers,), THREADS,
        [map_of(bf16(given.a), ROWS), map_of(bf16(given.b), COLUMNS), map_of(c, 16), *rest],
        shared=shared(programs.texts[name]), device="emulator",
    )]  # fmt: skip
    for step in steps:
        apart = programs.kernel(name, f"apart<{step}>")
        blocks = -(-m * n // 512)
        runs.append(apart.launch((blocks,), 256, [c, *rest], device="emulator"))
    return runs


def gated(
    programs: Programs, name: str, m: int, h: int, k: int, *, workers: int = 2,
    schedule: str = "late", seed: int = 1, device: str = "emulator",
) -> Made:  # fmt: skip
    """SwiGLU of A (m, k) with gate and up (h, k) each, one over the other."""
    import numpy as np

    given = Numbers.draw(m, 2 * h, k, seed)
    a = given.a / 16
    c = np.full((m, h), 0x7FC0, np.uint16)
    run = programs.kernel(name).launch(
        (workers,), THREADS,
        [map_of(bf16(a), ROWS), map_of(bf16(given.b), COLUMNS // 2), map_of(c, 16), m, h, k],
        shared=shared(programs.texts[name]), schedule=schedule, device=device,
    )  # fmt: skip
    gate, up = a @ given.b[:h].T, a @ given.b[h:].T
    return Made(run, differs(c, silu(gate) * up))


def grouped(
    programs: Programs, name: str, sizes: Sequence[int], n: int, k: int, *, workers: int = 2,
    schedule: str = "late", seed: int = 1, device: str = "emulator",
) -> Made:  # fmt: skip
    """A product for each group: ``sizes`` rows of A and C each, weights (n, k) each."""
    import numpy as np

    groups, rows = len(sizes), sum(sizes)
    draw = np.random.default_rng(seed)
    a = draw.integers(-3, 4, (rows, k)).astype(np.float64)
    b = draw.integers(-3, 4, (groups * n, k)).astype(np.float64)
    scale = draw.uniform(0.5, 2, rows).astype(np.float32)
    c, codes = np.full((rows, n), 0x7FC0, np.uint16), bf16(a)
    scratch = np.zeros((workers * MAPS * 2, 128), np.uint8)
    run = programs.kernel(name).launch(
        (workers,), THREADS,
        [map_of(codes, ROWS), map_of(bf16(b), number(programs.texts[name], "BN")),
         map_of(c, 16), codes, c,
         np.array(list(sizes), np.int32), groups, n, k, scale, scratch],
        shared=shared(programs.texts[name]), schedule=schedule, device=device,
    )  # fmt: skip
    ends = np.cumsum(sizes)
    right = np.concatenate([
        a[end - size : end] @ b[g * n : (g + 1) * n].T
        for g, (end, size) in enumerate(zip(ends, sizes, strict=True))
    ])  # fmt: skip
    return Made(run, differs(c, right * scale[:, None]))
