"""PTX of ``kernels/in_other_languages``: compiled now where the record's compiler is, else kept.

``python tools/compiled_languages.py`` keeps it, in ``records/languages_compiled.json``. Triton and
TileLang compile without a GPU.
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
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasebit import files, process, toolchain
from phasebit.emulator import Schedule

if TYPE_CHECKING:
    from phasebit.emulator import Run

RECORD = "languages_compiled.json"
PACKAGES = {"gluon": "triton", "triton": "triton", "tilelang": "tilelang"}
"""What a kernel is written in -> whose compiler makes it."""

NAMES = tuple(PACKAGES)
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
    threads: int
    """Of a block."""
    scalars: str
    """The extents ``m``, ``n`` and ``k`` in the order of the kernel's parameters."""
    described: bool = False
    """Whether each tensor map is followed by its extents and strides, as Triton has it."""
    origin: str = ""


def installed(package: str) -> str:
    """The version of a package that is here; none where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def source(name: str) -> str:
    """The text of one of :data:`NAMES`."""
    path = files.kernels() / "in_other_languages" / f"{name}_gemm.py"
    return path.read_text(encoding="utf-8")


def built(name: str) -> Built:
    """One of :data:`NAMES`, compiled now, or from the record where another version made that.

    Versions differ in their languages and in what they compile to; the page is about one.
    """
    package = PACKAGES[name]
    here = f"{package} {installed(package)}" == record()["packages"][package]
    return now(name) if here else kept(name)


def kept(name: str) -> Built:
    """One of :data:`NAMES`, from the record."""
    about = unpacked(record()["made"])[name]
    package = PACKAGES[name]
    version = installed(package)
    here = f"here is {version}" if version else "it is not installed here"
    return replace(about, origin=f"{record()['packages'][package]}, {record()['date']}; {here}")


@functools.cache
def record() -> dict[str, Any]:
    """What is kept, and by which versions it was made."""
    found: dict[str, Any] = json.loads((files.records() / RECORD).read_text(encoding="utf-8"))
    return found


def packed(made: dict[str, Built]) -> str:
    """Several kernels as a string."""
    text = json.dumps({name: asdict(one) for name, one in made.items()})
    return base64.b64encode(lzma.compress(text.encode(), preset=9)).decode()


def unpacked(text: str) -> dict[str, Built]:
    """What :func:`packed` made a string of."""
    about = json.loads(lzma.decompress(base64.b64decode(text)))
    return {name: Built(**one | {"boxes": tuple(map(tuple, one["boxes"]))})
            for name, one in about.items()}  # fmt: skip


@functools.cache
def now(name: str) -> Built:
    """One of :data:`NAMES`, by the compiler that is installed."""
    return _by_tilelang() if PACKAGES[name] == "tilelang" else _by_triton(name)


def _module(name: str) -> Any:
    """The text of one of :data:`NAMES` as a module."""
    path = files.kernels() / "in_other_languages" / f"{name}_gemm.py"
    spec = importlib.util.spec_from_file_location(f"phasebit_{name}_gemm", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _by_tilelang() -> Built:
    """TileLang makes CUDA C++, and nvcc makes PTX of it, with the headers that TileLang brings."""
    import tilelang  # type: ignore[import-not-found, unused-ignore]
    from tilelang import tvm

    module = _module("tilelang")
    with tvm.target.Target({"kind": "cuda", "arch": "sm_100a"}) as target:
        made = tilelang.lower(module.matmul, target=target)
    host = str(made.host_mod)
    home = Path(tilelang.__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        text, ptx = Path(folder, "kernel.cu"), Path(folder, "kernel.ptx")
        text.write_text(made.kernel_source, encoding="utf-8")
        options = ["-std=c++17", "-w", "--expt-relaxed-constexpr",
                   f"-I{home / 'src'}", f"-I{home / '3rdparty/cutlass/include'}"]  # fmt: skip
        command = toolchain.nvcc_command("ptx", "sm_100a", options=options, include=False)
        done = process.run([*command, text, "-o", ptx], timeout=300)
        if not done.ok:
            raise toolchain.CudaError(f"nvcc failed: {done.stopped or done.stderr}")
        compiled = ptx.read_text(encoding="utf-8")
    maps = re.findall(r'call_packed\("\w+_tiled", (\w)_desc, .*, (\d+), (\d+), 1, 1, ', host)
    boxes = tuple((int(rows), int(columns)) for _, columns, rows in sorted(maps))
    called = re.findall(r'call_packed\("matmul_kernel", (.*)\)', host)[0].split(", ")
    *names, _, threads, _, _, shared = called  # extents of the grid, then of a block
    scalars = "".join(name for name in names if len(name) == 1)
    origin = f"tilelang {tilelang.__version__}, now"
    return Built(compiled, int(shared), boxes, int(threads), scalars, origin=origin)


def _by_triton(name: str) -> Built:
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

    module = _module(name)
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
    text = _without_places(made.asm["ptx"])
    return Built(
        text, about.shared, tuple(tuple(one["block_size"]) for one in about.tensordesc_meta),
        int(re.findall(r"\.reqntid (\d+)", text)[0]), "mnk", described=True,
        origin=f"triton {triton.__version__}, now",
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


def without_meeting(one: Built) -> Built:
    """TileLang's kernel without the meeting of all threads before tensor memory is given back.

    Raises :class:`ValueError` for a kernel that has none there.
    """
    meeting = r"\tbarrier\.sync\s+0;\n|\tbar\.sync\s+0;\n"
    end = one.ptx.find("tcgen05.dealloc")
    found = list(re.finditer(meeting, one.ptx[:end])) if end >= 0 else []
    if one.described or not found:
        raise ValueError("no meeting before this PTX frees tensor memory: give TileLang's kernel")
    begin, after = found[-1].span()
    return replace(one, ptx=one.ptx[:begin] + one.ptx[after:])


def multiply(
    one: Built, m: int, n: int, k: int, *, schedule: Schedule = "late", seed: int = 27
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
        given.append(TensorMap(array, (columns, rows), swizzle="128B"))
        if one.described:
            given += [*array.shape, array.shape[1], 1]
    given += [{"m": m, "n": n, "k": k}[letter] for letter in one.scalars]
    if one.described:
        given += [np.zeros(256, np.uint8), 0]  # room that Triton asks for, unused here
    module = Module(one.ptx)
    (name,) = module.kernels
    run = module[name].launch(1, one.threads, given, shared=one.shared, schedule=schedule)
    return run, bool(np.array_equal(c, a.astype(np.float32) @ b.T.astype(np.float32)))
