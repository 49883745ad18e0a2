"""`shiftlog import` as people run it: table and JSON, exit statuses, interrupts, watching, the daemon's own watch."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from bench.corpus import write_corpus
from tests.cli.support import PROGRAM, Terminal, shiftlog
from tests.daemon.support import DEADLINE_S, end_daemon, environment, eventually, lock_holder
from tests.ingest.import_app import Claude, usage_of

SESSION = "5e551000-0000-4000-8000-00000000000a"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = Claude().prompt("Fix the parser").says("Fixed").ends()
    path = tmp_path / "claude" / "projects" / "-srv" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in made.records), encoding="utf-8")
    return tmp_path


def where(folder: Path) -> dict[str, str]:
    return {"CLAUDE_CONFIG_DIR": str(folder / "claude"), "CODEX_HOME": str(folder / "codex"), "HOME": str(folder)}


def test_discovery_prints_a_table_and_again_changes_nothing(home: Path, folder: Path) -> None:
    done = shiftlog(home, "import", env=where(folder))
    header, row, last = done.out.splitlines()
    assert header.split()[:4] == ["agent", "files", "changed", "sessions"]
    assert row.split()[:5] == ["ClaudeCode", "1", "1", "1", "(1)"]
    assert last.startswith("skipped: –")
    assert done.err == ""
    report = shiftlog(home, "import", "--json", env=where(folder)).json()
    assert (report["totals"]["entries"], report["skipped"]) == (0, {"unchanged": 1})
    assert "Fix the parser" in shiftlog(home, "show", SESSION).out


def test_the_summary_says_how_many_tokens_the_import_brought(home: Path, folder: Path) -> None:
    used = usage_of(1_000, 500, 2_000, 1_200_000)
    made = Claude(session=SESSION.replace("a", "b"), letter="b").prompt("Go")
    made.block({"type": "text", "text": "Gone"}, message="M", request="r", usage=used)
    path = folder / "claude" / "projects" / "-srv" / "b.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in made.records), encoding="utf-8")
    header, *_, last = shiftlog(home, "import", env=where(folder)).out.splitlines()
    assert header.split()[-4:] == ["bad", "skipped", "read", "MB/s"]
    assert "     usage: 1.20 M tokens     " in last
    again = shiftlog(home, "import", "--full", env=where(folder)).out.splitlines()
    assert "     usage: 0 tokens     " in again[-1]


def test_folders_of_the_environment_are_those_of_whoever_asks(home: Path, folder: Path) -> None:
    """Case 2, with names that only mean something where the command runs."""
    shiftlog(home, "daemon", "start")
    other = Claude(session=SESSION.replace("a", "b"), letter="b").prompt("Go").says("Gone").ends()
    path = folder / "two" / "projects" / "-srv" / "b.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in other.records), encoding="utf-8")
    done = subprocess.run(
        [*PROGRAM, "import", "--json"],
        env=environment(home, **{**where(folder), "CLAUDE_CONFIG_DIR": "claude, two", "CODEX_HOME": ""}),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert json.loads(done.stdout)["totals"]["sessions_new"] == 2


def test_an_empty_home_is_no_failure(home: Path, tmp_path: Path) -> None:
    """Case 1."""
    report = shiftlog(home, "import", "--json", env=where(tmp_path / "nobody")).json()
    assert report["ok"]
    assert set(report["totals"].values()) == {0}


def test_a_missing_path_or_bad_option_is_misuse(home: Path, folder: Path) -> None:
    shiftlog(home, "import", str(folder / "nowhere"), status=2)
    shiftlog(home, "import", "", status=2)
    shiftlog(home, "import", "--since", "yesterday-ish", env=where(folder), status=2)
    shiftlog(home, "import", "--since", "", env=where(folder), status=2)
    shiftlog(home, "import", "--agent", "nobody", env=where(folder), status=2)
    shiftlog(home, "import", "--jobs", "-1", env=where(folder), status=2)


def test_an_unreadable_file_fails_the_import_and_the_rest_is_stored(home: Path, folder: Path) -> None:
    (folder / "claude" / "projects" / "-srv" / "b.jsonl.zst").write_bytes(b"no zstd at all")
    done = shiftlog(home, "import", str(folder), "--json", status=1)
    assert [error["code"] for error in done.json()["errors"]] == ["transcript_unreadable"]
    assert done.json()["totals"]["sessions"] == 1


def test_a_dry_run_stores_nothing(home: Path, folder: Path) -> None:
    done = shiftlog(home, "import", "--dry-run", env=where(folder))
    assert "dry run" in done.out
    assert shiftlog(home, "sessions", "--json").json()["total"] == 0


def test_quiet_prints_nothing(home: Path, folder: Path) -> None:
    assert shiftlog(home, "import", "--quiet", env=where(folder)).out == ""


@pytest.mark.long
def test_an_interrupt_ends_after_the_batch_with_the_summary(home: Path, tmp_path: Path) -> None:
    write_corpus(tmp_path, 30_000_000, turns=8)
    shiftlog(home, "daemon", "start")
    with Terminal(home, "import", str(tmp_path), width=120) as terminal:
        terminal.wait_for("files")
        terminal.interrupt()
        assert terminal.end() == 130
    assert "ClaudeCode" in terminal.plain
    report = shiftlog(home, "import", str(tmp_path), "--json").json()
    assert report["ok"]
    shiftlog(home, "verify")


def watch(home: Path, folder: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*PROGRAM, "import", "--watch", *options],
        env=environment(home, **where(folder)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def test_watching_prints_a_line_for_each_change(home: Path, folder: Path) -> None:
    shiftlog(home, "daemon", "start")
    watching = watch(home, folder, "--json")
    assert watching.stdout is not None
    try:
        first = json.loads(watching.stdout.readline())
        assert first["totals"]["sessions_new"] == 1
        path = folder / "claude" / "projects" / "-srv" / f"{SESSION}.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines()
        more = Claude(records=[json.loads(line) for line in lines]).prompt("More")
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(more.records[-1]) + "\n")
        second = json.loads(watching.stdout.readline())
        assert (second["totals"]["turns"], second["files"][0]["status"]) == (1, "grown")
    finally:
        watching.send_signal(signal.SIGINT)
        status = watching.wait(DEADLINE_S)
        watching.stdout.close()
    assert status == 130


def test_watching_goes_on_with_the_next_daemon(home: Path, folder: Path) -> None:
    shiftlog(home, "daemon", "start")
    watching = watch(home, folder, "--json")
    assert watching.stdout is not None
    try:
        assert json.loads(watching.stdout.readline())["totals"]["sessions_new"] == 1
        end_daemon(home)
        path = folder / "claude" / "projects" / "-srv" / f"{SESSION}.jsonl"
        known = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(Claude(records=known).prompt("More").records[-1]) + "\n")
        assert json.loads(watching.stdout.readline())["totals"]["turns"] == 1
    finally:
        watching.send_signal(signal.SIGINT)
        assert watching.wait(DEADLINE_S) == 130
        watching.stdout.close()


def test_watching_ends_when_its_reader_went_away(home: Path, folder: Path) -> None:
    with watch(home, folder, "--json") as watching:
        assert watching.stdout is not None
        try:
            assert watching.stdout.readline()
            watching.stdout.close()
            assert watching.wait(DEADLINE_S) == 141
        finally:
            watching.kill()


def test_watching_ends_with_the_summary_of_all_that_came(home: Path, folder: Path) -> None:
    shiftlog(home, "daemon", "start")
    watching = watch(home, folder)
    assert watching.stdout is not None
    try:
        assert watching.stdout.readline().startswith("imported")
        path = folder / "claude" / "projects" / "-srv" / f"{SESSION}.jsonl"
        known = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        more = Claude(records=known).prompt("More").prompt("And more")
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in more.records[-2:])
        assert watching.stdout.readline().startswith("grown")
    finally:
        watching.send_signal(signal.SIGINT)
        rest = watching.stdout.read().splitlines()
        status = watching.wait(DEADLINE_S)
        watching.stdout.close()
    heading, row, last = rest
    shown = dict(zip(heading.replace("sessions (new)", "sessions new").split(), row.split(), strict=False))
    assert (status, shown["agent"], shown["files"], shown["new"]) == (130, "ClaudeCode", "1", "(1)")
    assert int(shown["turns"]) == sum(record["type"] == "user" for record in more.records)
    assert last.startswith("skipped: ")


@pytest.mark.long
def test_an_import_whose_daemon_is_stopped_says_that_it_was_not_done(home: Path, tmp_path: Path) -> None:
    """8.1: exit 0 means done."""
    write_corpus(tmp_path, 60_000_000, turns=8)
    shiftlog(home, "daemon", "start")
    with Terminal(home, "import", str(tmp_path), width=120) as terminal:
        terminal.wait_for("files")
        stopped = lock_holder(home)
        assert stopped is not None
        os.kill(stopped, signal.SIGTERM)
        assert terminal.end() == 1
    assert "The daemon stopped before the import was done" in terminal.plain


def test_the_daemon_watches_where_it_is_told_to(home: Path, folder: Path) -> None:
    (home / "config.toml").write_text("[ingest]\nwatch = true\n", encoding="utf-8")
    shiftlog(home, "daemon", "start", env=where(folder))
    eventually(lambda: shiftlog(home, "sessions", "--json").json()["total"] == 1)
