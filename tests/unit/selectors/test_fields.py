"""Field selectors."""

from __future__ import annotations

import pytest

from ctrlhost.selectors.fields import parse


@pytest.mark.parametrize(
    ("selector", "requirements"),
    [
        ("", ()),
        ("metadata.name=a", (("metadata.name", "a", False),)),
        ("metadata.name==a,status.phase!=Failed", (("metadata.name", "a", False), ("status.phase", "Failed", True))),
        ("spec.nodeName=", (("spec.nodeName", "", False),)),
        (r"a=b\,c\=d\\,e=f", (("a", "b,c=d\\", False), ("e", "f", False))),
        ("a=b,", (("a", "b", False),)),
    ],
)
def test_the_requirements_of_a_selector(selector: str, requirements: tuple[tuple[str, str, bool], ...]) -> None:
    assert parse(selector) == requirements


@pytest.mark.parametrize("selector", ["a", "a==b==c", "a=b=c", "a in (b)", "=a", r"a=b\d", "a=b\\"])
def test_an_invalid_field_selector_names_its_part(selector: str) -> None:
    with pytest.raises(ValueError, match="is invalid at"):
        parse(selector)
