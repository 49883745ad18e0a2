"""`shiftlog store migrate`, and what people see of the setting `store.url`."""

from pathlib import Path

import psycopg
import pytest

from shiftlog.app.stores import store_of
from shiftlog.config.loading import load
from shiftlog.model.errors import ConfigError
from shiftlog.store.postgres import PostgresStore
from shiftlog.store.postgres.migrate import shipped
from shiftlog.store.sqlite import SqliteStore
from tests.cli.support import shiftlog
from tests.postgres_server import PostgresServer


def test_migrate_applies_what_is_missing_and_says_so(home: Path, postgres_server: PostgresServer) -> None:
    with psycopg.connect(postgres_server.url(), autocommit=True) as db:
        db.execute("CREATE DATABASE team")
    env = {"SHIFTLOG_STORE_URL": postgres_server.url("team")}
    named = f"team on {postgres_server.folder} as shiftlog"
    checked = shiftlog(home, "store", "migrate", "--check", "--json", env=env, status=1).json()
    wanted = [f"{each.number:04d}_{each.name}" for each in shipped()]
    last = shipped()[-1].number
    assert wanted[0] == "0001_ground"
    assert checked == {"database": named, "schema": 0, "missing": wanted, "pg_trgm": False}
    done = shiftlog(home, "store", "migrate", env=env)
    applied = "".join(f"applied {name}\n" for name in wanted)
    assert done.out == f"{applied}{named} is up to date (schema {last})\n"
    again = shiftlog(home, "store", "migrate", "--json", env=env).json()
    assert again == {"database": named, "schema": last, "applied": [], "pg_trgm": True}


def test_migrate_and_doctor_say_what_a_database_without_trigrams_lacks(home: Path, own_database: str) -> None:
    env = {"SHIFTLOG_STORE_URL": own_database}
    shiftlog(home, "store", "migrate", env=env)
    with psycopg.connect(own_database, autocommit=True) as db:
        db.execute("DROP EXTENSION pg_trgm CASCADE; CREATE ROLE weak LOGIN")
        db.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO weak")
        try:
            weak = {"SHIFTLOG_STORE_URL": own_database.replace("shiftlog@", "weak@")}
            told = shiftlog(home, "store", "migrate", env=weak).out
            checks = shiftlog(home, "doctor", "--json", "--no-start", env=weak, status=0).json()["checks"]
        finally:
            db.execute("DROP OWNED BY weak; DROP ROLE weak")
    (warned,) = [check for check in checks if check["name"] == "pg_trgm"]
    assert warned["state"] == "warn"
    assert "CREATE EXTENSION pg_trgm" in warned["hint"]
    assert "CREATE EXTENSION pg_trgm" in told
    assert shiftlog(home, "store", "migrate", "--json", env=env).json()["pg_trgm"] is True


def test_migrate_without_an_address_says_what_to_set(home: Path) -> None:
    refused = shiftlog(home, "store", "migrate", status=1)
    assert "store.url is not set" in refused.err
    assert "set store.url to use PostgreSQL" in refused.err


def test_a_database_that_does_not_answer_is_named_without_its_password(home: Path) -> None:
    pytest.importorskip("psycopg")
    url = "postgresql://me:geheim@/team?host=/nowhere"
    refused = shiftlog(home, "store", "migrate", "--json", env={"SHIFTLOG_STORE_URL": url}, status=1)
    assert "/nowhere" in refused.out
    assert "geheim" not in refused.out + refused.err


@pytest.mark.parametrize("value", ["mysql://me:geheim@db/x", "geheim", "postgresql://me:geheim@db/\x07"])
def test_an_address_that_is_wrong_is_refused_without_being_shown(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, {"SHIFTLOG_STORE_URL": value})
    assert "SHIFTLOG_STORE_URL" in str(refused.value)
    assert "geheim" not in f"{refused.value} {refused.value.details}"


def test_the_address_chooses_the_store(tmp_path: Path) -> None:
    assert isinstance(store_of(tmp_path, load(tmp_path, {})), SqliteStore)
    (tmp_path / "config.toml").write_text('[store]\nurl = "postgresql://me@db/team"\n')
    assert isinstance(store_of(tmp_path, load(tmp_path, {})), PostgresStore)


def test_doctor_shows_the_database(home: Path, postgres_url: str, postgres_server: PostgresServer) -> None:
    done = shiftlog(home, "doctor", "--json", "--no-start", env={"SHIFTLOG_STORE_URL": postgres_url}, status=0)
    (check,) = [check for check in done.json()["checks"] if check["name"] == "database"]
    assert check["message"].startswith(f"postgres on {postgres_server.folder} as shiftlog (PostgreSQL 15.")


def test_doctor_warns_of_a_daemon_that_keeps_the_record_elsewhere(home: Path, postgres_url: str) -> None:
    shiftlog(home, "status")
    env = {"SHIFTLOG_STORE_URL": postgres_url.replace("shiftlog@", "shiftlog:geheim@")}
    done = shiftlog(home, "doctor", "--json", env=env, status=0)
    warned = [check for check in done.json()["checks"] if check["name"] == "daemon" and check["state"] == "warn"]
    assert [check["hint"].startswith("Run shiftlog daemon stop") for check in warned] == [True]
    assert f"{home}/shiftlog.db" in warned[0]["message"]
    assert "dbname=postgres" in warned[0]["message"]
    assert "geheim" not in done.out
