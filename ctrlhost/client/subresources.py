"""Subresources of a kind, as discovery lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.client.client import Client
from ctrlhost.errors import NotFound
from ctrlhost.transport.interface import HttpRequest
from ctrlhost.transport.responses import decode_object
from ctrlhost.transport.steps import Steps, steps_of

if TYPE_CHECKING:
    from ctrlhost.client.resources import Resource


def lacks(client: Client, api_version: str, kind: str, subresource: str) -> Steps[bool]:
    """Return whether the server serves a kind without a subresource; False if it does not serve the kind."""
    try:
        resource: Resource = yield from steps_of(Client.resource)(client, api_version, kind)
        path = f"/apis/{api_version}" if resource.group else f"/api/{api_version}"
        answer = decode_object((yield from client.discovery.steps(HttpRequest("GET", path))), f"GET {path}")
    except NotFound:
        return False
    served = {entry.get("name") for entry in answer.get("resources") or ()}
    return resource.plural in served and f"{resource.plural}/{subresource}" not in served
