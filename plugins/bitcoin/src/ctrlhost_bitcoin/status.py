"""The status: putting it together, and writing it where it differs."""

from __future__ import annotations

import copy
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_bitcoin.objects import names
from ctrlhost_bitcoin.verdicts import MESH_CONVERGED, NOT_LOOKED, NOT_YET, PARTS, READY, UP, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctrlhost_bitcoin.mesh.nodes import Node

_TRIES = 6
_LONGEST_PAUSE = 0.02


class OldCrd(ctrlhost.CtrlhostError):
    """The server drops fields of the status, since its CRD does not have them."""


@dataclass(slots=True)
class Wanted:
    """What the status is to say; a verdict that is missing leaves its condition as it is."""

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    #: None leaves the nodes as they are.
    nodes: Sequence[Node] | None = None
    replicas: int = 0

    def applied(self, network: Mapping[str, Any], clock: ctrlhost.Clock) -> dict[str, Any]:
        """Give the network's status as it should be."""
        metadata, status = network["metadata"], copy.deepcopy(network.get("status") or {})
        generation = int(metadata.get("generation") or 0)
        if self.nodes is not None:
            name = metadata["name"]
            status["nodes"] = [node.entry(name) for node in self.nodes]
            status["replicas"] = self.replicas
            status["readyReplicas"] = sum(node.ready for node in self.nodes)
            status["selector"] = names.selector_text(name)
        status.setdefault("nodes", [])
        status["observedGeneration"] = generation
        holder = {"status": status}
        told = {condition.get("type") for condition in status.get("conditions") or ()}
        verdicts = dict(self.verdicts)
        if MESH_CONVERGED not in told and self.nodes is not None:
            verdicts.setdefault(MESH_CONVERGED, NOT_LOOKED)
        for type_ in (*PARTS, READY):
            verdict = _overall(holder, self.verdicts) if type_ == READY else verdicts.get(type_)
            if verdict is not None:
                ctrlhost.conditions.set(
                    holder,
                    type_,
                    verdict.status,
                    verdict.reason,
                    verdict.message,
                    clock,
                    observed_generation=generation,
                )
        return status


def condition(network: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """Give a condition of a network, an empty one where it has none."""
    return ctrlhost.conditions.get(network, type_) or {}


def write(ctx: ctrlhost.Context, network: dict[str, Any], wanted: Wanted) -> dict[str, Any] | None:
    """Write the status if it differs, and give the network as it is then; None if it is gone."""
    for left in reversed(range(_TRIES)):
        status = wanted.applied(network, ctx.clock)
        if status == network.get("status"):
            return network
        try:
            written = ctx.client.replace({**network, "status": status}, "status")
        except ctrlhost.NotFound:
            return None
        except ctrlhost.Conflict:
            if not left:
                raise
            # Whoever writes at the same time is to be through by then.
            time.sleep(random.uniform(0, _LONGEST_PAUSE))  # noqa: S311 - only keeps writers apart
            fresh = ctx.client.find(names.API_VERSION, names.KIND, network["metadata"]["name"], namespace_of(network))
            if fresh is None or fresh["metadata"]["uid"] != network["metadata"]["uid"]:
                return None
            network = fresh
            continue
        if "nodes" not in (written.get("status") or {}):
            raise OldCrd(
                "the server drops status.nodes: the CRD is older than the plugin",
                hint="apply what `ctrlhost crds --plugins bitcoin` prints",
            )
        return written
    raise AssertionError("the last try returns or raises")


def namespace_of(network: Mapping[str, Any]) -> str:
    """Give the namespace of a network."""
    return str(network["metadata"].get("namespace") or "")


def _overall(holder: Mapping[str, Any], fresh: Mapping[str, Verdict]) -> Verdict:
    """Judge the whole: the first part that is not True decides."""
    for type_ in PARTS:
        found = condition(holder, type_)
        if found and found.get("status") != "True":
            reason, message = str(found.get("reason")), str(found.get("message"))
            return Verdict(False, reason, message)
        if not found and type_ in fresh:
            return Verdict(None, "Unknown", f"{type_} is not known yet")
    # What was said of the mesh was said of other nodes, as long as these were not asked.
    return UP if MESH_CONVERGED in fresh else NOT_YET
