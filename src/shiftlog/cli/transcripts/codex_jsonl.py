"""`shiftlog codex-jsonl`: prints or stores rollouts of Codex as turns of the session log."""

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shiftlog.cli.connecting import open_client, opened_home
from shiftlog.cli.screen.output import print_json
from shiftlog.model.errors import InvalidSessionId, StorageError, TurnImmutable

if TYPE_CHECKING:
    from shiftlog.ingest.capture import CapturedRollout
    from shiftlog.link.client import Client

AGENT = "Codex"
IMPORT = "workflow.sessionlog.importRecovery"
CAPTURED = (
    "response",
    "interpretation",
    "processingDialog",
    "actions",
    "filesModified",
    "contextList",
    "designDecisions",
    "requirementsDiscovered",
    "blockers",
    "commits",
    "model",
    "tokenCount",
)
ID8 = 8

Turn = dict[str, Any]


@click.group(name="codex-jsonl", short_help="Convert rollouts of Codex to turns of the session log.")
def codex_jsonl() -> None:
    """Read rollouts of Codex as turns of the session log.

    \b
    Examples:
      shiftlog codex-jsonl enrich
      shiftlog codex-jsonl subagents rollout.jsonl
    """


@codex_jsonl.command()
@click.argument("file")
def parse(file: str) -> None:
    """Print the turns of FILE as a JSON array; nothing is stored.

    \b
    Example:
      shiftlog codex-jsonl parse rollout.jsonl
    """
    print_json([_shown(turn) for turn in _read(file).turns])


@codex_jsonl.command()
@click.argument("file", required=False)
def enrich(file: str | None) -> None:
    """Print the fields of the last turn of FILE as a JSON object; nothing is stored.

    Without FILE, reads the rollout in CODEX_SESSION_FILE or CODEX_ROLLOUT_FILE, else that of the current session, else
    the latest of this workspace.

    \b
    Example:
      shiftlog codex-jsonl enrich
    """
    turns = _read(file or _found(_kept())).turns
    print_json(_captured(turns[-1]) if turns else {})


@codex_jsonl.command()
@click.argument("file", required=False)
def capture(file: str | None) -> None:
    """Store the fields of the last turn of FILE in the turn of the current session.

    An open turn is completed, or failed if it was aborted. Fields of an ended turn are added as an amendment; an
    unknown turn is imported.

    \b
    Example:
      shiftlog codex-jsonl capture rollout.jsonl
    """
    with open_client() as client:
        log = _Log(client)
        current: dict[str, Any] = log.call("currentSession", {"agent": AGENT}) or {}
        rollout = _read(file or _found(current.get("agentSessionTranscriptFile")))
        counted = {"skippedLines": rollout.skipped_lines, "unknownRecords": rollout.unknown_records}
        print_json({**log.capture(rollout, current), **counted}, indent=None)


@codex_jsonl.command()
@click.argument("parent")
def subagents(parent: str) -> None:
    """Print the subagents of PARENT, a rollout or a thread id, as a JSON array.

    \b
    Example:
      shiftlog codex-jsonl subagents rollout.jsonl
    """
    from shiftlog.ingest.capture import header_of, rollout_folder, subagents_of

    thread = parent
    if Path(parent).is_file():
        head = header_of(parent)
        thread = head.thread if head is not None else parent
    elif os.sep in parent:
        _read(parent)
    print_json(subagents_of(thread, rollout_folder(os.environ, Path.home())))


