"""The declared webhooks of a plugin in one host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from ctrlhost.duration import in_seconds
from ctrlhost.models.kinds import kind_of
from ctrlhost.webhooks.conversion import Converters
from ctrlhost.webhooks.reads import WebhookReads
from ctrlhost.webhooks.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ctrlhost.controller.index import Index
    from ctrlhost.declarative.declaration import Declaration, DeclaredFunction
    from ctrlhost.informers.plugin_informer import PluginInformer
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.webhooks.conversion import Convert

#: What `"*"` stands for. Nothing connects to a plain object, and a deletion has nothing to change.
_ALL = {"validate": ("CREATE", "UPDATE", "DELETE"), "mutate": ("CREATE", "UPDATE")}
TIMEOUT = "5s"


def add_webhooks(declaration: Declaration, host: PluginContext, crds: Sequence[Mapping[str, Any]]) -> None:
    """Register the webhooks and the conversions, whose declaration has no mistakes; `crds` are those of the plugin."""
    host.webhooks += [_webhook(declared, host, declaration.indexes) for declared in declaration.webhooks]
    host.conversions += converters_of(declaration, host.name, crds)


def webhook_name(declared: DeclaredFunction) -> str:
    """Return the name of a webhook: as declared, else that of the function."""
    return str(declared.options.get("name") or declared.name.lower().replace("_", "-").strip("-"))


def operations_of(declared: DeclaredFunction) -> tuple[str, ...]:
    """Return the operations as the author wrote them, with `"*"` replaced."""
    operations = declared.options["operations"]
    listed = (operations,) if isinstance(operations, str) else tuple(operations)
    return _ALL[declared.decorator] if "*" in listed else tuple(dict.fromkeys(listed))


def conversion_versions(declared: DeclaredFunction) -> tuple[str, str]:
    """Return the versions from which and to which a function converts."""
    source, target = (_version(declared.options[name]) for name in ("source", "target"))
    return source, target


def converters_of(declaration: Declaration, plugin: str, crds: Sequence[Mapping[str, Any]]) -> list[Converters]:
    """Return the conversions of the kinds whose CRDs are given."""
    functions: dict[tuple[str, str], dict[tuple[str, str], Convert]] = {}
    for declared in declaration.conversions:
        functions.setdefault(group_kind(declared), {})[conversion_versions(declared)] = declared.function
    by_kind = {(crd["spec"]["group"], crd["spec"]["names"]["kind"]): crd for crd in crds}
    return [Converters(plugin, by_kind[kind], own) for kind, own in functions.items() if kind in by_kind]


def group_kind(declared: DeclaredFunction) -> tuple[str, str]:
    """Return group and kind of the objects that a function converts."""
    kind = kind_of(declared.options["kind"])
    return kind.api_version.rpartition("/")[0], kind.kind


def _version(version: Any) -> str:
    """Return a version that is given by its name or its struct."""
    return version if isinstance(version, str) else kind_of(version).api_version.rpartition("/")[2]


def _webhook(declared: DeclaredFunction, host: PluginContext, indexes: Sequence[Index[Any]]) -> Webhook:
    options = declared.options
    informer_of: Callable[..., PluginInformer] = host.informer  # type: ignore[assignment]
    reads = [kind_of(reference)[:2] for reference in options.get("reads") or ()]
    return Webhook(
        plugin=host.name,
        name=webhook_name(declared),
        type=cast("Literal['validate', 'mutate']", declared.decorator),
        kind=kind_of(options["kind"]),
        function=declared.function,
        is_async=declared.is_async,
        function_name=declared.name,
        place=declared.place,
        operations=operations_of(declared),
        failure_policy=options.get("failure_policy", "Fail"),
        timeout=in_seconds(options.get("timeout", TIMEOUT)),
        subresource=options.get("subresource") or "",
        when=options.get("when") or "",
        namespaces=tuple(options.get("namespaces") or ()),
        label_selector=options.get("label_selector") or "",
        reinvoke=options.get("reinvoke", True),
        reads=WebhookReads(host.scope, {kind: informer_of(*kind) for kind in reads}, indexes),
    )
