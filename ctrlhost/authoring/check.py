"""The checks of plugins that need no server: settings, declarations, set-up and CRDs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ctrlhost.authoring.findings import HOST, Finding
from ctrlhost.authoring.invalid_crds import HINT, UNCHECKED, can_check_crds, invalid_crds, name_of
from ctrlhost.authoring.status_fields import required_status_fields
from ctrlhost.authoring.unknown_kinds import unknown_kind, unknown_resources
from ctrlhost.config.types import canonical
from ctrlhost.controller.source import KindSource
from ctrlhost.coordination.leadership import check_plugins
from ctrlhost.declarative.checks import DeclarationError
from ctrlhost.errors import ConfigError, CtrlhostError
from ctrlhost.host import log_levels
from ctrlhost.manifests.loading import Loading
from ctrlhost.server.addresses import UNIX, parse_address
from ctrlhost.supervisor.containment import with_place
from ctrlhost.supervisor.loader import name_of as name_of_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ctrlhost.authoring.findings import Level
    from ctrlhost.config.load import Configuration
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.manifests.loading import SetUpPlugin
    from ctrlhost.models.kinds import Kind
    from ctrlhost.permissions import Permission
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.supervisor.loader import Plugin

T = TypeVar("T")

#: The settings of the host that say which server to ask.
_SERVER = ("kubeconfig", "context")


@dataclass(frozen=True, slots=True)
class CheckedPlugin:
    """A plugin that was set up, with those of its CRDs that a server accepts, and the rights that it asks for."""

    name: str
    context: PluginContext
    crds: list[dict[str, Any]]
    permissions: list[Permission]


class OfflineCheck:
    """The checks of some plugins. `findings` has the results, `plugins` those that could be set up."""

    def __init__(
        self, chosen: Sequence[object], configuration: Configuration, known: Sequence[str], *, kinds: bool = True
    ) -> None:
        """Check plugins: names of installed ones, or modules and objects. `known` are the names that settings may have.

        Settings that are wrong are findings; the rest is checked as if they were not given. `kinds` is whether to judge
        kinds and resources by those of Kubernetes, where no server is asked.
        """
        self._judges_kinds = kinds
        self.findings: list[Finding] = []
        self.plugins: list[CheckedPlugin] = []
        #: Whether a plugin can never be loaded, such as an operator that needs what the package of its framework lacks.
        self.refused = False
        #: The settings without the sections that are wrong.
        self.configuration = configuration
        names = [plugin if isinstance(plugin, str) else name_of_plugin(plugin) for plugin in chosen]
        self._check_host(known, names)
        loading = Loading(self.configuration)
        for plugin in chosen:
            self._check_plugin(loading, plugin)
        controllers = {
            plugin.name: [controller.name for controller in plugin.context.controllers] for plugin in self.plugins
        }
        self._try(HOST, "settings", lambda: self.configuration.check_controllers(controllers))

    def _add(self, level: Level, plugin: str, check: str, text: str, hint: str | None = None) -> None:
        finding = Finding(level, plugin, check, text, hint)
        # Sections of the settings have parts in common, and a model has its mistakes in the declaration and as a CRD.
        same = (replace(finding, check=check) if level == "error" else finding for finding in self.findings)
        if finding not in same:
            self.findings.append(finding)

    def _try(self, plugin: str, check: str, function: Callable[[], T]) -> T | None:
        """Return what a function returns; None if it raises, which is a finding."""
        try:
            return function()
        except DeclarationError as error:
            for mistake in error.mistakes:
                self._add("error", plugin, "declaration", str(mistake), mistake.hint)
            kind = error.settings
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                self._try(plugin, "settings", lambda: self.configuration.plugin(plugin, kind))
        except CtrlhostError as error:
            self.refused |= check == "load" and isinstance(error, ConfigError)
            self._add("error", plugin, check, error.message, error.hint)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a plugin raises in a hook
            self._add("error", plugin, check, with_place(error))
        return None

    def _errors(self) -> int:
        return sum(finding.level == "error" for finding in self.findings)

    def _check_host(self, known: Sequence[str], names: Sequence[str]) -> None:
        settings = self.configuration
        for section, read in (
            ("host", lambda: settings.host),
            ("host", lambda: log_levels.check(settings.host.log_levels, known)),
            ("host", lambda: check_plugins(settings.host, names)),
            ("host", lambda: _check_addresses(settings.host)),
            ("client", lambda: settings.client),
            ("otel", lambda: settings.otel),
            ("informers", lambda: settings.encodings),
            ("controllers", lambda: settings.controllers),
        ):
            before = self._errors()
            self._try(HOST, "settings", read)
            if self._errors() > before:
                self._drop(section)
        self._try(HOST, "settings", lambda: settings.check_names(known))
        if not self._errors():
            self._add("ok", HOST, "settings", "valid")

    def _drop(self, section: str) -> None:
        """Leave a section of the settings out; of that of the host, all but which server to ask."""
        kept = {
            name: setting for name, setting in self.configuration.tree[section].items() if canonical(name) in _SERVER
        }
        for left in (kept if section == "host" else {}, {}):
            self.configuration = replace(self.configuration, tree={**self.configuration.tree, section: left})
            with suppress(ConfigError):
                _ = self.configuration.host
                break

    def _check_plugin(self, loading: Loading, chosen: object) -> None:
        name = chosen if isinstance(chosen, str) else name_of_plugin(chosen)
        self._try(name, "settings", lambda: self.configuration.supervision(name))
        plugin = self._try(name, "load", lambda: loading.load(chosen))
        if plugin is None:
            return
        self._add("ok", name, "load", plugin.installed or "loaded")
        before = self._errors()
        settings = self._try(name, "settings", lambda: loading.settings(plugin))
        usable = self._errors() == before
        if usable:
            self._add("ok", name, "settings", "none" if settings is None else "valid")
        context = self._set_up(loading, plugin, settings, usable=usable)
        crds = self._valid_crds(plugin)
        self._try(name, "object", plugin.objects)
        if context is None:
            return
        permissions = self._try(name, "right", lambda: plugin.permissions(context.settings))
        if conversions := context.context.conversions:
            from ctrlhost.authoring.lossy_conversions import check_conversions

            self.findings += check_conversions(name, conversions, crds or ())
        sources = kind_sources(context.context)
        self._check_statuses(name, sources)
        if self._judges_kinds:
            kinds = [source.reference for source in sources] + [webhook.kind for webhook in context.context.webhooks]
            self._check_kinds(name, kinds, crds or (), permissions or ())
        if usable and crds is not None and permissions is not None:
            self.plugins.append(CheckedPlugin(name, context.context, crds, permissions))

    def _set_up(self, loading: Loading, plugin: Plugin, settings: Any, *, usable: bool) -> SetUpPlugin | None:
        """Set the plugin up; with the default settings if the given ones are not usable."""
        if not usable:
            try:
                settings = _without(self.configuration, plugin.name).plugin(plugin.name, plugin.settings_type())
            except Exception:  # noqa: BLE001 - a setting has no default, or the hook fails: that is a finding already
                return None
        context = self._try(plugin.name, "declaration", lambda: loading.set_up(plugin, settings))
        if context is not None:
            text = f"controllers: {len(context.context.controllers)}"
            if webhooks := context.context.webhooks:
                text += f", webhooks: {len(webhooks)}"
            self._add("ok", plugin.name, "declaration", text)
        return context

    def _check_statuses(self, plugin: str, sources: Sequence[KindSource]) -> None:
        for model in dict.fromkeys(source.model for source in sources if source.model is not None):
            if fields := required_status_fields(model):
                text = f"{model.__name__}: an object that lacks {' or '.join(fields)} does not fit: there is no default"
                self._add("warning", plugin, "declaration", text, "write one, such as `ready: int = 0`")

    def _check_kinds(
        self,
        plugin: str,
        kinds: Sequence[Kind],
        crds: Sequence[Mapping[str, Any]],
        permissions: Sequence[Permission],
    ) -> None:
        for kind in kinds:
            if (unknown := unknown_kind(*kind[:2], crds)) is not None:
                self._add("error", plugin, "kind", *unknown)
        for permission in permissions:
            for problem in unknown_resources(permission):
                self._add("error", plugin, "right", problem, "a permission names the plural, as a URL does")

    def _valid_crds(self, plugin: Plugin) -> list[dict[str, Any]] | None:
        """Return the CRDs that a server accepts; None if the plugin has none to return."""
        crds = self._try(plugin.name, "crd", plugin.crds)
        if crds is None:
            return None
        if crds and not can_check_crds():
            self._add("warning", plugin.name, "crd", UNCHECKED)
            return crds
        invalid = dict(invalid_crds(crds))
        for problem in invalid.values():
            self._add("error", plugin.name, "crd", problem, HINT)
        for name in map(name_of, crds):
            if name not in invalid:
                self._add("ok", plugin.name, "crd", f"{name} is valid")
        return [crd for crd in crds if name_of(crd) not in invalid]


def kind_sources(context: PluginContext) -> list[KindSource]:
    """Return the sources of kinds of a plugin that was set up."""
    sources = [source for controller in context.controllers for source in controller.sources]
    return [source for source in (*sources, *context.reads) if isinstance(source, KindSource)]


def _check_addresses(settings: HostSettings) -> None:
    """Check the form of the addresses; whether they are free shows only in a running host."""
    for name in ("listen", "listen_probes", "listen_metrics", "webhook_listen"):
        address = getattr(settings, name)
        if address and not address.startswith(UNIX):
            parse_address(address, f"host.{name}")


def _without(configuration: Configuration, plugin: str) -> Configuration:
    """Return the settings without those of a plugin."""
    own = {name: table for name, table in configuration.tree["plugins"].items() if canonical(name) != canonical(plugin)}
    return replace(configuration, tree={**configuration.tree, "plugins": own})
