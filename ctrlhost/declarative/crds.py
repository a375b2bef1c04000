"""The CRDs that a plugin declares, those of its files and those of its models, and its further objects."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.source import KindSource
from ctrlhost.declarative.declaration import is_of_settings
from ctrlhost.errors import ConfigError, PluginLoadError
from ctrlhost.models.kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost.declarative.declaration import Declaration
    from ctrlhost.models.kinds import Kind


def declared_crds(declaration: Declaration) -> list[dict[str, Any]]:
    """Return the CRDs of the files, then those that are generated from models of kinds that no file defines.

    PluginLoadError for a name that matches no file, and for a file that is no CRD; ConfigError for a model that has no
    structural schema, and for two models of one kind, since a generated CRD has one version.
    """
    files = _from_files(declaration)
    known = {(crd["spec"]["group"], crd["spec"]["names"]["kind"]) for crd in files}
    generated = [
        crd for crd in generated_crds(declaration) if (crd["spec"]["group"], crd["spec"]["names"]["kind"]) not in known
    ]
    for name, count in Counter(crd["metadata"]["name"] for crd in generated).items():
        if count > 1:
            raise ConfigError(
                f"{count} models define the CRD {name}",
                hint="keep one `ctrlhost.Model`, and make the others a `msgspec.Struct`; "
                "a CRD of several versions is a file: `ctrlhost.Plugin(crds=…)`",
            )
    return files + generated


def generated_crds(declaration: Declaration) -> list[dict[str, Any]]:
    """Return the CRDs of all models that the plugin declares, also of those that a file defines."""
    # Only CRDs need the schemas of models.
    from ctrlhost.models.crd import crd_of, defines_kind

    models = dict.fromkeys(kind.model for kind in _kinds(declaration) if defines_kind(kind.model))
    return [crd_of(model) for model in models if model is not None]


def declared_objects(declaration: Declaration) -> list[dict[str, Any]]:
    """Return the objects of the files with further ones; PluginLoadError as for CRDs."""
    if not declaration.objects:
        return []
    from ctrlhost.plugin.package_files import objects_in

    with _naming(declaration, "objects"):
        return [obj for _, obj in objects_in(declaration.module, declaration.objects)]


def _from_files(declaration: Declaration) -> list[dict[str, Any]]:
    if not declaration.crds:
        return []
    from ctrlhost.plugin.crd_files import crds_from

    with _naming(declaration, "crds"):
        return crds_from(declaration.module, *declaration.crds)


@contextmanager
def _naming(declaration: Declaration, parameter: str) -> Iterator[None]:
    """Name the parameter whose files cannot be used."""
    try:
        yield
    except (FileNotFoundError, ValueError) as error:
        raise PluginLoadError(declaration.loaded_as or declaration.module, f"{parameter}: {error}") from error


def _kinds(declaration: Declaration) -> Iterator[Kind]:
    for controller in declaration.controllers:
        if not is_of_settings("kind", controller.declared.options["kind"]):
            yield controller.kind
        for name in ("owns", "watches"):
            listed = controller.declared.options.get(name) or ()
            for member in () if is_of_settings(name, listed) else listed:
                yield member.reference if isinstance(member, KindSource) else kind_of(member)
    for index in declaration.indexes:
        yield index.kind
