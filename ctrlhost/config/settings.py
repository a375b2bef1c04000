"""The host's settings: their names, types and defaults."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from ctrlhost.config.size import Size
from ctrlhost.duration import Duration

DEFAULT_LISTEN = "127.0.0.1:8484"
DEFAULT_WEBHOOK_LISTEN = ":9443"
DEFAULT_LOG_LINES = 200.0
SMALLEST_MEMORY_LIMIT = Size("16Mi")
"""A Python process takes more before it runs any plugin, so a smaller limit is a missing unit."""
SMALLEST_MEMORY_BUDGET = Size("1Mi")
_LARGEST_MEMORY_BUDGET = 2**63 - 1
"""A smaller budget holds a few hundred objects, so it is a missing unit."""
MAX_OBJECT = Size("16Mi")
SMALLEST_MAX_OBJECT, LARGEST_MAX_OBJECT = Size("64Ki"), Size("1Gi")
"""Smaller objects are common; larger ones are more than any API server sends."""
JITTER_FACTOR = 1.2


LogLevel = Literal["debug", "info", "warning", "error"]
ShardBy = Literal["namespace", "name", "uid"]


@dataclass(frozen=True, slots=True)
class LeaderElectionConfig:
    """The times of an election in seconds, as in client-go; ValueError for inconsistent times."""

    #: Time since the last observed renewal after which another replica may take the lease.
    lease_duration: float = 15.0
    #: Time since its last renewal after which a leader stops leading.
    renew_deadline: float = 10.0
    #: Time between two renewals of a leader, and the minimum between two attempts of a candidate.
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        """Reject times with which two replicas could lead at once, or none for long."""
        for name in ("lease_duration", "renew_deadline", "retry_period"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be greater than zero")
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("lease_duration must be greater than renew_deadline")
        if self.renew_deadline <= self.retry_period * JITTER_FACTOR:
            raise ValueError(f"renew_deadline must be greater than {JITTER_FACTOR} * retry_period")

    @property
    def request_timeout(self) -> float:
        """Timeout of one request for the Lease: half the renew deadline, so that there is time for another."""
        return max(1.0, self.renew_deadline / 2)


class HostSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[host]` of the settings file; settings without a flag are set with `--set host.NAME=…`."""

    plugins: tuple[str, ...] = ()
    """Names of the plugins to run; no other plugin is imported."""

    kubeconfig: str | None = None
    """Path of the kubeconfig (default: $KUBECONFIG, the pod's service account, then ~/.kube/config)."""

    context: str | None = None
    """Kubeconfig context (default: current)."""

    namespaces: tuple[str, ...] = ()
    """Namespaces that controllers are limited to, by name, glob or `label:SELECTOR` (default: all)."""

    sandbox: bool = False
    """Start the embedded API server in this process and run against it."""

    admin: bool = False
    """Serve `/admin/v1/` at the local socket: pause, resume, enqueue and resign, levels of the log, profiles."""

    dry_run: bool = False
    """Write nothing: the API server tries each write without effect, and the log says what would change."""

    install_crds: bool | Literal["force"] = False
    """Install the plugins' CRDs, and the objects that they ship, before their controllers start; the sandbox always
    does. A CRD is never replaced by one without a version that it serves or stores; `force` replaces what a newer
    plugin installed, and a CRD with more fields."""

    listen: str = DEFAULT_LISTEN
    """Address of the status of the host and the pages of plugins, `HOST:PORT`; port 0 takes a free one, an empty string
    disables it. No host means all interfaces, `localhost` both loopbacks."""

    listen_probes: str | None = None
    """Address of `/livez`, `/readyz` and `/healthz` (default: that of `listen`); an empty string disables them."""

    listen_metrics: str | None = None
    """Address of `/metrics` (default: that of `listen`); an empty string disables it."""

    allowed_hosts: tuple[str, ...] = ()
    """Names by which clients may ask for status and metrics, beside `localhost` and any address."""

    metrics_auth: Literal["none", "kubernetes"] = "none"
    """Who may read the metrics: anybody who reaches `listen_metrics`, or users of the cluster with the right `get` on
    the nonResourceURL `/metrics`, who send a bearer token; the latter is served with TLS only."""

    tls_cert_file: str | None = None
    """Path of the certificate of `listen_metrics`, PEM; read again when it changes (default: self-signed, and only with
    `metrics_auth`)."""

    tls_key_file: str | None = None
    """Path of the key of `tls_cert_file`, PEM without a pass phrase."""

    webhook_listen: str = DEFAULT_WEBHOOK_LISTEN
    """Address of the webhooks of plugins, `HOST:PORT`, which are served with TLS only, and only where a plugin has
    some; port 0 takes a free one, an empty string disables it."""

    webhook_cert_dir: str | None = None
    """Directory with the certificate of `webhook_listen` as `tls.crt` and its key as `tls.key`, PEM, and maybe its
    authority as `ca.crt`; read again when they change."""

    webhook_service: str = "ctrlhost-webhooks"
    """Name of the Service that leads to `webhook_listen`, in the namespace of the host: the name of its certificate."""

    webhook_url: str | None = None
    """URL at which the API server reaches `webhook_listen` from outside of the cluster, `https://HOST:PORT`: the host
    registers its webhooks itself while it runs. Port 0 is that of `webhook_listen`."""

    check_mutators: bool = False
    """Call each mutating webhook again with its own result: a second change is an error that names the field. `ctrlhost
    dev` and the test kit do so."""

    ready_when: Literal["all", "any"] = "all"
    """Whether `/readyz` fails when any plugin has failed, or only when none runs or waits."""

    start_timeout: Duration = Duration("2m")
    """How long a plugin that waits at its first start keeps `/readyz` from passing; longer while another replica leads
    that runs it."""

    drain_timeout: Duration = Duration("30s")
    """How long a shutdown waits for running reconciles."""

    leader_elect: bool = False
    """Act only while this replica holds a Lease; standbys keep their caches up to date and wait for it."""

    leader_elect_lease_duration: Duration = Duration("15s")
    """Time since the last observed renewal after which another replica may take the Lease."""

    leader_elect_renew_deadline: Duration = Duration("10s")
    """Time since its last renewal after which a leader stops leading; less than the lease duration."""

    leader_elect_retry_period: Duration = Duration("2s")
    """Time between two renewals of a leader, and the minimum between two attempts of a candidate."""

    leader_elect_resource_name: str = "ctrlhost"
    """Name of the Lease."""

    leader_elect_resource_namespace: str | None = None
    """Namespace of the Lease (default: that of the kubeconfig's context, or of the pod)."""

    leader_elect_plugins: tuple[str, ...] = ()
    """Plugins that have a separate Lease, called `NAME-PLUGIN`, so that different replicas can lead for them."""

    resync: Duration | None = None
    """Deliver every cached object to its handlers again after this time (default: never)."""

    switch_interval: Duration = Duration("0.5ms")
    """How long a computing thread may keep the interpreter while another one waits for it."""

    gil_limit: Duration = Duration("30s")
    """How long something may hold the interpreter until `/livez` fails; `/readyz` does after 5 s."""

    gil_stacks: bool = False
    """Write the stacks of all threads to stderr when no Python code has run for 5 s. Off, since a process that was
    stopped and goes on looks the same, and reading the stacks of running threads may crash it."""

    log_level: LogLevel = "info"
    """Minimum severity of log lines."""

    log_levels: dict[str, LogLevel] = {}
    """The same for single plugins and loggers, such as `{naming = "debug", "ctrlhost.client" = "warning"}`."""

    log_format: Literal["auto", "console", "json"] = "auto"
    """Format of log lines; `auto` is `console` on a terminal and `json` elsewhere."""

    audit_log: str = ""
    """Path of a file that gets a JSON line for each write of plugins, or `stderr` (default: none)."""

    def __post_init__(self) -> None:
        """Reject invalid namespaces, invalid or inconsistent times, and a dry run on the sandbox."""
        if self.dry_run and self.sandbox:
            raise ValueError("`dry_run` has no use with `sandbox`: nothing there is worth protecting")
        if not self.switch_interval:
            raise ValueError("`switch_interval` must be positive")
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("`tls_cert_file` and `tls_key_file` need each other")
        if self.metrics_tls and not (self.listen_metrics and self.own_metrics):
            cause = "metrics_auth" if self.metrics_auth != "none" else "tls_cert_file"
            raise ValueError(f"`listen_metrics` must be an address of its own, other than `listen`, with `{cause}`")
        if self.webhook_url is not None:
            _check_url(self.webhook_url)
        check_namespaces(self.namespaces)
        check_namespaces(tuple(filter(None, [self.leader_elect_resource_namespace])), names=True)
        try:
            self.leader_election()
        except ValueError as error:
            # As the settings are called.
            text = re.sub(r"\b(lease_duration|renew_deadline|retry_period)\b", r"`leader_elect_\1`", str(error))
            raise ValueError(text) from None

    def _shares(self, address: str) -> bool:
        """Return whether an address is that of `listen`; each port 0 is another one."""
        return address == self.listen and not address.endswith(":0")

    @property
    def own_probes(self) -> bool:
        """Whether probes are not served at `listen`."""
        return self.listen_probes is not None and not self._shares(self.listen_probes)

    @property
    def own_metrics(self) -> bool:
        """Whether metrics are not served at `listen`."""
        return self.listen_metrics is not None and not self._shares(self.listen_metrics)

    @property
    def metrics_tls(self) -> bool:
        """Whether the metrics are served with TLS."""
        return self.metrics_auth != "none" or self.tls_cert_file is not None

    def leader_election(self) -> LeaderElectionConfig:
        """Return the times of leader elections."""
        times = (self.leader_elect_lease_duration, self.leader_elect_renew_deadline, self.leader_elect_retry_period)
        return LeaderElectionConfig(*map(float, times))


