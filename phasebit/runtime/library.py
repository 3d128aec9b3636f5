"""Build the C half of the stand-in: a `libcudart.so.13` that a program loads instead of NVIDIA's.

It is compiled with the machine's C compiler when first needed (a second or two) and kept under a
name made from its sources, the compiler and its version. `symbols.txt` lists what NVIDIA's
library of CUDA 13.0 to 13.5 exports; what the C sources do not define becomes a function that
names itself and fails, so that every program links, loads, and says what it lacked.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

from phasebit import build_cache, process
from phasebit.runtime import driver_library, protocol

HERE = Path(__file__).parent
SOURCES = HERE / "c"
EXCHANGE = HERE / "exchange.c"
SONAME = "libcudart.so.13"
FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden")

OF_CUDA_12 = ("cudaGetDeviceProperties_v2",)
"""What a program that is compiled by an nvcc 12 asks for, and NVIDIA's library of 13 has not."""

# In the sources, and only there, an exported function begins a line like this.
_DEFINED = re.compile(r"^API [^;=]*?\b(_*cuda\w+)\(", re.MULTILINE)
# Variants for code compiled with --default-stream per-thread. Work is executed in the order in
# which it is sent, so they need no code of their own.
_PER_THREAD = re.compile(r"_pt[ds][sz]$")

_SECONDS = 120.0  # for one run of the C compiler


class BuildError(Exception):
    """The stand-in could not be built; the text says why and what to do."""


def exported() -> list[str]:
    """Every name that the library must export."""
    return [*(HERE / "symbols.txt").read_text().split(), *OF_CUDA_12]


def defined() -> set[str]:
    """The names that the C sources define."""
    return {name for path in SOURCES.glob("*.c") for name in _DEFINED.findall(path.read_text())}


def aliases() -> dict[str, str]:
    """Names that are other names: per-thread variant -> function."""
    own = defined()
    pairs = ((name, _PER_THREAD.sub("", name)) for name in exported() if name not in own)
    return {name: base for name, base in pairs if base != name and base in own}


def lacking() -> list[str]:
    """The names that exist only to say that they are missing."""
    return sorted(set(exported()) - defined() - set(aliases()))


def _stubs() -> str:
    lines = ['#include "runtime.h"']
    lines += [f'API cudaError_t {name}(void) {{ return missing("{name}"); }}' for name in lacking()]
    return "\n".join(lines) + "\n"


def _version_script() -> str:
    names = "".join(f"    {name};\n" for name in [*exported(), "phasebit_*"])
    return f"{SONAME} {{\n  global:\n{names}  local: *;\n}};\n"


def compiler() -> list[str]:
    """$CC, or gcc, or cc. Raises BuildError."""
    chosen = os.environ.get("CC")
    if chosen:
        return shlex.split(chosen)
    for name in ("gcc", "cc", "clang"):
        if found := shutil.which(name):
            return [found]
    raise BuildError(
        "no C compiler on PATH: the stand-in runtime is compiled on first use; "
        "install gcc (apt-get install gcc) or set CC"
    )


@cache
def build() -> Path:
    """The folder that holds `libcudart.so.13` and `libcuda.so.1`, and their names for linking.

    Raises BuildError.
    """
    command = compiler()
    version = _run([*command, "--version"])
    generated = {
        "protocol.h": protocol.header(),
        "stubs.c": _stubs(),
        "version.map": _version_script(),
        **driver_library.generated(),
    }
    digest = hashlib.sha256(version.stdout.encode() + repr((FLAGS, generated)).encode())
    sources = [*sorted(SOURCES.iterdir()), *sorted(driver_library.SOURCES.iterdir()), EXCHANGE]
    for path in sources:
        digest.update(path.name.encode() + path.read_bytes())
    name = f"runtime/{digest.hexdigest()[:16]}"
    return build_cache.keep(name, lambda built: _compile(command, built, generated))


@cache
def exchange() -> Callable[..., None]:
    """`exchange` of `exchange.c`: compare-and-swap on memory that the program has too."""
    function = ctypes.CDLL(str(build() / "libexchange.so")).exchange
    number, pointer = ctypes.c_size_t, ctypes.c_void_p
    function.argtypes = [number, pointer, pointer, number, pointer, pointer, pointer]
    function.restype = None
    return function


def _compile(command: list[str], built: Path, generated: dict[str, str]) -> None:
    scratch = built.parent
    for name, text in generated.items():
        (scratch / name).write_text(text)
    built.mkdir()
    link(command, EXCHANGE, "-fvisibility=default", "-o", built / "libexchange.so")
    link(
        command,
        f"-I{scratch}",
        f"-I{SOURCES}",
        *sorted(SOURCES.glob("*.c")),
        scratch / "stubs.c",
        "-pthread",
        f"-Wl,-soname,{SONAME}",
        f"-Wl,--version-script={scratch / 'version.map'}",
        *(f"-Wl,--defsym={name}={base}" for name, base in sorted(aliases().items())),
        "-o",
        built / SONAME,
    )
    (built / "libcudart.so").symlink_to(SONAME)
    link(
        command,
        *driver_library.options(scratch),
        built / SONAME,
        "-o",
        built / driver_library.SONAME,
    )
    (built / "libcuda.so").symlink_to(driver_library.SONAME)


def link(command: list[str], *words: str | Path) -> None:
    """Make a shared library with the C compiler. Raises BuildError."""
    done = _run([*command, *FLAGS, "-shared", *map(str, words)])
    if not done.ok:
        why = "it took too long" if done.stopped else (done.stderr or done.stdout).strip()[-2000:]
        raise BuildError(f"the stand-in runtime does not compile with {command[0]}: {why}")


def _run(command: list[str]) -> process.Finished:
    try:
        return process.run(command, timeout=_SECONDS)
    except OSError as error:
        raise BuildError(
            f"cannot start the C compiler {command[0]}, {error.strerror}: set CC to another, or "
            "unset it"
        ) from error
