"""The two controllers: one arbitrates names, the other establishes CRDs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost.workqueue import default_controller_rate_limiter
from ctrlhost_naming.crd import API_VERSION, KIND, Crd, group_of
from ctrlhost_naming.decision import Decision, Mode, decide, established_condition, should_establish, status_patch
from ctrlhost_naming.differences import Finding, Ledger, classify
from ctrlhost_naming.fights import FightGuard
from ctrlhost_naming.index import NameIndex, Requeues
from ctrlhost_naming.metrics import NamingMetrics
from ctrlhost_naming.names import has_own_controller

if TYPE_CHECKING:
    from ctrlhost.cache import DeletedFinalStateUnknown, Object
    from ctrlhost_naming.settings import NamingSettings

#: The fields of a CRD to cache. Its schemas, which may be a megabyte, are left out.
READS = ("spec.group", "spec.names", "spec.conversion", "status")


class NamingController:
    """The state of one running plugin; `ctrlhost_setup` creates one per host."""

    def __init__(self, plugin: ctrlhost.PluginContext) -> None:
        """Register the controllers, the page and the informer's handlers."""
        self.settings: NamingSettings = plugin.settings
        self.index = NameIndex()
        self.ledger = Ledger(self.index, self.settings.diff_grace)
        self.guard = FightGuard()
        self.metrics = NamingMetrics(plugin.metrics, self.index, self.ledger, plugin.clock)
        self._log = plugin.log
        self._clock = plugin.clock
        #: The last logged report of each CRD.
        self._reported: dict[str, str] = {}
        self._establish_at: dict[str, float] = {}
        self._served_by_server: bool | None = None

        source = ctrlhost.For(API_VERSION, KIND, reads=READS)
        writes = self.settings.mode is not Mode.OBSERVE
        self._names = plugin.add_controller(
            "crd_naming_condition_controller",
            self.reconcile,
            source,
            workers=1,
            rate_limiter=default_controller_rate_limiter(),
            needs_leader=writes,
        )
        if self._names.workers != 1:
            raise ctrlhost.ConfigError(
                f'controllers."{self._names.name}".workers must be 1, got {self._names.workers}: with more, two '
                "CustomResourceDefinitions could get the same name",
                hint="leave `workers` out, or set it to 1",
            )
        if self.settings.mode is Mode.ENFORCE and self.settings.establish == "auto":
            plugin.add_controller(
                "crdEstablishing",
                self.establish,
                source,
                workers=1,
                rate_limiter=default_controller_rate_limiter(),
            )
        self._crds = informer = plugin.informer(API_VERSION, KIND, reads=READS)
        informer.add_handler(
            on_add=lambda obj, _initial: self._observe(obj),
            on_update=lambda _old, new: self._observe(new),
            on_delete=self._on_delete,
        )
        plugin.add_report("/", self.report, title="Names of CustomResourceDefinitions", leader_only=writes)

    def synced(self) -> None:
        """Fill the index from the cache before the first calculation, since the informer's handlers may be behind."""
        for obj in self._crds.lister.list():
            self._observe(obj)

    def report(self) -> list[dict[str, Any]]:
        """Return the rows of the page: the CRDs whose status is wrong, or whose names are taken."""
        now = self._clock.now()
        return [one.entry(now) for one in self.ledger.report(now)]

    def reconcile(self, ctx: ctrlhost.Context, request: ctrlhost.Request) -> ctrlhost.Result | None:
        """Write the accepted names and conditions of one CRD, or report how they differ from its request."""
        key = request.name
        if not group_of(key):
            self._log.warning("ignoring key %r: not the name of a CustomResourceDefinition", key)
            return None
        if not self._in_scope(group_of(key)):
            return None
        with self.metrics.seconds.time():
            obj = ctx.get(request)
            if obj is None:
                self.metrics.syncs.labels("gone").inc()
                self._forget(key)
                return None
            crd = self._read(obj)
            self._requeue(self.index.observe(crd, cached=True))
            mode = Mode.OBSERVE if self.guard.has_given_up(crd.group) else self.settings.mode
            decision = decide(crd, self.index.used(crd, allow_own=self.settings.allow_own_names), mode)
            if not decision.write:
                self.metrics.syncs.labels("shortcut" if decision.calculation is None else "noop").inc()
                return self._report(ctx, obj, crd, decision)
            return self._write(ctx, obj, crd, decision)

    def establish(self, ctx: ctrlhost.Context, request: ctrlhost.Request) -> ctrlhost.Result | None:
        """Set Established once the names of a CRD are accepted, unless the server does so itself."""
        key = request.name
        if not self._in_scope(group_of(key)):
            return None
        if self._served_by_server is None:
            self._served_by_server = has_own_controller(ctx.client)
        obj = ctx.get(request)
        crd = self._read(obj) if obj is not None else None
        if obj is None or crd is None or not should_establish(crd) or self._served_by_server:
            self._establish_at.pop(key, None)
            return None
        now = self._clock.now()
        due = self._establish_at.setdefault(key, now + self.settings.establish_delay)
        if now < due:
            return ctrlhost.Result(requeue_after=due - now)
        self._establish_at.pop(key, None)
        condition = established_condition(crd, obj)
        if condition is None or self.guard.has_given_up(crd.group):
            return None
        try:
            answer = self._patch_status(ctx, key, status_patch(obj, [condition], self._clock))
        except (ctrlhost.NotFound, ctrlhost.Conflict) as error:
            self._log.debug("%s changed before it was established: %s", key, error)
            return None
        self._requeue(self.index.record_write(Crd.of(answer)))
        self._log.info("%s: Established is %s (%s)", key, condition.status, condition.reason)
        return None

    def _write(self, ctx: ctrlhost.Context, obj: Object, crd: Crd, decision: Decision) -> ctrlhost.Result | None:
        """Write the decided status and report the remaining finding."""
        calculation = decision.calculation
        if calculation is None:
            return None
        if self.guard.is_fight(crd, calculation.names_accepted, self._clock.now()):
            self.metrics.fights.inc()
            text = f"another writer keeps changing the status of {crd.name}; no longer writing to group {crd.group}"
            self._log.error("%s", text)
            ctx.events.warning(obj, "NamingFight", text, action="Arbitrate")
            return self._report(ctx, obj, crd, decision)
        changes = (calculation.names_accepted, calculation.established)
        try:
            answer = self._patch_status(ctx, crd.name, status_patch(obj, changes, self._clock, calculation.accepted))
        except ctrlhost.NotFound:
            self.metrics.syncs.labels("gone").inc()
            return None
        except ctrlhost.Conflict:
            # The CRD changed, so an event will follow; a retry now would read the same stale cache.
            self.metrics.syncs.labels("conflict409").inc()
            self._log.debug("%s changed before its status was written", crd.name)
            return None
        except Exception:
            self.metrics.syncs.labels("error").inc()
            raise
        self.metrics.syncs.labels("written").inc()
        written = Crd.of(answer)
        self.guard.record_write(crd.name, calculation.names_accepted)
        self._requeue(self.index.record_write(written))
        return self._report(ctx, obj, written, Decision(calculation, differs=False, write=False))

    def _patch_status(self, ctx: ctrlhost.Context, key: str, patch: dict[str, Any]) -> dict[str, Any]:
        return ctx.client.patch(API_VERSION, KIND, key, None, patch, subresource="status")

    def _report(self, ctx: ctrlhost.Context, obj: Object, crd: Crd, decision: Decision) -> ctrlhost.Result | None:
        """Record the finding and report it once: a conflict that was written at once, any other after the grace."""
        finding = classify(crd, decision, contested=self.index.is_contested(crd))
        # Refusals matter only for a conflict: any other finding says that the status itself is wrong or missing.
        refusals = decision.calculation.refusals if decision.calculation and finding is Finding.CONFLICT else ()
        now = self._clock.now()
        wait = self.ledger.record(crd, finding, refusals, now)
        if finding is None:
            if self._reported.pop(crd.name, None) is not None:
                self._log.info("%s: all names accepted", crd.name)
            return None
        names = "; ".join(str(one) for one in self.ledger.blocked(crd.group, refusals))
        at_once = finding is Finding.CONFLICT and self.settings.mode is not Mode.OBSERVE
        if wait > 0 and not at_once:
            return ctrlhost.Result(requeue_after=wait)
        kind = finding
        if not at_once:
            # The ledger distinguishes self-conflicts and cycles from other conflicts.
            kind = next((one.kind for one in self.ledger.report(now) if one.crd == crd.name), finding)
        text = f"{kind.value}: {names}" if names else kind.value
        if self._reported.get(crd.name) == text:
            return None
        self._reported[crd.name] = text
        self._log.warning("%s: %s", crd.name, text)
        if at_once:
            ctx.events.warning(obj, "NamesNotAccepted", names, action="Arbitrate")
        return None

    def _in_scope(self, group: str) -> bool:
        return not self.settings.groups or group in self.settings.groups

    def _read(self, obj: Object) -> Crd:
        """Read an object, or return the known form of the same version."""
        known = self.index.get(obj.name)
        if known is not None and known.resource_version == obj.resource_version and known.uid == obj.uid:
            return known
        return Crd.of(obj)

    def _observe(self, obj: Object) -> None:
        crd = self._read(obj)
        if self._in_scope(crd.group):
            self._requeue(self.index.observe(crd))

    def _on_delete(self, deleted: Object | DeletedFinalStateUnknown) -> None:
        """Release the names of a deleted CRD, also if the watch missed the deletion."""
        obj: Any = getattr(deleted, "object", deleted)
        if obj is None:
            self._forget(deleted.key)
            return
        if getattr(obj, "kind", None) != KIND:
            self._log.warning("ignoring a deletion: not a CustomResourceDefinition: %r", deleted)
            return
        self._forget(obj.name, obj.uid, obj.resource_version)

    def _forget(self, key: str, uid: str = "", resource_version: str = "") -> None:
        self._requeue(self.index.forget(key, uid, resource_version))
        if self.index.get(key) is None:
            self.ledger.forget(key)
            self.guard.forget(key)
            self._reported.pop(key, None)

    def _requeue(self, requeues: Requeues) -> None:
        """Enqueue the CRDs that wait for a name whose owner changed, the oldest first."""
        for key, cause in requeues:
            self.metrics.requeues.labels(cause).inc()
            self._names.enqueue(ctrlhost.Request(key))
