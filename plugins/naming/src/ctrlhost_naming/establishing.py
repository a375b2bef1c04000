"""Establishing: after its names were accepted, a CustomResourceDefinition is declared ready to be served."""

from __future__ import annotations

import base64
import binascii
import ssl
from typing import TYPE_CHECKING, Any

from ctrlhost import conditions as status_conditions
from ctrlhost_naming.conditions import INITIAL_NAMES_ACCEPTED, INVALID_CA_BUNDLE, Condition, is_true
from ctrlhost_naming.decision import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost import Clock
    from ctrlhost_naming.crd import Crd


def is_due(crd: Crd) -> bool:
    """Say whether a CRD has all the names that it asks for now, is told so, and is not established."""
    return crd.satisfied and is_true(crd.names_accepted) and not is_true(crd.established)


def outcome(crd: Crd, raw: Mapping[str, Any]) -> Condition | None:
    """Give the condition to write, None where it stands there already.

    A conversion webhook whose certificates can not be read would make every request fail, so it keeps the CRD from
    being established.
    """
    conversion = raw["spec"].get("conversion") or {}
    bundle = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("caBundle")
    wanted = INITIAL_NAMES_ACCEPTED if not bundle or _is_ca_bundle(bundle) else INVALID_CA_BUNDLE
    return None if crd.established == wanted else wanted


def established_patch(raw: Mapping[str, Any], condition: Condition, clock: Clock) -> dict[str, Any]:
    """Give the merge patch for the status subresource: the resource version that it is based on, and all conditions."""
    conditions = plain((raw.get("status") or {}).get("conditions") or ())
    said: dict[str, Any] = {"status": {"conditions": conditions}}
    status_conditions.set(said, condition.type, condition.status, condition.reason, condition.message, clock)
    return {"metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]}, **said}


def _is_ca_bundle(bundle: str) -> bool:
    """Say whether it is base64 of at least one certificate in PEM form."""
    try:
        text = base64.b64decode(bundle, validate=True).decode("ascii")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError, ValueError):
        return False
    return True
