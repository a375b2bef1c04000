"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ctrlhost.cli.completing import complete_installed
from ctrlhost.selectors.namespaces import LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ctrlhost_sandbox import Sandbox

    from ctrlhost.config.load import Configuration
    from ctrlhost.supervisor.plugin_file import PluginSource

FILES = click.argument("files", nargs=-1, metavar="[FILE.py]...", type=click.Path(path_type=Path))

PLUGINS = click.option(
    "--plugins",
    metavar="NAME,NAME…",
    multiple=True,
    shell_complete=complete_installed,
    help="Plugins to load; no other plugin is imported.",
)
NAMESPACE = click.option(
    "--namespace",
    "-n",
    "namespaces",
    metavar="NS,NS…",
    multiple=True,
    help="Limit controllers to these namespaces, followed as they change: names, globs (`team-*`), `label:SELECTOR`.",
)
ISOLATE = click.option(
    "--isolate",
    "isolated",
    metavar="NAME,NAME…|all",
    multiple=True,
    shell_complete=complete_installed,
    help="Run each of these plugins in a process of its own.",
)


class _Once(click.Option):
    """An option that is refused when it is given twice, where click would silently take the last value."""

    def __init__(self, *names: Any, **attributes: Any) -> None:
        """Collect the values, to count them."""
        super().__init__(*names, **(attributes | {"multiple": True, "callback": self._one}))

    def value_from_envvar(self, ctx: click.Context) -> Any:
        """Return the variable as one value."""
        value = self.resolve_envvar_value(ctx)
        return None if value is None else (value,)

    def _one(self, context: click.Context, _: click.Parameter, values: tuple[Any, ...]) -> Any:
        if len(values) > 1:
            raise click.UsageError(f"{self.opts[0]} is given {len(values)} times; give it once", context)
        return values[0] if values else None


CONFIG = click.option(
    "--config",
    cls=_Once,
    type=click.Path(path_type=Path),
    metavar="FILE",
    envvar="CTRLHOST_CONFIG",
    help="Settings file (TOML).",
)
SET = click.option(
    "--set",
    "assignments",
    metavar="NAME.key=value",
    multiple=True,
    help="Setting of a plugin, or of the host with NAME `host`; overrides file and environment.",
)


def refused(flag: str, message: str, **kind: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return an option of another command, which ends with `message` and is in no help."""

    def refuse(context: click.Context, _: click.Parameter, value: Any) -> None:
        if value:
            raise click.UsageError(message, context)

    return click.option(flag, hidden=True, expose_value=False, is_eager=True, callback=refuse, **kind)


def names(values: tuple[str, ...]) -> tuple[str, ...]:
    """Split comma-separated lists and remove duplicates; a label selector is not split."""
    pieces = (piece for value in values for piece in ([value] if value.startswith(LABEL) else value.split(",")))
    return tuple(dict.fromkeys(piece.strip() for piece in pieces if piece.strip()))


def gather(config: Path | None, assignments: tuple[str, ...], **flags: Any) -> Configuration:
    """Read all settings; `flags` are the host's settings that have an option."""
    import os

    from ctrlhost.config.load import Configuration

    return Configuration.gather(config, os.environ, assignments, flags)


def plugin_files(files: tuple[Path, ...], installed: Collection[str] = ()) -> list[PluginSource]:
    """Return the plugins in `files`, and those of the options of frameworks.

    ConfigError if two have one name, or one has a reserved name or that of an `installed` one.
    """
    from ctrlhost.cli.frameworks import foreign_plugins
    from ctrlhost.errors import ConfigError
    from ctrlhost.supervisor.loader import RESERVED_NAMES
    from ctrlhost.supervisor.plugin_file import PluginFile

    native = list(map(PluginFile, files))
    folders = list(dict.fromkeys(folder for file in native for folder in file.folders))
    plugins: dict[str, PluginSource] = {}
    for file in (*native, *foreign_plugins()):
        if file.name in RESERVED_NAMES:
            raise ConfigError(
                f"{file}: invalid name `{file.name}` of a plugin: the host reserves it",
                hint="a file is the plugin of its name; rename it",
            )
        other = str(plugins[file.name]) if file.name in plugins else "the installed plugin of `--plugins`"
        if file.name in plugins or file.name in installed:
            raise ConfigError(
                f"{file}: its plugin has the name `{file.name}`, as has {other}",
                hint="rename the file" if file.name in installed else "a file is the plugin of its name; rename one",
            )
        plugins[file.name] = file
    for file in native:
        file.folders = folders
    return list(plugins.values())


def isolate(
    configuration: Configuration, chosen: tuple[str, ...], files: Collection[PluginSource] = ()
) -> Configuration:
    """Return the settings with `--isolate`; ConfigError for a plugin that is neither selected nor one of `files`.

    Operators of other frameworks are isolated unless the settings say otherwise, or they may share a process.
    """
    from ctrlhost.errors import ConfigError
    from ctrlhost.suggestions import suggest

    selected = (*configuration.host.plugins, *(file.name for file in files))
    for name in names(chosen):
        if name != "all" and name not in selected:
            raise ConfigError(f"--isolate: the host runs no plugin `{name}`", hint=suggest(name, selected))
        configuration = configuration.isolate(selected if name == "all" else [name])
    if configuration.given("supervision", "process") is None:
        foreign = [file.name for file in files if file.wants_process]
        own = [name for name in foreign if configuration.given("supervision", name, "process") is None]
        configuration = configuration.isolate(own)
    return configuration


def sandbox_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the sandbox to a command, which receives them as parameters that begin with `sandbox_`.

    None are added where the package is not installed.
    """
    try:
        from ctrlhost_sandbox.cli.options import sandbox_options as options
    except ModuleNotFoundError:
        return command
    return options("--sandbox-")(command)


def make_sandbox(chosen: dict[str, Any]) -> Sandbox:
    """Return the sandbox that the options describe; ConfigError without the package."""
    from ctrlhost.sandbox import load_sandbox

    load_sandbox()
    from ctrlhost_sandbox.cli.options import make_sandbox

    return make_sandbox(chosen)
