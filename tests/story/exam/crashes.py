"""Stories that end without a close: crashes in the middle of a task, shells that died, plans that were never begun."""

from tests.story.exam.actor import Actor, Answer
from tests.story.exam.questions import Story, q


async def _relay(actor: Actor) -> Answer:
    await actor.open("Cart totals")
    await actor.do(
        "Reproduce the cent",
        "## Result\n\nThree discounts on 9.99 give 26.98 instead of 26.97.",
        "Totals are off by a cent when three discounts apply. Find out why, fix it, and do not touch tax.py.",
    )
    await actor.begin("Fix the rounding", "Round once, at the end, and add a test for three discounts.")
    await actor.open_shell()
    await actor.update(
        interpretation="Each discount is rounded; only total() may round.",
        requirements_discovered=["REQ-17"],
        do_not=["Touch tax.py"],
        refuted=["Decimal contexts differ between workers"],
    )
    await actor.act("Round in total()", "completed", "src/cart.py", order=1)
    await actor.act("Write the test for three discounts", "pending", "tests/test_three.py", order=2, type="create")
    await actor.act("Use float with a tolerance", "failed", order=3)
    await actor.say("Decision: round half to even, as the bank does")
    actor.write("src/cart.py", "def total(items):\n    return round(sum(items), 2)\n")
    await actor.run("echo '1 failed, 12 passed'; (exit 1) # pytest -q")
    await actor.say("Rounding in total() alone breaks the refund path", "reasoning")
    await actor.update(next=["Round in refund() as well"], response="total() rounds once; refund() is still wrong.")
    await actor.crash()
    return await actor.resume()


RELAY = Story(
    name="a crash in the middle of a task",
    tell=_relay,
    questions=[
        q("What is the work about?", "goal", "Cart totals"),
        q(
            "What did the person ask at first?",
            "asked",
            "off by a cent when three discounts apply",
            "do not touch tax.py",
        ),
        q("What was found out before?", "done", "26.98 instead of 26.97", never=["## Result"]),
        q("Which task was under way?", "open_turn", "Fix the rounding", "Round once, at the end"),
        q("How was it understood?", "open_turn.interpretation", "only total() may round"),
        q("What is the next step?", "next", "Round in refund() as well", never=["Round in total()"]),
        q("Which file is still to be made?", "next", "tests/test_three.py", "pending"),
        q(
            "Which files were changed, and are they committed?",
            "files_touched",
            "src/cart.py",
            "modified",
            never=["test_three"],
        ),
        q("What must not be done?", "do_not", "Touch tax.py"),
        q("What did not work?", "refuted", "float with a tolerance", "Decimal contexts", never=["pytest"]),
        q("What did the last test run say?", "last_commands", "pytest -q", "1 failed, 12 passed"),
        q("Where did it stop?", "open_turn.last_dialog", "breaks the refund path"),
    ],
)


async def _never_created(actor: Actor) -> Answer:
    await actor.open("Ship the importer")
    await actor.begin("Plan the importer", "Plan and write the CSV importer. Only UTF-8.")
    for order, (text, file) in enumerate(
        [("Write the reader", "src/reader.py"), ("Write the parser", "src/parser.py"), ("Write docs", "docs/import.md")]
    ):
        await actor.act(text, "pending", file, order=order + 1, type="create")
    actor.write("src/reader.py", "import csv\n")
    await actor.act("Write the reader", "completed", "src/reader.py", order=1, type="create")
    await actor.act("Write the parser", "in_progress", "src/parser.py", order=2, type="create")
    await actor.update(
        requirements_discovered=["IMP-1", "IMP-2"],
        design_decisions=["Rows are streamed, never held"],
        blockers=["No sample of the vendor's file"],
        interpretation="Three files: reader, parser, docs.",
    )
    await actor.say("The parser needs the header of the vendor's file", "reasoning")
    await actor.crash()
    return await actor.resume()


NEVER_CREATED = Story(
    name="planned files that were never created",
    tell=_never_created,
    questions=[
        q("What is the goal?", "goal", "Ship the importer"),
        q("Which file exists?", "files_touched", "src/reader.py", never=["docs/import.md"]),
        q("Is it in git?", "files_touched", "untracked"),
        q("What is under way?", "next", "Write the parser", "in_progress", "src/parser.py"),
        q("What is only planned?", "next", "Write docs", "pending", "docs/import.md"),
        q("Is the reader still to be written?", "next", never=["Write the reader"]),
        q("What stands in the way?", "blockers", "No sample of the vendor's file"),
        q("What was decided?", "decisions", "Rows are streamed"),
        q("Which requirements were found?", "requirements", "IMP-1", "IMP-2"),
        q("What was asked exactly?", "open_turn.query_text", "Only UTF-8"),
        q("Is anything finished?", "done", never=["importer", "reader"]),
        q("What was the last thought?", "open_turn.last_dialog", "needs the header"),
    ],
)


async def _dead_shell(actor: Actor) -> Answer:
    await actor.open("Load test")
    await actor.begin("Find the limit", "How many orders a second can we take?")
    actor.write("load/run.sh", "echo ok\n")
    await actor.open_shell()
    await actor.run("cd load && echo '400 orders/s, p99 80 ms'")
    await actor.act("Write the load script", "completed", "load/run.sh", type="create")
    await actor.say("Decision: stop at a p99 of 100 ms")
    await actor.run("sleep 600", background=True)
    await actor.update(next=["Repeat with 600 orders/s"], do_not=["Run it against production"])
    await actor.crash()
    return await actor.resume()


