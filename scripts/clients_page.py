"""docs/clients.md: what was tried with each agent's real client, from the results of `make test-clients`.

Used by `generate_docs.py`. The results are in tests/clients/results.json, which a run writes.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.clients.features import CLIENTS, FEATURES, Outcome, is_there, read_results
from tests.clients.installing import PINS, ROOT, version_of
from tests.clients.notes import CURSOR, CURSOR_TESTS, MISSING, NOTES

INTRODUCTION = """\
`make test-clients` installs the clients below from npm, each in the version named here, and runs them headless with an
empty environment and home against a scripted model on loopback: no account, no network. The tables say what those runs
showed. *Works* means that every test of the row passed, and the number is how many; *not tried* means just that; *no*
comes with what is missing. Cursor was not run: *by its documentation* means that a test starts our hooks with the
events that its documentation describes. How to connect an agent is in [hooks](hooks.md), what the guard does in
[the guard](guard.md).
"""


def clients_page(note: str) -> str:
    """Return the page; raise SystemExit if the results do not belong to these tests."""
    results = read_results()
    _check(results)
    titles = [f"{PINS[name]['title']} {version_of(name)}" for name in CLIENTS]
    lines = ["# Agents' clients, as tried", "", note, "", INTRODUCTION]
    lines += [f"| | {' | '.join(titles)} | Cursor |", "|---|" + "---|" * (len(titles) + 1)]
    for feature, promise in FEATURES.items():
        cells = [_cell(results.get(client, {}), feature) or _reason(client, feature) for client in CLIENTS]
        cells.append("by its documentation" if feature in CURSOR_TESTS else _reason("cursor", feature))
        lines.append(f"| {promise} | {' | '.join(cells)} |")
    lines += ["", "## What the rows leave open", ""]
    for client, title in zip(CLIENTS, titles, strict=True):
        lines += [f"**{title}**: {NOTES[client]}", ""]
    lines += [f"**Cursor**: {CURSOR}", "", "## The tests", "", "| | test | client | result |", "|---|---|---|---|"]
    lines += [
        f"| {feature} | `clients/{test}` | {client} | {outcome} |" for feature, test, client, outcome in _tests(results)
    ]
    lines += [
        f"| {feature} | `{test}` | cursor, by its documentation | part of `make test` |"
        for feature, test in CURSOR_TESTS.items()
    ]
    return "\n".join(lines) + "\n"


def _cell(results: Outcome, feature: str) -> str:
    found = [test["outcome"] for test in results.get("tests", {}).values() if test["tries"] == feature]
    tried = [outcome for outcome in found if outcome != "skipped"]
    if not tried:
        return ""
    failed = tried.count("failed")
    return f"fails ({failed} of {len(tried)})" if failed else f"works ({len(tried)})"


def _reason(client: str, feature: str) -> str:
    reason = MISSING.get((client, feature))
    return f"no: {reason}" if reason else "not tried"


def _tests(results: Outcome) -> Iterator[tuple[str, str, str, str]]:
    """Yield each promise with each test of it, which client it ran, and what came of it."""
    for feature in FEATURES:
        for client in CLIENTS:
            for test, found in results.get(client, {}).get("tests", {}).items():
                if found["tries"] == feature:
                    yield feature, test, client, found["outcome"]


def _check(results: Outcome) -> None:
    """Refuse results of other versions than the pinned ones, and of tests that are gone."""
    for client, found in results.items():
        if found["version"] != version_of(client):
            raise SystemExit(f"tests/clients/results.json is of {client} {found['version']}; run: make test-clients")
        gone = [test for test in found["tests"] if not is_there(test)]
        if gone:
            raise SystemExit(f"tests/clients/results.json names a test that is gone: {gone[0]}; run: make test-clients")
    for test in CURSOR_TESTS.values():
        file, _, name = test.partition("::")
        if f"def {name}(" not in (ROOT / "tests" / file).read_text("utf-8"):
            raise SystemExit(f"tests/clients/notes.py names a test that is gone: {test}")
