"""Stories in which something was wrong and put right: rejected approaches, undone work, blockers that went away."""

from tests.story.exam.actor import Actor, Answer
from tests.story.exam.questions import Story, q


async def _rejected(actor: Actor) -> Answer:
    await actor.open("Speed up search")
    await actor.begin("Try a cache", "Search takes 900 ms. Get it under 100 ms.")
    await actor.act("Cache results for a minute", "failed", "src/search.py")
    await actor.say("Rejected: a cache in front of the index, hits are under 2 %")
    await actor.fail("Cache gives 870 ms")
    await actor.begin("Try an index", "Then try an index on title.")
    await actor.say("Refuted: the sort is the slow part")
    await actor.say("Decision: trigram index on title")
    await actor.act("Add the index", "completed", "migrations/012.sql", type="create")
    await actor.complete("**Result**\n\nSearch takes 85 ms with the trigram index.", do_not=["Add a cache again"])
    await actor.begin("Roll it out", "Roll it out to production tonight, in two steps.")
    await actor.update(
        refuted=["Building the index without CONCURRENTLY"],
        interpretation="Build concurrently first, switch the query after.",
        next=["Build the index concurrently"],
    )
    await actor.crash()
    return await actor.resume()


REJECTED = Story(
    name="approaches that were rejected",
    tell=_rejected,
    questions=[
        q("What is the goal?", "goal", "Speed up search"),
        q("How fast must it be?", "asked", "under 100 ms"),
        q("Why no cache?", "refuted", "hits are under 2 %"),
        q("Which action failed?", "refuted", "Cache results for a minute"),
        q("What else was it not?", "refuted", "the sort is the slow part", "without CONCURRENTLY"),
        q("What works?", "done", "85 ms with the trigram index", never=["**Result**"]),
        q("Is the cache called done?", "done", never=["ache"]),
        q("What was decided?", "decisions", "trigram index on title", never=["Rejected", "Refuted"]),
        q("What must not be done again?", "do_not", "Add a cache again"),
        q("What comes next?", "next", "Build the index concurrently", never=["Cache results"]),
        q("What is under way, and how?", "open_turn", "Roll it out", "in two steps", "switch the query after"),
        q("Which file holds the index?", "files_touched", "migrations/012.sql"),
    ],
)


async def _undone_by_a_person(actor: Actor) -> Answer:
    await actor.open("Redesign the receipt")
    await actor.begin("New header", "Give the receipt a new header.")
    await actor.open_shell()
    await actor.run("mkdir -p out && echo header > out/header.txt")
    await actor.complete("Wrote out/header.txt", files_modified=["out/header.txt"])
    actor.wait(minutes=5)
    await actor.begin("New footer", "Now the footer, in blue.")
    await actor.run("echo footer > out/footer.txt")
    await actor.say("Decision: blue is #0047ab")
    await actor.complete("Wrote out/footer.txt", files_modified=["out/footer.txt"], next=["Ask for the logo"])
    actor.wait(minutes=5)
    await actor.undo(clean=True)
    await actor.crash()
    return await actor.resume()


UNDONE_BY_A_PERSON = Story(
    name="work that a person took back",
    tell=_undone_by_a_person,
    questions=[
        q("What is the goal?", "goal", "Redesign the receipt"),
        q("What still stands?", "done", '"text": "New header: Wrote out/header.txt"'),
        q("What was taken back, and by whom?", "done", "taken back by a person", "New footer"),
        q("Is the footer called done without a mark?", "done", never=['"text": "New footer']),
        q("Which file is gone?", "/drift.taken_back", "out/footer.txt", never=["out/header.txt"]),
        q("Which command was it?", "/drift.taken_back", "echo footer"),
        q("Who did it?", "/drift.taken_back", '"by": "person"'),
        q("Does the list of files say so?", "files_touched", '"taken_back": "person"'),
        q("Is the header's file still there?", "files_touched", "out/header.txt", "untracked"),
        q("Does the last command say so?", "last_commands", "echo footer", "taken_back"),
        q("What was decided?", "decisions", "#0047ab"),
        q("What comes next?", "next", "Ask for the logo"),
    ],
)


async def _went_back(actor: Actor) -> Answer:
    await actor.open("Upgrade the framework")
    await actor.begin("Upgrade to 5", "Upgrade the framework to 5 and keep the plugins working.")
    await actor.open_shell()
    saved = await actor.harness.app.workspaces.create_checkpoint(
        {"shell_id": actor.shell, "label": "before the upgrade"}, actor.me
    )
    actor.wait(minutes=1)
    await actor.run("echo 5 > version.txt")
    await actor.act("Set the version to 5", "failed", "version.txt")
    actor.wait(minutes=1)
    await actor.harness.app.workspaces.restore_checkpoint(
        {"shell_id": actor.shell, "checkpoint_id": saved["checkpoint_id"], "clean": True}, actor.me
    )
    actor.wait(minutes=1)
    await actor.say("Refuted: going to 5 in one step")
    await actor.say("Decision: go to 4.9 first")
    await actor.update(
        blockers=["plugin-x supports 4.9 at most"],
        next=["Upgrade to 4.9"],
        do_not=["Upgrade plugin-x"],
        interpretation="Two steps, with the plugins' tests after each.",
    )
    await actor.crash()
    return await actor.resume()


