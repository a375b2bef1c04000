from __future__ import annotations

from types import SimpleNamespace

import pytest

from ctrlhost.declarative.tracked import owner_of
from ctrlhost.request import Request

MARK = "tracked.ctrlhost.dev/a.b"


@pytest.mark.behaviour("findings3/NA7")
@pytest.mark.parametrize(
    ("annotation", "owner"),
    [
        ("shop/cache", Request("cache", "shop")),
        ("/cache", Request("cache", "")),
        ("/a:b", Request("a:b", "")),
        *((text, None) for text in ("", "/", "cache", "shop/", "shop/a/b", "../../x", "shop/a\nb", "sh\x1bop/a")),
    ],
)
def test_an_annotation_by_hand_is_a_request_only_if_it_is_a_name(annotation, owner):
    assert owner_of(SimpleNamespace(annotations={MARK: annotation}), MARK) == owner
