"""The live view of `ctrlhost top`: a screen of `textual`, whose views open one another."""

from __future__ import annotations

import asyncio
import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ctrlhost.cli.amounts import plural
from ctrlhost.cli.looks import Look, Looks
from ctrlhost.cli.messages import describe
from ctrlhost.cli.overview import Overview, header
from ctrlhost.cli.rows import FAINT, HEADING, Row, lines_of, matching, wrapped
from ctrlhost.cli.table import visible
from ctrlhost.errors import CtrlhostError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ctrlhost.cli.rows import View
    from ctrlhost.cli.running_host import Answer, RunningHost

#: Seconds between two drawings of the header, which has an age while the host does not answer.
_SECOND = 1.0
_HELP = """\
up, down, j, k   move the cursor; so do PageUp, PageDown, Home and End
Enter            open what the cursor is on: a controller, a cause, a key, an informer
Escape           end the filter, or go back
/                show only the rows that have a text; Enter keeps the filter
s                sort the controllers by the next column; by `state` the worst are first
p                pause the controller that the cursor is on, or resume it, after a question
e                enqueue the key that the cursor is on, which ends its back-off
q, Ctrl-C        quit

p and e need a host that runs with --admin, and its local socket: not --url."""


@dataclass(slots=True)
class _Opened:
    """A view that is open, with what the host said for it, and where its user is."""

    view: View
    #: None before the first answer, and if the host refused.
    answer: Answer | None = None
    refused: str = ""
    filter: str = ""
    #: The name of the row with the cursor, and the line at the top.
    cursor: str = ""
    top: int = 0


