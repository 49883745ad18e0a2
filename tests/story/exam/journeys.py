"""Stories of work that takes detours: a bisect, a migration that went back, two repositories, a baton that came home,
a conversation that its user rewound.
"""

import json
from datetime import timedelta
from typing import Any

from shiftlog.ingest.importing.ports import ImportOptions
from tests.journal.harness import NOON
from tests.story.exam.actor import Actor, Answer
from tests.story.exam.questions import Story, q


async def _bisect(actor: Actor) -> Answer:
    await actor.open("Find the commit that made checkout slow")
    await actor.begin(
        "Bisect the slowdown",
        "Checkout takes 4 s since last week, it was 0.3 s at v2.0. Bisect it, do not fix it yet: I want to talk to the "
        "author first.",
    )
    await actor.update(interpretation="Only find the commit; v2.0 is good, main is bad.")
    await actor.open_shell()
    for n in range(8):
        actor.write("src/cart.py", f"def total(items):\n    return sum(items) + {n}" + "0" * n + "\n")
        actor.commit(f"Change {n}")
    await actor.run("git bisect start HEAD HEAD~7 2>&1 | tail -1")
    await actor.say("Decision: a run is bad from 1 s on, measured by bench/checkout.sh", "decision")
    for says, verdict in (("0.31", "good"), ("4.05", "bad"), ("0.29", "good")):
        await actor.run(f"echo 'checkout {says} s' # bench/checkout.sh")
        await actor.run(f"git bisect {verdict} 2>&1 | head -3")
        await actor.say(f"{says} s is {verdict}", "observation")
    await actor.say("Refuted: the new index is slow, it is not in any bad commit")
    await actor.update(next=["Run git bisect reset before anything else is committed"])
    await actor.crash()
    return await actor.resume()


BISECT = Story(
    name="a bisect that stands in the middle",
    tell=_bisect,
    questions=[
        q("What is searched for?", "goal", "commit that made checkout slow"),
        q("How slow was it, and how slow is it?", "open_turn.query_text", "takes 4 s", "0.3 s at v2.0"),
        q("May it be fixed?", "open_turn.query_text", "do not fix it yet"),
        q("How was the task understood?", "open_turn.interpretation", "v2.0 is good, main is bad"),
        q("From when on is a run bad?", "decisions", "bad from 1 s on", "bench/checkout.sh"),
        q("What was the last verdict?", "open_turn.last_dialog", "0.29 s is good"),
        q("And the one before?", "open_turn.last_dialog", "4.05 s is bad"),
        q("Which command ran last?", "open_turn.last_command", "git bisect good", '"exit_code": 0'),
        q("What did git answer?", "open_turn.last_command", "first bad commit"),
        q("What is the cause certainly not?", "refuted", "the new index"),
        q("What must come before the next commit?", "next", "git bisect reset"),
        q("Where is the repository now?", "/drift", '"branch_now": null'),
    ],
)


async def _went_back(actor: Actor) -> Answer:
    await actor.open("Move sessions to the new table")
    await actor.begin("Prepare", "Write the migration. It must be possible to go back within a minute.")
    await actor.open_shell()
    await actor.run("mkdir -p migrations && echo 'ALTER TABLE' > migrations/0042_sessions.sql")
    await actor.complete("The migration is written; a dry run takes 12 s.", requirements_discovered=["OPS-17"])
    await actor.begin("Run it on staging", "Run it on staging, then tell me the row counts.")
    asked = {"shell_id": actor.shell, "label": "before the switch"}
    saved = await actor.harness.app.workspaces.create_checkpoint(asked, actor.me)
    actor.wait(minutes=1)
    await actor.run("echo 'new_table = true' > settings.ini")
    await actor.run("echo '9,812 of 10,000 rows; 188 have no user' >&2; (exit 3) # ./migrate.sh staging")
    back = {"shell_id": actor.shell, "checkpoint_id": saved["checkpoint_id"], "clean": True}
    actor.wait(minutes=1)
    await actor.harness.app.workspaces.restore_checkpoint(back, actor.me)
    await actor.fail("188 sessions have no user; staging is rolled back", error_code="rolled_back")
    await actor.begin(
        "Clean the 188 rows", "Good that you went back. Which rows are they? Delete nothing in production."
    )
    await actor.say("Decision: rows without a user are exported to orphans.csv first")
    await actor.act("Export orphans.csv", "completed", "orphans.csv", type="create", order=1)
    await actor.act("Delete them on staging", "pending", order=2)
    await actor.act("Run 0042 on staging again", "pending", "migrations/0042_sessions.sql", order=3)
    await actor.update(do_not=["Run 0042 in production before staging is clean"], refuted=["A default user for them"])
    await actor.crash()
    return await actor.resume()


