"""Webhook configurations; `admission.webhooks` calls what they name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import is_label_1035, is_subdomain, name_problems
from ctrlhost_sandbox.kinds.cells import created
from ctrlhost_sandbox.kinds.fields import selector_causes
from ctrlhost_sandbox.kinds.match_rules import rule_causes
from ctrlhost_sandbox.kinds.policies import condition_causes
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy, below

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.kinds.strategy import Rule
    from ctrlhost_sandbox.registry.operation import Operation

_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_VERSIONS = ("v1", "v1beta1")
_DEFAULTS: list[Rule] = [
    ("failurePolicy", "Fail"),
    ("matchPolicy", "Equivalent"),
    ("namespaceSelector", {}),
    ("objectSelector", {}),
    ("timeoutSeconds", 10),
    ("rules[*].scope", "*"),
    ("clientConfig.service.port", 443),
]


class _Webhooks(BuiltinStrategy):
    """Each webhook has a name of its own, rules, and one place to call."""

    defaults: Sequence[Rule] = below("webhooks[*]", _DEFAULTS)
    columns = "Webhooks:i Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        return (len(obj.get("webhooks") or ()), created(obj))

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        names: set[str] = set()
        for index, hook in enumerate(obj.get("webhooks") or ()):
            where, name = f"webhooks[{index}]", hook.get("name", "")
            yield from _webhook_causes(hook, where)
            versions = hook.get("admissionReviewVersions") or []
            missing = "must specify one of v1, v1beta1"
            yield from version_causes(versions, f"{where}.admissionReviewVersions", missing)
            if name and name in names:
                yield status.duplicate(f"{where}.name", name)
            names.add(name)


class _MutatingWebhooks(_Webhooks):
    """Webhooks that may be called again."""

    defaults = (*_Webhooks.defaults, ("webhooks[*].reinvocationPolicy", "Never"))


def _webhook_causes(hook: Mapping[str, Any], where: str) -> Iterator[Cause]:
    name = hook.get("name", "")
    if not name:
        yield status.required(f"{where}.name")
    elif not is_subdomain(name):
        yield from status.invalid_values(f"{where}.name", name, name_problems("subdomain", name))
    elif name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        yield status.invalid_value(f"{where}.name", name, text)
    for index, rule in enumerate(hook.get("rules") or ()):
        yield from rule_causes(rule, f"{where}.rules[{index}]")
    for field, allowed in (("failurePolicy", ("Fail", "Ignore")), ("matchPolicy", ("Equivalent", "Exact"))):
        if hook.get(field) not in allowed:
            yield status.not_supported(f"{where}.{field}", hook.get(field), allowed)
    effects, seconds = hook.get("sideEffects"), hook.get("timeoutSeconds", 10)
    if effects is None:
        yield status.required(f"{where}.sideEffects", "must specify one of None, NoneOnDryRun")
    elif effects not in _SIDE_EFFECTS:
        yield status.not_supported(f"{where}.sideEffects", effects, _SIDE_EFFECTS)
    if not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        yield status.invalid_value(f"{where}.timeoutSeconds", seconds, text)
    for field in ("namespaceSelector", "objectSelector"):
        yield from selector_causes(hook.get(field) or {}, f"{where}.{field}")
    again = hook.get("reinvocationPolicy", "Never")
    if again not in ("IfNeeded", "Never"):
        yield status.not_supported(f"{where}.reinvocationPolicy", again, ("IfNeeded", "Never"))
    yield from client_causes(hook.get("clientConfig") or {}, f"{where}.clientConfig")
    yield from condition_causes(hook, f"{where}.matchConditions")


def client_causes(client: Mapping[str, Any], where: str) -> Iterator[Cause]:
    """Check where a webhook listens."""
    url, service = client.get("url"), client.get("service")
    if (url is None) is (service is None):
        yield status.required(where, "exactly one of url or service is required")
    elif url is not None:
        yield from _url_causes(url, f"{where}.url")
    elif service is not None:
        # The real server names the other one of both.
        for field, named in (("name", "namespace"), ("namespace", "name")):
            if not service.get(field):
                yield status.required(f"{where}.service.{named}")
        path, port = service.get("path"), service.get("port", 443)
        if not 1 <= port <= 65535:
            text = "port is not valid: must be between 1 and 65535, inclusive"
            yield status.invalid_value(f"{where}.service.port", port, text)
        if path not in (None, "", "/"):
            for problem in _path_problems(path):
                yield status.invalid_value(f"{where}.service.path", path, problem)


def _path_problems(path: str) -> Iterator[str]:
    if path == "//":
        yield "segment[0] may not be empty"
        return
    if not path.startswith("/"):
        yield "must start with a '/'"
    for index, segment in enumerate(path[1:].removesuffix("/").split("/")):
        if not segment:
            yield f"segment[{index}] may not be empty"
        elif not is_subdomain(segment):
            for problem in name_problems("subdomain", segment):
                yield f"segment[{index}]: {problem}"


def _url_causes(url: str, where: str) -> Iterator[Cause]:
    form = "; desired format: https://host[/path]"
    try:
        parts = urlsplit(url)
    except ValueError as error:
        yield status.required(where, f"url must be a valid URL: {error}{form}")
        return
    if parts.scheme != "https":
        yield status.invalid_value(where, parts.scheme, f"'https' is the only allowed URL scheme{form}")
    if not parts.netloc:
        yield status.invalid_value(where, "", f"host must be specified{form}")
    if "@" in parts.netloc:
        text = "user information is not permitted in the URL"
        yield status.invalid_value(where, parts.netloc.rpartition("@")[0], text)
    for text, what in ((parts.fragment, "fragments"), (parts.query, "query parameters")):
        if text:
            yield status.invalid_value(where, text, f"{what} are not permitted in the URL")


def version_causes(versions: Sequence[str], where: str, missing: str = "") -> Iterator[Cause]:
    """Check the versions of reviews that a webhook understands; `missing` says what to do if there are none."""
    if not versions:
        yield status.required(where, missing)
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield status.invalid_value(f"{where}[{index}]", version, "duplicate version")
        elif not is_label_1035(version):
            yield from status.invalid_values(f"{where}[{index}]", version, name_problems("label_1035", version))
    if not set(versions) & set(_VERSIONS):
        yield status.invalid_value(where, versions, "must include at least one of v1, v1beta1")


_GROUP = "admissionregistration.k8s.io"
STRATEGIES = {
    (_GROUP, "MutatingWebhookConfiguration"): _MutatingWebhooks(),
    (_GROUP, "ValidatingWebhookConfiguration"): _Webhooks(),
}
