"""Writing data to stdout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable


def print_yaml(documents: Iterable[Any]) -> None:
    """Write each document as YAML, with `---` before it."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Plain(dumper):  # type: ignore[misc,valid-type]
        """Writes out what occurs twice, where YAML would write an alias."""

        def ignore_aliases(self, _data: Any) -> bool:
            return True

    for document in documents:
        click.echo("---")
        click.echo(yaml.dump(document, Dumper=Plain, sort_keys=False, width=120, allow_unicode=True), nl=False)
