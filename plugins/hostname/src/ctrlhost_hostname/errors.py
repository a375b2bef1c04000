"""What can go wrong with one hostname, and what each failure means for the ignore list and the retry."""

from __future__ import annotations

import enum

import ctrlhost


class HostnameError(Exception):
    """The base of the plugin's own failures."""


class ResourceNotFoundError(HostnameError):
    """The manifest, the service or the exposed port that a hostname asks for does not exist."""

    def __init__(self, what: str) -> None:
        """Word the failure as upstream does, since the text shows in `/ignore-list`."""
        super().__init__(f"observation stopped: resource not found: {what}")


class ManifestDecodeError(HostnameError):
    """A field of the Manifest has a wrong type or range; only another version of the Manifest helps."""


class InvalidConnectionError(HostnameError):
    """A route that carries our labels is not one that we could have written."""

    def __init__(self, what: str) -> None:
        """Word the failure as upstream does."""
        super().__init__(f"kube: invalid hostname connection: {what}")


class InvalidClaimError(HostnameError):
    """A ProviderHost whose hostname, addresses or numbers can never become a route; `reason` is a metric label."""

    def __init__(self, reason: str, message: str) -> None:
        """Keep the short reason apart from the message."""
        super().__init__(message)
        self.reason = reason


class Retry(enum.Enum):
    """When a failed hostname is tried again."""

    CONSTANT = "after the retry delay, until the lease is flagged"
    DELAY = "after the retry delay"
    BACK_OFF = "when the server said, else after a delay that grows with every failure"
    PARKED = "not before something changes"


def is_counted(error: Exception) -> bool:
    """Say whether the ignore list counts the failure: only what says that something does not exist."""
    return isinstance(error, ResourceNotFoundError | ctrlhost.NotFound) or "not found" in str(error)


def retry_class(error: Exception) -> Retry:
    """Say when a hostname that failed with `error` is tried again."""
    if is_counted(error):
        return Retry.CONSTANT
    if isinstance(error, ManifestDecodeError | ctrlhost.Invalid):
        return Retry.PARKED
    if isinstance(error, ctrlhost.BadRequest):
        # The admission webhook of ingress-nginx still sees the route that was removed a moment ago.
        return Retry.DELAY if "is already defined in ingress" in str(error) else Retry.PARKED
    return Retry.BACK_OFF


def go_type_name(error: Exception) -> str:
    """Give the Go type that upstream would print for the failure in `last-error-type`."""
    if isinstance(error, ResourceNotFoundError):
        return "*fmt.wrapError"
    if isinstance(error, ctrlhost.ApiError):
        return "*errors.StatusError"
    return "*errors.errorString"
