"""What one test runs clients with: a home, a folder to work in, Shiftlog set up for them, and the clients headless.

Nothing of this machine's settings reaches a client: its environment holds the paths of the test and the scripted model.
"""

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.clients.installing import BUILD, PINS, ROOT, program_of
from tests.clients.model import ModelServer
from tests.clients.script import Json, Script
from tests.daemon.support import INITIALIZE, eventually

BIN = ROOT / ".venv" / "bin"
RUN_S = 400
CLAUDE_TOOLS = "Bash,Edit,Write,Read,Glob,Grep,Task,Agent,NotebookEdit,Skill,ToolSearch,mcp__plugin_shiftlog_shiftlog"
PROVIDER = "scripted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A run of a client that has ended."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[Json]:
        """The events that the client printed, one for each line."""
        return [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]

    @property
    def session(self) -> str:
        """The vendor's id of the session."""
        names = ("session_id", "thread_id", "sessionID")
        found = [next(filter(None, map(event.get, names)), None) for event in self.events]
        return next(name for name in reversed(found) if name)


@dataclass(slots=True, kw_only=True)
class ClientHarness:
    """The folders of a test, and what runs in them."""

    root: Path
    model: ModelServer
    clients: list["subprocess.Popen[str]"] = field(default_factory=list["subprocess.Popen[str]"])

    @property
    def script(self) -> Script:
        return self.model.script

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def state(self) -> Path:
        return self.root / "state"

    def environ(self, **more: str) -> dict[str, str]:
        """Return the whole environment of a program of the test."""
        return {
            "HOME": str(self.home),
            "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "SHIFTLOG_HOME": str(self.state),
            **more,
        }

    # Shiftlog

    def shiftlog(self, *arguments: str, check: bool = True, cwd: Path | None = None) -> str:
        """Run our command line and return what it prints."""
        done = subprocess.run(
            [str(BIN / "shiftlog"), *arguments],
            env=self.environ(),
            cwd=cwd or self.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        assert not check or done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + ("" if check else done.stderr)

    def shown(self, *arguments: str) -> Any:
        """Run our command line with --json and return what it prints."""
        return json.loads(self.shiftlog(*arguments, "--json"))

    def sessions(self, *, children: bool = False) -> list[Json]:
        """Return the sessions, the oldest first, when everything that hooks spooled has been taken."""
        self.settle()
        found: list[Json] = self.shown("sessions", "--limit", "200")["items"]
        if children or len(found) == 1:
            return found[::-1]
        return [each for each in reversed(found) if not self.lineage(each)["parent_session_id"]]

    def lineage(self, session: Json) -> Json:
        """Return where a session comes from: its parent, its predecessor, what it was forked from."""
        return self.session(session["session_id"])["session"]["lineage"]

    def set_up(self, agent: str) -> None:
        """Let a client use the scripted model and Shiftlog, with a daemon that runs."""
        writes = {
            "codex": self.write_codex_config,
            "gemini": self.write_gemini_settings,
            "opencode": self.write_opencode_config,
        }
        if agent in writes:
            writes[agent]()
        self.shiftlog("setup", agent, "--write")
        self.warm()

    def warm(self) -> None:
        """Start the daemon and let it load its MCP server, so that a client need not wait for either."""
        hello = json.dumps(INITIALIZE).encode() + b"\n"
        subprocess.run(
            [str(BIN / "shiftlog"), "mcp"],
            env=self.environ(),
            cwd=self.work,
            input=hello,
            stdout=subprocess.DEVNULL,
            timeout=RUN_S,
            check=True,
        )

    def session(self, session_id: str) -> Json:
        """Return one session whole."""
        return self.shown("show", session_id)

    def settle(self) -> None:
        """Wait until the daemon has taken all events of the hooks."""
        self.shiftlog("daemon", "start", check=False)
        spool = self.state / "spool"
        eventually(lambda: not any(path.stat().st_size for path in spool.glob("hooks-*.jsonl")) or None)

    def run(self, agent: str, prompt: str, *options: str) -> Ended:
        """Run one prompt in a client and wait for the end."""
        runs = {"claude": self.claude, "codex": self.codex, "gemini": self.gemini, "opencode": self.opencode}
        return runs[agent](prompt, *options)

    # Claude Code

    def claude(self, prompt: str, *options: str, cwd: Path | None = None, **more: str) -> Ended:
        """Run one prompt in Claude Code and wait for the end."""
        return ended(self.start_claude(prompt, *options, cwd=cwd, **more))

    def claude_command(self, prompt: str, *options: str) -> list[str]:
        """Return the words that run one prompt in Claude Code."""
        program = program_of("claude")
        assert program is not None
        printed = ["--output-format", "stream-json", "--verbose", "--allowedTools", CLAUDE_TOOLS]
        return [shlex.quote(word) for word in (*program, "-p", prompt, *printed, *options)]

    def start_claude(self, prompt: str, *options: str, cwd: Path | None = None, **more: str) -> "subprocess.Popen[str]":
        """Start Claude Code with a prompt."""
        return self._start(shlex.split(" ".join(self.claude_command(prompt, *options))), self._of_claude(**more), cwd)

    def _of_claude(self, **more: str) -> dict[str, str]:
        return self.environ(
            ANTHROPIC_BASE_URL=self.model.url,
            ANTHROPIC_API_KEY="made-up",
            DISABLE_TELEMETRY="1",
            DISABLE_AUTOUPDATER="1",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            CLAUDE_CODE_TMPDIR=str(self.root),  # else it leaves folders in /tmp
            **more,
        )

    def converse(self, *prompts: str) -> None:
        """Say several things to one Claude Code, each when it has answered the one before."""
        program = program_of("claude")
        assert program is not None
        streams = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        command = [*program, "-p", *streams, "--allowedTools", CLAUDE_TOOLS]
        process = self._start(command, self._of_claude(), None, stdin=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        for prompt in prompts:
            said = {"type": "user", "message": {"role": "user", "content": prompt}}
            process.stdin.write(json.dumps(said) + "\n")
            process.stdin.flush()
            while json.loads(process.stdout.readline())["type"] != "result":
                pass
        process.stdin.close()
        process.wait(RUN_S)
        process.stdout.close()
        assert process.stderr is not None
        process.stderr.close()

    # Codex

    def write_codex_config(self) -> None:
        """Tell Codex of the scripted model; `shiftlog setup codex` adds its part to the same file."""
        folder = self.home / ".codex"
        folder.mkdir(parents=True, exist_ok=True)
        text = (
            f'model = "scripted-model"\nmodel_provider = "{PROVIDER}"\napproval_policy = "never"\n'
            f'sandbox_mode = "danger-full-access"\n\n[model_providers.{PROVIDER}]\nname = "Scripted"\n'
            f'base_url = "{self.model.url}/v1"\nwire_api = "responses"\nenv_key = "SCRIPTED_KEY"\n'
            "request_max_retries = 0\nstream_max_retries = 0\n"
        )
        (folder / "config.toml").write_text(text, "utf-8")

    def trust_codex_hooks(self) -> None:
        """Trust the hooks as a person does in Codex: by its own list of them, with its own hashes."""
        program = program_of("codex")
        assert program is not None
        environ = self.environ(SCRIPTED_KEY="made-up")
        server = subprocess.Popen(
            [*program, "app-server"],
            env=environ,
            cwd=self.work,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

        def ask(number: int, method: str, params: Json) -> Json:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(json.dumps({"id": number, "method": method, "params": params}) + "\n")
            server.stdin.flush()
            while (said := json.loads(server.stdout.readline())).get("id") != number:
                pass
            return said["result"]

        with server:
            ask(1, "initialize", {"clientInfo": {"name": "tests", "title": "tests", "version": "1"}})
            hooks = ask(2, "hooks/list", {"cwds": [str(self.work)]})["data"][0]["hooks"]
            trusted = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in hooks}
            edit = {"keyPath": "hooks.state", "value": trusted, "mergeStrategy": "upsert"}
            ask(3, "config/batchWrite", {"edits": [edit]})
            server.kill()

    def codex(self, prompt: str, *options: str, trusted: bool = True, **more: str) -> Ended:
        """Run one prompt in Codex and wait for the end; `trusted` lets its hooks run."""
        return ended(self.start_codex(prompt, *options, trusted=trusted, **more))

    def start_codex(
        self, prompt: str, *options: str, trusted: bool = True, resume: str | None = None, **more: str
    ) -> "subprocess.Popen[str]":
        """Start Codex with a prompt; `resume` is the thread to go on with."""
        program = program_of("codex")
        assert program is not None
        trust = ["--dangerously-bypass-hook-trust"] if trusted else []
        words = ["exec", "--json", "--skip-git-repo-check", *trust, *options]
        words += ["resume", resume, prompt] if resume else [prompt]
        return self._start([*program, *words], self.environ(SCRIPTED_KEY="made-up", **more), None)

    # Gemini CLI

    def write_gemini_settings(self) -> None:
        """Let Gemini CLI use a key, at which the scripted model does not look; `shiftlog setup` adds its part."""
        folder = self.home / ".gemini"
        folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "privacy": {"usageStatisticsEnabled": False},
            "model": {"disableLoopDetection": True},  # after thirty calls it would ask the model about them
        }
        (folder / "settings.json").write_text(json.dumps(settings), "utf-8")

    def gemini(self, prompt: str, *options: str) -> Ended:
        """Run one prompt in Gemini CLI and wait for the end."""
        return ended(self.start_gemini(prompt, *options))

    def start_gemini(self, prompt: str, *options: str) -> "subprocess.Popen[str]":
        """Start Gemini CLI with a prompt."""
        program = program_of("gemini")
        assert program is not None
        words = ["-p", prompt, "--output-format", "stream-json", "--approval-mode", "yolo", "-m", "gemini-2.5-flash"]
        environ = self.environ(
            GEMINI_API_KEY="made-up", GOOGLE_GEMINI_BASE_URL=self.model.url, GEMINI_CLI_TRUST_WORKSPACE="true"
        )
        return self._start([*program, *words, *options], environ, None)

    # OpenCode

    def write_opencode_config(self) -> None:
        """Tell OpenCode of the scripted model; `shiftlog setup opencode` adds its part to the same file."""
        folder = self.home / ".config" / "opencode"
        folder.mkdir(parents=True, exist_ok=True)
        provider = {
            "npm": "@ai-sdk/anthropic",
            "name": "Scripted",
            "options": {"baseURL": f"{self.model.url}/v1", "apiKey": "made-up"},
            "models": {"scripted-model": {"name": "Scripted"}},
        }
        # Without a terminal it refuses what it would ask about.
        config = {"provider": {PROVIDER: provider}, "autoupdate": False, "permission": {"external_directory": "allow"}}
        (folder / "opencode.json").write_text(json.dumps(config), "utf-8")
        # Where there are plugins it installs this package from npm at its start, unless it is there.
        package = "@opencode-ai/plugin"
        dependencies = {package: PINS["opencode"]["packages"][package]}
        lock: Json = {"lockfileVersion": 3, "packages": {"": {"dependencies": dependencies}}}
        for name, content in (("package.json", {"dependencies": dependencies}), ("package-lock.json", lock)):
            (folder / name).write_text(json.dumps(content), "utf-8")
        (folder / "node_modules").symlink_to(BUILD / "opencode" / "node_modules")

    def opencode(self, prompt: str, *options: str) -> Ended:
        """Run one prompt in OpenCode and wait for the end."""
        return ended(self.start_opencode(prompt, *options))

    def start_opencode(self, prompt: str, *options: str) -> "subprocess.Popen[str]":
        """Start OpenCode with a prompt; it puts an argument of several words in quotes."""
        program = program_of("opencode")
        assert program is not None
        words = ["run", "--format", "json", "-m", f"{PROVIDER}/scripted-model", *options, *prompt.split()]
        environ = self.environ(OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_MODELS_FETCH="1")
        return self._start([*program, *words], environ, None)

    def start(self, agent: str, prompt: str) -> "subprocess.Popen[str]":
        """Start a client with a prompt."""
        starts = {
            "claude": self.start_claude,
            "codex": self.start_codex,
            "gemini": self.start_gemini,
            "opencode": self.start_opencode,
        }
        return starts[agent](prompt)

    def _start(
        self, command: Sequence[str], environ: dict[str, str], cwd: Path | None, stdin: int = subprocess.DEVNULL
    ) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            command,
            env=environ,
            cwd=cwd or self.work,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.clients.append(process)
        return process

    def end_clients(self) -> None:
        """End the clients that a failed test did not wait for, and what they run in process groups of their own."""
        left = [process for process in self.clients if process.poll() is None]
        mark = f"SHIFTLOG_HOME={self.state}".encode()
        for environ in Path("/proc").glob("[0-9]*/environ") if left else ():
            with suppress(OSError):
                if mark in environ.read_bytes().split(b"\0"):
                    os.kill(int(environ.parent.name), signal.SIGKILL)
        for process in left:
            with process:
                process.kill()


def bodies(harness: ClientHarness, kind: str, session_id: str | None = None) -> list[Json]:
    """Return the facts of a session's entries of one kind; without an id, those of the last session."""
    session = session_id or harness.sessions()[-1]["session_id"]
    lines = harness.shiftlog("export", session, "--format", "jsonl", "-o", "-").splitlines()
    return [entry["body"] for line in lines if (entry := json.loads(line)).get("kind") == kind]


def ended(process: "subprocess.Popen[str]", *, within_s: float = RUN_S) -> Ended:
    """Wait for the end of a client; kill it and its children when it takes too long."""
    try:
        out, err = process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, err = process.communicate()
        raise AssertionError(f"the client did not end within {within_s} s\n{out[-4000:]}\n{err[-4000:]}") from None
    return Ended(code=process.returncode, out=out, err=err)
