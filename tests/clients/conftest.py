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
FOUND = pytest.StashKey[dict[str, dict[str, Outcome]]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.clients)


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
    root = tmp_path_factory.mktemp("c")
    for name in ("home", "work", "state"):
        (root / name).mkdir()
    with serving(Script()) as model:
        yield ClientHarness(root=root, model=model)
        end_daemon(root / "state")


@pytest.fixture
def claude(harness: ClientHarness) -> ClientHarness:
    """A harness whose Claude Code has our plugin."""
    _needs("claude")
    harness.shiftlog("setup", "claude", "--write")
    harness.warm()
    return harness


@pytest.fixture
def codex(harness: ClientHarness) -> ClientHarness:
    """A harness whose Codex has our hooks and our server."""
    _needs("codex")
    harness.write_codex_config()
    harness.shiftlog("setup", "codex", "--write")
    harness.warm()
    return harness


@pytest.fixture
def gemini(harness: ClientHarness) -> ClientHarness:
    """A harness whose Gemini CLI has our server."""
    _needs("gemini")
    harness.write_gemini_settings()
    harness.shiftlog("setup", "gemini", "--write")
    harness.warm()
    return harness


@pytest.fixture
def opencode(harness: ClientHarness) -> ClientHarness:
    """A harness whose OpenCode has our server."""
    _needs("opencode")
    harness.write_opencode_config()
    harness.warm()
    return harness


def _needs(name: str) -> None:
    if program_of(name) is None:
        pytest.skip(f"{PINS[name]['title']} is not installed below build/clients; make test-clients installs it")
