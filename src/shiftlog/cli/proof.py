"""The commands `verify`, `rebuild`, `erase` and `spool` (what waits for the daemon, or failed).

The checks themselves are in `shiftlog.journal.chain`.
"""

import json
import sys
from typing import IO, Any

import click

from shiftlog.cli.connecting import ask, ask_stream, json_option, open_client, session_argument
from shiftlog.cli.screen.output import Printer, ProgressBar, print_json
from shiftlog.model.errors import InvalidParameter
from shiftlog.text.figures import count
from shiftlog.text.printable import terminal_line

EXPLAINED = {
    "edited": "was changed after it was written",
    "missing": "is gone",
    "reordered": "is not where it was written",
    "truncated": "and everything after it are gone",
}

# Kinds of damage to a receipt, to what is shown or to an output file; their note says it all.
NOT_OF_AN_ENTRY = frozenset({"signature", "projection", "output"})

Finding = dict[str, Any]


@click.command(short_help="Check that nothing was changed or removed.")
@session_argument(required=False)
@click.option(
    "--receipt",
    "receipt_files",
    type=click.File(encoding="utf-8"),
    multiple=True,
    metavar="FILE",
    help="A receipt that was kept elsewhere, as JSON; '-' reads standard input. Repeatable.",
)
@click.option("--only-receipts", is_flag=True, help="Check only the sessions that the receipts name.")
@json_option
def verify(session: str | None, receipt_files: tuple[IO[str], ...], only_receipts: bool, as_json: bool) -> int:
    """Verify that the record of SESSION, or of every session, is unchanged.

    Finds changed, moved and removed entries and names the first bad one; then anything that lists, pages and searches
    would show otherwise than the journal says, and outputs of commands that were changed. A removed end is found only
    with the receipt from the close of the session, so keep receipts where no user of this machine can change them. The
    exit status is 0 if everything is intact, else 1.

    \b
    Examples:
      shiftlog verify
      shiftlog verify last --receipt receipt.json
    """
    receipts = [_read_receipt(file) for file in receipt_files]
    if only_receipts and (session or not receipts):
        raise click.UsageError("--only-receipts goes with --receipt and without SESSION.")
    params = {"receipts": [document for _, document in receipts], "only_receipts": only_receipts}
    findings = _counted("Verifying", "verify", params, session)
    for named, _ in receipts if session else ():
        if named != findings[0]["session_id"]:  # it would prove nothing
            message = f"It is of {terminal_line(named)}, not of {findings[0]['session_id']}."
            raise click.BadParameter(message, param_hint="--receipt")
    report = {
        "ok": all(finding["ok"] for finding in findings),
        "sessions_checked": len(findings),
        "entries_checked": sum(finding["entries"] for finding in findings),
        "bodies_erased": sum(finding["erased"] for finding in findings),
        "receipts_checked": len(receipts),
        "broken": [finding for finding in findings if not finding["ok"]],
    }
    if as_json:
        print_json(report)
    else:
        _print_findings(report)
    return 0 if report["ok"] else 1


def _counted(label: str, method: str, params: dict[str, Any], session: str | None) -> list[dict[str, Any]]:
    """Return the answers for all sessions, with a progress bar while they arrive."""
    answers: list[dict[str, Any]] = []
    with ask_stream(method, params, session=session or None) as items, ProgressBar(label) as progress:
        progress.expect(next(items)["total"])
        for item in items:
            answers.append(item)
            progress.step()
    return answers


def _read_receipt(file: IO[str]) -> tuple[str, object]:
    """Return the session id of a receipt, and the receipt itself."""
    from shiftlog.journal.signing.keys import receipt_from

    try:
        document = json.load(file)
        return receipt_from(document).session_id, document
    except json.JSONDecodeError:
        problem = "it is not JSON"
    except ValueError as error:
        problem = str(error)
    raise click.BadParameter(f"{file.name} is not a receipt: {problem}.", param_hint="--receipt")


def _explained(finding: Finding) -> str:
    note = str(finding["note"])
    if note and (finding["kind"] in NOT_OF_AN_ENTRY or not finding["entries"]):
        return note
    says = EXPLAINED.get(finding["kind"], "is not as it was written")
    return f"entry {finding['seq']} {says}" + (f" ({note})" if note else "")


def _print_findings(report: dict[str, Any]) -> None:
    printer = Printer()
    broken: list[Finding] = report["broken"]
    for finding in broken:
        printer.line(("broken  ", "bold red"), (finding["session_id"], "cyan"))
        printer.item(f"{finding['kind']}: {_explained(finding)}", indent=8)
    checked = count(report["sessions_checked"], "session")
    entries = count(report["entries_checked"], "entry")
    if broken:
        printer.line((f"{len(broken)} of {checked} broken", "bold red"), f", {entries} read.")
        printer.line("Keep a copy of the state directory before anything else writes to it.")
        if any(finding["kind"] == "projection" for finding in broken):
            printer.line("The journal itself is whole where only what is shown differs: shiftlog rebuild repairs that.")
    elif not report["sessions_checked"]:
        printer.line("There is no session to verify yet.")
    else:
        against = f", {count(report['receipts_checked'], 'receipt')} met" if report["receipts_checked"] else ""
        printer.line(("intact", "bold green"), f"  {checked}, {entries}{against}.")
    if report["bodies_erased"]:
        erased = report["bodies_erased"]
        bodies, them = ("1 body was", "it") if erased == 1 else (f"{erased:,} bodies were", "them")
        printer.line(f"{bodies} erased on purpose; the chain holds without {them}.")


