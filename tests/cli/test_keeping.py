"""`hold`, `retention`, sizes and the commands of `store` for old months, as a person types them."""

from pathlib import Path

import pytest

from tests.cli.support import shiftlog


def test_a_hold_is_set_shown_kept_and_lifted(demo: Path) -> None:
    assert shiftlog(demo, "hold", "list").out == "Nothing is on hold.\n"
    shiftlog(demo, "hold", "set", "last", "--reason", "case 4711")
    assert "case 4711" in shiftlog(demo, "hold", "list").out
    assert "on legal hold since" in shiftlog(demo, "show", "last").out
    assert "is on legal hold" in shiftlog(demo, "sessions").out
    refused = shiftlog(demo, "erase", "last", "--entry", "2", "--reason", "x", "--yes", status=1)
    assert "case 4711" in refused.err
    shiftlog(demo, "hold", "lift", "last", "--reason", "closed")
    assert "lifted" in shiftlog(demo, "hold", "list", "--all").out
    assert "legal hold" not in shiftlog(demo, "show", "last").out


def test_sizes_are_shown_where_they_are_asked_for(demo: Path) -> None:
    shown = shiftlog(demo, "show", "last", "--json").json()["session"]["bytes"]
    (item,) = shiftlog(demo, "sessions", "--sizes", "--json").json()["items"]
    assert item["bytes"]["total"] == shown["total"] > 1000
    assert "BYTES" in shiftlog(demo, "sessions", "--sizes").out
    assert "in the store" in shiftlog(demo, "show", "last", "--sizes").out
    assert "in the store" not in shiftlog(demo, "show", "last").out


def test_retention_without_a_setting_has_nothing_to_erase(demo: Path) -> None:
    assert shiftlog(demo, "retention", "--run", "--yes").out == "Nothing was kept long enough to be erased.\n"


@pytest.mark.parametrize(
    "arguments", [("hold", "set", "--reason", "x"), ("hold", "lift", "a", "--project", "b", "--reason", "x")]
)
def test_a_hold_names_a_session_or_a_project(home: Path, arguments: tuple[str, ...]) -> None:
    assert "either a SESSION or a --project" in shiftlog(home, *arguments, status=2).err


def test_months_are_listed_archived_and_restored(tmp_path: Path, home: Path, own_database: str) -> None:
    environ = {"SHIFTLOG_STORE_URL": own_database}
    listed = shiftlog(home, "store", "partitions", "--json", env=environ).json()["partitions"]
    assert [each["name"] for each in listed][:1] == ["earlier"]
    assert (
        "Nothing ended before that month"
        in shiftlog(home, "store", "archive", "--before", "2026-01", "--dry-run", env=environ).out
    )
    refused = shiftlog(home, "store", "archive", "--before", "soon", "--dry-run", env=environ, status=2)
    assert "a month such as 2026-01" in refused.err


def test_old_months_need_a_database(home: Path) -> None:
    assert "store.url" in shiftlog(home, "store", "partitions", status=1).err
