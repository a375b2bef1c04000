"""The rights that accounts got and used, from the audit log of a real kube-apiserver."""

from __future__ import annotations

from typing import Any


def account_rule(namespace: str) -> dict[str, Any]:
    """Return the audit rule for all requests of the ServiceAccounts of a namespace."""
    return {
        "level": "Metadata",
        "omitStages": ["RequestReceived"],
        "userGroups": [f"system:serviceaccounts:{namespace}"],
    }


def forbidden(audited: list[dict[str, Any]]) -> list[str]:
    """Return the requests that were not allowed."""
    refused = [
        one
        for one in audited
        if one["annotations"]["authorization.k8s.io/decision"] != "allow" or one["responseStatus"].get("code") == 403
    ]
    return sorted({f"{one['user']['username']}: {one['verb']} {one['requestURI']}" for one in refused})
