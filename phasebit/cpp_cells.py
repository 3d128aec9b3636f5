"""``%%cpp NAME``: a cell of C++ functions for this machine's processor.

The cell is compiled as ``kernels/gemm/`` is, and ``NAME`` becomes a
:class:`phasebit.native.Library`. What a reader wrote may crash or never end, so call its
functions with :meth:`~phasebit.native.Function.guarded` first.
"""

from __future__ import annotations

import keyword
import shlex
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class

from phasebit import native

CELL = "cell"
"""What messages call the source of a cell; its first line, the magic, is line 1."""


def words(text: str) -> list[str]:
    """The words of a line, as a shell would split it. Raises ``UsageError``."""
    try:
        return shlex.split(text)
    except ValueError as error:  # a quotation mark that nothing closes
        raise UsageError(f"{error} in: {text}") from None


@magics_class
class CppMagics(Magics):
    """The magic ``%%cpp``."""

    @cell_magic
    def cpp(self, line: str, cell: str) -> None:
        """Compile the functions in the cell: ``%%cpp NAME [OPTIONS of the compiler]``."""
        name, *options = words(line) or [""]
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError("%%cpp NAME: give the name by which Python is to call the functions")
        library = native.compile(cell, name=CELL, first_line=2, options=options)
        assert self.shell is not None  # a magic runs in a shell
        self.shell.user_ns[name] = library
        print(f"⏱ compiled by {library.build.compiler} {' '.join(library.build.flags)}")
        if library.build.warnings:
            print(library.build.warnings)
        print(f"{name}: {', '.join(map(repr, library.functions.values()))}")


def load(shell: Any) -> None:
    """Register the magic."""
    shell.register_magics(CppMagics(shell))
