"""One reflector with its engine: the share of an informer that one namespace, or all of them, makes up."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost import _core
from ctrlhost.client.builtin_kinds import builtin_plural
from ctrlhost.informers.dispatcher import Dispatcher
from ctrlhost.informers.reflector import Reflector

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.informers.options import ReflectorOptions

Reads = str | tuple[str, ...] | None
Transform = Any


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects an informer is of, and how much of each it keeps. Equal scopes share one informer."""

    api_version: str
    kind: str
    namespaces: tuple[str, ...] | None = None
    label_selector: str | None = None
    field_selector: str | None = None
    reads: Reads = None
    #: Compared by identity: two transforms that do the same are two.
    transform: Transform = None

    def describe(self) -> str:
        """Give a readable key."""
        parts = [f"{self.kind}.{self.api_version}"]
        if self.namespaces is not None:
            parts.append(f"namespaces={','.join(self.namespaces)}")
        for name, value in (("labels", self.label_selector), ("fields", self.field_selector)):
            if value:
                parts.append(f"{name}={value}")
        if self.reads is not None:
            parts.append(f"reads={self.reads if isinstance(self.reads, str) else ','.join(self.reads)}")
        if self.transform is not None:
            parts.append("transformed")
        return " ".join(parts)


class Part:
    """An engine and the reflector that feeds it."""

    def __init__(
        self,
        client: Client,
        scope: Scope,
        namespace: str,
        clock: Clock,
        options: ReflectorOptions,
        *,
        resync: float | None,
        fed: Callable[[], None],
        on_error: Callable[[Exception], None] | None,
    ) -> None:
        """Make both; nothing runs before `start`."""
        known = builtin_plural(scope.api_version, scope.kind)
        #: The plural where it is known without asking, for messages and metrics.
        self.resource = known[0] if known else scope.kind.lower()
        self.engine = _core.SharedInformer(
            self.resource,
            scope.api_version,
            scope.kind,
            reads=scope.reads,
            transform=scope.transform,
            clock=clock,
            resync=resync,
        )
        self.reflector = Reflector(
            client,
            scope.api_version,
            scope.kind,
            self.engine,
            clock,
            options,
            namespace=namespace,
            label_selector=scope.label_selector,
            field_selector=scope.field_selector,
            metadata_only=scope.reads == "metadata",
            fed=self._fed,
            on_error=on_error,
        )
        self.scope = scope
        self.namespace = namespace
        self.dispatcher = Dispatcher(f"{namespace}/{scope.kind}" if namespace else scope.kind)
        self._on_fed = fed
        self._lock = threading.Lock()
        self._started = False

    def start(self) -> None:
        """Start the reflector, once."""
        with self._lock:
            if self._started:
                return
            self._started = True
        self.reflector.start()

    @property
    def resync_period(self) -> float:
        """How often somebody wants to be told of every object again, in seconds; 0 for never."""
        return self.engine.resync_check_period

    def _fed(self) -> None:
        self.dispatcher.wake()
        self._on_fed()

    def resync(self) -> None:
        """Tell the handlers whose time has come of every object once more."""
        self.engine.resync()
        self.engine.process()
        self._fed()
