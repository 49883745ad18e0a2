"""`shiftlog runs` and `shiftlog usage`: tables, JSON and CSV of a ledger with every kind of row."""

import csv
import io
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from shiftlog.cli.runs import shown_model
from tests.cli.support import on_terminal, shiftlog, write
from tests.contract import builders as b
from tests.daemon.support import end_daemon

OPUS = "claude-opus-4-5"
ROWS: list[dict[str, Any]] = [
    {
        "open": {
            "agent": "ClaudeCode",
            "model": "claude-opus-4-5",
            "caller": "desktop_new_session",
            "cwd": "/work/shop",
        },
        "close": {"input_tokens": 1_000_000, "output_tokens": 100_000, "duration_ms": 3_725_000},
    },
    {
        "open": {"agent": "Codex", "model": "house-blend", "caller": "=1+1", "cwd": "/work/api"},
        "close": {"returncode": 1, "error": "boom", "input_tokens": 1_000, "cached_input_tokens": 400},
    },
    {"open": {"agent": "Codex", "model": "gpt-5", "caller": "headless_task", "agent_id": "night"}},
]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    home = tmp_path_factory.mktemp("ledger")
    shiftlog(home, "daemon", "start")
    for row in ROWS:
        opened = write(home, "open_session", title="Work", **row["open"])
        if "close" in row:
            write(home, "close_session", session_id=opened["session_id"], **row["close"])
    yield home
    end_daemon(home)


def test_an_empty_ledger_says_so(home: Path) -> None:
    assert shiftlog(home, "runs").out == "There is no run yet.\n"
    assert shiftlog(home, "usage").out == "There is no run yet.\n"
    assert shiftlog(home, "runs", "--day", "2020-01-01").out == "No run matches these filters.\n"
    assert shiftlog(home, "usage", "--json").json()["rows"] == []


def test_a_cost_alone_tells_of_no_tokens_and_a_tiny_one_is_not_nothing(home: Path) -> None:
    shiftlog(home, "daemon", "start")
    opened = write(home, "open_session", agent="Codex", title="Tiny", caller="headless_task")
    write(home, "close_session", session_id=opened["session_id"], total_cost_usd=0.000001)
    behind_time = shiftlog(home, "runs").out.splitlines()[1].rsplit(" s ", 1)[1]
    assert behind_time.split()[0] == "<$0.0001", "right behind the time, without tokens"


def test_runs_are_listed_newest_first_with_tokens_and_cost(ledger: Path) -> None:
    header, *lines = shiftlog(ledger, "runs").out.splitlines()
    assert header.split()[:4] == ["TITLE", "STATUS", "BACKEND", "MODEL"]
    assert [line.split()[:3] for line in lines] == [
        ["Work", "running", "codex"],
        ["Work", "failed", "codex"],
        ["Work", "ok", "claude_code"],
    ]
    assert [line.split()[-1] for line in lines] == ["3", "2", "1"]
    assert "1:02:05" in lines[2]
    assert "$7.50" in lines[2]
    assert "unknown" in lines[1]
    assert "unknown" in lines[0]
    assert "$" not in lines[0]


def test_runs_as_json_hold_every_fact_and_the_total(ledger: Path) -> None:
    found = shiftlog(ledger, "runs", "--json", "--limit", "2").json()
    assert found["total"] == 3
    running, failed = found["items"]
    assert (running["status"], running["total_cost_usd"], running["usage"]) == ("running", None, None)
    assert (failed["error"], failed["returncode"], failed["usage"]["input_tokens"]) == ("boom", 1, 600)
    assert "2 of 3 runs" in shiftlog(ledger, "runs", "--limit", "2").out


@pytest.mark.parametrize(
    ("filters", "runs"),
    [
        (["--agent", "ClaudeCode"], [1]),
        (["--agent-id", "night"], [3]),
        (["--caller", "desktop_new_session"], [1]),
        (["--backend", "codex"], [3, 2]),
        (["--model", "gpt-5"], [3]),
        (["--status", "failed"], [2]),
        (["--project", "shop"], [1]),
        (["--day", "today"], [3, 2, 1]),
        (["--day", "2020-01-01"], []),
        (["--since", "7d"], [3, 2, 1]),
        (["--to", "2020-01-01"], []),
        (["--backend", "codex", "--status", "running"], [3]),
    ],
)
def test_filters_choose_among_the_runs(ledger: Path, filters: list[str], runs: list[int]) -> None:
    items = shiftlog(ledger, "runs", "--json", *filters).json()["items"]
    assert [item["run_id"] for item in items] == runs


def test_the_number_of_a_run_names_its_session(ledger: Path) -> None:
    assert "Work" in shiftlog(ledger, "show", "1").out


