"""`ctrlhost models`: typed structs from the schema of a CRD, or of built-in kinds."""

from __future__ import annotations

from typing import IO

import click


@click.command("models")
@click.argument("source", nargs=-1, required=True, metavar="CRD|KIND…")
@click.option("--version", "version", help="Version of the CRD (default: the stored one).")
def command(source: tuple[str, ...], version: str | None) -> None:
    """Print a Python module of typed models for a CustomResourceDefinition, or for built-in kinds.

    CRD is a YAML or JSON file with one CustomResourceDefinition, or `-` for standard input; KIND is a built-in kind,
    such as `apps/v1/Deployment`. `owns=`, `watches=`, `ctx.ensure`, `ctx.cache` and `Object.decode` take the models.
    """
    from ctrlhost.authoring.builtin_models import generate_builtin_models, is_kind

    if all(map(is_kind, source)):
        if version is not None:
            raise click.UsageError("--version is for a CRD; a kind has its version: apps/v1/Deployment")
        click.echo(generate_builtin_models(source), nl=False)
        return
    if len(source) > 1:
        raise click.UsageError("name one file with a CRD, or built-in kinds such as apps/v1/Deployment")
    context = click.get_current_context()
    file = click.File("r", encoding="utf-8").convert(source[0], context.command.params[0], context)
    click.echo(_of_crd(file, version), nl=False)


def _of_crd(crd: IO[str], version: str | None) -> str:
    """Return the models of a file; ConfigError if it is not one CRD."""
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
        return generate_models(documents[0], version)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        why = f"missing field {error}" if isinstance(error, KeyError) else "a field has the wrong type"
        raise ConfigError(
            f"{crd.name}: invalid CustomResourceDefinition: {why}",
            hint="validate it with `kubectl apply --dry-run=server`",
        ) from None
