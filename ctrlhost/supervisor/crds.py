"""Install the CustomResourceDefinitions of plugins, and the further objects that they ship."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ctrlhost.clock import doubling
from ctrlhost.errors import AlreadyExists, ApiError, Conflict, CtrlhostError, NotFound, TransportError, UnknownKind
from ctrlhost.supervisor.crd_changes import lost_fields, marked, newer_than, newly_required, objection
from ctrlhost.supervisor.shipped_objects import described

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from ctrlhost.client import Client

log = logging.getLogger("ctrlhost.crds")

_API_VERSION, _KIND = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
_FIRST_DELAY, _MAX_DELAY = 0.25, 15.0
#: Seconds for a look at a CRD that delays the plugin's start.
_CHECK_TIMEOUT = 5.0
#: Attempts to update a CRD that others change at the same time.
_TRIES = 10
_ESTABLISHED_TIMEOUT, _SOON_ESTABLISHED = 30.0, 1.0


@dataclass(frozen=True, slots=True)
class Installation:
    """How the CRDs and objects of a plugin are installed."""

    #: The version of the plugin's distribution; "" if it is unknown.
    version: str = ""
    #: Whether to replace what a newer plugin installed, and CRDs with more fields.
    force: bool = False
    #: Returns a CRD with the address of the webhook that converts its objects.
    addressed: Callable[[dict[str, Any]], dict[str, Any]] = lambda crd: crd

    def install(self, client: Client, crd: dict[str, Any]) -> None:
        """Create the CRD, or update it unless that would take something away; Conflict if it keeps changing."""
        name = crd["metadata"]["name"]
        crd = self.addressed(marked(crd, self.version))
        for left in range(_TRIES - 1, -1, -1):
            try:
                client.create(crd)
            except AlreadyExists:
                live = client.find(_API_VERSION, _KIND, name)
            else:
                if not client.dry_run:
                    log.info("installed CRD %s", name)
                return
            if live is None:
                continue
            if why := objection(live, crd, force=self.force):
                hint = "" if self.force else "; `--install-crds=force` replaces newer ones and fields, never versions"
                log.warning("CRD %s stays as it is: %s%s", name, why, hint)
                return
            if fields := sorted({*newly_required(live, crd)}):
                log.warning(
                    "CRD %s: objects that were stored without %s become invalid; give it a default, or None",
                    name,
                    " and ".join(fields),
                )
            seen = live["metadata"]["resourceVersion"]
            try:
                seen = _moved(client, crd, live)["metadata"]["resourceVersion"]
                # Only what was compared is replaced: another replica may have another version of the plugin.
                after = client.apply(
                    {**crd, "metadata": {**crd["metadata"], "resourceVersion": seen}}, field_manager="ctrlhost"
                )
            except (Conflict, NotFound):
                if not left:
                    raise
                continue
            if after["metadata"]["resourceVersion"] != seen and not client.dry_run:
                log.info("updated CRD %s", name)
            return

    def apply(self, client: Client, obj: dict[str, Any]) -> None:
        """Apply an object unless a newer plugin did; Conflict if it changes meanwhile."""
        obj = marked(obj, self.version)
        metadata = obj["metadata"]
        live = client.find(obj["apiVersion"], obj["kind"], metadata["name"], metadata.get("namespace"))
        seen = None
        if live is not None:
            seen = live["metadata"]["resourceVersion"]
            if not self.force and (why := newer_than(live, obj)):
                hint = "`--install-crds=force` replaces it"
                log.warning("%s stays as it is: %s; %s", described(obj), why, hint)
                return
            obj = {**obj, "metadata": {**metadata, "resourceVersion": seen}}
        after = client.apply(obj, field_manager="ctrlhost")
        if after["metadata"].get("resourceVersion") != seen and not client.dry_run:
            log.info("%s %s", "installed" if live is None else "updated", described(obj))


def _moved(client: Client, crd: Mapping[str, Any], live: dict[str, Any]) -> dict[str, Any]:
    """Direct the conversions of the installed CRD to where ours lead, and return it.

    A webhook has a Service or a URL, and an apply would leave the other one of both, which somebody else wrote.
    """
    own, other = _client_config(crd), _client_config(live)
    if not own or all(name in own for name in ("service", "url") if name in other):
        return live
    config = {**dict.fromkeys(other), **own}
    patch = {
        "metadata": {"resourceVersion": live["metadata"]["resourceVersion"]},
        "spec": {"conversion": {"webhook": {"clientConfig": config}}},
    }
    return client.patch(_API_VERSION, _KIND, crd["metadata"]["name"], None, patch)


def _client_config(crd: Mapping[str, Any]) -> Mapping[str, Any]:
    webhook = (crd["spec"].get("conversion") or {}).get("webhook") or {}
    return webhook.get("clientConfig") or {}


def install_crds(
    client: Client,
    crds: Sequence[dict[str, Any]],
    stop: threading.Event,
    waiting: Callable[[str], None],
    installation: Installation,
    objects: Sequence[dict[str, Any]] = (),
) -> bool:
    """Create or update the CRDs, wait until the server serves them, and apply the objects; False if `stop` was set.

    Requests are retried with back-off, and `waiting` is called with the reason, until the server accepts them. ApiError
    for what the server rejects for good, such as an invalid CRD. In a dry run nothing changes, so this does not wait,
    and the client logs the differences. Objects of other kinds that the server does not serve are skipped with a
    warning.
    """
    for crd in crds:
        _retry(partial(installation.install, client, crd), crd["metadata"]["name"], stop, waiting)
    if not client.dry_run and not all(_established(client, crd["metadata"]["name"], stop, waiting) for crd in crds):
        return False
    own = () if client.dry_run else {crd["spec"]["group"] for crd in crds}
    for obj in objects:
        optional = obj["apiVersion"].rpartition("/")[0] not in own
        _retry(partial(installation.apply, client, obj), described(obj), stop, waiting, optional=optional)
    return not stop.is_set()


def _retry(
    act: Callable[[], None],
    name: str,
    stop: threading.Event,
    waiting: Callable[[str], None],
    *,
    optional: bool = False,
) -> None:
    """Act until the server accepts it or `stop` is set; an `optional` kind may be one that it does not serve."""
    delays = doubling(_FIRST_DELAY, _MAX_DELAY)
    while not stop.is_set():
        try:
            return act()
        except (TransportError, ApiError) as error:
            if optional and isinstance(error, UnknownKind):
                log.warning("%s is not installed: %s", name, error)
                return None
            if isinstance(error, ApiError) and error.status in (400, 422):
                raise
            waiting(f"{name}: {error}")
            stop.wait(next(delays))
    return None


def check_crds(plugin: str, client: Client, crds: Sequence[dict[str, Any]]) -> None:
    """Log which fields the server's CRDs lack, since it drops them silently; a CRD that cannot be read is skipped."""
    for crd in crds:
        name = crd["metadata"]["name"]
        try:
            served = client.find(crd["apiVersion"], crd["kind"], name, timeout=_CHECK_TIMEOUT)
        except CtrlhostError as error:
            log.debug("cannot read CRD %s: %s", name, error)
            continue
        if served is not None and (fields := sorted(lost_fields(crd, served))):
            log.error(
                "the CRD is older than the plugin: %s lacks %s, which the server drops; apply the output of "
                "`ctrlhost crds --plugins %s`",
                name,
                ", ".join(fields),
                plugin,
            )


