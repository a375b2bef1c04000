"""What reviews of admission and of conversion have in common: a request inside, and an answer to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from ctrlhost.errors import CtrlhostError

if TYPE_CHECKING:
    from collections.abc import Mapping

R = TypeVar("R")


class InvalidReview(CtrlhostError):
    """The body of a request is no review of the version v1; the message says what is wrong. Becomes HTTP 400."""


class _Review(msgspec.Struct, Generic[R], rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: R | None = None


class Envelope(Generic[R]):
    """A kind of review, with the struct of its requests. For any thread."""

    def __init__(self, api_version: str, kind: str, request: type[R]) -> None:
        """Read and write reviews of this kind."""
        self.api_version = api_version
        self.kind = kind
        self._decoder: msgspec.json.Decoder[_Review[R]] = msgspec.json.Decoder(_Review[request])  # type: ignore[valid-type]

    def request(self, body: bytes) -> R:
        """Return the request in the body of a review; InvalidReview."""
        try:
            review = self._decoder.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidReview(f"the body is no {self.kind}: {error}") from None
        if (review.api_version, review.kind) != (self.api_version, self.kind):
            text = f"got kind {review.kind!r} of {review.api_version!r}"
            raise InvalidReview(f"the body must be {self.kind} of {self.api_version}, {text}")
        if review.request is None:
            raise InvalidReview(f"the {self.kind} has no request")
        return review.request

    def review(self, response: Mapping[str, Any]) -> bytes:
        """Return the body of a review with this response; msgspec's and Python's errors for what is no JSON."""
        return msgspec.json.encode({"apiVersion": self.api_version, "kind": self.kind, "response": response})
