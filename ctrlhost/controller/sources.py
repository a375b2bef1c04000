"""Sources: what wakes a controller, and what it may read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ctrlhost.informers.mappings import ByIndex, ByLabel
from ctrlhost.selectors.namespaces import read

if TYPE_CHECKING:
    from ctrlhost.cache import Object
    from ctrlhost.request import Request

#: What of each object is cached: whole objects, their metadata, or some paths.
Reads: TypeAlias = Literal["metadata"] | Sequence[str] | None
#: How an index gets an object's values: a path such as `spec.rules[*].host`, or a function.
IndexBy: TypeAlias = "str | Callable[[Object], Iterable[str] | None]"
#: Says of a change whether it wakes the controller; None stands for the side that does not exist.
Predicate: TypeAlias = "Callable[[Object | None, Object | None], bool]"


@dataclass(frozen=True, slots=True)
class KindSource:
    """What all sources that watch a kind have in common.

    `namespaces` None means all of them; else they are chosen by name, by glob, or as `label:SELECTOR`, whichever there
    are at the time. Selectors are written as the API takes them. All `predicates` must agree before a change wakes the
    controller; they never hide an object from its lister. `priority` is what the keys are queued with; None leaves the
    choice to the host: 0, or -100 for the first list and resyncs. `reads` says how much of each object is needed, so
    that the host may cache no more. `indexes` are private to the plugin.
    """

    api_version: str
    kind: str
    _: KW_ONLY
    namespaces: Sequence[str] | None = None
    label_selector: str | None = None
    field_selector: str | None = None
    predicates: Sequence[Any] = ()
    priority: int | None = None
    reads: Reads = None
    indexes: Mapping[str, IndexBy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what can only be a mistake, at the line that made it."""
        if not self.api_version or not self.kind:
            raise ValueError(f"{type(self).__name__} needs an apiVersion and a kind")
        if self.api_version.count("/") > 1:
            raise ValueError(f"{self.api_version!r} is no apiVersion: it has more than one slash")
        if self.namespaces is not None:
            read(self.namespaces)
            object.__setattr__(self, "namespaces", tuple(self.namespaces))
        for name in ("label_selector", "field_selector"):
            if not isinstance(value := getattr(self, name), str | None):
                raise TypeError(f"{name} is a text as the API takes it, such as 'a=b,c!=d', not {value!r}")
        for name, by in self.indexes.items():
            if not (isinstance(by, str) or callable(by)):
                raise TypeError(f"index `{name}` is made by a path or a function, not by {by!r}")
        if callable(self.predicates):
            raise TypeError("predicates is a sequence, not one predicate")
        object.__setattr__(self, "predicates", tuple(self.predicates))
        if isinstance(self.reads, str) and self.reads != "metadata":
            raise ValueError(f'reads is None, "metadata" or a sequence of paths, not {self.reads!r}')

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class For(KindSource):
    """The kind that is reconciled: each of its objects is a key. A controller has one at most."""


@dataclass(frozen=True, slots=True)
class Owns(KindSource):
    """A kind whose objects belong to objects of `For`'s kind: a change wakes the owner.

    The owner is matched by group and kind, in any version; `controller` False takes every owner, not only the one
    that is marked as the controller.
    """

    controller: bool = True


@dataclass(frozen=True, slots=True)
class Watches(KindSource):
    """Any other kind: `map` says which requests a change of its objects makes; None: it is only read.

    On an update `map` is asked for the old and for the new object, and equal requests are made once. It runs on a
    thread of the informer and must neither block nor fail; what it raises is logged and counted, and the change is
    lost to it. `ByLabel` and `ByIndex` say the most usual things without entering Python.
    """

    map: Callable[[Object], Iterable[Request]] | ByLabel | ByIndex | None = None

    def __post_init__(self) -> None:
        """Refuse a map that can not be called."""
        KindSource.__post_init__(self)
        if self.map is not None and not callable(self.map) and not isinstance(self.map, (ByLabel, ByIndex)):
            raise TypeError(f"map must be callable, not {self.map!r}")
        if inspect.iscoroutinefunction(self.map):
            raise TypeError("map must be a plain function; it runs on the informer's thread")


@dataclass(frozen=True, slots=True)
class Every:
    """A timer: every `seconds`, all objects of `For`'s kind, or the requests that `requests()` gives.

    The first round comes after `seconds`, with `at_start` when the workers start: without it `For` has brought every
    object already by then.
    """

    seconds: float
    requests: Callable[[], Iterable[Request]] | None = None
    _: KW_ONLY
    at_start: bool = False
    priority: int | None = None

    def __post_init__(self) -> None:
        """Refuse a period that would never end or never begin."""
        if not 0 < self.seconds < float("inf"):
            raise ValueError(f"Every needs a positive number of seconds, not {self.seconds!r}")


Source: TypeAlias = For | Owns | Watches | Every
