"""The CustomResourceDefinition of the plugin, and the check that the server's has the same fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ctrlhost

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def crds() -> list[dict[str, Any]]:
    """Return the CRDs as fresh dicts."""
    return ctrlhost.crds_from("ctrlhost_bitcoin", "bitcoinnetworks.yaml")


def check_crds(plugin: ctrlhost.PluginContext) -> None:
    """Log which fields the server's CRD lacks, since the server drops them silently; a CRD it hides is skipped."""
    for crd in crds():
        name = crd["metadata"]["name"]
        try:
            served = plugin.client.find(crd["apiVersion"], crd["kind"], name)
        except ctrlhost.CtrlhostError as error:
            plugin.log.debug("cannot read CRD %s: %s", name, error)
            continue
        if served is not None and (fields := sorted(missing(crd, served))):
            plugin.log.error(
                "the CRD is older than the plugin: %s lacks %s, which the server drops; apply the output of "
                "`ctrlhost crds --plugins bitcoin`",
                name,
                ", ".join(fields),
            )


def missing(own: Mapping[str, Any], served: Mapping[str, Any]) -> Iterator[str]:
    """Return the paths of the fields that `own` has and `served` drops, for each version that both have."""
    theirs = {version["name"]: _schema(version) for version in served["spec"]["versions"]}
    for version in own["spec"]["versions"]:
        if version["name"] in theirs:
            yield from _lacking(_schema(version), theirs[version["name"]], "")


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return found


def _lacking(own: Mapping[str, Any], served: Mapping[str, Any], at: str) -> Iterator[str]:
    if served.get("x-kubernetes-preserve-unknown-fields"):
        return
    if "items" in own:
        yield from _lacking(own["items"], served.get("items") or {}, f"{at}[]")
    known = served.get("properties") or {}
    for name, schema in (own.get("properties") or {}).items():
        path = f"{at}.{name}" if at else name
        if name in known:
            yield from _lacking(schema, known[name], path)
        elif "additionalProperties" not in served:
            yield path
