"""`ctrlhost.Plugin`: a plugin as an object that declares its functions and implements the hooks with them."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from ctrlhost.controller.index import Index
from ctrlhost.declarative import parentheses
from ctrlhost.declarative.controller import Controller
from ctrlhost.declarative.declaration import Declaration, DeclaredFunction
from ctrlhost.errors import PluginLoadError
from ctrlhost.hookspecs import hookimpl
from ctrlhost.models.kinds import kind_of
from ctrlhost.permissions import Permission

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
    from typing import Generic as Parameters
    from typing import TypeAlias, Unpack

    import click
    import msgspec
    from typing_extensions import TypeVar as DefaultTypeVar

    from ctrlhost.cache import Object
    from ctrlhost.config.settings import ShardBy
    from ctrlhost.controller.backoff import Backoff
    from ctrlhost.controller.sources import For, Owns, Watches
    from ctrlhost.declarative.decorators import (
        ControllerDecorator,
        FinalizerDecorator,
        GoneDecorator,
        HostDecorator,
        IndexDecorator,
        MutateDecorator,
        ValidateDecorator,
    )
    from ctrlhost.declarative.webhook_options import Convert, MutatorOptions, WebhookOptions
    from ctrlhost.duration import DurationLike
    from ctrlhost.models.kinds import KindRef
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.plugin.task import Until

    #: The plugin's settings, None without any.
    S = DefaultTypeVar("S", default=None)
    #: What `setup` returns.
    State = DefaultTypeVar("State", default=Any)
    T = TypeVar("T")
    #: An option, or a function of the settings that returns it.
    OfSettings: TypeAlias = T | Callable[[S], T]
    #: What a function of `setup` may return: the state or nothing, or what yields one of these once.
    SetUp: TypeAlias = T | Iterator[T | None] | AsyncIterator[T | None] | Awaitable[T | None] | None
else:
    from ctrlhost.controller.parameters import Parameters

    S = State = object

#: The names of plugins, which `ctx.ensure` writes as annotations.
_ANNOTATION_NAME = re.compile(r"(?=.{1,63}\Z)[a-z0-9](?:[-a-z0-9_.]*[a-z0-9])?", re.IGNORECASE | re.ASCII)

K = TypeVar("K")
F = TypeVar("F", bound="Callable[..., Any]")
R = TypeVar("R")


class Plugin(Parameters[S, State]):
    """A plugin: decorate functions with its methods at the top level of a module.

    ```python
    # a part of a plugin
    plugin = ctrlhost.Plugin(settings=Settings)


    @plugin.controller("v1/ConfigMap")
    def reconcile(ctx, config_map):
        ctx.log.info("%s has %d keys", config_map.name, len(config_map.get("data", {})))
    ```

    The entry point of the plugin names the object (`memcached = "memcached:plugin"`) or its module. Decorating only
    declares: nothing runs and no request is sent until a host loads the plugin. After that a decorator raises
    RuntimeError.

    `settings` is the struct of the plugin's settings. `Plugin[Settings, State]` also has the type of what `setup`
    returns, for type checkers. `crds` are names of YAML files, with `*` and `?`, in the package
    of the module that makes the plugin. `objects` are files with anything else that it ships, such as an admission
    policy: `ctrlhost manifests` prints these objects, and `--install-crds` applies them. Several hosts may use one
    object: what belongs to a host is what `setup` returns.
    """

    def __init__(
        self, *, settings: type[S] | None = None, crds: str | Sequence[str] = (), objects: str | Sequence[str] = ()
    ) -> None:
        """Start an empty declaration."""
        names = sys._getframe(1).f_globals  # noqa: SLF001 - as `warnings` and `logging` do
        module = str(names.get("__name__", ""))
        self.declaration = Declaration(
            settings=settings,
            module=module,
            crds=(crds,) if isinstance(crds, str) else tuple(crds),
            objects=(objects,) if isinstance(objects, str) else tuple(objects),
        )
        #: The CRDs, once they are known and the declaration is constant.
        self._crds: list[dict[str, Any]] | None = None
        # The host names a plugin that is passed as an object after it.
        self.__name__ = Path(names.get("__file__", "main")).stem if module == "__main__" else _plugin_module(module)

    def __repr__(self) -> str:
        """Return the module that made it."""
        return f"<ctrlhost.Plugin of {self.declaration.module}>"

    @overload
    def controller(
        self,
        kind: type[K] | OfSettings[For[K], S],
        *,
        name: str | None = None,
        owns: OfSettings[Sequence[KindRef[Any] | Owns], S] = (),
        watches: OfSettings[Sequence[KindRef[Any] | Watches], S] = (),
        every: OfSettings[DurationLike | None, S] = None,
        predicates: Sequence[Any] | None = None,
        workers: OfSettings[int, S] = 1,
        timeout: OfSettings[DurationLike | None, S] = None,
        needs_leader: OfSettings[bool, S] = True,
        retry: OfSettings[Backoff | None, S] = None,
        rate_limiter: OfSettings[Any, S] = None,
        suppress_echo: OfSettings[bool, S] = False,
        shard_by: OfSettings[ShardBy | None, S] = None,
        enabled: OfSettings[bool, S] = True,
        gone: Literal[False] = False,
        status: Literal["subresource", "object"] = "subresource",
    ) -> ControllerDecorator[K, S, State]: ...
    @overload
    def controller(
        self,
        kind: tuple[str, str] | str,
        *,
        name: str | None = None,
        owns: OfSettings[Sequence[KindRef[Any] | Owns], S] = (),
        watches: OfSettings[Sequence[KindRef[Any] | Watches], S] = (),
        every: OfSettings[DurationLike | None, S] = None,
        predicates: Sequence[Any] | None = None,
        workers: OfSettings[int, S] = 1,
        timeout: OfSettings[DurationLike | None, S] = None,
        needs_leader: OfSettings[bool, S] = True,
        retry: OfSettings[Backoff | None, S] = None,
        rate_limiter: OfSettings[Any, S] = None,
        suppress_echo: OfSettings[bool, S] = False,
        shard_by: OfSettings[ShardBy | None, S] = None,
        enabled: OfSettings[bool, S] = True,
        gone: Literal[False] = False,
        status: Literal["subresource", "object"] = "subresource",
    ) -> ControllerDecorator[Object, S, State]: ...
    @overload
    def controller(
        self,
        kind: type[K] | OfSettings[For[K], S],
        *,
        gone: Literal[True],
        name: str | None = None,
        owns: OfSettings[Sequence[KindRef[Any] | Owns], S] = (),
        watches: OfSettings[Sequence[KindRef[Any] | Watches], S] = (),
        every: OfSettings[DurationLike | None, S] = None,
        predicates: Sequence[Any] | None = None,
        workers: OfSettings[int, S] = 1,
        timeout: OfSettings[DurationLike | None, S] = None,
        needs_leader: OfSettings[bool, S] = True,
        retry: OfSettings[Backoff | None, S] = None,
        rate_limiter: OfSettings[Any, S] = None,
        suppress_echo: OfSettings[bool, S] = False,
        shard_by: OfSettings[ShardBy | None, S] = None,
        enabled: OfSettings[bool, S] = True,
        status: Literal["subresource", "object"] = "subresource",
    ) -> GoneDecorator[K, S, State]: ...
    @overload
    def controller(
        self,
        kind: tuple[str, str] | str,
        *,
        gone: Literal[True],
        name: str | None = None,
        owns: OfSettings[Sequence[KindRef[Any] | Owns], S] = (),
        watches: OfSettings[Sequence[KindRef[Any] | Watches], S] = (),
        every: OfSettings[DurationLike | None, S] = None,
        predicates: Sequence[Any] | None = None,
        workers: OfSettings[int, S] = 1,
        timeout: OfSettings[DurationLike | None, S] = None,
        needs_leader: OfSettings[bool, S] = True,
        retry: OfSettings[Backoff | None, S] = None,
        rate_limiter: OfSettings[Any, S] = None,
        suppress_echo: OfSettings[bool, S] = False,
        shard_by: OfSettings[ShardBy | None, S] = None,
        enabled: OfSettings[bool, S] = True,
        status: Literal["subresource", "object"] = "subresource",
    ) -> GoneDecorator[Object, S, State]: ...
    @parentheses.needed
    def controller(self, kind: Any, **options: Any) -> Any:
        """Reconcile the objects of a kind with the decorated `function(ctx, obj)`.

        ```python
        # a part of a plugin
        @plugin.controller(Memcached, owns=["apps/v1/Deployment"], every="10m")
        def reconcile(ctx, mc):
            ctx.ensure(deployment_for(mc))
        ```

        It is called with a `Context` on a worker's thread; an `async def` with an `AsyncContext` on the plugin's event
        loop. `obj` is of the struct that `kind` is, or an `Object`. It returns None or a `Result`, and raises to be
        retried. It is not called for an object that is gone or being deleted; with `gone` it is, with None for one
        that is gone.

        - `owns` are kinds whose objects it makes. A change of one calls it for the owner.
        - `watches` are kinds that it reads, or `ctrlhost.Watches` with a map.
        - With `every`, such as `"10m"`, each object is also reconciled once per period.
        - By default a change of the reconciled kind's status does not call it. With `predicates=[]` every change does.
        - `retry=ctrlhost.Backoff(first="1s", max="5m")` sets the delays between the retries of an object; or
          `rate_limiter` is an object with the methods of `ctrlhost.workqueue.RateLimiter`.
        - With `suppress_echo`, the events of its own writes to the reconciled kind and to `watches` do not call it;
          those of its writes to `owns` never do.
        - With `shard_by`, replicas of a host that has shards share its objects, by their "namespace", "name" or "uid".
        - `status="object"` writes the status of a kind without the status subresource with the object.
        - `name` is the kind in lower case by default.

        Mistakes are reported when a host loads the plugin.

        An option other than `name`, `predicates`, `gone` and `status` may be a function of the settings that returns
        it: `workers=lambda settings: settings.workers`. That of `kind` returns a `ctrlhost.For`, and needs a `name`.
        One that is not `enabled` is left out.
        """

        def declare(function: Callable[..., Any]) -> Controller[Any, Any]:
            if isinstance(function, Controller):
                # One function may reconcile several kinds.
                function = function.declared.function
            declared = DeclaredFunction("controller", function, ("ctx", "obj"), {"kind": kind, **options})
            controller: Controller[Any, Any] = Controller(declared)
            self.declaration.open().controllers.append(controller)
            return controller

        return declare

    @parentheses.needed
    def finalizer(
        self, name: str, *, of: Controller[K, Any], when: Callable[[K], bool] | None = None
    ) -> FinalizerDecorator[K, S, State]:
        """Call the decorated `function(ctx, obj)` for objects of a controller that are being deleted.

        ```python
        # a part of a plugin
        @plugin.finalizer("example.com/user", of=reconcile)
        def drop_user(ctx, database):
            ctx.state.users.discard(database.spec.user)
        ```

        The finalizer `name`, as `domain/name`, is added before the controller first runs for an object. With `when`, it
        is added only to objects for which that returns true, and taken off where it no longer does.

        While an object is being deleted the function runs in place of the controller. When it returns None the
        finalizer is removed, and the function is not called again. When it raises or asks for a requeue the finalizer
        stays. It is called at least once: again if the host ends before the removal. Several run in the order of
        declaration.

        In a dry run the function is called, and `ctx.dry_run` is true: it must then leave alone what is not in
        Kubernetes.

        The function is `async def` if that of the controller is, and runs where that does.
        """

        def declare(function: Callable[..., Any]) -> Any:
            options = {"name": name, "of": of, "when": when}
            declared = DeclaredFunction("finalizer", function, ("ctx", "obj"), options)
            self.declaration.open().finalizers.append(declared)
            return function

        return declare

    @overload
    def index(self, kind: type[K]) -> IndexDecorator[K]: ...
    @overload
    def index(self, kind: tuple[str, str] | str) -> IndexDecorator[Object]: ...
    @parentheses.needed
    def index(self, kind: Any) -> Any:
        """Index the objects of a kind by what the decorated `function(obj)` returns: texts, or None for none.

        ```python
        # a part of a plugin
        @plugin.index(Database)
        def by_user(database):
            return [database.spec.user]


        # in a controller
        databases = ctx.cache(Database).by_index(by_user, "ann")
        ```

        The function runs on the plugin's index thread. The kind is cached for every controller that declares it; if
        none does, for all controllers of the plugin.
        """

        def declare(function: Callable[[Any], Iterable[str] | None]) -> Index[Any]:
            index: Index[Any] = Index(kind_of(kind), function)
            self.declaration.open().indexes.append(index)
            return index

        return declare

    @overload
    def validate(
        self, kind: type[K], operations: Sequence[str] | str = ..., **options: Unpack[WebhookOptions]
    ) -> ValidateDecorator[K, S, State]: ...
    @overload
    def validate(
        self, kind: tuple[str, str] | str, operations: Sequence[str] | str = ..., **options: Unpack[WebhookOptions]
    ) -> ValidateDecorator[dict[str, Any], S, State]: ...
    @parentheses.needed
    def validate(self, kind: Any, operations: Any = ("CREATE", "UPDATE"), **options: Any) -> Any:
        """Ask the decorated `function(ctx, new, old)` whether an object may be written; it raises `ctrlhost.Denied`.

        ```python
        # a part of a plugin
        @plugin.validate(Database)
        def check_size(ctx, new, old):
            if old is not None and new.spec.size < old.spec.size:
                raise ctrlhost.Denied("must not shrink", field="spec.size")
        ```

        `ctx` is a `ctrlhost.Admission`. `old` is None for CREATE, `new` for DELETE; both are of the struct that `kind`
        is, or dicts. An object that does not fit the struct is refused with its path. A `def` runs on the threads of
        the plugin's webhooks, an `async def` on its event loop.

        - `operations` are some of CREATE, UPDATE and DELETE; `"*"` is all of them.
        - `failure_policy` says what happens when the host does not answer: `"Fail"` refuses, `"Ignore"` admits.
        - The function has `timeout` (`"5s"`; whole seconds, 30 at most) less half a second.
        - `when` is a CEL text about `object`, `oldObject` and `request`: without it, every request is asked about.
        - `namespaces` and `label_selector` are those of the objects that are asked about.
        - `subresource`, such as `"status"`, asks about that instead of the object.
        - `reads` are kinds for `ctx.cache`, besides those of the plugin's controllers.
        - `name`, a DNS label, is by default that of the function with hyphens.

        Mistakes are reported when a host loads the plugin.
        """
        options = {"kind": kind, "operations": operations, **options}
        return self._declares("webhooks", "validate", ("ctx", "new", "old"), options)

    @overload
    def mutate(
        self, kind: type[K], operations: Sequence[str] | str = ..., **options: Unpack[MutatorOptions]
    ) -> MutateDecorator[K, S, State]: ...
    @overload
    def mutate(
        self, kind: tuple[str, str] | str, operations: Sequence[str] | str = ..., **options: Unpack[MutatorOptions]
    ) -> MutateDecorator[dict[str, Any], S, State]: ...
    @parentheses.needed
    def mutate(self, kind: Any, operations: Any = ("CREATE", "UPDATE"), **options: Any) -> Any:
        """Change objects with the decorated `function(ctx, new, old)` before they are written.

        ```python
        # a part of a plugin
        @plugin.mutate(Database)
        def fill_user(ctx, new, old):
            if not new.spec.user:
                return msgspec.structs.replace(new, spec=msgspec.structs.replace(new.spec, user=new.metadata.name))
        ```

        It returns the object as it should be, as a struct or a mapping, or None to leave it. The host sends the
        smallest patch; what the struct does not declare stays. An object that does not fit the struct is left alone,
        with a warning. Called with its own result, the function must change nothing: the API server calls it again
        if another webhook has changed the object, unless `reinvoke` is false.

        Mutators of a plugin are called in the order of their declaration. `operations` are CREATE and UPDATE, and the
        other options those of `validate`.
        """
        options = {"kind": kind, "operations": operations, **options}
        return self._declares("webhooks", "mutate", ("ctx", "new", "old"), options)

    @parentheses.needed
    def convert(
        self, kind: KindRef[Any], source: str | type[Any], target: str | type[Any]
    ) -> Callable[[Convert], Convert]:
        """Convert the objects of a kind from the version `source` to `target` with the decorated `function(obj)`.

        ```python
        # a part of a plugin
        @plugin.convert(Database, source="v1alpha1", target="v1")
        def upgrade(obj):
            spec = dict(obj["spec"])
            spec["users"] = [spec.pop("user")]
            return {**obj, "spec": spec}
        ```

        `obj` is a mapping, a copy, and so is what it returns. The function must be pure and lossless: it may be called
        for each object of each read. apiVersion, kind and metadata are the host's, except for labels and annotations
        of a `metadata` that it returns. A version may be given as its struct, too, which declares it.

        Between versions without a function, objects go through at most two others, the fewest possible. Each version
        that is served needs a way to each other one.
        """
        options = {"kind": kind, "source": source, "target": target}
        return self._declares("conversions", "convert", ("obj",), options)

    @parentheses.needed
    def task(
        self,
        *,
        name: str | None = None,
        every: OfSettings[DurationLike | None, S] = None,
        first_after: OfSettings[DurationLike, S] = 0.0,
        needs_leader: OfSettings[bool, S] = False,
        until: Until = "stopping",
    ) -> HostDecorator[S, State]:
        """Call the decorated `function(host, stop)` on a thread of its own, once or with `every` repeatedly.

        ```python
        # a part of a plugin
        @plugin.task(every="30s", needs_leader=True)
        def count_users(host, stop):
            host.log.info("%d users", len(host.state.users))
        ```

        The first call is `first_after` the start, each further one `every` after the end of the one before. Both are
        durations such as `"30s"`, or numbers of seconds. `stop` is a `threading.Event`, set when the function must
        return. An `async def function(host)` runs on the plugin's event loop, and is cancelled instead.

        At a shutdown it ends when no new work is accepted, or with `until="drained"` after the last run.

        An option other than `name` and `until` may be a function of the settings that returns it.
        """
        options = {
            "name": name,
            "every": every,
            "first_after": first_after,
            "needs_leader": needs_leader,
            "until": until,
        }
        return self._declares("tasks", "task", ("host", "stop"), options)

    @parentheses.needless
    def setup(
        self,
        function: Callable[[PluginContext[S, State]], SetUp[State]],
    ) -> Callable[[PluginContext[S, State]], Any]:
        """Call `function(host)` at set-up; it must not use the network. What it returns is `host.state`.

        ```python
        # a part of a plugin
        @plugin.setup
        def connect(host):
            pool = Pool(host.settings.address)
            yield pool
            pool.close()
        ```

        In a generator what follows the `yield` runs once the last run and task have ended, at a shutdown and at each
        restart of the plugin. An `async def`, with or without `yield`, runs on the plugin's event loop.

        The controllers are registered before it, so that it can ask for `host.handle(controller)`.
        """
        return self._declares("setup", "setup", ("host",))(function)

    @parentheses.needless
    def synced(self, function: Callable[[PluginContext[S, State]], R]) -> Callable[[PluginContext[S, State]], R]:
        """Call `function(host)` once all caches of the plugin are full; no worker of it runs before."""
        return self._declares("synced", "synced", ("host",))(function)

    @parentheses.needless
    def elected(self, function: Callable[[PluginContext[S, State]], R]) -> Callable[[PluginContext[S, State]], R]:
        """Call `function(host)` when this replica begins to lead; without leader election once, after `synced`."""
        return self._declares("elected", "elected", ("host",))(function)

    @parentheses.needless
    def deposed(self, function: Callable[[PluginContext[S, State]], R]) -> Callable[[PluginContext[S, State]], R]:
        """Call `function(host)` when this replica no longer leads."""
        return self._declares("deposed", "deposed", ("host",))(function)

    @parentheses.needless
    def shards_changed(
        self, function: Callable[[PluginContext[S, State]], R]
    ) -> Callable[[PluginContext[S, State]], R]:
        """Call `function(host)` when keys of its controllers come to this replica, before they run, or leave it."""
        return self._declares("shards_changed", "shards_changed", ("host",))(function)

    @parentheses.needless
    def stopping(self, function: Callable[[PluginContext[S, State]], R]) -> Callable[[PluginContext[S, State]], R]:
        """Call `function(host)` before a shutdown, while workers still run.

        What they use is closed after a `yield` in the function of `setup`.
        """
        return self._declares("stopping", "stopping", ("host",))(function)

    @parentheses.needed
    def health(self, name: str) -> HostDecorator[S, State]:
        """Call the decorated `function(host)` for `/healthz`; it raises if the plugin is unhealthy.

        ```python
        # a part of a plugin
        @plugin.health("pool")
        def is_open(host):
            if not host.state.open:
                raise RuntimeError("the pool is closed")
        ```
        """
        return self._declares("health", "health", ("host",), {"name": name})

    @overload
    def permission(self, group: F, /) -> F: ...
    @overload
    def permission(
        self,
        group: str,
        resources: Sequence[str],
        verbs: Sequence[str],
        *,
        resource_names: Sequence[str] = (),
        namespace: str | None = None,
    ) -> None: ...
    def permission(
        self,
        group: Any,
        resources: Sequence[str] = (),
        verbs: Sequence[str] = (),
        *,
        resource_names: Sequence[str] = (),
        namespace: str | None = None,
    ) -> Any:
        """Request a permission beyond those that follow from the declarations.

        ```python
        # a part of a plugin
        plugin.permission("", ["pods", "pods/log"], ["get"])
        ```

        Or decorate a function of the settings that returns `ctrlhost.Permission`s.
        """
        if callable(group):
            return self._declares("permissions", "permission", ("settings",))(group)
        permission = Permission(group, resources, verbs, tuple(resource_names), namespace)
        self.declaration.open().permissions.append(permission)
        return None

    @parentheses.needed
    def page(self, path: str) -> HostDecorator[S, State]:
        """Serve the ASGI application that the decorated `function(host)` returns, below `/PLUGIN` + `path`."""
        return self._declares("pages", "page", ("host",), {"path": path})

    @parentheses.needed
    def report(self, path: str, *, title: str = "") -> HostDecorator[S, State]:
        """Serve what the decorated `function(host)` returns below `/PLUGIN` + `path`, as an HTML table or as JSON.

        ```python
        # a part of a plugin
        @plugin.report("/users")
        def users(host):
            return [{"name": name, "databases": count} for name, count in host.state.counts.items()]
        ```

        It returns one mapping, or rows as mappings or structs. It runs on the plugin's event loop, and may be
        `async def`.
        """
        return self._declares("reports", "report", ("host",), {"path": path, "title": title})

    @parentheses.needed
    def command(self, *arguments: Any, **options: Any) -> Callable[[Callable[..., Any]], click.Command]:
        """Make the decorated function a command of `ctrlhost PLUGIN`; the arguments are those of `click.command`.

        ```python
        # a part of a plugin
        @plugin.command("users")
        @click.argument("database")
        def list_users(database):
            click.echo(read_users(database))
        ```
        """

        def declare(function: Callable[..., Any]) -> click.Command:
            import click

            command: click.Command = click.command(*arguments, **options)(function)
            self.declaration.open().commands.append(command)
            return command

        return declare

    def _declares(
        self, where: str, decorator: str, called_with: tuple[str, ...], options: dict[str, Any] | None = None
    ) -> Callable[[F], F]:
        def declare(function: F) -> F:
            declared = DeclaredFunction(decorator, function, called_with, options or {})
            getattr(self.declaration.open(), where).append(declared)
            return function

        return declare

    @hookimpl
    def ctrlhost_loaded(self, name: str) -> None:
        """End the declarations and check them; PluginLoadError for mistakes."""
        from ctrlhost.declarative.checks import check

        if not _ANNOTATION_NAME.fullmatch(name):
            hint = "at most 63 characters, the last one a letter or a digit: it is a part of annotations on objects"
            raise PluginLoadError(name, f"invalid plugin name `{name}`: no annotation can have it", hint=hint)
        self.declaration.loaded_as = name
        check(self.declaration, name)

    @hookimpl
    def ctrlhost_settings(self) -> type[msgspec.Struct] | None:
        """Return the struct of the settings."""
        return self.declaration.settings

    @hookimpl
    def ctrlhost_crds(self) -> list[dict[str, Any]]:
        """Return the CRDs of the declared files, and of the models that no file defines."""
        from ctrlhost.declarative.crds import declared_crds

        if self._crds is None:
            crds = declared_crds(self.declaration)
            if self.declaration.loaded_as is None:
                return crds
            self._crds = crds
        return deepcopy(self._crds)

    @hookimpl
    def ctrlhost_objects(self) -> list[dict[str, Any]]:
        """Return the objects of the declared files."""
        from ctrlhost.declarative.crds import declared_objects

        return declared_objects(self.declaration)

    @hookimpl
    def ctrlhost_permissions(self, settings: Any) -> list[Permission]:
        """Return the declared permissions; those of the sources come from the controllers."""
        return self.declaration.permissions_for(settings)

    @hookimpl
    def ctrlhost_finalizers(self) -> dict[str, list[str]]:
        """Return the declared finalizers by controller, and those of the host for what their objects track."""
        from ctrlhost.declarative.tracked import mark_of, may_track

        names: dict[str, list[str]] = {}
        for finalizer in self.declaration.finalizers:
            names.setdefault(finalizer.options["of"].name, []).append(str(finalizer.options["name"]))
        for controller in self.declaration.controllers:
            if may_track(controller.declared.options.get("owns")):
                mark = mark_of(self.declaration.loaded_as or "", controller.name)
                names.setdefault(controller.name, []).append(mark)
        return names

    @hookimpl
    def ctrlhost_setup(self, plugin: PluginContext) -> None:
        """Register everything that is declared."""
        # Imported late: a module that only declares needs neither informers nor a client.
        from ctrlhost.declarative.wiring import set_up

        set_up(self.declaration, plugin, self.ctrlhost_crds())

    @hookimpl
    def ctrlhost_elected(self, plugin: PluginContext) -> None:
        """Call the functions for the begin of leadership."""
        _call_all(self.declaration.elected, plugin)

    @hookimpl
    def ctrlhost_deposed(self, plugin: PluginContext) -> None:
        """Call the functions for the end of leadership."""
        _call_all(self.declaration.deposed, plugin)

    @hookimpl
    def ctrlhost_shards_changed(self, plugin: PluginContext) -> None:
        """Call the functions for ranges of keys that have moved."""
        _call_all(self.declaration.shards_changed, plugin)

    @hookimpl
    def ctrlhost_synced(self, plugin: PluginContext) -> None:
        """Call the functions for full caches."""
        _call_all(self.declaration.synced, plugin)

    @hookimpl
    def ctrlhost_stopping(self, plugin: PluginContext) -> None:
        """Call the functions for the shutdown, also those after one that raises."""
        with ExitStack() as stack:
            for declared in reversed(self.declaration.stopping):
                stack.callback(declared.function, plugin)

    @hookimpl
    def ctrlhost_commands(self, group: click.Group) -> None:
        """Add the commands."""
        for command in self.declaration.commands:
            group.add_command(command)


def _call_all(functions: list[DeclaredFunction], host: PluginContext) -> None:
    for function in functions:
        function.function(host)


def _plugin_module(module: str) -> str:
    """Return the part of a module's name that names the plugin: `ctrlhost_memcached` of all its modules."""
    parts = module.split(".")
    return next((part for part in parts if part.startswith("ctrlhost_")), parts[-1])
