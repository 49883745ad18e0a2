"""Stories of everyday work without much code: an upgrade, an incident, a translation, a migration, a review."""

from tests.story.exam.actor import Actor, Answer
from tests.story.exam.questions import Story, q


async def _upgrade(actor: Actor) -> Answer:
    await actor.open("Upgrade the web framework")
    await actor.begin(
        "Find what breaks",
        "Upgrade the web framework from 4.2 to 5.0. Stay on Python 3.11, and keep the admin pages as they are.",
    )
    actor.write("requirements.txt", "framework==5.0\n")
    await actor.open_shell()
    await actor.run("echo 'ERROR: legacy-forms 1.9 requires framework<5' >&2; (exit 1) # pip install -r all.txt")
    await actor.act("Pin framework 5.0", "completed", "requirements.txt")
    await actor.complete(
        "legacy-forms 1.9 does not allow 5.0; everything else does.", blockers=["legacy-forms pins <5"]
    )
    await actor.begin("Replace legacy-forms", "Then replace it by our own forms. Do not fork the library.")
    actor.write("src/forms.py", "class Form: pass\n")
    await actor.act("Write our own forms", "completed", "src/forms.py", type="create")
    sha = actor.commit("Replace legacy-forms by our own forms")
    await actor.update(commits=[{"sha": sha, "message": "Replace legacy-forms by our own forms"}])
    await actor.say("Unblocked: legacy-forms pins <5")
    await actor.complete("Replaced; no import of legacy-forms is left.", do_not=["Fork legacy-forms"])
    await actor.begin("Run the suite", "Run the whole suite and fix what is red.")
    await actor.run("echo '3 failed, 841 passed'; (exit 1) # pytest -x tests")
    await actor.say("Decision: rewrite the time zone tests, the new default is UTC")
    await actor.act("Set USE_TZ to False again", "failed", "src/settings.py")
    await actor.act("Rewrite the time zone tests", "in_progress", "tests/test_zones.py", order=5)
    await actor.act("Remove the warning filter", "pending", "pytest.ini", order=6)
    await actor.update(
        interpretation="All three failures are about naive datetimes.",
        response="Two of three tests are rewritten.",
        next=["Ask whether invoices print local time"],
    )
    await actor.crash()
    return await actor.resume()


UPGRADE = Story(
    name="an upgrade in its third turn",
    tell=_upgrade,
    questions=[
        q("What is the work?", "goal", "Upgrade the web framework"),
        q("From which version to which, and what must stay?", "asked", "from 4.2 to 5.0", "Stay on Python 3.11"),
        q("What was found out first?", "done", "legacy-forms 1.9 does not allow 5.0"),
        q("Does the pin still stand in the way?", "blockers", never=["legacy-forms"]),
        q("What must not be done?", "do_not", "Fork legacy-forms"),
        q("What is being done?", "next", "Rewrite the time zone tests", "in_progress", "tests/test_zones.py"),
        q("What comes after?", "next", "Remove the warning filter", "Ask whether invoices print local time"),
        q("What did not work?", "refuted", "Set USE_TZ to False again"),
        q("Why are the tests rewritten?", "decisions", "the new default is UTC"),
        q("What did the suite say?", "last_commands", "3 failed, 841 passed"),
        q("Is the new form module committed?", "files_touched", "src/forms.py", "committed"),
        q("How far did the open turn come?", "open_turn", "naive datetimes", "Two of three tests"),
    ],
)


async def _incident(actor: Actor) -> Answer:
    await actor.open("Checkout answers 502", agent_id="night-shift")
    await actor.begin("Find the cause", "Since 02:10 every fifth checkout answers 502. Find out why. Restart nothing.")
    await actor.open_shell()
    await actor.run("printf '02:10:04 upstream timed out\\n02:10:09 pool exhausted (40/40)\\n'")
    await actor.say("It began two minutes after the nightly export", "observation")
    await actor.say("Rejected: a bad deploy; the last one was on Monday")
    await actor.say("Rejected: the load balancer; all four nodes are healthy")
    await actor.complete(
        "### Finding\n\nThe nightly export holds 38 of 40 database connections.",
        do_not=["Restart anything"],
        next=["Ask Dana whether the export may be stopped"],
    )
    await actor.begin("Watch it", "Keep watching and write down what changes.")
    await actor.run("echo '502 rate 19 %'")
    await actor.run("echo '502 rate 21 %'")
    await actor.say("The export has 6 of 9 tables done; it ends at about 05:30", "reasoning")
    await actor.update(blockers=["Dana has not answered since 03:02"], response="19 to 21 %, steady.")
    closed = await actor.close(
        reason="end_of_shift",
        succession_policy="successor_required",
        capsule={
            "version": 1,
            "goal": "Checkout without 502 before the shops open at 07:00",
            "next": ["At 05:30 look whether the rate falls"],
            "receipts": ["ticket OPS-311"],
            "handoff_to": "day-shift",
        },
    )
    actor.agent = "day-shift"
    actor.reconnect()
    actor.wait(minutes=50)
    return await actor.resume(recovery_token=closed["recovery_token"])


