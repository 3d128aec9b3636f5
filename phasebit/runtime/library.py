"""Build the C half of the stand-in: the `libcudart` that a program loads instead of NVIDIA's.

It is compiled with the machine's C compiler when first needed (a second or two) and kept under a
name made from its sources, the compiler and its version. `symbols.txt` lists what NVIDIA's
library of CUDA 13.0 to 13.5 exports, `symbols_12.txt` what those of 12.4 and 12.9 export besides;
what the C sources do not define becomes a function that names itself and fails, so that every
program links, loads, and says what it lacked.

Programs of CUDA 12 and of CUDA 13 load one file. It has two names and each function under two
versions, since a program asks for `cudaMalloc` of `libcudart.so.12` or of `libcudart.so.13`: where
the two mean different things, `of_cuda_12.c` has what the older one means. One file, because there
is one device, whoever asks.
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
SONAME_12 = "libcudart.so.12"
FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden")

# In the sources, and only there, an exported function begins a line like this.
_DEFINED = re.compile(r"^API [^;=]*?\b(_*cuda\w+)\(", re.MULTILINE)
# Variants for code compiled with --default-stream per-thread. Work is executed in the order in
# which it is sent, so they need no code of their own.
_PER_THREAD = re.compile(r"_pt[ds][sz]$")
# What was new in CUDA 12 and is the only one in 13 (`cudaMemAdvise_v2`); and names that CUDA 12
# still has for what threads once owned.
_OLD = ((re.compile(r"_v[23]$"), ""), (re.compile(r"^cudaThreadExit$"), "cudaDeviceReset"),
        (re.compile(r"^cudaThread(?=Get|Set|Sync)"), "cudaDevice"))  # fmt: skip
_OF_12 = "_12"  # the end of a name in the sources: what programs of CUDA 12 mean without it

_MADE = ("libexchange.so", SONAME, driver_library.SONAME, "12/libcudart.so")
_SECONDS = 120.0  # for one run of the C compiler


class BuildError(Exception):
    """The stand-in could not be built; the text says why and what to do."""


def exported() -> list[str]:
    """Every name that the library must export."""
    return [*_listed("symbols.txt"), *_listed("symbols_12.txt")]


def _listed(file: str) -> list[str]:
    return (HERE / file).read_text().split()


def defined() -> set[str]:
    """The names that the C sources define."""
    return {name for path in SOURCES.glob("*.c") for name in _defined_in(path)}


def _defined_in(path: Path) -> list[str]:
    return _DEFINED.findall(path.read_text())


def only_12() -> set[str]:
    """The functions that no program of CUDA 13 calls."""
    return set(_defined_in(SOURCES / "of_cuda_12.c"))


def aliases() -> dict[str, str]:
    """Names that are other names: per-thread or older variant -> function."""
    own, older = defined(), _listed("symbols_12.txt")
    found = {}
    for name in exported():
        base = _PER_THREAD.sub("", name)
        if base not in own and name in older:
            for pattern, instead in _OLD:
                base = pattern.sub(instead, base)
        if name not in own and base in own:
            found[name] = base
    return found


def of_cuda_12() -> dict[str, str]:
    """Every name -> the function that a program of CUDA 12 means by it."""
    own, others = defined(), aliases()
    found = {}
    for name in exported():
        older = [each + _OF_12 for each in (name, _PER_THREAD.sub("", name))]
        found[name] = next((each for each in older if each in own), others.get(name, name))
    return found


def lacking() -> list[str]:
    """The names that exist only to say that they are missing."""
    return sorted(set(exported()) - defined() - set(aliases()))


def _stubs() -> str:
    lines = ['#include "runtime.h"']
    lines += [f'API cudaError_t {name}(void) {{ return missing("{name}"); }}' for name in lacking()]
    return "\n".join(lines) + "\n"


def units() -> dict[str, str]:
    """Each C source with the names that programs find its functions under, by file name.

    These are in the assembler's words, since a version is part of a name that C cannot say. Each is
    an alias of its own, and the function has another name (`own.h`): linkers make one of two
    versions that are one symbol.
    """
    others, older = aliases(), of_cuda_12()
    bound: dict[str, list[str]] = {}
    for name in exported():
        for version, function in ((f"@{SONAME}", others.get(name, name)), (SONAME_12, older[name])):
            alias = f"of_{version[-2:]}_{name}"
            label = f"own_{function}" if function in older else function
            symbol = f"{name}@{version}"
            said = f".globl {alias}\\n.set {alias}, {label}\\n.symver {alias}, {symbol}"
            bound.setdefault(function, []).append(f'__asm__("{said}");\n')
    made = {"unit_stubs.c": ("stubs.c", lacking())}
    made |= {f"unit_{path.name}": (path.name, _defined_in(path)) for path in SOURCES.glob("*.c")}
    found = {}
    for unit, (name, functions) in made.items():
        lines = [line for function in functions for line in bound.get(function, ())]
        found[unit] = f'#include "own.h"\n#include "{name}"\n' + "".join(lines)
    return found


def _version_script() -> str:
    names = "".join(f"    {name};\n" for name in [*exported(), "phasebit_*"])
    return f"{SONAME_12} {{\n}};\n{SONAME} {{\n  global:\n{names}  local: *;\n}};\n"


def _names_of_12() -> tuple[str, str]:
    """A library that nobody loads, for linking programs of CUDA 12, and its version script.

    Else a linker would give their functions the newest version that there is.
    """
    functions = "".join(f"void {name}(void) {{}}\n" for name in exported())
    return functions, f"{SONAME_12} {{\n  global: *;\n}};\n"


def for_linking(major: int) -> Path:
    """The folder that a program is linked with, for an nvcc of this major version.

    Raises BuildError.
    """
    return build() / "12" if major < 13 else build()


def compiler() -> list[str]:
    """$CC, or gcc, or cc. Raises BuildError."""
    chosen = os.environ.get("CC", "").strip()
    if chosen:
        try:
            return shlex.split(chosen)
        except ValueError as error:  # a quotation mark that nothing closes
            raise BuildError(
                f"CC={chosen}: {error}: set CC to a C compiler, or unset it"
            ) from error
    for name in ("gcc", "cc", "clang"):
        if found := shutil.which(name):
            return [found]
    raise BuildError(
        "no C compiler on PATH: the stand-in runtime is compiled on first use; "
        "install gcc (apt-get install gcc) or set CC"
    )


@cache
def build() -> Path:
    """The folder that holds `libcudart.so.13`, `libcudart.so.12` and `libcuda.so.1`.

    Raises BuildError.
    """
    command = compiler()
    # What is generated follows from these: this module is one of them.
    written = [Path(__file__), Path(driver_library.__file__), EXCHANGE, *HERE.glob("symbols*.txt")]
    digest = hashlib.sha256(_identity(command).encode() + protocol.header().encode())
    for path in (*sorted(written), *_files(SOURCES), *_files(driver_library.SOURCES)):
        digest.update(path.name.encode() + path.read_bytes())
    name = f"runtime/{digest.hexdigest()[:16]}"
    # ld.so(8) divides folders at some of them, ld and nvcc at others.
    if odd := re.search('[:;$,"]', str(build_cache.folder())):
        raise BuildError(
            f"linkers and programs find nothing in {build_cache.folder()}, whose name has a "
            f"{odd[0]}: set PHASEBIT_CACHE to another folder"
        )
    return build_cache.keep(name, lambda built: _compile(command, built), holds=_MADE)


@cache
def exchange() -> Callable[..., None]:
    """`exchange` of `exchange.c`: compare-and-swap on memory that the program has too."""
    function = ctypes.CDLL(str(build() / "libexchange.so")).exchange
    number, pointer = ctypes.c_size_t, ctypes.c_void_p
    function.argtypes = [number, pointer, pointer, number, pointer, pointer, pointer]
    function.restype = None
    return function


def _identity(command: list[str]) -> str:
    """Which compiler that is; its file says so as well as its version, and need not be started."""
    found = shutil.which(command[0])
    if found is None:
        return _run([*command, "--version"]).stdout  # which says why it cannot be started
    facts = os.stat(found)
    return f"{command} {os.path.realpath(found)} {facts.st_size} {facts.st_mtime_ns}"


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.[ch]"))


def _generated() -> dict[str, str]:
    """What is compiled beside the sources, by file name."""
    functions, versions = _names_of_12()
    return {
        "protocol.h": protocol.header(),
        "own.h": "".join(f"#define {name} own_{name}\n" for name in exported()),
        "stubs.c": _stubs(),
        **units(),
        "version.map": _version_script(),
        "names_12.c": functions,
        "names_12.map": versions,
        **driver_library.generated(),
    }


def _compile(command: list[str], built: Path) -> None:
    scratch = built.parent
    for name, text in _generated().items():
        (scratch / name).write_text(text)
    built.mkdir()
    link(command, EXCHANGE, "-fvisibility=default", "-o", built / "libexchange.so")
    link(
        command,
        f"-I{scratch}",
        f"-I{SOURCES}",
        *sorted(scratch.glob("unit_*.c")),
        "-pthread",
        f"-Wl,-soname,{SONAME}",
        f"-Wl,--version-script={scratch / 'version.map'}",
        "-o",
        built / SONAME,
    )
    (built / "libcudart.so").symlink_to(SONAME)
    (built / SONAME_12).symlink_to(SONAME)
    link(
        command,
        *driver_library.options(scratch),
        built / SONAME,
        "-o",
        built / driver_library.SONAME,
    )
    (built / "libcuda.so").symlink_to(driver_library.SONAME)
    (built / "12").mkdir()
    (built / "12" / "libcuda.so").symlink_to(f"../{driver_library.SONAME}")
    link(
        command,
        "-fvisibility=default",
        "-fno-builtin",
        scratch / "names_12.c",
        f"-Wl,-soname,{SONAME_12}",
        f"-Wl,--version-script={scratch / 'names_12.map'}",
        "-o",
        built / "12" / "libcudart.so",
    )


def link(command: list[str], *words: str | Path) -> None:
    """Make a shared library, the last of the words, with the C compiler. Raises BuildError."""
    done = _run([*command, *FLAGS, "-shared", *map(str, words)])
    if not done.ok:
        why = "it took too long" if done.stopped else _refusal(done.stderr or done.stdout)
        raise BuildError(f"the stand-in runtime does not compile with {command[0]}: {why}")
    if not Path(words[-1]).exists():  # what it is to make comes last
        raise BuildError(
            f"{command[0]} made no {Path(words[-1]).name} of the stand-in runtime: set CC to a C "
            "compiler, or unset it"
        )


def _refusal(log: str) -> str:
    """What stopped a compiler, without the warnings that may stand around it."""
    errors = [line for line in log.splitlines() if re.search(r"\berror:|undefined reference", line)]
    return "\n".join(errors[:10]) or log.strip()[-2000:] or "it does not say why"


def _run(command: list[str]) -> process.Finished:
    try:
        return process.run(command, timeout=_SECONDS)
    except OSError as error:
        raise BuildError(
            f"cannot start the C compiler {command[0]}, {error.strerror}: set CC to another, or "
            "unset it"
        ) from error
