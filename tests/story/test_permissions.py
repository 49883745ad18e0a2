"""Who may come near the record: modes of everything in the state directory, other users, and strangers over HTTP."""

import http.client
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import mcp_types as types
import pytest

from tests.daemon.support import control, eventually
from tests.story.agents import Agent, read_record, shiftlog

HTTP = {"SHIFTLOG_HTTP_ENABLED": "true", "SHIFTLOG_HTTP_PORT": "0"}
EXPECTED = {
    "shiftlog.db",
    "shiftlog.db-wal",
    "shiftlog.db-shm",
    "keys/ed25519",
    "daemon.log",
    "daemon.lock",
    "daemon.sock",
    "http.token",
}

TRY_EVERYTHING_AS_NOBODY = """
import os, socket, sys
os.chdir(sys.argv[1])
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for path in sys.argv[2:]:
    for flag in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.open(path, flag)
        except OSError as error:
            continue
        print("opened", path)
try:
    socket.socket(socket.AF_UNIX).connect("daemon.sock")
    print("connected")
except OSError:
    pass
try:
    print("listed", os.listdir("."))
except OSError:
    pass
"""


@pytest.fixture
def careless_umask() -> Generator[None]:
    """Let every process that this test starts give all rights to everybody by default."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(home: Path) -> dict[str, int]:
    """Return the permission bits of everything below a state directory."""
    found = {".": stat.S_IMODE(home.stat().st_mode)}
    for path in home.rglob("*"):
        found[str(path.relative_to(home))] = stat.S_IMODE(path.lstat().st_mode)
    return found


def live_a_little(home: Path) -> None:
    """Use everything that writes a file: bridge, daemon, HTTP, a server in-process, the command line, erasing."""
    with Agent(home, **HTTP) as agent, Agent(home, "--in-process") as other:
        for each in (agent, other):
            name = each.call("open_session", agent="Test", title="modes")["session_id"]
            each.call("begin_turn", session_id=name, query_title="turn", query_text="x" * 10_000)
            each.call("close_session", session_id=name)
        shiftlog(home, "erase", name, "--entry", "3", "--reason", "to see what it leaves", "--yes")
        url(home)


def url(home: Path) -> str:
    with control(home) as client:
        return eventually(lambda: client.call("daemon.status")["http"])


@pytest.mark.usefixtures("careless_umask")
def test_everything_in_the_state_directory_is_for_its_owner_alone(home: Path) -> None:
    home.chmod(0o755)
    live_a_little(home)
    found = modes(home)
    assert found.keys() >= EXPECTED
    folders = {name for name in found if (home / name).is_dir()}
    assert {name: oct(mode) for name, mode in found.items() if mode != (0o700 if name in folders else 0o600)} == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_can_open_list_and_reach_nothing(home: Path) -> None:
    live_a_little(home)
    files = [name for name in modes(home) if not (home / name).is_dir()]
    for mode in (0o700, 0o755):
        home.chmod(mode)
        # The second time only the modes of the files stand in the way, so only the listing may succeed.
        done = subprocess.run(
            [sys.executable, "-c", TRY_EVERYTHING_AS_NOBODY, str(home), *files],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        got_in = [line for line in done.stdout.splitlines() if not (mode == 0o755 and line.startswith("listed"))]
        assert got_in == []


class Stranger:
    """Whoever sends HTTP requests to the daemon's port, with headers of its own choice."""

    def __init__(self, home: Path) -> None:
        self.address = urlsplit(url(home))
        self.token = (home / "http.token").read_text().strip()

    def open_session(self, *headers: tuple[str, str], path: str = "/mcp") -> tuple[int, bytes]:
        """Try to open a session; headers may come twice. Return status and body."""
        meta = {
            types.PROTOCOL_VERSION_META_KEY: "2026-07-28",
            types.CLIENT_CAPABILITIES_META_KEY: {},
            types.CLIENT_INFO_META_KEY: {"name": "stranger", "version": "1"},
        }
        arguments = {"agent": "Test", "title": "over HTTP"}
        params = {"name": "open_session", "arguments": arguments, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        connection = http.client.HTTPConnection(str(self.address.hostname), self.address.port, timeout=30)
        try:
            connection.putrequest("POST", path, skip_host=True, skip_accept_encoding=True)
            sent = [
                ("Content-Type", "application/json"),
                ("Accept", "application/json, text/event-stream"),
                ("MCP-Protocol-Version", "2026-07-28"),
                ("Mcp-Method", "tools/call"),
                ("Mcp-Name", "open_session"),
                ("Content-Length", str(len(body))),
                *headers,
            ]
            for name, value in sent:
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    @property
    def host(self) -> tuple[str, str]:
        return "Host", self.address.netloc

    @property
    def bearer(self) -> tuple[str, str]:
        return "Authorization", f"Bearer {self.token}"


def test_http_lets_in_only_who_has_the_token_and_comes_from_this_machine(home: Path) -> None:
    with Agent(home, **HTTP):
        stranger = Stranger(home)
        port = stranger.address.port
        host, bearer = stranger.host, stranger.bearer
        foreign_hosts = [
            f"evil.example:{port}",
            f"127.0.0.1.evil.example:{port}",
            f"localhost.evil.example:{port}",
            f"evil.example@127.0.0.1:{port}",
            f"0.0.0.0:{port}",
            "",
        ]
        foreign_origins = ["http://evil.example", "https://localhost.evil.example", "null", "file://", ""]
        wrong_tokens = [
            "Bearer",
            "Bearer wrong",
            f"Bearer {stranger.token[:-1]}",
            f"Bearer {stranger.token}x",
            f"Basic {stranger.token}",
            stranger.token,
        ]
        in_query = f"/mcp?token={stranger.token}&access_token={stranger.token}"
        refusals = [
            *((403, stranger.open_session(("Host", name), bearer), name) for name in foreign_hosts),
            *((403, stranger.open_session(host, bearer, ("Origin", origin)), origin) for origin in foreign_origins),
            *((401, stranger.open_session(host, ("Authorization", token)), token) for token in wrong_tokens),
            (401, stranger.open_session(host), "no token"),
            (401, stranger.open_session(host, path=in_query), "token in the address"),
            (401, stranger.open_session(host, bearer, bearer), "two tokens"),
        ]
        assert [(status, what) for wanted, (status, _), what in refusals if status != wanted] == []
        assert stranger.open_session(host, ("Host", "evil.example"), bearer)[0] in (400, 403)
        assert all(b"session_id" not in body for _, (_, body), _ in refusals)
        assert read_record(home) == []
        for origin in ((), (("Origin", f"http://localhost:{port}"),)):
            status, body = stranger.open_session(host, bearer, *origin)
            assert status == 200
            assert b"session_id" in body
        assert len({line.session_id for line in read_record(home)}) == 2
        assert stranger.token.encode() not in (home / "daemon.log").read_bytes()


def test_http_listens_on_loopback_alone(home: Path) -> None:
    with Agent(home, **HTTP):
        served = Stranger(home).address
        assert served.hostname == "127.0.0.1"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))  # sends nothing; only asks the kernel which address it would use
            except OSError:
                pytest.skip("this machine has no address but loopback")
            address = probe.getsockname()[0]
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((address, served.port or 0), timeout=10).close()


