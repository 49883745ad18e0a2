"""`shiftlog open` and `shiftlog export` through the real daemon: a link that works, and files."""

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from shiftlog.link.client import connect, stop_daemon
from tests.daemon.support import environment

SHIFTLOG = Path(sys.executable).with_name("shiftlog")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    home = tmp_path_factory.mktemp("page") / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text("[http]\nport = 0\n")
    yield home
    stop_daemon(str(home))


def shiftlog(home: Path, *words: str, status: int = 0) -> str:
    done = subprocess.run(
        [str(SHIFTLOG), *words], env=environment(home), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


@pytest.fixture(scope="module")
def session_id(home: Path) -> str:
    shiftlog(home, "run", "--demo")
    return str(json.loads(shiftlog(home, "sessions", "--json"))["items"][0]["session_id"])


def test_open_serves_the_page_on_demand_and_gives_a_link_that_works_once(home: Path, session_id: str) -> None:
    with connect(str(home)) as client:
        assert client.call("daemon.status")["page"] is None, "nobody asked for it yet"
    url = str(json.loads(shiftlog(home, "open", "--json"))["url"])
    assert url.startswith("http://127.0.0.1:")
    with httpx.Client() as browser:
        assert browser.get(url).status_code == 200
        base = url.partition("/open")[0]
        assert "charged twice" in browser.get(f"{base}/sessions/{session_id}").text
        assert httpx.get(url).status_code == 401
        assert browser.post(f"{base}/mcp").status_code in (404, 405), "MCP over HTTP was not enabled by this"
    with connect(str(home)) as client:
        status = client.call("daemon.status")
    assert status["page"] == base
    assert status["http"] is None


def test_a_second_link_leads_to_the_same_page_and_to_a_session(home: Path, session_id: str) -> None:
    first = json.loads(shiftlog(home, "open", "--json"))["url"]
    second = json.loads(shiftlog(home, "open", "last", "--json"))["url"]
    assert first.partition("/open")[0] == second.partition("/open")[0]
    answer = httpx.get(second)
    assert f"url=/sessions/{session_id}" in answer.text


def test_printing_gives_the_address_alone_and_a_note_beside_it(home: Path) -> None:
    done = subprocess.run(
        [str(SHIFTLOG), "open", "--print"],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith("http://127.0.0.1:")
    assert "/open?code=" in done.stdout
    assert len(done.stdout.splitlines()) == 1
    assert "within a minute" in done.stderr


@pytest.mark.parametrize(
    ("form", "begins"), [("html", "<!doctype html>"), ("md", "# "), ("jsonl", '{"type":"session"')]
)
def test_export_writes_a_session(home: Path, session_id: str, tmp_path: Path, form: str, begins: str) -> None:
    text = shiftlog(home, "export", "last", "--format", form)
    assert text.startswith(begins)
    file = tmp_path / f"session.{form}"
    shiftlog(home, "export", session_id, "-o", str(file))
    assert file.read_text("utf-8").startswith(begins)


def test_a_file_whose_ending_names_no_format_is_refused(home: Path, session_id: str, tmp_path: Path) -> None:
    for name in ("session.pdf", "session.json", "SESSION.DOCX"):
        said = shiftlog(home, "export", session_id, "-o", str(tmp_path / name), status=2)
        assert f"No format is known for files that end in '{Path(name).suffix.lower()}'" in said
        assert ".html, .htm, .md, .markdown, .jsonl, .ndjson" in said
    assert list(tmp_path.iterdir()) == []
    shiftlog(home, "export", session_id, "--format", "jsonl", "-o", str(tmp_path / "session.json"))
    shiftlog(home, "export", session_id, "-o", str(tmp_path / "plain"))
    assert (tmp_path / "plain").read_text().startswith("# ")


def test_export_of_nothing_leaves_no_file(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "none.html"
    shiftlog(home, "export", "Codex-20200101T000000Z-nobody", "-o", str(file), status=1)
    assert not file.exists()


@pytest.mark.parametrize("options", [[], ["--as", "claude"]])
def test_a_file_that_cannot_be_written_is_named_without_a_traceback(
    home: Path, session_id: str, tmp_path: Path, options: list[str]
) -> None:
    for path in (tmp_path, tmp_path / "none" / "session.md"):
        said = shiftlog(home, "export", session_id, *options, "-o", str(path), status=1)
        assert f"error: Cannot write {path}: " in said
        assert "Traceback" not in said


def test_a_dash_is_standard_output(home: Path, session_id: str) -> None:
    assert shiftlog(home, "export", session_id, "-o", "-").startswith("# ")


def test_the_daemon_stops_with_a_page_open(home: Path) -> None:
    url = str(json.loads(shiftlog(home, "open", "--json"))["url"])
    base = url.partition("/open")[0]
    with httpx.Client() as browser:
        browser.get(url)
        with browser.stream("GET", f"{base}/events", timeout=20) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry")
            pid = stop_daemon(str(home))
            assert pid is not None
