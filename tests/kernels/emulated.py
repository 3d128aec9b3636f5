"""A program of the book on the emulator, in a process of its own, as a reader's cell runs it."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from pathlib import Path

from phasebit import build_cache, process, toolchain
from phasebit.launching import build
from phasebit.runtime import library


def emulate(
    text: str,
    *args: str,
    target: str = "sm_90a",
    schedule: str = "late",
    timeout: float = 120,
    limit: float = 60,
    right: str = "",
) -> process.Finished:
    """Compile a whole program and run it; its findings are in ``stderr``.

    ``limit``: seconds after which the emulator ends it; ``timeout``, those after which we do.

    ``right`` is the same program without the mistake that is planted in ``text``. Where the two
    differ in nothing but the bodies of GPU functions, it lends its host half, and ``text`` is
    compiled to PTX only: three quarters of the time to compile go into the host half. A harness
    that the last line includes is left out then; its GPU functions are for timing.
    """
    lent = bool(right) and same_host_half(text, right)
    program, warnings = built(text, target, right if lent else text)
    assert warnings == "" or (right and not lent)  # a mistake may be worth a warning
    command = [sys.executable, "-m", "phasebit", "run", "--schedule", schedule,
               "--limit", f"{limit:g}"]  # fmt: skip
    if not lent:
        return process.run([*command, program, *args], timeout=timeout)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernels.ptx")
        path.write_text(build.ptx(_HARNESS.sub("", text), target), encoding="utf-8")
        return process.run([*command, "--ptx", path, program, *args], timeout=timeout)


_HARNESS = re.compile(r'^#include "([^"]+)"\s*\Z', re.MULTILINE)
_GPU_FUNCTION = re.compile(r"[^\n]*__(?:global|device)__[^;{}=]*\([^;{}=]*\)[^;{}=()]*\{")
_COMMENT = re.compile(r"//.*")


def host_half(text: str) -> str:
    """A program without the bodies of its GPU functions.

    >>> host_half("__device__ int f(int i) { if (i) { i = 1; } return i; } int g() { return 0; }")
    '__device__ int f(int i) {} int g() { return 0; }'
    >>> host_half("__device__ int f(int i)  // (a; b = 1}\\n{ return i; }")
    '__device__ int f(int i)  // (a; b = 1}\\n{}'
    """
    kept, at = [], 0
    code = _COMMENT.sub(lambda comment: " " * len(comment[0]), text)
    for found in _GPU_FUNCTION.finditer(code):
        if found.start() < at or "__host__" in found[0]:
            continue
        end, depth = found.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
        kept.append(text[at : found.end()] + "}")
        at = end
    return "".join([*kept, text[at:]])


_CONSTANTS = re.compile(r"^constexpr int (\w+ = [^;]*);.*\n", re.MULTILINE)
_NO_CODE = re.compile(r"//.*|^static_assert\(.*\n", re.MULTILINE)


def same_host_half(text: str, other: str) -> bool:
    """Whether two programs differ in GPU functions only, and in constants that only these use.

    >>> one = "constexpr int K = 1;\\nconstexpr int L = K + 1;\\nint main() { return A; }"
    >>> same_host_half(one, one.replace("K = 1", "K = 2"))
    True
    >>> same_host_half(one.replace("A", "L"), one.replace("A", "L").replace("K = 1", "K = 2"))
    False
    """
    halves = host_half(text), host_half(other)
    mine, theirs = (
        dict(
            each.strip().partition(" = ")[::2]
            for line in _CONSTANTS.findall(half)
            for each in line.split(",")
        )
        for half in halves
    )
    rest, others = (_CONSTANTS.sub("", half) for half in halves)
    if rest != others or mine.keys() != theirs.keys():
        return False
    moved = {name for name in mine if mine[name] != theirs[name]}
    for name, made in mine.items():  # each is made of those before it
        if moved & set(re.findall(r"\w+", made)):
            moved.add(name)
    return not moved & set(re.findall(r"\w+", _NO_CODE.sub("", rest)))


ASKED = {
    "harness.cuh": ("", "MNK", "void launch(const float* A, const float* B, float* C);"),
    "asynchronous_copies/filter_harness.cuh": (
        '#include "asynchronous_copies/filter.cuh"',
        ["TILE"],
        "void launch(const float* x, float* y, int n, Weights weights, int blocks);",
    ),
    "hopper_ring/product_harness.cuh": (
        '#include "hopper_ring/product.cuh"',
        [],
        "void launch(const Product& p);",
    ),
    "gemm.cuh": (
        '#include "tensor_cores/tile.cuh"',
        ["In", "Out"],
        "void launch(const Gemm<In, Out>& g);",
    ),
}
"""What a harness asks of the kernels before it, as its first lines say: a header, constants and
types, a function."""


def built(text: str, target: str, host: str = "") -> tuple[Path, str]:
    """A program, compiled for the emulator, and the compiler's warnings.

    Its harness is a unit of its own, compiled once for many kernels: most of the time goes there.
    ``host`` is what the kernels' host half is taken from; without a harness the whole program.
    """
    host = host or text
    found = _HARNESS.search(text)
    alone = found is None or found[1] not in ASKED or "tiling_on_the_gpu/" in text
    if found is None or alone or "STAMPS" in text:
        whole = toolchain.build(
            host, target=target, runtime=library.for_linking(toolchain.nvcc().major)
        )
        return whole.program, whole.warnings
    header, names, declared = ASKED[found[1]]
    harness = "\n".join([header, *constants(text, names), declared, found[0], ""])
    objects = [unit(_HARNESS.sub("", host), target), unit(harness, target)]
    options = [
        "-cudart",
        "shared",
        f"-L{library.for_linking(toolchain.nvcc().major)}",
        *(each / "unit.o" for each in objects),
    ]
    command = toolchain.nvcc_command("program of PTX", target, options=options)
    program = kept("", command, "program")
    return program / "program", "".join((each / "log").read_text("utf-8") for each in objects)


def constants(text: str, names: str | list[str]) -> list[str]:
    """The lines that define these constants and types, and those that they are made of.

    >>> constants("constexpr int A = 1;\\nconstexpr int B = 2 * A;\\nconstexpr int C = 3;", "B")
    ['constexpr int A = 1;', 'constexpr int B = 2 * A;']
    """
    lines = re.findall(r"^(?:constexpr int|using) [^;]*;", text, re.MULTILINE)
    wanted, before = set(names), set[str]()
    while wanted != before:
        before = set(wanted)
        for line in lines:
            if wanted & set(re.findall(r"(\w+) =", line)):
                wanted |= set(re.findall(r"[A-Z]\w*", line))
    return [line for line in lines if wanted & set(re.findall(r"(\w+) =", line))]


def unit(text: str, target: str) -> Path:
    """The folder with ``unit.o``, of a text that needs others to be a program, and a ``log``."""
    options = ["-std=c++17", "-lineinfo", "-Wno-deprecated-gpu-targets", "--no-compress", "-c"]
    command = toolchain.nvcc_command("program of PTX", target, options=[*options, "source.cu"])
    return kept(f'#line 1 "source.cu"\n{text}', command, "unit.o")


def kept(text: str, command: list[str | Path], output: str) -> Path:
    """What a compiler makes of a text, made once. Raises :class:`toolchain.CompileError`."""
    said = [str(word) for word in command if not str(word).startswith("-L")]
    facts = [text, toolchain.headers(text), said, output, toolchain.nvcc().version]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]

    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / "source.cu").write_text(text, encoding="utf-8")
        done = process.run(
            [*command, "-o", output], timeout=toolchain.BUILD_SECONDS, cwd=folder,
            env=toolchain.temporary_in(folder.parent),
        )  # fmt: skip
        log = done.stdout + done.stderr
        if not done.ok:
            raise toolchain.explain(log, "source.cu")
        (folder / "log").write_text(log, encoding="utf-8")

    return build_cache.keep(f"tests/{key}", make)
