"""`ctrlhost settings`: the settings of the host or of a plugin, and where their values come from."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from ctrlhost.cli.options import CONFIG, SET, gather

if TYPE_CHECKING:
    from pathlib import Path

    from ctrlhost.config.described import DescribedSetting

_WIDTH = 80


@click.command("settings")
@click.argument("name", metavar="PLUGIN|host")
@CONFIG
@SET
@click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form of the output."
)
def command(name: str, config: Path | None, assignments: tuple[str, ...], output: str) -> None:
    """Print the settings of a plugin, or of the host itself, with their values and where these come from.

    The command reads the same file, environment and assignments as `ctrlhost run`, and needs no running host. Values of
    secrets are `***`.
    """
    from ctrlhost.config.described import described

    configuration = gather(config, assignments)
    if name == "host":
        settings_shown: list[DescribedSetting] | None = described(
            configuration.host, configuration.tree["host"], configuration.source
        )
    else:
        from ctrlhost.supervisor.loader import PluginManager

        kind = PluginManager().load(name).settings_type()
        settings = configuration.plugin(name, kind)
        configured = configuration.section("plugins", name)
        settings_shown = None if settings is None else described(settings, configured, configuration.source)
    if output == "json":
        import json
        from dataclasses import asdict

        click.echo(json.dumps([asdict(setting) for setting in settings_shown or ()], indent=2, ensure_ascii=False))
    elif settings_shown is None:
        click.echo(f"the plugin `{name}` has no settings")
    else:
        for setting in settings_shown:
            _print(setting)


def _text(value: Any) -> str:
    """Return a value as `--set` accepts it; `-` for none."""
    if value is None or value in ("", []):
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(_text, value))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_text(item)}" for key, item in value.items()) + "}"
    return str(value)


def _print(setting: DescribedSetting) -> None:
    """Print a setting within 80 columns: its value and source, then type, default and description."""
    source = "" if setting.source == "default" else f"  (from {setting.source})"
    about = f"{setting.type}, default {_text(setting.default)}. {setting.description}"
    for text, indent in ((f"{setting.name} = {_text(setting.value)}{source}", ""), (about, "    ")):
        lines = wrap(
            *(text, _WIDTH),
            initial_indent=indent,
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        click.echo("\n".join(lines))