@codex_jsonl.command(name="import")
@click.argument("file")
@click.argument("session_id", metavar="SESSION-ID")
@click.argument("parent_request", required=False, metavar="[PARENT-REQ-ID]")
@click.option("--apply", is_flag=True, help="Store the turns instead of printing the requests.")
def import_(file: str, session_id: str, parent_request: str | None, apply: bool) -> None:
    """Print requests that import the turns of FILE into SESSION-ID, one per line.

    Method, parameters in base64 and label are separated by tabs; the lines are the same on every run.

    \b
    Example:
      shiftlog codex-jsonl import rollout.jsonl Codex-20260701T120000Z-cache
    """
    from shiftlog.model.ids import check_session_id

    try:
        check_session_id(session_id)
    except InvalidSessionId as error:
        raise click.UsageError(f"{error.message}: {session_id}") from None
    requests = _requests(_read(file), session_id, parent_request)
    if not apply:
        for params, label in requests:
            data = json.dumps(params, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
            click.echo(f"{IMPORT}\t{base64.b64encode(data).decode()}\t{label}")
        return
    with open_client() as client:
        log = _Log(client)
        results = [log.call("importRecovery", params) for params, _ in requests]
    names = ("importedTurns", "mergedTurns", "skippedTurns", "amendedTurns")
    print_json({"sessionId": session_id, **{name: sum(result.get(name, 0) for result in results) for name in names}})


def _requests(rollout: "CapturedRollout", session_id: str, parent_request: str | None) -> list[tuple[Turn, str]]:
    from shiftlog.ingest.capture import as_subagents_turn
    from shiftlog.model.ids import slug

    agent = session_id.split("-", 1)[0]
    title = _title(rollout)
    requests: list[tuple[Turn, str]] = []
    for turn in rollout.turns:
        own = slug(str(turn.get("vendorTurnId") or turn["requestId"].split("-", 2)[2]), "turn")[:ID8].strip("-")
        is_child = rollout.parent is not None
        shown = _shown(as_subagents_turn(turn, rollout, parent_request) if is_child else turn)
        label = f"subagent-{rollout.nickname}-{own}" if is_child else f"parent-{own}"
        log: Turn = {"sourceType": agent, "sessionId": session_id, "title": title, "turns": [shown]}
        if not is_child:
            log["agentSessionId"] = rollout.thread
        requests.append(({"sessionLog": log}, label))
    return requests


def _title(rollout: "CapturedRollout") -> str:
    """Return the title: the first prompt, for a subagent that of its parent if the parent's rollout exists."""
    from shiftlog.ingest.capture import rollout_folder, rollouts_under

    first = str(rollout.turns[0]["queryTitle"]) if rollout.turns else rollout.thread
    if rollout.parent is None:
        return first
    for path in rollouts_under(rollout_folder(os.environ, Path.home())):
        if rollout.parent in Path(path).name:
            turns = _read(path).turns
            return str(turns[0]["queryTitle"]) if turns else first
    return first


class _Log:
    """The session log of this workspace, through the daemon."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._name = os.urandom(16).hex()
        self._calls = 0
        self._binding: Any = {}

    def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """Return the result of a method; raise the error that it answers with."""
        from shiftlog.link.client import error_from

        self._calls += 1
        name = method if "." in method else f"workflow.sessionlog.{method}"
        about = {"client": self._name, "call": self._calls, "workspace": str(Path.cwd()), "agent": AGENT}
        question: dict[str, object] = {**about, "method": name, "params": dict(params), "binding": self._binding}
        answer: dict[str, Any] = self._client.call("sessionlog", question)
        self._binding = answer.get("binding") or {}
        if "error" in answer:
            raise error_from(answer["error"])
        return answer["result"]

    def capture(self, rollout: "CapturedRollout", current: Mapping[str, Any]) -> dict[str, Any]:
        """Store the last turn of a rollout, and return the outcome."""
        if not rollout.turns:
            raise StorageError("The rollout has no turn")
        turn = rollout.turns[-1]
        session, request = current.get("sessionId"), current.get("currentTurnRequestId")
        own = current.get("agentSessionId")
        if not session or not request or own not in (None, rollout.thread):
            return self._imported(rollout, turn)
        fields = {"sessionId": session, "requestId": request, **_captured(turn)}
        try:
            if turn["status"] == "failed":
                note = turn["failureNote"] or "Turn aborted: interrupted"
                done = self.call("failTurn", {**fields, "errorMessage": note})
            elif turn["status"] == "completed" and turn["response"]:
                done = self.call("completeTurn", fields)
            else:
                return self._merged(session, request, turn, current)
        except TurnImmutable:
            return self._merged(session, request, turn, current)
        redactions = done.get("journal", {}).get("redactions", 0)
        return _outcome(session, request, done["status"], amended=False, redactions=redactions)

    def _merged(self, session: str, request: str, turn: Turn, current: Mapping[str, Any]) -> dict[str, Any]:
        """Merge the captured fields into an open turn, or add them to an ended one as an amendment."""
        about = {"sourceType": str(current["agent"]), "sessionId": session, "title": current["title"]}
        given = {"requestId": request, **_captured(turn)}
        is_over = current.get("currentTurnStatus") != "in_progress"
        if is_over:
            given.pop("response", None)  # the agent's own words stay
        done = self.call("importRecovery", {"sessionLog": {**about, "turns": [given]}})
        redactions = done.get("journal", {}).get("redactions", 0)
        status = str(current.get("currentTurnStatus"))
        return _outcome(session, request, status, amended=bool(done["amendedTurns"]), redactions=redactions)

    def _imported(self, rollout: "CapturedRollout", turn: Turn) -> dict[str, Any]:
        given = {"path": rollout.path, "source": AGENT}
        done = self.call("repl.sessionlog.ingestTranscripts", given)
        sessions = [name for file in done["files"] for name in file.get("sessions", ())]
        masked = sum(done.get("redactions", {}).values()) if isinstance(done.get("redactions"), dict) else 0
        name = sessions[0] if sessions else None
        return _outcome(name, turn["requestId"], turn["status"], amended=False, redactions=masked)


def _outcome(session: str | None, request: str, status: str, *, amended: bool, redactions: int) -> dict[str, Any]:
    about = {"sessionId": session, "turnRequestId": request, "status": status}
    return {**about, "amended": amended, "redactions": redactions}


def _captured(turn: Turn) -> Turn:
    return {name: turn[name] for name in CAPTURED if turn.get(name) not in (None, "", [], 0)}


def _shown(turn: Turn) -> Turn:
    return {name: value for name, value in turn.items() if name != "vendorTurnId"}


def _read(file: str) -> "CapturedRollout":
    """Read a rollout with its secrets masked by the built-in and the operator's rules."""
    from shiftlog.app.app import operator_redactor
    from shiftlog.guard.secrets.redactor import PATH_FIELDS
    from shiftlog.ingest.capture import read_rollout

    redactor = operator_redactor(Path(opened_home()), os.environ)
    return read_rollout(file, lambda value: redactor.value(value, path_fields=PATH_FIELDS)[0])


def _found(kept: str | None) -> str:
    from shiftlog.config.loading import load
    from shiftlog.ingest.capture import find_rollout
    from shiftlog.journal.sessions import workspace_of

    roots = load(Path(opened_home()), os.environ).ingest.roots
    return find_rollout(os.environ, Path.home(), workspace_of(str(Path.cwd())), kept, roots)


def _kept() -> str | None:
    """Return the rollout of the current session, None if the environment names one."""
    from shiftlog.ingest.capture import VARIABLES

    if any(os.environ.get(name) for name in VARIABLES):
        return None
    with open_client() as client:
        current: dict[str, Any] = _Log(client).call("currentSession", {"agent": AGENT}) or {}
        return current.get("agentSessionTranscriptFile")
