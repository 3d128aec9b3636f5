"""Kernels that lie in a header of their own beside a program that checks them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from phasebit import files, process, toolchain
from phasebit.edits import replace_once

from . import targets
from .emulated import emulate

Mistakes = Mapping[str, tuple[str, str, str]]
"""Name -> a kernel, something that its text says once, and what a mistaken copy says instead."""

_SEEN = re.compile(
    "wrong result|out of bounds|outside|uninitialised|race|^phasebit: ", re.MULTILINE
)


def text(kernel: str) -> str:
    """The program with its own header in it, so that a mistake can be planted in either."""
    header = (files.kernels() / f"{kernel}.cuh").read_text("utf-8").replace("#pragma once", "")
    return files.kernel(kernel).replace(f'#include "{kernel}.cuh"\n', header)


def planted(mistakes: Mistakes, name: str) -> str:
    """The kernel with that mistake in it."""
    kernel, right, wrong = mistakes[name]
    return replace_once(text(kernel), right, wrong)


def right_on_the_emulator(kernel: str, target: str, schedule: str) -> None:
    done = emulate(files.kernel(kernel), target=target, schedule=schedule)
    assert done.ok and not done.stderr, done.stdout + done.stderr
    assert "OK, exact on whole numbers" in done.stdout


def seen_on_the_emulator(mistakes: Mistakes, name: str, target: str) -> None:
    """The program's verdict or a finding tells of the mistake."""
    done = emulate(
        planted(mistakes, name), "--seed", "10", target=target, right=text(mistakes[name][0])
    )
    assert not done.stopped
    assert _SEEN.search(done.stderr), done.stdout + done.stderr


def no_spills_nor_warnings(kernel: str, *architectures: str) -> None:
    built = targets.assemble(files.kernel(kernel), *architectures)
    assert built.warnings == ""
    assert not any(use.spills for use in built.resources)


def right_on_the_gpu(kernel: str) -> None:
    built = toolchain.build(files.kernels() / f"{kernel}.cu")
    done = process.run([built.program], timeout=60)
    assert done.ok and "OK, exact" in done.stdout, done.stdout + done.stderr
