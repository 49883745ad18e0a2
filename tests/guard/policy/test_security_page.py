"""The page on security: it names every key that an operator can set, and no limit that there is not."""

import re
from pathlib import Path

from shiftlog.guard.policy.operator import LIMITS, READERS

PAGE = Path(__file__).parents[3] / "docs" / "security.md"


def rows() -> dict[str, str]:
    table = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {key: rest for keys, rest in table for key in re.findall(r"`(\w+)`", keys)}


def test_the_page_names_every_key_of_the_operators_policy() -> None:
    assert set(rows()) == set(READERS)


def test_the_page_names_every_limit() -> None:
    assert set(re.findall(r"`(\w+)`", rows()["limits"])) == LIMITS
