"""Findings: what was found wrong in a kernel, as data. Text is made of it at the end, for people.

A finding's sentence is a sequence of words, among them places and threads, which are data
themselves: whoever asks for the lines does not read them out of the text.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from phasebit.emulator import rulebook


@dataclass(frozen=True)
class Call:
    """One step on the way to a place: a line, and the inlined function that it stands in.

    ``column`` counts from 1; 0 where it is not known.
    """

    line: int
    column: int = 0
    function: str = ""


@dataclass(frozen=True)
class Place:
    """An instruction, and where it comes from.

    ``calls`` lead from the kernel's own line inwards, through inlined functions of ``file``; they
    are empty where the PTX does not say which source it was made of. ``path`` is that file as the
    compiler was given it.
    """

    ptx_line: int
    instruction: str = ""
    file: str = ""
    calls: tuple[Call, ...] = ()
    path: str = ""

    @property
    def line(self) -> int:
        """The innermost line of the source; 0 where it is not known."""
        return self.calls[-1].line if self.calls else 0

    @property
    def column(self) -> int:
        """Where in that line; 0 where it is not known."""
        return self.calls[-1].column if self.calls else 0

    @property
    def function(self) -> str:
        """The inlined function that the line stands in; empty in the kernel itself."""
        return self.calls[-1].function if self.calls else ""

    @property
    def source(self) -> str:
        """``kernel.cu:41``; within inlined functions ``kernel.cu:41, in wait at line 12``."""
        if not self.calls:
            return ""
        first, *inner = self.calls
        steps = [f", in {c.function or 'an inlined function'} at line {c.line}" for c in inner]
        return f"{self.file}:{first.line}" + "".join(steps)

    def __str__(self) -> str:
        """``PTX line 12 (kernel.cu:7)``."""
        return f"PTX line {self.ptx_line}" + (f" ({self.source})" if self.calls else "")

    def to_json(self) -> dict[str, Any]:
        """As JSON; ``line``, ``column`` and ``function`` are those of the last call."""
        innermost = {"line": self.line, "column": self.column, "function": self.function}
        return {**asdict(self), **innermost}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Place:
        """The place that :meth:`to_json` wrote."""
        calls = tuple(Call(**call) for call in data["calls"])
        return cls(data["ptx_line"], data["instruction"], data["file"], calls, data["path"])


@dataclass(frozen=True)
class BlockThreads:
    """Some threads of one block: ranges of their numbers, both ends included.

    ``total``: how many threads the block has.
    """

    block: int
    ranges: tuple[tuple[int, int], ...]
    total: int

    @property
    def warps(self) -> tuple[int, ...]:
        """The numbers of their warps."""
        found = {n // 32 for first, last in self.ranges for n in range(first, last + 1)}
        return tuple(sorted(found))

    @property
    def which(self) -> str:
        """``all threads``, ``warps 0-7``, ``thread 5``."""
        count = sum(last - first + 1 for first, last in self.ranges)
        if count == self.total:
            return "all threads"
        warps = self.warps
        if count == 32 * len(warps):
            return f"warp{'s' if len(warps) > 1 else ''} {_in_words(ranges(warps))}"
        return f"thread{'s' if count > 1 else ''} {_in_words(self.ranges)}"

    def __str__(self) -> str:
        """``all threads of block 0``, ``warps 0-7 of block 2``, ``thread 5 of block 0``."""
        return f"{self.which} of block {self.block}"


@dataclass(frozen=True)
class Threads:
    """Threads of a launch, block by block."""

    blocks: tuple[BlockThreads, ...]

    def __str__(self) -> str:
        """As of a block; of blocks with the same threads ``warp 0 of blocks 0-3, 5``."""
        alike: dict[str, list[int]] = {}
        for each in self.blocks:
            alike.setdefault(each.which, []).append(each.block)
        return ", ".join(f"{which} of {blocks_text(found)}" for which, found in alike.items())

    @classmethod
    def of(cls, block: int, numbers: Iterable[int], total: int) -> Threads:
        """Threads of one block with ``total`` threads."""
        return cls((BlockThreads(block, ranges(numbers), total),))

    def to_json(self) -> list[dict[str, Any]]:
        """As JSON: an object for each block, with the warps beside the threads."""
        return [{**asdict(each), "warps": list(each.warps)} for each in self.blocks]

    @classmethod
    def from_json(cls, data: Iterable[Mapping[str, Any]]) -> Threads:
        """The threads that :meth:`to_json` wrote."""
        return cls(tuple(
            BlockThreads(each["block"], tuple((a, b) for a, b in each["ranges"]), each["total"])
            for each in data
        ))  # fmt: skip


def ranges(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Numbers as ranges, both ends included.

    >>> ranges([0, 1, 2, 5])
    ((0, 2), (5, 5))
    """
    found: list[tuple[int, int]] = []
    for number in sorted({int(n) for n in numbers}):
        if found and number == found[-1][1] + 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return tuple(found)


