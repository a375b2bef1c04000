"""What `@plugin.controller` makes of a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.models.kinds import Kind, kind_of

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import Generic as Parameters

    from typing_extensions import TypeVar

    from ctrlhost.declarative.declaration import DeclaredFunction
    from ctrlhost.request import Result

    #: The struct of the reconciled kind, or `Object`.
    K = TypeVar("K", contravariant=True)
    #: What the function returns.
    R = TypeVar("R", default="Result | Awaitable[Result | None] | None", covariant=True)
else:
    from ctrlhost.controller.parameters import Parameters

    K = R = object


class Controller(Parameters[K, R]):
    """A declared controller: the function, still callable with `(ctx, obj)`, for unit tests without a host.

    `@plugin.controller` makes it. A finalizer names it: `@plugin.finalizer("example.com/user", of=reconcile)`.
    """

    def __init__(self, declared: DeclaredFunction) -> None:
        """Wrap a declared function."""
        self.declared = declared
        self.__name__ = declared.name
        self.__doc__ = declared.function.__doc__
        self.__wrapped__ = declared.function

    @property
    def kind(self) -> Kind:
        """The reconciled kind; TypeError or ValueError if the declaration names none, or leaves it to the settings."""
        # Imported late: a module that only declares needs neither informers nor a client.
        from ctrlhost.controller.source import KindSource

        source = self.declared.options["kind"]
        return source.reference if isinstance(source, KindSource) else kind_of(source)

    @property
    def name(self) -> str:
        """The controller's name: as declared, else its kind in lower case."""
        return self.declared.options.get("name") or self.kind.kind.lower()

    def __call__(self, ctx: Any, obj: K) -> R:
        """Call the function."""
        result: R = self.declared.function(ctx, obj)
        return result
