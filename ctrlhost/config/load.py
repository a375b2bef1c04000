"""Settings from the TOML file, the environment and flags, in order of increasing precedence.

A setting has one path wherever it comes from: `host.listen`, `plugins.naming.mode`,
`controllers.naming/names.workers`. The environment writes it `CTRLHOST_PLUGINS__NAMING__MODE`, the command line
`--set naming.mode=enforce` (`plugins.` may be omitted). `-` and `_` are the same in the name of a setting. An invalid
value is a ConfigError with the path and the origin of the value.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from ctrlhost.config.settings import (
    ClientSettings,
    ControllerOverrides,
    HostSettings,
    InformerKind,
    InformerSettings,
    OtelSettings,
    Supervision,
)
from ctrlhost.config.types import RawValue, canonical, fit
from ctrlhost.errors import ConfigError
from ctrlhost.suggestions import suggest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ctrlhost.config.settings import Compression, Encoding
    from ctrlhost.config.shard_settings import ShardSettings

T = TypeVar("T", bound=msgspec.Struct)

_PREFIX = "CTRLHOST_"
_SECTIONS = ("host", "client", "plugins", "controllers", "supervision", "informers", "otel", "shards")
_TOML = 'settings are TOML: a line `[host]`, and below it lines such as `listen = "127.0.0.1:8484"`'


@dataclass(frozen=True, slots=True)
class Given:
    """A setting as given; `kept` unless it comes from the environment: file and `--set` reach a pod as they are."""

    text: str
    kept: bool


@dataclass(frozen=True)
class Configuration:
    """All settings as given, each checked against its type when it is read first; `source` names the file, if any."""

    #: Not shown: it may contain secrets.
    tree: dict[str, dict[str, Any]] = field(repr=False)
    source: str
    _supervisions: dict[str, Supervision] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def gather(
        cls,
        file: Path | None = None,
        environ: Mapping[str, str] | None = None,
        assignments: Sequence[str] = (),
        flags: Mapping[str, Any] | None = None,
    ) -> Configuration:
        """Read the file, then apply the environment, the `--set` assignments and the host's flags."""
        tree = _read(file) if file else {}
        for section in tree:
            if section not in _SECTIONS:
                raise ConfigError(f"{section}: unknown section (in {file})", hint=suggest(section, _SECTIONS))
            if not isinstance(tree[section], dict):
                raise ConfigError(f"{section}: expected a table (in {file})")
        configuration = cls({section: dict(tree.get(section, {})) for section in _SECTIONS}, str(file or ""))
        for name, value in sorted((environ or {}).items()):
            path = _environment_path(name)
            if path:
                configuration._put(path, RawValue(value, name))
        for assignment in assignments:
            configuration._put(*_assignment(assignment))
        for name, value in (flags or {}).items():
            if value is not None and value != ():
                path = ("shards", "enabled") if name == "shards" else ("host", name)
                configuration._put(path, value)
        return configuration

    def given(self, *path: str) -> Given | None:
        """Return a setting of one value as some source gives it, unchecked; None for a default and for a table."""
        value: Any = self.tree
        for step in path:
            value = value.get(_existing(value, step)) if isinstance(value, dict) else None
        if value is None or isinstance(value, dict):
            return None
        if isinstance(value, RawValue):
            return Given(value.raw, value.origin.startswith("--set "))
        return Given(str(value), kept=True)

    @cached_property
    def host(self) -> HostSettings:
        """The host's own settings. With shards, a leader is elected for all that has none."""
        settings = fit(self.tree["host"], HostSettings, "host", self.source)
        if not self.sharded or settings.leader_elect:
            return settings
        if self.given("host", "leader_elect") is not None:
            raise ConfigError(
                "host.leader_elect: `false` and `shards.enabled` are mutually exclusive",
                hint="leave it out: with shards, a leader runs the controllers without `shard_by`",
            )
        return replace(settings, leader_elect=True)

    @property
    def sharded(self) -> bool:
        """Whether replicas share the keys of controllers."""
        # Without the section, a start needs no settings of it.
        return bool(self.tree.get("shards")) and self.shards.enabled

    @cached_property
    def shards(self) -> ShardSettings:
        """How replicas share the keys of controllers."""
        from ctrlhost.config.shard_settings import ShardSettings

        return fit(self.tree.get("shards", {}), ShardSettings, "shards", self.source)

    @cached_property
    def client(self) -> ClientSettings:
        """The settings of connections to the API server."""
        return fit(self.tree.get("client", {}), ClientSettings, "client", self.source)

    @cached_property
    def otel(self) -> OtelSettings:
        """The settings of traces."""
        return fit(self.tree.get("otel", {}), OtelSettings, "otel", self.source)

    def plugin(self, name: str, kind: type[T] | None) -> T | None:
        """Return the settings of the plugin `name`, whose struct is `kind`; None for a plugin without settings."""
        table = self.section("plugins", name)
        if kind is None:
            if table:
                origin = self._origin(table)
                raise ConfigError(f"plugins.{name}.{next(iter(table))}: the plugin `{name}` has no settings{origin}")
            return None
        return fit(table, kind, f"plugins.{name}", self.source)

    @cached_property
    def controllers(self) -> dict[str, ControllerOverrides]:
        """The operator's overrides by `plugin/controller`."""
        return {
            name: fit(self.section("controllers", name), ControllerOverrides, f"controllers.{name}", self.source)
            for name in self.tree["controllers"]
        }

    def supervision(self, plugin: str) -> Supervision:
        """Return what the host allows the plugin: its own table over the defaults for all plugins."""
        known = self._supervisions.get(plugin)
        if known is None:
            table = self.tree.get("supervision", {})
            own = self.section("supervision", plugin) if _existing(table, plugin) in table else {}
            merged = _over(self._supervision_of_all, own)
            known = self._supervisions[plugin] = fit(merged, Supervision, f"supervision.{plugin}", self.source)
        return known

    @cached_property
    def _supervision_of_all(self) -> dict[str, Any]:
        table = self.tree.get("supervision", {})
        common = {name: value for name, value in table.items() if _is_default(name, value)}
        # The defaults are checked on their own, so that an error names where they are.
        fit(common, Supervision, "supervision", self.source)
        return common

    @cached_property
    def informers(self) -> InformerSettings:
        """How the host reads all kinds."""
        table = self.tree.get("informers", {})
        common = {name: value for name, value in table.items() if not isinstance(value, dict)}
        return fit(common, InformerSettings, "informers", self.source)

    @property
    def encodings(self) -> tuple[Encoding, dict[str, Encoding]]:
        """The encoding of all kinds, and those of single kinds by `APIVERSION/KIND`."""
        chosen = {name: kind.encoding for name, kind in self._kinds.items() if kind.encoding is not None}
        return self.informers.encoding, chosen

    @property
    def compressions(self) -> tuple[Compression, dict[str, Compression]]:
        """The compression of all kinds, and those of single kinds by `APIVERSION/KIND`."""
        chosen = {name: kind.compression for name, kind in self._kinds.items() if kind.compression is not None}
        return self.informers.compression, chosen

    @cached_property
    def _kinds(self) -> dict[str, InformerKind]:
        kinds = {}
        for name, value in self.tree.get("informers", {}).items():
            if isinstance(value, dict):
                if "/" not in name:
                    raise ConfigError(f"informers.{name}: write the kind as `APIVERSION/KIND`{self._origin(value)}")
                kinds[name] = fit(value, InformerKind, f'informers."{name}"', self.source)
        return kinds

    def leaves(self) -> dict[tuple[str, ...], Any]:
        """Return each single value by its path, as some source gives it."""
        return dict(_leaves((), self.tree))

    @classmethod
    def of_leaves(cls, leaves: Mapping[tuple[str, ...], Any], source: str) -> Configuration:
        """Return the configuration with these values."""
        configuration = cls({section: {} for section in _SECTIONS}, source)
        for path, value in leaves.items():
            configuration._put(path, value)
        return configuration

    def isolate(self, plugins: Iterable[str]) -> Configuration:
        """Apply the flag `--isolate`: these plugins get a process of their own, whatever the other sources say."""
        return self._with({("supervision", plugin, "process"): RawValue("own", "--isolate") for plugin in plugins})

    def stand_in(self, plugin: str, key: str, origin: str) -> Configuration:
        """Set a text in place of a plugin's setting whose value is known in the pod only; `origin` names the flag."""
        return self._with({("plugins", plugin, *key.split(".")): RawValue("placeholder", origin)})

    def supervised(self, plugin: str, **settings: str | int) -> Configuration:
        """Return a configuration that supervises a plugin with these settings, whatever the sources say."""
        return self._with({("supervision", plugin, name): value for name, value in settings.items()})

    def _with(self, values: Mapping[tuple[str, ...], Any]) -> Configuration:
        changed = Configuration({section: dict(table) for section, table in self.tree.items()}, self.source)
        for path, value in values.items():
            changed.tree.setdefault(path[0], {})
            changed._put(path, value)
        return changed

    def check_names(self, plugins: Iterable[str]) -> None:
        """Reject settings for plugins that do not exist; `plugins` are those installed or loaded."""
        known = {canonical(name): name for name in plugins}
        for section in ("plugins", "controllers", "supervision"):
            for name in self.tree.get(section, {}):
                if section == "supervision" and _is_default(name, self.tree[section][name]):
                    continue
                plugin = name.partition("/")[0] if section == "controllers" else name
                if canonical(plugin) not in known:
                    raise ConfigError(
                        f"{section}.{name}: no plugin `{plugin}` is installed{self._origin(self.tree[section][name])}",
                        hint=suggest(plugin, known.values()),
                    )
                if section == "controllers" and "/" not in name:
                    raise ConfigError(f"{section}.{name}: write the controller as `PLUGIN/NAME`")

    def check_controllers(self, known: Mapping[str, Collection[str] | None]) -> None:
        """Reject settings of controllers that do not exist; `known` are those by plugin, None if they are unknown."""
        for name in self.tree["controllers"]:
            plugin = name.partition("/")[0]
            names = known.get(plugin)
            if names is not None and name not in names:
                raise ConfigError(
                    f"controllers.{name}: plugin `{plugin}` has no controller of this name",
                    hint=suggest(name, names) or "the plugin has no controllers",
                )

    def section(self, section: str, name: str) -> dict[str, Any]:
        """Return what is given for one name of a section, unchecked."""
        table = self.tree[section]
        values = table.get(_existing(table, name), {})
        if not isinstance(values, dict):
            raise ConfigError(f"{section}.{name}: expected a table{self._origin(values)}")
        return values

    def _origin(self, value: Any) -> str:
        raw = _first_raw(value)
        origin = raw.origin if raw else self.source
        return f" (in {origin})" if origin else ""

    def _put(self, path: tuple[str, ...], raw: Any) -> None:
        table: dict[str, Any] = self.tree[path[0]]
        for step in path[1:-1]:
            key = _existing(table, step)
            below = table.get(key)
            # A copy: the tables of the file must not change.
            table[key] = dict(below) if isinstance(below, dict) else {}
            table = table[key]
        table[_existing(table, path[-1])] = raw


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}", hint="--config takes a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{file}: invalid TOML: {error}", hint=_TOML) from None


