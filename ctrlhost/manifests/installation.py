"""What tells the objects of one installation from those of others: names and labels."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from ctrlhost import __version__

NAME = "app.kubernetes.io/name"
MANAGED_BY = "app.kubernetes.io/managed-by"
COMPONENT = "app.kubernetes.io/component"
#: The plugins of the command, so that what a later command no longer prints can be found.
_PLUGINS = "ctrlhost.dev/plugins"
#: Of objects that other installations may use too: whoever selects an installation must not delete them.
_COMMON = {"app.kubernetes.io/part-of": "ctrlhost", MANAGED_BY: "ctrlhost"}
_LONGEST = 63


@dataclass(frozen=True, slots=True)
class Installation:
    """The objects of one `ctrlhost manifests`, by the names of its Deployment and of the namespace of that."""

    name: str
    namespace: str
    plugins: tuple[str, ...]

    @property
    def labels(self) -> dict[str, str]:
        """The labels of all objects that belong to this installation alone, and of its pods."""
        return {
            NAME: label_value(self.name),
            "app.kubernetes.io/instance": label_value(f"{self.namespace}-{self.name}"),
            "app.kubernetes.io/version": label_value(__version__),
            COMPONENT: "host",
            **_COMMON,
        }

    def labelled(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return an object with the labels; a Namespace gets only those that all installations share.

        A namespace of Roles stays as it is, since others may own it.
        """
        if document["kind"] == "Namespace":
            return self.common(document) if document["metadata"]["name"] == self.namespace else document
        return _with_labels(document, {**self.labels, _PLUGINS: label_value(".".join(sorted(self.plugins)))})

    @staticmethod
    def common(document: dict[str, Any]) -> dict[str, Any]:
        """Return an object that other installations may use too, with the labels that all installations share."""
        return _with_labels(document, _COMMON)


def is_own(document: dict[str, Any]) -> bool:
    """Return whether a labelled object belongs to one installation alone."""
    return _PLUGINS in (document["metadata"].get("labels") or {})


def outside(name: str, account_namespace: str) -> str:
    """Return the name of an object that is cluster-scoped, or in a namespace that installations share."""
    return f"{account_namespace}-{name}"


def _with_labels(document: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    metadata = document["metadata"]
    return {**document, "metadata": {**metadata, "labels": {**labels, **(metadata.get("labels") or {})}}}


def label_value(text: str) -> str:
    """Return a text as the value of a label; a long one ends with its hash."""
    value = re.sub("[^A-Za-z0-9_.-]", "-", text).strip("-_.")
    if len(value) <= _LONGEST:
        return value
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{value[: _LONGEST - len(digest) - 1]}-{digest}"
