"""The stand-in for the driver library, `libcuda.so.1`: what it exports, and how it is compiled.

Its C sources (`driver/`) say each call of the driver with calls of the runtime's stand-in beside
it, so a program that uses both sees one device. `symbols_driver.txt` lists what cuda.h of CUDA 13.0
declares, with the versions that older programs link; what the sources do not define becomes a
function that names itself and fails.
"""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = HERE / "driver"
SONAME = "libcuda.so.1"

_DEFINED = re.compile(r"^API [^;=]*?\b(cu\w+)\(", re.MULTILINE)
# memory.c writes its copies and fills by macros.
_COPIES = re.compile(r"^COPY\((\w+),", re.MULTILINE)
_FILLS = re.compile(r"^FILL\((\w+),", re.MULTILINE)
_PER_THREAD = re.compile(r"_pt[ds][sz]$")


def exported() -> list[str]:
    """Every name that the library must export."""
    return (HERE / "symbols_driver.txt").read_text().split()


def defined() -> set[str]:
    """The names that the C sources define."""
    found: set[str] = set()
    for path in SOURCES.glob("*.c"):
        text = path.read_text()
        found.update(_DEFINED.findall(text))
        for name in _COPIES.findall(text):
            found |= {f"{name}_v2", f"{name}Async_v2"}
        for bits in _FILLS.findall(text):
            found |= {f"cuMemset{d}{bits}{way}" for d in ("D", "D2D") for way in ("_v2", "Async")}
    return found


def aliases() -> dict[str, str]:
    """Names that are other names: per-thread variant -> function."""
    own = defined()
    pairs = ((name, _PER_THREAD.sub("", name)) for name in exported() if name not in own)
    return {name: base for name, base in pairs if base in own}


def lacking() -> list[str]:
    """The names that exist only to say that they are missing."""
    return sorted(set(exported()) - defined() - set(aliases()))


def generated() -> dict[str, str]:
    """The files that are compiled beside the sources, by name."""
    stubs = [f'API CUresult {name}(void) {{ return missing("{name}"); }}' for name in lacking()]
    return {
        "driver_stubs.c": '#include "driver.h"\n' + "\n".join(stubs) + "\n",
        "driver.map": "{\n  global: cu*;\n  local: *;\n};\n",
    }


def options(scratch: Path) -> list[str | Path]:
    """What the C compiler is told to make it, `generated()` being in `scratch`."""
    return [
        f"-I{SOURCES}",
        *sorted(SOURCES.glob("*.c")),
        scratch / "driver_stubs.c",
        "-ldl",
        f"-Wl,-soname,{SONAME}",
        "-Wl,-rpath,$ORIGIN",
        f"-Wl,--version-script={scratch / 'driver.map'}",
        *(f"-Wl,--defsym={name}={base}" for name, base in sorted(aliases().items())),
    ]
