"""Stories that end with a close or a hand-over: statements, chains of agents, subagents, secrets, other languages."""

from tests.story.exam.actor import Actor, Answer
from tests.story.exam.questions import Story, q


async def _stated(actor: Actor) -> Answer:
    await actor.open("Shop backlog")
    await actor.begin("Clean the backlog", "Go through the backlog and close what is done.")
    await actor.open_shell()
    await actor.run("true " + "--filter=status:open,closed,merged " * 76 + "--end")
    await actor.act("Sort tickets", "completed", "backlog.md")
    await actor.say("Decision: tickets older than a year are closed")
    await actor.complete("Closed 41 tickets.")
    statement = {
        "version": "1",
        "goal": "A backlog of at most 30 tickets",
        "done": [
            "Closed 41 stale tickets",
            "Labelled the rest",
            "Merged duplicates",
            "Wrote the rules into backlog.md",
        ],
        "next": ["Ask Ada about ticket 77", "Close the milestone"],
        "blockers": ["Ada is away until Monday"],
        "do_not": ["Close tickets of customers"],
        "refuted": ["Sorting by votes"],
        "receipts": ["export of 2026-07-01 in /srv/exports"],
        "ttl_days": 7,
    }
    await actor.close(capsule=statement, reason="end_of_shift", epitaph="Ask Ada first.")
    actor.wait(days=1)
    return await actor.resume()


STATED = Story(
    name="a close with a statement and one very long command",
    tell=_stated,
    questions=[
        q("What is the goal?", "goal", "at most 30 tickets", '"claimed"'),
        q("What was done first?", "done", "Closed 41 stale tickets"),
        q("What else was done?", "done", "Labelled the rest", "Merged duplicates", "Wrote the rules into backlog.md"),
        q("What is the first step now?", "next", "Ask Ada about ticket 77"),
        q("And the second?", "next", "Close the milestone"),
        q("What stands in the way?", "blockers", "Ada is away until Monday"),
        q("What must not be done?", "do_not", "Close tickets of customers"),
        q("What did not work?", "refuted", "Sorting by votes"),
        q("Where is the export?", "receipts", "/srv/exports"),
        q("What did the agent note at the end?", "closing_note", "Ask Ada first."),
        q("Is the statement out of date?", "stated", '"stale": false', '"age_days": 1'),
        q("Did the long command cost the lists?", "last_commands", "--filter=status:open", "…", never=["--end"]),
    ],
)


async def _chain(actor: Actor) -> Answer:
    await actor.open("Migrate the mail", agent_id="alpha")
    await actor.do("Move the first 1,000 boxes", "Moved 1,000 of 3,000 boxes.", "Move all boxes; never at night.")
    closed = await actor.close(
        capsule={
            "version": "1",
            "goal": "All mail on the new server",
            "next": ["Move boxes 1,001 to 2,000"],
            "do_not": ["Move boxes at night"],
            "refuted": ["Moving by IMAP copy"],
            "handoff_to": "beta",
        }
    )
    actor.reconnect()
    actor.wait(hours=1)
    taken = await actor.resume(agent_id="beta", recovery_token=closed["recovery_token"])
    actor.session = taken["resumed_session_id"]
    await actor.begin("Move the next 1,000", "Go on with the boxes.")
    await actor.say("Decision: pause while backups run")
    await actor.complete("Moved 2,000 of 3,000 boxes.", blockers=["Box 2,417 is locked"])
    closed = await actor.close(
        capsule={
            "version": "1",
            "goal": "All mail on the new server",
            "done": ["Moved 2,000 of 3,000 boxes"],
            "next": ["Move boxes 2,001 to 3,000", "Tell the users"],
            "do_not": ["Move boxes at night", "Touch the archive"],
            "refuted": ["Moving by IMAP copy"],
            "written_by": "beta",
            "handoff_to": "gamma",
        },
        epitaph="Unlock box 2,417 before anything else.",
    )
    actor.reconnect()
    actor.wait(hours=1)
    return await actor.resume(agent_id="gamma", recovery_token=closed["recovery_token"])


