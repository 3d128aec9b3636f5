"""The Python side of the exercises in a page: an answer in, what the notebook would print out.

Runs in the reader's browser, under Pyodide, with the chapter's own judge.
"""

from __future__ import annotations

import contextlib
import io
import traceback

NAME = "<your answer>"


def check(code: str, before: str) -> dict[str, str]:
    """Run an answer behind what the chapter has imported; ``verdict`` is the last line printed.

    ``output`` is what was printed before it, ``error`` the sentence where the answer fails.
    """
    names: dict[str, object] = {"__name__": "__main__"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(before, names)
    printed.truncate(0)
    printed.seek(0)
    said = {}
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(str(code), NAME, "exec"), names)
    except SyntaxError as error:
        said["error"] = f"Line {error.lineno} is no Python: {error.msg}."
    except BaseException as error:
        said["error"] = f"{_where(error)}{type(error).__name__}: {error}"
    lines = printed.getvalue().rstrip("\n").split("\n")
    if "error" not in said:
        said["verdict"] = lines.pop()
    said["output"] = "\n".join(lines)
    return said


def _where(error: BaseException) -> str:
    """The last line of the answer that an error went through."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == NAME]
    return f"Line {lines[-1]}: " if lines else ""
