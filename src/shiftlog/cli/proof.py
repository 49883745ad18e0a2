"""Proving and repairing the record: `verify`, `rebuild` and `erase`.

How a chain is checked stands in `shiftlog.journal.chain`; here is what a person hears about it.
"""

import json
import sys
from typing import IO, Any

import click

from shiftlog.cli.asking import asked, json_option, named_session, open_client, session_argument
from shiftlog.cli.screen.output import Progress, Screen, print_json
from shiftlog.text.figures import count
from shiftlog.text.printable import terminal_line

EXPLAINED = {
    "edited": "was changed after it was written",
    "missing": "is gone",
    "reordered": "is not where it was written",
    "truncated": "and everything after it are gone",
}

Finding = dict[str, Any]


@click.command(short_help="Check that nothing was changed or removed.")
@session_argument(required=False)
@click.option(
    "--receipt",
    "receipt_files",
    type=click.File(encoding="utf-8"),
    multiple=True,
    metavar="FILE",
    help="A receipt that was kept elsewhere, as JSON; '-' reads standard input. May be given more than once.",
)
@click.option("--only-receipts", is_flag=True, help="Check only the sessions that the receipts name.")
@json_option
def verify(session: str | None, receipt_files: tuple[IO[str], ...], only_receipts: bool, as_json: bool) -> int:
    """Check that the record of SESSION, or of every session, is as it was written.

    Finds changed, moved and removed entries and names the first bad one. A removed end shows against the
    receipt that closing the session gave: keep receipts where nobody who can write here can change them.
    Exits with 0 when everything is intact and with 1 when something is not.

    \b
    Examples:
      shiftlog verify
      shiftlog verify last --receipt receipt.json
    """
    receipts = [_read_receipt(file) for file in receipt_files]
    if only_receipts and (session or not receipts):
        raise click.UsageError("--only-receipts goes with --receipt and without SESSION.")
    documents = [document for _, document in receipts]
    params: dict[str, Any] = {"receipts": documents, "only_receipts": only_receipts}
    findings: list[Finding] = []
    with open_client() as client, Progress("Verifying") as progress:
        if session:
            params["session_id"] = named_session(client, session)
        with asked(client, "verify", params) as items:
            progress.expect(next(items)["total"])
            for finding in items:
                findings.append(finding)
                progress.step()
    if session:
        _refuse_foreign(receipts, findings[0]["session_id"])
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


def _read_receipt(file: IO[str]) -> tuple[str, object]:
    """Return the session that a receipt is of, and the receipt as it is passed on."""
    from shiftlog.journal.signing.keys import receipt_from

    try:
        document = json.load(file)
        return receipt_from(document).session_id, document
    except json.JSONDecodeError:
        problem = "it is not JSON"
    except ValueError as error:
        problem = str(error)
    raise click.BadParameter(f"{file.name} is no receipt: {problem}.", param_hint="--receipt")


def _refuse_foreign(receipts: list[tuple[str, object]], session_id: str) -> None:
    """Refuse a receipt of another session: that it is not met here says nothing about either."""
    for named, _ in receipts:
        if named != session_id:
            message = f"It is of {terminal_line(named)}, not of {session_id}."
            raise click.BadParameter(message, param_hint="--receipt")


def _explained(finding: Finding) -> str:
    note = str(finding["note"])
    if note and (finding["kind"] == "signature" or not finding["entries"]):
        return note  # about a receipt or a whole session, not about an entry
    says = EXPLAINED.get(finding["kind"], "is not as it was written")
    return f"entry {finding['seq']} {says}" + (f" ({note})" if note else "")


def _print_findings(report: dict[str, Any]) -> None:
    screen = Screen()
    broken: list[Finding] = report["broken"]
    for finding in broken:
        screen.line(("broken  ", "bold red"), (finding["session_id"], "cyan"))
        screen.item(f"{finding['kind']}: {_explained(finding)}", indent=8)
    checked = count(report["sessions_checked"], "session")
    entries = count(report["entries_checked"], "entry")
    if broken:
        screen.line((f"{len(broken)} of {checked} broken", "bold red"), f", {entries} read.")
        screen.line("Keep a copy of the state directory before anything else writes to it.")
    elif not report["sessions_checked"]:
        screen.line("There is no session to verify yet.")
    else:
        against = f", {count(report['receipts_checked'], 'receipt')} met" if report["receipts_checked"] else ""
        screen.line(("intact", "bold green"), f"  {checked}, {entries}{against}.")
    if report["bodies_erased"]:
        erased = report["bodies_erased"]
        bodies, them = ("1 body was", "it") if erased == 1 else (f"{erased:,} bodies were", "them")
        screen.line(f"{bodies} erased on purpose; the chain holds without {them}.")


