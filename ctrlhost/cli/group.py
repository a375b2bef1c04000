"""The group of commands: each is imported when it is called, so that `ctrlhost version` costs next to nothing."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import Any, TypeAlias

import click

_Resolved: TypeAlias = tuple[str | None, click.Command | None, list[str]]

#: Name, and what `ctrlhost --help` says of it; the command is `command` in the module of the same name.
COMMANDS = {
    "run": "Run plugins until asked to stop.",
    "plugins": "List the plugins that are installed.",
    "crds": "Print the CustomResourceDefinitions of plugins.",
    "models": "Print typed models of a custom kind, from its CRD.",
    "manifests": "Print what a cluster needs to run plugins: Deployment, RBAC, CRDs.",
    "sandbox": "Run the embedded API server alone.",
    "version": "Print the version.",
}


class LazyGroup(click.Group):
    """A group that knows its commands by name, and asks an installed plugin for those under the plugin's name."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Give the host's own commands; those of plugins would have to be imported for it."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        """Import the command, or load the plugin of that name and ask it."""
        if cmd_name in COMMANDS:
            command: click.Command = import_module(f"ctrlhost.cli.{cmd_name}").command
            return command
        return _plugin_commands(cmd_name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> _Resolved:
        """Find the command; an unknown one is named along with the nearest that exists."""
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None:
            from ctrlhost.supervisor.loader import installed_plugins

            near = difflib.get_close_matches(name, [*COMMANDS, *installed_plugins()], n=1)
            ctx.fail(f"there is no command `{name}`" + (f"; did you mean `{near[0]}`?" if near else ""))
        return name, command, args[1:]

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        from ctrlhost.supervisor.loader import installed_plugins

        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
        names = list(installed_plugins())
        if names:
            with formatter.section("Plugins"):
                formatter.write_text(
                    f"`ctrlhost NAME --help` shows a plugin's commands. Installed: {', '.join(names)}."
                )


def _plugin_commands(name: str) -> click.Group | None:
    from ctrlhost.supervisor.loader import PluginManager, installed_plugins

    if name not in installed_plugins():
        return None
    plugin = PluginManager().load(name)
    group = click.Group(name, help=f"Commands of the plugin {name} ({plugin.installed}).")
    plugin.commands(group)
    if not group.commands:
        raise click.UsageError(
            f"the plugin `{name}` has no commands of its own; run it with `ctrlhost run --plugins {name}`"
        )
    return group


def main_group() -> click.Group:
    """Give the command `ctrlhost`."""
    return LazyGroup(
        "ctrlhost",
        help="Run any number of Kubernetes controllers, installed as plugins, in one process over one shared cache.",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
        params=[
            click.Option(
                ["--version"],
                is_flag=True,
                expose_value=False,
                is_eager=True,
                callback=_version,
                help="Print the version.",
            )
        ],
    )


def _version(ctx: click.Context, _option: Any, value: bool) -> None:
    if value:
        from ctrlhost import __version__

        click.echo(f"ctrlhost {__version__}")
        ctx.exit()
