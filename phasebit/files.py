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
    """The folder with the CUDA kernels (``NN_idea.cu`` and ``include/``)."""
    return _folder("kernels")


def records() -> Path:
    """The folder with the measurements, one JSON a benchmark and GPU."""
    return _folder("records")


def kernel(name: str) -> str:
    """The source of a kernel of the book, by its file name without ``.cu``.

    Raises ``ValueError`` when there is no such kernel.
    """
    path = kernels() / f"{name}.cu"
    if not path.is_file():
        known = ", ".join(sorted(each.stem for each in kernels().glob("*.cu")))
        raise ValueError(f"the book has no kernel {name!r}: choose from {known}")
    return path.read_text(encoding="utf-8")
