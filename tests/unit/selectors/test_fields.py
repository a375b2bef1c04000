"""Field selectors."""

from __future__ import annotations

import pytest

from ctrlhost.selectors.fields import parse


@pytest.mark.parametrize(
    ("selector", "fields"),
    [
        ("", ()),
        ("metadata.name=a", ("metadata.name",)),
        ("metadata.name==a,status.phase!=Failed", ("metadata.name", "status.phase")),
        ("spec.nodeName=", ("spec.nodeName",)),
        (r"a=b\,c\=d\\,e=f", ("a", "e")),
        ("a=b,", ("a",)),
    ],
)
def test_the_fields_of_a_selector(selector: str, fields: tuple[str, ...]) -> None:
    assert parse(selector) == fields


@pytest.mark.parametrize("selector", ["a", "a==b==c", "a=b=c", "a in (b)", "=a", r"a=b\d", "a=b\\"])
def test_an_invalid_field_selector_names_its_part(selector: str) -> None:
    with pytest.raises(ValueError, match="is invalid at"):
        parse(selector)
