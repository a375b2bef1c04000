"""A host for tests: plugins on an API server, with a clock and faults that the test controls."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ctrlhost.cache import Object
from ctrlhost.client import Client
from ctrlhost.clock import SystemClock
from ctrlhost.config.load import Configuration
from ctrlhost.config.settings import HostSettings
from ctrlhost.duration import Duration
from ctrlhost.host.host import Host
from ctrlhost.models.kinds import kind_of
from ctrlhost.sandbox import is_sandbox
from ctrlhost.testing.admission import denials, wait_until_called
from ctrlhost.testing.applying import apply_objects
from ctrlhost.testing.faults import Faults, FaultyTransport
from ctrlhost.testing.idle import PendingWork, SandboxVersions, WrittenVersions
from ctrlhost.testing.record import RecordingTransport, RequestRecord
from ctrlhost.testing.settle import NotSettled, Settling
from ctrlhost.testing.snapshot import take_snapshot

if TYPE_CHECKING:
    import builtins
    import os
    from collections.abc import Callable, Collection, Mapping

    from ctrlhost_sandbox import Sandbox

    from ctrlhost.client.client import PatchType, Propagation
    from ctrlhost.clock import Clock
    from ctrlhost.controller.controller import Controller
    from ctrlhost.controller.history import Run
    from ctrlhost.duration import DurationLike
    from ctrlhost.models.kinds import KindRef
    from ctrlhost.models.typed_objects import AnyObject
    from ctrlhost.testing.admission import Applied
    from ctrlhost.testing.fault_proxy import FaultProxy
    from ctrlhost.testing.least_privilege import LimitedAccount
    from ctrlhost.testing.real_server import RealServer
    from ctrlhost.testing.record import Right, Write
    from ctrlhost.testing.settle import Allowed

T = TypeVar("T")

#: Default timeout of waits, in real seconds.
IDLE_TIMEOUT = 30.0
#: Settings of a host for tests.
_USUAL: dict[str, Any] = {"listen": "", "webhook_listen": "127.0.0.1:0", "check_mutators": True}
#: Seconds between two looks at a host that starts.
_PATIENCE = 0.5


class NotIdle(AssertionError):
    """The host was not idle in time; the message lists its pending work."""


class HostUnderTest:
    """A running host. The test acts as a user of the cluster would, as an administrator. For use by one thread."""

    def __init__(
        self,
        server: Sandbox | RealServer,
        plugins: tuple[object, ...],
        *,
        clock: Clock | None = None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        controllers: Mapping[str, Mapping[str, Any]] | None = None,
        supervision: Mapping[str, Any] | None = None,
        informers: Mapping[str, Any] | None = None,
        shards: Mapping[str, Any] | None = None,
        through: FaultProxy | None = None,
        least_privilege: bool = False,
        **host_settings: Any,
    ) -> None:
        """Prepare; `start` runs it. `settings`, `controllers`, `supervision`, `informers` and `shards` are tables of a
        settings file.

        If given, `through` is a proxy in front of the server for the host's requests, never for the test's own.
        With `least_privilege` the host has a service account with exactly the rights that `ctrlhost manifests` prints
        for these plugins, whose CRDs are installed for it; ValueError for a sandbox without `rbac=True`.
        """
        if isinstance(controllers, (tuple, list)):
            raise TypeError(
                "`controllers` are overrides by controller; the sandbox's own are those of "
                "`server=Sandbox(controllers=…)`"
            )
        self.server = server
        self.clock: Any = clock or SystemClock()
        self.faults = Faults()
        self._record = RequestRecord()
        if is_sandbox(server):
            #: The test's own client, an administrator's; no fault hits it.
            self.client = Client.load(server.kubeconfig)
            versions: SandboxVersions | WrittenVersions = SandboxVersions(server)
        else:
            self.client = server.client
            server.records.append(self._record)
            versions = WrittenVersions(server)
        #: The namespace of objects that name none.
        self.namespace = self.client.namespace
        tree = {
            "host": {**_USUAL, **host_settings},
            "plugins": {name: dict(table) for name, table in (settings or {}).items()},
            "controllers": {name: dict(table) for name, table in (controllers or {}).items()},
            "supervision": dict(supervision or {}),
            "informers": dict(informers or {}),
            "shards": dict(shards or {}),
        }
        configuration = Configuration(tree, "")
        host_tables = configuration.host if host_settings or shards else HostSettings(**_USUAL)
        kubeconfig = (through or server).kubeconfig
        #: The host's service account with `least_privilege`.
        self.account: LimitedAccount | None = None
        if least_privilege:
            from ctrlhost.testing.least_privilege import account_of_plugins

            self.account = account_of_plugins(server, self.client, plugins, configuration, host_tables)
            kubeconfig = self.account.kubeconfig if through is None else self.account.through(through.kubeconfig)
        recorded = RecordingTransport(Client.load(kubeconfig).transport, self._record)
        self.host = Host(
            host_tables,
            plugins,
            configuration=configuration,
            client=Client.over(FaultyTransport(recorded, self.faults), namespace=self.namespace),
            clock=self.clock,
            # A host with a server of its own installs CRDs, for which it has no right here.
            sandbox=None if least_privilege else server,
        )
        self._work = PendingWork(self.host, versions)
        self._settling = Settling(self.host, self._work, self._record)

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox that the host runs on; RuntimeError on a real server."""
        if is_sandbox(self.server):
            return self.server
        raise RuntimeError("the host runs on a real API server, which `--ctrlhost-server` or `server=` names")

    def start(self, timeout: float = IDLE_TIMEOUT, *, check: bool = False) -> HostUnderTest:
        """Start the host and wait until no plugin is syncing; NotIdle after `timeout` real seconds.

        With `check`, a plugin that has failed is NotSettled, with the plugin's own error as the cause.
        """
        logging.getLogger("ctrlhost").addHandler(self._settling.errors)
        self.host.start()
        deadline = time.monotonic() + timeout
        while not self.host.wait_ready(min(_PATIENCE, timeout)):
            if time.monotonic() >= deadline:
                raise NotIdle(f"after {timeout:g} s: {self.host.plugins}")
            if self._work.backing_off():
                self._work.wake()
        self._register_webhooks(max(1.0, deadline - time.monotonic()))
        for plugin in self.host.plugins if check else ():
            if plugin.state in ("failing", "failed"):
                raise NotSettled(f"plugin {plugin.name} is {plugin.state}: {plugin.reason}") from plugin.error
        return self

    def _register_webhooks(self, timeout: float) -> None:
        """Wait until the API server knows the webhooks; as their operator, if the host may not register them."""
        webhooks = self.host.state.webhooks
        if webhooks is None:
            return
        if self.account is not None:
            self.account.register(self.client, self.wait_for(lambda: webhooks.address, timeout))
        self.wait_for(webhooks.registration.registered, timeout)
        if not is_sandbox(self.server):
            wait_until_called(self.client, timeout)

    def stop(self, timeout: float = 10.0) -> bool:
        """Stop the host and return whether everything ended within `timeout` real seconds."""
        logging.getLogger("ctrlhost").removeHandler(self._settling.errors)
        ended = self.host.stop(timeout)
        for client in (self.client, self.host.client):
            if client is not None:
                client.close()
        return ended

    def settle(
        self,
        timeout: DurationLike = IDLE_TIMEOUT,
        *,
        through: DurationLike | None = None,
        # mypy takes a literal tuple with one item for this only.
        allow: tuple[Allowed, ...] | Collection[Allowed] = (),
    ) -> None:
        """Wait until the host has no work left at its clock's current time, and nothing has failed.

        Raises NotSettled for plugins that do not run, controllers that wait, keys and tasks whose last run failed, and
        callbacks that have raised since the last call; and after `timeout` real seconds for what never came to rest,
        with those who write it. `allow` lets plugins and controllers pass that wait ("waiting"), keys in their back-off
        ("retrying") and keys that are not retried ("terminal"). With a clock that runs by itself, the first retries are
        awaited.

        With `through` a ManualClock moves by up to that much, from one due time of a key, a timer or a task to the
        next, and the host settles at each; RuntimeError for another clock.
        """
        self._settling.settle(Duration(timeout), None if through is None else Duration(through), allow)

    def advance(self, seconds: DurationLike, timeout: DurationLike = IDLE_TIMEOUT) -> None:
        """Move the manual clock at once and settle, but let keys in their back-off pass; RuntimeError without one."""
        self._settling.advance(Duration(seconds), Duration(timeout))

    def run_until_idle(self, timeout: float = IDLE_TIMEOUT) -> None:
        """Wait until the host has no work left at its clock's current time, whether or not anything has failed.

        The host is idle when the sandbox's controllers are idle, every informer has the newest version of its kind,
        handlers and queues are empty, no reconcile runs, and events are written. Delayed keys do not count: only the
        clock makes them due. On a real server informers must have the versions that host and test wrote, and nothing
        may happen for 0.2 seconds. Raises NotIdle with the pending work after `timeout` real seconds.
        """
        deadline, pause = time.monotonic() + timeout, 0.001
        while busy := self._work.lines():
            if time.monotonic() >= deadline:
                raise NotIdle(f"not idle after {timeout:g} s:\n" + "\n".join(f"  {line}" for line in busy))
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)

    def wait_for(self, condition: Callable[[], Any], timeout: float = IDLE_TIMEOUT) -> Any:
        """Wait until `condition()` is true and return its value; NotIdle after `timeout` real seconds."""
        deadline = time.monotonic() + timeout
        while not (result := condition()):
            if time.monotonic() >= deadline:
                raise NotIdle(f"{condition} is not true after {timeout:g} s")
            time.sleep(0.005)
        return result

    def apply(self, *objects: str | os.PathLike[str] | AnyObject) -> Applied:
        """Apply objects server-side, in their order, and return a list of them as the server has them.

        Each argument is a path of a YAML file, a YAML text of several lines, a mapping or a model; files and texts may
        have several documents. Objects without a namespace go to `namespace`, those with a `generateName` are created.
        After a CustomResourceDefinition its kinds are served. `warnings` of the list are those of the server. Denied if
        an admission webhook refuses an object.
        """
        return apply_objects(self.client, objects)

    def admit(self, *objects: str | os.PathLike[str] | AnyObject) -> Applied:
        """Return objects as `apply` would, but without any effect: webhooks and the server's own checks see them."""
        return apply_objects(self.client, objects, without_effect=True)

    @overload
    def get(self, kind: type[T], name: str, namespace: str | None = None) -> T: ...
    @overload
    def get(self, kind: tuple[str, str] | str, name: str, namespace: str | None = None) -> Object: ...
    def get(self, kind: KindRef[Any], name: str, namespace: str | None = None) -> Any:
        """Return an object: as the struct, if `kind` is one. NotFound if it does not exist, UnknownKind for its kind.

        The namespace is by default that of `namespace`, if the kind has any.
        """
        return _decoded(kind, self.client.get(*kind_of(kind)[:2], name, namespace))

    @overload
    def find(self, kind: type[T], name: str, namespace: str | None = None) -> T | None: ...
    @overload
    def find(self, kind: tuple[str, str] | str, name: str, namespace: str | None = None) -> Object | None: ...
    def find(self, kind: KindRef[Any], name: str, namespace: str | None = None) -> Any:
        """Return an object as `get` does, None if it does not exist; UnknownKind if its kind is not served."""
        obj = self.client.find(*kind_of(kind)[:2], name, namespace)
        return None if obj is None else _decoded(kind, obj)

    @overload
    def list(
        self,
        kind: type[T],
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        everywhere: bool = False,
    ) -> builtins.list[T]: ...
    @overload
    def list(
        self,
        kind: tuple[str, str] | str,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        everywhere: bool = False,
    ) -> builtins.list[Object]: ...
    def list(
        self,
        kind: KindRef[Any],
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        everywhere: bool = False,
    ) -> Any:
        """Return the objects of a namespace, of all with `everywhere`, as `get` does; UnknownKind as for `get`."""
        where = None if everywhere else namespace or self.namespace
        objects = self.client.list(*kind_of(kind)[:2], where, label_selector=label_selector)
        return [_decoded(kind, obj) for obj in objects]

    def delete(
        self, kind: KindRef[Any], name: str, namespace: str | None = None, *, propagation: Propagation | None = None
    ) -> None:
        """Delete an object; NotFound if it does not exist, Denied if a webhook refuses it."""
        with denials():
            self.client.delete(*kind_of(kind)[:2], name, namespace, propagation=propagation)

    @overload
    def patch(
        self,
        kind: type[T],
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        type: PatchType = "merge",
        subresource: str | None = None,
    ) -> T: ...
    @overload
    def patch(
        self,
        kind: tuple[str, str] | str,
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        type: PatchType = "merge",
        subresource: str | None = None,
    ) -> Object: ...
    def patch(
        self,
        kind: KindRef[Any],
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        type: PatchType = "merge",  # noqa: A002 - the API's own word
        subresource: str | None = None,
    ) -> Any:
        """Patch an object, as `Client.patch` does, and return it as `get` does; Denied if a webhook refuses it."""
        api_version, name_of_kind = kind_of(kind)[:2]
        with denials():
            patched = self.client.patch(
                api_version, name_of_kind, name, namespace, patch, type=type, subresource=subresource
            )
        return _decoded(kind, patched)

    def snapshot(self, *kinds: KindRef[Any]) -> str:
        """Return the objects of some kinds as YAML, without what differs from one run to the next.

        Left out are uids, versions, generations, times, managed fields, node ports, cluster IPs, and what the server
        itself creates in a namespace. Generated names are numbered; the namespace of a test on a real server is written
        as `default`, and there only objects in it, and what host and test created, are shown. UnknownKind for a kind
        that is not served, ValueError without kinds.
        """
        if not kinds:
            raise ValueError("snapshot needs at least one kind")
        if is_sandbox(self.server):
            return take_snapshot(self.client, kinds)
        created = {creation[:3] for record in self.server.records for creation in record.created()}
        return take_snapshot(self.client, kinds, of_test=created).replace(self.namespace, "default")

    def runs(self, controller: str, name: str | None = None) -> builtins.list[Run]:
        """Return the last runs of a controller, at most 200, the oldest first; of the object of a `name`, if given.

        `controller` is `plugin/name`, or the name alone if only one plugin has such a controller. KeyError for an
        unknown one.
        """
        runs = self._controller(controller).history.last_runs()[::-1]
        return [run for run in runs if name is None or getattr(run.key, "name", run.key) == name]

    def writes(self) -> builtins.list[Write]:
        """Return the writes of the host that the server accepted, the oldest first, but for events and leases.

        Those of plugins that run in processes of their own are missing.
        """
        return self._record.writes()

    def unused_rights(self) -> builtins.list[tuple[str, str, str]]:
        """Return the rights, as (group, resource, verb), that the plugins asked for and have not used so far.

        `list` and `watch` count as one right: the server decides which of them an informer uses. RuntimeError for a
        host that was not started with `least_privilege`.
        """
        if self.account is None:
            raise RuntimeError("the host was not started with `least_privilege=True`")
        sandbox = self.server if is_sandbox(self.server) else None
        used = set(sandbox.rights_used(self.account.user)) if sandbox is not None else self._record.rights()
        return self.account.unused(used | self._rights_to_own())

    def events(self, namespace: str | None = None) -> builtins.list[dict[str, Any]]:
        """Return the events of a namespace, oldest first; by default those of the whole cluster, or of the test."""
        if namespace is None and not is_sandbox(self.server):
            namespace = self.namespace
        recorded = self.client.list("events.k8s.io/v1", "Event", namespace)
        return sorted(recorded, key=lambda event: (event.get("eventTime") or "", event["metadata"]["name"]))

    @property
    def controllers(self) -> dict[str, Controller]:
        """The controllers by name, as `plugin/name`."""
        return {controller.name: controller for controller in self._work.controllers()}

    def _controller(self, name: str) -> Controller:
        matching = [
            controller for full, controller in self.controllers.items() if name in (full, full.partition("/")[2])
        ]
        if len(matching) != 1:
            raise KeyError(f"no single controller {name}; the host has {', '.join(self.controllers) or 'none'}")
        return matching[0]

    def _rights_to_own(self) -> set[Right]:
        """Return the rights that a server may require for references that block the deletion of their owners."""
        metadata = [write.answer.get("metadata") or {} for write in self._record.last()]
        references = [reference for meta in metadata for reference in meta.get("ownerReferences", ())]
        owners = {
            (reference["apiVersion"], reference["kind"])
            for reference in references
            if reference.get("blockOwnerDeletion")
        }
        client = self.host.client or self.client
        resources = [entry for owner in owners if (entry := client.resources.last_known(*owner)) is not None]
        return {(resource.group, f"{resource.plural}/finalizers", "update") for resource in resources}


def _decoded(kind: KindRef[Any], answer: dict[str, Any]) -> Any:
    model = kind_of(kind).model
    obj = Object(answer)
    return obj if model is None else obj.decode(model)
