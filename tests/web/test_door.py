"""Access to the page: links that open once, cookies, the token, and requests without any of them."""

import re
from pathlib import Path

import httpx
import pytest
from starlette.datastructures import Headers

from shiftlog.daemon.http import open_token
from shiftlog.model.limits import PAGE_CODE_S, PAGE_COOKIE_S
from shiftlog.web.door import CODES_KEPT, Door
from tests.web.server import PageServer
from tests.web.stories import Day


class Clocks:
    """Time that tests move."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def door_at(clocks: Clocks, token: str = "correct-horse") -> Door:
    return Door(token, clock=clocks, wall=clocks)


def carrying(door: Door, cookie: str) -> Headers:
    return Headers({"cookie": f"{door.cookie_name}={cookie}"})


def test_a_code_opens_once() -> None:
    door = door_at(Clocks())
    code = door.issue_code()
    cookie = door.exchange(code)
    assert cookie is not None
    assert door.admits(carrying(door, cookie))
    assert door.exchange(code) is None


def test_a_code_opens_for_a_minute() -> None:
    clocks = Clocks()
    door = door_at(clocks)
    code = door.issue_code()
    clocks.now += PAGE_CODE_S
    assert door.exchange(code) is None


def test_a_cookie_lasts_a_day_and_outlives_the_daemon() -> None:
    clocks = Clocks()
    door = door_at(clocks)
    cookie = door.exchange(door.issue_code())
    assert cookie is not None
    clocks.now += PAGE_COOKIE_S - 1
    assert door_at(clocks).admits(carrying(door, cookie))
    clocks.now += 1
    assert not door_at(clocks).admits(carrying(door, cookie))


@pytest.mark.parametrize("change", ["", "x", "ffffffff.x.y", "..", "zz.zz.zz", "ffffffff.\u00e9.00"])
def test_a_cookie_that_was_not_given_here_is_none(change: str) -> None:
    door = door_at(Clocks())
    assert not door.admits(carrying(door, change))


def test_a_cookie_cannot_be_prolonged() -> None:
    clocks = Clocks()
    door = door_at(clocks)
    cookie = door.exchange(door.issue_code())
    assert cookie is not None
    expiry, _, rest = cookie.partition(".")
    assert not door.admits(carrying(door, f"{int(expiry, 16) + 1:x}.{rest}"))


def test_a_cookie_of_another_state_directory_opens_nothing() -> None:
    clocks = Clocks()
    ours, theirs = door_at(clocks), door_at(clocks, "battery-staple")
    cookie = theirs.exchange(theirs.issue_code())
    assert cookie is not None
    assert ours.cookie_name != theirs.cookie_name
    assert not ours.admits(Headers({"cookie": f"{ours.cookie_name}={cookie}"}))


def test_only_so_many_codes_wait_at_once() -> None:
    door = door_at(Clocks())
    first = door.issue_code()
    later = [door.issue_code() for _ in range(CODES_KEPT)]
    assert door.exchange(first) is None
    assert door.exchange(later[-1]) is not None


def test_a_door_without_token_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="empty token"):
        Door("")


# Over the wire


def test_the_link_gives_a_cookie_that_scripts_and_other_sites_never_see(server: PageServer) -> None:
    with httpx.Client() as client:
        answer = client.get(server.link())
        assert answer.status_code == 200
        given = answer.headers["set-cookie"]
        assert "HttpOnly" in given
        assert re.search("samesite=strict", given, re.I)
        assert "Path=/" in given
        assert client.get(f"{server.base}/").status_code == 200


def test_a_link_that_was_used_says_how_to_get_another(server: PageServer) -> None:
    link = server.link()
    assert httpx.get(link).status_code == 200
    again = httpx.get(link)
    assert again.status_code == 401
    assert "shiftlog open" in again.text
    assert "set-cookie" not in again.headers


def test_looking_at_the_headers_of_a_link_does_not_use_it_up(server: PageServer) -> None:
    link = server.link()
    looked = httpx.head(link)
    assert (looked.status_code, looked.headers.get("set-cookie")) == (200, None)
    assert "set-cookie" in httpx.get(link).headers


PAGES = [
    "/",
    "/sessions.json",
    "/usage",
    "/usage.csv",
    "/events",
    "/openapi.json",
    "/sessions/x",
    "/outputs/x",
    "/nothing",
]


@pytest.mark.parametrize("path", PAGES)
def test_without_cookie_and_token_nothing_is_shown(server: PageServer, path: str) -> None:
    answer = httpx.get(server.base + path)
    assert answer.status_code == 401


@pytest.mark.parametrize("path", PAGES[:3])
@pytest.mark.parametrize("given", ["Bearer wrong", "Basic dXNlcjpwYXNz", "Bearer", "Bearer \u00e9"])
def test_a_wrong_token_is_refused(server: PageServer, path: str, given: str) -> None:
    answer = httpx.get(server.base + path, headers={b"Authorization": given.encode()})
    assert answer.status_code == 401


def test_the_token_of_another_state_directory_is_refused(server: PageServer, tmp_path: Path) -> None:
    answer = httpx.get(f"{server.base}/sessions.json", headers={"Authorization": f"Bearer {open_token(tmp_path)}"})
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "unauthorized"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
    ],
)
def test_a_foreign_host_or_page_is_refused_even_with_the_token(server: PageServer, headers: dict[str, str]) -> None:
    with server.client(**headers) as client:
        for path in ("/", "/sessions.json", "/static/style.css", "/open?code=x"):
            assert client.get(path).status_code == 403, path


def test_the_page_itself_may_ask(server: PageServer) -> None:
    with server.client(**{"Origin": server.base, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}) as client:
        assert client.get("/sessions.json").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/..%2f..%2f__init__.py",
        "/static/%2e%2e/routes.py",
        "/static//etc/passwd",
        "/static/..%5cdoor.py",
        "/static/.hidden",
    ],
)
def test_files_of_others_cannot_be_named(server: PageServer, path: str) -> None:
    with server.client() as client:
        # As bytes, so that the client does not tidy the path first.
        answer = client.send(client.build_request("GET", httpx.URL(server.base).copy_with(raw_path=path.encode())))
    assert answer.status_code in (401, 403), answer.text[:200]


@pytest.mark.parametrize("command_id", ["../../../etc/passwd#1", "..#1", "/etc/passwd#1", "x#1/../../y"])
def test_outputs_are_found_by_id_and_never_by_path(server: PageServer, command_id: str) -> None:
    with server.client(Accept="application/json") as client:
        answer = client.get(f"/outputs/{command_id.replace('/', '%2F').replace('#', '%23')}")
    assert answer.status_code in (400, 403, 404)
    assert "root:" not in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_the_page_only_reads(server: PageServer, day: Day, method: str) -> None:
    with server.client() as client:
        for path in ("/", f"/sessions/{day.session_id}", "/usage"):
            assert client.request(method, path).status_code == 405


def test_every_answer_has_a_strict_policy(server: PageServer, day: Day) -> None:
    with server.client() as client:
        for path in ("/", f"/sessions/{day.session_id}", "/usage.csv", "/static/page.js", "/nothing", "/sessions.json"):
            headers = client.get(path).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "same-origin"
