"""Sessions to look at: a day's work with a failure, a decision, commands and a subagent; a long one; a hostile one."""

import json
from dataclasses import dataclass
from typing import Any

from shiftlog.ingest.importing.ports import ImportOptions
from shiftlog.store.protocol import Filter, Page
from tests.ingest.import_app import Claude
from tests.web.server import PageServer

SCRIPT = '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">\'"><svg onload=alert(3)>'
ANSI = "\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b[2J"
BIDI = "\u202egnp.exe\u2066\u200b\u200f\U000e0041"
MEGA = "A" * 1_000_000
LINE = f"{SCRIPT} {BIDI}"
HOSTILE = (
    f"{SCRIPT} {ANSI} {BIDI} {{{{ 7 * 7 }}}} javascript:alert(4) [x](javascript:alert(5)) ![y](http://evil.example/z)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """The ids of what `record_day` left behind."""

    session_id: str
    turns: tuple[str, ...]
    child_id: str
    other_id: str


def said(role: str, category: str, content: str) -> dict[str, Any]:
    return {"role": role, "category": category, "content": content}


def did(kind: str, description: str, path: str = "", status: str = "completed") -> dict[str, Any]:
    action = {"type": kind, "description": description, "status": status}
    return {**action, "file_path": path} if path else action


def record_day(server: PageServer) -> Day:
    """Record a session of two finished turns and one that goes on, a subagent, and a closed session beside it."""
    work = server.home.parent / "checkout-service"
    work.mkdir(exist_ok=True)
    opened = server.tool(
        "open_session",
        {
            "agent": "ClaudeCode",
            "agent_id": "ivy",
            "title": "Stop the double charges",
            "model": "claude-opus-4-5",
            "cwd": str(work),
            "vendor_session_id": "11111111-2222-3333-4444-555555555555",
        },
    )
    session_id = opened["session_id"]
    named = {"session_id": session_id}
    first = server.tool(
        "begin_turn",
        {
            **named,
            "query_title": "Why are orders charged twice?",
            "query_text": "Find out **why** before you change anything.",
        },
    )["request_id"]
    server.tool(
        "update_turn",
        {
            **named,
            "dialog": [
                said("user", "observation", "Three customers complained since Monday."),
                said("model", "reasoning", "The second charge always comes 30 seconds after the first."),
                said("model", "tool_call", "grep -n 'charge accepted' logs/checkout.log"),
                said("tool", "tool_result", "10:02:11 order 8841 charge accepted\n10:02:41 order 8841 charge accepted"),
                said("model", "decision", "Retries must carry an idempotency key."),
            ],
            "actions": [did("edit", "Send an idempotency key with each charge", "src/payments/client.py")],
            "design_decisions": ["One idempotency key per order, not per attempt"],
        },
    )
    server.tool(
        "finish_turn",
        {
            **named,
            "outcome": "completed",
            "response": "A slow charge is retried although the first attempt went through.\n\n- no key\n- 30 s timeout",
            "usage": {"input_tokens": 8200, "output_tokens": 640, "cost_usd": 0.41},
        },
    )
    second = server.tool("begin_turn", {**named, "query_title": "Deploy it", "query_text": "Deploy to staging."})[
        "request_id"
    ]
    child_id = server.tool(
        "open_session",
        {
            "agent": "ClaudeCode",
            "agent_id": "ivy/scout",
            "title": "Look for other callers",
            "parent_session_id": session_id,
        },
    )["session_id"]
    server.tool("begin_turn", {"session_id": child_id, "query_title": "Search", "query_text": "Search for callers"})
    server.tool("finish_turn", {"session_id": child_id, "outcome": "completed", "response": "There are two callers."})
    server.tool(
        "finish_turn",
        {**named, "outcome": "failed", "error_message": "No runner took the job", "error_code": "no_runner"},
    )
    third = server.tool("begin_turn", {**named, "query_title": "Run the tests", "query_text": "Run all tests."})[
        "request_id"
    ]
    other_id = server.tool("open_session", {"agent": "Codex", "title": "Tidy the changelog", "model": "gpt-5.5"})[
        "session_id"
    ]
    server.tool("begin_turn", {"session_id": other_id, "query_title": "Tidy", "query_text": "Tidy the changelog"})
    server.tool("finish_turn", {"session_id": other_id, "outcome": "completed", "response": "Tidied."})
    server.tool("close_session", {"session_id": other_id, "reason": "task_completed"})
    return Day(session_id=session_id, turns=(first, second, third), child_id=child_id, other_id=other_id)


def record_long(server: PageServer, entries: int = 10_000) -> str:
    """Record a session of about so many entries, in turns of a few hundred."""
    opened = server.tool("open_session", {"agent": "Codex", "title": "A long shift"})
    named = {"session_id": opened["session_id"]}
    items = [
        said("model", "observation", f"Step {number}: looked at src/module_{number}.py and went on")
        for number in range(190)
    ]
    for number in range(entries // 192):
        server.tool("begin_turn", {**named, "query_title": f"Part {number + 1}", "query_text": f"Do part {number + 1}"})
        server.tool("update_turn", {**named, "dialog": items})
        server.tool("finish_turn", {**named, "outcome": "completed", "response": f"Part {number + 1} is done."})
    return str(named["session_id"])


def record_hostile(server: PageServer) -> str:
    """Record a session whose every text tries to break out of the page."""
    opened = server.tool(
        "open_session",
        {"agent": "Codex", "agent_id": "mallory", "title": LINE, "model": LINE[:100], "cwd": str(server.home)},
    )
    named = {"session_id": opened["session_id"]}
    for number in range(2):
        server.tool(
            "begin_turn",
            {**named, "query_title": LINE, "query_text": HOSTILE + MEGA, "tags": [LINE[:90]]},
        )
        server.tool(
            "update_turn",
            {
                **named,
                "dialog": [
                    said(role, category, f"{HOSTILE}\n{MEGA if role == 'tool' else ''}")
                    for role, category in (
                        ("user", "observation"),
                        ("model", "reasoning"),
                        ("model", "decision"),
                        ("model", "tool_call"),
                        ("tool", "tool_result"),
                    )
                ],
                "actions": [did("edit", HOSTILE, f"src/{LINE}.py"), did("edit", HOSTILE, status="failed")],
                "design_decisions": [HOSTILE],
                "blockers": [HOSTILE],
                "requirements_discovered": [HOSTILE],
                "commits": [{"sha": LINE[:100], "branch": LINE[:100], "message": HOSTILE}],
                "interpretation": HOSTILE,
            },
        )
        outcome = (
            {"outcome": "completed", "response": HOSTILE + MEGA}
            if number == 0
            else {"outcome": "failed", "error_message": HOSTILE, "error_code": LINE[:90]}
        )
        server.tool("finish_turn", {**named, **outcome})
    return str(named["session_id"])


def import_hostile(server: PageServer) -> str:
    """Import a transcript that does the same, with control characters that the tools would refuse."""
    worst = HOSTILE + "\x00\x07\x1a\x7f\x9b31m\u2028"
    transcript = Claude(common={"cwd": f"/srv/{worst}", "gitBranch": worst, "version": worst})
    transcript.prompt(worst + MEGA).block({"type": "thinking", "thinking": worst}).says(worst)
    transcript.calls("call-1", "Bash", command=f"echo '{worst}'", description=worst)
    transcript.returns("call-1", worst + MEGA, toolUseResult={"stdout": worst + MEGA, "stderr": worst, "exitCode": 1})
    transcript.calls("call-2", worst, anything=worst, more=[worst, {worst: worst}])
    transcript.returns("call-2", worst)
    patch = [{"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": [f"-{worst}", f"+{worst}"]}]
    transcript.calls("call-3", "Edit", file_path=f"/srv/{worst}/a.py", old_string=worst, new_string=worst)
    transcript.returns("call-3", worst, toolUseResult={"filePath": f"/srv/{worst}/a.py", "structuredPatch": patch})
    transcript.says(worst).ends()
    path = server.home.parent / f"{transcript.session}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in transcript.records), encoding="utf-8")
    server.do(server.app.imports.run(ImportOptions(paths=[str(path)], jobs=0)))
    rows = server.do(
        server.app.store.read(lambda reader: reader.find_sessions(Filter(agent="ClaudeCode"), Page(limit=1)))
    )
    return rows[0].session.id
