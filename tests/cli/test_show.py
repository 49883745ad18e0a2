"""`shiftlog show`: one session read whole."""

import json
from pathlib import Path

from tests.cli.support import closed, on_terminal, recorded_session, shiftlog, write

LONG = "\n".join(f"line {n}" for n in range(1, 101))


def test_a_session_reads_like_a_story(demo: Path) -> None:
    shown = shiftlog(demo, "show", "last").out
    assert shown.startswith("Some orders are charged twice\nDemoAgent-")
    for words in (
        "closed (task_completed) · DemoAgent as demo · demo-model · /home/demo/webshop",
        "3 turns · 1 failed · ",
        "Retries no longer charge twice.",
        "Turn 1  completed  Why are some orders charged twice?",
        "  Understood as\n    Find the cause of the double charges.",
        "    - logs/checkout.log",
        "Turn 2  failed  Stop the double charges",
        "PAYMENTS_TOKEN=[REDACTED:",
        "  Failed\n    wrong_approach: With 120 seconds",
        "✓ #14 edit config/payments.env  Raise PAYMENTS_TIMEOUT to 120",
        " Decision\n      Idempotency key = hash of order and amount",
        "  Commits\n    ",
        "  Files\n    - src/payments/client.py",
        "  Response\n    Each charge now carries a key",
    ):
        assert words in shown, words
    assert shown.index("Turn 1") < shown.index("Turn 2") < shown.index("Turn 3")


def test_lines_fit_the_terminal(demo: Path) -> None:
    for width in (60, 100):
        shown = on_terminal(demo, "show", "last", width=width).plain
        assert [line for line in shown.splitlines() if len(line) > width and "-2" not in line] == []


def test_a_session_has_several_names(home: Path) -> None:
    session_id = recorded_session(home, title="Only this one")
    alias = write(home, "open_session", agent="Tester", title="With a run", model="m")["run_id"]
    assert shiftlog(home, "show", session_id).out.startswith("Only this one\n")
    assert shiftlog(home, "show", str(alias)).out.startswith("With a run\n")
    assert shiftlog(home, "show", "last").out.startswith("With a run\n")


def test_there_is_no_last_session_in_an_empty_record(home: Path) -> None:
    assert "There is no session yet" in shiftlog(home, "show", "last", status=1).err


def test_one_turn_is_shown_by_number_or_id(demo: Path) -> None:
    by_number = shiftlog(demo, "show", "last", "--turn", "2").out
    assert "Turn 2" in by_number
    assert "Turn 1" not in by_number
    request_id = shiftlog(demo, "show", "last", "--turn", "2", "--json").json()["turns"][0]["request_id"]
    assert shiftlog(demo, "show", "last", "--turn", request_id).out == by_number
    done = shiftlog(demo, "show", "last", "--turn", "9", status=1)
    assert "Turn not found: 9" in done.err
    assert "Traceback" not in done.err


def test_a_turn_that_is_open_where_nobody_works_any_more_is_shown_as_interrupted(home: Path) -> None:
    session_id = recorded_session(home)
    write(home, "begin_turn", session_id=session_id, query_title="Begin", query_text="Begin it")
    assert "Turn 2  in_progress  Begin" in shiftlog(home, "show", "last").out
    assert ", interrupted, " not in shiftlog(home, "brief", "--agent", "Tester").out
    shiftlog(home, "close", session_id)
    assert "Turn 2  interrupted  Begin" in shiftlog(home, "show", "last").out
    assert ", interrupted, dialog items 0" in shiftlog(home, "brief", "--agent", "Tester").out
    assert shiftlog(home, "show", "last", "--json").json()["turns"][1]["status"] == "in_progress"


def test_how_its_run_ended_is_said_with_the_cost_that_the_launcher_told(home: Path) -> None:
    recorded_session(home)
    opened = write(home, "open_session", agent="Codex", title="Spawned", caller="headless_task")
    write(
        *(home, "close_session"),
        session_id=opened["session_id"],
        returncode=3,
        error="Out of\nmemory",
        total_cost_usd="1.25",
    )
    shown = shiftlog(home, "show", "last").out
    assert f"run {opened['run_id']} failed (exit 3) · headless_task · Out of memory\n" in shown
    assert " · $1.25\n" in shown


def test_long_texts_are_folded_unless_wanted_whole(home: Path) -> None:
    recorded_session(home, dialog=[{"role": "model", "category": "observation", "content": LONG}])
    folded = shiftlog(home, "show", "last").out
    assert "line 12\n" in folded
    assert "line 13\n" not in folded
    assert f"… {len(LONG) - LONG.index('line 13')} more characters; --full shows all" in folded
    assert "line 3\n" not in shiftlog(home, "show", "last", "--lines", "2").out
    assert "line 100\n" in shiftlog(home, "show", "last", "--full").out


def test_a_long_line_is_folded_by_the_rows_that_it_takes(home: Path) -> None:
    recorded_session(home, dialog=[{"role": "model", "category": "reasoning", "content": "word " * 500}])
    assert "more characters" not in shiftlog(home, "show", "last").out
    assert "more characters" in on_terminal(home, "show", "last").plain


def test_json_is_one_document(demo: Path) -> None:
    document = shiftlog(demo, "show", "last", "--json").json()
    assert document["session"]["state"] == "closed"
    assert [turn["status"] for turn in document["turns"]] == ["completed", "failed", "completed"]
    assert document["turns"][0]["contents"][0]["kind"] == "dialog"


def test_a_session_without_turns_is_a_document_too(home: Path) -> None:
    shiftlog(home, "daemon", "start")
    write(home, "open_session", agent="Tester", title="Empty")
    assert shiftlog(home, "show", "last", "--json").json()["turns"] == []
    assert "0 turns" in shiftlog(home, "show", "last").out


def test_the_cost_is_the_one_that_runs_are_listed_with(home: Path) -> None:
    stated = recorded_session(home, usage={"input_tokens": 5, "cost_usd": 0.00001})
    assert " · 5 tokens · <$0.0001\n" in shiftlog(home, "show", stated).out
    opened = write(home, "open_session", agent="Tester", title="Closed by its launcher", model="m")["session_id"]
    write(home, "close_session", session_id=opened, input_tokens=1000, total_cost_usd=0.125)
    assert " · 1,000 tokens · $0.1250\n" in shiftlog(home, "show", opened).out
    [run] = shiftlog(home, "runs", "--json").json()["items"]
    assert shiftlog(home, "show", opened, "--json").json()["session"]["cost_usd"] == run["usage"]["cost_usd"] == 0.125


def test_what_was_erased_is_shown_as_erased(home: Path) -> None:
    session_id = recorded_session(
        home,
        dialog=[{"role": "model", "category": "reasoning", "content": "a private thought"}],
        actions=[{"type": "edit", "status": "completed", "description": "a private deed"}],
    )
    closed(home, session_id)
    before = shiftlog(home, "show", "last", "--json").json()
    seqs = [str(item["seq"]) for item in before["turns"][0]["contents"]]
    options = [word for seq in seqs for word in ("--entry", seq)]
    shiftlog(home, "erase", session_id, *options, "--reason", "privacy", "--yes")
    shown = shiftlog(home, "show", session_id).out
    assert "private" not in shown
    assert [f"#{seq} (erased)" in shown for seq in seqs] == [True, True]
    assert "private" not in json.dumps(shiftlog(home, "show", session_id, "--json").json())
