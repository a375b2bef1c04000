"""Places in objects that values of a chart fill: texts in the object, template code in its YAML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctrlhost.yaml_text import dump_document

if TYPE_CHECKING:
    from collections.abc import Callable

#: The namespace of the objects of a chart, until they are YAML.
NAMESPACE = "namespace-of-the-release"
_NAMESPACE_CODE = ".Release.Namespace"
_INSTANCE = "app.kubernetes.io/instance"
_LINE = re.compile(r"(?P<indent> *)(?P<start>- |[^\s:]+: )(?P<hole>hole-\d+-of-the-chart)")
_HOLE = re.compile(r"hole-\d+-of-the-chart")


class Holes:
    """The holes of one chart."""

    def __init__(self) -> None:
        """Start without any."""
        self._inline: dict[str, str] = {}
        self._lines: dict[str, Callable[[str, str], list[str]]] = {}

    def code(self, code: str) -> str:
        """Return the text in whose place the result of the template code will be."""
        return self._add(self._inline, f"{{{{ {code} }}}}")

    def member(self, value: str) -> str:
        """Return the text for a member of a mapping: the member is left out while the value is empty."""

        def lines(indent: str, start: str) -> list[str]:
            inner = len(indent) + 2
            return [f"{indent}{start.rstrip()}", f"{indent}  {{{{- toYaml . | nindent {inner} }}}}"]

        return self._add(self._lines, self._with(value, lines))

    def items(self, value: str) -> str:
        """Return the text for an item of a list or the value of a member, in whose line those of the value will be."""
        return self._add(
            self._lines, self._with(value, lambda indent, _: [f"{indent}{{{{- toYaml . | nindent {len(indent)} }}}}"])
        )

    def item_if(self, condition: str, item: str) -> str:
        """Return the text for an item of a list that is there only under a condition."""
        return self._add(
            self._lines,
            lambda indent, start: [f"{indent}{{{{- if {condition} }}}}", f"{indent}{start}{item}", _end(indent)],
        )

    def template(self, document: dict[str, Any]) -> str:
        """Return the template of an object: its YAML, with code in the place of holes."""
        text = dump_document(document).replace("{{", '{{ "{{" }}')
        return "".join(self._line(line) for line in text.splitlines(keepends=True))

    def _line(self, line: str) -> str:
        if (match := _LINE.fullmatch(line.rstrip("\n"))) and match["hole"] in self._lines:
            lines = self._lines[match["hole"]](match["indent"], match["start"])
            return "".join(f"{each}\n" for each in lines)
        line = _HOLE.sub(lambda match: self._inline[match[0]], line)
        # A label has 63 characters at most.
        line = re.sub(
            rf"({re.escape(_INSTANCE)}: ){NAMESPACE}(\S+)",
            rf'\1{{{{ printf "%s\2" {_NAMESPACE_CODE} | trunc 63 | trimSuffix "-" | quote }}}}',
            line,
        )
        # Alone it may look like a number.
        line = re.sub(rf"(- |: ){NAMESPACE}$", rf"\1{{{{ {_NAMESPACE_CODE} | quote }}}}", line)
        return line.replace(NAMESPACE, f"{{{{ {_NAMESPACE_CODE} }}}}")

    def _add(self, holes: dict[str, Any], content: Any) -> str:
        hole = f"hole-{len(self._inline) + len(self._lines)}-of-the-chart"
        holes[hole] = content
        return hole

    @staticmethod
    def _with(value: str, inner: Callable[[str, str], list[str]]) -> Callable[[str, str], list[str]]:
        return lambda indent, start: [f"{indent}{{{{- with {value} }}}}", *inner(indent, start), _end(indent)]


def _end(indent: str) -> str:
    return f"{indent}{{{{- end }}}}"
