"""The GPU half of a program, assembled for one target or many; and a whole one, run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from phasebit import process, toolchain
from tests.kernels.emulated import kept

ALL = ("sm_75", "sm_80", "sm_90a", "sm_100a")


@dataclass(frozen=True)
class Assembled:
    """What the compiler says of a program's kernels."""

    resources: tuple[toolchain.Resources, ...]  # of every kernel, once for each target
    warnings: str


def assemble(text: str, *targets: str) -> Assembled:
    """Compile the GPU half of a program, once; see :func:`tests.kernels.emulated.emulate`.

    Raises :class:`toolchain.CompileError`.
    """
    options = ["-std=c++17", "-lineinfo", "-Xptxas", "-v"]
    command = [*toolchain.nvcc_command("fatbin", *targets, options=options), "source.cu"]
    log = (kept(text, command, "code") / "log").read_text("utf-8")
    return Assembled(toolchain.parse_resources(log), toolchain.warnings(log))


def run(text: str, *args: str) -> process.Finished:
    """A whole program, compiled for this machine's GPU and run on it."""
    return process.run([toolchain.build(text).program, *args], timeout=60)


_INCLUDE = re.compile(r"^#include .*$", re.MULTILINE)


def together(texts: Mapping[str, str]) -> str:
    """Several texts as one, each in a namespace of its name: what they include is read once."""
    included = dict.fromkeys(line for text in texts.values() for line in _INCLUDE.findall(text))
    spaces = (
        f'namespace {name} {{\n#line 1 "{name}.cu"\n{_INCLUDE.sub("", text)}\n}}\n'
        for name, text in texts.items()
    )
    return "\n".join([*included, *spaces])


def assemble_each(texts: Mapping[str, str], *targets: str) -> dict[str, Assembled]:
    """What the compiler says of the kernels in each of several texts, compiled together.

    A warning names its file; each of them has the warnings of all.
    Raises :class:`toolchain.CompileError`.
    """
    whole = assemble(together(texts), *targets)
    return {
        name: Assembled(
            tuple(
                replace(use, kernel=use.kernel.removeprefix(f"{name}::"))
                for use in whole.resources
                if use.kernel.startswith(f"{name}::")
            ),
            whole.warnings,
        )
        for name in texts
    }
