"""The status of a reconciled object: what a run sets, and the one merge patch that writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

import ctrlhost.conditions as conditions
from ctrlhost.controller.merge_patch import equal, has_list, merge_patch, plain
from ctrlhost.suggestions import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost.cache import Object
    from ctrlhost.clock import Clock
    from ctrlhost.controller.status_shape import StatusShape

#: The API's rules for the type, the reason and the message of a condition, in characters.
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_TYPE = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?").fullmatch
_REASON = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]*[A-Za-z0-9_])?").fullmatch
MAX_TYPE, MAX_REASON, MAX_MESSAGE = 316, 1024, 32768
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class _Condition:
    """A condition that the run sets."""

    status: str
    reason: str
    message: str
    transition: str | None


class StatusWriter:
    """The status that a run sets: `ctx.status`. Nothing is sent before the run ends; then at most one merge patch.

    The patch has only the fields that differ from the object as it is cached when the run ends. It is sent after an
    exception too, so that a failure can be reported. Where the model or the CRD has `status.observedGeneration`, a run
    that used this object writes it too. Use it on the thread or task of the run.
    """

    __slots__ = ("_clock", "_conditions", "_fields", "_read", "_shape", "_used")

    def __init__(self, shape: StatusShape, read: Object, clock: Clock) -> None:
        """Start with the status of the object that the run read."""
        self._shape = shape
        self._read = read
        self._clock = clock
        self._used = False
        #: The values of the fields, None to remove.
        self._fields: dict[str, Any] = {}
        #: The conditions by type, None to remove.
        self._conditions: dict[str, _Condition | None] = {}

    def set(self, status: msgspec.Struct | None = None, /, **fields: Any) -> None:
        """Set fields of the status by their names, None to remove one; fields that are not named stay.

        A struct, whose fields type checkers check, sets all of its fields but `conditions` and `observedGeneration`.

        A value replaces the whole field. TypeError for a field that the model lacks, and for a value that is no JSON;
        PluginError if the kind has no status subresource, or `reads` of its `For` no status.
        """
        self._shape.check()
        known, changed = self._shape.fields, {}
        for name, value in (*_fields_of(status, by_model=known is not None), *fields.items()):
            if name == "conditions":
                raise TypeError("ctx.status.condition(…) sets conditions one by one; those of other writers stay")
            if known is not None and name not in known:
                raise TypeError(self._unknown(name, known))
            changed[name if known is None else known[name]] = None if value is None else plain(value)
        self._fields.update(changed)
        self._used = True

    def condition(
        self,
        type: str,  # noqa: A002 - the name of the API field
        status: bool | str | None,
        reason: str,
        message: str = "",
        *,
        transition: datetime | float | None = None,
    ) -> None:
        """Set the condition of that type; `status` is a bool, None for Unknown, or the API's string.

        `lastTransitionTime` changes only with the status: to `transition`, a datetime or seconds since the epoch, or
        else to the host's time. `observedGeneration` is the generation that the run read. A message of more than
        32,768 characters is cut. ValueError for an invalid type, status or reason: a reason is one word in CamelCase;
        TypeError for one that is no text.
        PluginError if the kind has no status subresource, its CRD no `conditions`, or `reads` of its `For` no status.
        """
        self._shape.check_conditions()
        word = status if isinstance(status, str) else "Unknown" if status is None else str(bool(status))
        if word not in ("True", "False", "Unknown"):
            raise ValueError(f"the status of a condition must be True, False or Unknown, got {status!r}")
        for name, text in (("type", type), ("reason", reason), ("message", message)):
            if not isinstance(text, str):
                raise TypeError(f"the {name} of a condition is a text, got {text!r:.80}")
        if not _TYPE(type) or len(type) > MAX_TYPE:
            raise ValueError(
                f"invalid type {_repr(type)} of a condition: it must be one word of at most {MAX_TYPE} letters, "
                "digits, `-`, `_` and `.`, such as `Ready`, or with a domain `example.com/Ready`"
            )
        if not _REASON(reason) or len(reason) > MAX_REASON:
            raise ValueError(
                f"invalid reason {_repr(reason)} of the condition {type}: it must be one word of at most {MAX_REASON} "
                "letters, digits, `_`, `,` and `:` that begins with a letter, such as `MinimumReplicasAvailable`"
            )
        # The text of an exception may have what UTF-8 has not.
        message = message.encode(errors="replace").decode()
        if len(message) > MAX_MESSAGE:
            message = f"{message[: MAX_MESSAGE - 1]}…"
        self._conditions[type] = _Condition(word, reason, message, _time_text(transition))
        self._used = True

    def remove_condition(self, type: str) -> None:  # noqa: A002 - the name of the API field
        """Remove the condition of that type, if the object has it. PluginError as for `set`."""
        self._shape.check()
        self._conditions[type] = None
        self._used = True

    @property
    def written(self) -> dict[str, Any]:
        """The fields of the status that the run would write if it ended now, None for removed ones; empty for none."""
        return self._changes(self._read)

    def patch(self, current: Object) -> dict[str, Any] | None:
        """Return the merge patch that writes the status to the object as it is now, None if nothing differs.

        One with a list carries the resourceVersion: it must not undo what another writer has added to the list.
        """
        status = self._changes(current)
        if not status:
            return None
        version = {"metadata": {"resourceVersion": current.resource_version}} if has_list(status) else {}
        return {**version, "status": status}

    def _changes(self, base: Object) -> dict[str, Any]:
        if not self._used:
            return {}
        before = plain(base.get("status")) or {}
        if not isinstance(before, dict):
            before = {}
        after = {**before, **self._fields}
        if self._shape.observed_generation and self._read.generation:
            after["observedGeneration"] = self._fields.get("observedGeneration", self._read.generation)
        if self._conditions:
            known = before.get("conditions")
            known = [condition for condition in known if isinstance(condition, dict)] if isinstance(known, list) else []
            changed = self._next_conditions(known)
            if not equal(known, changed):
                after["conditions"] = changed
        return merge_patch(before, {name: value for name, value in after.items() if value is not None})

    def _next_conditions(self, known: list[Any]) -> list[Any]:
        """Return the conditions in their order, changed as the run wants them; new ones are the last."""
        kept = [
            {**condition} for condition in known if self._conditions.get(condition.get("type"), condition) is not None
        ]
        status = {"status": {"conditions": kept}}
        for type_, wanted in self._conditions.items():
            if wanted is None:
                continue
            before = conditions.get(status, type_) or {}
            turns = before.get("status") != wanted.status or not before.get("lastTransitionTime")
            conditions.set(
                status,
                type_,
                wanted.status,
                wanted.reason,
                wanted.message,
                self._clock,
                # Kinds without a generation have 0. A status within the object changes the generation itself.
                observed_generation=None if self._shape.in_object else self._read.generation or None,
            )
            now = conditions.get(status, type_)
            if wanted.transition and turns and isinstance(now, dict):
                now["lastTransitionTime"] = wanted.transition
        return kept

    def _unknown(self, name: str, known: Mapping[str, str]) -> str:
        return f"the status of {self._shape.kind} has no field `{name}`; {suggest(name, known) or 'it has none'}"


def _fields_of(status: msgspec.Struct | None, *, by_model: bool) -> Iterator[tuple[str, Any]]:
    """Return the fields that a struct sets, by their names in the model or in objects."""
    if status is None:
        return
    if not isinstance(status, msgspec.Struct):
        raise TypeError(f"ctx.status.set takes a struct of the status, or fields by their names, got {status!r:.80}")
    for field in msgspec.structs.fields(status):
        value = getattr(status, field.name)
        set_elsewhere = field.encode_name == "observedGeneration" or (field.encode_name == "conditions" and not value)
        if not set_elsewhere and value is not msgspec.UNSET:
            yield field.name if by_model else field.encode_name, value


def _repr(text: str) -> str:
    return repr(text if len(text) <= 64 else f"{text[:63]}…")


def _time_text(moment: datetime | float | None) -> str | None:
    """Return a time as the API writes it; TypeError for another type, ValueError for a time without a time zone."""
    if moment is None:
        return None
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError(f"transition needs a time zone: {moment.isoformat()} has none")
        return moment.astimezone(UTC).strftime(_TIME)
    if isinstance(moment, bool) or not isinstance(moment, int | float):
        raise TypeError(f"transition must be a datetime or seconds since the epoch, got {moment!r}")
    return datetime.fromtimestamp(moment, UTC).strftime(_TIME)
