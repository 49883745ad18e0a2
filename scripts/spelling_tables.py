"""The tables of ways to run a denied program: each spelling of the tests with the verdicts that the policy gives it.

Used by `generate_docs.py`. Verdicts are computed without looking at a disk, so that every machine writes the same page.
"""

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from shiftlog.guard.policy.files import NoFiles  # noqa: E402
from shiftlog.guard.policy.judge import Judge  # noqa: E402
from shiftlog.guard.policy.operator import OperatorPolicy, shell_rules  # noqa: E402
from tests.guard.policy.marker import DENIED  # noqa: E402
from tests.guard.policy.spellings import SPELLINGS, Spelling  # noqa: E402

SUMMARY_BEGIN = "<!-- spellings: generated from tests/guard/policy/spellings.py -->\n"
SUMMARY_END = "<!-- end of spellings -->"
PLACE = "/opt/denied"
TEXT_ONLY = ("denied", "undecidable", "allowed")
ABOVE_KERNEL = ("denied", "deferred", "allowed")
INTRODUCTION = """\
A shell denies two harmless programs in `@D@`, a directory of its PATH: `mark`, a script that leaves a file behind, and
`markbin`, a copy of `touch` that leaves it where it is told to (`@F@`). Every line below runs one of them in plain
bash; a test tries each, so the table holds no way that does not work. *Text alone* is the verdict over ssh, in
containers and where the kernel layer does not hold: `denied` and `undecidable` are not run. *Above the kernel* is the
verdict on the text where the kernel layer holds: `deferred` and `allowed` run, and the start of the denied program
itself is refused with 126. Another test runs every line that way: none leaves the file behind.
[Security](../security.md) says what follows from it.
"""


def verdicts(spelling: Spelling) -> tuple[str, str]:
    """Return what the policy says where only text is checked, and where the kernel judges starts as well."""
    text = spelling.text.replace("@D@", PLACE).replace("@F@", f"{PLACE}/ran")
    rules = shell_rules(OperatorPolicy(), deny=DENIED, path=f"{PLACE}:/usr/bin:/bin")
    alone, above = (
        Judge(rules, kernel=kernel, files=NoFiles()).judge(text, cwd=PLACE).verdict for kernel in (False, True)
    )
    return alone, above


@cache
def by_category() -> dict[str, list[tuple[Spelling, tuple[str, str]]]]:
    """Return every spelling with its verdicts, in the order of the table."""
    found: dict[str, list[tuple[Spelling, tuple[str, str]]]] = {}
    for spelling in SPELLINGS:
        found.setdefault(spelling.category, []).append((spelling, verdicts(spelling)))
    return found


def with_summary(text: str) -> str:
    """Put the counts of each category between the marks of a page."""
    head, begin, rest = text.partition(SUMMARY_BEGIN)
    _, end, tail = rest.partition(SUMMARY_END)
    if not begin or not end:
        raise SystemExit("docs/security.md has lost the marks around its table of spellings")
    return "".join([head, begin, *(f"{line}\n" for line in _summary()), end, tail])


def _summary() -> Iterator[str]:
    titles = [*(f"text alone: {name}" for name in TEXT_ONLY), *(f"above the kernel: {name}" for name in ABOVE_KERNEL)]
    yield f"| kind of spelling | tried | {' | '.join(titles)} |"
    yield f"|---|{'---|' * (1 + len(titles))}"
    sums = [0] * (1 + len(titles))
    for category, rows in by_category().items():
        counts = [
            len(rows),
            *(sum(alone == name for _, (alone, _) in rows) for name in TEXT_ONLY),
            *(sum(above == name for _, (_, above) in rows) for name in ABOVE_KERNEL),
        ]
        sums = [one + other for one, other in zip(sums, counts, strict=True)]
        yield f"| {category} | {' | '.join(map(str, counts))} |"
    yield f"| **all** | {' | '.join(f'**{number}**' for number in sums)} |"


def spellings_page(note: str) -> str:
    """Return the page with every spelling."""
    lines = ["# Spellings of a denied program", "", note, "", INTRODUCTION]
    for category, rows in by_category().items():
        lines += [f"## {category}", "", "| spelling | text alone | above the kernel |", "|---|---|---|"]
        lines += [f"| {_code(spelling.text)} | {alone} | {above} |" for spelling, (alone, above) in rows]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _code(text: str) -> str:
    """Show a text as code in a cell: line ends as ⏎, tabs as ⇥, bars escaped, fenced by enough backquotes."""
    shown = text.replace("\n", "⏎").replace("\t", "⇥").replace("\r", "␍").replace("|", "\\|")
    fence = "`"
    while fence in shown:
        fence += "`"
    pad = " " if shown.startswith(("`", " ")) or shown.endswith(("`", " ")) else ""
    return f"{fence}{pad}{shown}{pad}{fence}"
