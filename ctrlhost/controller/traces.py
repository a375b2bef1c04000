"""Tracebacks of errors: what is kept of one, and its text, in which the frames of ctrlhost are one line."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING, NamedTuple

from ctrlhost.controller.error_groups import leaves
from ctrlhost.controller.error_text import encodable, line_of
from ctrlhost.controller.places import HIDDEN

if TYPE_CHECKING:
    from types import TracebackType

#: The frames that are kept of one error, the first and the last ones, and the errors of a chain or of a group.
_FIRST, _LAST, _CHAIN = 10, 30, 5
#: Characters of a text, and of a message in it.
TEXT, _MESSAGE = 8192, 2000
#: How one error of a chain follows from the one before it, as Python says it.
_CAUSED = "The above exception was the direct cause of the following exception:"
_DURING = "During handling of the above exception, another exception occurred:"


class Frame(NamedTuple):
    """One call: the file, the line, and the name of the function."""

    file: str
    line: int
    name: str


class Stack(NamedTuple):
    """The calls of one error, without those of ctrlhost, unless there are no others; only how many these are."""

    frames: tuple[Frame, ...]
    #: The frames between the first and the last ones that are left out, and those of ctrlhost.
    left_out: int
    folded: int


class Part(NamedTuple):
    """One error of a chain: how it follows from the one before it, its lines, and where it was raised."""

    link: str
    lines: tuple[str, ...]
    stack: Stack


class Trace(NamedTuple):
    """The traceback of an error and of its causes, of bounded size, without any object of the run."""

    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """About the bytes that it takes."""
        return sum(100 * len(part.stack.frames) + sum(map(len, part.lines)) for part in self.parts)

    def sharing(self, other: Trace | None) -> Trace:
        """Return this traceback with the calls of `other`, if they are the same ones."""
        if other is None or [part.stack for part in self.parts] != [part.stack for part in other.parts]:
            return self
        pairs = zip(self.parts, other.parts, strict=True)
        return Trace(tuple(part._replace(stack=shared.stack) for part, shared in pairs))

    def text(self) -> str:
        """Return it as Python writes it, of at most 8 KiB. This reads the source files."""
        lines: list[str] = []
        for part in self.parts:
            lines += [part.link, ""] if part.link else []
            lines += [*_lines(part.stack), *part.lines, ""]
        text = encodable("\n".join(lines).rstrip("\n"))
        if len(text) <= TEXT:
            return text
        half = TEXT // 2
        return f"{text[:half]}\n  … {len(text) - 2 * half:,} characters\n{text[-half:]}"


def trace_of(error: BaseException) -> Trace:
    """Return the traceback of an error, also if its own methods raise."""
    chain: list[tuple[str, BaseException]] = []
    seen: set[int] = set()
    link, last = "", error
    while id(last) not in seen and len(chain) < _CHAIN:
        seen.add(id(last))
        # Not by `or`: an error may be false, or have a `__bool__` that raises.
        before = last.__context__ if last.__cause__ is None and not last.__suppress_context__ else last.__cause__
        link = "" if before is None else _CAUSED if last.__cause__ is not None else _DURING
        chain.append((link, last))
        if before is None:
            break
        last = before
    first, *others = reversed(chain)
    # The oldest that is kept follows from nothing that is shown.
    return Trace(tuple(_part(link, cause) for link, cause in [("", first[1]), *others]))


def _part(link: str, error: BaseException) -> Part:
    lines = [line_of(error), *_notes(error)]
    if isinstance(error, BaseExceptionGroup):
        lines += [f"  {line_of(leaf)}" for leaf, _ in zip(leaves(error), range(2 * _CHAIN), strict=False)]
    return Part(link, tuple(lines), _stack(error.__traceback__))


def _notes(error: BaseException) -> list[str]:
    try:
        notes = error.__notes__
    except Exception:  # noqa: BLE001 - usually it has none, or its `__getattr__` raises
        return []
    return [note[:_MESSAGE] for note in notes[:_CHAIN] if type(note) is str] if type(notes) is list else []


def _stack(traceback: TracebackType | None) -> Stack:
    own: list[Frame] = []
    ours: list[Frame] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        frames = ours if code.co_filename.startswith(HIDDEN) else own
        frames.append(Frame(code.co_filename, traceback.tb_lineno, code.co_name))
        traceback = traceback.tb_next
    # An error of ctrlhost's own has nothing else to show.
    shown, folded = (own, len(ours)) if own else (ours, 0)
    left_out = max(0, len(shown) - _FIRST - _LAST)
    if left_out:
        shown = shown[:_FIRST] + shown[-_LAST:]
    return Stack(tuple(shown), left_out, folded)


def _lines(stack: Stack) -> list[str]:
    if not stack.frames:
        return []
    lines = ["Traceback (most recent call last):"]
    for at, frame in enumerate(stack.frames):
        if stack.left_out and at == _FIRST:
            lines.append(f"  … {stack.left_out:,} frames")
        lines.append(f'  File "{frame.file}", line {frame.line}, in {frame.name}')
        if source := linecache.getline(frame.file, frame.line).strip():
            lines.append(f"    {source[:_MESSAGE]}")
    if stack.folded:
        lines.append(f"  … {stack.folded} frame{'' if stack.folded == 1 else 's'} of ctrlhost")
    return lines