class Live(App[None], inherit_bindings=False):
    """The screen: a header, the rows of the newest view, and the keys."""

    ENABLE_COMMAND_PALETTE = False
    # The colours are those of the terminal.
    CSS = """
    Screen { background: ansi_default; color: ansi_default; }
    #header, #footer { height: auto; background: ansi_default; }
    #header { max-height: 40%; }
    #filter { display: none; height: 1; border: none; padding: 0; background: ansi_default; }
    OptionList, OptionList:focus {
        height: 1fr; border: none; padding: 0; background: ansi_default; color: ansi_default; background-tint: 0%;
        scrollbar-size-vertical: 1; scrollbar-gutter: stable;
    }
    OptionList > .option-list--option, OptionList:focus > .option-list--option { padding: 0; }
    OptionList > .option-list--option-disabled { color: ansi_default; }
    OptionList > .option-list--option-highlighted, OptionList:focus > .option-list--option-highlighted {
        background: ansi_default; color: ansi_default; text-style: reverse;
    }
    Question { align: center middle; background: ansi_default; }
    Question > Static { width: auto; max-width: 90%; padding: 1 2; border: solid ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", priority=True),
        Binding("q", "quit"),
        Binding("escape", "leave"),
        Binding("slash", "filter"),
        Binding("question_mark", "help"),
        Binding("s", "sort"),
        Binding("p", "pause"),
        Binding("e", "enqueue"),
    ]

    def __init__(self, url: str | None, socket: Path | None, status: Answer, interval: float, order: str) -> None:
        """Attach to a host with this status."""
        super().__init__(ansi_color=True)
        self._overview = Overview(order)
        self._opened = [_Opened(self._overview, {})]
        self._look = Look(status, self._overview, {})
        self._looks = Looks(url, socket, self._look, interval, lambda look: self.post_message(Looked(look)))
        self._can_act = url is None
        self._header = Static(id="header", markup=False)
        self._rows = Rows(id="rows", markup=False)
        self._filter = Input(id="filter", placeholder="filter", select_on_focus=False)
        self._footer = Static(id="footer", markup=False)
        #: The view whose rows are drawn.
        self._drawn: View | None = None

    @property
    def view(self) -> View:
        """The newest view."""
        return self._opened[-1].view

    def compose(self) -> ComposeResult:
        """Return the parts of the screen."""
        return iter((self._header, self._rows, self._filter, self._footer))

    def on_mount(self) -> None:
        """Draw, and begin to look."""
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self.exit)
        self._rows.focus()
        self._draw()
        self._looks.start()
        self.set_interval(_SECOND, self._draw_header)

    def on_unmount(self) -> None:
        """Stop looking."""
        self._looks.stop()

    def on_resize(self) -> None:
        """Draw in the new width."""
        self.call_after_refresh(self._draw)

    # What the host says.

    def on_looked(self, message: Looked) -> None:
        """Draw what the host said."""
        self._look = look = message.look
        for opened in self._opened:
            if opened.view is look.view and not look.lost:
                opened.answer, opened.refused = look.answer, look.refused
        self._draw()

    def on_acted(self, message: Acted) -> None:
        """Show what an action did."""
        self.notify(visible(message.text), severity="error" if message.failed else "information", markup=False)
        self._looks.show(self.view)

    # Drawing.

    def _draw(self) -> None:
        opened, width = self._opened[-1], self.size.width - 1
        if self._drawn is opened.view and opened.answer is not None:
            opened.cursor, opened.top = self._rows.cursor, self._rows.scroll_offset.y
        self._drawn = opened.view
        self._draw_header()
        self._rows.show(matching(self._rows_of(opened, width), opened.filter), opened.cursor, opened.top, width)
        self._footer.update(_text(Row((self._keys(opened),), FAINT), width))

    def _draw_header(self) -> None:
        width = self.size.width
        rows = header(self._look.status, width, self._look.loss())
        if title := self.view.title:
            rows.append(Row(wrapped(title, width), HEADING))
        self._header.update(Text("\n").join(_text(row, width) for row in rows))

    def _rows_of(self, opened: _Opened, width: int) -> list[Row]:
        if opened.answer is None:
            return lines_of(opened.refused or "asking the host …", width)
        return opened.view.rows(self._look.status, opened.answer, width)

    def _keys(self, opened: _Opened) -> str:
        filtered = f": {visible(opened.filter)}" if opened.filter else ""
        at = f"s sort: {self._overview.order}" if opened.view is self._overview else "Esc back"
        return f"Enter open  {at}  / filter{filtered}  p pause  e enqueue  ? help  q quit"

    # Moving between views.

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        """Open what the cursor is on."""
        opens = self._rows.drawn[message.option_index].opens
        if opens is not None:
            self._open(opens)

    def _open(self, view: View) -> None:
        self._opened.append(_Opened(view))
        self._show_newest()

    def _show_newest(self) -> None:
        self._filter.value = self._opened[-1].filter
        self._draw()
        self._looks.show(self.view)

    def action_leave(self) -> None:
        """End the filter, or else go back to the view before."""
        if self._filter.display or self._opened[-1].filter:
            self._filter.value = self._opened[-1].filter = ""
            self._end_typing()
        elif len(self._opened) > 1:
            self._opened.pop()
            self._show_newest()

    def action_help(self) -> None:
        """Show what the keys do."""
        if not isinstance(self.view, HelpView):
            self._open(HelpView())

    def action_sort(self) -> None:
        """Sort the controllers by the next column."""
        self._overview.sort()
        self._draw()

    # The filter.

    def action_filter(self) -> None:
        """Type a filter."""
        # At once: the next keys are its text.
        self._filter.display = True
        self.screen.set_focus(self._filter)

    def on_input_changed(self) -> None:
        """Filter while the text is typed."""
        self._opened[-1].filter = self._filter.value
        self._draw()

    def on_input_submitted(self) -> None:
        """Keep the filter."""
        self._end_typing()

    def _end_typing(self) -> None:
        self.screen.set_focus(self._rows)
        self._filter.display = False
        self._draw()

    # Actions on the host.

    def action_pause(self) -> None:
        """Pause the controller that the cursor is on, or resume it, once the user has agreed."""
        name = self._chosen().controller
        row = next((row for row in self._look.status["controllers"] if row["name"] == name), None)
        if row is None:
            self.notify("move the cursor to a controller first", severity="warning")
            return
        action, done = ("resume", "resumed") if row["paused"] else ("pause", "paused")
        plugin, _, controller = name.partition("/")

        def end(agreed: bool | None) -> None:
            if agreed:
                self._act(action, {"plugin": plugin, "controller": controller}, lambda _: f"{done} {name}")

        self.push_screen(Question(f"{action} {name}?"), end)

    def action_enqueue(self) -> None:
        """Enqueue the key that the cursor is on."""
        view = self._chosen()
        if not view.key:
            self.notify("open a controller or a cause, and move the cursor to a key first", severity="warning")
            return

        def say(answer: Answer) -> str:
            return "; ".join([f"queued {plural(answer['queued'], 'key')} of {view.controller}", *answer["warnings"]])

        self._act("enqueue", {"controller": view.controller, "keys": [view.key]}, say)

    def _chosen(self) -> View:
        """Return the view that the cursor would open, or else the open one."""
        opens = self._rows.chosen
        return opens if opens is not None and opens.controller else self.view

    def _act(self, action: str, body: Answer, say: Callable[[Answer], str]) -> None:
        if not self._can_act:
            self.notify("actions need the local socket of the host: leave --url out", severity="warning")
            return

        def ask() -> None:
            try:
                host: RunningHost = self._looks.host()
                self.post_message(Acted(say(host.read(host.act(action, body)))))
            except CtrlhostError as error:
                hint = f" ({error.hint})" if error.hint else ""
                self.post_message(Acted(describe(error) + hint, failed=True))

        threading.Thread(target=ask, name=action, daemon=True).start()


class Rows(OptionList):
    """The rows, with a cursor that passes over headings."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("j", "cursor_down"), Binding("k", "cursor_up")]

    def __init__(self, *, id: str, markup: bool) -> None:  # noqa: A002 - as textual calls it
        """Begin without rows."""
        super().__init__(id=id, markup=markup)
        self.drawn: Sequence[Row] = ()
        self._width = 0

    @property
    def cursor(self) -> str:
        """The name of the row with the cursor; empty without one."""
        at = self.highlighted
        return _name(self.drawn, at) if at is not None and at < len(self.drawn) else ""

    @property
    def chosen(self) -> View | None:
        """What the row with the cursor opens."""
        at = self.highlighted
        return self.drawn[at].opens if at is not None and at < len(self.drawn) else None

    def show(self, rows: Sequence[Row], cursor: str, top: int, width: int) -> None:
        """Show these rows, with the cursor on the row of this name, and this line at the top."""
        if rows == self.drawn and width == self._width:
            return
        self.drawn, self._width = rows, width
        self.clear_options()
        self.add_options([Option(_text(row, width), disabled=row.is_passed) for row in rows])
        places = [at for at, row in enumerate(rows) if not row.is_passed]
        if places:
            self.highlighted = next((at for at in places if _name(rows, at) == cursor), places[0])
            self.call_after_refresh(self._scroll, top)

    def _scroll(self, top: int) -> None:
        """Bring this line to the top, if the cursor stays in sight."""
        self.scroll_to(y=top, animate=False, immediate=True)
        self.scroll_to_highlight()


