"""Another package's attribute, for the length of a block."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

_MISSING = object()


@contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute, or an item of a mapping, has another value within the block."""
    mapping = isinstance(owner, MutableMapping)
    before = owner.get(name, _MISSING) if mapping else vars(owner).get(name, _MISSING)
    (owner.__setitem__ if mapping else lambda n, v: setattr(owner, n, v))(name, value)
    try:
        yield
    finally:
        if before is not _MISSING:
            (owner.__setitem__ if mapping else lambda n, v: setattr(owner, n, v))(name, before)
        elif mapping:
            del owner[name]
        else:
            delattr(owner, name)
