"""Who tells whom, of any kernel: read from a run, not from its text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from phasebit.draw import Arrow, Node, Picture
    from phasebit.measure import Table


def warps(numbers: Iterable[int]) -> str:
    """Numbers of warps in words: ``warp 4``, ``warps 0-3, 6``."""
    given = sorted(set(numbers))
    runs: list[list[int]] = []
    for number in given:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return f"warp{'s' * (len(given) > 1)} {', '.join(parts)}"


class Barrier(NamedTuple):
    """What was seen at one mbarrier."""

    signal: str
    """``bytes``, ``commits`` or ``arrivals``."""
    tellers: tuple[int, ...]
    """Warps that asked for the bytes, committed or arrived."""
    waiters: tuple[int, ...]
    """Warps that waited for it."""

    @property
    def told(self) -> str:
        """``bytes asked for by warp 4``."""
        return f"{self.signal} {'asked for by' if self.signal == 'bytes' else 'of'} " + warps(
            self.tellers
        )


def signals(launch: Callable[[], Any]) -> dict[str, Barrier]:
    """What a launch does at its mbarriers, by their names. Each is told by one kind of signal.

    Threads that arrive at a barrier to which bytes come have asked for them, or stand beside one
    that has: the signal is the bytes.
    """
    from phasebit.emulator import MbarrierObserver, TensorObserver, observing

    told: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    asked: dict[str, set[int]] = defaultdict(set)

    def of(g: Any, lanes: Any) -> set[int]:
        return {int(w) % g.batch.warps for w in g.batch.warp_of[lanes]}

    class Watcher(MbarrierObserver, TensorObserver):
        def arrives(self, g: Any, lanes: Any, site: Any, sem: str, scope: str) -> None:
            instruction = g.batch.machine.executing()
            announces = instruction is not None and "expect_tx" in instruction.opcode
            told[site.name]["bytes" if announces else "arrivals"] |= of(g, lanes)

        def announces_bytes(self, g: Any, site: Any) -> None:
            told[site.name]["bytes"] |= of(g, g.lanes)

        def commits(self, commit: Any) -> None:
            told[commit.site.name]["commits"] |= of(commit.thread, commit.thread.lanes)

        def passes(self, g: Any, site: Any) -> None:
            asked[site.name] |= of(g, g.lanes)

    with observing(Watcher()):
        launch()
    found = {}
    for name, kinds in sorted(told.items()):
        if "bytes" in kinds and kinds.keys() <= {"bytes", "arrivals"}:
            assert kinds.get("arrivals", set()) <= kinds["bytes"], f"{name}: others arrive, too"
            kinds = {"bytes": kinds["bytes"]}
        assert len(kinds) == 1, f"{name} is told by {' and by '.join(kinds)}"
        ((signal, who),) = kinds.items()
        found[name] = Barrier(signal, tuple(sorted(who)), tuple(sorted(asked[name])))
    return found


def table(launches: dict[str, Callable[[], Any]]) -> Table:
    """A row for each kind of barrier of each kernel; ``launches``: by the kernels' names."""
    from phasebit.measure import Table

    rows = []
    for name, launch in launches.items():
        kinds = Counter(signals(launch).values())
        for one, count in sorted(kinds.items(), key=lambda kind: (-kind[1], kind[0])):
            waiters = warps(one.waiters) if one.waiters else "nobody"
            rows.append((name, str(count), one.told, waiters))
    return Table(("kernel", "mbarriers", "told by", "waited for by"), tuple(rows),
                 "seen on the emulator, one block")  # fmt: skip


def picture(launch: Callable[[], Any], title: str) -> Picture:
    """A chain as its run shows it: roles from left to right, an arrow from who tells to who waits.

    Above are the barriers by which data go on, *full*; below those that give slots back, *empty*.
    Each role is a set of warps; the first one asks for the bytes.
    """
    from phasebit.draw import Arrow, Node, diagram

    kinds = Counter(signals(launch).values())
    first = next(one for one in kinds if one.signal == "bytes")
    order = [first.tellers, first.waiters]
    while new := [one.waiters for one in kinds
                  if one.tellers == order[-1] and one.waiters not in order]:  # fmt: skip
        order.append(new[0])
    nodes = {str(who): Node(warps(who), 300.0 * i, 0.0, ("blue", "orange", "green")[i % 3])
             for i, who in enumerate(order)}  # fmt: skip
    arrows = []
    for one, count in kinds.items():
        if one.tellers not in order or one.waiters not in order:
            raise ValueError(f"{one} joins no two roles of the chain {order}: draw a plain chain")
        forward = order.index(one.tellers) < order.index(one.waiters)
        label = f"{'full' if forward else 'empty'}: {count} × {one.signal}"
        arrows.append(Arrow(str(one.tellers), str(one.waiters), label, 24.0))
    return diagram(nodes, arrows, title=title)


