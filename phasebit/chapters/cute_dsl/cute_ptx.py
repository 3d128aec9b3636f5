"""PTX of CuTe DSL's kernels in ``kernels/cute_dsl``, and of changed copies of them.

Compiled now where `nvidia-cutlass-dsl` is installed, which needs no GPU; else from the record
``records/cute_dsl_compiled.json``, which ``python tools/compiled_cute.py`` writes.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import lzma
import os
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from phasebit import build_cache, files

RECORD = "cute_dsl_compiled.json"
TARGET = "sm_100a"
GEMM = "gemm"
"""The product: two rings of mbarriers, one of bulk groups."""
RINGS = "rings"
"""One small kernel for each kind of pipeline that the product does not have."""

SCALED = "scaled"
"""The product of numbers of four bits with block scales."""

ENTRIES: dict[str, tuple[tuple[str, tuple[int | str, ...]], ...]] = {
    "matmul": (("BF16", ("m", "k")), ("BF16", ("n", "k")), ("F32", ("m", "n"))),
    "by_hand": (("F32", (5, 32)), ("F32", (5, 32))),
    "copied": (("F32", (40, 32)), ("F32", (40, 32))),
    "multiplied": (("BF16", (128, 320)), ("BF16", (64, 320)), ("F32", (128, 64))),
    "said": (("F32", (256,)),),
    "doubled": (("F32", (5, 32)), ("F32", (5, 32))),
    "scaled": (("F4", (256, 1280)), ("F4", (256, 1280)), ("UE4M3", (256, 80)),
               ("UE4M3", (256, 80)), ("F32", (256, 256))),
}
"""What is launched -> element type and extents of each tensor; letters stand for any extent."""


LAYOUTS = "layouts"
"""What the compiler says of layouts: a function, ``show``, that gives texts."""


class Compiled(NamedTuple):
    """What the compiler made of a text."""

    ptx: str
    origin: str
    """By what, when."""


class NotCompiled(ModuleNotFoundError):
    """CuTe DSL is not installed, and the record has not this text."""


def installed() -> bool:
    """Whether CuTe DSL is here: a folder of the name ``cutlass``, such as a clone, is not it."""
    try:
        return bool(importlib.metadata.version("nvidia-cutlass-dsl"))
    except importlib.metadata.PackageNotFoundError:
        return False


def source(name: str) -> str:
    """The text of :data:`GEMM`, :data:`RINGS` or :data:`LAYOUTS`."""
    return (files.kernels() / "cute_dsl" / f"{name}.py").read_text(encoding="utf-8")


def file_of(entry: str) -> str:
    """Which file has this entry."""
    return {"matmul": GEMM, "doubled": "doubled", "scaled": SCALED}.get(entry, RINGS)


def key(text: str, entry: str) -> str:
    """What the record calls the PTX of a text: another text is another key."""
    return hashlib.sha256(f"{entry}\n{text}".encode()).hexdigest()[:16]


def ptx(text: str, entry: str = "matmul") -> Compiled:
    """What the compiler makes of ``entry`` in a text; raises :class:`NotCompiled`."""
    if installed():
        from importlib.metadata import version

        return Compiled(
            now(text, entry), f"nvidia-cutlass-dsl {version('nvidia-cutlass-dsl')}, now"
        )
    about, texts = record()
    return Compiled(_kept(texts, key(text, entry)), _when(about))


def kept(text: str, entry: str = "matmul") -> str:
    """What the record has of a text, also where CuTe DSL is installed; :class:`NotCompiled`."""
    return _kept(record()[1], key(text, entry))


def layouts() -> tuple[dict[str, str], str]:
    """What CuTe DSL says of layouts (``layouts.py``), and by which version, when."""
    text = source(LAYOUTS)
    if installed():
        from importlib.metadata import version

        said = _imported(text, key(text, "show"), LAYOUTS).show()
        return said, f"nvidia-cutlass-dsl {version('nvidia-cutlass-dsl')}, now"
    about, texts = record()
    return json.loads(_kept(texts, key(text, "show"))), _when(about)


def _when(about: dict[str, str]) -> str:
    return f"{about['package']}, {about['date']}; it is not installed here"


def _kept(texts: dict[str, str], name: str) -> str:
    if name not in texts:
        raise NotCompiled(
            f"CuTe DSL is not installed, and records/{RECORD} has nothing of this text: "
            "pip install nvidia-cutlass-dsl"
        )
    return texts[name]


@functools.cache
def record() -> tuple[dict[str, str], dict[str, str]]:
    """What compiled them and when; and what it made of each text, by :func:`key`."""
    about = json.loads((files.records() / RECORD).read_text(encoding="utf-8"))
    return about, json.loads(lzma.decompress(base64.b64decode(about.pop("made"))))


def packed(texts: dict[str, str]) -> str:
    """The PTX of many texts as a string; most of them differ in few lines."""
    data = lzma.compress(json.dumps(texts).encode(), preset=9)
    return base64.b64encode(data).decode()


@functools.cache
def _scratch() -> build_cache.Scratch:
    """A folder that goes when Python does."""
    return build_cache.Scratch()


@functools.cache
def now(text: str, entry: str) -> str:
    """PTX of a text, made by the CuTe DSL that is installed; each line says where it comes from."""
    module = _imported(text, key(text, entry), file_of(entry))

    import cutlass  # type: ignore[import-not-found, unused-ignore]
    import cutlass.cute as cute  # type: ignore[import-not-found, unused-ignore]
    from cutlass.cute.runtime import (  # type: ignore[import-not-found, unused-ignore]
        make_fake_compact_tensor,
    )

    extents: dict[Any, Any] = {}

    def extent(name: Any) -> Any:
        if isinstance(name, int):
            return name
        return extents.setdefault(name, cute.sym_int32(divisibility=4 if name == "n" else 8))

    tensors = [
        make_fake_compact_tensor(
            getattr(module, kind), tuple(map(extent, shape)), assumed_align=16,
            stride_order=tuple(reversed(range(len(shape)))),
        )
        for kind, shape in ENTRIES[entry]
    ]  # fmt: skip
    more = [cutlass.Int32(1)] if entry == "matmul" else []
    options = f"--gpu-arch {TARGET} --keep-ptx --generate-line-info --dump-dir={_scratch().name}"
    made = cute.compile(getattr(module, entry), *tensors, *more, options=options)
    return without_places(str(made.__ptx__))


def _imported(text: str, name: str, file: str) -> Any:
    """A text as a module: the compiler reads its file."""
    # It keeps a copy of its own, in the folder that this names when it is imported.
    os.environ.setdefault("CUTE_DSL_DUMP_DIR", _scratch().name)
    path = Path(_scratch().name, name, f"{file}.py")
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"phasebit_cute_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def without_places(text: str) -> str:
    """PTX without what it says of the folders of the machine that made it, with short names.

    The compiler counts the lines of an assembler statement on from the line of Python that it
    stands in; here all of them are that line.
    """
    text = re.sub(r"(\.file\s+\d+\s+)\"[^\"]*/", r'\1"', text.partition("\t.section\t.debug")[0])
    text = re.sub(r"// begin inline asm.*?// end inline asm", _one_place, text, flags=re.S)
    return re.sub(r"kernel_cutlass_((?:[a-z_]+_)?kernel)_\w*?_0(?!\d)", r"\1", text)


def _one_place(statement: re.Match[str]) -> str:
    return re.sub(r"^\s*\.loc\s.*\n", "", statement[0], flags=re.M)
