"""The two controllers: one that arbitrates names, one that establishes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost.workqueue import default_controller_rate_limiter
from ctrlhost_naming.crd import API_VERSION, KIND, Crd, group_of
from ctrlhost_naming.decision import Decision, Mode, decide, established_patch, is_due, outcome, status_patch
from ctrlhost_naming.differences import Kind as Finding
from ctrlhost_naming.differences import Ledger, classify
from ctrlhost_naming.fights import FightGuard
from ctrlhost_naming.index import NameIndex, Wakes
from ctrlhost_naming.metrics import NamingMetrics
from ctrlhost_naming.names import has_own_controller
from ctrlhost_naming.page import page

if TYPE_CHECKING:
    from ctrlhost.cache import DeletedFinalStateUnknown, Object
    from ctrlhost_naming.settings import NamingSettings

#: What is needed of a CRD. Its schemas, which may be a megabyte, are not.
READS = ("spec.group", "spec.names", "spec.conversion", "status")


class NamingController:
    """Everything that one running plugin knows; made in `ctrlhost_setup`, one per host."""

    def __init__(self, plugin: ctrlhost.PluginContext) -> None:
        """Register the controllers, the page and the informer's handlers."""
        self.settings: NamingSettings = plugin.settings
        self.index = NameIndex()
        self.ledger = Ledger(self.index, self.settings.diff_grace)
        self.guard = FightGuard()
        self.metrics = NamingMetrics(plugin.metrics, self.index, self.ledger, plugin.clock)
        self._log = plugin.log
        self._clock = plugin.clock
        self._told: dict[str, str] = {}
        self._primed = False
        self._priming = threading.Lock()
        self._establish_at: dict[str, float] = {}
        self._served_by_server: bool | None = None

        source = ctrlhost.For(API_VERSION, KIND, reads=READS)
        writes = self.settings.how is not Mode.OBSERVE
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
                f'controllers."{self._names.name}".workers is {self._names.workers}: names are given away one at a '
                "time, or two CustomResourceDefinitions could get the same one",
                hint="leave `workers` out, or set it to 1",
            )
        if self.settings.how is Mode.ENFORCE and self.settings.establish == "auto":
            plugin.add_controller(
                "crdEstablishing",
                self.establish,
                source,
                workers=1,
                rate_limiter=default_controller_rate_limiter(),
            )
        informer = plugin.informer(API_VERSION, KIND, reads=READS)
        informer.add_handler(on_add=self._on_add, on_update=self._on_update, on_delete=self._on_delete)
        plugin.add_page("/", page(self.settings.mode, self.index, self.ledger, plugin.clock))

    def reconcile(self, ctx: ctrlhost.Context, request: ctrlhost.Request) -> ctrlhost.Result | None:
        """Bring one CRD's accepted names and conditions in line with what it asks for, or say what is amiss."""
        key = request.name
        if not group_of(key):
            self._log.warning("ignoring the key %r, which names no CustomResourceDefinition", key)
            return None
        if not self._mine(group_of(key)):
            return None
        with self.metrics.seconds.time():
            self._prime(ctx)
            obj = ctx.get(request)
            if obj is None:
                self._gone(key)
                return None
            crd = self._read(obj)
            self._wake(self.index.observe(crd, cached=True))
            mode = Mode.OBSERVE if self.guard.lost(crd.group) else self.settings.how
            decision = decide(crd, self.index.used(crd, allow_own=self.settings.allow_own_names), mode)
            if not decision.write:
                self.metrics.syncs.labels("shortcut" if decision.calculation is None else "noop").inc()
                return self._account(ctx, obj, crd, decision)
            return self._write(ctx, obj, crd, decision)

    def establish(self, ctx: ctrlhost.Context, request: ctrlhost.Request) -> ctrlhost.Result | None:
        """Declare a CRD established once its names are accepted, where the server does not do so itself."""
        key = request.name
        if not self._mine(group_of(key)):
            return None
        if self._served_by_server is None:
            self._served_by_server = has_own_controller(ctx.client)
        obj = ctx.get(request)
        crd = self._read(obj) if obj is not None else None
        if obj is None or crd is None or not is_due(crd) or self._served_by_server:
            self._establish_at.pop(key, None)
            return None
        now = self._clock.now()
        due = self._establish_at.setdefault(key, now + self.settings.establish_delay)
        if now < due:
            return ctrlhost.Result(requeue_after=due - now)
        self._establish_at.pop(key, None)
        condition = outcome(crd, obj)
        if condition is None or self.guard.lost(crd.group):
            return None
        try:
            answer = self._patch_status(ctx, key, established_patch(obj, condition, self._clock))
        except (ctrlhost.NotFound, ctrlhost.Conflict) as error:
            self._log.debug("%s changed before it could be established: %s", key, error)
            return None
        self._wake(self.index.wrote(Crd.of(answer)))
        self._log.info("%s: Established is %s (%s)", key, condition.status, condition.reason)
        return None

    def _write(self, ctx: ctrlhost.Context, obj: Object, crd: Crd, decision: Decision) -> ctrlhost.Result | None:
        """Write what was decided, and account for what stands there then."""
        calculation = decision.calculation
        if calculation is None:
            return None
        if self.guard.contradicted(crd, calculation.names_accepted, self._clock.now()):
            self.metrics.fights.inc()
            text = f"somebody else keeps changing the status of {crd.name}; nothing in {crd.group} is written any more"
            self._log.error("%s", text)
            ctx.events.warning(obj, "NamingFight", text, action="Arbitrate")
            return self._account(ctx, obj, crd, decision)
        conditions = obj.get_path("status", "conditions", default=())
        try:
            answer = self._patch_status(
                ctx, crd.name, status_patch(crd.resource_version, conditions, calculation, self._clock)
            )
        except ctrlhost.NotFound:
            self.metrics.syncs.labels("gone").inc()
            return None
        except ctrlhost.Conflict:
            # It changed meanwhile, so an event is on its way; trying again now would only meet the same cache.
            self.metrics.syncs.labels("conflict409").inc()
            self._log.debug("%s changed before its status was written", crd.name)
            return None
        except Exception:
            self.metrics.syncs.labels("error").inc()
            raise
        self.metrics.syncs.labels("written").inc()
        written = Crd.of(answer)
        self.guard.wrote(crd.name, calculation.names_accepted)
        self._wake(self.index.wrote(written))
        return self._account(ctx, obj, written, Decision(calculation, differs=False, write=False))

    def _patch_status(self, ctx: ctrlhost.Context, key: str, patch: dict[str, Any]) -> dict[str, Any]:
        return ctx.client.patch(API_VERSION, KIND, key, None, patch, subresource="status")

    def _account(self, ctx: ctrlhost.Context, obj: Object, crd: Crd, decision: Decision) -> ctrlhost.Result | None:
        """Keep what is the matter with a CRD, and tell of it once: a conflict that we wrote at once, else in time."""
        finding = classify(crd, decision, contested=self.index.is_contested(crd))
        # A status that says something else, or nothing yet, is told as that; who is in whose way comes after it.
        told = decision.calculation if finding is Finding.CONFLICT else None
        refusals = told.refusals if told else ()
        now = self._clock.now()
        wait = self.ledger.record(crd, finding, refusals, now)
        if finding is None:
            if self._told.pop(crd.name, None) is not None:
                self._log.info("%s: all names are accepted now", crd.name)
            return None
        names = "; ".join(str(one) for one in self.ledger.blocked(crd.group, refusals))
        at_once = finding is Finding.CONFLICT and self.settings.how is not Mode.OBSERVE
        if wait > 0 and not at_once:
            return ctrlhost.Result(requeue_after=wait)
        kind = finding if at_once else self._kind_now(crd.name, finding, now)
        text = f"{kind.value}: {names}" if names else kind.value
        if self._told.get(crd.name) == text:
            return None
        self._told[crd.name] = text
        self._log.warning("%s: %s", crd.name, text)
        if at_once:
            ctx.events.warning(obj, "NamesNotAccepted", names, action="Arbitrate")
        return None

    def _kind_now(self, key: str, finding: Finding, now: float) -> Finding:
        """Give the finding as the page has it, which tells conflicts with oneself and in a ring from others."""
        return next((one.kind for one in self.ledger.report(now) if one.crd == key), finding)

    def _mine(self, group: str) -> bool:
        return not self.settings.groups or group in self.settings.groups

    def _prime(self, ctx: ctrlhost.Context) -> None:
        """Fill the index from the cache before the first calculation; the informer's handlers may be behind."""
        if self._primed:
            return
        with self._priming:
            for obj in ctx.lister(API_VERSION, KIND).list():
                self._observe(obj)
            self._primed = True

    def _read(self, obj: Object) -> Crd:
        """Give what is needed of an object, as it was read before where the version is the same."""
        known = self.index.get(obj.name)
        if known is not None and known.resource_version == obj.resource_version and known.uid == obj.uid:
            return known
        return Crd.of(obj)

    def _observe(self, obj: Object) -> None:
        crd = self._read(obj)
        if self._mine(crd.group):
            self._wake(self.index.observe(crd))

    def _on_add(self, obj: Object, _is_initial: bool) -> None:
        self._observe(obj)

    def _on_update(self, _old: Object, new: Object) -> None:
        self._observe(new)

    def _on_delete(self, gone: Object | DeletedFinalStateUnknown) -> None:
        """Free the names of what was deleted, seen or found missing."""
        obj: Any = getattr(gone, "object", gone)
        if obj is None:
            self._forget(gone.key)
            return
        if getattr(obj, "kind", None) != KIND:
            self._log.warning("ignoring the deletion of something that is no CustomResourceDefinition: %r", gone)
            return
        self._forget(obj.name, obj.uid, obj.resource_version)

    def _gone(self, key: str) -> None:
        self.metrics.syncs.labels("gone").inc()
        self._forget(key)

    def _forget(self, key: str, uid: str = "", resource_version: str = "") -> None:
        self._wake(self.index.forget(key, uid, resource_version))
        if self.index.get(key) is None:
            self.ledger.forget(key)
            self.guard.forget(key)
            self._told.pop(key, None)

    def _wake(self, wakes: Wakes) -> None:
        """Look again at those that wait for a name that changed hands, the oldest first."""
        for key, cause in wakes:
            self.metrics.requeues.labels(cause).inc()
            self._names.enqueue(ctrlhost.Request(key))
