"""Regular expressions that every supported Python reads alike."""

import re
from pathlib import Path

import shiftlog

SOURCES = Path(shiftlog.__file__).parent
POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{[0-9,]+\})\+")


def test_no_pattern_repeats_a_group_possessively():
    """Before 3.11.5, which Debian 12 does not have, such a repeat keeps what its last, failed round has taken."""
    found = [
        f"{path.relative_to(SOURCES)}:{number}"
        for path in sorted(SOURCES.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if POSSESSIVE_GROUP.search(line)
    ]
    assert not found, f"write (?>(?:…)*) instead: {', '.join(found)}"
