"""PTX of ``kernels/in_other_languages``: compiled now where the record's Triton is, else kept.

``python tools/compiled_languages.py`` keeps it, in ``records/languages_compiled.json``. Triton
compiles without a GPU.
"""

from __future__ import annotations

import base64
import functools
import importlib.metadata
import importlib.util
import json
import lzma
import re
import sys
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from phasebit import files

if TYPE_CHECKING:
    from phasebit.emulator import Run

RECORD = "languages_compiled.json"
NAMES = "gluon", "triton"
TILE = 128, 128, 64
"""Of C, and along k."""


@dataclass(frozen=True)
class Built:
    """A kernel as its compiler made it."""

    ptx: str
    shared: int
    """Bytes of shared memory."""
    boxes: tuple[tuple[int, int], ...]
    """Rows and columns of the boxes of A, B and C."""
    origin: str = ""


def installed() -> str:
    """The version of Triton that is here; none where it is not installed."""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return ""


def source(name: str) -> str:
    """The text of one of :data:`NAMES`."""
    path = files.kernels() / "in_other_languages" / f"{name}_gemm.py"
    return path.read_text(encoding="utf-8")


def built(name: str) -> Built:
    """One of :data:`NAMES`, compiled now, or from the record where another Triton made that.

    Versions differ in their languages and in what they compile to; the page is about one.
    """
    return now(name) if f"triton {installed()}" == _record()["package"] else kept(name)


def kept(name: str) -> Built:
    """One of :data:`NAMES`, from the record."""
    record = _record()
    about = json.loads(lzma.decompress(base64.b64decode(record["made"])))[name]
    about["boxes"] = tuple(map(tuple, about["boxes"]))
    here = f"here is {installed()}" if installed() else "it is not installed here"
    origin = f"{record['package']}, {record['date']}; {here}"
    return Built(**about | {"origin": origin})


def _record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((files.records() / RECORD).read_text(encoding="utf-8"))
    return found


def packed(made: dict[str, Built]) -> str:
    """Several kernels as a string."""
    text = json.dumps({name: asdict(one) for name, one in made.items()})
    return base64.b64encode(lzma.compress(text.encode(), preset=9)).decode()


@functools.cache
def now(name: str) -> Built:
    """One of :data:`NAMES`, by the Triton that is installed."""
    import triton  # type: ignore[import-not-found, unused-ignore]
    from triton.backends.compiler import (  # type: ignore[import-not-found, unused-ignore]
        GPUTarget,
    )
    from triton.experimental.gluon import (  # type: ignore[import-not-found, unused-ignore]
        language as gl,
    )
    from triton.experimental.gluon._runtime import (  # type: ignore[import-not-found, unused-ignore]
        GluonASTSource,
    )

    path = files.kernels() / "in_other_languages" / f"{name}_gemm.py"
    spec = importlib.util.spec_from_file_location(f"phasebit_{name}_gemm", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    rows, columns, depth = TILE
    operands = {
        "a": ("fp16", rows, depth), "b": ("fp16", columns, depth), "c": ("fp32", rows, columns),
    }  # fmt: skip
    types = {}
    for letter, (kind, high, wide) in operands.items():
        layout = f",{gl.NVMMASharedLayout(128, int(kind[2:]), rank=2)!r}" if name == "gluon" else ""
        types[letter] = f"tensordesc<{kind}[{high},{wide}]{layout}>"
    types |= dict.fromkeys("MNK", "i32")
    constants = {"BM": rows, "BN": columns, "BK": depth, "BLOCKS": 1}
    if name == "gluon":
        constants = {"STAGES": 3}
    made_of: Any = GluonASTSource if name == "gluon" else triton.compiler.ASTSource
    source = made_of(
        module.matmul, signature=types | dict.fromkeys(constants, "constexpr"),
        constexprs=constants, attrs={(i,): [["tt.divisibility", 16]] for i in (3, 4, 5)},
    )  # fmt: skip
    options = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}
    made = triton.compile(source, target=GPUTarget("cuda", 100, 32), options=options)
    about = made.metadata
    return Built(
        _without_places(made.asm["ptx"]), about.shared,
        tuple(tuple(one["block_size"]) for one in about.tensordesc_meta),
        f"triton {triton.__version__}, now",
    )  # fmt: skip


def _without_places(text: str) -> str:
    text = text.partition("\t.section\t.debug")[0]
    return re.sub(r"(\.file\s+\d+\s+)\"[^\"]*/", r'\1"', text)


def without_zeros(one: Built) -> Built:
    """Triton's kernel without the zeros that its epilogue stores into the first sum, nor the wait.

    Raises :class:`ValueError` for a kernel that does not do that once, before its roles begin.
    """
    wait = r"(mbarrier\.try_wait\S+ complete, [^\n]*\n[^\n]*waitLoop;)"
    store = r"(@%p\d+ tcgen05\.st\.\S+ [^\n]*;)"
    found = re.search(rf"{wait}(?:(?!try_wait).)*?{store}", one.ptx, re.DOTALL)
    if found is None or one.ptx.count("tcgen05.st") != 1:
        raise ValueError("no store of zeros behind a wait in this PTX: give Triton's kernel")
    text = one.ptx
    for begin, end in (found.span(2), found.span(1)):
        text = text[:begin] + text[end:]
    return replace(one, ptx=text)


def multiply(
    one: Built, m: int, n: int, k: int, *, schedule: str = "late", seed: int = 27
) -> tuple[Run, bool]:
    """C (m, n) = A (m, k) · B (n, k)ᵀ by one block, on whole numbers: the run, whether C is exact.

    n is a multiple of 4, k of 8.
    """
    import numpy as np

    from phasebit.emulator import TensorMap
    from phasebit.launching.launch import Module

    draw = np.random.default_rng(seed)
    a: Any = draw.integers(-4, 5, (m, k)).astype(np.float16)
    b: Any = draw.integers(-4, 5, (n, k)).astype(np.float16)
    c: Any = np.full((m, n), np.nan, np.float32)
    given: list[Any] = []
    arrays: tuple[Any, ...] = a, b, c
    for array, (rows, columns) in zip(arrays, one.boxes, strict=True):
        given += [
            TensorMap(array, (columns, rows), swizzle="128B"),
            *array.shape,
            array.shape[1],
            1,
        ]
    module = Module(one.ptx)
    (name,) = module.kernels
    kernel = module[name]
    given += [m, n, k, *[np.zeros(256, np.uint8), 0]]
    run = kernel.launch(
        1, int(np.prod(kernel.function.directives["reqntid"])), given, shared=one.shared,
        schedule=schedule,
    )  # fmt: skip
    return run, bool(np.array_equal(c, a.astype(np.float32) @ b.T.astype(np.float32)))