class ControllerOverrides(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[controllers."PLUGIN/NAME"]`: the operator's overrides of a controller's options."""

    workers: int | None = None
    """How many reconciles of this controller run at once."""

    timeout: Duration | None = None
    """How long a reconcile may run before it is reported, and cancelled if it is `async def`."""

    slow_after: Duration | None = None
    """How long a reconcile may run before it is reported as stuck, and another worker starts; 0: without end."""

    namespaces: tuple[str, ...] | None = None
    """Namespaces that the controller is limited to, by name, glob or `label:SELECTOR`."""

    base_delay: Duration | None = None
    """The first delay of the back-off after a failure, in place of the plugin's."""

    max_delay: Duration | None = None
    """The longest delay of the back-off after a failure, in place of the plugin's."""

    paused: bool | None = None
    """Begin no reconcile, on any replica; events are queued and merged meanwhile."""

    shard_by: ShardBy | None = None
    """What the replicas share the keys of the controller by, in place of what the plugin says; with shards only."""

    def __post_init__(self) -> None:
        """Reject invalid namespaces and numbers."""
        check_namespaces(self.namespaces or ())
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"`workers` must be at least 1, got {self.workers}")
        for name in ("base_delay", "max_delay"):
            # Failures would be retried without a pause.
            if (delay := getattr(self, name)) is not None and not delay:
                raise ValueError(f"`{name}` must be positive")
        if self.base_delay is not None and self.max_delay is not None and self.base_delay > self.max_delay:
            raise ValueError(f"`base_delay` ({self.base_delay}) must not be longer than `max_delay` ({self.max_delay})")


Encoding = Literal["auto", "json"]
Compression = Literal["off", "auto", "on"]


class InformerKind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[informers."APIVERSION/KIND"]`: how the host reads one kind."""

    encoding: Encoding | None = None
    """As in `[informers]`, for this kind."""

    compression: Compression | None = None
    """As in `[informers]`, for this kind."""


class InformerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[informers]`: how the host reads all kinds."""

    encoding: Encoding = "auto"
    """The encoding of lists and watches: `auto` asks for protobuf first where the kind is known, `json` never."""

    compression: Compression = "auto"
    """Whether cached objects are compressed: `auto` where an informer holds over 1,000 of them and 4 MB, `on` from 200
    objects on, `off` never. Secrets never are."""

    memory_budget: Size | None = None
    """What the cached objects of all informers of the host may take (default: no limit); see the how-to guide on
    memory."""

    max_object: Size = MAX_OBJECT
    """The largest object that is read, in either encoding; the list or watch that has a larger one fails."""

    def __post_init__(self) -> None:
        """Reject sizes that leave no room for objects."""
        if self.memory_budget is not None and self.memory_budget < SMALLEST_MEMORY_BUDGET:
            raise ValueError(f"`memory_budget` must be at least {SMALLEST_MEMORY_BUDGET}, got {self.memory_budget}")
        if self.memory_budget is not None and self.memory_budget > _LARGEST_MEMORY_BUDGET:
            raise ValueError(f"`memory_budget` must be at most {_LARGEST_MEMORY_BUDGET}, got {self.memory_budget}")
        if not SMALLEST_MAX_OBJECT <= self.max_object <= LARGEST_MAX_OBJECT:
            sizes = f"between {SMALLEST_MAX_OBJECT} and {LARGEST_MAX_OBJECT}"
            raise ValueError(f"`max_object` must be {sizes}, got {self.max_object}")


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[client]`: the connections to the API server."""

    connect_timeout: Duration = Duration("30s")
    """How long a new connection may take, with its proxy and TLS."""

    def __post_init__(self) -> None:
        """Reject a time in which there is no connection."""
        if not self.connect_timeout:
            raise ValueError("`connect_timeout` must be positive")


class OtelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[otel]`: traces of reconciles, exported by OTLP over HTTP; needs the extra `otel`."""

    endpoint: str = ""
    """Address of the collector, such as `http://collector:4318` (default: no traces)."""

    sample: float = 0.05
    """The part of the reconciles that is traced, from 0 to 1."""

    service: str = "ctrlhost"
    """The name of the service in the traces."""

    timeout: Duration = Duration("10s")
    """How long an export may take; no reconcile waits for it."""

    def __post_init__(self) -> None:
        """Reject an endpoint that is no address, and a part that is none."""
        parts = urlsplit(self.endpoint)
        if self.endpoint and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise ValueError(f"`endpoint` must be http://HOST:PORT or https://HOST:PORT, got {self.endpoint!r}")
        if not 0 <= self.sample <= 1:
            raise ValueError(f"`sample` must be from 0 to 1, got {self.sample}")
        if not self.timeout:
            raise ValueError("`timeout` must be positive")


class Deadlines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[supervision.PLUGIN.deadlines]`: how long the host waits for a plugin's code; 0: without end."""

    hook: Duration = Duration("30s")
    """The import and the hooks but `ctrlhost_stopping`."""

    stopping: Duration = Duration("5s")
    """The hook `ctrlhost_stopping`; the shutdown then continues without it."""

    callback: Duration = Duration("5s")
    """Maps, predicates, event handlers, index functions, transforms, and `Every(requests=…)`."""

    page: Duration = Duration("10s")
    """The first byte of a page or of an answer of a listener."""

    probe: Duration = Duration("2s")
    """Metrics collectors and health checks."""


class Supervision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[supervision.PLUGIN]`: what the host allows a plugin; `[supervision]` has the defaults for all."""

    deadlines: Deadlines = Deadlines()
    """How long the host waits for each kind of call into the plugin."""

    enabled: bool = True
    """Whether the plugin runs; without, it is not even imported."""

    restart_limit: int = 10
    """Restarts of a plugin that fails, before it has failed for good; 10 minutes without a failure reset the count."""

    restart_delay: Duration = Duration("1s")
    """The pause before the first restart; doubled for each further one, up to 5 minutes."""

    stuck_limit: int = 8
    """Threads of the plugin that may hang, before it is restarted; four times as many over all restarts."""

    retry_qps: float = 20.0
    """Retries of failed keys per second and controller, with a burst of five times that; 0: no bound."""

    client_qps: float = 500.0
    """Requests of the plugin's clients per second, watches excluded, with a burst of twice that; 0: no bound."""

    log_lines: float = DEFAULT_LOG_LINES
    """Log lines of the plugin per second, with a burst of ten times that; 0: no bound."""

    hot_loop: bool = True
    """Slow down the reconciles of an object that only the host's own writes cause again and again."""

    process: Literal["shared", "own"] = "shared"
    """Whether the plugin runs in the host's process, or in one of its own, as with the flag `--isolate`."""

    heartbeat_timeout: Duration = Duration("10s")
    """How long the plugin's own process may run no Python code before it is killed and started again."""

    memory_limit: Size | None = None
    """Memory of the plugin's own process; beyond it the process is drained and started again, and killed beyond 1.25
    times as much (default: none)."""

    kubeconfig: str | None = None
    """Path of a kubeconfig for the plugin's clients, whose context says the rest; informers that plugins share, and the
    host's own requests, use the host's (default: the host's)."""

    def __post_init__(self) -> None:
        """Reject negative numbers and NaN."""
        for name in ("restart_limit", "retry_qps", "client_qps", "log_lines"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"`{name}` must be a number of at least 0, got {getattr(self, name)}")
        if self.stuck_limit < 1:
            raise ValueError(f"`stuck_limit` must be at least 1, got {self.stuck_limit}")
        for name in ("restart_delay", "heartbeat_timeout"):
            if not getattr(self, name):
                raise ValueError(f"`{name}` must be positive")
        if self.memory_limit is not None and self.memory_limit < SMALLEST_MEMORY_LIMIT:
            raise ValueError(f"`memory_limit` must be at least {SMALLEST_MEMORY_LIMIT}, got {self.memory_limit}")


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.port is None or parts.path.strip("/") or parts.query:
        raise ValueError(f"`webhook_url` must be https://HOST:PORT, got {url!r}")


def check_namespaces(entries: tuple[str, ...], *, names: bool = False) -> None:
    """Raise ValueError for the first invalid entry; with `names`, entries must be names of namespaces."""
    from ctrlhost.selectors.namespaces import read

    if not isinstance(read(entries), tuple) and names:
        raise ValueError(f"`{entries[0]}` must be the name of one namespace")
