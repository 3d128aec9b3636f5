"""What the page shows: files and commands of a project, and a picture of who shares a word."""

from __future__ import annotations

import os
import re
import shlex
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

from phasebit import process
from phasebit.build_cache import Scratch
from phasebit.draw import Cell, Picture, chart
from phasebit.emulator import Access

WIDTH = 92
_SECONDS = 300.0
_OURS = {
    "phasebit": ("-m", "phasebit"),
    "pytest": ("-m", "pytest", "-p", "no:cacheprovider", "--color=no"),
}

# What differs with the compiler's version, or from run to run.
_INSTRUCTION = re.compile(r"`[^`]*` at PTX line \d+ \(([^)]*)\)")
_LINE = re.compile(r"^( *)PTX line +\d+  ", re.MULTILINE)
_TIME = re.compile(r" in \d+\.\d+s( \([\d:]+\))?")


class Project:
    """A folder, which goes when the notebook ends, and a shell in it.

    Commands are ``phasebit …`` and ``pytest …``, of the Python that runs the notebook.
    """

    def __init__(self) -> None:
        self._scratch = Scratch()
        self.folder = Path(self._scratch.name) / "project"
        self.folder.mkdir()

    def write(self, name: str, text: str) -> Path:
        """Save a file; its path."""
        path = self.folder / name
        path.write_text(text.lstrip("\n"), encoding="utf-8")
        return path

    def shell(self, command: str) -> None:
        """Print a command, what it says, and its exit status.

        Of a PTX instruction only the place in the source is shown, and of a run no time: the rest
        differs with the compiler and the machine.
        """
        print(f"$ {command}")
        program, *words = shlex.split(command)
        done = process.run(
            [sys.executable, *_OURS[program], *words], timeout=_SECONDS, cwd=self.folder,
            env={**environment(), "COLUMNS": "80"},
        )  # fmt: skip
        print(shortened(done.stdout + done.stderr, self.folder), end="")
        print(f"[exit status {done.status}]")


def environment() -> dict[str, str]:
    """This environment for a pytest of its own, without what is installed beside it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def shortened(text: str, folder: Path) -> str:
    """What a command said, as the page shows it."""
    text = _LINE.sub(r"\1", _TIME.sub("", _INSTRUCTION.sub(r"\1", text)))
    text = text.replace(f"{folder}{os.sep}", "")
    lines = []
    for line in text.splitlines():
        if line and not line.strip(
            " ^~"
        ):  # carets, which each Python draws its way
            continue
        hang = " " * (len(line) - len(line.lstrip()) + 4)
        lines += textwrap.wrap(line, WIDTH, subsequent_indent=hang) or [""]
    return "".join(f"{line}\n" for line in lines)


def words(accesses: Iterable[Access], title: str) -> Picture:
    """Which threads store and load each eighth of a block's shared words: a row a warp's access."""
    shared = [access for access in accesses if access.space == "shared"]
    last = max(int(access.addresses.max()) for access in shared) // 4
    each = (last + 1) // 8
    rows = []
    for access in shared:
        row: list[Cell | None] = []
        for first in range(0, last + 1, each):
            lanes = [lane for lane in access.lanes
                     if first <= int(access.addresses[lane]) // 4 < first + each]  # fmt: skip
            threads = [32 * access.warp + lane for lane in lanes]
            hue = ("blue", "orange")[access.warp % 2]
            row.append(Cell(f"{threads[0]}–{threads[-1]}", hue) if threads else None)
        rows.append(row)
    names = [f"warp {access.warp} {access.op}s" for access in shared]
    return chart(
        rows, rows=names, columns=range(0, last + 1, each), row_label="in this order",
        column_label=f"first of {each} words of s (in the cells: the threads)", title=title,
        legend={"blue": "warp 0", "orange": "warp 1"},
    )  # fmt: skip
