"""Content types: the encodings of request bodies, and the choice of a response's."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from ctrlhost_sandbox.apimachinery.repeated import Repeated
from ctrlhost_sandbox.apimachinery.status import Failure, bad_request
from ctrlhost_sandbox.encoding import protobuf
from ctrlhost_sandbox.encoding.yaml_scalars import Dumper, Loader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
MAX_DEPTH = 100
_MAX_YAML_NODES = 200_000
#: Decoding that many bytes takes some milliseconds.
_FAST_YAML = 8 * 1024
_ACCEPTED = f"{JSON}, {YAML}, {PROTOBUF}"


@dataclass(frozen=True, slots=True)
class Accepted:
    """A response's encoding, and the kind that objects are converted to (Table, PartialObjectMetadata or "")."""

    media: str = JSON
    form: str = ""
    version: str = "v1"

    @property
    def stream_media(self) -> str:
        """The media type of a watch, which is JSON also where lists are YAML."""
        return JSON

    def encode(self, raw: bytes) -> bytes:
        """Encode the JSON of a response, which ends with a newline."""
        return encode_yaml(raw) if self.media == YAML else raw + b"\n"

    def frame(self, event: str, raw: bytes) -> bytes:
        """Encode an event of a watch and the JSON of its object."""
        return b'{"type":"%b","object":%b}\n' % (event.encode(), raw)


_FORMS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")


def accept(header: str, *, forms: bool = True) -> Accepted:
    """Choose the first servable clause of an Accept header; 406 if there is none. `forms` allows other kinds."""
    if not header:
        return Accepted()
    for media, values in clauses(header):
        form = values.get("as", "")
        if media in (JSON, YAML):
            if not form:
                return Accepted(media)
            if forms and form in _FORMS and values.get("g") == "meta.k8s.io" and values.get("v") in ("v1", "v1beta1"):
                return Accepted(media, form, values["v"])
        elif media in ("*/*", "application/*") and not form:
            return Accepted()
    raise Failure(406, "NotAcceptable", f"only the following media types are accepted: {JSON}, {YAML}")


def clauses(header: str) -> list[tuple[str, dict[str, str]]]:
    """Return the media types of an Accept header with their parameters, the preferred ones first."""
    parsed = []
    for clause in header.split(","):
        media, *parameters = [part.strip() for part in clause.split(";")]
        values = dict(part.partition("=")[::2] for part in parameters if "=" in part)
        try:
            quality = float(values.get("q", "1"))
        except ValueError:
            quality = 0.0
        parsed.append((-quality, media, values))
    return [(media, values) for _, media, values in sorted(parsed, key=lambda item: item[0])]


def media_type(header: str) -> str:
    """Return a Content-Type without its parameters."""
    return header.partition(";")[0].strip().lower()


def unsupported(accepted: str = _ACCEPTED) -> Failure:
    """Return a 415 that lists the supported types."""
    text = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    return Failure(415, "UnsupportedMediaType", text)


def decode_json(body: bytes, *, repeated: Repeated | None = None) -> Any:
    """Decode JSON; 400 if it is invalid. Record its repeated keys in `repeated`."""
    try:
        if repeated is not None:
            return _with_repeated(body, repeated)
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    check_depth(value)
    return value


def _with_repeated(body: bytes, repeated: Repeated) -> Any:
    # Holds the objects themselves, so that no id is reused.
    twice: dict[int, tuple[dict[str, Any], list[str]]] = {}

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            twice[id(result)] = result, [key for key, _ in pairs]
        return result

    msgspec.json.decode(body)
    value = json.loads(body, object_pairs_hook=build)
    check_depth(value)
    if twice:
        _locate(value, "", twice, repeated)
    return value


def _locate(value: Any, path: str, twice: Mapping[int, Any], repeated: Repeated) -> None:
    """Record the places of all keys; an object that a repeated key replaced has none."""
    if type(value) is dict:
        prefix = f"{path}." if path else ""
        keys = twice[id(value)][1] if id(value) in twice else list(value)
        left = Counter(keys)
        for key in keys:
            where, place = f"{prefix}{key}", len(repeated.order) + len(repeated.paths)
            if where in repeated.order:
                repeated.paths.setdefault(where, place)
            else:
                repeated.order[where] = place
            left[key] -= 1
            if not left[key]:
                _locate(value[key], where, twice, repeated)
    elif type(value) is list:
        for index, item in enumerate(value):
            _locate(item, f"{path}[{index}]", twice, repeated)


