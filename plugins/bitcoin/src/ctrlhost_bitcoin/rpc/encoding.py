"""Requests in JSON-RPC 2.0, and answers in either version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_bitcoin.rpc import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

# A string: Bitcoin Core 28 and later refuse a number.
_VERSION = "2.0"
_REFUSALS: dict[int, tuple[type[errors.RpcFailure], str]] = {
    401: (errors.Unauthorized, "the daemon refuses the user or the password"),
    403: (errors.Forbidden, "the daemon forbids the method, or calls from here"),
    503: (errors.Busy, "the daemon is busy or stopping"),
}


def request(number: int, method: str, params: Sequence[Any]) -> dict[str, Any]:
    """Return the content of one call; parameters keep their JSON types."""
    return {"jsonrpc": _VERSION, "id": number, "method": method, "params": list(params)}


def decode(status: int, body: bytes) -> Any:
    """Return the content of a body. The status counts only for refusals, where the daemon did not read the call.

    Daemons send errors with 404 or 500 or, in version 2.0, with 200, and an empty body with a refusal.
    """
    if status in _REFUSALS:
        kind, text = _REFUSALS[status]
        raise kind(text)
    if 300 <= status < 400:
        raise errors.Protocol(f"the answer is a redirect ({status}), which is not followed")
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise errors.Protocol(f"the answer ({status}) is not JSON") from None


def result(answer: Any, number: int) -> Any:
    """Return the result in the answer to the request of that number, or raise its error."""
    if not isinstance(answer, dict):
        raise errors.Protocol("invalid answer: not a JSON object")
    error, id_ = answer.get("error"), answer.get("id")
    # `True` and `1.0` are not our ids. A daemon that could not parse a request does not know its id.
    if not (type(id_) is int and id_ == number) and not (id_ is None and error is not None):
        raise errors.Protocol("the answer is for another request")
    if error is not None:
        raise _error(error)
    if "result" not in answer:
        raise errors.Protocol("the answer has neither result nor error")
    return answer["result"]


def results(answers: Any, numbers: Sequence[int]) -> list[Any]:
    """Return a result or a failure for each item of a batch, in the order of the requests.

    Raises a body that is one error for the whole batch.
    """
    if isinstance(answers, dict):
        result(answers, -1)
    if not isinstance(answers, list):
        raise errors.Protocol("invalid answer to a batch: not a list")
    by_number: dict[int, list[Any]] = {}
    for answer in answers:
        number = answer.get("id") if isinstance(answer, dict) else None
        if type(number) is int:
            by_number.setdefault(number, []).append(answer)
    return [_item(by_number.get(number, ()), number) for number in numbers]


def _item(answers: Sequence[Any], number: int) -> Any:
    if len(answers) != 1:
        return errors.Protocol(f"the answer to the batch {'repeats' if answers else 'lacks'} this item")
    try:
        return result(answers[0], number)
    except errors.RpcFailure as failure:
        return failure


def _error(error: Any) -> errors.RpcFailure:
    code = error.get("code") if isinstance(error, dict) else None
    if type(code) is not int:
        return errors.Protocol("the answer's error has no code")
    message = error.get("message")
    kind = errors.WarmingUp if code == errors.IN_WARMUP else errors.RpcError
    return kind(code, message if isinstance(message, str) else "")
