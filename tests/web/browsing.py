"""A browser that came in by a link, and the complaints that its page makes."""

from playwright.sync_api import BrowserContext, ConsoleMessage, Page

from tests.web.server import PageServer

# The rules of accessibility that every page keeps.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def came_in(context: BrowserContext, server: PageServer, path: str = "/") -> tuple[Page, list[str]]:
    """Return a page that came in by a link and shows a path, and the list that collects what it refuses or fails at."""
    page = context.new_page()
    complaints: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    page.on("console", listen)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(server.link())
    page.wait_for_url(f"{server.base}/")
    if path != "/":
        page.goto(f"{server.base}{path}")
    return page, complaints