def test_what_a_clients_own_environment_chooses_holds_for_it_whoever_started_the_daemon(home: Path) -> None:
    def listed(*arguments: str, **environ: str) -> set[str]:
        with Agent(home, *arguments, **environ) as agent:
            return {tool["name"] for tool in agent.ask("tools/list")["result"]["tools"]}

    everything = listed()
    assert "run_command" in everything
    reading = listed(SHIFTLOG_MCP_READ_ONLY="true")
    assert "query_history" in reading
    assert not reading & {"open_session", "run_command", "restore_checkpoint"}
    journal = listed(SHIFTLOG_MCP_TOOLSETS="journal, workspace")
    assert {"open_session", "list_checkpoints"} <= journal < everything - {"run_command"}
    assert listed("--toolsets", "shell", SHIFTLOG_MCP_TOOLSETS="journal") == everything - journal
    excluded = {"SHIFTLOG_MCP_EXCLUDE_TOOLS": "run_command"}
    assert listed("--exclude-tools", "open_shell", **excluded) == everything - {"run_command", "open_shell"}
    assert "nexo_session_log_create" in listed(SHIFTLOG_MCP_DIALECT="nexo")
    assert listed(SHIFTLOG_MCP_READ_ONLY="false", SHIFTLOG_MCP_TOOLSETS="") == everything