def blocks_text(numbers: Iterable[int]) -> str:
    """Blocks by number.

    >>> blocks_text([1, 2, 3, 7])
    'blocks 1-3, 7'
    """
    parts = ranges(numbers)
    return f"block{'s' if parts[0][0] != parts[-1][1] else ''} {_in_words(parts)}"


def _in_words(parts: Iterable[tuple[int, int]]) -> str:
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


@dataclass(frozen=True)
class Address:
    """A place in memory.

    ``space``: ``shared`` (then ``number`` counts from the beginning of the block's) or ``global``;
    ``allocation``: the variable or array that it lies in, ``offset`` bytes from its beginning;
    empty where it lies in none. ``text`` is how a sentence names it.
    """

    space: str
    number: int
    allocation: str
    offset: int
    text: str

    def __str__(self) -> str:
        return self.text


Word: TypeAlias = str | Place | Threads | Address


@dataclass(frozen=True)
class Sentence:
    """Text with places, threads and addresses in it, which stay data until it is printed."""

    words: tuple[Word, ...] = ()

    @property
    def places(self) -> tuple[Place, ...]:
        """The places that it names, in order."""
        return tuple(word for word in self.words if isinstance(word, Place))

    @property
    def threads(self) -> tuple[Threads, ...]:
        """The threads that it names, in order."""
        return tuple(word for word in self.words if isinstance(word, Threads))

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The places in memory that it names, in order."""
        return tuple(word for word in self.words if isinstance(word, Address))

    def __str__(self) -> str:
        return "".join(map(str, self.words))


def say(template: str, *values: object) -> Sentence:
    """A sentence: ``template`` as ``str.format`` takes it, with ``values`` in its ``{}``.

    Places, threads, addresses and other sentences stay what they are; all else becomes text.

    >>> str(say("{} of {:#x}: {}", say("the {}", 1), 16, Place(12)))
    'the 1 of 0x10: PTX line 12'
    """
    words: list[Word] = []
    waiting = iter(values)
    for text, name, spec in _parts(template):
        words.append(text)
        if name is None:
            continue
        value = next(waiting)
        if isinstance(value, Sentence):
            words += value.words
        elif isinstance(value, Place | Threads | Address):
            words.append(value)
        else:
            words.append(format(value, spec or ""))
    if any(True for _ in waiting):
        raise TypeError(f"more values than places for them in {template!r}")
    return Sentence(tuple(word for word in words if word))


@functools.lru_cache(maxsize=1024)
def _parts(template: str) -> tuple[tuple[str, str | None, str | None], ...]:
    """Each text of a template, the name of the value behind it, and how that is written."""
    return tuple(part[:3] for part in string.Formatter().parse(template))


def joined(separator: str, parts: Iterable[Sentence | str]) -> Sentence:
    """Sentences in one, as ``separator.join`` does for text."""
    parts = list(parts)
    return say(separator.join(["{}"] * len(parts)), *parts)


Said: TypeAlias = Word | Sentence
"""What may stand in a sentence."""


@dataclass(frozen=True)
class Wait:
    """Threads that wait in vain: for what, at which instruction, and what is known of that.

    ``barrier``: the name of the mbarrier, where it is one; ``missing``: the bytes announced there
    that have not come; negative: those that have come, and were not announced.
    """

    threads: Threads
    what: str
    place: Place | None
    why: str
    barrier: str = ""
    missing: int = 0

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "threads": self.threads.to_json(), "what": self.what,
            "place": self.place.to_json() if self.place else None, "why": self.why,
            "barrier": self.barrier, "missing": self.missing,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Wait:
        """The wait that :meth:`to_json` wrote."""
        place = Place.from_json(data["place"]) if data["place"] else None
        threads = Threads.from_json(data["threads"])
        return cls(threads, data["what"], place, data["why"], data["barrier"], data["missing"])


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    ``rule``: the name of what it breaks, of :data:`phasebit.emulator.rulebook.RULES`; that says its
    ``kind`` (``race``, ``uninitialised``, ``barrier``, ``async``, ``proxy``, ``cluster``,
    ``descriptor`` or ``tensor``; ``fault``, ``deadlock``, ``steplimit`` or ``time`` of a kernel
    that does not come to its end; ``launch``, ``compile``, ``program`` or ``defect`` of what is no
    kernel's doing) and its ``grade``. Raises ValueError for a rule that is none.

    ``sentence`` says it; ``at`` is the access that noticed it; ``waits`` are a deadlock's.
    ``kernel`` and ``launch`` (its number, from 1) are known where a whole program runs.
    """

    rule: str
    sentence: Sentence
    at: Place | None = None
    waits: tuple[Wait, ...] = ()
    kernel: str = ""
    launch: int = 0

    def __post_init__(self) -> None:
        rulebook.rule(self.rule)

    @property
    def kind(self) -> str:
        """The family of its rule."""
        return rulebook.rule(self.rule).kind

    @property
    def grade(self) -> str:
        """``can corrupt``, or ``no promise``: the ISA gives none, hardware does not mind."""
        return rulebook.rule(self.rule).grade

    @property
    def message(self) -> str:
        """The sentence, as text."""
        return str(self.sentence)

    @property
    def places(self) -> tuple[Place, ...]:
        """The places that it names: first that of the access that noticed."""
        return self.sentence.places

    @property
    def threads(self) -> tuple[Threads, ...]:
        """The threads that it names, in the order of the sentence."""
        return self.sentence.threads

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The places in memory that it names."""
        return self.sentence.addresses

    @property
    def line(self) -> int:
        """The PTX line of the access that noticed it; 0 where there is none."""
        return self.at.ptx_line if self.at else 0

    @property
    def source(self) -> str:
        """The place of that access in the CUDA source: ``kernel.cu:41, in wait at line 12``."""
        return self.at.source if self.at else ""

    @property
    def lines(self) -> tuple[int, ...]:
        """Innermost source lines: of the access that noticed, and of the one it conflicts with.

        Of a deadlock those of all waits.
        """
        places = [wait.place for wait in self.waits] or self.places or [self.at]
        return tuple(place.line for place in places if place and place.calls)

    @property
    def ends(self) -> bool:
        """Whether it is how something ended, and no finding of the checker."""
        return self.kind in rulebook.ENDS

    def __str__(self) -> str:
        return self.message if self.ends else f"{self.kind}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """As JSON. ``message`` is for people; ``sentence`` refers to the lists by number."""
        kinds = {Place: "places", Threads: "threads", Address: "addresses"}
        seen = dict.fromkeys(kinds.values(), -1)
        words: list[str | dict[str, int]] = []
        for word in self.sentence.words:
            if isinstance(word, str):
                words.append(word)
            else:
                kind = kinds[type(word)]
                seen[kind] += 1
                words.append({kind: seen[kind]})
        return {
            "rule": self.rule,
            "kind": self.kind,
            "grade": self.grade,
            "message": self.message,
            "kernel": self.kernel,
            "launch": self.launch,
            "at": self.at.to_json() if self.at else None,
            "places": [place.to_json() for place in self.places],
            "threads": [threads.to_json() for threads in self.threads],
            "addresses": [asdict(address) for address in self.addresses],
            "waits": [wait.to_json() for wait in self.waits],
            "sentence": words,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Finding:
        """The finding that :meth:`to_json` wrote."""
        named: dict[str, list[Word]] = {
            "places": [Place.from_json(each) for each in data["places"]],
            "threads": [Threads.from_json(each) for each in data["threads"]],
            "addresses": [Address(**each) for each in data["addresses"]],
        }
        words = [
            word if isinstance(word, str) else named[kind][number]
            for word in data["sentence"]
            for kind, number in (word.items() if isinstance(word, dict) else [("", 0)])
        ]
        return cls(
            data["rule"],
            Sentence(tuple(words)),
            Place.from_json(data["at"]) if data["at"] else None,
            tuple(Wait.from_json(each) for each in data["waits"]),
            data["kernel"],
            data["launch"],
        )
