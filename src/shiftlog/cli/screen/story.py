"""The steps of a session on the terminal, in the order in which they happened: texts, commands, changes, notes.

The steps are those of the session's page. Nothing is printed twice: what the head of a turn says is left out below it.
"""

from collections.abc import Callable
from typing import Any

from shiftlog.cli.screen.output import Part, Printer, styled, when
from shiftlog.cli.screen.patches import print_patch
from shiftlog.model.ids import short_id
from shiftlog.text.figures import count, milliseconds
from shiftlog.text.printable import cut_line, terminal_line, terminal_text
from shiftlog.text.sequences import pieces_of
from shiftlog.text.titles import shown_title

Item = dict[str, Any]

INDENT = 4
TEXT_INDENT = 6
SPEAKERS = {"user": "User", "model": "Agent", "system": "System", "tool": "Tool"}
MARKS = {"completed": ("✓", "green"), "failed": ("✗", "red"), "in_progress": ("…", "yellow")}
TASKS = {"completed": ("☑", "green"), "in_progress": ("◐", "yellow"), "pending": ("☐", "")}
# What styles of an output are called here, where the name is another one; black is not seen on a dark terminal.
OUTPUT_STYLES = {"faint": "dim", "under": "underline", "black": "bright_black"}
NOTE_CHARS = 120
SHORT_RESULT = 4
SYSTEM_LINES = 3
# Bookkeeping, or shown in the head of the session already.
MINOR = frozenset({"session.opened", "shell.opened", "shell.ended"})
# The facts of a note that the head of the session does not say.
TOLD = {"session.closed": ("by",)}
# How a command or a call ended, apart from success: words and style.
ENDINGS = {
    "refused": ("refused", "bold magenta"),
    "timed out": ("timed out", "bold yellow"),
    "cancelled": ("cancelled", "yellow"),
    "syntax error": ("syntax error", "red"),
    "unknown": ("its end is not known", "yellow"),
    "failed": ("failed", "bold red"),
}


class StoryPrinter:
    """Prints steps; texts are cut to `max_lines`, which is None for all of them and for bookkeeping too."""

    def __init__(self, printer: Printer, max_lines: int | None) -> None:
        self._printer = printer
        self._max_lines = max_lines
        self._kinds: dict[str, Callable[[Item], None]] = {
            "say": self._said,
            "reasoning": self._said,
            "decision": self._said,
            "command": self._command,
            "tool": self._tool,
            "action": self._actions,
            "checkpoint": self._checkpoint,
            "child": self._child,
            "quiet": self._quiet,
            "note": self._note,
            "erased": self._erased,
        }

    def prints(self, step: Item) -> bool:
        """Return True if a step is part of the story; bookkeeping is only in full."""
        if self._max_lines is None:
            return True
        if step["type"] == "checkpoint":
            return bool(step["restored"] or step["reason"] == "manual")
        return step["type"] != "quiet" and not (step["type"] == "note" and step["kind"] in MINOR)

    def step(self, step: Item) -> None:
        """Print one step, with the changes that it made and the sessions that it spawned."""
        self._kinds.get(step["type"], self._note)(step)
        if step["type"] in ("command", "tool"):
            self._actions(step)
        for child in step.get("children", ()):
            self._child({"at": "", "seq": 0, **child})

    def _head(self, step: Item, *parts: Part) -> None:
        at = f"{when(step['at'])[11:]} " if step.get("at") else ""
        number = f"#{step['seq']} " if step.get("seq") else ""
        self._printer.item((f"{at}{number}", "dim"), *parts, indent=INDENT)

    def _said(self, step: Item) -> None:
        role = step.get("role")
        who = SPEAKERS.get(str(role), str(role or "Agent")) if step["type"] == "say" else step["type"].capitalize()
        self._head(step, (who, "bold" if step["type"] == "decision" else "dim"))
        style = "dim" if step["type"] == "reasoning" or role == "system" else ""
        most = self._max_lines
        if role == "system" and most is not None:  # the instructions of a client, much the same each time
            most = min(most, SYSTEM_LINES)
        self._printer.block(str(step["content"] or ""), indent=TEXT_INDENT, style=style, max_lines=most)

    def _command(self, step: Item) -> None:
        first, *rest = terminal_text(str(step["command"]).strip("\n")).split("\n")
        self._head(step, ("$ ", "bold blue"), (first, "bold"), (" &" if step.get("background") else "", "dim"))
        if rest:
            self._printer.block("\n".join(rest), indent=TEXT_INDENT, style="bold", max_lines=self._max_lines)
        printed: dict[str, Item] = step.get("output") or {}
        for name, style in (("stdout", ""), ("stderr", "red")):
            total = int(printed[name].get("lines") or 0) if printed.get(name) else 0
            self._tail(step.get(name) or "", style, total)
        ending = _ending(step)
        if ending:
            self._printer.item(*ending, indent=TEXT_INDENT)

    def _tail(self, text: str, style: str = "", total: int = 0) -> None:
        """Print the last lines of an output, after a line that says how many there are before them.

        `total` is the number of lines that were printed, of which a long output keeps some.
        """
        lines = _lines(text, style)
        most = len(lines) if self._max_lines is None else self._max_lines
        if len(lines) > most:
            shows = "all" if total <= len(lines) else "more"
            left = f"… {count(max(total, len(lines)) - most, 'earlier line')}; --full shows {shows}"
            self._printer.line(" " * TEXT_INDENT, (left, "dim"))
        for line in lines[max(0, len(lines) - most) :]:
            self._printer.item(*line, indent=TEXT_INDENT, hang=0)

    def _tool(self, step: Item) -> None:
        said = terminal_line(step.get("glance") or "")
        result = str(step.get("result") or "").strip("\n")
        ending = _ending(step)
        lines = result.count("\n") + 1
        hidden = bool(said) and not ending and self._max_lines is not None and lines > SHORT_RESULT
        size = count(lines, "line") if hidden else ""
        took = milliseconds(step["duration_ms"]) if step.get("duration_ms") and not ending else ""
        facts = [*ending, *((f"  {words}", "dim") for words in (took, size) if words)]
        self._head(step, (terminal_line(step["tool"]), "bold"), f" {said}", *(["  "] if ending else []), *facts)
        for task in step.get("tasks") or ():
            mark = TASKS.get(task["status"], TASKS["pending"])
            self._printer.item(mark, " ", terminal_line(task["text"]), indent=TEXT_INDENT)
        if result and not hidden:
            self._tail(result, "red" if ending else "")

    def _actions(self, step: Item) -> None:
        for action in step.get("actions", ()):
            mark = MARKS.get(str(action["status"]), ("·", ""))
            path = f" {terminal_line(action['file_path'])}" if action.get("file_path") else ""
            said = terminal_line(action["description"] or "")
            number = (f" #{action['seq']} ", "dim")
            at = (f"{when(step['at'])[11:]} " if step["type"] == "action" else "", "dim")
            self._printer.item(
                at, mark, number, str(action["what"] or "action"), (path, "cyan"), f"  {said}", indent=INDENT
            )
            if action.get("diff"):
                print_patch(self._printer, str(action["diff"]), indent=TEXT_INDENT, max_lines=self._max_lines)

    def _checkpoint(self, step: Item) -> None:
        did = "Went back to checkpoint" if step["restored"] else "Checkpoint"
        files = step["files_changed"]
        changed = f"  {count(files, 'file')} changed" if files is not None else ""
        by = f" by {terminal_line(step['by'])}" if step.get("by") else ""
        label = f" {terminal_line(step['label'])}" if step.get("label") else ""
        name = (f" {str(step['checkpoint_id'])[:12]}", "cyan")
        self._head(step, (did, "bold"), name, label, (f"{changed}{by}", "dim"))
        for path in step["paths"][: self._max_lines] if step["restored"] else ():
            self._printer.item(terminal_text(path), indent=TEXT_INDENT)

    def _child(self, child: Item) -> None:
        name = f" {terminal_line(child['name'])}" if child.get("name") else ""
        failed = f", {child['turns_failed']} failed" if child.get("turns_failed") else ""
        turns = f"  {count(child['turns'], 'turn')}{failed}  "
        title, named = terminal_line(shown_title(child["title"])), (short_id(child["session_id"]), "cyan")
        self._head(child, (f"Subagent{name}: ", "bold"), title, "  ", styled(child["state"]), (turns, "dim"), named)

    def _quiet(self, step: Item) -> None:
        for note in step["notes"]:
            self._note(note)

    def _note(self, step: Item) -> None:
        told = TOLD.get(step["kind"])
        facts = [
            f"{name} {cut_line(terminal_line(value), NOTE_CHARS)}"
            for name, value in step.get("facts", ())
            if told is None or name in told
        ]
        style = "red" if step.get("error") else "dim"
        self._head(step, (str(step.get("says") or step["type"]), style), (f"  {', '.join(facts)}", "dim"))

    def _erased(self, step: Item) -> None:
        self._head(step, ("(erased)", "dim"))


