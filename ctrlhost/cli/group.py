"""The group of commands: each is imported when it is called, so that the command line starts quickly."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

import click

from ctrlhost import __version__
from ctrlhost.suggestions import did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_Resolved: TypeAlias = tuple[str | None, click.Command | None, list[str]]

#: Name and help text of each command, which is `command` in the module of the same name, with `_` for `-`.
COMMANDS = {
    "run": "Run plugins until a signal arrives.",
    "new": "Write the project of a new plugin.",
    "dev": "Run plugins on a sandbox, anew after each change of their sources.",
    "top": "Show what a running host does, live.",
    "plugins": "List the installed plugins, or those of a running host.",
    "informers": "List the informers of a running host, or show one.",
    "queue": "List the queues of a running host, or the keys of one.",
    "explain-key": "Print why a running host does not reconcile a key.",
    "pause": "Pause controllers of a running host, or list those that are paused.",
    "resume": "Resume paused controllers of a running host.",
    "enqueue": "Queue keys of a controller of a running host.",
    "log-level": "Change the log level of a running host for a while.",
    "resign": "Hand leadership to another replica, without a restart of this one.",
    "profile": "Print what a running host spends its processor time on.",
    "check": "Check plugins: settings, declarations, CRDs, and their rights on a server.",
    "crds": "Print the CustomResourceDefinitions of plugins.",
    "finalizers": "List objects by finalizer, and take a finalizer off them.",
    "models": "Print typed models of a custom kind, generated from its CRD.",
    "chart": "Write a Helm chart that runs plugins in a cluster.",
    "manifests": "Print the manifests that run plugins in a cluster: Deployment, RBAC, CRDs.",
    "shards": "Print how the replicas of a host share keys.",
    "webhooks": "Renew the authority of webhooks in a cluster.",
    "settings": "Print the settings of the host or of a plugin, and where their values come from.",
    "sandbox": "Run only the embedded API server.",
    "completion": "Print the script that lets a shell complete commands and names.",
    "version": "Print the version.",
}


class LazyGroup(click.Group):
    """A group that imports a command, or loads the plugin of that name for its commands, only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the host's own commands; listing those of plugins would import all plugins."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        """Import the command, or load the plugin of that name and return its commands."""
        if cmd_name in COMMANDS:
            command: click.Command = import_module(f"ctrlhost.cli.{cmd_name.replace('-', '_')}").command
            return command
        return _plugin_commands(cmd_name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands without importing them, and the options."""
        from click.shell_completion import CompletionItem

        commands = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(self, ctx: click.Context, args: list[str]) -> _Resolved:
        """Find the command; the error for an unknown one suggests the closest."""
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None:
            from ctrlhost.supervisor.loader import installed_plugins

            near = did_you_mean(name, [*COMMANDS, *installed_plugins()])
            ctx.fail(f"unknown command `{name}`" + (f"; {near}" if near else ""))
        return name, command, args[1:]

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
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
        raise click.UsageError(f"the plugin `{name}` has no commands; run it with `ctrlhost run --plugins {name}`")
    return group


def main_group() -> click.Group:
    """Return the command `ctrlhost`."""
    group = LazyGroup(
        "ctrlhost",
        help="Run any number of Kubernetes controllers, installed as plugins, in one process over one shared cache.",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    )
    return click.version_option(__version__, message="ctrlhost %(version)s", help="Print the version.")(group)
