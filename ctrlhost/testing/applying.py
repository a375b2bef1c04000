"""Applying objects as a test does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import CtrlhostError, NotFound, TooManyRequests
from ctrlhost.supervisor.crds import refused_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.client import Client

_MANAGER = "ctrlhost-test"
#: Seconds that a CustomResourceDefinition may take until its kinds are served.
_ESTABLISHED = 30.0
#: Seconds that a refusal of its names must last: the first one seen may be of the names before.
_REFUSED = 1.0


def applied(client: Client, content: dict[str, Any]) -> dict[str, Any]:
    """Apply an object server-side, or create one with a generated name, and return it as the server has it.

    After a CustomResourceDefinition its kinds are served; CtrlhostError if the server does not accept its names,
    TimeoutError if they are not served within 30 seconds.
    """
    metadata = content.get("metadata") or {}
    if "name" not in metadata and "generateName" in metadata:
        return client.create(content)
    answer = client.apply(content, field_manager=_MANAGER)
    if answer["kind"] == "CustomResourceDefinition":
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
