"""Upstream's table of the Ingresses that get the address, for a new and for a changed Ingress."""

from __future__ import annotations

from typing import Any

import pytest

ADDRESS = [{"ip": "127.0.0.1"}]


def row(name: str, address: str, classes: str, annotation: str | None, field: str | None, written: bool) -> object:
    mark = pytest.mark.behaviour(name)
    return pytest.param(address, classes, annotation, field, written, id=name, marks=mark)


@pytest.mark.parametrize("change", ["add", "update"])
@pytest.mark.parametrize(
    ("address", "classes", "annotation", "field", "written"),
    [
        row("ingress-status/U1", "", "", None, None, False),
        row("ingress-status/U2", "127.0.0.1", "", None, None, True),
        row("ingress-status/U3", "127.0.0.1", "phony", None, None, False),
        row("ingress-status/U4", "127.0.0.1", "", "contour", None, True),
        row("ingress-status/U5", "127.0.0.1", "", None, "contour", True),
        row("ingress-status/U6", "127.0.0.1", "", "something", None, False),
        row("ingress-status/U7", "127.0.0.1", "", None, "something", False),
        row("ingress-status/U8", "127.0.0.1", "phony", "other", None, False),
        row("ingress-status/U9", "127.0.0.1", "phony", None, "other", False),
        row("ingress-status/U10", "127.0.0.1", "phony", "phony", None, True),
        row("ingress-status/U11", "127.0.0.1", "phony", None, "phony", True),
        row("ingress-status/U12", "127.0.0.1", "phony", "other", "phony", False),
        row("ingress-status/U13", "127.0.0.1", "phony", "phony", "notcorrect", True),
    ],
)
def test_a_status_is_written_when_the_ingress_is_of_our_class(
    cluster: Any, change: str, address: str, classes: str, annotation: str | None, field: str | None, written: bool
) -> None:
    metadata = {"annotations": {"kubernetes.io/ingress.class": annotation}} if annotation is not None else {}
    # The server refuses an annotation beside a field at creation; an update brings the two together, before the
    # replica starts where it is to meet the Ingress as one that it did not know.
    both = annotation is not None and field is not None
    if change == "update":
        cluster.ingress("web", annotation="elsewhere")
    elif both:
        cluster.ingress("web", field=field)
        cluster.edit("web", metadata=metadata)
    replica = cluster.start(ingress_status_address=address, ingress_class_name=classes)
    if change == "update":
        annotations = {"annotations": {"kubernetes.io/ingress.class": annotation}}
        cluster.edit("web", metadata=annotations, spec={"ingressClassName": field})
    elif not both:
        cluster.ingress("web", annotation=annotation, field=field)
    cluster.idle()
    assert cluster.status("web") == (ADDRESS if written else None)
    assert len(replica.writes()) == (1 if written else 0)
