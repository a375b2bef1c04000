"""CustomResourceDefinitions of plugins that a server refuses."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import PluginLoadError
from ctrlhost.sandbox import load_sandbox

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ctrlhost.supervisor.loader import Plugin

UNCHECKED = "the definitions were not checked; `pip install 'ctrlhost[sandbox]'` brings the rules of an API server"
HINT = "the output of `ctrlhost crds` must pass `kubectl apply --dry-run=server`"


def invalid_crds(crds: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Return the name of each CRD that a server refuses, and why, in its words.

    None without the sandbox's package, whose rules these are.
    """
    problem_of = load_sandbox().crd_problem if can_check_crds() else lambda _: None
    for crd in crds:
        if (problem := problem_of(crd)) is not None:
            yield name_of(crd), problem


def can_check_crds() -> bool:
    """Return whether the sandbox's package is installed."""
    return find_spec("ctrlhost_sandbox") is not None


def name_of(crd: Mapping[str, Any]) -> str:
    """Return the name of a CRD that may be invalid."""
    metadata = crd.get("metadata")
    return str((metadata.get("name") if isinstance(metadata, dict) else None) or "without a name")


def reject_invalid_crds(plugins: Iterable[Plugin]) -> None:
    """Raise PluginLoadError for the first plugin with a CRD that a server refuses, and name all of its problems."""
    for plugin in plugins:
        if problems := [problem for _, problem in invalid_crds(plugin.crds())]:
            raise PluginLoadError(plugin.name, "; ".join(problems), hint=HINT)
