"""Each pipeline of CuTe DSL: who produces, who consumes, and the PTX that each call became.

All of it is read from compiled kernels; only the chapter that builds the same by hand is given.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from phasebit import contents, files
from phasebit.chapters.cute_dsl import cute_ptx, lines

if TYPE_CHECKING:
    from phasebit.draw import Arrow, Node, Picture
    from phasebit.measure import Table

AGENTS = {"Async": "threads", "Tma": "copy engine", "Umma": "tensor core", "Store": "copy engine"}
"""What an agent is called in the name of a pipeline -> in this book."""

SIGNALS = {
    "mbarrier.arrive.expect_tx": "bytes of copies", "tcgen05.commit": "commit",
    "mbarrier.arrive": "arrivals", "cp.async.bulk.commit_group": "bulk group",
    "cp.async.bulk.wait_group.read": "bulk group", "cp.async.bulk.tensor, out": "a request",
}  # fmt: skip
"""What stands in the PTX -> what carries the signal."""

CALLS = "acquire", "commit", "wait", "release", "tail"


class Use(NamedTuple):
    """Where a pipeline is used: its kernel, and what the lines of its five calls hold."""

    entry: str
    by_hand: str
    """The chapter that builds the same by hand."""
    slot: str
    calls: tuple[str, str, str, str, str]
    """Of each of :data:`CALLS` what its line holds; empty where the pipeline has none."""


USES = {
    "PipelineAsync": Use("by_hand", "double_buffering", "32 numbers", (
        "ring.producer_acquire(at)", "ring.producer_commit(at)", "ring.consumer_wait(at)",
        "ring.consumer_release(at)", "ring.producer_tail(at)")),
    "PipelineTmaAsync": Use("copied", "hopper_ring", "a box", (
        "= producer.acquire_and_advance()", "", "= consumer.wait_and_advance()",
        "slot.release()", "producer.tail()")),
    "PipelineTmaUmma": Use("matmul", "chain", "slices of A and B", (
        "slices.acquire_and_advance()", "", "slices.wait_and_advance()", "slot.release()",
        "slices.tail()")),
    "PipelineAsyncUmma": Use("multiplied", "one_thread_multiplies", "slices of A and B", (
        "writer.acquire_and_advance()", "slot.commit()", "multiplier.wait_and_advance()",
        "slot.release()", "writer.tail()")),
    "PipelineUmmaAsync": Use("matmul", "chain", "a sum in tensor memory", (
        "sums.acquire_and_advance()", "sum_.commit()", "sums.wait_and_advance()",
        "sum_.release()", "sums.tail()")),
    "PipelineTmaStore": Use("matmul", "hopper_ring", "a piece of C", (
        "leaving.producer_acquire()", "leaving.producer_commit()", "", "",
        "leaving.producer_tail()")),
}  # fmt: skip


def agents(name: str) -> tuple[str, str]:
    """Producer and consumer, as the name of a pipeline says them in this order.

    >>> agents("PipelineTmaUmma"), agents("PipelineAsync")
    (('copy engine', 'tensor core'), ('threads', 'threads'))
    """
    words = re.findall("Async|Tma|Umma|Store", name)
    if words == ["Tma", "Store"]:
        words = ["Async", "Store"]  # threads write a piece; TMA takes it away
    return AGENTS[words[0]], AGENTS[words[-1]]


def calls(name: str) -> dict[str, Counter[str]]:
    """What each call of a pipeline became in PTX, but for arithmetic and moves."""
    use = USES[name]
    python = cute_ptx.source(cute_ptx.file_of(use.entry))
    ptx = cute_ptx.ptx(python, use.entry).ptx
    return {
        call: lines.special(lines.of_line(ptx, python, piece)) if piece else Counter()
        for call, piece in zip(CALLS, use.calls, strict=True)
    }


def asks(entry: str) -> Counter[str]:
    """What the line became that has the copy engine take a piece away."""
    python = cute_ptx.source(cute_ptx.file_of(entry))
    ptx = cute_ptx.ptx(python, entry).ptx
    return lines.special(lines.of_line(ptx, python, "cute.copy(copy_c,"))


def words(count: Counter[str]) -> str:
    """Instructions and how often each stands there: ``4 × mbarrier.try_wait``."""
    return ", ".join(f"{n} × {name}" if n > 1 else name for name, n in count.items()) or "–"


def signal(*counts: Counter[str]) -> str:
    """What carries the signal that these calls give."""
    for count in counts:
        for name in count:
            if name in SIGNALS:
                return SIGNALS[name]
    return "–"


def chapter(name: str) -> str:
    """The number of a chapter; its name, where the book is not at hand."""
    book = files.book()
    return str(contents.number(contents.notebook(book, name))) if book.is_dir() else name


def roles() -> Table:
    """A row for each pipeline: producer, consumer, slot, both signals, and where it was built."""
    from phasebit.measure import Table

    rows = []
    for name, use in USES.items():
        made = calls(name)
        producer, consumer = agents(name)
        full = signal(made["acquire"], made["commit"]) if name != "PipelineTmaStore" else signal(
            asks(use.entry))  # fmt: skip
        empty = signal(made["release"]) if use.calls[3] else signal(made["acquire"])
        rows.append((name, producer, consumer, use.slot, full, empty, chapter(use.by_hand)))
    return Table(("pipeline", "producer", "consumer", "slot", "full is told by", "empty by",
                  "built in chapter"), tuple(rows), "read from compiled PTX")  # fmt: skip


def picture(title: str) -> Picture:
    """A row for each of :func:`roles`: producer, slot, consumer; what tells *full* and *empty*."""
    from phasebit.draw import diagram

    rows = roles().rows
    return diagram(*_boxes(rows), title=title, narrow=_boxes(rows, narrow=True))


def _boxes(
    rows: tuple[tuple[str, ...], ...], narrow: bool = False
) -> tuple[dict[str, Node], list[Arrow]]:
    """What :func:`picture` draws; ``narrow``: the signals within the boxes."""
    from phasebit.draw import Arrow, Node

    left, middle, right = (47.0, 169.0, 287.0) if narrow else (0.0, 265.0, 530.0)
    nodes: dict[str, Node] = {}
    arrows: list[Arrow] = []
    for number, (name, producer, consumer, slot, full, empty, built) in enumerate(rows):
        y = number * (124.0 if narrow else 66.0)
        slot = f"{slot.replace(' of A', chr(10) + 'of A') if narrow else slot}\nchapter {built}"
        if narrow:
            nodes[name] = Node(name, middle, y - 50, "grey")
            slot = slot.replace("a sum in tensor ", "a sum in\ntensor ")
            producer, consumer = f"{producer}\n{full}", f"{consumer}\n{empty}"
            producer = producer.replace("bytes of", "bytes of\n")
            full = empty = ""
        here = [f"{name} {what}" for what in ("producer", "slot", "consumer")]
        nodes |= {
            here[0]: Node(producer, left, y, "blue", "" if narrow else name),
            here[1]: Node(slot, middle, y, "green"),
            here[2]: Node(consumer, right, y, "orange"),
        }
        arrows += [Arrow(here[0], here[1], full), Arrow(here[2], here[1], empty)]
    return nodes, arrows


INVENTORY = (
    ("matmul", "cute.zipped_divide(c, PIECE)", "layouts"),
    ("matmul", "mine.partition_A(", "layouts"),
    ("matmul", "shared.allocate(Shared)", "threads_and_memory"),
    ("matmul", "shared.allocate_tensor(BF16, in_a", "copy_engine"),
    ("matmul", "pipeline.PipelineTmaUmma.create(", "chain"),
    ("matmul", "pipeline.PipelineUmmaAsync.create(", "chain"),
    ("matmul", "tensor_memory.allocate(", "tensor_memory"),
    ("matmul", "tensor_memory.wait_for_alloc()", "tensor_memory"),
    ("matmul", "tensor_memory.retrieve_ptr(", "tensor_memory"),
    ("matmul", "cute.copy(copy_a,", "copy_engine"),
    ("matmul", "mma.set(tcgen05.Field.ACCUMULATE, False)", "one_thread_multiplies"),
    ("matmul", "cute.gemm(mma,", "one_thread_multiplies"),
    ("matmul", "cute.copy(fetch,", "tensor_memory"),
    ("matmul", "cute.arch.fence_view_async_tmem_load()", "tensor_memory"),
    ("matmul", "with cute.arch.elect_one():", "one_thread_multiplies"),
    ("matmul", "cute.copy(write,", "threads_and_memory"),
    ("matmul", "cute.arch.fence_view_async_shared()", "copy_engine"),
    ("matmul", "written.arrive_and_wait()", "warp_specialisation"),
    ("matmul", "cute.copy(copy_c,", "hopper_ring"),
    ("matmul", "tensor_memory.relinquish_alloc_permit()", "tensor_memory"),
    ("matmul", "tensor_memory.free(base)", "tensor_memory"),
    ("said", "cute.arch.make_warp_uniform(cute.arch.warp_idx()) // 4", "warp_specialisation"),
    ("said", "cute.arch.setmaxregister_decrease(40)", "warp_specialisation"),
    ("said", "cute.arch.setmaxregister_increase(232)", "warp_specialisation"),
    ("said", "cute.printf(", ""),
)
"""What is launched, what a line of it holds, the chapter that does the same by hand."""


def inventory(*holding: str) -> Table:
    """A row for each construct: the chapter that does it by hand, and what it became.

    With ``holding`` only the constructs of :data:`INVENTORY` that have one of these in their text.
    """
    from phasebit.measure import Table

    rows = []
    for entry, piece, by_hand in INVENTORY:
        if holding and not any(word in piece for word in holding):
            continue
        python = cute_ptx.source(cute_ptx.file_of(entry))
        texts = lines.of_line(cute_ptx.ptx(python, entry).ptx, python, piece)
        rest = sum(lines.plain(lines.opcode(text)) for text in texts)
        made = lines.special(texts)
        rows.append((piece, chapter(by_hand) if by_hand else "–",
                     words(made) if made else "none", str(rest)))  # fmt: skip
    return Table(("a line has", "by hand in chapter", "PTX", "ordinary"), tuple(rows),
                 "gemm.py" if holding else "gemm.py, and helpers of rings.py")  # fmt: skip
