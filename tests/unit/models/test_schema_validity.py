"""Whatever type a field has: its schema is one that a server accepts, or the type is refused with its path."""

from __future__ import annotations

import enum
from datetime import date, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from ctrlhost_sandbox.crds.validation import causes, rule_causes
from hypothesis import given, settings
from hypothesis import strategies as st

import ctrlhost


class Mode(enum.Enum):
    FAST = "fast"
    SAFE = "safe"


SCALARS = st.sampled_from(
    [
        *(str, int, float, bool, bytes, datetime, date, UUID, Any),
        *(Mode, Literal["a", "b"], Literal[1, 2], ctrlhost.IntOrString, ctrlhost.Quantity),
        *(Annotated[int, msgspec.Meta(gt=0, le=9)], Annotated[str, msgspec.Meta(pattern="^a", max_length=5)]),
        *(ctrlhost.Condition, ctrlhost.ModelStatus),
    ]
)


def struct_of(kinds: list[Any], optional: list[bool]) -> Any:
    fields = [
        (f"field{number}", kind | None, None) if absent else (f"field{number}", kind)
        for number, (kind, absent) in enumerate(zip(kinds, optional, strict=False))
    ]
    # A frozen struct may be a default.
    return msgspec.defstruct("Inner", fields, frozen=True, kw_only=True)


def optional(kind: Any) -> Any:
    return kind if kind is Any else kind | None


TYPES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.map(optional),
        inner.map(lambda kind: list[kind]),
        inner.map(lambda kind: dict[str, kind]),
        inner.map(lambda kind: set[kind]),
        inner.map(lambda kind: tuple[kind, kind]),
        inner.map(lambda kind: Annotated[list[kind], msgspec.Meta(min_length=1)]),
        inner.map(lambda kind: Annotated[list[kind], ctrlhost.ListMap("field0")]),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1] if Any not in pair else Any),
        st.builds(struct_of, st.lists(inner, min_size=1, max_size=3), st.lists(st.booleans(), min_size=3, max_size=3)),
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=100)
@given(TYPES, st.booleans())
def test_the_crd_of_any_model_is_valid_or_refused(kind: Any, has_status: bool) -> None:
    spec = msgspec.defstruct("Spec", [("field", kind)])
    status = msgspec.defstruct("Status", [("field", kind)], bases=(ctrlhost.ModelStatus,), kw_only=True)

    @ctrlhost.resource("example.com/v1", kind="Thing")
    class Thing(ctrlhost.Model[spec, status if has_status else None]):  # type: ignore[valid-type]
        pass

    crd = refused = None
    try:
        crd = ctrlhost.crd_of(Thing)
    except ctrlhost.ConfigError as error:
        refused = error.message
    if crd is None:
        assert str(refused).startswith("Thing: spec.field")
        return
    assert list(causes(crd)) == []
    assert list(rule_causes(crd)) == []
    assert ctrlhost.crd_of(Thing) == crd