WENT_BACK = Story(
    name="a migration that was rolled back",
    tell=_went_back,
    questions=[
        q("What is the goal?", "goal", "Move sessions to the new table"),
        q("What was asked of the migration?", "asked", "go back within a minute"),
        q("What is finished?", "done", "The migration is written", never=["Run it on staging"]),
        q("Why did staging fail?", "blockers", "188 sessions have no user", "rolled back"),
        q("Are the settings switched?", "files_touched", '"path": "settings.ini"', '"taken_back": "agent"'),
        q("What did the run print?", "last_commands", "9,812 of 10,000 rows", '"exit_code": 3'),
        q("What is under way?", "open_turn", "Clean the 188 rows", "Delete nothing in production"),
        q("What comes next?", "next", "Delete them on staging", "Run 0042 on staging again", never=["Export orphans"]),
        q("What was decided about the rows?", "decisions", "exported to orphans.csv first"),
        q("What must not be done?", "do_not", "0042 in production"),
        q("What was rejected?", "refuted", "A default user"),
        q("Where can one go back to?", "checkpoints", "before the switch"),
    ],
)


async def _two_places(actor: Actor) -> Answer:
    api = actor.place.parent / "api"
    actor.git("init", "--quiet", "--initial-branch=v3", str(api))
    await actor.open("Send the currency with every price")
    await actor.begin(
        "Shop and API", "The shop must send the currency, the API must accept it. API first; both stay in EUR."
    )
    await actor.open_shell(cwd=str(api), workspace=str(api))
    await actor.run("mkdir -p handlers && echo 'currency' > handlers/price.py")
    await actor.run("echo '31 passed' # go test ./...")
    await actor.act("Accept currency in the API", "completed", str(api / "handlers/price.py"), order=1)
    await actor.open_shell()
    await actor.run("echo 'currency' >> src/cart.py")
    await actor.act("Send currency from the shop", "in_progress", "src/cart.py", order=2)
    await actor.act("Write the contract test", "pending", "tests/contract.py", order=3)
    await actor.say("Decision: a missing currency means EUR")
    await actor.say("Do not deploy the shop before the API")
    await actor.update(
        response="The API accepts it; the shop sends it for carts, not yet for refunds.",
        blockers=["No rights to push to api"],
        refuted=["A header instead of a field: the cache drops it"],
    )
    await actor.crash()
    return await actor.resume()


TWO_PLACES = Story(
    name="one task in two repositories",
    tell=_two_places,
    questions=[
        q("What is the goal?", "goal", "Send the currency with every price"),
        q("Which comes first?", "open_turn.query_text", "API first"),
        q("How far is it?", "open_turn.response", "not yet for refunds"),
        q("Which file of the API changed?", "files_touched", "/api/handlers/price.py"),
        q("Which file of the shop changed?", "files_touched", '"path": "src/cart.py"', '"git": "modified"'),
        q("Is the contract test written?", "files_touched", never=["contract.py"]),
        q("What comes next?", "next", "Send currency from the shop", "in_progress", "contract test", "pending"),
        q("What did the tests of the API say?", "last_commands", "go test", "31 passed"),
        q("Which shells were open, and where?", "shells", "/api", "/shop"),
        q("What was decided?", "decisions", "missing currency means EUR"),
        q("What must not be done?", "do_not", "deploy the shop before the API"),
        q("What stands in the way?", "blockers", "No rights to push to api"),
    ],
)


