"""Kinds and resources that no version of Kubernetes has, found without a server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctrlhost.client.builtin_kinds import BUILTIN_KINDS, builtin_elsewhere, spelt
from ctrlhost.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ctrlhost.permissions import Permission

_STABLE = re.compile(r"v\d+").fullmatch
#: A group that older versions had, with kinds that are elsewhere today.
_FORMER = "extensions"


def unknown_kind(api_version: str, kind: str, crds: Iterable[Mapping[str, Any]]) -> tuple[str, str] | None:
    """Return what is wrong with a kind, by those of Kubernetes and of these CRDs, and the hint.

    None if a server may have it.
    """
    group, _, version = api_version.rpartition("/")
    known = BUILTIN_KINDS.get(api_version) or _kinds_of(api_version, crds)
    if kind in known:
        return None
    if (near := spelt(kind, known)) is not None:
        return f"no kind `{kind}` in {api_version}; did you mean `{near}`?", f'write "{api_version}/{near}"'
    groups = {name.rpartition("/")[0] for name in BUILTIN_KINDS}
    # The group of a CRD is a domain. A server may be older, and have a version that later ones do not have.
    if "." in group or group == _FORMER or (group in groups and not _STABLE(version)):
        return None
    near = builtin_elsewhere(api_version, kind) or did_you_mean(kind, known)
    problem = f"no version of Kubernetes has a kind `{kind}` in {api_version}" + (f"; {near}" if near else "")
    return problem, "`kubectl api-resources` lists the kinds of a server"


def unknown_resources(permission: Permission) -> Iterator[str]:
    """Return what is wrong with the resources of a permission: a kind, or the singular, in place of the plural."""
    for api_version, kinds in BUILTIN_KINDS.items():
        if api_version.rpartition("/")[0] != permission.group:
            continue
        plurals = {kind.lower(): plural for kind, (plural, _) in kinds.items()}
        for resource in permission.resources:
            name, slash, subresource = resource.partition("/")
            plural = plurals.get(name.lower())
            if plural is not None and plural != name:
                where = permission.group or "the core group"
                yield f"no resource `{resource}` in {where}; did you mean `{plural}{slash}{subresource}`?"


def _kinds_of(api_version: str, crds: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, bool]]:
    """Return the kinds of CRDs in one group and version, as `BUILTIN_KINDS` has them."""
    return {
        crd["spec"]["names"]["kind"]: (crd["spec"]["names"]["plural"], crd["spec"]["scope"] == "Namespaced")
        for crd in crds
        if any(f"{crd['spec']['group']}/{version['name']}" == api_version for version in crd["spec"]["versions"])
    }