def _environment_path(name: str) -> tuple[str, ...] | None:
    # Kubernetes sets CTRLHOST_SERVICE_HOST and the like in pods next to a Service called ctrlhost, so only names
    # with one of the sections and a double underscore are read.
    section, *rest = name.removeprefix(_PREFIX).lower().split("__")
    if not name.startswith(_PREFIX) or section not in _SECTIONS or not rest:
        return None
    return _path(section, rest, name)


def _assignment(assignment: str) -> tuple[tuple[str, ...], RawValue]:
    name, equals, value = assignment.partition("=")
    origin = f"--set {name.strip()}"
    # A quoted step may contain dots.
    steps = [step.strip().strip('"') for step in re.split(r'\.(?=(?:[^"]*"[^"]*")*[^"]*$)', name)]
    if not equals or len(steps) < 2 or not all(steps):
        raise ConfigError(f"{origin}: expected NAME.key=value", hint="as in `--set naming.mode=enforce`")
    section, rest = (steps[0], steps[1:]) if steps[0] in _SECTIONS else ("plugins", steps)
    return _path(section, rest, origin), RawValue(value, origin)


def _path(section: str, rest: Sequence[str], origin: str) -> tuple[str, ...]:
    needed = {"plugins": 2, "controllers": 2}.get(section, 1)
    if section == "controllers" and "/" not in rest[0] and len(rest) > needed:
        rest = [f"{rest[0]}/{rest[1]}", *rest[2:]]
    if len(rest) < needed or not all(rest):
        raise ConfigError(f"{origin}: unknown setting `{'.'.join((section, *rest))}`")
    return (section, *rest)


def _is_default(name: str, value: Any) -> bool:
    """Return whether an entry of `[supervision]` is a default for all plugins, not the table of one."""
    return not isinstance(value, dict) or canonical(name) == "deadlines"


def _over(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a plugin over the defaults for all; tables are merged."""
    merged = {name: value for name, value in common.items() if _existing(own, name) not in own}
    for name, value in own.items():
        below = common.get(_existing(common, name))
        merged[name] = _over(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _existing(table: Mapping[str, Any], name: str) -> str:
    """Return the key of `table` that equals `name`, where `-` and `_` are the same."""
    return next((key for key in table if canonical(key) == canonical(name)), name)


def _leaves(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _leaves((*path, name), value)
        else:
            yield (*path, name), value


def _first_raw(value: Any) -> RawValue | None:
    if isinstance(value, RawValue):
        return value
    if isinstance(value, dict):
        return next(filter(None, map(_first_raw, value.values())), None)
    return None
