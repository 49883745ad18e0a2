"""How much an agent reads: the bytes of every answer of one scripted shift, and what a command adds to its output.

Counted are the text blocks of an answer, as a model gets them; structured content repeats the first block.
"""

import subprocess
from pathlib import Path
from typing import Any

from bench.bridge_client import SHIFTLOG, BridgeClient
from bench.tables import print_table

# What this shift returned before answers left out what was null, default or just sent.
BEFORE_BYTES = 33_500
CALLS = 24

NOTES = "# Cart\n\nThe total of a cart is the sum of its lines.\n"
FAILING = "def total(lines):\n    return sum(line.price for line in lines[1:])\n"
FIXED = "def total(lines):\n    return sum(line.price for line in lines)\n"
ITEM = {"role": "model", "category": "decision", "content": "Sum every line; the first is no header."}


class Shift:
    """One shift through a real bridge; every call is counted."""

    def __init__(self, client: BridgeClient) -> None:
        self.client = client
        self.rows: list[tuple[str, int, int]] = []

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, count its answer and return it."""
        result = self.client.request("tools/call", {"name": tool, "arguments": arguments})
        if result["isError"]:
            raise RuntimeError(result["content"][0]["text"])
        answer: dict[str, Any] = result["structuredContent"]
        output = len((answer.get("stdout", "") + answer.get("stderr", "")).encode())
        self.rows.append((tool, sum(len(block["text"].encode()) for block in result["content"]), output))
        return answer


def shift(client: BridgeClient, workspace: Path) -> list[tuple[str, int, int]]:
    """Work a shift of 24 calls: a session, three turns, eight commands, a restore and three queries."""
    day = Shift(client)
    opened = day.call("open_session", agent="Codex", title="Fix the cart's total", agent_id="cart-fixer", model="m")
    session = opened["session_id"]
    shell = day.call("open_shell", session_id=session, workspace=str(workspace))["shell_id"]
    turns = (
        ("Find the fault", ("cat cart.py", "cat NOTES.md", "python3 -c 'print(1)'")),
        ("Fix the total", (f"cat > cart.py <<'X'\n{FIXED}X", "cat cart.py", "rm NOTES.md")),
        ("Check the fix", ("ls -1", "seq 1 60")),
    )
    last = ""
    for title, commands in turns:
        last = day.call("begin_turn", session_id=session, query_title=title, query_text=f"{title}, please.")[
            "request_id"
        ]
        for command in commands:
            day.call("run_command", shell_id=shell, command=command)
        if commands[-1].startswith("rm"):
            day.call("restore_checkpoint", shell_id=shell, paths=["NOTES.md"])
        day.call("update_turn", session_id=session, dialog=[ITEM], files_modified=["cart.py"])
        day.call("finish_turn", session_id=session, outcome="completed", response=f"{title}: done.")
    day.call("query_history", text="total")
    day.call("query_history", session_id=session)
    day.call("query_history", session_id=session, request_id=last)
    day.call("close_session", session_id=session, reason="task_completed")
    return day.rows


def main(scratch: Path) -> None:
    """Measure and print."""
    home, workspace = scratch / "home", scratch / "cart"
    home.mkdir(mode=0o700)
    workspace.mkdir()
    (workspace / "cart.py").write_text(FAILING)
    (workspace / "NOTES.md").write_text(NOTES)
    with BridgeClient(home) as client:
        client.initialize()
        rows = shift(client, workspace)
    subprocess.run([str(SHIFTLOG), "daemon", "stop"], env={"SHIFTLOG_HOME": str(home)}, check=True, stdout=-3)
    assert len(rows) == CALLS, len(rows)
    total = sum(size for _, size, _ in rows)
    shown = [[tool, size, output, size - output] for tool, size, output in rows]
    print_table("Answers of one shift, in bytes", ["tool", "answer", "of it output", "added"], shown)
    print(f"\n  {len(rows)} calls: {total:,} bytes, {total / BEFORE_BYTES:.0%} of the {BEFORE_BYTES:,} before")