def test_usage_adds_up_with_a_total_and_says_what_is_unknown(ledger: Path) -> None:
    header, *lines, note = shiftlog(ledger, "usage", "--by", "model").out.splitlines()
    assert header.split()[:3] == ["MODEL", "SESSIONS", "RUNNING"]
    assert [line.split()[0] for line in lines] == [OPUS, "house-blend", "gpt-5", "total"]
    assert lines[0].split()[-1] == lines[3].split()[-1] == "$7.50"
    assert lines[1].split()[-1] == lines[2].split()[-1] == "unknown"
    assert lines[3].split()[1:7] == ["3", "1", "1", "1", "0", "0"]
    assert note == "The cost of 2 sessions is not known, or not to its end."


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("agent", ["ClaudeCode", "Codex", "night"]),
        ("caller", ["desktop_new_session", "=1+1", "headless_task"]),
        ("model", [OPUS, "house-blend", "gpt-5"]),
    ],
)
def test_usage_as_json_has_rows_by_each_dimension(ledger: Path, by: str, names: list[str]) -> None:
    found = shiftlog(ledger, "usage", "--by", by, "--json").json()
    assert found["by"] == [by]
    assert [row[by] for row in found["rows"]] == names
    assert (found["total"]["cost_usd"], found["total"]["cost_unknown"]) == (7.5, 2)


def test_usage_by_several_dimensions_crosses_them(ledger: Path) -> None:
    rows = shiftlog(ledger, "usage", "--by", "project", "--by", "model", "--json").json()["rows"]
    assert ("shop", OPUS) in [(row["project"], row["model"]) for row in rows]


def test_usage_as_csv_is_for_spreadsheets_and_holds_no_formula(ledger: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(shiftlog(ledger, "usage", "--by", "caller", "--csv").out)))
    assert [row["caller"] for row in rows] == ["desktop_new_session", "'=1+1", "headless_task", "total"]
    assert [row["cost_usd"] for row in rows] == ["7.5", "", "", "7.5"]
    assert rows[-1]["cost_unknown"] == "2"


def test_what_was_put_into_a_cache_is_a_column_where_anybody_tells_it(home: Path) -> None:
    shiftlog(home, "daemon", "start")
    for told in ({}, {"cache_creation_tokens": 2_000}):
        named = {"session_id": write(home, "open_session", agent="ClaudeCode", title="Cache", model=OPUS)["session_id"]}
        write(home, "begin_turn", **named, query_title="Go", query_text="Go")
        usage = {"input_tokens": 10, "cached_input_tokens": 30, "output_tokens": 5, **told}
        write(home, "finish_turn", **named, outcome="completed", response="Done", usage=usage)
        header, *_, total, _ = shiftlog(home, "usage").out.splitlines()
        assert ("TO CACHE" in header) is bool(told)
    assert total.split()[-5:-1] == ["20", "2,000", "60", "10"]


def test_a_narrow_terminal_keeps_run_status_and_cost(ledger: Path) -> None:
    printed = on_terminal(ledger, "runs", width=60).plain
    assert all(len(line) <= 60 for line in printed.splitlines())
    assert "$7.50" in printed
    assert "failed" in printed


def test_long_names_never_take_the_place_of_what_was_used(home: Path) -> None:
    shiftlog(home, "daemon", "start")
    long = {"agent_id": "agent-" + "x" * 80, "cwd": "/srv/" + "deep/" * 20 + "shop"}
    opened = write(home, "open_session", agent="Codex", title="Work", caller="c" * 90, **long)
    write(home, "close_session", session_id=opened["session_id"], total_cost_usd=3)
    by = ("--by", "agent", "--by", "caller", "--by", "project")
    printed = on_terminal(home, "usage", *by, width=80).plain.splitlines()
    assert printed[-1].endswith("  $3.00")
    assert all(len(line) <= 80 for line in printed if line.startswith("  "))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["runs", "--status", "lost"], "lost"),
        (["runs", "--day", "someday"], "day"),
        (["usage", "--by", "weekday"], "weekday"),
        (["usage", "--json", "--csv"], "exclude each other"),
        (["usage", "--from", "someday"], "from"),
    ],
)
def test_what_makes_no_sense_is_misuse(ledger: Path, arguments: list[str], says: str) -> None:
    done = shiftlog(ledger, *arguments, status=2)
    assert says in done.err + done.out


def test_a_model_that_was_not_given_is_marked_as_assumed() -> None:
    assert shown_model({"model": "m", "resolved": ["model"]}) == "m (assumed)"
    assert [shown_model({"model": name, "resolved": []}) for name in ("m", None)] == ["m", ""]
    resolved = b.session(model="m", run=b.run(1, model="m", resolved=("model",)))
    assert resolved.is_model_assumed
    assert not b.session(model="m", run=b.run(1, model="m")).is_model_assumed
    assert not b.session(model="told later", run=b.run(1, model="m", resolved=("model",))).is_model_assumed
