"""Joining the services: what the operator's settings do to them, and how wrong ones are refused."""

from pathlib import Path

import pytest

from shiftlog.app.app import open_app
from shiftlog.model.caller import LIBRARY
from shiftlog.model.errors import ConfigError


async def stored_title(home: Path, title: str) -> str:
    async with open_app(home, {}) as app:
        opened = await app.sessions.open_session({"agent": "Codex", "title": title}, LIBRARY)
        answer = await app.history.query_history({"session_id": opened["session_id"]}, LIBRARY)
        return answer["session"]["title"]


async def test_a_rule_of_the_operator_masks_under_its_own_class(tmp_path: Path) -> None:
    rule = "[[redaction.rules]]\nname = 'badge'\npattern = 'B-[0-9]{6}'\nclass = 'staff'\n"
    (tmp_path / "config.toml").write_text(rule)
    assert await stored_title(tmp_path, "Badge B-123456 opens it") == "Badge [REDACTED:staff] opens it"


async def test_a_silenced_rule_masks_no_more(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    assert secret not in await stored_title(_made(tmp_path / "one"), f"see {secret}")
    (_made(tmp_path / "two") / "config.toml").write_text("[redaction]\nsilenced = ['github']\n")
    assert await stored_title(tmp_path / "two", f"see {secret}") == f"see {secret}"


async def test_silencing_a_rule_that_does_not_exist_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[redaction]\nsilenced = ['gthub']\n")
    with pytest.raises(ConfigError, match="no rule 'gthub'; the nearest is 'github'"):
        await stored_title(tmp_path, "never")


async def test_hooks_are_taken_once_something_was_spooled_and_never_when_only_reading(tmp_path: Path) -> None:
    async with open_app(tmp_path, {}) as app:
        assert not app.is_taking_hooks
        (tmp_path / "spool").mkdir()
        assert app.is_taking_hooks
    async with open_app(tmp_path, {}, read_only=True) as reader:
        assert not reader.is_taking_hooks


def _made(home: Path) -> Path:
    home.mkdir(exist_ok=True)
    return home
