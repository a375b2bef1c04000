"""Finding out whether the API server has a naming controller of its own, as every kube-apiserver has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost import Client

HOOK = "start-apiextensions-controllers"
"""The start-up step that /readyz lists where the controllers of CustomResourceDefinitions run inside the server."""


def has_own_controller(client: Client) -> bool:
    """Ask the server; an answer that says nothing about it, such as a refusal, counts as no."""
    response = client.transport.request("GET", "/readyz", query={"verbose": "true"})
    return HOOK in response.body.decode("utf-8", "replace")
