"""The mistakes in the declaration of webhooks and conversions."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from ctrlhost.declarative.webhook_options import MutatorOptions, WebhookOptions
from ctrlhost.declarative.webhooks import (
    TIMEOUT,
    conversion_versions,
    converters_of,
    group_kind,
    webhook_name,
)
from ctrlhost.duration import in_seconds
from ctrlhost.errors import ConfigError, PluginLoadError
from ctrlhost.models.kinds import kind_of
from ctrlhost.selectors import labels
from ctrlhost.suggestions import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost.declarative.declaration import Declaration, DeclaredFunction

#: What is wrong, and what to write instead.
Problem = tuple[str, str]

_OPERATIONS = {"validate": ("CREATE", "UPDATE", "DELETE", "*"), "mutate": ("CREATE", "UPDATE", "*")}
_OPTIONS = {
    "validate": frozenset(WebhookOptions.__annotations__),
    "mutate": frozenset({*WebhookOptions.__annotations__, *MutatorOptions.__annotations__}),
}
_NAME = re.compile(r"(?=.{1,63}\Z)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
#: Hosts and the API server need these kinds while no webhook answers.
_NEEDED = {
    "coordination.k8s.io": ("Lease",),
    "": ("Event",),
    "events.k8s.io": ("Event",),
    "admissionregistration.k8s.io": ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"),
    "authentication.k8s.io": ("TokenReview",),
    "authorization.k8s.io": (
        *("SubjectAccessReview", "LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview"),
    ),
}
_LONGEST = 30


def find_problems(declaration: Declaration) -> Iterator[tuple[DeclaredFunction, str, str]]:
    """Return the mistakes, each with its function, what is wrong, and what to write instead."""
    names = Counter(map(webhook_name, declaration.webhooks))
    for declared in declaration.webhooks:
        problems = [*_of_kind(declared), *_of_options(declared), *_of_operations(declared), *_of_timeout(declared)]
        if not _NAME.fullmatch(name := webhook_name(declared)):
            problems.append((f"{name!r} cannot be the name of a webhook", 'write a DNS label: `name="check-size"`'))
        elif names[name] > 1:
            problems.append((f"{names[name]} webhooks have the name {name}", 'give it another one: `name="…"`'))
        for text, hint in problems:
            yield declared, text, hint
    yield from _of_conversions(declaration)


def _of_kind(declared: DeclaredFunction) -> Iterator[Problem]:
    options = declared.options
    for name, reference in (("kind", options["kind"]), *(("reads", read) for read in _list_of(options.get("reads")))):
        if isinstance(reference, str) and "*" in reference:
            yield f"{name} {reference!r} stands for many kinds", "write one webhook per kind"
            continue
        try:
            kind = kind_of(reference)
        except (TypeError, ValueError) as error:
            yield f"{name}: {error}", 'write a struct with `@ctrlhost.resource`, or a text such as "apps/v1/Deployment"'
            continue
        if name == "kind":
            yield from _of_needed_kind(declared, kind.api_version.rpartition("/")[0], kind.kind)


def _of_needed_kind(declared: DeclaredFunction, group: str, kind: str) -> Iterator[Problem]:
    if kind in _NEEDED.get(group, ()):
        yield f"a webhook on {kind} would lock the cluster while the host is down", "use a ValidatingAdmissionPolicy"
    definitions = (group, kind) == ("apiextensions.k8s.io", "CustomResourceDefinition")
    if definitions and declared.options.get("failure_policy") != "Ignore":
        yield (
            "a webhook on CRDs would refuse those that the host installs at its start",
            'write `failure_policy="Ignore"`',
        )
    narrowed = declared.options.get("namespaces") or declared.options.get("label_selector")
    if (group, kind) == ("", "Secret") and not narrowed:
        hint = 'write `namespaces=["…"]` or `label_selector="…"`'
        yield "a webhook on all Secrets would match those that the host needs to start", hint


def _of_options(declared: DeclaredFunction) -> Iterator[Problem]:
    options, known = declared.options, _OPTIONS[declared.decorator]
    for name in options:
        if name not in known and name not in ("kind", "operations"):
            yield f"unknown option `{name}`", str(suggest(name, known))
    if (policy := options.get("failure_policy", "Fail")) not in ("Fail", "Ignore"):
        yield f"failure_policy is {policy!r:.80}", 'write `failure_policy="Fail"` or `"Ignore"`'
    for name in ("subresource", "when", "label_selector"):
        if not isinstance(options.get(name) or "", str):
            yield f"{name} is {options[name]!r:.80}; it must be a text", f'write `{name}="…"`'
    for name in ("namespaces", "reads"):
        value = options.get(name)
        if value is not None and not isinstance(value, (list, tuple)):
            yield f"{name} is a list, got {value!r:.80}", f"write `{name}=[…]`"
    selector = options.get("label_selector")
    try:
        labels.parse(selector if isinstance(selector, str) else "")
    except ValueError as error:
        yield f"label_selector: {error}", 'write it as "app=web,tier in (a,b),!old"'


def _of_operations(declared: DeclaredFunction) -> Iterator[Problem]:
    operations, known = declared.options["operations"], _OPERATIONS[declared.decorator]
    listed = (operations,) if isinstance(operations, str) else operations
    written = ", ".join(known)
    if not isinstance(listed, (list, tuple, set, frozenset)) or not listed:
        yield f"operations is {operations!r:.80}; it must be a list", f"write some of {written}"
        return
    for operation in listed:
        if operation not in known:
            yield f"unknown operation {operation!r:.80} of `@plugin.{declared.decorator}`", f"write some of {written}"


def _of_timeout(declared: DeclaredFunction) -> Iterator[Problem]:
    try:
        seconds = in_seconds(declared.options.get("timeout", TIMEOUT))
    except (TypeError, ValueError):
        # It is reported with those of other functions.
        return
    if not 1 <= seconds <= _LONGEST or seconds != int(seconds):
        text = (
            f"timeout is {declared.options['timeout']!r:.80}; the API server takes whole seconds from 1 to {_LONGEST}"
        )
        yield text, f'write `timeout="{TIMEOUT}"`'


def _of_conversions(declaration: Declaration) -> Iterator[tuple[DeclaredFunction, str, str]]:
    """Check the conversions against the CRDs, whose own mistakes are reported elsewhere."""
    from ctrlhost.declarative.crds import declared_crds

    readable = []
    for declared in declaration.conversions:
        try:
            group_kind(declared), conversion_versions(declared)
        except (TypeError, ValueError) as error:
            yield declared, str(error), 'write `@plugin.convert(Memcached, source="v1alpha1", target="v1")`'
        else:
            readable.append(declared)
    try:
        crds = declared_crds(declaration) if readable else []
    except (ConfigError, PluginLoadError, TypeError, ValueError):
        return
    by_kind = {(crd["spec"]["group"], crd["spec"]["names"]["kind"]): crd for crd in crds}
    pairs = Counter((group_kind(declared), conversion_versions(declared)) for declared in readable)
    for declared in readable:
        kind, versions = group_kind(declared), conversion_versions(declared)
        for text, hint in _of_versions(by_kind.get(kind), ".".join(reversed(kind)), versions):
            yield declared, text, hint
        if (count := pairs[kind, versions]) > 1:
            yield declared, f"{count} functions convert {versions[0]} to {versions[1]}", "keep one of them"
    for converters in converters_of(declaration, "", crds) if len(readable) == len(declaration.conversions) else []:
        first = next(declared for declared in readable if group_kind(declared) == (converters.group, converters.kind))
        for source, target in converters.missing():
            text = f"no way from {source} to {target}: each version of {converters.kind} needs one to each other"
            yield first, text, f'write `@plugin.convert({converters.kind}, source="{source}", target="{target}")`'


def _of_versions(crd: Mapping[str, Any] | None, kind: str, versions: tuple[str, str]) -> Iterator[Problem]:
    if crd is None:
        hint = "declare a `ctrlhost.Model` per version, or name the file of the CRD: `ctrlhost.Plugin(crds=…)`"
        yield f"the plugin has no CRD of {kind}", hint
        return
    known = [version["name"] for version in crd["spec"]["versions"]]
    for version in dict.fromkeys(versions):
        if version not in known:
            yield f"{kind} has no version {version}; it has {', '.join(known)}", str(suggest(version, known))
    if versions[0] == versions[1]:
        yield f"converts {versions[0]} to itself", "name two versions"


def _list_of(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()
