"""Which peers there are and how each gets an environment and an empty home of its own below build/peers/.

An installation that fails is a fact to report, not an error: `install` answers with the reason. Packages come by name
from whatever index the machine is set up for.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "build" / "peers"
INSTALL_TIMEOUT_S = 900
SOURCES = ("pip_", "npm_", "ssl_", "node_", "requests_", "http_", "https_", "no_proxy", "all_proxy")
KEPT = ("PATH", "LANG", "LC_ALL", "TERM", "TZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One tool as its package index names it; `needs` are further packages that must be of its age."""

    name: str
    package: str
    npm: bool = False
    python: tuple[int, int] = (3, 11)
    needs: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return ROOT / self.name

    def program(self, name: str) -> Path:
        """Return where a program of the peer is."""
        return self.folder / ("node_modules/.bin" if self.npm else "env/bin") / name

    def environ(self, **more: str) -> dict[str, str]:
        """Return the environment a peer runs in: an empty home and nothing of ours."""
        kept = {name: value for name, value in os.environ.items() if name in KEPT}
        return {**kept, "HOME": str(self.folder / "home"), **more}


EXECKIT = Peer(name="execkit-mcp", package="execkit-mcp==0.10.1")
SWE_REX = Peer(name="swe-rex", package="swe-rex")
MCP_SHELL = Peer(name="mcp-shell-server", package="mcp-shell-server")
# Its package does not say which SDK it needs, and a resolver may pick one that it cannot import.
OPENHANDS = Peer(name="openhands-tools", package="openhands-tools", python=(3, 12), needs=("openhands-sdk",))
STEPBACK = Peer(name="stepback", package="stepback")
AGENTSVIEW = Peer(name="agentsview", package="agentsview")
CLAUDE_CODE_LOG = Peer(name="claude-code-log", package="claude-code-log")
CCUSAGE = Peer(name="ccusage", package="ccusage@20.0.24", npm=True)

SHELL_PEERS = (EXECKIT, SWE_REX, MCP_SHELL, OPENHANDS)
TRANSCRIPT_PEERS = (AGENTSVIEW, CLAUDE_CODE_LOG, CCUSAGE)


def install(peer: Peer) -> str | None:
    """Install a peer unless it is there; return why it could not be, or nothing."""
    done = peer.folder / "installed"
    if done.exists() and done.read_text(encoding="utf-8").startswith(peer.package + "\n"):
        return None
    (peer.folder / "home").mkdir(parents=True, exist_ok=True)
    print(f"installing {peer.package} …", file=sys.stderr, flush=True)
    try:
        version = _npm(peer) if peer.npm else _pip(peer)
    except (OSError, subprocess.SubprocessError, LookupError) as error:
        return _reason(error)
    done.write_text(f"{peer.package}\n{version}\n", encoding="utf-8")
    return None


def version(peer: Peer) -> str:
    """Return the installed version."""
    return (peer.folder / "installed").read_text(encoding="utf-8").splitlines()[1]


def _pip(peer: Peer) -> str:
    environment = peer.folder / "env"
    shutil.rmtree(environment, ignore_errors=True)
    _run(peer, [_interpreter(peer.python), "-m", "venv", str(environment)])
    pip = [str(environment / "bin" / "python"), "-m", "pip"]
    _run(peer, [*pip, "install", "--quiet", "--disable-pip-version-check", peer.package])
    show = _run(peer, [*pip, "show", peer.name]).splitlines()
    installed = next(line.split()[1] for line in show if line.startswith("Version:"))
    for package in peer.needs:
        _run(peer, [*pip, "install", "--quiet", f"{package}=={installed}"])
    return installed


def _npm(peer: Peer) -> str:
    _run(peer, ["npm", "install", "--prefix", str(peer.folder), "--no-audit", "--no-fund", peer.package])
    return peer.package.rpartition("@")[2]


def _interpreter(wanted: tuple[int, int]) -> str:
    """Find a Python of at least that version: this one, one on the path, or one of pyenv's."""
    if sys.version_info[:2] >= wanted:
        return sys.executable
    for minor in range(wanted[1], wanted[1] + 4):
        pattern = f"versions/3.{minor}.*/bin/python3"
        pyenv = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(pattern))
        for found in (*map(str, pyenv), shutil.which(f"python3.{minor}")):
            if found and subprocess.run([found, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
                return found
    raise LookupError(f"needs Python {wanted[0]}.{wanted[1]}, which this machine does not have")


def _run(peer: Peer, command: list[str]) -> str:
    # The settings that say where packages come from stay; the rest of the caller's environment does not.
    sources = {name: value for name, value in os.environ.items() if name.lower().startswith(SOURCES)}
    done = subprocess.run(
        command,
        env=peer.environ(**sources),
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
        check=True,
    )
    return done.stdout


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"installation took over {INSTALL_TIMEOUT_S} s"
    if isinstance(error, subprocess.CalledProcessError):
        lines = (error.stderr or error.stdout or "").strip().splitlines()
        return f"installation failed: {lines[-1][:160] if lines else error.returncode}"
    return str(error)