def _lines(text: str, style: str) -> list[list[Part]]:
    """Return the lines of an output with the colours that it was printed in; `style` is that of the rest."""
    lines: list[list[Part]] = [[]]
    for piece, names in pieces_of(text):
        named = " ".join((style, *(OUTPUT_STYLES.get(name, name) for name in names))).strip()
        first, *more = terminal_text(piece).split("\n")
        lines[-1].append((first, named))
        rest: list[list[Part]] = [[(line, named)] for line in more]
        lines += rest
    while lines and not any(part[0] for part in lines[-1]):
        lines.pop()
    while lines and not any(part[0] for part in lines[0]):
        lines.pop(0)
    return lines


def _ending(step: Item) -> list[Part]:
    """Return how a command or call ended: refused, failed, timed out and cancelled ones differ."""
    if step.get("live"):
        return [("running", "yellow")]
    took = f" after {milliseconds(step['duration_ms'])}" if step.get("duration_ms") else ""
    code = step.get("exit_code")
    how = _outcome(step)
    doubt: list[Part] = [] if step.get("is_vouched", True) else [(", not vouched for", "dim")]
    if how is None:
        return [(f"exit {code}{took}", "green"), *doubt] if code is not None else []
    words, style = ENDINGS.get(how, (how, "bold red"))
    refusal: Item = step.get("refusal") or {}
    why = terminal_line(refusal.get("message", ""))
    if how == "refused":
        return [(words, style), f": {why}" if why else ""]
    if how == "failed" and code is not None:
        signal = f", {step['signal']}" if step.get("signal") else ""
        return [(f"exit {code}{signal}{took}", style), *doubt]
    return [(f"{words}{took}", style), f" (exit {code})" if code is not None else ""]


def _outcome(step: Item) -> str | None:
    """Return how a step failed, None if it did not; the state of a command is more exact than `failed`."""
    state = str(step.get("state") or "").replace("_", " ")
    if step.get("command_id") and state in ("syntax error", "unknown"):
        return state
    return step.get("outcome")
