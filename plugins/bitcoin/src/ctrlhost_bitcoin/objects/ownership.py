"""Ownership of Services and StatefulSets, as the server returns them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ctrlhost_bitcoin.objects import names

if TYPE_CHECKING:
    from collections.abc import Mapping

Ownership = Literal["ours", "unowned", "foreign"]


def controller_of(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the reference to the owner that controls an object."""
    references = (obj.get("metadata") or {}).get("ownerReferences") or ()
    return next((each for each in references if each.get("controller")), None)


def is_network(api_version: str, kind: str) -> bool:
    """Return whether an owner is a network, in any version of our group."""
    return kind == names.KIND and api_version.rpartition("/")[0] == names.GROUP


def classify(live: Mapping[str, Any], network: Mapping[str, Any]) -> Ownership:
    """Return whether the network controls a live object; by uid, since a name can be used again."""
    controller = controller_of(live)
    if controller is None:
        return "unowned"
    ours = is_network(controller["apiVersion"], controller["kind"])
    return "ours" if ours and controller["uid"] == network["metadata"]["uid"] else "foreign"


def owner_text(live: Mapping[str, Any]) -> str:
    """Name the owner of a live object for messages."""
    controller = controller_of(live)
    return f"{controller.get('kind')} {controller.get('name')}" if controller is not None else "nobody"


def adopted(live: Mapping[str, Any], network: Mapping[str, Any]) -> dict[str, Any]:
    """Return a live object with the network as its controller."""
    uid = network["metadata"]["uid"]
    reference = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": network["metadata"]["name"], "uid": uid}
    others = [each for each in live["metadata"].get("ownerReferences") or () if each.get("uid") != uid]
    references = [*others, {**reference, "controller": True, "blockOwnerDeletion": True}]
    return {**live, "metadata": {**live["metadata"], "ownerReferences": references}}


def fits(selector: Any, network: str) -> bool:
    """Return whether a selector is ours or upstream's, so that the object was surely meant for this network."""
    return selector in (names.selector(network), names.upstream_selector(network))
