"""Where the repository's kernels and records are, in a checkout and in an installed package."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parent


def _folder(name: str) -> Path:
    for folder in (_CHECKOUT / name, _PACKAGE / "_data" / name):
        if (_CHECKOUT / "pyproject.toml").exists() or folder.parent.name == "_data":
            return folder
    raise FileNotFoundError(
        f"phasebit is installed without its folder {name}/: "
        "install it from a checkout with 'pip install .'"
    )


def kernels() -> Path:
    """The folder with the kernels: a folder for each chapter, and ``include/`` for several."""
    return _folder("kernels")


def bugs() -> Path:
    """The folder with bugs that people had: a folder for each, and ``include/`` for several."""
    return _folder("bugs")


def book() -> Path:
    """The folder of the notebooks; an installed package has none, and it does not exist there."""
    return _CHECKOUT / "book"


def records() -> Path:
    """The folder with the measurements, one JSON a benchmark and GPU."""
    return _folder("records")


def kernel(name: str) -> str:
    """The source of a kernel, by its chapter and its file name: ``double_buffering/tiled``.

    Raises ``ValueError`` when there is no such kernel.
    """
    path = kernels() / f"{name}.cu"
    if not path.is_file():
        known = ", ".join(kernel_names(".cu"))
        raise ValueError(f"the book has no kernel {name!r}: choose from {known}")
    return path.read_text(encoding="utf-8")


def function(kernel_name: str, name: str) -> str:
    """The text of a ``__device__ void`` function of a kernel's file, from its head to its brace.

    Raises ``ValueError`` when the file has no such function.
    """
    text = kernel(kernel_name)
    begin = text.index(f"__device__ void {name}(")
    return text[begin : text.index("\n}\n", begin) + 2]


def kernel_names(suffix: str) -> list[str]:
    """The names of all kernels in files that end so, as :func:`kernel` takes them."""
    found = kernels().rglob(f"*{suffix}")
    return sorted(path.relative_to(kernels()).with_suffix("").as_posix() for path in found)
