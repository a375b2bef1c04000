"""Events about objects, and the loggers of handlers, whose lines can become events."""

from __future__ import annotations

import enum
import logging
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from ctrlhost_kopf.bodies import build_object_reference
from ctrlhost_kopf.dicts import walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost_kopf.plugin import Operator

    Logger: TypeAlias = logging.Logger | logging.LoggerAdapter[Any]
else:
    Logger = logging.Logger | logging.LoggerAdapter

objects_log = logging.getLogger("kopf.objects")
#: The operator whose handler runs.
operator_var: ContextVar[Operator] = ContextVar("ctrlhost_kopf_operator")
#: Lines below these levels become events of these types; higher ones are fatal.
_TYPES = ((logging.INFO, "Normal"), (logging.WARNING, "Warning"), (logging.ERROR, "Error"))


class LogFormat(enum.Enum):
    """The formats of kopf's logs; without effect, since the host formats them."""

    PLAIN = "%(message)s"
    FULL = "[%(asctime)s] %(name)-20.20s [%(levelname)-8.8s] %(message)s"
    JSON = "-json-"


class ObjectLogger(logging.LoggerAdapter):  # type: ignore[type-arg] # no generic at run time
    """The logger of a handler: its lines name the object, and become events with `settings.posting.loggers`."""

    def __init__(self, *, body: Mapping[str, Any], settings: Any = None) -> None:  # noqa: ARG002 - kopf's
        # Without the settings: a host with log_format=json writes all fields of a line.
        super().__init__(objects_log, {"k8s_ref": build_object_reference(body)})

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        """Add the object to a line."""
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


class LocalObjectLogger(ObjectLogger):
    """A logger whose lines never become events."""

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        """Add the object to a line, and that it is not to be posted."""
        msg, kwargs = super().process(msg, kwargs)
        return msg, {**kwargs, "extra": {**kwargs["extra"], "k8s_skip": True}}


class _Poster(logging.Handler):
    """Posts the lines of object loggers."""

    def emit(self, record: logging.LogRecord) -> None:
        operator, reference = operator_var.get(None), getattr(record, "k8s_ref", None)
        if operator is None or reference is None or getattr(record, "k8s_skip", False):
            return
        posting = operator.settings.posting
        if posting.loggers and posting.enabled and record.levelno >= posting.level:
            named = next((name for level, name in _TYPES if record.levelno <= level), "Fatal")
            operator.post(reference, named, "Logging", self.format(record))


objects_log.addHandler(_Poster())


def event(objs: Any, *, type: str, reason: str, message: str = "", backoffs: Any = None) -> None:  # noqa: A002, ARG001
    """Post an event about objects; LookupError outside of a handler. The host retries it, whatever `backoffs` are."""
    _post(objs, type, reason, message, logging.CRITICAL)


def info(objs: Any, *, reason: str, message: str = "", backoffs: Any = None) -> None:  # noqa: ARG001
    """Post an event of type Normal about objects; LookupError outside of a handler."""
    _post(objs, "Normal", reason, message, logging.INFO)


def warn(objs: Any, *, reason: str, message: str = "", backoffs: Any = None) -> None:  # noqa: ARG001
    """Post an event of type Warning about objects; LookupError outside of a handler."""
    _post(objs, "Warning", reason, message, logging.WARNING)


def exception(
    objs: Any,
    *,
    reason: str = "",
    message: str = "",
    exc: BaseException | None = None,
    backoffs: Any = None,  # noqa: ARG001
) -> None:
    """Post an error about objects, by default the one that is handled; LookupError outside of a handler."""
    exc = exc or sys.exc_info()[1]
    text = " ".join(str(part) for part in (message, exc) if part)
    _post(objs, "Error", reason or type(exc).__name__, text, logging.ERROR)


def _post(objs: Any, type_: str, reason: str, message: str, level: int) -> None:
    operator = operator_var.get()
    if operator.settings.posting.enabled and operator.settings.posting.level <= level:
        for obj in walk(objs):
            operator.post(build_object_reference(obj), type_, reason, message)
