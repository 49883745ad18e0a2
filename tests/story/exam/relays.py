"""Stories of work that spans turns, agents and tools: a refactor, a relay, a client alone, an undo, a long day."""

import json
from datetime import timedelta
from typing import Any

from shiftlog.ingest.importing.ports import ImportOptions
from tests.journal.harness import NOON
from tests.story.exam.actor import Actor, Answer
from tests.story.exam.questions import Story, q


async def _refactor(actor: Actor) -> Answer:
    await actor.open("Split the order module")
    await actor.begin(
        "Plan the split",
        "orders.py is long. Split it into four modules without changing what callers import. Ask before deleting.",
    )
    steps = ["Move pricing", "Move shipping", "Move refunds", "Leave re-exports in orders.py", "Run the type checker"]
    for order, text in enumerate(steps, 1):
        await actor.act(text, "pending", f"src/{text.split()[1].lower()}.py" if order < 4 else "", order=order)
    await actor.complete("Five steps; refunds last because they import both others.")
    await actor.begin("Step 1", "Go ahead with step 1 and 2.")
    await actor.open_shell()
    actor.write("src/pricing.py", "def price():\n    return 1\n")
    await actor.act("Move pricing", "completed", "src/pricing.py", type="create")
    sha = actor.commit("Move pricing")
    await actor.run("git log -1 --format=%s")
    await actor.complete("Pricing is its own module; 61 callers unchanged.", commits=[{"sha": sha}])
    await actor.begin("Step 2", "And now shipping.")
    actor.write("src/shipping.py", "from src.orders import Order\n")
    await actor.act("Move shipping", "in_progress", "src/shipping.py", type="create")
    await actor.run("echo 'ImportError: cannot import name Order (circular import)' >&2; (exit 1) # python -m pytest")
    await actor.say("shipping needs Order, and orders imports shipping: the cycle must go first", "reasoning")
    await actor.say("Decision: Order moves to src/model.py, both import it from there")
    await actor.say("Don't use lazy imports inside functions")
    await actor.act("Break the cycle with TYPE_CHECKING", "failed")
    await actor.crash()
    return await actor.resume()


REFACTOR = Story(
    name="a refactor planned in one turn and left in the third",
    tell=_refactor,
    questions=[
        q("What is the goal?", "goal", "Split the order module"),
        q("Under which conditions?", "asked", "without changing what callers import", "Ask before deleting"),
        q("Which steps are left?", "next", "Move refunds", "Leave re-exports", "Run the type checker"),
        q("Which step is under way?", "next", "Move shipping", "in_progress", never=["Move pricing"]),
        q("What is finished?", "done", "Pricing is its own module", never=["shipping needs"]),
        q("What does the open turn stand at?", "open_turn.last_dialog", "the cycle must go first"),
        q("What did its last command say?", "open_turn.last_command", "circular import", '"exit_code": 1'),
        q("What was decided about it?", "decisions", "Order moves to src/model.py"),
        q("What must not be done?", "do_not", "lazy imports"),
        q("What did not work?", "refuted", "TYPE_CHECKING"),
        q(
            "Which files are made, and are they committed?",
            "files_touched",
            '"path": "src/pricing.py", "changes": 1, "last_type": "create", "git": "committed"',
            '"path": "src/shipping.py", "changes": 1, "last_type": "create", "git": "untracked"',
            never=["refunds.py"],
        ),
        q("Which commit holds the work?", "receipts", "commit "),
    ],
)


async def _relay(actor: Actor) -> Answer:
    await actor.open("Billing export", agent_id="planner")
    await actor.begin("Find the loss", "Invoices above 10,000 are missing in the export since May. Find out why.")
    await actor.act("Read the export job", "completed", "jobs/export.py")
    await actor.say("Decision: mend the filter, not the query")
    await actor.say("Rejected: raising the limit of the query, it hides the fault")
    await actor.complete("The filter compares amounts as text.", blockers=["Staging has no invoice above 10,000"])
    closed = await actor.close(
        capsule={
            "version": "1",
            "goal": "Every invoice is exported, whatever its amount",
            "next": ["Compare amounts as numbers", "Add a test with 10,000.00", "Export May again"],
            "do_not": ["Touch the ledger tables"],
            "written_by": "planner",
            "handoff_to": "coder",
        },
        epitaph="Finance waits for May until Friday.",
    )
    actor.reconnect()
    actor.wait(hours=1)
    taken = await actor.resume(agent_id="coder", recovery_token=closed["recovery_token"])
    actor.session = taken["resumed_session_id"]
    await actor.do("Compare amounts as numbers", "Amounts are numbers now.", files_modified=["jobs/export.py"])
    await actor.begin("Add the test", "Add a test with 10,000.00")
    await actor.act("Write test_large_invoice", "in_progress", "tests/test_export.py", type="create")
    await actor.crash()
    return await actor.resume(agent_id="coder")