INCIDENT = Story(
    name="an incident handed to the day shift",
    tell=_incident,
    questions=[
        q("What must be reached, and until when?", "goal", "before the shops open at 07:00"),
        q("What was reported at first?", "asked", "Since 02:10 every fifth checkout"),
        q("What is the cause?", "done", "holds 38 of 40 database connections", never=["### Finding"]),
        q("What shall I do, and when?", "next", "At 05:30 look whether the rate falls"),
        q("Whom must I ask?", "next", "Ask Dana whether the export may be stopped"),
        q("What do I wait for?", "blockers", "Dana has not answered since 03:02"),
        q("What must I not do?", "do_not", "Restart anything"),
        q("What was it not?", "refuted", "a bad deploy", "the load balancer"),
        q("What was seen last?", "last_commands", "502 rate 21 %"),
        q("When does the export end?", "open_turn", "ends at about 05:30"),
        q("Where is it tracked?", "receipts", "OPS-311"),
        q("What do I continue?", "/predecessor_session_id", "checkout-answers-502"),
    ],
)

_CHAPTERS = ("start", "install", "first-shop", "orders", "refunds", "taxes")


async def _translation(actor: Actor) -> Answer:
    await actor.open("Translate the handbook into German")
    await actor.do("Agree on the tone", "Sie, never du.", "Translate docs/*.md into German. Address the reader as Sie.")
    for chapter in _CHAPTERS:
        await actor.begin(f"Translate {chapter}", f"Next: {chapter}.md")
        actor.write(f"docs/de/{chapter}.md", f"# {chapter}\n")
        await actor.act(f"Translated {chapter}.md", "completed", f"docs/de/{chapter}.md", type="create")
        await actor.complete(f"{chapter}.md is in German.")
    await actor.do(
        "Fix the terms",
        "Warenkorb everywhere, also in headings.",
        "'cart' is Warenkorb, never Einkaufswagen. And leave code blocks in English.",
        design_decisions=["cart is Warenkorb"],
        do_not=["Translate code blocks"],
    )
    await actor.begin("Translate shipping", "Next: shipping.md, then returns.md. The table of zones stays as it is.")
    actor.write("docs/de/shipping.md", "# Versand\n")
    for order, (text, status) in enumerate(
        [("Prose of shipping.md", "completed"), ("Captions of shipping.md", "in_progress"), ("returns.md", "pending")]
    ):
        await actor.act(text, status, f"docs/de/{'returns' if order == 2 else 'shipping'}.md", order=order + 1)
    await actor.act("Translate with the old glossary", "failed", "docs/glossary.csv")
    await actor.say("'drop shipping' has no agreed word yet", "reasoning")
    await actor.update(interpretation="Prose and captions, not the table.", blockers=["No word for drop shipping"])
    actor.wait(hours=3)
    actor.reconnect()
    return await actor.resume(on_held="take_over")


TRANSLATION = Story(
    name="a translation that was left for lunch",
    tell=_translation,
    questions=[
        q("What is the work?", "goal", "Translate the handbook into German"),
        q("How is the reader addressed?", "asked", "Address the reader as Sie"),
        q("Which word is cart?", "decisions", "cart is Warenkorb"),
        q("And which not?", "asked", "never Einkaufswagen"),
        q("What must not be translated?", "do_not", "Translate code blocks"),
        q("Which chapters are done?", "done", *(f"{chapter}.md is in German" for chapter in _CHAPTERS)),
        q("Where did it stop?", "next", "Captions of shipping.md", "in_progress", never=["Prose of shipping.md"]),
        q("Which chapter comes next?", "next", "returns.md", "pending"),
        q("What may I leave as it is?", "open_turn.query_text", "The table of zones stays"),
        q("Which word is missing?", "blockers", "No word for drop shipping"),
        q("What was of no use?", "refuted", "old glossary"),
        q("Is returns.md there already?", "files_touched", "docs/de/shipping.md", never=["returns.md"]),
    ],
)


