"""What only one chapter needs, a folder a chapter, by the name of its notebook.

``record.py`` is what ``python -m phasebit record`` measures on a machine, ``clean.py`` which
programs compute-sanitizer must have nothing to say of, ``prove.py`` which launches are compared
with a GPU's, ``view.py`` what the page shows,
``exercises.py`` checks a reader's answers. Nothing lists these folders: a chapter that has such a
module is known by it. No chapter imports from another: what several share lies below them.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType


def having(module: str) -> list[str]:
    """The chapters whose folder has a module of this name."""
    return sorted(path.parent.name for path in Path(__file__).parent.glob(f"*/{module}.py"))


def load(chapter: str, module: str) -> ModuleType:
    """A chapter's module, imported when it is asked for; raises ``ModuleNotFoundError``."""
    return importlib.import_module(f"{__name__}.{chapter}.{module}")
