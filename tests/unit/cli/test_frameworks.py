"""The options of frameworks take several sources."""

from __future__ import annotations

import pytest

from ctrlhost.cli.frameworks import _repeated


@pytest.mark.parametrize(
    ("words", "repeated"),
    [
        ("new.py --kopf a.py b.py --plugins x e.py", "new.py --kopf=a.py --kopf=b.py --plugins x e.py"),
        ("--kopf -m a.b c.py -m d", "--kopf=a.b --kopf=c.py --kopf=d"),
        ("--kopf a.py -n default -m b", "--kopf=a.py -n default -m b"),
        ("--kopf=a.py b.py", "--kopf=a.py b.py"),
        ("--kopf a.py --kopf b.py", "--kopf=a.py --kopf=b.py"),
        ("--kopf --sandbox", "--kopf --sandbox"),
        ("--kopf -m", "--kopf -m"),
        ("--kopf a.py -- b.py", "--kopf=a.py -- b.py"),
    ],
)
def test_each_source_gets_the_option(words: str, repeated: str) -> None:
    assert " ".join(_repeated(words.split())) == repeated
