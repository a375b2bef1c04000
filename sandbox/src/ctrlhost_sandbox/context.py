"""The state that the verbs share: the store, the registry, the options, and deferred work."""

from __future__ import annotations

import ipaddress
import itertools
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery.clock import Timers
from ctrlhost_sandbox.auth.authorizer import Authorizer
from ctrlhost_sandbox.auth.tokens import ServiceAccountTokens
from ctrlhost_sandbox.crds.index import CrdIndex
from ctrlhost_sandbox.errors import SandboxError
from ctrlhost_sandbox.registry.builtin import builtin_kinds
from ctrlhost_sandbox.registry.registry import Registry
from ctrlhost_sandbox.storage.store import Journal, Store

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping

    from ctrlhost_sandbox.auth.identity import Identity

_LEAST_ADDRESSES = 8
CONTROLLERS = ("gc", "namespace")
CONTROLLER_GROUPS = {
    "workloads": (
        *("deployment", "replicaset", "replicationcontroller", "statefulset", "daemonset", "job", "cronjob"),
        *("persistentvolume", "disruption", "scheduler", "kubelet"),
    ),
    "service": ("endpointslice", "loadbalancer"),
}
"""Names of groups of controllers."""
SHARDS = "ShardedListAndWatch"
FEATURE_GATES = (SHARDS,)
"""The feature gates of Kubernetes that make a difference; all are off by default."""


def choose_controllers(names: Iterable[str]) -> frozenset[str]:
    """Return the controllers for these names, groups expanded; SandboxError for an unknown name."""
    single = (*CONTROLLERS, *(name for group in CONTROLLER_GROUPS.values() for name in group))
    chosen: set[str] = set()
    for name in names:
        if name not in single and name not in CONTROLLER_GROUPS:
            groups = " and ".join(f"`{group}` for {', '.join(members)}" for group, members in CONTROLLER_GROUPS.items())
            raise SandboxError(
                f"unknown controller `{name}`",
                hint=f"valid are {', '.join(single)}; {groups}; or `none`",
            )
        chosen.update(CONTROLLER_GROUPS.get(name, (name,)))
    return frozenset(chosen)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a sandbox; delays are in seconds."""

    version: str = "1.36.3"
    controllers: frozenset[str] = frozenset(CONTROLLERS)
    crd_conditions: str = "builtin"
    """`builtin`: the sandbox accepts names and establishes CRDs; `external`: another controller accepts the names."""
    cel: str = "enforce"
    """`enforce`: evaluate the validation rules of CRDs; `warn`: store them, and warn on writing such a CRD."""
    pod_start_delay: float = 0.3
    pod_ready_delay: float = 1.0
    pod_run_delay: float = 2.0
    """How long pods run that are not restarted forever, unless an annotation says otherwise."""
    pod_stop_delay: float = 0.3
    load_balancer_delay: float = 0.5
    pod_cidr: str = "127.64.0.0/10"
    service_cidr: str = "10.96.0.0/16"
    load_balancer_cidr: str = "198.18.0.0/16"
    admin: bool = False
    """Serve the test endpoints under /sandbox/v1/."""
    services: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Where the webhooks of a Service listen: its namespace and name as `NS/NAME`, to host and port.

    Those of other Services listen where their EndpointSlices say.
    """
    rbac: bool = False
    """Authorize by Roles and bindings; else every authenticated client may do everything."""
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates of Kubernetes to turn on: `ShardedListAndWatch` is known."""

    def __post_init__(self) -> None:
        """Check all values; SandboxError for invalid ones."""
        for name in ("pod_start_delay", "pod_ready_delay", "pod_run_delay", "pod_stop_delay", "load_balancer_delay"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise SandboxError(f"{name} must be a number of seconds, at least 0, got {value}")
        for name in ("pod_cidr", "service_cidr", "load_balancer_cidr"):
            value = getattr(self, name)
            try:
                large = ipaddress.ip_network(value).num_addresses >= _LEAST_ADDRESSES
            except ValueError as error:
                raise SandboxError(f"{name} must be a network such as 10.96.0.0/16, got {value!r}") from error
            if not large:
                raise SandboxError(f"{name}: {value} is too small")
        if self.cel not in ("enforce", "warn"):
            raise SandboxError(f"cel must be enforce or warn, got {self.cel!r}")
        for gate in self.feature_gates:
            if gate not in FEATURE_GATES:
                raise SandboxError(f"unknown feature gate `{gate}`", hint=f"known gates: {', '.join(FEATURE_GATES)}")
        if not re.fullmatch(r"\d+\.\d+\.\d+", self.version):
            raise SandboxError(f"version must be three numbers such as 1.36.3, got {self.version!r}")


@dataclass(slots=True, eq=False)
class ServerContext:
    """The state of one server, owned by the thread that runs `loop`."""

    options: Options
    loop: asyncio.AbstractEventLoop
    journal: Journal | None = None
    store: Store = field(init=False)
    tokens: ServiceAccountTokens = field(init=False)
    timers: Timers = field(init=False)
    """Delays on the sandbox's clock."""
    authorizer: Authorizer | None = field(init=False, default=None)
    """None without RBAC: every authenticated client may do everything."""
    identity: Identity = field(init=False)
    """Set by the app, which receives the tokens."""
    registry: Registry = field(init=False)
    host: str = "127.0.0.1:0"
    ca: str = ""
    """The CA certificate of the server as PEM; empty without TLS."""
    crds: CrdIndex = field(default_factory=CrdIndex)
    watches: set[Any] = field(default_factory=set)
    allocations: dict[str, dict[str, str]] = field(default_factory=dict)
    """Pool name to {address or port: uid of the holder}."""
    serial: itertools.count[int] = field(default_factory=itertools.count)
    pending_work: int = 0
    """The number of deferred steps; any thread may read it, to see whether the server is at rest."""

    def __post_init__(self) -> None:
        """Create an empty store and the registry of built-in kinds."""
        self.store = Store(self.journal)
        self.timers = Timers(self.loop)
        self.tokens = ServiceAccountTokens(self.store)
        if self.options.rbac:
            self.authorizer = Authorizer(self.store)
        self.registry = Registry(builtin_kinds())

    def soon(self, work: Callable[[], None]) -> None:
        """Run `work` in this thread in the loop's next turn."""
        self.pending_work += 1
        self.loop.call_soon(self._run, work)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            self.pending_work -= 1

    def later(self, seconds: float, work: Callable[[], None]) -> asyncio.TimerHandle:
        """Run `work` in this thread after a delay of the machine's clock."""
        return self.loop.call_later(seconds, work)
