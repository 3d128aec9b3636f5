"""Which line of the CUDA source each instruction comes from: ``.file``, ``.loc``, ``.section``.

Source: PTX ISA 11.5 (debugging directives).
"""

from __future__ import annotations

import os
import re
from bisect import bisect

from phasebit.emulator.ptx.cursor import Cursor
from phasebit.emulator.ptx.mangling import demangle
from phasebit.emulator.ptx.syntax import Location


class SourcePlaces:
    """``location`` is where the instructions that follow come from."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.location: Location | None = None
        self._inline = _inline(cursor.text)
        self._files = self._file_names()
        self._strings, self._labels = _debug_strings(cursor.text)
        self._inlined_at: dict[tuple[int, int, int], Location] = {}

    def _file_names(self) -> dict[int, str]:
        """``.file`` directives may stand at the end, after the ``.loc`` that use them."""
        names = {}
        tokens = self.cursor.tokens
        for place, token in enumerate(tokens[:-2]):
            if token.text == ".file":
                number, name = tokens[place + 1 : place + 3]
                if number.kind == "int" and name.kind == "string":
                    names[self.cursor.constant(number)] = _unescaped(name.text[1:-1])
        return names

    def generated(self, start: int) -> bool:
        """Whether a compiler wrote what begins at a place of the text, and no person."""
        return bisect(self._inline, start) % 2 == 0

    def file(self) -> None:
        """``.file number "name" [, timestamp, size]``: known already."""
        cursor = self.cursor
        cursor.expect(".file")
        cursor.integer()
        if cursor.token.kind != "string":
            raise cursor.fail("expected a file name in quotes")
        cursor.next()
        while cursor.accept(","):
            cursor.integer()

    def loc(self) -> None:
        """``.loc file line column [, function_name label, inlined_at file line column]``.

        Line 0 says that what follows comes of no one line, for a compiler has merged several.
        """
        cursor = self.cursor
        cursor.expect(".loc")
        place = (cursor.integer(), cursor.integer(), cursor.integer())
        caller: Location | None = None
        name = ""
        while cursor.accept(","):
            what = cursor.word()
            if what == "inlined_at":
                key = (cursor.integer(), cursor.integer(), cursor.integer())
                caller = self._inlined_at.get(key) or self._place(*key)
            else:  # function_name $L__info_string3 [+ 4]
                label = cursor.word()
                offset = cursor.integer() if cursor.accept("+") else 0
                name = self._debug_name(label, offset)
        self.location = self._place(*place, caller, name) if place[1] else caller
        if self.location is not None:
            self._inlined_at[place] = self.location

    def _place(
        self, file: int, line: int, column: int, caller: Location | None = None, name: str = ""
    ) -> Location:
        path = self._files.get(file, "?")
        return Location(os.path.basename(path), line, caller, name, column, path)

    def _debug_name(self, label: str, offset: int) -> str:
        """The last part of the function name at a label of ``.debug_str``; "" if unknown."""
        if label not in self._labels:
            return ""
        start = self._labels[label] + offset
        end = self._strings.find(b"\0", start)
        mangled = self._strings[start : end if end >= 0 else None]
        name = demangle(mangled.decode("utf-8", "replace")).split("::")[-1]
        return "" if name.startswith("_Z") else name

    def section(self) -> None:
        """``.section .debug_str { … }``: debugging information; the strings are known already."""
        cursor = self.cursor
        start = cursor.next()
        while cursor.token.text != "{":
            if cursor.next().kind == "end":
                raise cursor.fail("this .section has no body", start)
        depth = 0
        while True:
            token = cursor.next()
            depth += {"{": 1, "}": -1}.get(token.text, 0)
            if token.kind == "end":
                raise cursor.fail("this .section never ends", start)
            if depth == 0:
                return


def _debug_strings(text: str) -> tuple[bytes, dict[str, int]]:
    """What ``.section .debug_str`` holds: its bytes, and where each label stands."""
    found = re.search(r"\.section\s+\.debug_str\s*\{([^}]*)\}", text)
    pieces = re.split(r"^(\$\w+):", found[1], flags=re.MULTILINE)[1:] if found else []
    strings = bytearray()
    labels = {}
    for label, rows in zip(pieces[::2], pieces[1::2], strict=True):
        labels[label] = len(strings)
        strings += bytes(int(n) & 0xFF for n in re.findall(r"\b\d+", rows.replace(".b8", " ")))
    return bytes(strings), labels


def _inline(text: str) -> list[int]:
    """Where text that a person wrote begins and ends, one place after the other.

    NVIDIA's compiler says where inline assembly is.  Triton also writes its own instructions so.
    """
    if "Generated by LLVM NVPTX Back-End" in text:
        return []
    if "Generated by NVIDIA NVVM Compiler" not in text:
        return [0]
    return [found.start() for found in re.finditer(r"// (?:begin|end) inline asm", text)]


__all__ = ["SourcePlaces"]


def _unescaped(text: str) -> str:
    """A name as its file has it: compilers write what is not ASCII as octal numbers of bytes."""
    if "\\" not in text:
        return text
    numbers = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
    plain = re.sub(r'\\([\\"])', r"\1", numbers)
    try:
        return plain.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return plain