def check_depth(value: Any) -> None:
    """Raise 400 for values nested deeper than any object needs."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for item in level
            if type(item) in (dict, list)
            for child in (item.values() if type(item) is dict else item)
            if type(child) in (dict, list)
        ]
        if not level:
            return
    raise bad_request(f"the request body is nested deeper than {MAX_DEPTH} levels")


class DecodedYaml(bytes):
    """A body that was decoded before: in another thread, since a large document takes a second."""

    value: Any = None
    failure: Failure | None = None
    repeated: Repeated

    @classmethod
    def of(cls, body: bytes) -> DecodedYaml:
        """Decode `body`. May be called in any thread."""
        decoded = cls(body)
        decoded.repeated = Repeated()
        try:
            decoded.value = decode_yaml(body, repeated=decoded.repeated)
        except Failure as failure:
            decoded.failure = failure
        return decoded


def is_slow(content_type: str, body: bytes) -> bool:
    """Return whether decoding the body takes longer than the others should wait."""
    return len(body) > _FAST_YAML and media_type(content_type).endswith("yaml") and body.lstrip()[:1] != b"{"


def decode_yaml(body: bytes, *, repeated: Repeated | None = None) -> Any:
    """Decode one YAML document as JSON; the expansion of aliases is bounded. Record repeated keys in `repeated`."""
    if isinstance(body, DecodedYaml):
        if body.failure is not None:
            raise body.failure
        if repeated is not None:
            repeated.lines += body.repeated.lines
        return body.value
    if body.lstrip()[:1] == b"{":
        # JSON is valid YAML, and clients mostly send it so for server-side apply.
        with contextlib.suppress(Failure):
            in_json = None if repeated is None else Repeated()
            value = decode_json(body, repeated=in_json)
            if in_json is None or not in_json.paths:
                return value
    try:
        _check_expansion(body)
        value = decode_json(msgspec.json.encode(_plain(yaml.load(body, Loader=Loader))))  # noqa: S506 - it is safe
        if repeated is not None:
            repeated.lines += _repeated_lines(yaml.compose(body, Loader=Loader))
        return value
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, UnicodeDecodeError, AttributeError) as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from error


def _repeated_lines(node: Any) -> Iterator[str]:
    """Return a text for each key of a mapping that occurred before."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, item in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                yield f'line {key.start_mark.line + 1}: key "{key.value}" already set in map'
            seen.add(str(key.value))
            yield from _repeated_lines(item)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _repeated_lines(item)


def _check_expansion(body: bytes) -> None:
    """Count the nodes of a YAML document, those of aliases again, as merge keys copy them; 400 for too many."""
    total = 0
    collections: list[tuple[str | None, int]] = []
    sizes: dict[str | None, int] = {}
    for event in yaml.parse(body, Loader=Loader):
        if isinstance(event, yaml.AliasEvent):
            # A collection that contains itself has no size yet.
            total += sizes.get(event.anchor, _MAX_YAML_NODES)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = collections.pop()
            sizes[anchor] = total - before
        elif isinstance(event, yaml.NodeEvent):
            total += 1
            if isinstance(event, yaml.CollectionStartEvent):
                collections.append((event.anchor, total - 1))
            else:
                sizes[event.anchor] = 1
        if len(collections) > MAX_DEPTH:
            # The parser takes quadratic time in the depth, so it must stop here.
            raise bad_request(f"the request body is nested deeper than {MAX_DEPTH} levels")
        if total > _MAX_YAML_NODES:
            raise bad_request("the YAML document is too large or has too many aliases")


def _plain(value: Any, depth: int = 0) -> Any:
    """Make every key a string, as in JSON; 400 if aliases nest too deeply."""
    if depth > MAX_DEPTH:
        raise bad_request(f"the request body is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        return {_key(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value]
    return value


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if key is None:
        msg = "unsupported map key: null"
        raise ValueError(msg)
    return str(key)


def encode_yaml(raw: bytes) -> bytes:
    """Convert JSON to YAML."""
    document = msgspec.json.decode(raw)
    text: str = yaml.dump(document, Dumper=Dumper, sort_keys=True, allow_unicode=True, default_flow_style=False)
    return text.encode()


def decode(content_type: str, body: bytes, kind: str, repeated: Repeated | None = None) -> Any:
    """Decode a body in any supported encoding; `kind` "" refuses protobuf, which only built-in kinds have."""
    media = media_type(content_type)
    if media in ("", JSON):
        return decode_json(body, repeated=repeated)
    if media == YAML:
        return decode_yaml(body, repeated=repeated)
    if media == PROTOBUF and kind:
        try:
            return protobuf.decode(body)
        except LookupError as error:
            raise unsupported() from error
    raise unsupported()
