"""Whose a Service or StatefulSet is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ctrlhost_bitcoin.objects import names

if TYPE_CHECKING:
    from collections.abc import Mapping

Whose = Literal["ours", "nobody's", "foreign"]


def owner_reference(network: Mapping[str, Any]) -> dict[str, Any]:
    """Give the reference that makes a network the controller of what is made for it."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": network["metadata"]["name"],
        "uid": network["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def whose(live: Mapping[str, Any], network: Mapping[str, Any]) -> Whose:
    """Say whether the network controls a live object; by uid, as a name may be given twice in a row."""
    controller = _controller(live)
    if controller is None:
        return "nobody's"
    return "ours" if controller.get("uid") == network["metadata"]["uid"] and is_network(controller) else "foreign"


def is_network(reference: Mapping[str, Any]) -> bool:
    """Say whether a reference is to a network, in any version of our group."""
    return reference.get("kind") == names.KIND and _group(reference) == names.GROUP


def adopted(live: Mapping[str, Any], network: Mapping[str, Any]) -> dict[str, Any]:
    """Give a live object with the network as its controller."""
    metadata = dict(live["metadata"])
    others = [each for each in metadata.get("ownerReferences") or () if each.get("uid") != network["metadata"]["uid"]]
    metadata["ownerReferences"] = [*others, owner_reference(network)]
    return {**live, "metadata": metadata}


def owner_text(live: Mapping[str, Any]) -> str:
    """Name the owner of a live object, for people."""
    controller = _controller(live)
    return f"{controller.get('kind')} {controller.get('name')}" if controller is not None else "nobody"


def fits(selector: Any, network: str) -> bool:
    """Say whether a selector is ours or upstream's, so that the object was surely meant for this network."""
    return selector in (names.selector(network), names.upstream_selector(network))


def _controller(live: Mapping[str, Any]) -> Mapping[str, Any] | None:
    references = (live.get("metadata") or {}).get("ownerReferences") or ()
    return next((each for each in references if each.get("controller")), None)


def _group(reference: Mapping[str, Any]) -> str:
    return str(reference.get("apiVersion") or "").rpartition("/")[0]
