"""CertificateSigningRequests: the sandbox signs none."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status, times
from ctrlhost_sandbox.apimachinery.durations import duration
from ctrlhost_sandbox.apimachinery.names import is_label, is_subdomain, name_problems
from ctrlhost_sandbox.kinds.cells import NONE, created
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation
    from ctrlhost_sandbox.registry.registry import Kind

_USAGES = (
    *("any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment"),
    *("decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel"),
    *("ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime"),
    *("server auth", "signing", "timestamping"),
)
_DECISIONS = ("Approved", "Denied")
_FINAL = (*_DECISIONS, "Failed")
_LEGACY = "kubernetes.io/legacy-unknown"
_LEAST_SECONDS = 600
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_BEGIN = b"-----BEGIN CERTIFICATE REQUEST-----"


class _Requests(BuiltinStrategy):
    """The spec is immutable; decisions are made through /approval, certificates issued through /status."""

    columns = "Age SignerName Requestor RequestedDuration Condition"
    allocates = True

    def cells(self, obj: Object) -> Sequence[Any]:
        spec, state = obj.get("spec") or {}, obj.get("status") or {}
        kinds = {condition.get("type") for condition in state.get("conditions") or ()}
        text = next((name for name in ("Denied", "Approved") if name in kinds), "Pending")
        text += ",Failed" if "Failed" in kinds else ""
        text += ",Issued" if state.get("certificate") else ""
        seconds = spec.get("expirationSeconds")
        wanted = NONE if seconds is None else duration(seconds)
        return (created(obj), spec.get("signerName") or NONE, spec.get("username", ""), wanted, text)

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Record who asks."""
        spec, user = obj["spec"], operation.user.as_dict()
        for name in ("username", "uid", "groups", "extra"):
            spec.pop(name, None)
            if user.get(name):
                spec[name] = user[name]
        obj["status"] = {}

    def tracked(self, obj: Object, sent: Object) -> Object:
        """Omit the spec: no manager owns what cannot be changed."""
        return {key: value for key, value in obj.items() if key != "spec"}

    def prepare_update(self, context: ServerContext, operation: Operation, obj: Object, old: Object) -> None:
        """Keep what a write through this path does not change."""
        obj["spec"] = old["spec"]
        state, before = obj.get("status") or {}, old.get("status") or {}
        if operation.subresource == "approval":
            kept = before
            conditions = list(state.get("conditions") or ())
        elif operation.subresource == "status":
            kept, conditions = state, list(state.get("conditions") or ())
        else:
            kept, conditions = before, list(before.get("conditions") or ())
        old_times = {condition["type"]: condition for condition in before.get("conditions") or ()}
        for condition in conditions:
            now = times.now()
            condition.setdefault("lastUpdateTime", now)
            if condition.get("status") == (old_times.get(condition.get("type")) or {}).get("status"):
                condition.setdefault("lastTransitionTime", old_times[condition["type"]].get("lastTransitionTime", now))
            condition.setdefault("lastTransitionTime", now)
        result = {key: value for key, value in kept.items() if key != "conditions"}
        obj["status"] = result | ({"conditions": conditions} if conditions else {})

    def only_status(self, kind: Kind, obj: Object, old: Object) -> Object:
        """Take everything: `prepare_update` keeps the rest."""
        return obj

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        spec = obj["spec"]
        if old is None:
            yield from _request_causes(spec.get("request", ""))
            usages = spec.get("usages") or []
            if not usages:
                yield status.required("spec.usages")
            for index, usage in enumerate(usages):
                if usage not in _USAGES:
                    yield status.not_supported(f"spec.usages[{index}]", usage, _USAGES)
                if usage in usages[:index]:
                    yield status.duplicate(f"spec.usages[{index}]", usage)
            yield from _signer_causes(spec.get("signerName", ""))
            seconds = spec.get("expirationSeconds", _LEAST_SECONDS)
            if seconds < _LEAST_SECONDS:
                text = f"may not specify a duration less than {_LEAST_SECONDS} seconds (10 minutes)"
                yield status.invalid_value("spec.expirationSeconds", seconds, text)
        conditions = (obj.get("status") or {}).get("conditions") or ()
        if operation.subresource == "status":
            yield from _decision_causes(conditions, old or {})
        yield from _condition_causes(conditions, old)
        certificate = (obj.get("status") or {}).get("certificate")
        if certificate and _CERTIFICATE not in base64.b64decode(certificate):
            text = "must contain at least one CERTIFICATE PEM block"
            yield status.invalid_value("status.certificate", "<certificate data>", text)


def _request_causes(text: str) -> Iterator[Cause]:
    try:
        pem = base64.b64decode(text)
    except (binascii.Error, ValueError):
        pem = b""
    if not pem.strip().startswith(_BEGIN):
        yield status.invalid_value("spec.request", text, "PEM block type must be CERTIFICATE REQUEST")


def _signer_causes(name: str) -> Iterator[Cause]:
    field = "spec.signerName"
    domain, slash, path = name.partition("/")
    if not name:
        yield status.required(field)
    elif name == _LEGACY:
        yield status.invalid_value(field, name, "the legacy signerName is not allowed via this API version")
    elif not slash or "/" in path:
        text = 'must be a fully qualified domain and path of the form "example.com/signer-name"'
        yield status.invalid_value(field, name, text)
    elif not is_subdomain(domain) or "." not in domain:
        problems = name_problems("subdomain", domain)
        problems = problems or ["should be a domain with at least two segments separated by dots"]
        yield from status.invalid_values(field, domain, problems)
    elif not all(is_label(part) for part in path.split(".")):
        problems = name_problems("label", path) or ["must be a DNS-1123 subdomain"]
        yield from status.invalid_values(field, path, problems)


def _decision_causes(conditions: Sequence[dict[str, Any]], old: Object) -> Iterator[Cause]:
    """Check that a write to /status adds no decision."""
    known = {condition["type"] for condition in (old.get("status") or {}).get("conditions") or ()}
    for condition in conditions:
        if condition.get("type") in _DECISIONS and condition["type"] not in known:
            text = f'updates may not add a condition of type "{condition["type"]}"'
            yield status.forbidden_field("status.conditions", text)


def _condition_causes(conditions: Sequence[dict[str, Any]], old: Object | None) -> Iterator[Cause]:
    field, seen = "status.conditions", set[str]()
    for index, condition in enumerate(conditions):
        where, kind, value = f"{field}[{index}]", condition.get("type", ""), condition.get("status", "")
        allowed = ("True",) if kind in _FINAL else ("False", "True", "Unknown")
        if not kind:
            yield status.required(f"{where}.type")
        if not value:
            yield status.required(f"{where}.status")
        elif value not in allowed:
            yield status.not_supported(f"{where}.status", value, allowed)
        if kind in _DECISIONS and seen & set(_DECISIONS) - {kind}:
            yield status.invalid_value(field, kind, "Approved and Denied conditions are mutually exclusive")
        if kind in seen:
            yield status.duplicate(f"{where}.type", kind)
        seen.add(kind)
    for condition in ((old or {}).get("status") or {}).get("conditions") or ():
        if condition["type"] in _FINAL and condition["type"] not in seen:
            text = f'updates may not remove a condition of type "{condition["type"]}"'
            yield status.forbidden_field(field, text)


STRATEGIES = {("certificates.k8s.io", "CertificateSigningRequest"): _Requests()}
