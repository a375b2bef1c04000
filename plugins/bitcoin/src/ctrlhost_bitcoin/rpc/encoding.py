"""What goes over the wire: requests as JSON-RPC 2.0, answers of either version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_bitcoin.rpc.errors import Busy, Forbidden, Protocol, RpcFailure, Unauthorized, rpc_error

if TYPE_CHECKING:
    from collections.abc import Sequence

# The type is spelled as a string: Bitcoin Core 28 and later refuse a number.
_VERSION = "2.0"
_REFUSALS: dict[int, tuple[type[RpcFailure], str]] = {
    401: (Unauthorized, "the daemon refuses the user or the password"),
    403: (Forbidden, "the daemon forbids the method, or calls from here"),
    503: (Busy, "the daemon is busy or stopping"),
}


def request(number: int, method: str, params: Sequence[Any]) -> dict[str, Any]:
    """Give one call as it is sent; parameters keep their JSON types."""
    return {"jsonrpc": _VERSION, "id": number, "method": method, "params": list(params)}


def encode(content: Any) -> bytes:
    """Write a request, or a list of them, as a body."""
    return msgspec.json.encode(content)


def decode(status: int, body: bytes) -> Any:
    """Read a body. The status counts only where it says that nobody looked at the call.

    Daemons send errors with 404 or 500 or, in version 2.0, with 200, and an empty body with a refusal.
    """
    if status in _REFUSALS:
        kind, text = _REFUSALS[status]
        raise kind(text)
    if 300 <= status < 400:
        raise Protocol(f"the answer is a redirect ({status}), which is not followed")
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise Protocol(f"the answer ({status}) is not JSON") from None


def result(answer: Any, number: int) -> Any:
    """Give the result in the answer to the request of that number, or raise its error."""
    if not isinstance(answer, dict):
        raise Protocol("the answer is no JSON object")
    error = answer.get("error")
    given = answer.get("id")
    # A daemon that could not read a request can not know its number either.
    if not _same(given, number) and not (given is None and error is not None):
        raise Protocol("the answer is for another request")
    if error is not None:
        raise _error(error)
    if "result" not in answer:
        raise Protocol("the answer has neither result nor error")
    return answer["result"]


def results(answers: Any, numbers: Sequence[int]) -> list[Any]:
    """Give what came of each item of a batch, in the order in which they were sent: a result, or a failure.

    A body that is one error for the whole batch is raised.
    """
    if isinstance(answers, dict):
        result(answers, -1)
    if not isinstance(answers, list):
        raise Protocol("the answer to a batch is no list")
    found: dict[int, Any] = {}
    repeated = set()
    for answer in answers:
        number = answer.get("id") if isinstance(answer, dict) else None
        if type(number) is not int:
            continue
        if number in found:
            repeated.add(number)
        found[number] = answer
    return [_item(found, repeated, number) for number in numbers]


def _item(found: dict[int, Any], repeated: set[int], number: int) -> Any:
    if number not in found:
        return Protocol("the batch's answer lacks this item")
    if number in repeated:
        return Protocol("the batch's answer has this item twice")
    try:
        return result(found[number], number)
    except RpcFailure as failure:
        return failure


def _same(given: Any, number: int) -> bool:
    """Compare numbers as numbers: `True` and `1.0` are no ids of ours."""
    return type(given) is int and given == number


def _error(error: Any) -> RpcFailure:
    code = error.get("code") if isinstance(error, dict) else None
    if type(code) is not int:
        return Protocol("the answer's error has no code")
    message = error.get("message")
    return rpc_error(code, message if isinstance(message, str) else "")
