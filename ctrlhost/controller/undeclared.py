"""The hint for a kind that a controller uses and does not declare, perhaps because it is misspelt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.client.builtin_kinds import BUILTIN_KINDS, spelt

if TYPE_CHECKING:
    from collections.abc import Iterable


def undeclared_hint(api_version: str, kind: str, declared: Iterable[tuple[str, str]], advice: str) -> str:
    """Return the question for the declared kind that was meant; else `advice` with `{api_version}` and `{kind}`.

    A built-in kind in another case, or in the plural, is written as Kubernetes writes it.
    """
    builtin = BUILTIN_KINDS.get(api_version, {})
    known = {name: builtin.get(name, ("", False)) for version, name in declared if version == api_version}
    meant = spelt(kind, known) or spelt(kind, builtin) or kind
    if meant in known:
        return f"did you mean `{meant}`?"
    return advice.format(api_version=api_version, kind=meant)
