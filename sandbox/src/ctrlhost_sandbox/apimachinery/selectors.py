"""Label and field selectors."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from operator import gt, lt
from typing import Any

from ctrlhost_sandbox.apimachinery.names import label_value_problems, qualified_problems
from ctrlhost_sandbox.apimachinery.objects import at
from ctrlhost_sandbox.apimachinery.status import Failure, bad_request, show

LabelTest = Callable[[Mapping[str, str]], bool]

_TOKEN = re.compile(r"==|!=|[=!,()<>]|[^ \t\r\n=!,()<>]+")
_SYMBOLS = ("==", *"=!,()<>")
_INT = re.compile(r"[+-]?\d{1,19}", re.ASCII)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: deque[str] = deque(_TOKEN.findall(text))

    def check(self, key: str, values: Iterable[str]) -> None:
        """Raise 400 if values of a label are invalid."""
        texts = [
            f"values[{index}][{key}]: Invalid value: {show(value)}: {'; '.join(problems)}"
            for index, value in enumerate(values)
            if (problems := label_value_problems(value))
        ]
        if texts:
            text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
            raise bad_request(f"unable to parse requirement: {text}")

    def fail(self) -> Failure:
        return bad_request(f"unable to parse requirement: {self._text!r} is not a label selector")

    def peek(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def next(self) -> str:
        return self._tokens.popleft() if self._tokens else ""

    def requirements(self) -> list[LabelTest]:
        tests: list[LabelTest] = []
        while self._tokens:
            tests.append(self._requirement())
            if self.next() not in ("", ","):
                raise self.fail()
        return tests

    def _literal(self) -> str:
        text = self.next()
        if text in _SYMBOLS:
            raise self.fail()
        return text

    def _key(self) -> str:
        key = self._literal()
        if problems := qualified_problems(key):
            text = f"<nil>: Invalid value: {show(key)}: {'; '.join(problems)}"
            raise bad_request(f"unable to parse requirement: {text}")
        return key

    def _requirement(self) -> LabelTest:
        if self.peek() == "!":
            self.next()
            absent = self._key()
            return lambda labels: absent not in labels
        key = self._key()
        operator = self.peek()
        if operator in ("", ","):
            return lambda labels: key in labels
        self.next()
        if operator in ("=", "==", "!="):
            value = "" if self.peek() in ("", ",") else self._literal()
            self.check(key, [value])
            return lambda labels: (labels.get(key) == value) is (operator != "!=")
        if operator in ("in", "notin"):
            values = self._values()
            self.check(key, sorted(values))
            return lambda labels: (labels.get(key) in values) is (operator == "in")
        if operator in (">", "<"):
            text = self.next()
            if not _INT.fullmatch(text):
                raise self.fail()
            limit, exceeds = int(text), gt if operator == ">" else lt
            return lambda labels: bool(_INT.fullmatch(labels.get(key, ""))) and exceeds(int(labels[key]), limit)
        raise self.fail()

    def _values(self) -> frozenset[str]:
        if self.next() != "(":
            raise self.fail()
        values: set[str] = set()
        while True:
            values.add("" if self.peek() in (",", ")") else self._literal())
            token = self.next()
            if token == ")":
                return frozenset(values)
            if token != ",":
                raise self.fail()


def parse_labels(text: str) -> LabelTest | None:
    """Parse a label selector; None selects everything, 400 for an invalid one."""
    if not text.strip():
        return None
    tests = _Parser(text).requirements()
    if len(tests) == 1:
        return tests[0]
    return lambda labels: all(test(labels) for test in tests)


def match_selector(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Match labels against a LabelSelector object; None matches nothing, {} everything."""
    if selector is None or not (selector.get("matchLabels") or {}).items() <= labels.items():
        return False
    for requirement in selector.get("matchExpressions") or ():
        key, operator, values = requirement.get("key"), requirement.get("operator"), requirement.get("values") or ()
        present = key in labels
        fits = {
            "In": present and labels.get(key) in values,
            "NotIn": not present or labels.get(key) not in values,
            "Exists": present,
            "DoesNotExist": not present,
        }.get(operator, False)
        if not fits:
            return False
    return True


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """Format a LabelSelector object as the text of a query."""
    if not selector:
        return ""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for requirement in selector.get("matchExpressions") or ():
        key, values = requirement.get("key", ""), ",".join(sorted(requirement.get("values") or ()))
        text = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append(text.get(requirement.get("operator", ""), ""))
    return ",".join(sorted(parts))


def parse_fields(text: str) -> list[tuple[str, bool, str]]:
    """Split a field selector into (path, must be equal, value)."""
    terms = []
    for term in re.split(r"(?<!\\),", text):
        if not term.strip() or term in ("=", "=="):
            # A real server ignores a term without field and value.
            continue
        match = re.fullmatch(r"([^=!]+)(==|!=|=)((?:[^=\\]|\\.)*)", term, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid field selector: {term!r}; can't understand it")
        value = re.sub(r"\\(.)", _unescape, match[3])
        terms.append((match[1], match[2] != "!=", value))
    return terms


def _unescape(match: re.Match[str]) -> str:
    if match[1] not in ",=\\":
        raise bad_request(f"invalid field selector: invalid escape sequence \\{match[1]}")
    return match[1]


def field_text(obj: Mapping[str, Any], path: tuple[str, ...], missing: str = "") -> str:
    """Return a field's value as selectors compare it."""
    value = at(obj, path)
    if value is None:
        return missing
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
