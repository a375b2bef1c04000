"""`ctrlhost models`: typed structs from the schema of a CRD."""

from __future__ import annotations

from typing import IO

import click


@click.command("models")
@click.argument("crd", type=click.File("r", encoding="utf-8"))
@click.option("--version", "version", help="Version of the CRD (default: the stored one).")
def command(crd: IO[str], version: str | None) -> None:
    """Print a Python module of typed models for a CustomResourceDefinition.

    CRD is a YAML or JSON file with one CustomResourceDefinition, or `-` for standard input. Use the models with
    `Object.decode`: `obj.decode(Foo)`.
    """
    from ctrlhost.authoring.models import generate_models
    from ctrlhost.errors import ConfigError
    from ctrlhost.yaml_text import load_documents

    try:
        documents = load_documents(crd)
    except ValueError as error:
        raise ConfigError(f"{crd.name} is neither YAML nor JSON: {error}") from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ConfigError(f"{crd.name} must contain one CustomResourceDefinition, got {len(documents)} documents")
    try:
        text = generate_models(documents[0], version)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        why = f"missing field {error}" if isinstance(error, KeyError) else "a field has the wrong type"
        raise ConfigError(
            f"{crd.name}: invalid CustomResourceDefinition: {why}",
            hint="validate it with `kubectl apply --dry-run=server`",
        ) from None
    click.echo(text, nl=False)
