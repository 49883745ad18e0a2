"""What `make run` installs is enough for every face: without the extras and without the tools of development."""

import json
import subprocess
import urllib.request
import venv
from collections.abc import Generator
from http.cookiejar import CookieJar
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from tests.cli.support import Done
from tests.daemon.support import INITIALIZE, INITIALIZED, end_daemon, environment

ROOT = Path(__file__).parents[2]
INSTALLED = ("build.txt", "runtime.txt")
TEAM = {"SHIFTLOG_STORE_URL": "postgresql://nobody@127.0.0.1:1/nothing"}
pytestmark = pytest.mark.usefixtures("cold_starts")  # a forked daemon would have the packages of the tests
TOOLS: tuple[dict[str, Any], ...] = (
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "open_session", "arguments": {}}},
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment with links to the packages of `make run`, and the start script of Shiftlog."""
    place = tmp_path_factory.mktemp("plain") / "venv"
    venv.create(place, symlinks=True)
    packages = next(place.glob("lib/python*/site-packages"))
    for line in (line for name in INSTALLED for line in (ROOT / "requirements" / name).read_text().splitlines()):
        if line and not line.startswith("#"):
            _link(line.partition("==")[0], packages)
    (packages / "shiftlog.pth").write_text(str(ROOT / "src"))
    script = place / "bin" / "shiftlog"
    script.write_text(f"#!{place}/bin/python\nimport sys\nfrom shiftlog.entry import main\nsys.exit(main())\n")
    script.chmod(0o755)
    return script


def _link(name: str, packages: Path) -> None:
    known = distribution(name)
    for top in {file.parts[0] for file in known.files or () if file.parts[0] not in ("..", "__pycache__")}:
        target = packages / top
        if not target.exists():
            target.symlink_to(Path(str(known.locate_file(top))))


@pytest.fixture
def home(tmp_path: Path) -> Generator[Path]:
    yield tmp_path / "state"
    end_daemon(tmp_path / "state")


def run(program: Path, home: Path, *words: str, given: str = "", **env: str) -> Done:
    done = subprocess.run(
        [program, *words],
        input=given,
        env=environment(home, **env),
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return Done(status=done.returncode, out=done.stdout, err=done.stderr)


def test_the_environment_has_none_of_the_tools_of_development(program: Path) -> None:
    found = subprocess.run(
        [program.with_name("python"), "-c", "import pytest"], capture_output=True, text=True, timeout=60, check=False
    )
    assert "No module named 'pytest'" in found.stderr


def test_the_page_opens_and_shows_what_a_command_recorded(program: Path, home: Path) -> None:
    assert run(program, home, "exec", "--", "echo from a plain installation").out == "from a plain installation\n"
    opened = run(program, home, "open", "--print")
    assert opened.status == 0, opened
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    browser.open(opened.out.strip(), timeout=30).close()  # takes the cookie
    with browser.open(urljoin(opened.out, "/"), timeout=30) as answer:
        assert "from a plain installation" in answer.read().decode()


@pytest.mark.parametrize("face", [(), ("--in-process",), ("--dialect", "nexo,mcpserver")])
def test_agents_get_their_tools(program: Path, home: Path, face: tuple[str, ...]) -> None:
    asked = (INITIALIZE, INITIALIZED, *TOOLS)
    served = run(program, home, "mcp", *face, given="".join(json.dumps(each) + "\n" for each in asked))
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, served.out.splitlines()) if "id" in answer}
    assert len(answers[1]["tools"]) >= 17, served.err
    assert "agent" in answers[2]["structuredContent"]["error"]["message"]


def test_transcripts_are_imported_searched_verified_and_exported(program: Path, home: Path, tmp_path: Path) -> None:
    record = {"type": "user", "uuid": "u1", "sessionId": "0a6f2b0e-0000-4000-8000-000000000001", "cwd": "/w"}
    record |= {"timestamp": "2026-11-01T10:00:00Z", "message": {"role": "user", "content": "Find the plain bug"}}
    transcript = tmp_path / "0a6f2b0e-0000-4000-8000-000000000001.jsonl"
    transcript.write_text(json.dumps(record) + "\n")
    for words in (["import", str(transcript)], ["search", "plain"], ["verify"], ["export", "last"], ["doctor"]):
        done = run(program, home, *words)
        assert done.status == 0, done


def test_the_session_log_answers(program: Path, home: Path) -> None:
    method: dict[str, Any] = {"method": "workflow.sessionlog.bootstrap", "requestId": "r1", "params": {}}
    done = run(program, home, "repl", given=json.dumps({"type": "request", "payload": method}) + "\n")
    assert '"initialized":true' in done.out.replace(" ", ""), done


@pytest.mark.parametrize("words", ["server", "keys list", "store migrate", "store partitions", "sessions"])
def test_a_command_for_teams_names_the_package_that_it_lacks(program: Path, home: Path, words: str) -> None:
    done = run(program, home, *words.split(), **TEAM)
    assert done.status == 1, done
    assert "needs the package" in done.err
    assert "-m pip install 'shiftlog[" in done.err
    assert "Traceback" not in done.err


def test_without_a_database_url_a_command_for_teams_asks_for_it_first(program: Path, home: Path) -> None:
    done = run(program, home, "keys", "list")
    assert (done.status, "store.url is not set" in done.err) == (1, True), done
