"""`shiftlog put` and `shiftlog get` as their users have them."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.agent import Agent
from tests.cli.support import Terminal, shiftlog
from tests.daemon.support import Bridge, end_daemon, eventually
from tests.shell.remote.ssh.places import settings_for, where
from tests.shell.remote.ssh.server import SshServer


@contextmanager
def opened(folder: Path, server: SshServer) -> Generator[tuple[Agent, Path, Path]]:
    """Connect an agent that has a shell on the server; give its state directory, and the shell's own directory."""
    home, there = folder / "h", folder / "there"
    home.mkdir(mode=0o700)
    there.mkdir()
    (home / "config.toml").write_text(settings_for(server))
    try:
        with Bridge(home) as bridge:
            bridge.shake_hands()
            agent = Agent(bridge)
            assert "shell_id" in agent.call("open_shell", **where(server, cwd=str(there)))
            yield agent, home, there
    finally:
        end_daemon(home)


def test_a_file_goes_there_and_back(tmp_path: Path, server: SshServer) -> None:
    (tmp_path / "f.txt").write_text("text\n")
    with opened(tmp_path, server) as (agent, home, there):
        put = shiftlog(home, "put", "last", str(tmp_path / "f.txt"))
        assert put.out.splitlines()[0] == f"copied  {tmp_path}/f.txt → root@127.0.0.1:{server.port}:{there}/f.txt"
        assert "5 B in " in put.out
        assert (there / "f.txt").read_text() == "text\n"
        got = shiftlog(home, "get", "last", "f.txt", str(tmp_path / "back"), "--json").json()
        assert (got["transfer"]["bytes"], got["transfer"]["direction"]) == (5, "get")
        assert (tmp_path / "back").read_text() == "text\n"
        refused = shiftlog(home, "get", "last", "nothing", str(tmp_path), status=1)
        assert "nothing cannot be copied: it does not exist there as a regular file" in refused.err
        shells = agent.call("list_shells")["shells"]
        assert shells[0]["state"] == "idle"
        told = shiftlog(home, "replay", "last", "--speed", "1000").out
        assert f"shiftlog put {tmp_path}/f.txt ." in told


def test_ctrl_c_leaves_what_was_there(tmp_path: Path, server: SshServer) -> None:
    with (tmp_path / "big").open("wb") as file:
        file.truncate(8 << 30)
    with opened(tmp_path, server) as (_, home, there):
        (there / "big").write_text("old")
        with Terminal(home, "put", "last", str(tmp_path / "big")) as terminal:
            terminal.wait_for(" of 8")
            terminal.interrupt()
            assert terminal.end() == 130
        eventually(lambda: [one.name for one in there.iterdir()] == ["big"])
        assert (there / "big").read_text() == "old"
