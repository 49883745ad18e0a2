"""Questions about rules: how a command is judged, a suggested allow list, and approvals.

Judging runs nothing. Only an operator may approve; `questions` checks that.
"""

import asyncio
from dataclasses import asdict

from shiftlog.app.app import App
from shiftlog.control.newer import newer
from shiftlog.control.questions import Params, Question
from shiftlog.guard.policy.explain import explain
from shiftlog.guard.policy.files import DEFAULT_PATH, LocalFiles, NoFiles
from shiftlog.guard.policy.judge import Judge
from shiftlog.guard.policy.operator import OperatorPolicy, shell_rules
from shiftlog.guard.policy.suggest import suggest_allow
from shiftlog.journal.history.requests import filter_of
from shiftlog.journal.texts import COMMAND
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InvalidParameter
from shiftlog.params.wording import missing
from shiftlog.shell.sandbox.detect import detect
from shiftlog.store.protocol import Page, Reader

COMMANDS_AT_ONCE = 1_000
UNDECIDED_SHOWN = 20


async def check_command(app: App, params: Params, caller: Caller) -> object:
    """Judge a command under the operator's policy and the lists given, and say what each of its words meant."""
    policy = app.policy or OperatorPolicy()
    local = params.get("transport", "local") == "local"
    path = app.environ.get("PATH", DEFAULT_PATH)
    rules = shell_rules(
        policy,
        allow=params.get("allow") or (),
        deny=params.get("deny") or (),
        path=path,
        home=app.environ.get("HOME") if local else None,
    )
    kernel = local and rules.has_lists and (await asyncio.to_thread(detect)).exec_broker
    judge = Judge(rules, kernel=kernel, files=LocalFiles(path) if local else NoFiles())
    text = str(params["command"])
    explanation = await asyncio.to_thread(explain, judge, text, cwd=str(params.get("cwd") or "/"))
    judgement = explanation.judgement
    fault = judgement.syntax_error
    first = next(iter((*judgement.violations, *judgement.asks)), None)
    return {
        "command": text,
        "verdict": "syntax_error" if fault else judgement.verdict,
        "message": fault.stderr if fault else first.message if first else None,
        "read_only": judgement.read_only,
        "enforcement": "syntax+kernel" if kernel else "syntax" if rules.has_lists else "none",
        "programs": list(judgement.programs),
        "tokens": [asdict(token) for token in explanation.tokens],
        "violations": [violation.as_error().as_dict() for violation in judgement.violations],
        "asks": [{"program": ask.program, "entry": ask.entry.text, "line": ask.line} for ask in judgement.asks],
        "deferred": [
            {"what": doubt.what, "text": doubt.text} for doubt in judgement.doubts if judgement.verdict == "deferred"
        ],
        "rules": {
            "operator": {"allow": [list(listed) for listed in policy.allow], "deny": list(policy.deny)},
            "ask": list(policy.ask),
            "deny_patterns": list(policy.deny_patterns),
            "dangerous": policy.dangerous,
            "shell": {"allow": list(params.get("allow") or ()), "deny": list(params.get("deny") or ())},
        },
    }


async def suggest(app: App, params: Params, caller: Caller) -> object:
    """Propose an allow list that covers the commands run before."""
    most = int(params.get("limit", 10_000))
    commands = await app.store.read(lambda reader: _commands(reader, params, most))
    least = int(params.get("least_uses", 1))
    found = await asyncio.to_thread(suggest_allow, commands, least_uses=least)
    return {
        "commands": len(commands),
        "allow": list(found.allow),
        "uses": found.uses,
        "undecided_total": len(found.undecided),
        "undecided": list(found.undecided[:UNDECIDED_SHOWN]),
    }


def _commands(reader: Reader, params: Params, most: int) -> list[str]:
    """Return the newest commands, oldest first, so that functions are known before they are called."""
    where = filter_of(reader, params)
    found: list[str] = []
    after: tuple[int, int] | None = None
    while len(found) < most:
        rows = reader.find_entries(where, Page(limit=COMMANDS_AT_ONCE, after=after), [COMMAND])
        found += [str(row.entry.facts["command"]) for row in rows if row.entry.facts.get("command")]
        if len(rows) < COMMANDS_AT_ONCE:
            break
        after = rows[-1].at
    return found[:most][::-1]


async def list_approvals(app: App, params: Params, caller: Caller) -> object:
    """List the open questions, oldest first: commands that need approval, and prompts of programs."""
    return {"items": newer(app.shells.open_questions(), params, "asked_at", app.clock.now())}


async def approve(app: App, params: Params, caller: Caller) -> object:
    """Grant, answer or decline what is asked; an id may be shortened to a beginning that is unique."""
    name = str(params["approval_id"])
    fitting = [item for item in app.shells.open_questions() if item["approval_id"].startswith(name)]
    if len(fitting) != 1:
        raise InvalidParameter(
            f"'{name}' begins {len(fitting)} ids of open questions"
            if fitting
            else f"No question '{name}' is open; it may have been answered or have expired",
            details={"parameter": "approval_id", "open": len(fitting)},
            hint="shiftlog approvals lists those that are open",
        )
    approval_id, granted, typed = fitting[0]["approval_id"], bool(params.get("granted", True)), params.get("answer")
    if fitting[0]["kind"] == "command":
        return await app.shells.approvals.decide(approval_id, granted=granted, by="operator")
    if granted and not isinstance(typed, str):
        raise missing("answer")
    return await app.shells.prompts.decide(approval_id, answer=str(typed) if granted else None, by="operator")


QUESTIONS: dict[str, Question] = {
    "policy_check": check_command,
    "policy_suggest": suggest,
    "approvals": list_approvals,
    "approve": approve,
}
