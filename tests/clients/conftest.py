"""Every test of a client is marked, has folders of its own, and leaves no daemon behind.

With `SHIFTLOG_CLIENT_RESULTS=1`, as `make test-clients` sets it, the results file gets what each test found.
"""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.clients.features import Outcome, client_of, write_results
from tests.clients.harness import ClientHarness
from tests.clients.installing import PINS, program_of, version_of
from tests.clients.model import serving
from tests.clients.script import Script
from tests.daemon.support import end_daemon

HERE = Path(__file__).parent
# Some tests run a client with dozens of commands, also on a busy machine.
TEST_S = 900
FOUND = pytest.StashKey[dict[str, dict[str, Outcome]]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.clients)
            item.add_marker(pytest.mark.timeout(TEST_S))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    mark, client = item.get_closest_marker("tries"), client_of(item)
    if mark is not None and client is not None and (report.when == "call" or report.failed):
        found = item.config.stash.setdefault(FOUND, {}).setdefault(client, {})
        name = f"{item.path.name}::{item.name}"
        if name not in found or report.failed:
            found[name] = {"tries": mark.args[0], "outcome": report.outcome}
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    found = session.config.stash.get(FOUND, None)
    if found and os.environ.get("SHIFTLOG_CLIENT_RESULTS"):
        write_results(found, {client: version_of(client) for client in found})


@pytest.fixture
def harness(tmp_path_factory: pytest.TempPathFactory) -> Generator[ClientHarness]:
    yield from _harness(tmp_path_factory)


@pytest.fixture
def other_harness(tmp_path_factory: pytest.TempPathFactory) -> Generator[ClientHarness]:
    """A second harness, with a home, a daemon and a model of its own."""
    yield from _harness(tmp_path_factory)


def _harness(folders: pytest.TempPathFactory) -> Generator[ClientHarness]:
    root = folders.mktemp("c")
    for name in ("home", "work", "state"):
        (root / name).mkdir()
    with serving(Script()) as model:
        harness = ClientHarness(root=root, model=model)
        yield harness
        harness.end_clients()
        end_daemon(root / "state")


@pytest.fixture
def outside() -> Generator[Path]:
    """A file that no sandbox may write, gone afterwards if one did; /tmp would be the sandbox's own."""
    path = Path(f"/etc/shiftlog-test-{os.getpid()}")
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def claude(harness: ClientHarness) -> ClientHarness:
    """A harness whose Claude Code has our plugin."""
    return _set_up(harness, "claude")


@pytest.fixture
def codex(harness: ClientHarness) -> ClientHarness:
    """A harness whose Codex has our hooks and our server."""
    return _set_up(harness, "codex")


@pytest.fixture
def gemini(harness: ClientHarness) -> ClientHarness:
    """A harness whose Gemini CLI has our hooks and our server."""
    return _set_up(harness, "gemini")


@pytest.fixture
def opencode(harness: ClientHarness) -> ClientHarness:
    """A harness whose OpenCode has our plugin and our server."""
    return _set_up(harness, "opencode")


def _set_up(harness: ClientHarness, agent: str) -> ClientHarness:
    _needs(agent)
    harness.set_up(agent)
    return harness


def _needs(name: str) -> None:
    if program_of(name) is None:
        pytest.skip(f"{PINS[name]['title']} is not installed below build/clients; make test-clients installs it")
