"""What the function of an admission webhook is told about a request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast, overload

from ctrlhost.controller.caches import Cache, CachedKind
from ctrlhost.errors import NotSynced, UndeclaredRead
from ctrlhost.models.kinds import kind_of

if TYPE_CHECKING:
    import builtins
    import logging
    from collections.abc import Mapping
    from typing import Generic as Parameters

    from typing_extensions import TypeVar

    from ctrlhost.controller.services import PluginScope
    from ctrlhost.models.kinds import KindRef
    from ctrlhost.webhooks.webhook import Webhook

    T = TypeVar("T")
    #: The struct of the objects, or `dict`.
    K = TypeVar("K", default=builtins.object, covariant=True)
    #: The plugin's settings.
    S = TypeVar("S", default=builtins.object, covariant=True)
    #: What the plugin's `setup` returns.
    State = TypeVar("State", default=Any, covariant=True)
else:
    from ctrlhost.controller.parameters import Parameters

    K = S = State = object


class Plugin(Protocol):
    """The context of the plugin whose webhook is called."""

    @property
    def name(self) -> str:
        """The plugin's name."""

    @property
    def settings(self) -> Any:
        """The plugin's settings."""

    @property
    def scope(self) -> PluginScope:
        """What the parts of the plugin share."""


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """A request that the API server asks about."""

    uid: str
    #: CREATE, UPDATE or DELETE.
    operation: str
    #: Empty while the server has not generated it.
    name: str
    #: Empty for a cluster-scoped object.
    namespace: str
    #: Such as `status`; empty for the object itself.
    subresource: str
    #: Who sent the request.
    user: str
    groups: tuple[str, ...]
    dry_run: bool
    #: Such as `CreateOptions`, as the server sent them.
    options: Mapping[str, Any] = field(default_factory=dict)


class Admission(Parameters[K, S, State]):
    """Context of one call of a function of `@plugin.validate` or `@plugin.mutate`.

    `Admission[K, S, State]` has the types of the kind's struct, the plugin's settings and its state, which may be left
    out. It has nothing that writes. Valid only during the call.
    """

    __slots__ = ("_plugin", "_request", "_uid", "_warnings", "_webhook")

    def __init__(
        self, webhook: Webhook, plugin: Plugin, request: AdmissionRequest, uid: str, warnings: list[str]
    ) -> None:
        """Begin a call; `uid` is that of the object. Adds to the warnings."""
        self._webhook = webhook
        self._plugin = plugin
        self._request = request
        self._uid = uid
        self._warnings = warnings

    @property
    def request(self) -> AdmissionRequest:
        """What the API server asks about.

        It has `operation` (CREATE, UPDATE or DELETE), `name`, `namespace` and `subresource`, which may be empty, `user`
        and `groups` of who sent it, `uid`, `options`, and `dry_run`: the function then also leaves alone what is not in
        Kubernetes.
        """
        return self._request

    @property
    def settings(self) -> S:
        """The plugin's settings."""
        return cast("S", self._plugin.settings)

    @property
    def state(self) -> State:
        """What the plugin's `setup` returned; None without one."""
        return cast("State", self._plugin.scope.state)

    @property
    def log(self) -> logging.Logger:
        """The plugin's logger; lines carry the webhook and the request's uid."""
        return self._plugin.scope.log

    def warn(self, text: str) -> None:
        """Show a warning to whoever sent the request, whether it is admitted or not.

        The API server cuts texts above 256 characters, and those above 4,096 in all. TypeError for other types.
        """
        if not isinstance(text, str):
            raise TypeError(f"a warning is a text, got {text!r:.80}")
        self._warnings.append(text)

    @overload
    def cache(self, kind: type[T]) -> Cache[T]: ...
    @overload
    def cache(self, kind: tuple[str, str] | str) -> Cache[Any]: ...
    def cache(self, kind: KindRef[Any]) -> Cache[Any]:
        """Return the cache of a kind that `reads` of the decorator names, or a controller of the plugin declares.

        The namespace is by default that of the request. Lists do not wait for the plugin's own writes. UndeclaredRead
        for other kinds, NotSynced before its first list.
        """
        wanted = kind_of(kind)
        lister = self._webhook.reads.lister(wanted[:2])
        where = f"webhook {self._webhook.path}"
        if lister is None:
            from ctrlhost.controller.undeclared import undeclared_hint

            declared = (*self._webhook.reads.kinds, *self._plugin.scope.listers)
            advice = f'add it to `@plugin.{self._webhook.type}(…, reads=["{{api_version}}/{{kind}}"])`'
            hint = undeclared_hint(*wanted[:2], declared, advice)
            raise UndeclaredRead(self._plugin.name, f"{where} reads {wanted} without declaring it", hint=hint)
        if not lister.has_synced:
            raise NotSynced(f"{where}: the cache of {wanted} is not full yet")
        resource = self._plugin.scope.services.client.resources.last_known(*wanted[:2])
        cached = CachedKind(lister.without_waiting(), wanted, resource is None or resource.namespaced)
        return Cache(cached, self._request.namespace, self._uid)