async def _came_home(actor: Actor) -> Answer:
    await actor.open("Accessible forms", agent_id="lead")
    await actor.begin(
        "Find what is wrong", "Make all 12 forms pass the audit. Keep the design. Ask before adding libraries."
    )
    await actor.complete("Nine forms fail; labels are missing.", files_modified=["audit.md"])
    first = await actor.close(
        capsule={
            "version": 1,
            "goal": "All 12 forms pass the audit",
            "next": ["Label the nine forms", "Run the audit", "Write the release note"],
            "do_not": ["Change colours"],
            "handoff_to": "fixer",
        }
    )
    actor.reconnect()
    taken = await actor.resume(agent_id="fixer", recovery_token=first["recovery_token"])
    actor.session = taken["resumed_session_id"]
    await actor.begin("Label the nine forms", "Label the nine forms")
    await actor.say("Rejected: aria-label on the div, screen readers skip it")
    await actor.complete("Seven of nine are labelled.", files_modified=["forms/login.html", "forms/pay.html"])
    second = await actor.close(
        reason="end_of_shift",
        epitaph="Search and upload are left; both need a live region.",
        capsule={
            "version": 1,
            "done": ["Labelled seven forms"],
            "next": ["Label search and upload", "Run the audit", "Write the release note"],
            "blockers": ["The upload form is generated by a script nobody owns"],
            "handoff_to": "lead",
        },
    )
    actor.wait(hours=14)
    actor.reconnect()
    back = await actor.resume(agent_id="lead", recovery_token=second["recovery_token"])
    actor.session = back["resumed_session_id"]
    await actor.begin("Label search and upload", "Label search and upload")
    await actor.act("Add a live region to search", "completed", "forms/search.html")
    await actor.act("Find who owns the upload script", "in_progress")
    await actor.crash()
    return await actor.resume(agent_id="lead")


CAME_HOME = Story(
    name="a baton that came back to its first agent",
    tell=_came_home,
    questions=[
        q("What is the goal?", "goal", "All 12 forms pass the audit"),
        q("What did the lead find?", "done", "Nine forms fail"),
        q("What did the second agent do?", "done", "Labelled seven forms"),
        q("What is under way?", "open_turn", "Label search and upload"),
        q("What is half done in it?", "next", "who owns the upload script", "in_progress"),
        q("What comes after that?", "next", "Run the audit", "Write the release note"),
        q("Is a finished step still planned?", "next", never=["Label the nine forms", "live region to search"]),
        q("What must not be done?", "do_not", "Change colours"),
        q("What did not work?", "refuted", "aria-label on the div"),
        q("What stands in the way?", "blockers", "script nobody owns"),
        q("Which files changed?", "files_touched", "forms/search.html", "forms/pay.html"),
        q("What did the second agent write at the end?", "closing_note", "both need a live region"),
    ],
)

CLAUDE = "5e551000-0000-4000-8000-0000000000aa"


