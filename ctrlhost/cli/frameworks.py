"""The options by which commands take operators of other frameworks, such as `--kopf FILE.py… [-m MODULE]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ctrlhost.supervisor.foreign import ForeignPlugin

#: The frameworks whose options are always there, and the distributions that have them.
_KNOWN = {"kopf": "ctrlhost-kopf"}
_META = "ctrlhost.frameworks"


class FrameworkCommand(click.Command):
    """A command whose options of frameworks take all that follows up to the next option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the option for each source: `--kopf a.py b.py -m c` is three options."""
        return super().parse_args(ctx, list(_repeated(args)))


def framework_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for each framework, whose sources `foreign_plugins` returns."""
    for name in sorted(_KNOWN, reverse=True):
        option = click.option(
            f"--{name}",
            metavar="FILE.py…|-m MODULE",
            multiple=True,
            expose_value=False,
            callback=_collect,
            help=f"Operators written for {name}, each a plugin named after its file, in a process of its own.",
        )
        command = option(command)
    return command


def foreign_plugins() -> list[ForeignPlugin]:
    """Return the sources that the options of the current command name."""
    plugins: list[ForeignPlugin] = click.get_current_context().meta.get(_META, [])
    return plugins


def _collect(context: click.Context, option: click.Parameter, sources: Sequence[str]) -> None:
    if not sources:
        return
    from ctrlhost.supervisor.foreign import ForeignPlugin, frameworks

    name = str(option.name)
    if name not in frameworks():
        raise ConfigError(f"--{name} needs another package: `pip install {_KNOWN[name]}`")
    context.meta.setdefault(_META, []).extend(ForeignPlugin(name, source) for source in sources)


def _repeated(words: Sequence[str]) -> Iterator[str]:
    flags = [f"--{name}" for name in _KNOWN]
    flag, rest = "", list(words)
    while rest:
        word = rest.pop(0)
        if word in flags:
            flag = word
            if rest and (not rest[0].startswith("-") or (rest[0] == "-m" and len(rest) > 1)):
                continue
        elif flag and word == "-m" and rest:
            word = f"{flag}={rest.pop(0)}"
        elif flag and not word.startswith("-"):
            word = f"{flag}={word}"
        else:
            flag = ""
        yield word
