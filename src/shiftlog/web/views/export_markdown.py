"""A session as Markdown: headings for turns, quotes for what was said, fenced blocks for commands and differences.

Recorded text is data: it is quoted, or fenced by more backticks than it contains.
"""

import re
from typing import Any

from shiftlog.text.figures import duration, milliseconds, money, short_count
from shiftlog.text.printable import page_text
from shiftlog.web.present.times import moment

Item = dict[str, Any]


def markdown_head(session: Item) -> str:
    """Return title and facts of a session."""
    rows = [
        ("Session", session["session_id"]),
        ("Agent", session["agent_id"]),
        ("State", session["state"]),
        ("Project", session["workspace"]),
        ("Model", session["model"]),
        ("Started", session["started"]),
        ("Last activity", session["last_activity"]),
        ("Duration", duration(session["duration_s"])),
        ("Turns", f"{session['turns_total']} ({session['turns_failed']} failed)"),
        ("Tokens", short_count(session["tokens_total"])),
        ("Cost", money(session["cost_usd"])),
        ("Head", session["head_hash"]),
    ]
    facts = "".join(f"- {name}: {_inline(value)}\n" for name, value in rows if value)
    return f"# {_inline(session['title'])}\n\n{facts}\n"


def markdown_piece(block: Item) -> str:
    """Return a turn, or the entries between turns."""
    if block["kind"] != "turn":
        return "".join(_step(step) for step in block["steps"])
    turn = block["turn"]
    parts = [f"## {turn['ordinal']}. {_inline(turn['query_title'])}\n\n"]
    facts = [block["status"], moment(turn["begun_at"]) + " UTC", duration(block["duration_s"])]
    if block["tokens"]:
        facts.append(f"{short_count(block['tokens'])} tokens")
    parts.append("*" + " · ".join(str(fact) for fact in facts) + "*\n\n")
    if turn["query_text"] and turn["query_text"] != turn["query_title"]:
        parts.append("**Request**\n\n" + _quoted(turn["query_text"]))
    parts += [_step(step) for step in block["steps"] or ()]
    for name, heading in (("response", "Response"), ("failure_note", "Failed")):
        if turn[name]:
            parts.append(f"**{heading}**\n\n{_quoted(turn[name])}")
    return "".join(parts)


def _step(step: Item) -> str:
    match step["type"]:
        case "say" | "reasoning" | "decision":
            name = step["role"] if step["type"] == "say" else step["type"]
            return f"**{_inline(str(name).capitalize())}**\n\n{_quoted(step['content'])}"
        case "command":
            return _command(step)
        case "tool":
            actions = "".join(_action(action) for action in step["actions"])
            result = _fenced(step["result"]) if step.get("result") else ""
            return f"**{_inline(step['tool'])}** {_inline(step['content'])}\n\n{actions}{result}"
        case "action":
            return "".join(_action(action) for action in step["actions"])
        case "checkpoint":
            did = "Restored" if step["restored"] else "Checkpoint"
            return f"- {did} `{_inline(step['checkpoint_id'])}` {_inline(step['label'] or '')}\n\n"
        case "child":
            return f"- Subagent {_inline(step['title'])} (`{_inline(step['session_id'])}`)\n\n"
        case "note":
            facts = ", ".join(f"{name} {_inline(value)}" for name, value in step["facts"])
            return f"- {step['says']}: {facts}\n\n" if facts else f"- {step['says']}\n\n"
        case "erased":
            return f"- Entry {step['seq']} was erased\n\n"
        case _:
            return ""


def _command(step: Item) -> str:
    ending = (
        "running" if step["live"] else f"exit {step['exit_code']}" if step["exit_code"] is not None else step["state"]
    )
    took = f", {milliseconds(step['duration_ms'])}" if step["duration_ms"] is not None else ""
    shown = _fenced(f"$ {step['command']}\n{step['stdout'] or ''}{step['stderr'] or ''}", "console")
    return f"{shown}*{ending}{took}*\n\n" + "".join(_action(action) for action in step["actions"])


def _action(action: Item) -> str:
    did = f"- {_inline(action['description'] or action['what'] or '')}"
    failed = " (failed)" if action["status"] == "failed" else ""
    return f"{did}{failed}\n\n" + (_fenced(action["diff"], "diff") if action["diff"] else "")


def _inline(text: object) -> str:
    line = " ".join(page_text(str(text)).split())
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", line)


def _quoted(text: object) -> str:
    # A quote keeps Markdown readable; only what could become a tag, or load an image from elsewhere, is broken.
    shown = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", page_text(str(text))).replace("![", "!\\[")
    return "".join(f"> {line}".rstrip() + "\n" for line in shown.strip("\n").split("\n")) + "\n"


def _fenced(text: object, language: str = "") -> str:
    shown = page_text(str(text)).strip("\n")
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    return f"{fence}{language}\n{shown}\n{fence}\n\n"
