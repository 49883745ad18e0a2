"""Fixtures of the page: served places with something to look at, and a real browser where there is one."""

import os
import shutil
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from tests.web.server import PageServer, serving
from tests.web.stories import Day, record_day

# A shared machine stalls now and then; the limit of a whole test still holds.
PATIENCE_MS = 40_000
expect.set_options(timeout=PATIENCE_MS)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[PageServer]:
    with serving(tmp_path_factory.mktemp("page") / "home") as server:
        yield server


@pytest.fixture(scope="module")
def day(server: PageServer) -> Day:
    return record_day(server)


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium here; Debian's package of that name has it")
    # Inside a container the sandbox of Chromium has nothing to stand on, and root may not use it.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Generator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB", timezone_id="UTC")
    context.set_default_timeout(PATIENCE_MS)
    yield context
    context.close()


@pytest.fixture(scope="session")
def pictures() -> Path:
    folder = Path(__file__).parents[2] / "build" / "page"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def person(server: PageServer, day: Day) -> Generator[httpx.Client]:
    """Return a client that came by a link, as a browser does."""
    with httpx.Client(base_url=server.base, timeout=30, follow_redirects=False) as client:
        assert client.get(server.link()).status_code == 200
        yield client
