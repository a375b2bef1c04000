"""What a controller of `ctrlhost.Plugin` adds to the context of its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import EllipsisType

    from ctrlhost.cache import Object
    from ctrlhost.controller.caches import Cache
    from ctrlhost.controller.status import StatusWriter
    from ctrlhost.models.kinds import KindRef
    from ctrlhost.models.typed_objects import AnyObject
    from ctrlhost.request import Request
    from ctrlhost.transport.steps import Steps


class Declared(Protocol):
    """One run of a controller of `ctrlhost.Plugin`; `Context` delegates to it."""

    @property
    def object(self) -> Object:
        """The reconciled object as it is cached."""

    @property
    def settings(self) -> Any:
        """The plugin's settings."""

    @property
    def state(self) -> Any:
        """What the plugin's `setup` returned."""

    @property
    def status(self) -> StatusWriter:
        """The status that the run sets."""

    def write_status(self) -> Steps[None]:
        """Write what the status is set to so far."""

    def event(
        self,
        reason: str,
        message: str,
        *,
        warning: bool = False,
        about: Any = None,
        action: str | None = None,
        once: bool = False,
    ) -> bool:
        """Record an event, and return whether it was recorded."""

    def cache(self, kind: KindRef[Any]) -> Cache[Any]:
        """Return the cached objects of a kind."""

    def ensure(
        self,
        obj: AnyObject,
        *,
        owner: AnyObject | EllipsisType | None,
        adopt: bool | Callable[[Object], bool],
    ) -> Steps[Object]:
        """Apply an object if that changes something, and return the live one."""

    def prune(self, kind: KindRef[Any], *, keep: Iterable[AnyObject | str]) -> Steps[list[Request]]:
        """Delete the owned objects of a kind that are not to be kept."""
