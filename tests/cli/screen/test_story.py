"""The steps of a session on the terminal: how each kind reads, and that refused, failed and timed-out differ."""

from typing import Any

import pytest

from shiftlog.cli.screen.output import Printer
from shiftlog.cli.screen.story import StoryPrinter
from shiftlog.model.entry import Entry, Kind
from shiftlog.web.views.steps import steps_of
from tests.contract import builders as b


def entry(seq: int, of: Kind, **body: Any) -> Entry:
    return Entry(seq=seq, kind=of, at=b.at(seq), turn=None, body=body, salt=b"", body_hash="", hash="")


def printed(capsys: pytest.CaptureFixture[str], *entries: Entry, max_lines: int | None = 3) -> str:
    story = StoryPrinter(Printer(), max_lines)
    for step in steps_of(entries):
        if story.prints(step):
            story.step(step)
    return capsys.readouterr().out


def command(seq: int, **end: Any) -> list[Entry]:
    names = {"command_id": f"s#{seq}", "command": "make test"}
    started = entry(seq, Kind.COMMAND_STARTED, **names)
    return [started, entry(seq + 1, Kind.COMMAND_FINISHED, **names, **end)]


def test_an_output_keeps_its_colours_and_nothing_else_that_a_terminal_obeys(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\x1b[2J\x1b[31mFAILED\x1b[0m test_a\x07\n\x1b]8;;http://evil.example\x07here\x1b]8;;\x07\x9b31m"
    end = {"state": "finished", "exit_code": 1, "stdout": text}
    plain = printed(capsys, *command(1, **end))
    assert "FAILED test_a␇\n" in plain
    assert "here" in plain
    assert not [sign for sign in ("\x1b", "␛", "evil") if sign in plain]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = printed(capsys, *command(1, **end))
    assert "\x1b[31mFAILED\x1b[0m test_a␇" in coloured
    assert "\x1b[2J" not in coloured
    assert "evil" not in coloured


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ({"state": "finished", "exit_code": 0, "duration_ms": 4_200}, "exit 0 after 4.2 s"),
        ({"state": "finished", "exit_code": 2, "duration_ms": 14}, "exit 2 after 14 ms"),
        ({"state": "timed_out", "exit_code": 124, "duration_ms": 1_000}, "timed out after 1.0 s (exit 124)"),
        ({"state": "cancelled", "exit_code": 130}, "cancelled (exit 130)"),
        ({"state": "refused", "refusal": {"message": "'curl' is denylisted"}}, "refused: 'curl' is denylisted"),
        ({"state": "unknown"}, "its end is not known"),
    ],
)
def test_the_end_of_a_command_says_how_it_ended(capsys: pytest.CaptureFixture[str], end: Any, said: str) -> None:
    assert printed(capsys, *command(1, **end)).splitlines() == ["    09:01:00Z #1 $ make test", f"      {said}"]


def test_of_an_output_the_last_lines_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    out = "".join(f"line {n}\n" for n in range(1, 11))
    end: dict[str, Any] = {"state": "finished", "exit_code": 1, "stdout": out, "stderr": "oops\n"}
    assert printed(capsys, *command(1, **end)).splitlines()[1:] == [
        "      … 7 earlier lines; --full shows all",
        *(f"      line {n}" for n in (8, 9, 10)),
        "      oops",
        "      exit 1",
    ]
    assert "line 1\n" in printed(capsys, *command(1, **end), max_lines=None)


def test_lines_that_are_not_kept_are_counted_as_earlier_ones(capsys: pytest.CaptureFixture[str]) -> None:
    kept = "\n".join(f"line {n}" for n in (1, 399, 400, 401, 402))
    output = {"stdout": {"bytes": 9_000, "lines": 402}, "stderr": {"bytes": 0, "lines": 0}}
    shown = printed(capsys, *command(1, stdout=kept, output=output, state="finished", exit_code=0))
    assert "… 399 earlier lines; --full shows more" in shown


def test_a_call_that_writes_tasks_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    todos = [{"content": "Look", "status": "completed"}, {"content": "Mend", "status": "in_progress"}]
    call = {"role": "model", "category": "tool_call", "tool": "TodoWrite", "call_id": "c1"}
    said = {"content": 'TodoWrite: {"todos": …}', "input": {"todos": todos}}
    assert printed(capsys, entry(1, Kind.DIALOG, **call, **said)).splitlines() == [
        "    09:01:00Z #1 TodoWrite todos (2)",
        "      ☑ Look",
        "      ◐ Mend",
    ]


def test_a_call_shows_its_change_and_what_was_refused(capsys: pytest.CaptureFixture[str]) -> None:
    diff = "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n"
    call = {"role": "model", "category": "tool_call", "tool": "Edit", "call_id": "c1", "content": "Edit: a.py"}
    result = {"role": "tool", "category": "tool_result", "call_id": "c1"}
    change = {"type": "edit", "status": "completed", "description": "Edit a.py", "file_path": "a.py", "diff": diff}
    shown = printed(
        capsys,
        entry(1, Kind.DIALOG, **call),
        entry(2, Kind.DIALOG, **result, content="done\n" * 9),
        entry(3, Kind.ACTION, **change, call_id="c1"),
    )
    assert shown.splitlines() == [
        "    09:01:00Z #1 Edit a.py  1 min  9 lines",
        "    ✓ #3 edit a.py  Edit a.py",
        "      --- a",
        "      +++ b",
        "      @@ -1 +1 @@",
        "      … 2 more lines; --full shows all",
    ]
    refused = printed(
        capsys, entry(1, Kind.DIALOG, **call), entry(2, Kind.DIALOG, **result, content="No.", denied=True)
    )
    assert refused.splitlines() == ["    09:01:00Z #1 Edit a.py  refused", "      No."]


def test_on_a_terminal_long_lines_of_a_patch_are_wrapped_and_none_is_lost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    words = " ".join(f"word{n}" for n in range(30))
    change = {"type": "edit", "status": "completed", "description": "Edit", "file_path": "a.py"}
    diff = f"--- a\n+++ b\n@@ -1 +1 @@\n-    old\n+    {words}\n"
    printer = Printer()
    printer.is_terminal = True
    story = StoryPrinter(printer, None)
    for step in steps_of([entry(1, Kind.ACTION, **change, diff=diff)]):
        story.step(step)
    shown = capsys.readouterr().out.splitlines()
    assert max(map(len, shown)) <= 50
    assert "      -    old" in shown
    first = next(number for number, line in enumerate(shown) if line.startswith("      +    word0"))
    assert " ".join(" ".join(shown[first:]).split()).removeprefix("+ ") == words


def test_bookkeeping_is_only_in_the_full_story(capsys: pytest.CaptureFixture[str]) -> None:
    notes = [
        entry(1, Kind.SESSION_OPENED, agent="Tester"),
        entry(2, Kind.LEASE_TAKEN, fence=1),
        entry(3, Kind.SHELL_OPENED, shell_id="s-1"),
        entry(4, Kind.CHECKPOINT_SAVED, id="c1", kind="auto"),
    ]
    assert printed(capsys, *notes) == ""
    full = printed(capsys, *notes, max_lines=None)
    assert "Lease taken" in full
    assert "s-1" in full


def test_what_is_untrusted_reaches_the_terminal_without_controls(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[2J\u202e"
    end: dict[str, Any] = {"state": "refused", "refusal": {"message": hostile}, "stdout": hostile, "command": hostile}
    shown = printed(
        capsys,
        entry(1, Kind.COMMAND_FINISHED, command_id="s#1", **end),
        entry(2, Kind.DIALOG, role=hostile, category="observation", content=hostile),
        entry(3, Kind.ACTION, type="edit", status="failed", description=hostile, file_path=hostile, diff=hostile),
        entry(4, Kind.COMMAND_ASKED, approval_id=hostile),
    )
    assert "\x1b" not in shown
    assert "\u202e" not in shown