CHAIN = Story(
    name="a hand-over chain of three agents",
    tell=_chain,
    questions=[
        q("What is the goal?", "goal", "All mail on the new server"),
        q("How far is it?", "done", "2,000 of 3,000", never=["1,000 of 3,000"]),
        q("What is the next step?", "next", "Move boxes 2,001 to 3,000", never=["1,001 to 2,000"]),
        q("And after that?", "next", "Tell the users"),
        q("What must not be done?", "do_not", "Move boxes at night", "Touch the archive"),
        q("What did not work?", "refuted", "IMAP copy"),
        q("What stands in the way?", "blockers", "Box 2,417 is locked"),
        q("What is most urgent?", "closing_note", "Unlock box 2,417"),
        q("What was decided?", "decisions", "pause while backups run"),
        q("Who wrote the statement, for whom?", "stated", '"beta"', '"gamma"'),
        q("How does the session go on?", "/resume_mode", "forked"),
        q("Is a turn open?", "open_turn", "null"),
    ],
)


async def _subagents(actor: Actor) -> Answer:
    parent = await actor.open("Audit the dependencies")
    await actor.begin("Audit", "Audit all dependencies for licences. Use subagents.")
    for part, found in (("backend", "2 with GPL"), ("frontend", "none with GPL")):
        child = await actor.harness.open(actor.me, agent="Codex", title=f"Audit the {part}", parent_session_id=parent)
        await actor.harness.begin(child, actor.me, query_title=f"Audit {part}", query_text=f"Look at the {part} only")
        await actor.harness.complete(child, actor.me, response=f"The {part} has {found}.")
        await actor.harness.call("close_session", {"session_id": child}, actor.me)
        await actor.act(f"subagent: audit of the {part}, {found}", "completed", type="session_log")
    child = await actor.harness.open(actor.me, agent="Codex", title="Audit the tools", parent_session_id=parent)
    await actor.harness.begin(child, actor.me, query_title="Audit tools", query_text="Look at the tools only")
    await actor.act("subagent: audit of the tools", "in_progress", type="session_log")
    await actor.say("The two GPL packages are pdfkit and gnuplot", "observation")
    await actor.say("Decision: replace pdfkit")
    await actor.update(
        next=["Find a replacement for gnuplot"],
        do_not=["Do not vendor GPL code"],
        interpretation="Backend, frontend and tools, one subagent each.",
        requirements_discovered=["LEGAL-4"],
        blockers=["Legal has not answered about gnuplot"],
        response="Backend and frontend are audited.",
    )
    await actor.crash()
    return await actor.resume()


SUBAGENTS = Story(
    name="an agent with subagents",
    tell=_subagents,
    questions=[
        q("Which session goes on: the agent's own, not a subagent's?", "goal", "Audit the dependencies"),
        q("What was asked?", "open_turn.query_text", "Use subagents"),
        q("How was the work divided?", "open_turn.interpretation", "one subagent each"),
        q("Which subagent did not finish?", "next", "audit of the tools", "in_progress"),
        q("Are finished audits to be done again?", "next", never=["backend", "frontend"]),
        q("What was found?", "open_turn.last_dialog", "pdfkit and gnuplot"),
        q("What was decided?", "decisions", "replace pdfkit"),
        q("What else comes next?", "next", "replacement for gnuplot"),
        q("What must not be done?", "do_not", "vendor GPL code"),
        q("Which requirement applies?", "requirements", "LEGAL-4"),
        q("What stands in the way?", "blockers", "Legal has not answered"),
        q("How far is it?", "open_turn.response", "Backend and frontend are audited"),
    ],
)

TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
PASSWORD = "Xk9-vwQ2_pLm4TzR"


