"""Install the CustomResourceDefinitions of plugins."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import AlreadyExists, ApiError, CtrlhostError, TransportError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from ctrlhost.client import Client

log = logging.getLogger("ctrlhost.crds")

_API_VERSION, _KIND = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
_FIRST_DELAY, _MAX_DELAY = 0.25, 15.0
_ESTABLISHED_TIMEOUT, _SOON_ESTABLISHED = 30.0, 1.0


def install_crds(
    client: Client, crds: Sequence[dict[str, Any]], stop: threading.Event, waiting: Callable[[str], None]
) -> bool:
    """Create or update the CRDs, and wait until the server serves them; False if `stop` was set first.

    Requests are retried with back-off, and `waiting` is called with the reason, until the server accepts them. ApiError
    for a CRD that the server rejects for good, such as an invalid one.
    """
    for crd in crds:
        delay = _FIRST_DELAY
        while not stop.is_set():
            try:
                _install(client, crd)
                break
            except (TransportError, ApiError) as error:
                if isinstance(error, ApiError) and error.status in (400, 422):
                    raise
                waiting(f"{crd['metadata']['name']}: {error}")
                stop.wait(delay)
                delay = min(delay * 2, _MAX_DELAY)
    return all(_established(client, crd["metadata"]["name"], stop, waiting) for crd in crds) and not stop.is_set()


def _install(client: Client, crd: dict[str, Any]) -> None:
    name = crd["metadata"]["name"]
    try:
        client.create(crd)
    except AlreadyExists:
        before = client.find(_API_VERSION, _KIND, name)
        after = client.apply(crd, field_manager="ctrlhost")
        if before is None or before["metadata"].get("resourceVersion") != after["metadata"].get("resourceVersion"):
            log.info("updated CRD %s", name)
    else:
        log.info("installed CRD %s", name)


def _established(client: Client, name: str, stop: threading.Event, waiting: Callable[[str], None]) -> bool:
    """Wait at most half a minute until the server serves the kind: informers wait for it as well.

    Calls `waiting` after a second: a controller, such as another plugin of this host, may have to establish it.
    """
    waited, pause = 0.0, 0.02
    while not stop.is_set() and waited < _ESTABLISHED_TIMEOUT:
        try:
            found = client.find(_API_VERSION, _KIND, name) or {}
        except CtrlhostError as error:
            log.debug("CRD %s: %s", name, error)
            found = {}
        conditions = found.get("status", {}).get("conditions") or ()
        if any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions):
            return True
        if waited > _SOON_ESTABLISHED:
            waiting(f"{name} is not established yet")
        stop.wait(pause)
        waited, pause = waited + pause, min(pause * 2, _SOON_ESTABLISHED)
    return not stop.is_set()
