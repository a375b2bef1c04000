"""Names of the kind, of what is created for a network, of labels and annotations."""

from __future__ import annotations

import re

GROUP = "bitcoincontroller.christianb93.github.com"
API_VERSION = f"{GROUP}/v1"
KIND = "BitcoinNetwork"

NETWORK_LABEL = f"{GROUP}/network"
CREDENTIALS_ANNOTATION = f"{GROUP}/credentials"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "ctrlhost"

USER_KEY, PASSWORD_KEY = "BC_RPC_USER", "BC_RPC_PASSWORD"

# A pod's label `controller-revision-hash` is the StatefulSet's name and 11 characters, at most 63 in all.
MAX_NAME = 48
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_CHILD = re.compile(r"(.+)-(?:sts|svc)", re.DOTALL)


def name_problem(name: str) -> str | None:
    """Return why a network of this name cannot work; None if it can."""
    if len(name) > MAX_NAME:
        return f"the name `{name}` is longer than {MAX_NAME} characters"
    if not _NAME.fullmatch(name):
        return f"invalid name `{name}`: must be a DNS label that begins with a letter"
    return None


def stateful_set_name(network: str) -> str:
    """Return the name of the network's StatefulSet."""
    return f"{network}-sts"


def service_name(network: str) -> str:
    """Return the name of the network's Service."""
    return f"{network}-svc"


def pod_name(network: str, ordinal: int) -> str:
    """Return the name of one of the network's pods."""
    return f"{network}-sts-{ordinal}"


def network_of(child: str) -> str | None:
    """Return the network that a StatefulSet or Service of this name would belong to; None for any other name."""
    found = _CHILD.fullmatch(child)
    return found and found[1]


def labels(network: str) -> dict[str, str]:
    """Return the labels of everything created for a network."""
    return {
        **selector(network),
        "app.kubernetes.io/name": "bitcoind",
        "app.kubernetes.io/instance": network,
        MANAGED_BY_LABEL: MANAGER,
    }


def selector(network: str) -> dict[str, str]:
    """Return the labels that select the network's pods."""
    return {"app": network, NETWORK_LABEL: network}


def upstream_selector(network: str) -> dict[str, str]:
    """Return the labels by which the Go controller selects pods."""
    return {"app": network}


def selector_text(network: str) -> str:
    """Return the selector in the form of the scale subresource."""
    return ",".join(f"{key}={value}" for key, value in selector(network).items())
