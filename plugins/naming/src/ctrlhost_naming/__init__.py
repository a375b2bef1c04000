"""The naming controller, a ctrlhost plugin: arbitrates the names of the CustomResourceDefinitions of a group."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost.workqueue import default_controller_rate_limiter
from ctrlhost_naming.crd import CRDS, KIND, Crd, Space, find, group_of
from ctrlhost_naming.decision import Decision, Mode, Refusal, decide, established_condition, should_establish
from ctrlhost_naming.fights import FightGuard
from ctrlhost_naming.findings import Finding, Ledger, classify
from ctrlhost_naming.metrics import NamingMetrics
from ctrlhost_naming.settings import NamingSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

__all__ = ["NamingSettings", "plugin"]

plugin = ctrlhost.Plugin(settings=NamingSettings)


class Naming:
    """The state of the plugin in one host."""

    def __init__(self, settings: NamingSettings, registry: CollectorRegistry, clock: ctrlhost.Clock) -> None:
        """Start without findings."""
        self.ledger = Ledger(settings.diff_grace)
        self.guard = FightGuard()
        self.metrics = NamingMetrics(registry, self.ledger, clock)
        #: Whether the API server has a naming controller of its own.
        self.server_has_one = False
        #: The last logged report of each CRD.
        self.reported: dict[str, str] = {}
        #: When to establish the CRDs that wait for it.
        self.establish_at: dict[str, float] = {}

    def forget(self, name: str) -> None:
        """Drop what is known of a deleted CRD."""
        self.ledger.forget(name)
        self.guard.forget(name)
        self.reported.pop(name, None)


@plugin.permission
def rights(settings: NamingSettings) -> list[ctrlhost.Permission]:
    """Request write rights in the modes that write."""
    if settings.mode is Mode.OBSERVE:
        return []
    return [
        ctrlhost.Permission("apiextensions.k8s.io", ["customresourcedefinitions/status"], ["patch"]),
        ctrlhost.Permission("events.k8s.io", ["events"], ["create", "patch"]),
    ]


@plugin.setup
def setup(host: ctrlhost.PluginContext[NamingSettings]) -> Naming:
    """Create the state and the page; refuse a second worker."""
    names = host.handle(arbitrate)
    if names.workers != 1:
        raise ctrlhost.ConfigError(
            f'controllers."{names.name}".workers must be 1, got {names.workers}: with more, two '
            "CustomResourceDefinitions could get the same name",
            hint="leave `workers` out, or set it to 1",
        )
    naming = Naming(host.settings, host.metrics, host.clock)

    def rows() -> list[dict[str, Any]]:
        now = host.clock.now()
        return [difference.row(now) for difference in naming.ledger.report(now)]

    # Not `@plugin.report`: whether only the leader knows the findings depends on the mode.
    writes = host.settings.mode is not Mode.OBSERVE
    host.add_report("/", rows, title="Names of CustomResourceDefinitions", leader_only=writes)
    return naming


@plugin.synced
def synced(host: ctrlhost.PluginContext[NamingSettings]) -> None:
    """Refuse to be a second naming controller unless `force` is set."""
    if host.settings.mode is not Mode.ENFORCE:
        return
    host.state.server_has_one = has_own_controller(host.client)
    if host.state.server_has_one and not host.settings.force:
        raise ctrlhost.PluginError(
            host.name,
            "the API server has its own naming controller, so `naming` does not start in mode enforce",
            hint="use `--set naming.mode=repair` or observe, or `--set naming.force=true` if it is known to be off",
        )


@plugin.deposed
def deposed(host: ctrlhost.PluginContext[NamingSettings]) -> None:
    """Drop the findings, which would become outdated."""
    if host.settings.mode is not Mode.OBSERVE:
        host.state.ledger.clear()


def names_changed(old: ctrlhost.Object | None, new: ctrlhost.Object | None) -> bool:
    """Return whether accepted names have changed."""
    before, after = (None if crd is None else crd.get_path("status", "acceptedNames") for crd in (old, new))
    return bool(before != after)


def requesters(crd: Crd, caches: ctrlhost.Caches) -> list[ctrlhost.Request]:
    """Return the other CRDs that request a name which this one has or had, the oldest first, so that it gets it."""
    crds, now = caches[KIND], caches[Crd].get(crd.name)
    held = set() if now is None else set(now.accepted.held())
    causes: dict[str, str] = {}
    for space, name in crd.accepted.held():
        cause = "delete" if now is None else "taken" if (space, name) in held else "release"
        for other in find(crds, crd.group, space, name, accepted=False) - {crd.name}:
            causes.setdefault(other, cause)
    for cause in causes.values():
        caches.state.metrics.requeues.labels(cause).inc()
    waiting = [obj for obj in map(crds.get, causes) if obj is not None]
    waiting.sort(key=lambda obj: (str(obj.get_path("metadata", "creationTimestamp")), obj.name))
    return [ctrlhost.Request(obj.name) for obj in waiting]


@plugin.controller(
    CRDS,
    name="crd_naming_condition_controller",
    watches=[ctrlhost.Watches(Crd, map=requesters, predicates=[names_changed], reads=CRDS.reads)],
    predicates=[],
    gone=True,
    needs_leader=lambda settings: settings.mode is not Mode.OBSERVE,
    rate_limiter=lambda _: default_controller_rate_limiter(),
)
def arbitrate(ctx: ctrlhost.Context[Crd, NamingSettings], crd: Crd | None) -> ctrlhost.Result | None:
    """Set the accepted names and conditions of one CRD, or report how they differ from its request."""
    name, naming = ctx.request.name, ctx.state
    if not group_of(name):
        ctx.log.warning("ignoring key %r: not the name of a CustomResourceDefinition", name)
        return None
    if not _in_scope(ctx):
        return None
    if crd is None:
        naming.metrics.syncs.labels("gone").inc()
        naming.forget(name)
        return None
    with naming.metrics.seconds.time():
        mode = Mode.OBSERVE if naming.guard.has_given_up(crd.group) else ctx.settings.mode
        decision = decide(crd, _owners(ctx, crd), mode)
        if decision.write and not _set_status(ctx, crd, decision):
            decision = replace(decision, write=False)
        result = "written" if decision.write else "shortcut" if decision.calculation is None else "noop"
        naming.metrics.syncs.labels(result).inc()
        return _report(ctx, crd, decision)


@plugin.controller(
    CRDS,
    name="crdEstablishing",
    predicates=[],
    gone=True,
    enabled=lambda settings: settings.mode is Mode.ENFORCE and settings.establish == "auto",
    rate_limiter=lambda _: default_controller_rate_limiter(),
)
def establish(ctx: ctrlhost.Context[Crd, NamingSettings], crd: Crd | None) -> ctrlhost.Result | None:
    """Set Established once the names of a CRD are accepted, unless the server does so itself."""
    naming, now = ctx.state, ctx.clock.now()
    if crd is None or naming.server_has_one or not _in_scope(ctx) or not should_establish(crd):
        naming.establish_at.pop(ctx.request.name, None)
        return None
    due = naming.establish_at.setdefault(crd.name, now + ctx.settings.establish_delay)
    if now < due:
        return ctrlhost.Result(requeue_after=due - now)
    naming.establish_at.pop(crd.name, None)
    condition = established_condition(crd)
    if condition != crd.established and not naming.guard.has_given_up(crd.group):
        ctx.status.condition(condition.type, condition.status, condition.reason, condition.message)
        ctx.log.info("%s: Established is %s (%s)", crd.name, condition.status, condition.reason)
    return None


def has_own_controller(client: ctrlhost.Client) -> bool:
    """Return whether the API server has a naming controller, as every kube-apiserver has; a refusal counts as no."""
    response = client.transport.request("GET", "/readyz", query={"verbose": "true"})
    return "start-apiextensions-controllers" in response.body.decode("utf-8", "replace")


def _in_scope(ctx: ctrlhost.Context[Crd, NamingSettings]) -> bool:
    groups = ctx.settings.groups
    return not groups or group_of(ctx.request.name) in groups


def _owners(ctx: ctrlhost.Context[Crd, NamingSettings], crd: Crd) -> Callable[[Space, str], tuple[str, ...]]:
    """Return the function that returns the CRDs of the group for which a name is accepted.

    Own writes are among them before the watch shows them. With `allow_own_names`, a resource name that the CRD alone
    holds does not count. Kinds always count: kind and list kind could become equal, which the API server rejects.
    """
    crds, allow_own = ctx.cache(KIND), ctx.settings.allow_own_names

    def owners(space: Space, name: str) -> tuple[str, ...]:
        holders = tuple(sorted(find(crds, crd.group, space, name, accepted=True)))
        return () if allow_own and space is Space.RESOURCES and holders == (crd.name,) else holders

    return owners


def _set_status(ctx: ctrlhost.Context[Crd, NamingSettings], crd: Crd, decision: Decision) -> bool:
    """Set the calculated status, unless another writer keeps changing it back."""
    calculation = decision.calculation
    if calculation is None:
        return False
    if ctx.state.guard.is_fight(crd, calculation.names_accepted, ctx.clock.now(), retry=ctx.attempt > 1):
        ctx.state.metrics.fights.inc()
        text = f"another writer keeps changing the status of {crd.name}; no longer writing to group {crd.group}"
        ctx.log.error("%s", text)
        ctx.event("NamingFight", text, warning=True, action="Arbitrate")
        return False
    ctx.status.set(acceptedNames=calculation.accepted.to_status())
    for condition in (calculation.names_accepted, calculation.established):
        ctx.status.condition(condition.type, condition.status, condition.reason, condition.message)
    return True


def _report(ctx: ctrlhost.Context[Crd, NamingSettings], crd: Crd, decision: Decision) -> ctrlhost.Result | None:
    """Record the finding and report it once: a conflict that is written at once, any other after the grace."""
    naming, now = ctx.state, ctx.clock.now()
    owners = _owners(ctx, crd)
    contested = any(len(owners(*held)) > 1 for held in crd.accepted.held())
    finding = classify(crd, decision, contested=contested)
    # Refusals matter only for a conflict: any other finding says that the status itself is wrong or missing.
    calculation = decision.calculation
    refusals: tuple[Refusal, ...] = calculation.refusals if calculation and finding is Finding.CONFLICT else ()
    wait = naming.ledger.record(crd, finding, refusals, now)
    if finding is None:
        if naming.reported.pop(crd.name, None) is not None:
            ctx.log.info("%s: all names accepted", crd.name)
        return None
    names = "; ".join(map(str, refusals))
    if finding is Finding.CONFLICT and ctx.settings.mode is not Mode.OBSERVE:
        text = f"{finding.value}: {names}"
        ctx.event("NamesNotAccepted", names, warning=True, action="Arbitrate", once=True)
    elif wait > 0:
        return ctrlhost.Result(requeue_after=wait)
    else:
        # The ledger distinguishes self-conflicts and cycles from other conflicts.
        text = next((str(line) for line in naming.ledger.report(now) if line.crd == crd.name), finding.value)
    if naming.reported.get(crd.name) != text:
        naming.reported[crd.name] = text
        ctx.log.warning("%s: %s", crd.name, text)
    return None
