"""Applying objects as a test does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ctrlhost.cache import Object
from ctrlhost.errors import CtrlhostError, NotFound, TooManyRequests
from ctrlhost.supervisor.crds import refused_names
from ctrlhost.testing.admission import AdmissionTransport, Applied, denials
from ctrlhost.testing.documents import documents

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from ctrlhost.client import Client
    from ctrlhost.models.typed_objects import AnyObject

_MANAGER = "ctrlhost-test"
#: Seconds that a CustomResourceDefinition may take until its kinds are served.
_ESTABLISHED = 30.0
#: Seconds that a refusal of its names must last: the first one seen may be of the names before.
_REFUSED = 1.0


def apply_objects(
    client: Client, objects: Iterable[str | os.PathLike[str] | AnyObject], *, without_effect: bool = False
) -> Applied:
    """Apply objects server-side, or create those with a generated name, and return them as the server has them.

    After a CustomResourceDefinition its kinds are served; CtrlhostError if the server does not accept its names,
    TimeoutError if they are not served within 30 seconds. Denied if a webhook refuses one.
    """
    transport = AdmissionTransport(client.transport, without_effect=without_effect)
    client = client.derive(transport=transport)
    with denials():
        contents = [_applied(client, document, without_effect) for what in objects for document in documents(what)]
    return Applied(map(Object, contents), transport.warnings)


def _applied(client: Client, content: dict[str, Any], without_effect: bool) -> dict[str, Any]:
    metadata = content.get("metadata") or {}
    if "name" not in metadata and "generateName" in metadata:
        return client.create(content)
    answer = client.apply(content, field_manager=_MANAGER)
    if answer["kind"] == "CustomResourceDefinition" and not without_effect:
        _wait_for_kinds(client, answer)
    return answer


def _wait_for_kinds(client: Client, crd: Mapping[str, Any]) -> None:
    spec, name, begun = crd["spec"], crd["metadata"]["name"], time.monotonic()
    for version in (candidate["name"] for candidate in spec["versions"] if candidate["served"]):
        while not _serves(client, f"{spec['group']}/{version}", spec["names"]["kind"]):
            waited = time.monotonic() - begun
            if waited >= _REFUSED and (why := refused_names(client.get(crd["apiVersion"], crd["kind"], name))):
                raise CtrlhostError(
                    f"CRD {name}: the server does not accept its names: {why}",
                    hint=f"another CRD of {spec['group']} has them: give this one other names, or delete that one",
                )
            if waited >= _ESTABLISHED:
                raise TimeoutError(f"{name} is not served after {_ESTABLISHED:g} s")
            time.sleep(0.01)


def _serves(client: Client, api_version: str, kind: str) -> bool:
    try:
        next(client.list(api_version, kind, page_size=1), None)
    except (NotFound, TooManyRequests):
        return False
    return True