class Question(ModalScreen[bool]):
    """A question to which the answer is yes or no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "answer(True)"),
        Binding("n,escape,q", "answer(False)"),
    ]

    def __init__(self, question: str) -> None:
        """Ask this."""
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Return the text."""
        yield Static(f"{visible(self._question)}\n\ny yes   n no", markup=False)

    def action_answer(self, yes: bool) -> None:
        """End with the answer."""
        self.dismiss(yes)


class HelpView:
    """What the keys do."""

    title = "help"
    controller = key = ""

    def ask(self, host: RunningHost) -> Answer:  # noqa: ARG002 - as of each view
        """Return nothing: no host is needed."""
        return {}

    def rows(self, status: Answer, answer: Answer, width: int | None) -> list[Row]:  # noqa: ARG002 - as above
        """Return a row for each key."""
        return lines_of(_HELP, width)


class Looked(Message):
    """The host was asked."""

    def __init__(self, look: Look) -> None:
        """Bring what it said."""
        super().__init__()
        self.look = look


class Acted(Message):
    """An action has ended."""

    def __init__(self, text: str, *, failed: bool = False) -> None:
        """Bring what to say."""
        super().__init__()
        self.text = text
        self.failed = failed


def _name(rows: Sequence[Row], at: int) -> str:
    return rows[at].name or f"row {at}"


def _text(row: Row, width: int) -> Text:
    return Text("\n".join(line[:width] for line in row.lines), row.style, no_wrap=True, overflow="ellipsis")
