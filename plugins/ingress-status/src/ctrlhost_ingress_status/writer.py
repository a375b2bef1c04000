"""Bringing one object's status in line: the only place that writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_ingress_status.addresses import fingerprint
from ctrlhost_ingress_status.desired import Verdict
from ctrlhost_ingress_status.failures import reason_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.cache import Object
    from ctrlhost_ingress_status.addresses import Entries
    from ctrlhost_ingress_status.contention import Contention
    from ctrlhost_ingress_status.desired import Desired
    from ctrlhost_ingress_status.failures import Attempt, Failures
    from ctrlhost_ingress_status.metrics import StatusMetrics
    from ctrlhost_ingress_status.state import Known
    from ctrlhost_ingress_status.target import Target
    from ctrlhost_ingress_status.write_budget import Lanes

#: How soon to look again when this replica stopped leading and was not told yet that it is over.
_DOUBTFUL = 1.0


class Writer:
    """The reconciler, and what decides which events are worth its while."""

    def __init__(
        self,
        plugin: ctrlhost.PluginContext,
        target: Target,
        desired: Desired,
        lanes: Lanes,
        metrics: StatusMetrics,
        failures: Failures,
        contention: Contention,
    ) -> None:
        """Write what is desired, within the lanes' budget."""
        self._log, self._clock, self._events = plugin.log, plugin.clock, plugin.events
        self._by_update = plugin.settings.write_method == "update"
        self._target, self._desired, self._lanes = target, desired, lanes
        self._metrics, self._failures, self._contention = metrics, failures, contention
        #: When a write was refused for want of a right last; None once one went through.
        self.forbidden_since: float | None = None

    def wakes(self, old: Object | None, new: Object | None) -> bool:
        """Say whether a change needs the worker; without that every write would bring another look."""
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
        """Write one object's status if it is not what it should be by now."""
        if not ctx.leading or not self._desired.elected:
            self._lanes.leave(request)
            # A term that is over begins with a pass of its own; a doubt that passes must not lose the key.
            return ctrlhost.Result(requeue_after=_DOUBTFUL) if self._desired.elected else None
        obj = ctx.get(request)
        if obj is None or obj.deletion_timestamp is not None:
            self._drop(request)
            return None
        # Read once: what is decided by one address is not written with another.
        known = self._desired.known
        verdict = self._verdict(obj, known)
        if known is None or verdict is Verdict.LEAVE:
            self._settled(request)
            return None
        if verdict is Verdict.RIGHT:
            self._needless(request)
            return None
        if self._failures.refused(request, known.number, obj.resource_version):
            self._lanes.leave(request)
            return None
        now = self._clock.now()
        if pause := self._contention.pause(request, now):
            self._lanes.leave(request)
            return ctrlhost.Result(requeue_after=pause)
        if wait := self._lanes.take(request, now, slow=ctx.priority < 0):
            return ctrlhost.Result(requeue_after=wait)
        attempt, new = self._failures.attempt(request, now)
        if new:
            self._metrics.begun()
        return self._write(ctx, request, obj, known, attempt)

    def _write(
        self, ctx: ctrlhost.Context, request: ctrlhost.Request, obj: Object, known: Known, attempt: Attempt
    ) -> ctrlhost.Result | None:
        try:
            needless = self._send(ctx, obj, known.entries or None, attempt)
        except ctrlhost.NotLeading:
            self._failures.close(request)
            return ctrlhost.Result(requeue_after=_DOUBTFUL)
        except (ctrlhost.ApiError, ctrlhost.TransportError) as error:
            return self._failed(request, obj, known.number, attempt, error)
        self._metrics.ended(self._clock.now() - attempt.started, needless=needless)
        self.forbidden_since = None
        self._failures.forget(request)
        return None

    def _send(self, ctx: ctrlhost.Context, obj: Object, entries: Entries | None, attempt: Attempt) -> bool:
        """Send the request, and say whether there was no need of one after all."""
        target = self._target
        if not self._by_update:
            patch = target.patch(obj.uid, entries)
            ctx.client.patch(target.api_version, target.kind, obj.name, obj.namespace, patch, subresource="status")
            return False
        base = obj.to_dict()
        if attempt.conflicts:
            # The cache may be what was refused, so ask the server.
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
            if (wait := self._failures.conflicted(attempt)) is not None:
                return ctrlhost.Result(requeue_after=wait)
        self._metrics.failed(now - attempt.started, reason)
        if reason in ("gone", "replaced"):
            self._log.debug("%s: %s, nothing to write", name, reason)
            self._drop(request)
            return None
        self._failures.close(request)
        if reason == "invalid":
            self._failures.refuse(request, number, obj.resource_version)
            self._log.error("%s: the server refuses the address: %s", name, _told(error))
            self._events.warning(obj, "InvalidAddress", f"The address is refused: {_told(error)}", action="Publish")
            return None
        if reason == "forbidden":
            self.forbidden_since = now if self.forbidden_since is None else self.forbidden_since
        wait = self._failures.wait(request, reason, error)
        if self._failures.may_log(reason, now):
            self._log.warning("%s: the status was not written: %s", name, _told(error))
        return ctrlhost.Result(requeue_after=wait)

    def _verdict(self, obj: Object, known: Known | None) -> Verdict:
        return self._desired.verdict(self._target.class_of(obj), self._target.mark(obj), known)

    def _was_right(self, old: Object, new: Object, known: Known | None) -> bool:
        """Say whether it was somebody else who made the status wrong, for an object that was ours before and is."""
        return old.uid == new.uid and self._verdict(old, known) is Verdict.RIGHT

    def _edited(self, obj: Object) -> None:
        if not self._contention.edited(ctrlhost.Request(obj.name, obj.namespace), self._clock.now()):
            return
        self._metrics.contested.inc()
        self._log.warning("%s: another writer keeps changing the status, leaving it alone for a while", obj.key)
        told = "Another controller keeps changing status.loadBalancer; is the class of this Ingress claimed twice?"
        self._events.warning(obj, "IngressStatusContested", told, action="Publish")

    def _needless(self, request: ctrlhost.Request) -> None:
        attempt = self._failures.opened(request)
        if attempt is None:
            self._metrics.needless()
        else:
            self._metrics.ended(self._clock.now() - attempt.started, needless=True)
        self._settled(request)

    def _settled(self, request: ctrlhost.Request) -> None:
        self._lanes.leave(request)
        self._failures.forget(request)

    def _drop(self, request: ctrlhost.Request) -> None:
        self._settled(request)
        self._contention.forget(request)


def _told(error: Exception) -> str:
    """Give an error with the fields that it is about."""
    causes: tuple[Mapping[str, Any], ...] = getattr(error, "causes", ())
    fields = ", ".join(dict.fromkeys(str(cause["field"]) for cause in causes if cause.get("field")))
    return f"{error} ({fields})" if fields and fields not in str(error) else str(error)