async def _secrets(actor: Actor) -> Answer:
    await actor.open(f"Rotate the keys, DB_PASSWORD={PASSWORD}")
    await actor.begin("Rotate", f"Rotate the deploy key {TOKEN} and tell the team.")
    await actor.open_shell()
    await actor.run(f"echo TOKEN={TOKEN}; echo rotated 1 of 2")
    await actor.say(f"Decision: revoke {TOKEN} at noon")
    await actor.act(f"curl -H 'Authorization: Bearer {TOKEN}' of the old key", "failed")
    await actor.update(
        next=[f"Revoke password: {PASSWORD}"],
        blockers=["The owner of the second key is unknown"],
        do_not=["Print keys"],
        interpretation="Two keys: deploy and database.",
        requirements_discovered=["SEC-2"],
    )
    await actor.close(
        epitaph=f"One key is left; the old one was {TOKEN}", capsule={"version": "1", "done": f"Rotated {TOKEN}"}
    )
    return await actor.resume()


SECRETS = Story(
    name="secrets in every field",
    tell=_secrets,
    questions=[
        q("Is any token told?", "/", never=[TOKEN]),
        q("Is any password told?", "/", never=[PASSWORD]),
        q("What is the goal all the same?", "goal", "Rotate the keys", "[REDACTED"),
        q("What was asked?", "open_turn.query_text", "and tell the team", "[REDACTED"),
        q("What was decided?", "decisions", "at noon"),
        q("What did not work?", "refuted", "of the old key"),
        q("What comes next?", "next", "Revoke password"),
        q("What stands in the way?", "blockers", "second key is unknown"),
        q("What must not be done?", "do_not", "Print keys"),
        q("How far is it?", "last_commands", "rotated 1 of 2"),
        q("What did the agent note?", "closing_note", "One key is left"),
        q("How was it understood?", "open_turn.interpretation", "deploy and database"),
    ],
)


async def _languages(actor: Actor) -> Answer:
    actor.agent = "Codex"
    await actor.open("在庫の同期を直す")
    await actor.begin("Fehler suchen", "Warum fehlen nachts Artikel? Bitte nichts löschen.")
    await actor.complete("## Ergebnis\n\nDie Zeitzone fehlt beim Abgleich.")
    await actor.begin("同期を直す", "時刻を UTC にそろえてください。")
    await actor.act("時刻を UTC にする", "completed", "src/同期.py")
    await actor.act("Написать тест", "pending", "tests/тест.py")
    await actor.say("Decision: хранить всё в UTC")
    await actor.say("Do not تغيير المنطقة الزمنية للخادم")
    await actor.say("Refuted: la latence du réseau 🐌")
    actor.write("src/同期.py", "TZ = 'UTC'\n")
    await actor.update(blockers=["서버 접근 권한이 없음"], next=["夜間に確認する"], interpretation="全部 UTC にする。")
    await actor.crash()
    return await actor.resume()


LANGUAGES = Story(
    name="seven languages",
    tell=_languages,
    questions=[
        q("目的は?", "goal", "在庫の同期を直す"),
        q("Was wurde gefunden?", "done", "Die Zeitzone fehlt beim Abgleich.", never=["Ergebnis"]),
        q("Was wurde zuerst gefragt?", "asked", "Bitte nichts löschen"),
        q("何を頼まれた?", "open_turn.query_text", "UTC にそろえて"),
        q("どう理解した?", "open_turn.interpretation", "全部 UTC"),
        q("Что дальше?", "next", "Написать тест", "tests/тест.py"),
        q("次は?", "next", "夜間に確認する", never=["時刻を UTC にする"]),
        q("Что решено?", "decisions", "хранить всё в UTC"),
        q("ما الممنوع؟", "do_not", "تغيير المنطقة الزمنية للخادم"),
        q("Qu'est-ce qui est réfuté ?", "refuted", "la latence du réseau 🐌"),
        q("무엇이 막고 있나?", "blockers", "서버 접근 권한이 없음"),
        q("どのファイル?", "files_touched", "src/同期.py", "untracked", never=["тест"]),
    ],
)

STORIES = [STATED, CHAIN, SUBAGENTS, SECRETS, LANGUAGES]
