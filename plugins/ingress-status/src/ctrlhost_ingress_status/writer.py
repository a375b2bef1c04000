"""Updates of one object's status, the only place that writes, and the state of those that failed."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_ingress_status.addresses import fingerprint
from ctrlhost_ingress_status.ingress import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctrlhost import Object, Request
    from ctrlhost_ingress_status.addresses import Entries
    from ctrlhost_ingress_status.contention import Contention
    from ctrlhost_ingress_status.ingress import Desired, IngressTarget, Known
    from ctrlhost_ingress_status.metrics import Progress, StatusMetrics
    from ctrlhost_ingress_status.write_budget import WriteBudget

#: Seconds until the next try, when this replica lost its lease but its term has not ended yet.
_DOUBTFUL = 1.0
#: Waits after the first, second and third conflict in a row, in seconds; after the fourth the object is backed off.
CONFLICT_WAITS = (0.01, 0.05, 0.25)
_JITTER = 0.1
#: The first wait after a failure, which doubles, and the longest.
_WAITS, _FORBIDDEN_WAITS = (0.005, 60.0), (1.0, 300.0)
_LOG_INTERVAL = 60.0


def reason_of(error: Exception) -> str:
    """Return the reason of an error, for metrics and rules."""
    if not isinstance(error, ctrlhost.ApiError):
        return "connection"
    if isinstance(error, ctrlhost.NotFound):
        return "gone"
    if isinstance(error, (ctrlhost.Invalid, ctrlhost.Conflict)) and _is_about_uid(error):
        return "replaced"
    words = {409: "conflict", 422: "invalid", 403: "forbidden", 429: "throttled", 503: "throttled"}
    return words.get(error.status, "server")


def _is_about_uid(error: ctrlhost.ApiError) -> bool:
    """Return whether the server refused because another object has the name by now."""
    fields = [str(cause.get("field", "")) for cause in error.causes]
    return "metadata.uid" in fields or "metadata.uid" in str(error) or "UID in precondition" in str(error)


@dataclass(slots=True)
class Attempt:
    """The updates of one object since its status was right: the last one, and how often they failed."""

    #: When the open update began; None if there is none.
    started: float | None = None
    #: The tries of the open update that failed on a newer object.
    conflicts: int = 0
    failures: int = 0
    #: What the server will refuse again: the address by its number, for the object in this version.
    refused: tuple[int, str] | None = None

    def conflicted(self) -> float | None:
        """Return the wait before the next try; None after the last one."""
        self.conflicts += 1
        if self.conflicts > len(CONFLICT_WAITS):
            return None
        jitter = 1.0 + random.random() * _JITTER  # noqa: S311 - only keeps tries of several objects apart
        return CONFLICT_WAITS[self.conflicts - 1] * jitter

    def failed(self, reason: str, error: Exception) -> float:
        """End the update, and return the seconds until the next one: what the server asks for, else growing ones."""
        self.started, self.conflicts = None, 0
        wait = error.retry_after if isinstance(error, ctrlhost.ApiError) else None
        base, most = _FORBIDDEN_WAITS if reason == "forbidden" else _WAITS
        self.failures += 1
        return wait or min(base * 2.0 ** min(self.failures - 1, 64), most)


class Writer:
    """The reconciler, and the predicate that selects its events."""

    def __init__(
        self,
        plugin: ctrlhost.PluginContext,
        target: IngressTarget,
        desired: Desired,
        budget: WriteBudget,
        metrics: StatusMetrics,
        contention: Contention,
        progress: Progress,
    ) -> None:
        """Write what is desired, within the budget."""
        self._log, self._clock, self._events = plugin.log, plugin.clock, plugin.events
        self._by_update = plugin.settings.write_method == "update"
        self._target, self._desired, self._budget = target, desired, budget
        self._metrics, self._contention = metrics, contention
        self._progress = progress
        #: Of the objects whose update failed or is open; only the worker of an object uses its own.
        self._attempts: dict[Request, Attempt] = {}
        #: When a line was logged last, by reason.
        self._logged: dict[str, float] = {}
        self._lock = threading.Lock()
        #: Since when writes are forbidden; None after a successful one.
        self.forbidden_since: float | None = None

    def wakes(self, old: Object | None, new: Object | None) -> bool:
        """Return whether a change needs the worker; otherwise every write would cause another reconcile."""
        if new is None:
            if old is not None:
                self._drop(ctrlhost.Request(old.name, old.namespace))
            return False
        if not self._desired.elected or new.deletion_timestamp is not None:
            return False
        known = self._desired.known
        verdict = self._verdict(new, known)
        if verdict is Verdict.RIGHT:
            self._metrics.needless()
            return False
        if verdict is Verdict.WRITE and old is not None and self._was_right(old, new, known):
            self._edited(new)
        return verdict is not Verdict.LEAVE

    def reconcile(self, ctx: ctrlhost.Context, request: ctrlhost.Request) -> ctrlhost.Result | None:
        """Write one object's status if it is wrong by now."""
        if not ctx.leading or not self._desired.elected:
            self._budget.leave(request)
            # A new term starts with a pass over all objects; within a term, a doubt must not lose the key.
            return ctrlhost.Result(requeue_after=_DOUBTFUL) if self._desired.elected else None
        obj = ctx.get(request)
        if obj is None or obj.deletion_timestamp is not None:
            self._drop(request)
            return None
        # Read once, so that the verdict and the write use the same address.
        known = self._desired.known
        verdict = self._verdict(obj, known)
        if known is None or verdict is Verdict.LEAVE:
            self._settled(request)
            return None
        if verdict is Verdict.RIGHT:
            self._needless(request)
            return None
        attempt = self._attempts.get(request) or Attempt()
        if attempt.refused == (known.number, obj.resource_version):
            self._budget.leave(request)
            return None
        now = self._clock.now()
        if pause := self._contention.pause(request, now):
            self._budget.leave(request)
            return ctrlhost.Result(requeue_after=pause)
        if wait := self._budget.take(request, now, bulk=ctx.priority < 0):
            return ctrlhost.Result(requeue_after=wait)
        self._attempts[request] = attempt
        if attempt.started is None:
            attempt.started = now
            self._metrics.started()
        try:
            needless = self._send(ctx, obj, known.entries or None, attempt)
        except ctrlhost.NotLeading:
            self._attempts.pop(request, None)
            return ctrlhost.Result(requeue_after=_DOUBTFUL)
        except (ctrlhost.ApiError, ctrlhost.TransportError) as error:
            return self._failed(request, obj, known.number, attempt, error)
        self._metrics.ended(self._clock.now() - attempt.started, needless=needless)
        self.forbidden_since = None
        self._attempts.pop(request, None)
        if ctx.priority < 0:
            self._progress.written()
        return None

    def _send(self, ctx: ctrlhost.Context, obj: Object, entries: Entries | None, attempt: Attempt) -> bool:
        """Send the request, and return whether it turned out to be needless."""
        target = self._target
        if not self._by_update:
            patch = target.patch(obj.uid, entries)
            ctx.client.patch(target.api_version, target.kind, obj.name, obj.namespace, patch, subresource="status")
            return False
        base = obj.to_dict()
        if attempt.conflicts:
            # The cache may still have the refused version.
            base = ctx.client.get(target.api_version, target.kind, obj.name, obj.namespace)
            if base["metadata"]["uid"] != obj.uid:
                raise ctrlhost.NotFound(f"{obj.namespace}/{obj.name} is another object by now")
            if fingerprint(target.addresses(base)) == fingerprint(entries or ()):
                return True
        ctx.client.replace(target.replacement(base, entries), subresource="status")
        return False

    def _failed(
        self, request: ctrlhost.Request, obj: Object, number: int, attempt: Attempt, error: Exception
    ) -> ctrlhost.Result | None:
        reason, now = reason_of(error), self._clock.now()
        name = f"{request.namespace}/{request.name}"
        if reason == "conflict":
            self._metrics.conflict()
            if (wait := attempt.conflicted()) is not None:
                return ctrlhost.Result(requeue_after=wait)
        self._metrics.failed(now - (attempt.started or now), reason)
        if reason in ("gone", "replaced"):
            self._log.debug("%s: %s, nothing to write", name, reason)
            self._drop(request)
            return None
        wait = attempt.failed(reason, error)
        if reason == "invalid":
            attempt.refused = number, obj.resource_version
            self._log.error("%s: the server refuses the address: %s", name, _detail(error))
            self._events.warning(obj, "InvalidAddress", f"The address is refused: {_detail(error)}", action="Publish")
            return None
        if reason == "forbidden":
            self.forbidden_since = now if self.forbidden_since is None else self.forbidden_since
        if self._may_log(reason, now):
            self._log.warning("%s: cannot write the status: %s", name, _detail(error))
        return ctrlhost.Result(requeue_after=wait)

    def _may_log(self, reason: str, now: float) -> bool:
        """Return whether a minute has passed since the last log line with this reason."""
        with self._lock:
            if now - self._logged.get(reason, -_LOG_INTERVAL) < _LOG_INTERVAL:
                return False
            self._logged[reason] = now
            return True

    def _verdict(self, obj: Object, known: Known | None) -> Verdict:
        return self._desired.verdict(self._target.class_of(obj), self._target.mark(obj), known)

    def _was_right(self, old: Object, new: Object, known: Known | None) -> bool:
        """Return whether another writer made the status wrong, of an object that was and is ours."""
        return old.uid == new.uid and self._verdict(old, known) is Verdict.RIGHT

    def _edited(self, obj: Object) -> None:
        if not self._contention.edited(ctrlhost.Request(obj.name, obj.namespace), self._clock.now()):
            return
        self._metrics.contested.inc()
        self._log.warning("%s: another writer keeps changing the status; pausing writes to it", obj.key)
        note = "Another controller keeps changing status.loadBalancer; is the class of this Ingress claimed twice?"
        self._events.warning(obj, "IngressStatusContested", note, action="Publish")

    def _needless(self, request: ctrlhost.Request) -> None:
        attempt = self._attempts.get(request)
        if attempt is None or attempt.started is None:
            self._metrics.needless()
        else:
            self._metrics.ended(self._clock.now() - attempt.started, needless=True)
        self._settled(request)

    def keep(self, owned: Callable[[Request], bool]) -> None:
        """Forget the objects whose requests other replicas reconcile now."""
        for request in (*self._attempts.copy(), *self._budget.keys(), *self._contention.keys()):
            if not owned(request):
                self._drop(request)

    def _settled(self, request: ctrlhost.Request) -> None:
        self._budget.leave(request)
        self._attempts.pop(request, None)

    def _drop(self, request: ctrlhost.Request) -> None:
        self._settled(request)
        self._contention.forget(request)


def _detail(error: Exception) -> str:
    """Return an error with the fields that it is about."""
    causes: tuple[Mapping[str, Any], ...] = getattr(error, "causes", ())
    fields = ", ".join(dict.fromkeys(str(cause["field"]) for cause in causes if cause.get("field")))
    return f"{error} ({fields})" if fields and fields not in str(error) else str(error)
