"""The rules for names, labels and annotations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery.status import (
    Cause,
    forbidden_field,
    invalid_value,
    invalid_values,
    required,
    too_long,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
MAX_ANNOTATIONS = 262_144
_LONGEST_MANAGER = 128
_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character "
    "(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def is_label(text: str) -> bool:
    """Return whether `text` is a DNS-1123 label."""
    return len(text) <= 63 and LABEL.fullmatch(text) is not None


def is_label_1035(text: str) -> bool:
    """Return whether `text` is a DNS-1035 label."""
    return len(text) <= 63 and LABEL_1035.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Return whether `text` is a DNS-1123 subdomain."""
    return len(text) <= 253 and SUBDOMAIN.fullmatch(text) is not None


def is_qualified(text: str) -> bool:
    """Return whether `text` is a name with an optional DNS prefix, as label keys are."""
    return not qualified_problems(text)


def qualified_problems(text: str) -> list[str]:
    """Return why `text` is not a name with an optional DNS prefix."""
    prefix, slash, name = text.partition("/")
    if not slash:
        prefix, name = "", text
    elif "/" in name:
        rule = QUALIFIED_TEXT.removeprefix("name part must")
        return [
            f"a valid label key must{rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [f"prefix part {problem}" for problem in name_problems("prefix", prefix)]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        problems.append("name part must be no more than 63 bytes")
    return problems if QUALIFIED.fullmatch(name) else [*problems, QUALIFIED_TEXT]


def label_value_problems(text: str) -> list[str]:
    """Return why `text` is not a valid value of a label."""
    if not text:
        return []
    problems = ["must be no more than 63 bytes"] if len(text.encode()) > 63 else []
    return problems if QUALIFIED.fullmatch(text) else [*problems, _LABEL_VALUE_TEXT]


_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_RULES = {
    "label": (LABEL, 63, "characters", _LABEL_TEXT),
    "label_1035": (LABEL_1035, 63, "characters", _LABEL_1035_TEXT),
    "subdomain": (SUBDOMAIN, 253, "characters", _SUBDOMAIN_TEXT),
    "prefix": (SUBDOMAIN, 253, "bytes", _SUBDOMAIN_TEXT),
}
"""The form of a name, its greatest length in bytes, what messages call these, and the text for another form."""


def name_problems(rule: str, name: str) -> list[str]:
    """Return why a name breaks a kind's rule."""
    if rule == "segment":
        if name in (".", ".."):
            return [f"may not be '{name}'"]
        return [f"may not contain '{char}'" for char in "/%" if char in name]
    pattern, longest, unit, text = _RULES[rule]
    problems = [f"must be no more than {longest} {unit}"] if len(name.encode()) > longest else []
    if pattern.fullmatch(name):
        return problems
    return [*problems, "must not contain dots" if rule == "label" and SUBDOMAIN.fullmatch(name) else text]


def name_causes(rule: str, name: str, prefix: str = "") -> Iterator[Cause]:
    """Check `metadata.name`, and the prefix that it was generated from."""
    if prefix:
        # A dash may precede the random characters.
        masked = f"{prefix[:-2]}a" if rule != "segment" and len(prefix) > 1 and prefix[-1] == "-" else prefix
        yield from invalid_values("metadata.generateName", prefix, name_problems(rule, masked))
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        yield from invalid_values("metadata.name", name, name_problems(rule, name))


def label_causes(labels: dict[str, Any], field: str) -> Iterator[Cause]:
    """Check the keys and values of a label map."""
    for key, value in labels.items():
        yield from invalid_values(field, key, qualified_problems(key))
        yield from invalid_values(field, value, label_value_problems(value))


def annotation_causes(annotations: dict[str, str], field: str) -> Iterator[Cause]:
    """Check the keys of annotations, and the size of all."""
    for key in annotations:
        yield from invalid_values(field, key, qualified_problems(key.lower()))
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > MAX_ANNOTATIONS:
        yield too_long(field, MAX_ANNOTATIONS)


def template_causes(template: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Check the labels and annotations of a pod template. The fields lack `metadata`, as in a real server."""
    metadata = template.get("metadata") or {}
    yield from label_causes(metadata.get("labels") or {}, f"{path}.labels")
    yield from annotation_causes(metadata.get("annotations") or {}, f"{path}.annotations")


def metadata_causes(metadata: dict[str, Any], warnings: list[str], *, qualified: bool) -> Iterator[Cause]:
    """Check everything in metadata but the name; drop duplicate owner references.

    `qualified` says that finalizers of the kind need a prefix, except for the server's own.
    """
    yield from label_causes(metadata.get("labels") or {}, "metadata.labels")
    yield from annotation_causes(metadata.get("annotations") or {}, "metadata.annotations")
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        problems = qualified_problems(finalizer)
        yield from invalid_values("metadata.finalizers", finalizer, problems)
        if "/" in finalizer or finalizer in _FINALIZERS:
            continue
        if qualified:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid_value(f"metadata.finalizers[{index}]", finalizer, text)
        elif not problems:
            warnings.append(
                f'metadata.finalizers: "{finalizer}": prefer a domain-qualified finalizer name to avoid accidental '
                "conflicts with other finalizer writers"
            )
    if metadata.get("ownerReferences"):
        yield from _owner_causes(metadata, warnings)
    if metadata.get("generation", 0) < 0:
        yield invalid_value("metadata.generation", metadata["generation"], "must be greater than or equal to 0")


def _owner_causes(metadata: dict[str, Any], warnings: list[str]) -> Iterator[Cause]:
    owners = metadata["ownerReferences"]
    unique: list[dict[str, Any]] = []
    controllers = 0
    for owner in owners:
        # The field names have no index, as in a real server's messages.
        version = owner.get("apiVersion") or ""
        if version.count("/") > 1 or not version.rpartition("/")[2]:
            yield invalid_value("metadata.ownerReferences.apiVersion", version, "version must not be empty")
        for member in ("kind", "name", "uid"):
            if not owner.get(member):
                text = "must not be empty"
                yield invalid_value(f"metadata.ownerReferences.{member}", owner.get(member, ""), text)
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            yield forbidden_field("metadata.ownerReferences", "Event is disallowed from being an owner")
        controllers += owner.get("controller") is True and owner not in unique
        if owner in unique:
            warnings.append(
                ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, "
                "and may reject such requests as early as 1.24; please fix your requests"
            )
        else:
            unique.append(owner)
    if controllers > 1:
        text = "Only one reference can have Controller set to true"
        yield invalid_value("metadata.ownerReferences", len(owners), text)
    if len(unique) != len(owners):
        metadata["ownerReferences"] = unique


def manager_causes(manager: str) -> Iterator[Cause]:
    """Check a field manager's name."""
    if len(manager.encode()) > _LONGEST_MANAGER:
        yield too_long("fieldManager", _LONGEST_MANAGER)
    for index, char in enumerate(manager):
        if not char.isprintable():
            at = len(manager[:index].encode())
            yield invalid_value("fieldManager", manager, f"invalid character U+{ord(char):04X} (at position {at})")
