"""CRDs that a plugin's package has as YAML files."""

from __future__ import annotations

from typing import Any

from ctrlhost.plugin.package_files import objects_in

#: What the host reads of each CRD; the server has more rules.
_REQUIRED = ("metadata.name", "spec.group", "spec.names.kind", "spec.names.plural")


def crds_from(package: str, *patterns: str) -> list[dict[str, Any]]:
    """Return the CRDs of a package's YAML files as fresh dicts, in the order of the patterns and then of the names.

    ```python
    # a part of a plugin with hooks
    @ctrlhost.hookimpl
    def ctrlhost_crds():
        return ctrlhost.crds_from(__package__, "crds/*.yaml")
    ```

    `package` is the importable name of the package that holds the files, or of a module of it. The files of a module
    without a package are beside it. A pattern is the path of a file, in which `*` and `?` match within a name as in a
    shell. A file may have several documents. May be called from any thread.

    Raises FileNotFoundError if a pattern matches no file. Raises ValueError, which names the file, if one is not YAML,
    has another object, or a CRD without names.
    """
    crds: list[dict[str, Any]] = []
    for file, obj in objects_in(package, patterns):
        if obj.get("kind") != "CustomResourceDefinition":
            raise ValueError(f"{file} has an object that is not a CustomResourceDefinition")
        if (missing := _missing(obj)) is not None:
            raise ValueError(f"{file}: {missing}: Required value")
        crds.append(obj)
    return crds


def _missing(crd: dict[str, Any]) -> str | None:
    """Return the first path that a CRD lacks, or that has no usable value; None for a CRD with all of them."""
    for path in _REQUIRED:
        value: Any = crd
        for step in path.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        if not isinstance(value, str) or not value:
            return path
    versions = crd["spec"].get("versions")
    named = isinstance(versions, list) and all(isinstance(version, dict) and "name" in version for version in versions)
    return None if named and versions else "spec.versions"
