"""YAML as Python values, as kubectl reads and writes it, by the C library where PyYAML has it.

A plain `No` or `y` is a boolean, `1e3` and `0o17` are integers, and `=`, `1:30` and dates are texts. Keys are texts.
Imported with PyYAML at the first text: most of the host needs neither.
"""

from __future__ import annotations

import base64
import math
import re
from functools import cache
from typing import IO, Any

#: The plain scalars that are words.
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_OCTAL = re.compile(r"[-+]?0[0-7]+")
_INTEGER = re.compile(r"[-+]?(0[xX][\da-fA-F]+|0[bB][01]+|0[oO][0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
#: Characters of the longest integer; a longer one is a number with a fraction.
_LONGEST = 70
#: The deepest nesting, as that of kubectl's parser; beyond some ten thousands the C library overflows its stack.
_DEEPEST = 10_000
#: What may begin a nested value: anywhere, and several in one line.
_OPENING, _NESTED_LINE = re.compile(r"[\[{]"), re.compile(r"(?:[-?:][ \t]+){1000}")
_PREFIX = "tag:yaml.org,2002:"
_TAGS = {bool: f"{_PREFIX}bool", int: f"{_PREFIX}int", float: f"{_PREFIX}float", type(None): f"{_PREFIX}null"}
_TEXT, _MERGE, _BINARY = f"{_PREFIX}str", f"{_PREFIX}merge", f"{_PREFIX}binary"


def load_document(text: str | bytes | IO[Any]) -> Any:
    """Return the only document of a text; yaml.YAMLError, or ValueError for bytes that are no text and deep nesting."""
    import yaml

    try:
        return yaml.load(_bounded(text), Loader=_loader())  # noqa: S506 - it makes values of JSON only
    except RecursionError as error:
        raise ValueError(str(error)) from error


def load_documents(text: str | bytes | IO[Any]) -> list[Any]:
    """Return the documents of a text that are not empty; ValueError, in one line, if it is not YAML."""
    import yaml

    try:
        documents = list(yaml.load_all(_bounded(text), Loader=_loader()))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error
    return [document for document in documents if document is not None]


def load_objects(text: str | bytes | IO[Any]) -> list[dict[str, Any]]:
    """Return the objects of a text, and those of a list, such as a `List` or a `ConfigMapList`, in its place.

    As for kubectl, an item of a `ConfigMapList` without a kind is a ConfigMap. ValueError, in one line, if the text is
    not YAML or a document or item is no mapping.
    """
    try:
        documents = load_documents(text)
    except ValueError as error:
        raise ValueError(f"invalid YAML: {error}") from error
    try:
        return [obj for document in documents for obj in _objects_of(document, {})]
    except RecursionError:
        raise ValueError("a list contains itself") from None


def _objects_of(document: Any, defaults: dict[str, Any]) -> list[dict[str, Any]]:
    if not isinstance(document, dict):
        raise ValueError(f"a document is no object but {type(document).__name__}")
    kind, items = document.get("kind"), document.get("items")
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
        return [defaults | document]
    named = {} if kind == "List" else {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
    return [obj for item in items for obj in _objects_of(item, named)]


def dump_document(document: Any, *, sort_keys: bool = False) -> str:
    """Return a document as text without aliases, whose plain texts are texts for kubectl, too."""
    import yaml

    return str(yaml.dump(document, Dumper=_dumper(), sort_keys=sort_keys, width=120, allow_unicode=True))


def _bounded(text: str | bytes | IO[Any]) -> str | bytes:
    """Return the text; ValueError if it is nested deeper than the parser can read it."""
    import yaml

    content: str | bytes = text if isinstance(text, str | bytes) else text.read()
    plain = content if isinstance(content, str) else content.decode("latin-1")
    if len(_OPENING.findall(plain)) <= _DEEPEST and not _NESTED_LINE.search(plain):
        return content
    # The events take no stack.
    depth = 0
    for event in yaml.parse(content, Loader=_c_or_python("SafeLoader")):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                start: Any = event.start_mark
                raise ValueError(f"line {start.line + 1}: it is nested deeper than {_DEEPEST} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return content


def _meaning(text: str) -> str | bool | float | None:
    """Return the value of a plain scalar, which is its text unless it is a number, a boolean or null."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "0123456789+-.":
        return text
    digits = text.replace("_", "")
    if len(digits) <= _LONGEST:
        number = None
        if _OCTAL.fullmatch(digits):
            number = int(digits, 8)
        elif _INTEGER.fullmatch(digits):
            number = int(digits, 0)
        if number is not None and -(2**63) <= number < 2**64:
            return number
    if _FLOAT.fullmatch(digits) and math.isfinite(fraction := float(digits)):
        return fraction
    return text


def _tag(text: str) -> str:
    return _MERGE if text == "<<" else _TAGS.get(type(_meaning(text)), _TEXT)


@cache
def _loader() -> Any:
    import yaml

    class Loader(_c_or_python("SafeLoader")):  # type: ignore[misc]
        """Loads values of JSON only; tags that these do not have are ignored."""

        def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
            """Return the tag of a node without one."""
            if kind is yaml.ScalarNode and implicit[0]:
                return _tag(value)
            return super().resolve(kind, value, implicit)

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
            """Return a mapping, whose keys are texts as in JSON."""
            self.flatten_mapping(node)
            return {self._key(key): self.construct_object(value, deep=deep) for key, value in node.value}

        def _key(self, node: yaml.Node) -> str:
            key = self.construct_object(node, deep=True)
            if isinstance(key, bool):
                return "true" if key else "false"
            if not isinstance(key, str | int | float):
                what = "null" if key is None else type(key).__name__
                raise yaml.constructor.ConstructorError(None, None, f"unsupported map key: {what}", node.start_mark)
            return str(key)

    def scalar(_loader: Any, node: yaml.ScalarNode) -> Any:
        value = _meaning(node.value)
        expected = (_TAGS.get(type(value)), _TAGS[float] if type(value) is int else "")
        infinite = isinstance(value, float) and not math.isfinite(value)
        if node.tag not in expected or infinite:
            problem = f"a {node.tag.removeprefix(_PREFIX)} cannot have this value"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        # In JSON, 1.0 is 1.
        return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value

    def binary(loader: Any, node: yaml.ScalarNode) -> str:
        return base64.b64decode(loader.construct_scalar(node)).decode()

    constructors = yaml.SafeLoader.yaml_constructors
    Loader.yaml_constructors = {
        **dict.fromkeys(_TAGS.values(), scalar),
        **{tag: constructors[tag] for tag in (_TEXT, f"{_PREFIX}seq", f"{_PREFIX}map")},
        _BINARY: binary,
    }
    return Loader


@cache
def _dumper() -> Any:
    import yaml

    class Plain(_c_or_python("SafeDumper")):  # type: ignore[misc]
        """A dumper that repeats objects instead of writing aliases, and quotes what any parser reads as no text."""

        def ignore_aliases(self, _data: Any) -> bool:
            return True

        def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
            tag = super().resolve(kind, value, implicit)
            return _tag(value) if kind is yaml.ScalarNode and implicit[0] and tag == _TEXT else tag

    return Plain


@cache
def _c_or_python(name: str) -> Any:
    import yaml

    return getattr(yaml, f"C{name}", None) or getattr(yaml, name)
