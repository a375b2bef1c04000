"""The keys that a document repeats."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Repeated:
    """The repeated keys of one body."""

    paths: dict[str, int] = field(default_factory=dict)
    """Of JSON: paths such as `spec.replicas`, with their place in the document."""
    order: dict[str, int] = field(default_factory=dict)
    """The first place of every path in a JSON document that repeats keys."""
    lines: list[str] = field(default_factory=list)
    """Of YAML: a text for each repetition."""
