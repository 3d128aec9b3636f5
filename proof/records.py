"""The GPU's answers on disk.

Each answer takes its type's width (a predicate one byte), and the file keeps
for each program its name, a digest of its text and inputs, and the answers one
after another.  The digest tells when the generator has changed since: an answer
to another program proves nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from proof.dice import Words
from proof.program import Program
from proof.values import SIZE


def digest(data: str | bytes) -> int:
    """64 bits of SHA-256."""
    raw = data.encode() if isinstance(data, str) else data
    return int.from_bytes(hashlib.sha256(raw).digest()[:8], "little")


def identity(program: Program) -> int:
    """A digest of a program's text and inputs."""
    return digest(program.text.encode() + program.draw().tobytes())


def _rows(program: Program) -> list[np.dtype[np.unsignedinteger]]:
    return [np.dtype(f"<u{1 if k == 'pred' else SIZE[k]}") for k in program.outputs]


def pack(program: Program, answers: Words, lanes: int | None = None) -> bytes:
    """A program's answers (of its first ``lanes`` threads) as bytes."""
    rows = zip(_rows(program), answers, strict=True)
    return b"".join(row[:lanes].astype(kind).tobytes() for kind, row in rows)


def unpack(program: Program, data: bytes, lanes: int | None = None) -> Words:
    """The inverse of :func:`pack`."""
    n = program.lanes if lanes is None else min(lanes, program.lanes)
    rows, at = [], 0
    for kind in _rows(program):
        rows.append(np.frombuffer(data, kind, n, at).astype(np.uint64))
        at += n * kind.itemsize
    return np.array(rows, np.uint64)


class Answers(Mapping[str, bytes]):
    """Recorded answers by program name."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            self.device = str(file["device"])
            self._names: list[str] = str(file["names"]).split()
            self._texts: NDArray[np.uint64] = file["texts"]
            self._lanes: NDArray[np.int64] = file["lanes"]
            self._digests: NDArray[np.uint64] = file["digests"]
            self._ends: NDArray[np.int64] = np.cumsum(file["sizes"])
            self._data: bytes = file["data"].tobytes()
        self._index = {name: i for i, name in enumerate(self._names)}

    def __getitem__(self, name: str) -> bytes:
        i = self._index[name]
        return self._data[int(self._ends[i - 1]) if i else 0 : int(self._ends[i])]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def holds(self, program: Program) -> bool:
        """Whether there is an answer to this very program."""
        i = self._index.get(program.name)
        return i is not None and int(self._texts[i]) == identity(program)

    def lanes_of(self, program: Program) -> int:
        """How many threads' answers were kept."""
        return min(int(self._lanes[self._index[program.name]]), program.lanes)

    def digest_of(self, program: Program) -> int:
        """The digest of the answers of all threads."""
        return int(self._digests[self._index[program.name]])


def save(
    path: Path, device: str, answers: Iterable[tuple[Program, bytes]], lanes: int = 1 << 20
) -> int:
    """Write the answers of at most ``lanes`` threads each; returns the file's size in bytes."""
    items = sorted(answers, key=lambda item: item[0].name)
    digests = [digest(data) for _, data in items]
    items = [(p, pack(p, unpack(p, data), lanes)) for p, data in items]
    np.savez_compressed(
        path,
        device=np.array(device),
        names=np.array("\n".join(p.name for p, _ in items)),
        texts=np.array([identity(p) for p, _ in items], np.uint64),
        lanes=np.full(len(items), lanes, np.int64),
        digests=np.array(digests, np.uint64),
        sizes=np.array([len(data) for _, data in items], np.int64),
        data=np.frombuffer(b"".join(data for _, data in items), np.uint8),
    )
    return path.stat().st_size