async def _migration(actor: Actor) -> Answer:
    await actor.open("Move orders to the new table")
    await actor.begin("Plan it", "Move 2 million orders to orders_v2 without stopping the shop. Batches of 10,000.")
    await actor.open_shell()
    actor.write("migrate/plan.sql", "-- batches\n")
    await actor.act("Write the plan", "completed", "migrate/plan.sql", type="create")
    await actor.complete("Copy in batches, then switch the view.", design_decisions=["Ids stay the same"])
    await actor.begin("Copy", "Go on with the copy. If a batch fails twice, stop and tell me.")
    await actor.run("echo 'batch 1..120 copied'")
    await actor.fail("deadlock in batch 121", error_code="deadlock")
    await actor.begin("Copy again", "Once more, with batches of 2,000.")
    await actor.run("echo 'batch 121..600 copied'")
    await actor.complete("600 batches are copied; 121 went through with 2,000 rows.")
    await actor.begin("Verify", "Compare the sums of both tables, then switch the view.")
    await actor.run("echo 'sum(old)=91244.10 sum(new)=91244.10'; echo '1 passed # pytest checks'")
    await actor.act("Compare the sums", "completed", order=1)
    await actor.act("Switch the view", "pending", "migrate/switch.sql", order=2)
    await actor.say("Decision: switch after 22:00, when few orders come")
    await actor.update(do_not=["Drop the old table before Friday"], next=["Tell Iva before the switch"])
    await actor.run("cd migrate")
    await actor.run("sleep 600", background=True)
    await actor.crash()
    return await actor.resume()


MIGRATION = Story(
    name="a migration before its switch",
    tell=_migration,
    questions=[
        q("What is the work?", "goal", "Move orders to the new table"),
        q("Under which condition?", "asked", "without stopping the shop"),
        q("How far is the copy?", "done", "600 batches are copied"),
        q("Does the deadlock still stand in the way?", "done", "121 went through with 2,000 rows"),
        q("Which task is open?", "open_turn.query_text", "Compare the sums of both tables"),
        q("Are the sums equal?", "last_commands", "sum(old)=91244.10"),
        q("What is left of it?", "next", "Switch the view", "pending", never=["Compare the sums"]),
        q("Whom must I tell?", "next", "Tell Iva before the switch"),
        q("When may I switch?", "decisions", "switch after 22:00"),
        q("What must wait?", "do_not", "Drop the old table before Friday"),
        q("What holds for ids?", "decisions", "Ids stay the same"),
        q("In which folder was the shell?", "last_shell_cwd", "migrate"),
    ],
)


async def _review(actor: Actor) -> Answer:
    await actor.open("Review pull request 88")
    await actor.begin("Read it", "Review PR 88 (gift cards). Look at money and at races; style does not matter.")
    await actor.say("High: redeem() reads the balance outside its transaction", "observation")
    await actor.fail("529 overloaded", error_code="overloaded")
    await actor.begin("Read it", "Again, please.")
    await actor.act("https://review.example/88#r1", type="web_reference")
    await actor.say("Decision: ask for changes, do not approve")
    await actor.complete(
        "Two findings: redeem() races, and cents are rounded down.",
        context_list=["src/gift.py", "src/money.py"],
        requirements_discovered=["FR-GIFT-4"],
    )
    await actor.begin("Prove the race", "Prove it with a test, on a branch of its own. Push nothing.")
    actor.git("switch", "--quiet", "--create", "proof-88")
    actor.write("tests/test_race.py", "def test_race(): ...\n")
    await actor.open_shell()
    await actor.run("echo '1 failed in 0.4s'; (exit 1) # pytest tests/test_race.py")
    await actor.act("Write the test of the race", "completed", "tests/test_race.py", type="create")
    await actor.complete("The test fails one time in three: two redeems, one balance.", do_not=["Push the proof"])
    await actor.begin("Write the comments", "Write one comment per finding; I post them myself.")
    await actor.act("Comment on redeem()", "completed", order=1, type="pr_comment")
    await actor.act("Comment on rounding", "in_progress", "src/money.py", order=2, type="pr_comment")
    await actor.act("Post the comments", "failed", order=3, type="pr_comment")
    await actor.update(
        response="redeem(): take the row lock before the read.",
        refuted=["The ledger is affected, too"],
        next=["Ask for a test of negative amounts"],
    )
    await actor.crash(hours=1)
    return await actor.resume()


REVIEW = Story(
    name="a review between two comments",
    tell=_review,
    questions=[
        q("What is reviewed?", "goal", "Review pull request 88"),
        q("What shall I look at, and what not?", "asked", "money and at races; style does not matter"),
        q("What was found?", "done", "redeem() races, and cents are rounded down"),
        q("Is an overloaded server still a blocker?", "blockers", never=["529"]),
        q("What is the verdict?", "decisions", "ask for changes, do not approve"),
        q("Is the race proven?", "done", "fails one time in three"),
        q("Where is the proof, and is it committed?", "files_touched", "tests/test_race.py", "untracked"),
        q("What must not be done?", "do_not", "Push the proof"),
        q("Which comment is left?", "next", "Comment on rounding", "in_progress", never=["Comment on redeem()"]),
        q("What else is to be asked for?", "next", "negative amounts"),
        q("Which comment is written so far?", "open_turn.response", "take the row lock before the read"),
        q("What proved wrong?", "refuted", "The ledger is affected, too"),
    ],
)

STORIES = [UPGRADE, INCIDENT, TRANSLATION, MIGRATION, REVIEW]
