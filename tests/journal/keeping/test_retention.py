"""Retention: what sessions said is erased after the days of their project, and nothing else is."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from shiftlog.model.errors import ConfigError
from tests.journal.harness import Harness, open_harness

CONFIG = """
[retention]
days = 30
[retention.projects]
webshop = 10
"/srv/old/webshop" = 0
"""


@pytest.fixture
async def keeping(tmp_path: Path) -> AsyncGenerator[Harness]:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(CONFIG, encoding="utf-8")
    async with open_harness(home) as harness:
        yield harness


async def ended(harness: Harness, workspace: str) -> str:
    """Return a session of a project that was closed."""
    session = await harness.open(cwd=workspace, title=workspace.replace("/", " "))
    await harness.begin(session)
    await harness.complete(session, response="Rumpelstilzchen")
    await harness.call("close_session", {"session_id": session})
    return session


async def due(harness: Harness) -> set[str]:
    return {each.session.id for each in await harness.app.retention.due()}


async def test_each_project_is_kept_for_its_own_days(keeping: Harness) -> None:
    shop, other, for_ever = [await ended(keeping, path) for path in ("/srv/webshop", "/srv/other", "/srv/old/webshop")]
    keeping.wait(days=9)
    assert await due(keeping) == set()
    keeping.wait(days=2)
    assert await due(keeping) == {shop}
    keeping.wait(days=30)
    assert await due(keeping) == {shop, other}
    assert for_ever not in await due(keeping)


async def test_the_daily_sweep_erases_what_is_due_once_and_the_chain_verifies(keeping: Harness) -> None:
    session = await ended(keeping, "/srv/webshop")
    keeping.wait(days=11)
    await keeping.app.sweep()
    entries = await keeping.entries(session)
    assert {str(entry.kind) for entry in entries if entry.body is not None} == {"erased"}
    assert "retention: kept for 10 days" in str(entries[-1].body)
    assert not (await keeping.query(text="Rumpelstilzchen"))["items"]
    assert all(found.ok for found in await keeping.verify())
    keeping.wait(days=2)
    await keeping.app.sweep()
    assert await keeping.entries(session) == entries


async def test_open_sessions_and_sessions_on_hold_stay(keeping: Harness) -> None:
    held = await ended(keeping, "/srv/webshop")
    await keeping.app.holds.place("session", held, "case 1", "ada")
    working = await keeping.open(cwd="/srv/webshop", title="Still open")
    keeping.wait(days=400)
    before = await keeping.entries(held), await keeping.entries(working)
    assert [each.held for each in await keeping.app.retention.due()] == [True]
    assert await keeping.app.retention.sweep() == []
    assert (await keeping.entries(held), await keeping.entries(working)) == before


async def test_without_the_setting_nothing_is_ever_due(harness: Harness) -> None:
    await ended(harness, "/srv/webshop")
    harness.wait(days=4000)
    assert await harness.app.retention.due() == []


@pytest.mark.parametrize("line", ["days = -1", "days = 'x'", "dais = 1", "projects = 3"])
async def test_a_wrong_setting_is_refused_by_name(tmp_path: Path, line: str) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(f"[retention]\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="retention"):
        async with open_harness(home):
            pass
