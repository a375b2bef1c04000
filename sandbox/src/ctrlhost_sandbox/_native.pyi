# The native part of the sandbox; `help()` shows its docstrings, which are in `rust/sandbox`. Everything may be called
# from any thread unless stated otherwise.

from collections.abc import Callable, Sequence
from typing import Final, Self, final

__version__: Final[str]

# A regular expression in Go's syntax, matched in linear time. ValueError: invalid, or the text is too long for it.
@final
class Pattern:
    def __new__(cls, text: str) -> Self: ...
    @property
    def size(self) -> int: ...
    def occurs_in(self, text: bytes) -> bool: ...

# The compiled validation rules of a schema in JSON; ValueError for invalid JSON. `root`: it is of whole objects.
# `problems` has (field, reason, value, message, field at the end of the message) for each invalid rule. `validate`
# takes JSON and returns (field, reason, value, message, whether only a warning) for each failed rule.
@final
class CelValidator:
    def __new__(cls, schema: str, root: bool = True) -> Self: ...
    @property
    def problems(self) -> list[tuple[str, str, str, str, str | None]]: ...
    @property
    def empty(self) -> bool: ...
    def validate(self, object: str, old: str | None = None) -> list[tuple[str, str, str, str, bool]]: ...

# The expressions of an admission policy: compiled with their variables, and evaluated together for one request.
@final
class CelExpressions:
    def __new__(
        cls,
        expressions: Sequence[tuple[str, str]],
        variables: Sequence[tuple[str, str]] = ...,
        *,
        params: bool = False,
        authorizer: bool = True,
        schema: str | None = None,
    ) -> Self: ...
    @property
    def errors(self) -> list[str | None]: ...
    @property
    def variable_errors(self) -> list[str | None]: ...
    def evaluate(
        self,
        object: str,
        old: str,
        request: str,
        namespace: str = "null",
        params: str = "null",
        *,
        budget: int,
        authorize: Callable[[str | None, str, str, str, str, str, str, str], tuple[bool, str]] | None = None,
    ) -> tuple[list[tuple[str | None, str]], int] | None: ...

# The parameter `shardSelector`: selects objects by the hash of their uid or namespace. ValueError: kube-apiserver's
# message for an invalid one. `text` is its canonical form.
@final
class ShardSelector:
    def __new__(cls, text: str) -> Self: ...
    @property
    def text(self) -> str: ...
    def selects(self, namespace: str, uid: str) -> bool: ...

# Return whether Go reads a text as the URL of a request.
def is_url(text: str) -> bool: ...

# Return apiVersion, kind and the JSON of an object in protobuf with its envelope. ValueError: it is malformed.
# LookupError: its kind is not built in.
def json_from_protobuf(body: bytes) -> tuple[str, str, bytes]: ...

# The head of a request that a server received; names of headers are lower-case, repeated ones are joined with commas.
@final
class RequestHead:
    @property
    def method(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def headers(self) -> dict[str, str]: ...
    # Whether another request may follow.
    @property
    def keep_alive(self) -> bool: ...

# Parses the requests of one connection.
@final
class RequestParser:
    def __new__(cls) -> Self: ...
    # The bytes of an incomplete head.
    @property
    def pending(self) -> int: ...
    # Whether the connection carried something malformed.
    @property
    def failed(self) -> bool: ...
    # Return what bytes carry: heads, parts of bodies, None for the end of a request; and the bytes behind a request for
    # another protocol.
    def parse(self, data: bytes) -> tuple[list[RequestHead | bytes | None], bytes]: ...
