"""Events: how what happens in a launch reaches whoever wants to know of it.

An *event* is a method of an observer class that does nothing, such as ``LaunchObserver.leaves``.
Who wants to know subclasses, overrides the method and subscribes: the checker, the counters, the
trace.  Who makes it happen tells all of these, and does not know who they are::

    for told in machine.told[LaunchObserver.leaves]:
        told(g)

Where nobody listens the loop has no turn: no Python function is called.  An observer class stands
beside what makes its events happen, in whatever room that is.  No two of them have an event of one
name, so that one object may listen to several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_everywhere: list[object] = []
"""Who listens to every launch that begins."""


class Told(dict[Any, Any]):
    """Event -> the methods of those who listen to it, in the order of subscribing."""

    def __init__(self, observers: Iterable[object] = ()) -> None:
        super().__init__()
        self.observers = list(observers)
        self.others = list(_everywhere)

    def subscribe(self, *observers: object) -> None:
        """These listen from now on, too."""
        self.observers += observers
        self.clear()

    def unsubscribe(self, observer: object) -> None:
        """This one listens no longer."""
        self.observers.remove(observer)
        self.clear()

    def __missing__(self, event: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
        name = event.__name__
        everyone = [*self.observers, *self.others]
        listening = [o for o in everyone if getattr(type(o), name, event) is not event]
        self[event] = tuple(getattr(observer, name) for observer in listening)
        return self[event]

    if TYPE_CHECKING:  # the arguments of a listener are those of the event

        def __getitem__(
            self, event: Callable[Concatenate[Any, P], R], /
        ) -> tuple[Callable[P, R], ...]: ...


@contextmanager
def observing(observer: object) -> Iterator[None]:
    """Every launch that begins meanwhile tells this observer, after those of its own."""
    _everywhere.append(observer)
    try:
        yield
    finally:
        _everywhere.remove(observer)


__all__ = ["Told", "observing"]
