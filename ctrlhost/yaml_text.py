"""YAML as Python values, read by the C library where PyYAML has it.

Imported with PyYAML at the first text: most of the host needs neither.
"""

from __future__ import annotations

import re
from functools import cache
from typing import IO, Any

#: Texts that PyYAML writes as they are, and that kubectl reads as booleans and numbers.
_TO_QUOTE = (
    ("bool", re.compile(r"[yYnN]\Z"), "yYnN"),
    ("float", re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?\Z|[-+]?0[oObBxX][\da-fA-F_]+\Z"), "-+.0123456789"),
)


def load_document(text: str | bytes | IO[Any]) -> Any:
    """Return the only document of a text; yaml.YAMLError, or ValueError for a date that does not exist."""
    import yaml

    return yaml.load(text, Loader=_c_or_python("SafeLoader"))  # noqa: S506 - both loaders are the safe one


def load_documents(text: str | bytes | IO[Any]) -> list[Any]:
    """Return the documents of a text that are not empty; ValueError, in one line, if it is not YAML."""
    import yaml

    try:
        documents = list(yaml.load_all(text, Loader=_c_or_python("SafeLoader")))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error
    return [document for document in documents if document is not None]


def dump_document(document: Any, *, sort_keys: bool = False) -> str:
    """Return a document as text without aliases, whose plain texts are texts for kubectl, too."""
    import yaml

    return str(yaml.dump(document, Dumper=_dumper(), sort_keys=sort_keys, width=120, allow_unicode=True))


@cache
def _dumper() -> Any:
    class Plain(_c_or_python("SafeDumper")):  # type: ignore[misc]
        """A dumper that repeats objects instead of writing aliases."""

        def ignore_aliases(self, _data: Any) -> bool:
            return True

    for kind, form, first in _TO_QUOTE:
        Plain.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", form, list(first))
    return Plain


@cache
def _c_or_python(name: str) -> Any:
    import yaml

    return getattr(yaml, f"C{name}", None) or getattr(yaml, name)
