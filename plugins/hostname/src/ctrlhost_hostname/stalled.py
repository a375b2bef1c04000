"""What kubectl shows about a ProviderHost that gets no route: the condition `Stalled`, and an Event."""

from __future__ import annotations

import ctrlhost
from ctrlhost import conditions
from ctrlhost_hostname.claims import API_VERSION, KIND
from ctrlhost_hostname.once import OncePerVersion

CONDITION = "Stalled"
_MAX_MESSAGE = 1024


class StalledHosts:
    """Writes the condition `Stalled`, which is absent while a ProviderHost never had a problem.

    With a CRD that has no status, only the Events remain.
    """

    def __init__(self, clock: ctrlhost.Clock) -> None:
        """Start without reports."""
        self._clock = clock
        self._told = OncePerVersion()

    def set(self, ctx: ctrlhost.Context, host: ctrlhost.Object, reason: str, message: str) -> ctrlhost.Object:
        """Set the condition, with an Event if it changed; return the ProviderHost as it is now."""
        message = message[:_MAX_MESSAGE]
        if self._told.first(host, f"{host.uid}/{reason}/{message}") and not _says(host, reason, message):
            ctx.events.warning(host, reason, message, action="Connect")
        return self._write(ctx, host, "True", reason, message)

    def clear(self, ctx: ctrlhost.Context, host: ctrlhost.Object) -> None:
        """Set the condition to False if the ProviderHost has it."""
        self._told.forget(host)
        if conditions.is_true(host, CONDITION):
            self._write(ctx, host, "False", "Connected", "the route exists")

    def _write(
        self, ctx: ctrlhost.Context, host: ctrlhost.Object, status: str, reason: str, message: str
    ) -> ctrlhost.Object:
        changed = host.to_dict()
        if not conditions.set(changed, CONDITION, status, reason, message, self._clock):
            return host
        metadata = {"resourceVersion": host.resource_version}
        patch = {"metadata": metadata, "status": {"conditions": changed["status"]["conditions"]}}
        try:
            answer = ctx.client.patch(API_VERSION, KIND, host.name, host.namespace, patch, subresource="status")
        except (ctrlhost.ApiError, ctrlhost.TransportError) as error:
            # A report must not stop the work on the route; the next reconcile tries again.
            ctx.log.info("cannot write the condition of a ProviderHost: %s", error, extra={"provider_host": host.name})
            return host
        return ctrlhost.Object(answer)


def _says(host: ctrlhost.Object, reason: str, message: str) -> bool:
    found = conditions.get(host, CONDITION)
    return found is not None and (found["status"], found["reason"], found.get("message")) == ("True", reason, message)