DEAD_SHELL = Story(
    name="a shell that died with a command in it",
    tell=_dead_shell,
    questions=[
        q("What is the goal?", "goal", "Load test"),
        q("Which shell is gone?", "shells", '"state": "ended"'),
        q("Why did it end?", "shells", '"ended_reason": "', never=['"ended_reason": null']),
        q("Where did it stand?", "shells", "/load"),
        q("Where did work happen last?", "last_shell_cwd", "/load"),
        q("What ran when it died?", "open_turn.last_command", "sleep 600"),
        q("What was measured?", "last_commands", "400 orders/s, p99 80 ms"),
        q("What comes next?", "next", "Repeat with 600 orders/s"),
        q("What must not be done?", "do_not", "against production"),
        q("When is it enough?", "decisions", "p99 of 100 ms"),
        q("Which file was written, is it in git?", "files_touched", "load/run.sh", "untracked"),
        q("What was asked?", "open_turn.query_text", "How many orders a second"),
    ],
)


async def _tests(actor: Actor) -> Answer:
    await actor.open("Green again", agent_id="Codex")
    await actor.begin("Make the suite pass", "Main is red since Monday. Make the suite pass without skipping tests.")
    await actor.open_shell()
    await actor.run("echo '3 failed, 90 passed in 4s'; (exit 1) # pytest -q tests")
    await actor.update(refuted=["A slow runner"], interpretation="Three tests fail since the clock change.")
    actor.write("src/clock.py", "ZONE = 'UTC'\n")
    sha = actor.commit("Use UTC")
    await actor.act("Use UTC everywhere", "completed", "src/clock.py")
    await actor.update(commits=[{"sha": sha, "message": "Use UTC"}])
    await actor.run("echo '1 failed, 92 passed in 4s'; (exit 1) # pytest -q tests --last-failed")
    for n in range(4):
        await actor.run(f"git log -{n + 1} --oneline")
    await actor.update(next=["Mend test_dst"], do_not=["Skip a test"], blockers=["test_dst needs tzdata"])
    await actor.crash()
    return await actor.resume()


TESTS = Story(
    name="the last test result among other commands",
    tell=_tests,
    questions=[
        q("What is the goal?", "goal", "Green again"),
        q("How many tests fail now?", "last_commands", "1 failed, 92 passed", never=["3 failed"]),
        q("Which command ran them?", "last_commands", "pytest -q tests --last-failed"),
        q("How did it end?", "last_commands", '"exit_code": 1'),
        q("What ran last of all?", "open_turn.last_command", "git log -4 --oneline", "Use UTC"),
        q("Which commit holds the work?", "receipts", "commit "),
        q("Is the changed file committed?", "files_touched", "src/clock.py", "committed"),
        q("What comes next?", "next", "Mend test_dst"),
        q("What stands in the way?", "blockers", "needs tzdata"),
        q("What must not be done?", "do_not", "Skip a test"),
        q("What was it not?", "refuted", "A slow runner", never=["pytest"]),
        q("What was asked?", "open_turn.query_text", "without skipping tests"),
    ],
)


async def _moved_on(actor: Actor) -> Answer:
    await actor.open("Rename the module")
    await actor.begin("Rename cart to basket", "Rename the module cart to basket, imports too.")
    actor.write("src/basket.py", "def total(items):\n    return sum(items)\n")
    await actor.act("Add basket.py", "completed", "src/basket.py", type="create")
    await actor.open_shell()
    await actor.run("true")
    await actor.update(next=["Change the imports"], do_not=["Keep an alias"])
    await actor.say("Decision: one commit for the rename")
    await actor.crash(hours=2)
    # Two hours later somebody else works here.
    actor.git("checkout", "--quiet", "-b", "hotfix")
    actor.write("src/tax.py", "RATE = 19\n")
    actor.commit("Hotfix of the tax rate")
    actor.write("src/cart.py", "def total(items):\n    return 0\n")
    return await actor.resume()


MOVED_ON = Story(
    name="a workspace that moved on meanwhile",
    tell=_moved_on,
    questions=[
        q("What is the goal?", "goal", "Rename the module"),
        q("On which branch was the work?", "/drift.branch_before", "main"),
        q("On which branch is the workspace now?", "/drift.branch_now", "hotfix"),
        q("How many commits came?", "/drift.commits_added", "1"),
        q("Which files did others change?", "/drift.files_changed", "src/cart.py", "src/tax.py"),
        q("Which file is the agent's own?", "files_touched", "src/basket.py", never=["src/tax.py"]),
        q("Is it committed by now?", "files_touched", "committed"),
        q("What comes next?", "next", "Change the imports"),
        q("What must not be done?", "do_not", "Keep an alias"),
        q("What was decided?", "decisions", "one commit for the rename"),
        q("Since when is the difference measured?", "/drift.since", "T12:00:0"),
        q("Which shell is gone?", "shells", '"state": "ended"'),
    ],
)

STORIES = [RELAY, NEVER_CREATED, DEAD_SHELL, TESTS, MOVED_ON]