HANDED_ON = Story(
    name="a hand-over whose second agent crashed at work",
    tell=_relay,
    questions=[
        q("What is the goal?", "goal", "Every invoice is exported", '"claimed"'),
        q("What is under way?", "open_turn", "Add a test with 10,000.00"),
        q("What comes after that?", "next", "Export May again", never=["Compare amounts as numbers"]),
        q("Which test is half written?", "next", "test_large_invoice", "in_progress"),
        q("What did the first agent find out?", "done", "compares amounts as text"),
        q("What did the second one do?", "done", "Amounts are numbers now"),
        q("What must not be touched?", "do_not", "the ledger tables"),
        q("What was rejected?", "refuted", "raising the limit"),
        q("What was decided?", "decisions", "mend the filter"),
        q("What stands in the way?", "blockers", "Staging has no invoice"),
        q("How urgent is it?", "closing_note", "until Friday"),
        q("Which files were looked at or changed?", "files_touched", "jobs/export.py"),
    ],
)

THREAD = "0199b000-0000-7000-8000-000000000077"


def _rollout(cwd: str) -> str:
    """Return what Codex writes of a day: its own plan, its own shell, its own patches."""
    lines: list[dict[str, Any]] = []

    def add(kind: str, **payload: Any) -> None:
        at = NOON - timedelta(hours=3) + timedelta(seconds=len(lines))
        lines.append({"timestamp": at.strftime("%Y-%m-%dT%H:%M:%S.000Z"), "type": kind, "payload": payload})

    def call(name: str, output: str, **arguments: Any) -> None:
        number = f"call_{len(lines)}"
        add("response_item", type="function_call", name=name, arguments=json.dumps(arguments), call_id=number)
        add("response_item", type="function_call_output", call_id=number, output=output)

    def turn(number: int, asked: str) -> None:
        add("event_msg", type="task_started", turn_id=f"turn-{number}")
        add("event_msg", type="user_message", message=asked)

    add("session_meta", id=THREAD, cwd=cwd, cli_version="0.169.0", originator="codex_exec")
    add("turn_context", cwd=cwd, model="gpt-5.3-codex")
    turn(1, "The nightly job mails twice. Find out why; the mail templates are off limits.")
    call("exec_command", "Exit code: 0\nOutput:\n0 2 * * * job\n5 2 * * * job\n", cmd="crontab -l")
    add("event_msg", type="agent_message", message="Decision: one systemd timer replaces both cron lines.")
    add("event_msg", type="task_complete", turn_id="turn-1", last_agent_message="Two cron lines start the job.")
    turn(2, "Good, do that, and tell me how to roll it back.")
    plan = [("Write job.timer", "completed"), ("Write job.service", "in_progress"), ("Remove cron lines", "pending")]
    call("update_plan", "Plan updated", plan=[{"step": text, "status": status} for text, status in plan])
    patch = "*** Begin Patch\n*** Add File: deploy/job.timer\n+[Timer]\n*** End Patch\n"
    add("response_item", type="custom_tool_call", name="apply_patch", input=patch, call_id="call_patch")
    change = {"deploy/job.timer": {"type": "add", "content": "[Timer]\n"}}
    add("event_msg", type="patch_apply_end", call_id="call_patch", success=True, changes=change, stdout="Success.")
    failed = "Exit code: 1\nOutput:\njob.timer:2: Unknown section\n"
    call("exec_command", failed, cmd="systemd-analyze verify deploy/job.timer")
    add("event_msg", type="agent_message", message="verify wants OnCalendar in the timer.")
    return "".join(json.dumps(line) + "\n" for line in lines)


async def _codex_alone(actor: Actor) -> Answer:
    actor.write("deploy/job.timer", "[Timer]\n")
    file = actor.home.parent / f"rollout-2026-07-01T09-00-00-{THREAD}.jsonl"
    file.write_text(_rollout(str(actor.place)), encoding="utf-8")
    await actor.harness.app.imports.run(ImportOptions(paths=[str(file)], jobs=0))
    return await actor.resume(agent_id="Codex")


