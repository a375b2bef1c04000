"""The CRDs that a plugin declares, those of its files and those of its models, and its further objects."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.source import KindSource
from ctrlhost.declarative.declaration import is_of_settings
from ctrlhost.errors import PluginLoadError
from ctrlhost.models.kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ctrlhost.declarative.declaration import Declaration
    from ctrlhost.models.kinds import Kind


def declared_crds(declaration: Declaration) -> list[dict[str, Any]]:
    """Return the CRDs of the files, then those that are generated from models of kinds that no file defines.

    PluginLoadError for a name that matches no file, and for a file that is no CRD; ConfigError for a model that has no
    structural schema, and for models of one kind that are no versions of it.
    """
    files = [_with_conversion(declaration, crd) for crd in _from_files(declaration)]
    known = {_group_kind(crd) for crd in files}
    return files + [crd for crd in _generated(declaration, known) if _group_kind(crd) not in known]


def generated_crds(declaration: Declaration) -> list[dict[str, Any]]:
    """Return the CRDs of all models that the plugin declares, also of those that a file defines."""
    return _generated(declaration, frozenset())


def _generated(declaration: Declaration, known: Collection[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the CRDs of the models; those of known kinds may be of any version."""
    # Only CRDs need the schemas of models.
    from ctrlhost.models.crd import crd_of, defines_kind

    kinds: dict[tuple[str, str], dict[type[Any], None]] = {}
    for kind in _kinds(declaration):
        if kind.model is not None and defines_kind(kind.model):
            kinds.setdefault((kind.api_version.rpartition("/")[0], kind.kind), {})[kind.model] = None
    crds = []
    for group_kind, models in kinds.items():
        if len(models) == 1 or group_kind in known:
            crds += [crd_of(model) for model in models]
        else:
            from ctrlhost.models.crd_versions import crd_of_versions

            crds.append(crd_of_versions(tuple(models), converted=group_kind in _converted(declaration)))
    return [_with_conversion(declaration, crd) for crd in crds]


def _converted(declaration: Declaration) -> set[tuple[str, str]]:
    """Return group and kind of what functions convert."""
    references = [kind_of(declared.options["kind"]) for declared in declaration.conversions]
    return {(kind.api_version.rpartition("/")[0], kind.kind) for kind in references}


def _with_conversion(declaration: Declaration, crd: dict[str, Any]) -> dict[str, Any]:
    """Return a CRD with the webhook that converts its objects, if functions do, and it names none itself.

    The Service is that of an installation with the usual names; `ctrlhost manifests` writes the right one.
    """
    spec = crd["spec"]
    if "conversion" in spec or len(spec["versions"]) < 2 or _group_kind(crd) not in _converted(declaration):
        return crd
    service = {
        "namespace": "ctrlhost",
        "name": "ctrlhost",
        "path": f"/convert/{spec['group']}/{spec['names']['plural']}",
        "port": 443,
    }
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}}
    return {**crd, "spec": {**spec, "conversion": {"strategy": "Webhook", "webhook": webhook}}}


def _group_kind(crd: Mapping[str, Any]) -> tuple[str, str]:
    return crd["spec"]["group"], crd["spec"]["names"]["kind"]


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
    for webhook in declaration.webhooks:
        yield from map(kind_of, (webhook.options["kind"], *(webhook.options.get("reads") or ())))
    for conversion in declaration.conversions:
        kinds = (conversion.options[name] for name in ("kind", "source", "target"))
        yield from (kind_of(kind) for kind in kinds if isinstance(kind, type))