WENT_BACK = Story(
    name="an agent that went back to its checkpoint",
    tell=_went_back,
    questions=[
        q("What is the goal?", "goal", "Upgrade the framework"),
        q("What was asked?", "open_turn.query_text", "keep the plugins working"),
        q("What did not work?", "refuted", "going to 5 in one step", "Set the version to 5"),
        q("What was decided instead?", "decisions", "go to 4.9 first"),
        q("What comes next?", "next", "Upgrade to 4.9"),
        q("What stands in the way?", "blockers", "plugin-x supports 4.9 at most"),
        q("What must not be done?", "do_not", "Upgrade plugin-x"),
        q("Where can one go back to?", "checkpoints", "before the upgrade"),
        q("Is the file that was tried still so?", "files_touched", "version.txt", '"taken_back": "agent"'),
        q("Is the last command's work still there?", "last_commands", "echo 5", '"taken_back": "agent"'),
        q("How was it understood?", "open_turn.interpretation", "Two steps"),
        q("Is anything done?", "done", never=["Upgrade"]),
    ],
)


async def _unblocked(actor: Actor) -> Answer:
    await actor.open("Connect the bank")
    await actor.begin("Get the key", "Connect to the sandbox of the bank.")
    await actor.update(blockers=["No API access for the sandbox", "The VPN is down"], do_not=["Do not call production"])
    await actor.say("Do not merge before Friday")
    await actor.fail("Access was refused")
    await actor.begin("Wait for access", "Try again after lunch.")
    await actor.say("Resolved: No API access for the sandbox", "observation")
    await actor.complete("Unblocked: The VPN is down. Access works now.")
    await actor.begin("Get the key", "Once more.")
    await actor.say("Decision: keys live in the vault only")
    await actor.complete("The sandbox answers 200.")
    await actor.begin("Write the client", "Write the client for payments. Amounts in cents.")
    await actor.say("Resolved: merge before Friday", "observation")
    await actor.update(blockers=["The bank sends no webhooks yet"], next=["Poll for the status"])
    await actor.crash()
    return await actor.resume()


UNBLOCKED = Story(
    name="blockers that were resolved",
    tell=_unblocked,
    questions=[
        q("What is the goal?", "goal", "Connect the bank"),
        q("What blocks now?", "blockers", "no webhooks yet"),
        q("Is access still a blocker?", "blockers", never=["No API access"]),
        q("Is the VPN still a blocker?", "blockers", never=["VPN"]),
        q("Does the failed first try still block?", "blockers", never=["Access was refused"]),
        q("What must not be done?", "do_not", "call production"),
        q("Does the freeze still hold?", "do_not", never=["merge before Friday"]),
        q("What works by now?", "done", "The sandbox answers 200"),
        q("Where do keys live?", "decisions", "vault only"),
        q("What is under way?", "open_turn", "Write the client", "Amounts in cents"),
        q("What comes next?", "next", "Poll for the status"),
        q("Is getting the key still to be done?", "next", never=["Get the key"]),
    ],
)


async def _changed_mind(actor: Actor) -> Answer:
    await actor.open("Invoices as PDF")
    await actor.begin("Use a browser", "Print invoices with a headless browser.")
    await actor.act("Install the browser", "in_progress", order=1)
    await actor.begin("Use a library", "No, no browser. Use a PDF library, and embed the fonts.")
    await actor.act("Choose the library", "completed", order=1)
    await actor.say("Decision: the library that embeds fonts by itself")
    await actor.say("Do not install a browser on the servers")
    await actor.complete("Chose the library; a first page prints.", files_modified=["src/invoice.py"])
    await actor.begin("Page breaks", "Rows must not be split between pages.")
    await actor.act("Measure rows", "completed", "src/invoice.py", order=1)
    await actor.act("Break before a row that does not fit", "pending", "src/invoice.py", order=2)
    await actor.say("Measuring needs the embedded fonts", "reasoning")
    await actor.update(response="Rows are measured.", interpretation="Measure first, then break.")
    await actor.crash()
    return await actor.resume()


CHANGED_MIND = Story(
    name="a person who changed their mind",
    tell=_changed_mind,
    questions=[
        q("What is the goal?", "goal", "Invoices as PDF"),
        q("Which way was chosen?", "done", "Chose the library"),
        q("Is the browser called done?", "done", never=["browser"]),
        q("What became of the first try?", "blockers", "superseded"),
        q("What must not be done?", "do_not", "browser on the servers"),
        q("What was decided?", "decisions", "embeds fonts by itself"),
        q("What was asked in between?", "asked", "No, no browser"),
        q("What is under way?", "open_turn", "Page breaks", "must not be split"),
        q("What comes next?", "next", "Break before a row that does not fit", "pending"),
        q("Is measuring still to be done?", "next", never=["Measure rows"]),
        q("How far is it?", "open_turn.response", "Rows are measured."),
        q("Which file is it in?", "files_touched", "src/invoice.py"),
    ],
)

STORIES = [REJECTED, UNDONE_BY_A_PERSON, WENT_BACK, UNBLOCKED, CHANGED_MIND]