CODEX_ALONE = Story(
    name="a client that used only its own tools",
    tell=_codex_alone,
    questions=[
        q("What is the work about?", "goal", "nightly job mails twice"),
        q("What is off limits?", "goal", "the mail templates are off limits"),
        q("What was found out?", "done", "Two cron lines start the job"),
        q("What was decided?", "decisions", "one systemd timer replaces both"),
        q("What was asked last?", "open_turn.query_text", "how to roll it back"),
        q("Which step is under way?", "next", "Write job.service", "in_progress", never=["Write job.timer"]),
        q("Which step comes then?", "next", "Remove cron lines", "pending"),
        q("Which file was made, is it in git?", "files_touched", "deploy/job.timer", "untracked", "create"),
        q("What ran last?", "open_turn.last_command", "systemd-analyze verify", "Unknown section", '"exit_code": 1'),
        q("What did the agent think last?", "open_turn", "wants OnCalendar in the timer"),
        q("Is a failed command called an approach?", "refuted", never=["systemd"]),
        q("How does the client itself go on?", "/vendor_resume", f"codex resume {THREAD}"),
    ],
)


async def _undone(actor: Actor) -> Answer:
    await actor.open("Dark mode")
    await actor.open_shell()
    await actor.begin("Add the colours", "Add dark colours as variables; leave the light ones as they are.")
    await actor.run("mkdir -p css && echo dark > css/dark.css")
    await actor.complete("Wrote css/dark.css with 14 variables.", files_modified=["css/dark.css"])
    await actor.begin("Switch by system setting", "Follow the system setting.")
    await actor.run("echo 'prefers-color-scheme' > css/switch.css && echo '12 passed'; true # npm test")
    await actor.say("Decision: no toggle in the page for now")
    await actor.complete("Wrote css/switch.css; follows the system setting.", files_modified=["css/switch.css"])
    actor.wait(minutes=5)
    await actor.undo(turn="last", clean=True)
    await actor.crash(hours=1)
    return await actor.resume()


UNDONE = Story(
    name="a turn that a person undid before the crash",
    tell=_undone,
    questions=[
        q("What is the goal?", "goal", "Dark mode"),
        q("What stands?", "done", '"text": "Add the colours: Wrote css/dark.css'),
        q("What does not stand any more?", "done", "taken back by a person", "css/switch.css"),
        q("Which file is gone?", "/drift.taken_back", "css/switch.css", never=["css/dark.css"]),
        q("Who took it back?", "/drift.taken_back", '"by": "person"'),
        q("Is it marked in the list of files?", "files_touched", '"path": "css/switch.css"', '"taken_back": "person"'),
        q("Is the other file marked?", "files_touched", '"path": "css/dark.css"'),
        q("Is a turn open?", "open_turn", "null"),
        q("What was asked?", "asked", "leave the light ones as they are"),
        q("What was decided?", "decisions", "no toggle"),
        q("What did the tests say?", "last_commands", "12 passed", "taken_back"),
        q("Where did the shell stand?", "shells", '"state": "ended"', "/shop"),
    ],
)


async def _long_day(actor: Actor) -> Answer:
    """Live through hundreds of turns of which the rules were told in the first ones."""
    await actor.open("Move 300 tables to the new schema")
    await actor.begin("Agree on rules", "Move all tables. Never lock a table for more than a second; keep old columns.")
    await actor.say("Do not drop a column before the release")
    await actor.say("Decision: batches of 500 rows")
    await actor.complete("Rules are agreed.", do_not=["Run two migrations at once"], requirements_discovered=["DB-4"])
    for n in range(300):
        await actor.do(f"Table {n}", f"Table {n} is moved, {n * 7} rows checked.", files_modified=[f"sql/t{n:03}.sql"])
    await actor.begin("Table 300", "Table 300 is the largest; tell me before you begin.")
    await actor.act("Estimate the time", "completed")
    await actor.act("Ask for a go", "pending")
    await actor.say("9 h at 500 rows a batch", "observation")
    await actor.update(interpretation="Only estimate and ask.", refuted=["Batches of 5,000: locks of 4 s"])
    await actor.crash()
    return await actor.resume()


LONG_DAY = Story(
    name="rules of the first turn after three hundred others",
    tell=_long_day,
    questions=[
        q("What is the goal?", "goal", "Move 300 tables"),
        q("What was agreed at first?", "asked", "lock a table for more than a second", "keep old columns"),
        q("What must not be done?", "do_not", "drop a column", "two migrations at once"),
        q("How large are batches?", "decisions", "batches of 500 rows"),
        q("Which requirement counts?", "requirements", "DB-4"),
        q("What was done last?", "done", *(f"Table {n} is moved" for n in range(291, 300))),
        q("How much more is done?", "truncated.done", "2"),
        q("What is under way?", "open_turn", "tell me before you begin"),
        q("How was it understood?", "open_turn.interpretation", "Only estimate and ask."),
        q("What comes next?", "next", "Ask for a go", "pending", never=["Estimate the time"]),
        q("What did not work?", "refuted", "locks of 4 s"),
        q("How long would it take?", "open_turn.last_dialog", "9 h"),
    ],
)

STORIES = [REFACTOR, HANDED_ON, CODEX_ALONE, UNDONE, LONG_DAY]