@click.command(short_help="Compute tables and index anew from the journal.")
@session_argument(required=False)
@json_option
def rebuild(session: str | None, as_json: bool) -> None:
    """Compute the tables and the search index of SESSION, or of every session, anew from the journal.

    The journal is the truth and everything else follows from it, so this changes nothing unless something was
    damaged. A journal that does not verify is refused.

    \b
    Examples:
      shiftlog rebuild
      shiftlog rebuild last
    """
    rebuilt: list[dict[str, Any]] = []
    with open_client() as client, Progress("Rebuilding") as progress:
        params = {"session_id": named_session(client, session)} if session else {}
        with asked(client, "rebuild", params) as items:
            progress.expect(next(items)["total"])
            for item in items:
                rebuilt.append(item)
                progress.step()
    changed = [item["session_id"] for item in rebuilt if item["changed"]]
    report: dict[str, Any] = {
        "sessions": len(rebuilt),
        "entries": sum(item["entries"] for item in rebuilt),
        "changed": changed,
    }
    if as_json:
        print_json(report)
        return
    screen = Screen()
    screen.line(f"{count(report['sessions'], 'session')} rebuilt from {count(report['entries'], 'entry')}.")
    for name in changed:
        screen.line(("corrected  ", "yellow"), (name, "cyan"))
    if not changed:
        screen.line("Nothing had to be corrected.")


@click.command(short_help="Erase what entries say, for good.")
@session_argument()
@click.option(
    "--entry",
    "entries",
    type=click.IntRange(1),
    multiple=True,
    required=True,
    metavar="N",
    help="Number of an entry, as `shiftlog tail` and `shiftlog show` print it. May be given more than once.",
)
@click.option("--reason", required=True, metavar="TEXT", help="Why; it stays in the journal.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def erase(session: str, entries: tuple[int, ...], reason: str, yes: bool, as_json: bool) -> int:
    """Erase what entries of SESSION say, for good.

    The entries stay in the chain with their hashes, so the record still verifies, and a new entry says what was
    erased and why. Capsules that repeat what they said are erased too, also those that successors were handed, and
    so is the output of a command whose entries are. Ids stay, with the words of titles that are in them, and so do
    states, links and figures. This cannot be undone.

    \b
    Example:
      shiftlog erase last --entry 7 --reason 'a customer asked for it'
    """
    with open_client() as client:
        name = named_session(client, session)
        numbers = sorted(set(entries))
        if not yes and not _confirmed(f"Erase what {_listed(numbers)} of {name} said, for good?"):
            click.echo("Nothing was erased.", err=True)
            return 1
        erased = client.call("erase", {"session_id": name, "entries": numbers, "reason": reason})
    derived = [seq for seq in erased["erased"] if seq not in entries]
    if as_json:
        print_json({**erased, "derived": derived})
    else:
        _print_erased(erased, derived)
    return 0 if erased["chain"] == "verified" else 1


def _confirmed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("Erasing cannot be undone, and nobody is here to be asked. Add --yes.")
    return click.confirm(terminal_line(question), err=True)


def _print_erased(erased: dict[str, Any], derived: list[int]) -> None:
    screen = Screen()
    if not erased["erased"]:
        screen.line("These entries were erased before; nothing was changed.")
        return
    bodies = count(len(erased["erased"]) - len(derived), "entry")
    screen.line(("erased  ", "bold"), f"{bodies} of ", (erased["session_id"], "cyan"))
    if erased["already_erased"]:
        screen.line(f"        {_listed(erased['already_erased'])} erased before")
    if derived:
        screen.line(f"        with {_listed(derived)}: capsules that repeated it")
    for successor, seqs in erased["elsewhere"].items():
        screen.line(f"        with {_listed(seqs)} of {successor}: what it was handed")
    if erased["outputs_removed"]:
        screen.line(f"        with the output of {count(erased['outputs_removed'], 'command')}")
    screen.line(f"        entry {erased['seq']} says what was erased and why")
    if erased["chain"] == "verified":
        screen.line(("intact  ", "bold green"), "the chain still verifies")
    else:
        screen.line(("broken  ", "bold red"), "the chain does not verify; see shiftlog verify")


def _listed(seqs: list[int]) -> str:
    return f"{'entry' if len(seqs) == 1 else 'entries'} {', '.join(map(str, seqs))}"
