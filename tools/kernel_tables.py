"""Write the README.md of each folder of kernels: what each file adds, how fast it is, its length.

    python tools/kernel_tables.py          write those that are not current
    python tools/kernel_tables.py --check  only name them

The idea is the first sentence of a file. The rate is what the chapter's module ``view`` says in
``rates(record)``, a dictionary from the kernel's name in its folder to a few words, where it says
that; the record is the one in ``records/``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from phasebit import chapters, contents, files, measure, recording

SUFFIXES = (".cu", ".cpp", ".py")
HEADERS = (".cuh", ".h")
COMPILERS = {
    ".cu": "nvcc -std=c++17 -O3 -arch=native -Ikernels -Ikernels/include {path} -o {name}",
    ".cpp": "g++ -std=c++17 -O3 -march=native -shared -fPIC -Ikernels -Ikernels/include {path} "
    "-o {name}.so",
}
ELSEWHERE = (
    "Without a GPU, `python -m phasebit nvcc` takes the place of `nvcc`, with a target as "
    "`-arch=sm_90a`, and `python -m phasebit run` starts the program."
)


def idea(text: str) -> str:
    """The first sentence of a file's opening comment or docstring, without the rung's letter.

    >>> idea("// Rung b. Coalesced: as it\\n// should be. And more.\\nint x;")
    'Coalesced: as it should be.'
    """
    if quoted := re.match(r'(?:#[^\n]*\n)*"""(.*?)"""', text, re.DOTALL):
        words = quoted[1]
    else:
        opening = re.match(r"(?://(?:$| ?\S[^\n]*)\n)+", text)  # up to what is indented
        words = opening[0].replace("//", "") if opening else ""
    words = re.sub(r"^Rung \w\. ", "", " ".join(words.split()))
    return re.split(r"(?<=[.?!]) (?=[^\W\d])", words)[0].rstrip(":")


def rates(chapter: str) -> tuple[dict[str, str], str]:
    """Kernel -> how fast it was, in words, and the record's source; nothing where none is said."""
    if not {chapter} <= set(chapters.having("view")) & set(chapters.having("record")):
        return {}, ""
    view = chapters.load(chapter, "view")
    if not hasattr(view, "rates"):
        return {}, ""
    record = measure.read(recording.benchmark(chapter).NAME)
    return view.rates(record), measure.source(record)


def table(folder: Path) -> str:
    """The text of a folder's README.md."""
    found = sorted(path for path in folder.rglob("*") if path.suffix in (*SUFFIXES, *HEADERS))
    programs = [path for path in found if path.suffix in SUFFIXES]
    headers = [path for path in found if path.suffix in HEADERS]
    told, source = ({}, "") if folder.name == "include" else rates(folder.name)
    parts = [
        f"# {title(folder)}",
        "Written by `python tools/kernel_tables.py`.",
        *grid(folder, "kernel", programs, told),
        *grid(folder, "header", headers, told),
    ]
    if told:
        parts.append(f"Measured: {source}.")
    for suffix, command in COMPILERS.items():
        first = next((path for path in programs if path.suffix == suffix), None)
        if first:
            path = first.relative_to(files.kernels().parent).as_posix()
            parts.append(f"```bash\n{command.format(path=path, name=first.stem)}\n```")
            parts += [ELSEWHERE] if suffix == ".cu" else []
    return "\n\n".join(parts) + "\n"


def grid(folder: Path, what: str, paths: list[Path], told: dict[str, str]) -> list[str]:
    """A table of some files: their idea, how fast they are where any is told, their length."""
    rows = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(folder).as_posix()
        rate = told.get(name.rpartition(".")[0], "")
        words = idea(text).replace("|", "\\|")
        rows.append([f"[{name}]({name})", words, rate, str(len(text.splitlines()))])
    heading = [what, "its idea", "measured", "lines"]
    if not any(row[2] for row in rows):
        rows = [[*row[:2], row[3]] for row in rows]
        heading.remove("measured")
    lines = [heading, ["---"] * len(heading), *rows]
    return ["\n".join(f"| {' | '.join(line)} |" for line in lines)] if rows else []


def title(folder: Path) -> str:
    """What a folder of kernels is: headers for all, or the chapter's, by its title."""
    if folder.name == "include":
        return "Headers that several chapters share"
    chapter = contents.read(contents.notebook(files.book(), folder.name))
    return f"The kernels of *{chapter.title}*"


def folders() -> list[Path]:
    """Every folder of kernels."""
    return sorted(path for path in files.kernels().iterdir() if path.is_dir())


def stale() -> dict[Path, str]:
    """The README.md files that are not current -> what must stand in them."""
    wanted = {folder / "README.md": table(folder) for folder in folders()}
    return {path: text for path, text in wanted.items()
            if not path.exists() or path.read_text(encoding="utf-8") != text}  # fmt: skip


def main() -> None:
    old = stale()
    for path, text in old.items():
        print(path)
        if "--check" not in sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
    if old and "--check" in sys.argv[1:]:
        raise SystemExit("run 'python tools/kernel_tables.py'")


if __name__ == "__main__":
    main()