def _transcript(cwd: str) -> str:
    """Return what Claude Code writes of a conversation that its user rewound once and interrupted once."""
    lines: list[dict[str, Any]] = []

    def add(kind: str, parent: int | None = None, **fields: Any) -> int:
        at = NOON - timedelta(hours=2) + timedelta(seconds=20 * len(lines))
        before = lines[-1 if parent is None else parent]["uuid"] if lines else None
        names = {"uuid": f"aa{len(lines):06x}-0000-4000-8000-000000000000", "parentUuid": before, "sessionId": CLAUDE}
        place = {"cwd": cwd, "version": "2.1.325", "timestamp": at.strftime("%Y-%m-%dT%H:%M:%S.000Z")}
        lines.append({"type": kind, "isSidechain": False, **names, **place, **fields})
        return len(lines) - 1

    def user(text: object, parent: int | None = None, **fields: Any) -> int:
        return add("user", parent, message={"role": "user", "content": text}, **fields)

    def model(*blocks: dict[str, Any]) -> int:
        name = f"msg_{len(lines)}"
        message = {"id": name, "role": "assistant", "model": "claude-opus-4-6", "content": list(blocks)}
        return add("assistant", message=message, requestId=f"req_{name}")

    def call(tool: str, result: str, more: dict[str, Any] | None = None, **given: Any) -> None:
        name = f"toolu_{len(lines)}"
        model({"type": "tool_use", "id": name, "name": tool, "input": given})
        user([{"type": "tool_result", "tool_use_id": name, "content": result}], toolUseResult=more)

    def text(words: str) -> int:
        return model({"type": "text", "text": words})

    user("Cache the exchange rates.\nAt most an hour old, and never for refunds.")
    call("Bash", "rates.py:14: fetch()", command="rg fetch rates.py")
    known = text("Decision: the cache lives in rates.py, keyed by day and pair.")
    user("Use Redis for it.")
    call(
        "Write", "created", {"type": "create", "filePath": f"{cwd}/redis.py"}, file_path=f"{cwd}/redis.py", content="x"
    )
    text("Decision: rates go to Redis database 3.")
    user("No Redis after all: keep it in memory, 1,000 pairs at most.", parent=known)
    call(
        "TodoWrite",
        "ok",
        todos=[
            {"content": "Write the cache", "status": "in_progress", "activeForm": "Writing"},
            {"content": "Test that refunds skip it", "status": "pending", "activeForm": "Testing"},
        ],
    )
    call("Bash", "1 failed, 7 passed", command="pytest tests/test_rates.py")
    text("Rejected: functools.lru_cache. Rationale: it never forgets by time.")
    user("[Request interrupted by user]")
    user("Go on, but show me the eviction first.")
    text("The eviction drops the oldest pair.")
    call("Edit", "updated", file_path=f"{cwd}/rates.py", old_string="a", new_string="b")
    return "".join(json.dumps(line) + "\n" for line in lines)


async def _rewound(actor: Actor) -> Answer:
    file = actor.home.parent / "claude" / f"{CLAUDE}.jsonl"
    file.parent.mkdir()
    file.write_text(_transcript(str(actor.place)), encoding="utf-8")
    await actor.harness.app.imports.run(ImportOptions(paths=[str(file)], jobs=0))
    return await actor.resume(agent_id="ClaudeCode")


REWOUND = Story(
    name="a conversation that its user rewound",
    tell=_rewound,
    questions=[
        q("What is the goal?", "goal", "Cache the exchange rates"),
        q("Under which conditions?", "asked", "At most an hour old", "never for refunds"),
        q("Where does the cache live?", "decisions", "lives in rates.py", never=["Redis"]),
        q("What became of Redis?", "done", "left by a rewind of the conversation: Use Redis"),
        q("What was asked instead?", "asked", "1,000 pairs at most", never=["Use Redis for it"]),
        q("What is asked now?", "open_turn.query_text", "show me the eviction first"),
        q("What was said last?", "open_turn.last_dialog", "drops the oldest pair"),
        q("What comes next?", "next", "Write the cache", "Test that refunds skip it"),
        q("What did the tests say?", "last_commands", "pytest tests/test_rates.py", "1 failed, 7 passed"),
        q("What did not work?", "refuted", "lru_cache"),
        q("Which files changed?", "files_touched", "rates.py", "redis.py"),
        q("How does the client itself go on?", "/vendor_resume", f"claude --resume {CLAUDE}"),
    ],
)

STORIES = [BISECT, WENT_BACK, TWO_PLACES, CAME_HOME, REWOUND]