class Chain(NamedTuple):
    """The two rings of a product, as its run shows them: roles from left to right."""

    loads: tuple[int, ...]
    """Warps that ask for bytes or wait for empty slots."""
    asks: tuple[int, ...]
    """Those that ask."""
    multiplies: tuple[int, ...]
    stores: tuple[int, ...]
    """Warps that wait for sums or arrive when one is fetched."""
    arrives: tuple[int, ...]
    """Those that arrive."""
    slots: int
    sums: int


def chained(launch: Callable[[], Any]) -> Chain:
    """Raises ``ValueError`` where the barriers of a run do not make a product's two rings."""
    seen = [*signals(launch).values()]
    kinds = {signal: [one for one in seen if one.signal == signal]
             for signal in ("bytes", "commits", "arrivals")}  # fmt: skip

    def of(barriers: list[Barrier], side: str) -> set[int]:
        return {warp for one in barriers for warp in getattr(one, side)}

    asks, multiplies = (of(kinds["bytes"], side) for side in ("tellers", "waiters"))
    empty = [one for one in kinds["commits"] if asks & {*one.waiters}]
    full = [one for one in kinds["commits"] if one not in empty]
    slots, sums = len(kinds["bytes"]), len(kinds["arrivals"])
    right = (
        len(empty) == slots and len(full) == sums and of(kinds["commits"], "tellers") == multiplies
        and all(multiplies <= {*one.waiters} for one in kinds["arrivals"])
    )  # fmt: skip
    if not right:
        raise ValueError(f"no ring of slices and ring of sums: {sorted({*seen})}")
    arrives = of(kinds["arrivals"], "tellers")
    roles = asks | of(empty, "waiters"), asks, multiplies, of(full, "waiters") | arrives, arrives
    loads, asks_, multiplies_, stores, arrives_ = (tuple(sorted(role)) for role in roles)
    return Chain(loads, asks_, multiplies_, stores, arrives_, slots, sums)


def chains(launches: dict[str, Callable[[], Any]], title: str) -> Picture:
    """A row for each kernel: who loads, multiplies and stores, and what tells whom."""
    from phasebit.draw import diagram

    found = {name: chained(launch) for name, launch in launches.items()}
    return diagram(*_rows(found), title=title, narrow=_rows(found, narrow=True))


def _rows(found: dict[str, Chain], narrow: bool = False) -> tuple[dict[str, Node], list[Arrow]]:
    """What :func:`chains` draws; ``narrow``: in each box what it tells."""
    from phasebit.draw import Arrow, Node

    places = (44.0, 166.0, 288.0) if narrow else (0.0, 250.0, 500.0)
    nodes: dict[str, Node] = {}
    arrows: list[Arrow] = []
    for number, (name, of) in enumerate(found.items()):
        y = number * (122.0 if narrow else 104.0)
        some = {
            "load": (warps(of.loads), of.asks, of.loads, "asks"),
            "multiply": (warps(of.multiplies), (), (), ""),
            "store": (warps(of.stores), of.arrives, of.stores, "arrives"),
        }
        told = ([f"{of.slots} × bytes"], [f"{of.slots} × commits", f"{of.sums} × commits"],
                [f"{of.sums} × arrivals"])  # fmt: skip
        if narrow:
            nodes[name] = Node(name, places[1], y - 52, "grey")
        for (role, (text, few, all_, does)), x, hue, tells in zip(
            some.items(), places, ("blue", "orange", "green"), told, strict=True
        ):
            some_do = f"{warps(few).split()[-1] if narrow else warps(few)} {does}"
            lines = [text] if few == all_ else [text, some_do]
            lines += tells if narrow else []
            whose = "" if narrow or role != "load" else name
            nodes[f"{name} {role}"] = Node("\n".join(lines), x, y, hue, whose)
        bend = 8.0 if narrow else 20.0
        labels = ("",) * 4 if narrow else (
            f"full: {of.slots} × bytes", f"empty: {of.slots} × commits",
            f"full: {of.sums} × commits", f"empty: {of.sums} × arrivals",
        )  # fmt: skip
        one, two, three = (f"{name} {role}" for role in some)
        pairs = (one, two), (two, one), (two, three), (three, two)
        arrows += [Arrow(*pair, label, bend)
                   for pair, label in zip(pairs, labels, strict=True)]  # fmt: skip
    return nodes, arrows