@click.command(short_help="Recompute tables and search index from the journal.")
@session_argument(required=False)
@json_option
def rebuild(session: str | None, as_json: bool) -> None:
    """Recompute the tables and the search index of SESSION, or of every session, from the journal.

    Everything is derived from the journal, so this changes nothing unless something was damaged. A journal that does
    not verify is refused.

    \b
    Examples:
      shiftlog rebuild
      shiftlog rebuild last
    """
    rebuilt = _counted("Rebuilding", "rebuild", {}, session)
    changed = [item["session_id"] for item in rebuilt if item["changed"]]
    report: dict[str, Any] = {
        "sessions": len(rebuilt),
        "entries": sum(item["entries"] for item in rebuilt),
        "changed": changed,
    }
    if as_json:
        print_json(report)
        return
    printer = Printer()
    printer.line(f"{count(report['sessions'], 'session')} rebuilt from {count(report['entries'], 'entry')}.")
    for name in changed:
        printer.line(("corrected  ", "yellow"), (name, "cyan"))
    if not changed:
        printer.line("Nothing had to be corrected.")


@click.command(short_help="Erase the contents of entries permanently.")
@session_argument()
@click.option(
    "--entry",
    "entries",
    type=click.IntRange(1),
    multiple=True,
    required=True,
    metavar="N",
    help="Number of an entry, as `shiftlog tail` and `shiftlog show` print it. Repeatable.",
)
@click.option("--reason", required=True, metavar="TEXT", help="Reason; it is recorded in the journal.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def erase(session: str, entries: tuple[int, ...], reason: str, yes: bool, as_json: bool) -> int:
    """Erase the contents of entries of SESSION permanently.

    The entries stay in the chain with their hashes, so the record still verifies, and a new entry records what was
    erased and why. Capsules that repeat the contents are erased too, also in successor sessions, and so is the output
    of a command whose entries are erased. Ids (with the title words in them), states, links and figures stay. This
    cannot be undone.

    \b
    Example:
      shiftlog erase last --entry 7 --reason 'a customer asked for it'
    """
    with open_client() as client:
        named: dict[str, str] = client.call("session_named", {"name": session})
        name = named["session_id"]
        numbers = sorted(set(entries))
        if not yes:
            if not sys.stdin.isatty():
                raise click.UsageError("Erasing cannot be undone, and there is no terminal to confirm it. Add --yes.")
            question = f"Erase what {_listed(numbers)} of '{named['title']}' ({name}) said, for good?"
            if not click.confirm(terminal_line(question), err=True):
                click.echo("Nothing was erased.", err=True)
                return 1
        erased = client.call("erase", {"session_id": name, "entries": numbers, "reason": reason})
    derived = [seq for seq in erased["erased"] if seq not in entries]
    if as_json:
        print_json({**erased, "derived": derived})
    else:
        _print_erased(erased, derived)
    return 0 if erased["chain"] == "verified" else 1


def _print_erased(erased: dict[str, Any], derived: list[int]) -> None:
    printer = Printer()
    if not erased["erased"]:
        printer.line("These entries were erased before; nothing was changed.")
        return
    bodies = count(len(erased["erased"]) - len(derived), "entry")
    printer.line(("erased  ", "bold"), f"{bodies} of ", (erased["session_id"], "cyan"))
    if erased["already_erased"]:
        printer.line(f"        {_listed(erased['already_erased'])} erased before")
    if derived:
        printer.line(f"        with {_listed(derived)}: capsules that repeated it")
    for successor, seqs in erased["elsewhere"].items():
        printer.line(f"        with {_listed(seqs)} of {successor}: what it was handed")
    if erased["outputs_removed"]:
        printer.line(f"        with the output of {count(erased['outputs_removed'], 'command')}")
    printer.line(f"        entry {erased['seq']} says what was erased and why")
    if erased["chain"] == "verified":
        printer.line(("intact  ", "bold green"), "the chain still verifies")
    else:
        printer.line(("broken  ", "bold red"), "the chain does not verify; see shiftlog verify")


def _listed(seqs: list[int]) -> str:
    return f"{'entry' if len(seqs) == 1 else 'entries'} {', '.join(map(str, seqs))}"


@click.command(short_help="Show waiting and rejected events and calls.")
@click.argument("item", required=False, metavar="[ID]")
@json_option
def spool(item: str | None, as_json: bool) -> int:
    """Show the events of hooks and the calls of client scripts that wait for the daemon or were set aside.

    ID is the id that a queued call got as its answer; with it, the command prints the outcome: `persisted`,
    `unchanged`, still `queued`, or `set_aside` with the reason. Outcomes are kept for a day.

    \b
    Examples:
      shiftlog spool
      shiftlog spool 0f3a…
    """
    answer = ask("spool", {"id": item or None})
    if item and answer["receipt"] is None:
        raise InvalidParameter.invalid("id", "the id of a request that was queued within a day", item)
    if as_json:
        print_json(answer)
        return 0
    printer = Printer()
    if item:
        receipt = answer["receipt"]
        session = f" in {receipt['session_id']}, entry {receipt['seq']}" if receipt.get("session_id") else ""
        printer.line(terminal_line(f"{receipt['code']}{session}{_because(receipt)}"))
        return 0
    waiting = answer["waiting"]
    printer.line(f"{count(waiting['events'], 'file')} of events and {count(waiting['calls'], 'queued call')} waiting")
    for one in answer["set_aside"]:
        what, at = one.get("event") or one.get("kind") or "item", one.get("at") or "an unknown time"
        printer.item(terminal_line(f"set aside: {what} {one.get('id')} of {at}{_because(one)}"))
    return 0


def _because(item: dict[str, object]) -> str:
    return f": {item['reason']}" if item.get("reason") else ""
