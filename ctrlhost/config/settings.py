"""The host's settings: their names, types and defaults."""

from __future__ import annotations

from typing import Literal

import msgspec

from ctrlhost.config.leader_election import LeaderElectionConfig
from ctrlhost.duration import Duration

DEFAULT_LISTEN = "127.0.0.1:8484"


class HostSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[host]` of the settings file; what has no flag of its own is set with `--set host.NAME=…`."""

    plugins: tuple[str, ...] = ()
    """Names of the plugins to run; no other plugin is imported."""

    kubeconfig: str | None = None
    """Path of the kubeconfig; without it $KUBECONFIG, the pod's service account, then ~/.kube/config."""

    context: str | None = None
    """Context of the kubeconfig; without it the current one."""

    namespaces: tuple[str, ...] = ()
    """Namespaces that controllers are limited to, by name, glob or `label:SELECTOR`; none means all."""

    sandbox: bool = False
    """Start the embedded API server in this process and run against it."""

    install_crds: bool = False
    """Install the plugins' CRDs before their controllers start; the sandbox always does."""

    listen: str = DEFAULT_LISTEN
    """Address of the host's HTTP server, `HOST:PORT`; port 0 takes a free one, an empty text means no server."""

    drain_timeout: Duration = Duration("30s")
    """How long a stopping host waits for reconciles that are running."""

    leader_elect: bool = False
    """Act only while this replica holds a Lease; the others have full caches and wait for it."""

    leader_elect_lease_duration: Duration = Duration("15s")
    """How long after its last renewal nobody else takes a lease."""

    leader_elect_renew_deadline: Duration = Duration("10s")
    """A leader that could not renew its lease for so long leads no more; less than the lease's duration."""

    leader_elect_retry_period: Duration = Duration("2s")
    """How often a leader renews, and at least how long a candidate waits between two tries."""

    leader_elect_resource_name: str = "ctrlhost"
    """Name of the Lease."""

    leader_elect_resource_namespace: str | None = None
    """Namespace of the Lease; without it that of the kubeconfig's context, or of the pod."""

    leader_elect_plugins: tuple[str, ...] = ()
    """Plugins with a Lease of their own, called `NAME-PLUGIN`, so that replicas can share the plugins among them."""

    resync: Duration | None = None
    """Hand every cached object to its handlers again after this time; without it never."""

    switch_interval: Duration = Duration("0.5ms")
    """How long a thread that only computes may keep all others waiting, each time that one of them wants to go on."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severity of log lines."""

    log_format: Literal["auto", "console", "json"] = "auto"
    """How log lines look; `auto` is the console form on a terminal and JSON elsewhere."""

    def __post_init__(self) -> None:
        """Refuse what is no namespace, and times that can not work, alone or together."""
        if not self.switch_interval:
            raise ValueError("`switch_interval` is longer than no time")
        check_namespaces(self.namespaces)
        check_namespaces(tuple(filter(None, [self.leader_elect_resource_namespace])), names=True)
        lease, renew = self.leader_elect_lease_duration, self.leader_elect_renew_deadline
        try:
            LeaderElectionConfig(float(lease), float(renew), float(self.leader_elect_retry_period))
        except ValueError as error:
            raise ValueError(f"leader election: {error}") from None


class ControllerOverrides(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[controllers."PLUGIN/NAME"]`: what the operator decides about a controller, over its plugin."""

    workers: int | None = None
    """How many reconciles of this controller run at once."""

    timeout: Duration | None = None
    """After this long a reconcile that still runs is reported."""

    namespaces: tuple[str, ...] | None = None
    """Namespaces that the controller is limited to, by name, glob or `label:SELECTOR`."""

    base_delay: Duration | None = None
    """The first delay of the back-off after a failure."""

    max_delay: Duration | None = None
    """The longest delay of the back-off after a failure."""

    def __post_init__(self) -> None:
        """Refuse what is no namespace, and numbers that can not work."""
        check_namespaces(self.namespaces or ())
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"`workers` is at least 1, not {self.workers}")
        for name in ("base_delay", "max_delay"):
            # What fails would be tried again without a pause.
            if (delay := getattr(self, name)) is not None and not delay:
                raise ValueError(f"`{name}` is longer than no time")
        if self.base_delay is not None and self.max_delay is not None and self.base_delay > self.max_delay:
            raise ValueError(f"`base_delay` ({self.base_delay}) is no longer than `max_delay` ({self.max_delay})")


def check_namespaces(entries: tuple[str, ...], *, names: bool = False) -> None:
    """ValueError for the first entry that chooses no namespace, or that is none with `names`."""
    from ctrlhost.selectors.namespaces import read

    if not isinstance(read(entries), tuple) and names:
        raise ValueError(f"`{entries[0]}` is not the name of one namespace")
