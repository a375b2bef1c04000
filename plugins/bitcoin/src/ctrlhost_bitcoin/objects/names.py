"""Names: of the kind, of what is made for a network, of labels and annotations."""

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

# The label `controller-revision-hash` of a pod is the StatefulSet's name and 11 characters, 63 at most in all.
LONGEST_NAME = 48
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUFFIXES = ("-sts", "-svc")


def name_problem(name: str) -> str | None:
    """Say why a network of this name can not work; None if it can."""
    if len(name) > LONGEST_NAME:
        return f"the name `{name}` is longer than {LONGEST_NAME} characters"
    if not _NAME.fullmatch(name):
        return f"the name `{name}` is no DNS label that begins with a letter"
    return None


def stateful_set_name(network: str) -> str:
    """Give the name of the network's StatefulSet."""
    return f"{network}-sts"


def service_name(network: str) -> str:
    """Give the name of the network's Service."""
    return f"{network}-svc"


def pod_name(network: str, ordinal: int) -> str:
    """Give the name of one of the network's pods."""
    return f"{network}-sts-{ordinal}"


def container_name(network: str) -> str:
    """Give the name of the daemon's container."""
    return f"{network}-sts-ctr"


def network_of(child: str) -> str | None:
    """Give the network that a StatefulSet or Service of this name would belong to; None for any other name."""
    for suffix in _SUFFIXES:
        if child.endswith(suffix) and len(child) > len(suffix):
            return child[: -len(suffix)]
    return None


def labels(network: str) -> dict[str, str]:
    """Give the labels of all that is made for a network."""
    return {
        **selector(network),
        "app.kubernetes.io/name": "bitcoind",
        "app.kubernetes.io/instance": network,
        MANAGED_BY_LABEL: MANAGER,
    }


def selector(network: str) -> dict[str, str]:
    """Give the labels that select the network's pods."""
    return {"app": network, NETWORK_LABEL: network}


def upstream_selector(network: str) -> dict[str, str]:
    """Give what the Go controller selects pods by."""
    return {"app": network}


def selector_text(network: str) -> str:
    """Give the selector as the scale subresource shows it."""
    return ",".join(f"{key}={value}" for key, value in selector(network).items())
