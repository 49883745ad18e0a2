"""Keys of a team's server: who gets in, with what, for how long; and that nothing is open without one."""

import json
from http.cookies import SimpleCookie
from typing import Any

import httpx
import psycopg
import pytest

from tests.daemon.support import eventually
from tests.server.conftest import TeamRun
from tests.server.replicas import bearer, command, make_key, rest_call, run

PAGE = {"Accept": "text/html"}


def status(team: TeamRun, key: str, path: str = "/sessions.json") -> int:
    return httpx.get(team.ours + path, headers=bearer(key)).status_code


@pytest.mark.parametrize("path", ["/", "/sessions.json", "/tools", "/mcp", "/metrics", "/events", "/openapi.json"])
def test_without_a_key_nothing_is_served(team: TeamRun, path: str) -> None:
    for headers in ({}, bearer("slk_0123456789abcdef_" + "x" * 43), {"Authorization": f"Basic {team.key}"}):
        answer = httpx.get(team.ours + path, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"


def test_a_page_of_another_site_is_refused_even_with_a_key(team: TeamRun) -> None:
    for foreign in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}):
        for method, path in (("POST", "/mcp"), ("POST", "/sign-in"), ("GET", "/sessions.json")):
            answer = httpx.request(method, team.ours + path, headers={**bearer(team.key), **foreign})
            assert answer.status_code == 403


def test_the_database_holds_no_key(team: TeamRun) -> None:
    secret = team.key.rpartition("_")[2]
    with psycopg.connect(team.store) as db:
        kept = db.execute("SELECT id, name, encode(hash, 'escape') FROM api_keys").fetchall()
    assert kept
    assert secret not in json.dumps(kept)


def test_a_revoked_key_ends_and_a_rotated_one_overlaps(team: TeamRun) -> None:
    old = make_key(team.home, team.store, "read", name="Ana")
    key_id = old.split("_")[1]
    assert status(team, old) == 200
    new = command(team.home, team.store, "keys", "rotate", key_id[:8], "--json")
    assert (new["name"], new["scopes"], new["state"]) == ("Ana", ["read"], "valid")
    assert status(team, new["api_key"]) == status(team, old) == 200
    listed = {key["id"]: key for key in command(team.home, team.store, "keys", "list", "--json")["keys"]}
    assert listed[key_id]["state"] == "ending"
    assert listed[key_id]["used_at"] is not None
    table = run(team.home, team.store, "keys", "list").stdout
    assert "ENDS" in table
    assert listed[key_id]["revoked_at"] in table
    command(team.home, team.store, "keys", "revoke", key_id, "--json")
    eventually(lambda: status(team, old) == 401)
    assert status(team, new["api_key"]) == 200


def test_commands_say_what_is_wrong_with_a_key(team: TeamRun) -> None:
    unknown = run(team.home, team.store, "keys", "revoke", "ffff")
    assert unknown.returncode != 0
    assert "shiftlog keys list shows the ids" in unknown.stderr
    scope = run(team.home, team.store, "keys", "create", "x", "--scope", "everything")
    assert scope.returncode == 2
    table = run(team.home, team.store, "keys", "list")
    assert table.stdout.startswith("KEY")
    assert team.key not in table.stdout


def signed_in(base: str, key: str, **headers: str) -> httpx.Response:
    return httpx.post(f"{base}/sign-in", data={"key": key}, headers=headers)


def test_a_person_signs_in_with_a_key_and_the_cookie_works_at_every_replica(team: TeamRun) -> None:
    sent_away = httpx.get(team.ours + "/", headers=PAGE)
    assert (sent_away.status_code, sent_away.headers["location"]) == (303, "/sign-in")
    assert "API key" in httpx.get(team.ours + "/sign-in").text
    assert signed_in(team.ours, "slk_wrong").status_code == 401
    entered = signed_in(team.ours, team.reader, **{"X-Forwarded-Proto": "https"})
    morsel: Any = SimpleCookie(entered.headers["set-cookie"])["shiftlog_team"]
    assert morsel["httponly"]
    assert morsel["secure"]
    assert morsel["samesite"] == "strict"
    assert team.reader not in morsel.value
    cookie = {"Cookie": f"shiftlog_team={morsel.value}"}
    for base in (team.ours, team.theirs):
        page = httpx.get(f"{base}/", headers={**PAGE, **cookie})
        assert page.status_code == 200
        assert 'name="csrf"' not in page.text
    forged = morsel.value[:-1] + ("0" if morsel.value[-1] != "0" else "1")
    assert httpx.get(team.ours + "/sessions.json", headers={"Cookie": f"shiftlog_team={forged}"}).status_code == 401
    assert httpx.post(f"{team.ours}/sign-out", headers=cookie).headers["set-cookie"].startswith('shiftlog_team=""')


def test_a_cookie_ends_with_its_key(team: TeamRun) -> None:
    key = make_key(team.home, team.store, "read")
    cookie = {"Cookie": signed_in(team.theirs, key).headers["set-cookie"].partition(";")[0]}
    assert httpx.get(team.theirs + "/sessions.json", headers=cookie).status_code == 200
    command(team.home, team.store, "keys", "revoke", key.split("_")[1], "--json")
    eventually(lambda: httpx.get(team.theirs + "/sessions.json", headers=cookie).status_code == 401)


def test_an_expired_key_is_refused(team: TeamRun) -> None:
    made = command(team.home, team.store, "keys", "create", "short", "--scope", "write", "--days", "1", "--json")
    with psycopg.connect(team.store, autocommit=True) as db:
        db.execute("UPDATE api_keys SET expires_ms = 1 WHERE id = %s", (made["id"],))
    assert rest_call(team.ours, made["api_key"], "open_session", agent="Codex", title="x").status_code == 401
