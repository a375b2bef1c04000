"""The checks of plugins that ask the API server: CRDs, kinds, selectors, rights, and the server's own warnings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctrlhost.authoring.findings import Finding
from ctrlhost.controller.source import KindSource
from ctrlhost.errors import CtrlhostError, Forbidden, UnknownKind
from ctrlhost.selectors.namespaces import narrowed
from ctrlhost.supervisor.rights import declared, missing_rights, rule_text
from ctrlhost.transport.responses import decode_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost.authoring.check import CheckedPlugin
    from ctrlhost.authoring.findings import Level
    from ctrlhost.client import Client
    from ctrlhost.permissions import Permission

#: Seconds for one request.
_TIMEOUT = 5.0
#: The paths of a difference that are named.
_SHOWN = 5
_WARNING = re.compile(r'\b299 \S+ "((?:[^"\\]|\\.)*)"')


def check_on_server(plugin: CheckedPlugin, client: Client) -> Iterator[Finding]:
    """Check a plugin that was set up, with its account; TransportError if the server does not answer.

    The rights are those for which a host asks at its start.
    """
    yield from _crds(plugin, client)
    own = {(crd["spec"]["group"], crd["spec"]["names"]["kind"]) for crd in plugin.crds}
    yield from _sources(plugin, client, own)
    yield from _rights(plugin, client)
    if plugin.context.webhooks or plugin.context.conversions:
        from ctrlhost.authoring.check_webhooks import check_registration

        yield from check_registration(plugin, client)


def _crds(plugin: CheckedPlugin, client: Client) -> Iterator[Finding]:
    for crd in plugin.crds:
        name = crd["metadata"]["name"]
        try:
            live = client.find(crd["apiVersion"], crd["kind"], name, timeout=_TIMEOUT)
        except Forbidden as error:
            yield Finding("error", plugin.name, "crd", f"{name} cannot be read: {error.message}", error.hint)
            continue
        if live is None:
            hint = "`ctrlhost crds` prints it; `ctrlhost run --install-crds` installs it"
            yield Finding("error", plugin.name, "crd", f"{name} is not installed", hint)
        elif paths := list(_differences(crd, live)):
            more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
            text = f"{name} as installed differs from that of the plugin: {', '.join(paths[:_SHOWN])}{more}"
            yield Finding("warning", plugin.name, "crd", text, "apply the output of `ctrlhost crds`")
        else:
            yield Finding("ok", plugin.name, "crd", f"{name} is installed")


def _differences(own: Mapping[str, Any], live: Mapping[str, Any]) -> Iterator[str]:
    """Return the paths of what the server has otherwise, but for its defaults."""
    spec = own["spec"]
    names, conversion = spec["names"], spec.get("conversion") or {"strategy": "None"}
    if "webhook" in conversion:
        # Where that is differs between installations.
        webhook = {name: value for name, value in conversion["webhook"].items() if name != "clientConfig"}
        conversion = {**conversion, "webhook": webhook}
    defaults = {"singular": names["kind"].lower(), "listKind": f"{names['kind']}List"}
    names = defaults | {name: value for name, value in names.items() if value}
    yield from _unlike({**spec, "names": names, "conversion": conversion}, live["spec"], "spec")


def _unlike(own: Any, live: Any, path: str) -> Iterator[str]:
    """Return where two values differ; the server drops what is null, false or empty."""
    if _is_empty(own) and _is_empty(live) and not path.endswith(".subresources.status"):
        return
    if isinstance(own, dict) and isinstance(live, dict):
        # Others complete a webhook of conversions, such as by certificates.
        for name in own if path.startswith("spec.conversion") else dict.fromkeys((*own, *live)):
            yield from _unlike(own.get(name), live.get(name), f"{path}.{name}")
    elif isinstance(own, list) and isinstance(live, list) and len(own) == len(live):
        for at, (declared, other) in enumerate(zip(own, live, strict=True)):
            yield from _unlike(declared, other, f"{path}[{at}]")
    elif own != live:
        yield path if own is not None else f"{path} is only in the installed one"


def _is_empty(value: Any) -> bool:
    return value is False or value in (None, "", [], {})


def _sources(plugin: CheckedPlugin, client: Client, own: set[tuple[str, str]]) -> Iterator[Finding]:
    """List one object of each source: its kind must be served, its selectors valid, and the server may warn."""
    context = plugin.context
    limit = context.services.namespaces
    seen = set()
    sources = [
        (source, limit if controller.options.namespaces is None else controller.options.namespaces)
        for controller in context.controllers
        for source in controller.sources
    ]
    for source, allowed in [*sources, *((read, limit) for read in context.reads)]:
        if not isinstance(source, KindSource):
            continue
        key = (source.api_version, source.kind, source.label_selector, source.field_selector)
        if key not in seen:
            seen.add(key)
            yield from _source(plugin.name, client, source, allowed, installed=(source.group, source.kind) not in own)


def _source(
    plugin: str, client: Client, source: KindSource, limit: Sequence[str], *, installed: bool
) -> Iterator[Finding]:
    def finding(level: Level, check: str, text: str, hint: str | None = None) -> Finding:
        return Finding(level, plugin, check, text, hint)

    kind = f"{source.kind} ({source.api_version})"
    try:
        resource = client.resource(source.api_version, source.kind, timeout=_TIMEOUT)
    except UnknownKind as error:
        # A missing CRD of the plugin itself is reported as such.
        if installed:
            yield finding("error", "kind", error.message, error.hint)
        return
    namespaces = narrowed(source.namespaces, limit) if resource.namespaced else None
    # The rights are checked apart, for each namespace.
    namespace = next(iter(namespaces), None) if isinstance(namespaces, tuple) else None
    query = {"limit": 1, "labelSelector": source.label_selector, "fieldSelector": source.field_selector}
    path = resource.path(namespace)
    answer = client.transport.request("GET", path, query=query, timeout=_TIMEOUT)
    try:
        decode_object(answer, f"GET {path}")
    except Forbidden:
        return
    except CtrlhostError as error:
        yield finding("error", "kind", f"{kind}: {error}", error.hint)
        return
    warnings = [re.sub(r"\\(.)", r"\1", warning) for warning in _WARNING.findall(answer.headers.get("warning", ""))]
    for warning in dict.fromkeys(warnings):
        yield finding("warning", "api", f"{kind}: {warning}")
    if not warnings:
        yield finding("ok", "kind", f"{kind} is served")


def _rights(plugin: CheckedPlugin, client: Client) -> Iterator[Finding]:
    wanted = list(declared(plugin.context, plugin.permissions, client))
    missing = missing_rights(client, wanted) or ()
    hint = f"`ctrlhost manifests --plugins={plugin.name} --image=IMAGE` prints the Role"
    for permission in missing:
        yield Finding("error", plugin.name, "right", f"{_refusal(permission)}: add {rule_text(permission)}", hint)
    if not missing:
        rights = {
            (permission.namespace, permission.group, what, verb)
            for permission in wanted
            for what in permission.resources
            for verb in permission.verbs
        }
        yield Finding("ok", plugin.name, "right", f"rights: {len(rights)}")


def _refusal(right: Permission) -> str:
    resources = ", ".join(f"{resource}.{right.group}" if right.group else resource for resource in right.resources)
    where = f" in namespace {right.namespace}" if right.namespace else ""
    names = f" {', '.join(right.resource_names)}" if right.resource_names else ""
    return f"may not {', '.join(right.verbs)} {resources}{names}{where}"
