"""The failures of one hostname: which ones the ignore list counts, and when each is retried."""

from __future__ import annotations

import ctrlhost


class ResourceNotFoundError(Exception):
    """The manifest, the service or the exposed port of a hostname does not exist."""

    def __init__(self, what: str) -> None:
        """Use upstream's wording, since the text is shown in `/ignore-list`."""
        super().__init__(f"observation stopped: resource not found: {what}")


class InvalidConnectionError(Exception):
    """A route carries the labels of this controller, but the controller cannot have written it."""

    def __init__(self, what: str) -> None:
        """Use upstream's wording."""
        super().__init__(f"kube: invalid hostname connection: {what}")


class InvalidClaimError(Exception):
    """A ProviderHost whose hostname, addresses or numbers can never become a route; `reason` is a metric label."""

    def __init__(self, reason: str, message: str) -> None:
        """Keep the short reason apart from the message."""
        super().__init__(message)
        self.reason = reason


def is_counted(error: Exception) -> bool:
    """Return whether the ignore list counts the failure: only failures to find something count."""
    return isinstance(error, ResourceNotFoundError | ctrlhost.NotFound) or "not found" in str(error)


def for_retry(error: Exception, delay: float) -> Exception:
    """Return the exception that makes the host retry as `error` requires.

    A counted failure is retried after `delay` seconds, and a rejected object only after a change. Any other failure is
    retried when the server said, or with back-off.
    """
    # The admission webhook of ingress-nginx may still see a route that was just removed.
    outdated_webhook = isinstance(error, ctrlhost.BadRequest) and "is already defined in ingress" in str(error)
    if is_counted(error) or outdated_webhook:
        return ctrlhost.RetryAfter(delay, str(error))
    if isinstance(error, ctrlhost.InvalidObject | ctrlhost.Invalid | ctrlhost.BadRequest):
        return ctrlhost.TerminalError(str(error))
    return error


def go_type_name(error: Exception) -> str:
    """Return the Go type that upstream would print for the failure in `last-error-type`."""
    if isinstance(error, ResourceNotFoundError):
        return "*fmt.wrapError"
    return "*errors.StatusError" if isinstance(error, ctrlhost.ApiError) else "*errors.errorString"