def refused_names(crd: Mapping[str, Any]) -> str:
    """Return why the server does not accept the names of a CRD, such as `"evc" is already in use`; "" if it does."""
    for condition in crd.get("status", {}).get("conditions") or ():
        if condition.get("type") == "NamesAccepted" and condition.get("status") == "False":
            return condition.get("message") or condition.get("reason") or "its names are not accepted"
    return ""


def _established(client: Client, name: str, stop: threading.Event, waiting: Callable[[str], None]) -> bool:
    """Wait at most half a minute until the server serves the kind: informers wait for it as well.

    Calls `waiting` after a second: a controller, such as another plugin of this host, may have to establish it.
    """
    waited, pauses = 0.0, doubling(0.02, _SOON_ESTABLISHED)
    while not stop.is_set() and waited < _ESTABLISHED_TIMEOUT:
        try:
            crd = client.find(_API_VERSION, _KIND, name) or {}
        except CtrlhostError as error:
            log.debug("CRD %s: %s", name, error)
            crd = {}
        conditions = crd.get("status", {}).get("conditions") or ()
        if any(
            condition.get("type") == "Established" and condition.get("status") == "True" for condition in conditions
        ):
            return True
        if waited > _SOON_ESTABLISHED:
            why = refused_names(crd)
            waiting(f"{name} is not established yet{f': {why}' if why else ''}")
        pause = next(pauses)
        stop.wait(pause)
        waited += pause
    return not stop.is_set()
